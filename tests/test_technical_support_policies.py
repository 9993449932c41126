"""Scripted support agents: the ladder, the floors, and what the oracle infers from the cells."""

import numpy as np
import pytest
from support_driven import (
    ABLE,
    DESK,
    SCALE,
    Certain,
    Score,
    act_of,
    begin,
    belief,
    played,
    succeeded,
)

from convgym.domains.technical_support.diagnosis import LOST, WORKS, next_move
from convgym.domains.technical_support.dialogue import ACTIONS, LAYOUT, seen_name
from convgym.domains.technical_support.facts import EVENTS, EVIDENCE
from convgym.domains.technical_support.faults import FAULTS, OF_KIND
from convgym.domains.technical_support.inference import ALL, FIRM, RECENT, known, notes_of
from convgym.domains.technical_support.planning import MISSING
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.policies.null import OpenLoopPolicy, RandomToolPolicy
from convgym.policies.policy import RandomPolicy
from convgym.policies.technical_support import (
    BY_THE_BOOK,
    LADDER,
    NULL_POLICIES,
    OraclePolicy,
    PlannerPolicy,
    View,
)
from convgym.users.persona import BUILT_IN, Persona

every_split = pytest.mark.parametrize("split", SPLITS)
WORST = Persona(
    patience=0, expertise=0, cooperativeness=0, accuracy=0, compliance=0, assertiveness=1,
    scepticism=1, curiosity=1,
)  # fmt: skip


@every_split
def test_the_oracle_solves_every_task_with_whomever(split):
    assert Score(OraclePolicy(), split, 250).failed == []


@pytest.mark.parametrize("persona", [*BUILT_IN.values(), WORST], ids=lambda p: p.name)
def test_the_oracle_gets_on_with_everybody(persona):
    assert Score(OraclePolicy(), "test_compositional", 100, seed=5, persona=persona).failed == []


@every_split
def test_the_ladder_is_ordered(split):
    scores = [Score(kind(), split, 120, seed=1).success for kind in LADDER]
    print(split, scores)
    assert scores == sorted(scores)
    assert scores[0] == 0 and scores[-1] == 1
    assert scores[3] > scores[2] + 0.15 and scores[4] > scores[3] + 0.25


@pytest.mark.parametrize("split", ["test", "test_policy"])
@pytest.mark.parametrize("name", BY_THE_BOOK)
def test_a_constant_behaviour_is_worth_little(split, name):
    policy = OpenLoopPolicy(name, BY_THE_BOOK[name], ACTIONS)
    assert Score(policy, split, 150).success <= 0.10


@every_split
def test_random_tools_are_worth_nothing(split):
    assert Score(RandomToolPolicy(ACTIONS), split, 100).success == 0
    assert Score(RandomPolicy(), split, 100).success == 0


def test_null_policies_say_something_or_nothing():
    assert len(NULL_POLICIES) >= 10
    for make in NULL_POLICIES.values():
        text, _ = make().predict("")
        assert isinstance(text, str)


@pytest.mark.parametrize("split", ["test", "test_policy"])
def test_a_reliable_customer_takes_about_as_many_acts_as_the_plan(split):
    """The yardstick of an episode's length: the plan, beside the oracle with a customer who is
    able, does as asked, sees right, and leaves once it was told goodbye."""
    user, more = DESK.make_user(Certain("accept", "close_now")), []
    for number in range(300):
        task = DESK.task(split, number)
        episode = played(OraclePolicy(), task, number, user, ABLE)
        assert succeeded(episode)
        more.append(episode.turn - task.oracle_length)
    assert np.median(more) in (0, 1) and np.mean(more) < 2 and np.percentile(more, 90) <= 5


# -- inference -------------------------------------------------------------------------------------


def first_bit(kind, device):
    """The bit of the fault that shows, or of nothing being wrong; 0 for one without a fault."""
    broken = next(((place, s) for place, s in enumerate(device) if s), None)
    if broken is None:
        return WORKS
    for number, fault in enumerate(OF_KIND[kind]):
        if (FAULTS[fault].component, FAULTS[fault].state) == broken:
            return 1 << number
    return 0


@pytest.mark.parametrize(("slips", "trusts"), [
    ((), (ALL, RECENT, FIRM)), (("misobserve", "cannot_tell", "skip_step", "claim_step"), (FIRM,)),
])  # fmt: skip
def test_the_truth_is_always_among_the_suspects(slips, trusts):
    """With a reliable customer at every degree of trust, with one who slips whenever it can by
    what cannot be a slip."""
    looked = 0
    user = DESK.make_user(Certain("accept", *slips))
    for number in range(150):
        task = DESK.task("test", number)
        episode, engine = begin(task, number, user, ABLE)
        policy = OraclePolicy(noise=0.3)
        policy.reset(number)
        while not episode.end:
            engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
            row = belief(episode) * SCALE
            view = View(row, LAYOUT)
            if view.kind != task.kind:
                continue
            truth = first_bit(task.kind, episode.desk.device)
            for trust in trusts:
                suspects = known(task.kind, notes_of(row), trust).suspects
                assert suspects & truth, (task.task_id, episode.turn, trust)
                looked += 1
    assert looked > 1000


def test_notes_are_the_cells_read_back():
    task = DESK.task("test", 3)
    for number in range(20):
        episode, engine = begin(task, child(2, number))
        policy = OraclePolicy()
        while not episode.end:
            notes = notes_of(belief(episode) * SCALE)
            for look, value, fresh, _ in notes.seen:
                cell = f"sees_{seen_name(look, value)}"
                assert episode.belief[LAYOUT[cell]] == 1 + fresh
            engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))


def test_every_obligation_has_an_act_that_meets_it():
    policy, row = OraclePolicy(), np.zeros(len(LAYOUT), dtype=np.float32)
    row[LAYOUT["kind_router"]] = 1
    for field in set(MISSING.values()) - {"confirmed"}:
        assert policy._provide(View(row, LAYOUT), field) in ACTIONS.names
    assert {*MISSING.values()} <= set(EVIDENCE)
    assert next_move(0, known(0, notes_of(row), ALL)).kind != LOST
    assert all(EVENTS.values())


def test_the_planner_believes_everything_and_the_oracle_does_not():
    """A customer that claims its first step: the planner takes it for done."""
    user = DESK.make_user(Certain("skip_step", "claim_step", "accept"))
    won = {
        kind: sum(
            succeeded(played(kind(), DESK.task("test", number), number, user, ABLE))
            for number in range(60)
        )
        for kind in (PlannerPolicy, OraclePolicy)
    }
    assert won[OraclePolicy] == 60 > 30 > won[PlannerPolicy]
