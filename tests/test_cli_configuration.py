"""Configurations of runs: typed, whole, and one sentence for each mistake."""

from dataclasses import dataclass, field, fields
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from convgym.cli.learners import PROFILES, Learner, entries, learner_called
from convgym.cli.main import app
from convgym.cli.run_config import (
    RunConfig,
    assignments,
    get_config_for_task,
    merged,
    resolved,
)
from convgym.cli.typed import documented, record, typed
from convgym.cli.yaml_text import parsed, read_yaml, to_yaml
from convgym.errors import InvalidConfiguration

LEARNERS = sorted(entries())
EXTRAS = {"offline": "torch", "sb3": "sb3_contrib", "llm": "transformers"}


def needs(name):
    """Skips where a learner's extra is not installed."""
    pytest.importorskip(
        EXTRAS.get(learner_called(name).extra, "numpy"), reason="this learner needs an extra"
    )


# -- values of a type ------------------------------------------------------------------------------


class Colour(Enum):
    red = "red"
    blue = "blue"


@dataclass
class Inner:
    depth: int = 1


@dataclass
class Outer:
    """What all kinds of fields look like."""

    count: int = 0
    """How many; more cost more
    time."""
    share: float = 0.0
    on: bool = False
    name: str | None = None
    sizes: tuple[int, ...] = ()
    pair: tuple[int, str] = (0, "")
    kind: Literal["a", "b"] = "a"
    colour: Colour = Colour.red
    place: Path = Path(".")
    more: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    either: int | str | None = None


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("count", 3, 3),
        ("count", 3.0, 3),
        ("count", "1e3", 1000),
        ("share", 1, 1.0),
        ("share", "1e-3", 0.001),
        ("on", True, True),
        ("name", None, None),
        ("name", "x", "x"),
        ("sizes", [1, 2], (1, 2)),
        ("pair", [1, "x"], (1, "x")),
        ("kind", "b", "b"),
        ("colour", "blue", Colour.blue),
        ("place", "a/b", Path("a/b")),
        ("more", {"x": [1]}, {"x": [1]}),
        ("inner", {"depth": 4}, Inner(4)),
        ("either", "x", "x"),
        ("either", 2, 2),
    ],
)
def test_values_become_what_the_field_says(name, value, expected):
    found = getattr(record(Outer, {name: value}), name)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"count": 1.5}, "count='1.5'; it takes a whole number$"),
        ({"count": 10**20}, "a whole number from -9,007,199,254,740,991 to"),
        ({"name": date(2024, 1, 1)}, "put it in quotes"),
        ({"count": True}, "a whole number"),
        ({"count": "many"}, "a whole number"),
        ({"share": float("nan")}, "a number"),
        ({"share": True}, "a number"),
        ({"on": 1}, "true or false"),
        ({"on": "yes"}, "true or false"),
        ({"name": 7}, r"a text \(put it in quotes\) or nothing \(null\)"),
        ({"sizes": 64}, "a list"),
        ({"sizes": [1, "x"]}, r"sizes\[1\]='x'; it takes a whole number"),
        ({"pair": [1]}, "a list of 2"),
        ({"kind": "c"}, "one of a, b"),
        ({"colour": "green"}, "one of red, blue"),
        ({"place": 3}, "a path"),
        ({"more": [1]}, "names and values"),
        ({"more": {1: 2}}, "names and values"),
        ({"inner": {"dept": 4}}, "there is no 'inner.dept'; did you mean inner.depth"),
        ({"inner": 3}, "names and values"),
        ({"cuont": 3}, "did you mean count"),
        ({"depth": 3}, "there is no 'depth'"),
        ({"zzz": 3}, "there are count, share"),
    ],
)
def test_what_is_no_such_value_is_refused_in_a_sentence(given_, says):
    with pytest.raises(InvalidConfiguration, match=says):
        record(Outer, given_)


ODD = st.sampled_from(
    [
        None,
        True,
        0,
        -7,
        2**70,
        0.5,
        1e400,
        float("nan"),
        "",
        "1e3",
        "inf",
        "null",
        "a",
        "\ud800",
        b"x",
    ]
)
VALUES = (
    ODD | st.lists(ODD, max_size=3) | st.dictionaries(ODD, ODD | st.just({"depth": 2}), max_size=2)
)


@settings(deadline=None)
@given(VALUES, st.sampled_from([one.name for one in fields(Outer)]))
def test_any_value_is_taken_or_refused(value, name):
    try:
        record(Outer, {name: value})
    except InvalidConfiguration as error:
        assert "\n" not in str(error)


