"""What an ended conversation is worth, on cases worked by hand."""

import pytest
from desk_driven import ACTIONS, CALM, DESK, Talk, V, names_of, shape, tasks_like

from convgym.engine.acts import DENY, AgentTurn, Said
from convgym.engine.grading import CLOSING, WEIGHTS, Evidence, grade
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER
from convgym.users.agenda import AgendaUser


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


def conversations(fits, most=60):
    """Fresh conversations with a calm customer on tasks that ask for one thing."""
    customer = AgendaUser(DESK.vocabulary)
    for task in tasks_like(lambda task: len(task.requests) == 1 and fits(task), most):
        yield Talk(task, 1, customer, CALM)


def denials(talk, *apart):
    """The refusals that are legal now, but for those of these reasons."""
    for number, reason in enumerate(V.declaration.reasons):
        if reason not in apart and ACTIONS.is_legal(
            talk.episode.belief, ACTIONS[f"deny_{reason}"]
        ):
            yield number


def reason_of(task):
    return task.requests[0].decision.reason


def test_naming_every_reason_is_no_refusal():
    tried = 0
    for talk in conversations(
        lambda task: task.requests[0].decision.effect == REFUSE and not task.impostor
    ):
        right = f"deny_{reason_of(talk.task)}"
        talk.next_act(right)
        saved = talk.episode.snapshot()
        assert talk.served().grade.success, talk.task
        talk.episode.restore(saved)
        others = list(denials(talk, reason_of(talk.task)))
        for number in others:
            DESK.hear(talk.episode, (Said(DENY, number),))  # heard, and not answered
        assert not talk.served().grade.success, talk.task
        tried += bool(others)
    assert tried > 60


@pytest.mark.parametrize("effect", [ALLOW, TRANSFER])
def test_refusing_on_the_side_is_not_deciding(effect):
    """A reason given before the favour or the transfer: one of the two was not meant."""
    tried = 0
    for talk in conversations(lambda task: task.requests[0].decision.effect == effect, 25):
        talk.next_act("confirm", "inform", "transfer")
        number = next(denials(talk, "unverified"), None)
        if number is None:
            continue
        saved = talk.episode.snapshot()
        assert talk.served().grade.success, talk.task
        talk.episode.restore(saved)
        talk.apply(AgentTurn(said=(Said(DENY, number),)))
        assert not talk.served().grade.success, talk.task
        tried += 1
    assert tried > 5


def test_offering_everything_is_no_offer():
    """Where nothing can be offered, and where one thing can: an offer too many spoils it."""
    tried = 0
    for talk in conversations(
        lambda task: task.requests[0].decision.effect == REFUSE and not task.impostor, 40
    ):
        offers = V.declaration.offers
        right = talk.task.requests[0].decision.alternative
        legal = [
            f"offer_{offer}"
            for offer in offers
            if ACTIONS.is_legal(talk.next_act("deny").episode.belief, ACTIONS[f"offer_{offer}"])
        ]
        wrong = [name for name in legal if name != f"offer_{right}"]
        if wrong:
            talk.act(wrong[0])
            assert not talk.served().grade.success, talk.task
            tried += 1
    assert tried > 5


def test_an_impostor_is_refused_after_two_failures_and_for_that():
    tried = 0
    for talk in conversations(lambda task: task.impostor, 15):
        talk.next_act("deny_unverified")
        assert talk.cell("failures") == 2
        assert talk.grade.graded == pytest.approx(0.15)
        assert talk.served().grade.success
        tried += 1
    for talk in conversations(lambda task: task.impostor, 15):
        talk.next_act("verify").act("deny_unverified")
        assert not talk.grade.evidence.decided, "once may be a slip of memory"
    for talk in conversations(
        lambda task: not task.impostor and task.requests[0].decision.effect == REFUSE, 15
    ):
        talk.next_act("deny").act("deny_unverified")
        assert not talk.served().grade.success
    assert tried > 15


def test_every_kind_of_request_is_worth_the_same_when_it_is_done():
    met = set()
    for talk in conversations(lambda task: True, 150):
        assert talk.grade[:3] == (False, 0.0, 0.0)
        talk.served()
        assert talk.grade[:3] == (True, pytest.approx(1.0), pytest.approx(0.75))
        met |= {(*names_of(talk.task), shape(talk.task)[0][1])}
    assert len(met) > 14
