"""What is promised of the simulated user as a whole, by the scripts that print it."""

import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from convgym.policies.scripted import PlannerPolicy

SCRIPTS = Path(__file__).parents[1] / "scripts"
DATA = Path(__file__).with_name("data")


def script(name):
    """A file of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def test_every_trait_moves_behaviour_in_its_direction():
    traits = script("trait_effects")
    measured = traits.effects(250)
    assert {effect.trait for effect, _ in measured} == set(traits.TRAITS)
    wrong = [(e.trait, e.measure, d) for e, d in measured if not traits.holds(e, d)]
    assert not wrong


def test_success_falls_with_difficulty_and_the_ladder_keeps_its_order():
    ladder = script("difficulty_ladder")
    planner = []
    for level in ladder.LEVELS:
        scores = ladder.scores_of(ladder.ENVIRONMENT, {"difficulty": level}, 150, "test", 0)
        assert ladder.ordered(scores), level
        planner.append(scores["planner"].success)
        assert scores["oracle"].success == 1.0
    assert all(easier > harder for easier, harder in pairwise(planner)), planner


@pytest.mark.slow
def test_personas_differ_for_the_planner():
    ladder = script("difficulty_ladder")
    env = ladder.gym.make(ladder.ENVIRONMENT, observation="features", action="act")
    scored = {
        name: ladder.evaluate(
            PlannerPolicy(), env, episodes=400, options={"persona": name}
        ).success
        for name in ladder.BUILT_IN
    }
    assert len(set(scored.values())) == len(scored)
    assert scored["patient_expert"] - scored["frustrated_novice"] > 0.1
    assert max(scored, key=scored.get) == "patient_expert"


def test_no_hidden_value_shows_before_it_is_said():
    search = script("search_leaks")
    assert not search.search(800)


def whisper(monkeypatch, search, tell):
    """Have every environment of the search tell a little more: tell(base, observation) → hint."""
    make = search.gym.make

    class Whispering(search.gym.Wrapper):
        def reset(self, **keywords):
            observation, info = self.env.reset(**keywords)
            return observation, info | {"hint": tell(self.env.unwrapped, observation)}

    monkeypatch.setattr(search.gym, "make", lambda *a, **k: Whispering(make(*a, **k)))


@pytest.mark.parametrize("hidden", ["0:inform_postcode", "1:inform_order", "2:inform_order"])
def test_the_search_would_notice_a_leak(monkeypatch, hidden):
    """An environment that whispers the postcode, or the order of a later request, is caught."""
    search = script("search_leaks")

    def tell(base, observation):
        values = base._domain.goal_values(base._episode.task)
        return f"it is {values.get(hidden, 'something')}."

    whisper(monkeypatch, search, tell)
    assert search.search(160)[hidden] > 0


@pytest.mark.parametrize(
    ("where", "added"),
    [
        ("view: order status", {"records": {"order": {"0": {"status": "shipped"}}}}),
        ("view: heard reason", {"heard": {"reason": "damaged"}}),
        ("view: wants", {"wants": "billing"}),
    ],
)
def test_the_search_would_notice_a_view_that_knows_too_much(monkeypatch, where, added):
    search = script("search_leaks")

    def tell(base, observation):
        if isinstance(observation, dict):
            view = json.loads(observation["view"])
            for name, value in added.items():
                view[name] = view[name] | value if isinstance(value, dict) else value
            observation["view"] = json.dumps(view)
        return ""

    whisper(monkeypatch, search, tell)
    assert search.search(160)[where] > 0


@pytest.mark.parametrize("file", ["replies_held_out.jsonl", "replies_third_author.jsonl"])
def test_replies_nobody_tuned_on_are_understood(file):
    reading = script("eval_understanding").labelled(DATA / file)
    assert len(reading.rows) > 200
    assert reading.macro_f1() >= 0.90
    assert reading.abstained.value <= 0.10