def test_words_under_fields_are_found():
    assert documented(Outer)["count"] == "How many; more cost more time."
    assert documented(Outer)["share"] == ""
    assert typed("x", Any, "there") == "x"


# -- YAML ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "no YAML"),
        ("a: 1\nb: 2\na: 3", "'a' stands there twice"),
        ("a: &x [1]\nb: *x", "no .references"),
        ("a: !!python/object:os.system x", "no YAML"),
        ("- 1\n- 2", "no names and values"),
        ("", "no names and values"),
        ("[" * 5000, "no YAML"),
        ("a: \x00", "no YAML"),
        ("a: 1\n? [a, b]\n: 3", "line 2: a name is a text"),
        ("a: 017", "line 1: '017' is another number in YAML"),
        ("a: -1:30", "another number"),
        ("a: 1:30.5", "another number"),
        ("a: " + "9" * 5000, "no YAML: Exceeds the limit[^;]*$"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(text, says, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(InvalidConfiguration, match=says):
        read_yaml(path)


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        read_yaml(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidConfiguration, match="no text"):
        read_yaml(tmp_path / "bytes.yaml")
    (tmp_path / "long.yaml").write_bytes(b"a: 1 #" + b"x" * (1 << 20))
    with pytest.raises(InvalidConfiguration, match="no configuration"):
        read_yaml(tmp_path / "long.yaml")


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_yaml_or_refused(text):
    try:
        parsed(text, "here")
    except InvalidConfiguration as error:
        assert str(error).startswith("here is no YAML")


def test_a_file_without_end_is_not_read_to_its_end():
    with pytest.raises(InvalidConfiguration, match="more than 1,048,576 bytes"):
        read_yaml(Path("/dev/zero"))


def test_numbers_are_what_they_look_like(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("a: 0\nb: -7\nc: 0.5\nd: 1_000\ne: 0x10\nf: +3\n")
    found = read_yaml(path)
    assert list(found.values())[:6] == [0, -7, 0.5, 1000, 16, 3]


def test_assignments_are_nested_and_typed():
    found = assignments(["learner.discount=0.9", "steps=10", "learner.hidden=[8, 8]", "name=x",
                         "env_keywords.persona={patience: 0.9}"])  # fmt: skip
    assert found == {
        "learner": {"discount": 0.9, "hidden": [8, 8]}, "steps": 10, "name": "x",
        "env_keywords": {"persona": {"patience": 0.9}},
    }  # fmt: skip


@pytest.mark.parametrize("text", ["steps", "=3", "a b=3", "a..b=3", "a.=3", "x=[1"])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(InvalidConfiguration):
        assignments([text])


def test_merged_is_mapping_by_mapping():
    below = {"a": {"x": 1, "y": 2}, "b": 1}
    assert merged(below, {"a": {"y": 3}, "c": {}}) == {"a": {"x": 1, "y": 3}, "b": 1, "c": {}}
    assert below == {"a": {"x": 1, "y": 2}, "b": 1}


# -- whole configurations --------------------------------------------------------------------------


def test_every_algorithm_has_a_name():
    from_registry = {"bc", "bcq", "bear", "cql", "candidate_cql", "decision_transformer", "iql",
                     "mc", "offline_dqn"}  # fmt: skip
    online = {"ppo", "maskable_ppo", "recurrent_ppo", "dqn", "qr_dqn", "a2c", "trpo"}
    assert from_registry | online | {"stub"} <= set(LEARNERS)


def test_the_names_are_those_of_the_registries():
    pytest.importorskip("torch")
    from trainers.offline.registry import ACTS
    from trainers.online.configurations import CONFIGURATIONS

    assert {*ACTS} - {"dqn"} <= set(LEARNERS) and set(CONFIGURATIONS) <= set(LEARNERS)


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_resolved_resolves_to_itself(name):
    needs(name)
    learner = learner_called(name)
    assert isinstance(learner, Learner) and learner.name == name
    told = []
    for profile in PROFILES:
        config = resolved({"algorithm": name, "profile": profile})
        again = resolved(yaml.safe_load(to_yaml(config.to_dict())))
        assert again == config
        told.append(config.learner)
    assert all(told.count(one) == 1 for one in told), "two profiles are alike"


def test_later_layers_win():
    pytest.importorskip("torch")
    tuned = resolved({"algorithm": "cql"})
    bold = resolved({"algorithm": "cql", "profile": "aggressive"})
    own = resolved({"algorithm": "cql", "profile": "aggressive", "learner": {"cql_alpha": 7}})
    assert (tuned.learner["cql_alpha"], bold.learner["cql_alpha"]) == (0.5, 0.2)
    assert own.learner == {**bold.learner, "cql_alpha": 7.0}
    assert tuned.learner["bc_weight"] == 0.3  # of trainers.offline.tuned, not of the class


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({}, "nothing says what is to learn"),
        ({"algorithm": "sttub"}, "did you mean 'stub'"),
        ({"baseline_rate": 0.2}, "did you mean learner.baseline_rate"),
        ({"learner": {"step": 2}}, "there is no 'learner.step'"),
        ({"learner": {"seed": 2}}, "did you mean seed"),
        ({"learner": {"learning_rate": -1}}, "above 0"),
        ({"learner": {"learning_rate": "fast"}}, "learner.learning_rate='fast'; it takes a number"),
        ({"learner": 3}, "names and values"),
        ({"evaluation": {"evry": 2}}, "did you mean evaluation.every"),
        ({"every": 2}, "did you mean evaluation.every"),
        ({"evaluation": {"episodes": 1}}, "2 conversations or more"),
        ({"evaluation": {"split": "tset"}}, "one of train, validation, test"),
        ({"steps": 0}, "1 or more"),
        ({"seed": -1}, "0 or more"),
        ({"best": 0.5}, "best=0.5 is a share of recorded conversations"),
        ({"name": "x" * 101}, "at most 100 letters"),
        ({"name": "nul.txt"}, "is no device's"),
        ({"profile": "bold"}, "one of conservative"),
        ({"profile": 3}, "a text"),
        ({"name": "../x"}, "a run's name"),
        ({"dataset": "convgym/sales/mixed-v0"}, "takes no dataset"),
    ],
)
def test_a_mistake_in_a_configuration_is_one_sentence(given_, says):
    base = {"algorithm": "stub"} if given_ else {}
    with pytest.raises(InvalidConfiguration, match=says):
        resolved({**base, **given_})


def test_recorded_conversations_go_with_the_environment():
    pytest.importorskip("torch")
    assert resolved({"algorithm": "bc"}).dataset == "convgym/customer-service/mixed-v0"
    sales = resolved({"algorithm": "bc", "env": "ConvGym/Sales-v0"})
    assert sales.dataset == "convgym/sales/mixed-v0"
    with pytest.raises(InvalidConfiguration, match="none are known of 'CartPole-v1'"):
        resolved({"algorithm": "bc", "env": "CartPole-v1"})


def test_what_is_known_to_work_for_a_task():
    config = get_config_for_task("technical-support", "stub", profile="aggressive", seed=3)
    assert isinstance(config, RunConfig)
    assert (config.env, config.seed) == ("ConvGym/TechnicalSupport-v0", 3)
    assert config.env_keywords == {"reward": "graded", "difficulty": 0.0}
    assert config.learner["learning_rate"] == 2.0
    for name in ("hotel", None, 3):
        with pytest.raises(InvalidConfiguration, match="customer_service, technical_support, sale"):
            get_config_for_task(name, "stub")
    with pytest.raises(InvalidConfiguration, match="the task 'sales' is of ConvGym/Sales-v0"):
        get_config_for_task("sales", "stub", env="ConvGym/CustomerService-v0")


def test_a_section_with_nothing_under_it_is_empty():
    whole = resolved({"algorithm": "stub"})
    assert resolved({"algorithm": "stub", "learner": None, "evaluation": None}) == whole


# -- init ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNERS)
def test_the_starter_is_the_resolved_configuration_with_words(name, tmp_path):
    needs(name)
    path = tmp_path / "config.yaml"
    done = CliRunner().invoke(app, ["init", "--path", str(path), "--algorithm", name])
    assert done.exit_code == 0, done.output
    assert resolved(read_yaml(path)) == resolved({"algorithm": name})
    text = path.read_text("utf-8")
    assert "# Of all chance." in text and max(map(len, text.splitlines())) <= 100
    assert [one.name for one in tmp_path.iterdir()] == ["config.yaml"]


def test_a_file_that_is_there_is_left_alone(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("mine")
    done = CliRunner().invoke(app, ["init", "--path", str(path)])
    assert done.exit_code == 2 and "already" in done.stderr and path.read_text() == "mine"
    assert CliRunner().invoke(app, ["init", "--path", str(path), "--force"]).exit_code == 0
    assert read_yaml(path)["algorithm"] == "stub"
    nowhere = CliRunner().invoke(app, ["init", "--path", str(tmp_path / "no/x.yaml")])
    assert nowhere.exit_code == 2 and "is no folder" in nowhere.stderr
