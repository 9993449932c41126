"""Search spaces: the named fit every learner, one's own are checked on the learner's options."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.cli.learners import entries, learner_called
from convgym.errors import InvalidConfiguration
from trainers.tuning.learner_runs import LearnerRuns
from trainers.tuning.plan import planned
from trainers.tuning.ranges import Range
from trainers.tuning.spaces import NAMED, space_for, turns_of

STUB = {"algorithm": "stub"}
NEEDED = {"offline": "torch", "sb3": "sb3_contrib", "llm": "transformers"}
"""By a learner's extra."""


def subject(algorithm="stub", **more):
    pytest.importorskip("torch") if algorithm != "stub" else None
    return LearnerRuns({"algorithm": algorithm, **more})


@pytest.mark.parametrize("name", sorted(entries()))
def test_every_named_space_fits_every_learner_of_its_family(name):
    pytest.importorskip(NEEDED.get(learner_called(name).extra, "numpy"))
    it = subject(name)
    for space in NAMED:
        if space in ("grpo", "offline", "online") and space != it.family:
            with pytest.raises(InvalidConfiguration, match="is for other learners"):
                space_for(space, it)
            continue
        found = space_for(space, it)  # tries each end on the learner's own dataclass
        assert found and set(found) <= set(it.names())
        for option, values in found.items():
            assert Range.of(values.to_dict(), it.hint(option), option) == values


def width(values):
    return values.ends[1] / values.ends[0] if values.log else values.ends[1] - values.ends[0]


def test_conservative_is_within_the_family_and_aggressive_around_it():
    it = subject()
    near, usual, far = (space_for(name, it) for name in ("conservative", "online", "aggressive"))
    assert list(near) == list(usual) == list(far)
    for name in usual:
        assert width(near[name]) < width(usual[name]) < width(far[name])
        least, most = near[name].ends
        assert least <= it.default(name) <= most
        assert usual[name].ends[0] <= least < most <= usual[name].ends[1]
    assert set(space_for("full", it)) > set(usual)


@pytest.mark.parametrize("domain", ["customer_service", "technical_support", "sales"])
def test_a_domains_space_reaches_as_far_as_its_conversations(domain):
    pytest.importorskip("torch")
    space = space_for(domain, subject("cql"))
    low, high = space["learner.discount"].ends
    assert low ** turns_of(domain) == pytest.approx(0.5, abs=1e-3)
    assert high ** turns_of(domain) == pytest.approx(0.98, abs=2e-3)
    assert turns_of(domain) in space["learner.n_step"].choices


def plan_of(given, space):
    return planned(given, space, metric="success", pruner="median", sampler="tpe")


def test_a_domains_space_brings_its_environment_and_refuses_another():
    assert plan_of(STUB, "sales").given["env"] == "ConvGym/Sales-v0"
    with pytest.raises(InvalidConfiguration, match="is for ConvGym/Sales-v0, and the run is in"):
        plan_of({**STUB, "env": "ConvGym/TechnicalSupport-v0"}, "sales")


OWN = {"learning_rate": {"range": [0.1, 3], "log": True}, "left_out": {"choices": [["turn"], []]}}


@pytest.mark.parametrize("suffix", [".toml", ".yaml", ".json", ""])
def test_a_space_of_ones_own(suffix, tmp_path):
    text = {
        ".toml": 'learning_rate = {range=[0.1, 3], log=true}\nleft_out.choices = [["turn"], []]',
        ".yaml": "learning_rate: {range: [0.1, 3], log: true}\nleft_out: {choices: [[turn], []]}",
        ".json": json.dumps(OWN),
    }  # fmt: skip
    space = OWN
    if suffix:
        space = tmp_path / f"space{suffix}"
        space.write_text(text[suffix])
    assert space_for(space, subject()) == {
        "learner.learning_rate": Range(ends=(0.1, 3.0), log=True),
        "learner.left_out": Range(choices=(["turn"], [])),
    }


MISTAKES = {
    "ofline": ("ofline", "did you mean offline"),
    "a file that there is not": ("nothing.toml", "cannot be read"),
    "empty": ({}, "is empty"),
    "an option": ({"learning_rat": {"range": [1, 2]}}, "did you mean learning_rate"),
    "a whole name": ({"learner.most_gian": {"range": [1, 2]}}, "did you mean learner.most_gain"),
    "twice": ({"most_gain": {"range": [1, 2]}, "learner.most_gain": {"range": [1, 2]}}, "twice"),
    "a list": ({"most_gain": [1, 2]}, "write it as"),
    "both": ({"most_gain": {"range": [1, 2], "choices": [1, 2]}}, "write it as"),
    "a key": ({"most_gain": {"range": [1, 2], "lgo": True}}, "did you mean learner.most_gain.log"),
    "upside down": ({"most_gain": {"range": [2, 1]}}, "first end is the lower"),
    "three ends": ({"most_gain": {"range": [1, 2, 3]}}, "two ends"),
    "words": ({"most_gain": {"range": ["low", "high"]}}, "takes a number"),
    "log from 0": ({"most_gain": {"range": [0, 1], "log": True}}, "begins above 0"),
    "half a step": ({"most_gain": {"range": [1, 2], "step": 0.3}}, "whole number of steps"),
    "no number": ({"left_out": {"range": [1, 2]}}, "is no number"),
    "one choice": ({"most_gain": {"choices": [1]}}, "two or more"),
    "equal choices": ({"most_gain": {"choices": [1, 1.0]}}, "there twice"),
    "a choice": ({"most_gain": {"choices": [1, "x"]}}, "takes a number"),
    "out of range": ({"baseline_rate": {"range": [0.1, 2]}}, "goes to learner.baseline_rate=2.0"),
    "the seed": ({"seed": {"choices": [1, 2]}}, "there is no 'seed'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name):
    space, says = MISTAKES[name]
    with pytest.raises(InvalidConfiguration, match=says) as caught:
        space_for(space, subject())
    assert "\n" not in str(caught.value)


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-4, 1.0), st.floats(1.01, 100.0), st.floats(0, 1), st.booleans())
def test_what_is_stored_is_within_and_readable(low, factor, place, log):
    high = low * factor
    value = low + place * (high - low)
    it = Range(ends=(low, high), log=log)
    kept = it.stored(value)
    assert low <= kept <= high and kept == pytest.approx(value, rel=1e-3)
    assert kept in (low, high) or kept == float(f"{kept:.4g}")
    assert it.stored(low / 2) is None and it.stored(high * 2) is None
