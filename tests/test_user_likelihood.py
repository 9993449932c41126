"""The parameters that made conversations explain them better than any others do.

DecisionModel(TRUE) ─► 300 conversations ─► their decisions ─► log-likelihood under any model

It is a sum over choices, so choices of one reply have to be made apart from each other.
"""

import math
from collections import Counter
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from single_task import (
    ACTIONS,
    DESK,
    EMAIL,
    FACT_CHANNEL,
    FACT_FEE,
    POSTCODE,
    U,
    draw_task,
)

from convgym.engine import acts
from convgym.engine.acts import Heard
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.keys import child
from convgym.policies.scripted import DeskSight, OraclePolicy, PlannerPolicy
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import (
    ASK_MEANING,
    ASK_WHY,
    LOG_UNIT,
    POINTS,
    Decision,
    DecisionModel,
)
from convgym.users.persona import Levels, Persona, draw_levels

CONVERSATIONS, MAX_TURNS = 300, 30
STEP = 0.7
"""How far from the truth a parameter is put, as a logit."""
OFTEN = 100
"""Choices from which on a parameter has to show."""
TRUE = {
    "greet_only": 0.4,
    "greet": 0.45,
    "front_load": 0.6,
    "volunteer": 0.4,
    "misremember": 0.25,
    "ask_why": 0.3,
    "ask_meaning": 0.3,
    "doubt": 0.4,
    "ask_next": 0.35,
    "push_again": 0.55,
    "accept": 0.6,
    "close_now": 0.45,
    "thank": 0.5,
    "bye": 0.4,
    "tangent": 0.2,
}
"""None of them is what the model comes with."""
SCALES = np.array([DESK.scales.get(name, 1.0) for name in DESK.layout])

Counts = Counter[tuple[Levels, Decision]]


@cache
def conversations() -> tuple[Counts, float]:
    """Every choice of 300 conversations with how often it was made, and their logged likelihood."""
    user, counts, logged = AgendaUser(U, DecisionModel(TRUE)), Counts(), 0.0
    engine = Engine(DESK, user, MAX_TURNS)
    for number in range(CONVERSATIONS):
        key, agent = child(2030, number), (OraclePolicy(), PlannerPolicy())[number % 2]
        episode = Episode(draw_task("train", number), key, 0, DESK.layout.row())
        DESK.open(episode, draw_levels(key))
        engine.open(episode)
        turns = [episode.user_turn]
        while not episode.end:
            row = np.frombuffer(bytes(episode.belief), np.uint8)
            chosen = ACTIONS[agent.choose(DeskSight(row * SCALES, DESK.layout))]
            engine.apply(episode, DESK.turn(episode, chosen))
            turns.append(episode.user_turn)
        for turn in filter(None, turns):
            logged += turn.log_prob
            counts.update((episode.user.persona, made) for made in turn.decisions)
    return counts, logged


def log_likelihood(
    base: Mapping[str, float], taken_for: Mapping[Levels, Levels] | None = None
) -> float:
    """Of all conversations under these parameters, and with each persona taken for another."""
    model, taken_for = DecisionModel(base), taken_for or {}
    return sum(
        count * model.log_prob([made], taken_for.get(persona, persona))
        for (persona, made), count in conversations()[0].items()
    )


def moved(probability: float, step: float) -> float:
    return 1 / (1 + (1 / probability - 1) * math.exp(-step))


def test_what_was_logged_is_the_likelihood_under_the_truth():
    counts, logged = conversations()
    assert log_likelihood(TRUE) == pytest.approx(logged, abs=counts.total() * LOG_UNIT)


def test_the_truth_beats_what_the_model_comes_with():
    assert all(POINTS[i].base != TRUE.get(p.name) for i, p in enumerate(POINTS))
    assert log_likelihood(TRUE) > log_likelihood({}) + 100


def test_the_truth_beats_personas_taken_for_others():
    personas = list(dict.fromkeys(persona for persona, _ in conversations()[0]))
    others = dict(zip(personas, personas[1:] + personas[:1], strict=True))
    assert log_likelihood(TRUE) > log_likelihood(TRUE, others) + 100


def test_the_truth_beats_every_parameter_put_elsewhere():
    drawn = Counter[int]()
    for (_, made), count in conversations()[0].items():
        drawn[made.point] += count
    often = [POINTS[point] for point, count in drawn.items() if count >= OFTEN]
    assert len(often) >= 10
    best = log_likelihood(TRUE)
    for point in often:
        base = TRUE.get(point.name, point.base)
        for step in (STEP, -STEP):
            assert log_likelihood(TRUE | {point.name: moved(base, step)}) < best, point.name


@pytest.mark.parametrize(
    ("point", "reply"),
    [
        (ASK_WHY, (Heard(acts.ASK, EMAIL), Heard(acts.ASK, POSTCODE))),
        (ASK_MEANING, (Heard(acts.TELL, FACT_FEE), Heard(acts.TELL, FACT_CHANNEL))),
    ],
    ids=["slots", "terms"],
)
def test_two_choices_of_one_reply_are_as_frequent_as_their_likelihood(point, reply):
    base = {"answer_too": 1.0, "ask_why": 0.3, "ask_meaning": 0.3}
    user, persona, n = AgendaUser(U, DecisionModel(base)), Persona().levels, 2000
    made = Counter[tuple[Decision, ...]]()
    for number in range(n):
        episode = Episode(draw_task("train", 0), child(2031, number), 0, DESK.layout.row())
        DESK.open(episode, persona)
        user.open(episode)
        episode.turn = 1
        decisions = user.answer(episode, reply).decisions
        made[tuple(one for one in decisions if one.point == point)] += 1
    assert {tuple(one.yes for one in ones) for ones in made} == {
        (True,),
        (False, True),
        (False, False),
    }
    for ones, count in made.items():
        p = math.exp(user.model.log_prob(ones, persona))
        assert abs(count / n - p) < 4.5 * math.sqrt(p * (1 - p) / n)
