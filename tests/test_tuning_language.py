"""Searches for options of language models: what is searched, and that it is `convgym train`."""

import pytest

pytest.importorskip("transformers", reason="needs the extra llm")

from tiny_models import tiny_model, tiny_tokenizer
from typer.testing import CliRunner

from convgym.cli.learners import entries, learner_called
from convgym.cli.main import app
from convgym.cli.run_folder import read_metrics
from convgym.cli.yaml_text import read_yaml
from convgym.errors import InvalidConfiguration
from trainers.llm.language_model import LanguageModel
from trainers.tuning import quick_hpo
from trainers.tuning.learner_runs import LearnerRuns
from trainers.tuning.plan import planned
from trainers.tuning.spaces import space_for

LANGUAGE = [name for name in entries() if learner_called(name).extra == "llm"]


def plan_of(given, space):
    return planned(given, space, metric="success", pruner="median", sampler="tpe")


# -- what is searched ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_language_model_is_searched_about_what_it_has_anyway(name):
    """Else the first trial could not be the configuration as it is."""
    it = LearnerRuns({"algorithm": name})
    assert it.family == ("offline" if name == "sft" else "grpo")
    for space in (it.family, "full", "aggressive"):
        for option, values in space_for(space, it).items():
            assert values.stored(it.default(option)) is not None, (space, option)


def test_clips_are_searched_where_an_objective_has_two_ends():
    clips, without = ["learner.clip_low", "learner.clip_high"], set()
    for name in LANGUAGE:
        it = LearnerRuns({"algorithm": name})
        found = space_for(it.family, it)
        assert set(found) >= set(clips) or not set(found) & set(clips)
        if clips[0] not in found:
            without.add(name)
        elif name in ("gspo", "gspo_token"):
            assert found[clips[0]].ends[1] < 0.2  # of whole conversations
    assert without == {"cispo", "llm_a2c", "llm_trpo", "sft", "dpo"}
    own = {"clip_low": {"range": [0.1, 0.2]}}
    with pytest.raises(InvalidConfiguration, match="cispo has no clip of two ends"):
        space_for(own, LearnerRuns({"algorithm": "cispo"}))


def test_parts_of_options_have_names_of_their_own():
    grpo = {"algorithm": "grpo", "steps": 2}
    plan = plan_of(grpo, "grpo")
    it = plan.subject()
    changes = {"learner.sampling.temperature": 0.8, "learner.lora.rank": 4}
    made = it.configuration(changes)["learner"]
    assert made["sampling"] == {**plan.given["learner"]["sampling"], "temperature": 0.8}
    assert made["lora"]["rank"] == 4 and it.hint("learner.lora.rank") is int
    assert it.default("learner.lora") is None and it.default("learner.lora.rank") is None
    assert not [name for name in it.names() if name.endswith(".seed")]
    space = plan_of(grpo, {"lora.rank": {"choices": [4, 8]}}).space
    assert space == {"learner.lora.rank": {"choices": [4, 8]}}
    for space, says in (
        ({"sampling.temperatur": {"range": [0.5, 1]}}, "did you mean sampling.temperature"),
        ({"group_size": {"range": [1, 4]}}, "must be 2 or more"),
        ({"iterations": {"range": [1, 4]}}, "did you mean trust_region.iterations"),
        ({"seed": {"choices": [1, 2]}}, "there is no 'seed'"),
        ({"lora": {"choices": [None, {"rank": 4}]}, "lora.rank": {"range": [1, 4]}}, "is a part"),
    ):
        with pytest.raises(InvalidConfiguration, match=says):
            plan_of(grpo, space)


@pytest.mark.parametrize("name", ["grpo", "llm_ppo", "dpo"])
def test_a_domains_space_is_not_for_language_models_that_talk(name):
    with pytest.raises(InvalidConfiguration, match=f"{name} has no options for; take grpo, full"):
        plan_of({"algorithm": name}, "sales")


def test_a_domains_space_is_for_a_language_model_that_imitates():
    plan = plan_of({"algorithm": "sft"}, "sales")
    assert plan.given["dataset"] == "convgym/sales-text/expert-v0"
    assert set(plan.space) == {"best", "learner.learning_rate", "learner.batch_size"}


# -- whole searches --------------------------------------------------------------------------------

FEW = {"learner": {"seeds_per_iteration": 2, "group_size": 2}}
SEARCHED = {
    "grpo": (FEW, {"learning_rate": {"range": [1e-4, 1e-3], "log": True}}),
    "gspo": (FEW, {"sampling.temperature": {"choices": [0.9, 1.0]}}),
    "dpo": (
        {"learner": {"tasks": 8, "group_size": 8, "batch_size": 4}},
        {"beta": {"range": [0.03, 0.3], "log": True}},
    ),
    "sft": (
        {"learner": {"batch_size": 2, "sampling": {"max_context": 4096}},
         "dataset": "convgym/customer-service-text/sample-v0"},
        {"best": {"range": [0.04, 0.08]}},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def long_model(tmp_path_factory):
    """A tiny model with random weights that reads more tokens than the embedded one."""
    place, tokenizer = tmp_path_factory.mktemp("model") / "tiny", tiny_tokenizer()
    causal = tiny_model("llama", vocabulary=len(tokenizer), places=4096)
    LanguageModel(causal, tokenizer).save(place)
    return str(place)


def found_in(config, name):
    for part in name.split("."):
        config = config[part]
    return config


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", SEARCHED)
def test_its_options_are_searched_by_the_same_call(algorithm, tmp_path, long_model):
    pytest.importorskip("optuna", reason="needs the extra tune")
    config, space = SEARCHED[algorithm]
    if algorithm == "sft":
        config = {**config, "learner": {**config["learner"], "model": long_model}}
    found = quick_hpo(
        algorithm, space, trials=2, steps=2, episodes=4, config=config, folder=tmp_path
    )
    assert [one.state for one in found.trials] == ["finished"] * 2
    assert found.trials[0].changes != found.trials[1].changes
    assert all(set(one.heard) == {1, 2} for one in found.trials)  # while it learns, not before
    written = found.folder / "config.yaml"
    assert read_yaml(written) == found.config
    for name, value in found.best.changes.items():
        assert found_in(found.config, name) == value
    assert f"convgym train --config {written}" in (found.folder / "report.md").read_text()
    train = ["train", "--config", str(written), "--runs", str(tmp_path / "runs"), "--name", "it"]
    done = CliRunner().invoke(app, train)
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_returns_are_heard_where_returns_are_searched_for(tmp_path):
    pytest.importorskip("optuna", reason="needs the extra tune")
    found = quick_hpo(
        "grpo", SEARCHED["grpo"][1], trials=1, steps=1, episodes=8, metric="return", config=FEW,
        folder=tmp_path,
    )  # fmt: skip
    row = read_metrics(found.folder / "trials" / "0000" / "metrics.jsonl")[-1]
    assert row["validation_return"] != row["validation"]
    assert found.trials[0].heard == {1: row["validation_return"]}
