"""What an ended conversation is worth, on cases worked by hand."""

import numpy as np
import pytest

from convgym.domains.customer_service.desk import CustomerServiceDesk
from convgym.domains.customer_service.rules import DENIALS
from convgym.domains.customer_service.vocabulary import ACTIONS, LAYOUT, U
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.grading import CLOSING, WEIGHTS, Evidence, grade
from convgym.engine.rules import REFUSE
from convgym.policies.scripted import OraclePolicy, Sight
from convgym.users.agenda import AgendaUser
from convgym.users.persona import Persona

DESK = CustomerServiceDesk()
SCALE = np.array([DESK.scales.get(cell, 1.0) for cell in LAYOUT], dtype=np.float32)


def by_hand(evidence):
    """The docstring's sum, spelled out."""
    reached = 0
    for held in evidence[:4]:
        if not held:
            break
        reached += 1
    if not evidence.clean:
        return False, 0.0
    success = reached == 4
    return success, sum(WEIGHTS[:reached]) + CLOSING * success


@pytest.mark.parametrize("bits", range(32))
def test_each_piece_counts_only_on_top_of_those_before_it(bits):
    evidence = Evidence(*(bool(bits >> place & 1) for place in range(5)))
    verdict = grade(evidence)
    success, graded = by_hand(evidence)
    assert verdict.success == success
    assert verdict.graded == pytest.approx(graded)
    assert sum(WEIGHTS) + CLOSING == pytest.approx(1.0)


def refuse(task, spoil):
    """Let the oracle serve `task`; with `spoil` it first names every other reason there is."""
    episode = Episode(task, 1, 1, LAYOUT.row())
    DESK.open(episode, Persona(patience=1.0, assertiveness=0.0, accuracy=1.0).levels)
    engine = Engine(DESK, AgendaUser(U), max_turns=60)
    engine.open(episode)
    oracle = OraclePolicy()
    while not episode.end:
        name = oracle.choose(Sight(np.frombuffer(episode.belief, np.uint8) * SCALE))
        if spoil and name == f"deny_{task.decision.reason}":
            spoil = False
            for other in DENIALS:
                number = ACTIONS[f"deny_{other}"]
                if other != task.decision.reason and ACTIONS.is_legal(episode.belief, number):
                    turn = DESK.turn(episode, number)
                    DESK.hear(episode, turn.said)
        engine.apply(episode, DESK.turn(episode, ACTIONS[name]))
    return DESK.grade(episode).success


def test_naming_every_reason_is_no_refusal():
    tasks = (DESK.task("validation", number) for number in range(400))
    refusals = [
        task
        for task in tasks
        if task.decision.effect == REFUSE and task.decision.reason != "unverified"
    ]
    assert len(refusals) > 40
    for task in refusals:
        assert refuse(task, spoil=False), task
        assert not refuse(task, spoil=True), task
