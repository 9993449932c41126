"""What holds of the simulated user in every conversation: with whomever, about whatever.

A conversation is drawn whole: a task, a persona, a key, and an agent that does what the oracle
does, or a random legal act in some of its turns, or in all. Replies of several acts, which only
a text can be, are single ones at the end.
"""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from single_task import (
    ACTIONS,
    DESK,
    EMAIL,
    FACT_CHANNEL,
    FACT_FEE,
    KNOWS_ID,
    LOOKS_UP,
    OFFERS,
    ORDER,
    POSTCODE,
    USER_ACTS,
    D,
    U,
    V,
    decision,
    draw_task,
    first,
    knowledge,
    request,
    workflow,
)

from convgym.engine import acts
from convgym.engine.actions import Action
from convgym.engine.acts import Heard, UserTurn
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.keys import POLICY, child, draw
from convgym.engine.rules import ALLOW, REFUSE
from convgym.policies.scripted import DeskSight, OraclePolicy
from convgym.users.agenda import (
    BREAKING,
    LONG_WAIT,
    MOST_DISPUTES,
    AgendaUser,
)
from convgym.users.decisions import (
    ASK_MEANING,
    ASK_WHY,
    GRACE,
    LEAVE,
    LOG_UNIT,
    MOST_BOTHER,
    POINTS,
    SIGMOID,
    STRIDE,
    DecisionModel,
    row_of,
)
from convgym.users.persona import HUNDRED, TRAITS, Levels, Persona, draw_levels
from convgym.users.user_state import MEANING, NOTHING, SURE

USER, ORACLE = AgendaUser(U), OraclePolicy()
SCALES = np.array([DESK.scales.get(name, 1.0) for name in DESK.layout])
LEAVING = [ACTIONS[name] for name in ("transfer_to_human", "end_conversation")]
CONFIRMED = np.array([cell for pointers in V.confirmed for cell in pointers])
KIND = np.array([action.kind for action in ACTIONS.actions])
MAX_TURNS = 30
AMONG = {
    "anything": KIND >= 0,
    "questions": KIND == acts.ASK,
    "tools": KIND >= acts.FIRST_TOOL,
    "deeds": np.isin(KIND, [*BREAKING, acts.CONFIRM, acts.REPORT_DONE, acts.EXPLAIN]),
    "refusals": np.isin(KIND, [acts.DENY, acts.OFFER, acts.APOLOGISE, acts.CONFIRM]),
}
EIGHTHS = 8
WILD = (0, 1, 2, 4, 7, EIGHTHS)


class Talk(NamedTuple):
    """All that a conversation is made from."""

    split: str
    number: int
    persona: Levels
    key: int
    wild: int
    """Eighths of the agent's turns that are random."""
    among: str
    """What they are: a name in `AMONG`."""


class Step(NamedTuple):
    """One act of the agent with the user's answer, if the act was speech."""

    before: Episode
    action: Action
    after: Episode
    answer: UserTurn | None


TALKS = st.builds(
    Talk,
    st.sampled_from(("train", "validation", "test")),
    st.integers(0, 1999),
    st.tuples(*[st.integers(0, HUNDRED)] * len(TRAITS)),
    st.integers(0, 2**64 - 1),
    st.sampled_from(WILD),
    st.sampled_from(sorted(AMONG)),
)
thorough = settings(
    max_examples=400, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


def opened(talk: Talk, user: AgendaUser = USER) -> tuple[Episode, Engine]:
    episode = Episode(draw_task(talk.split, talk.number), talk.key, 0, DESK.layout.row())
    engine = Engine(DESK, user, MAX_TURNS)
    DESK.open(episode, talk.persona)
    engine.open(episode)
    return episode, engine


def next_act(talk: Talk, episode: Episode) -> int:
    """The oracle's act, or a random legal one that stays on the line."""
    row = np.frombuffer(bytes(episode.belief), np.uint8)
    mask = ACTIONS.mask(row)
    drawn = draw(talk.key, POLICY, episode.turn, 0)
    begun = talk.among != "deeds" or row[CONFIRMED].any()  # the oracle gets the yes first
    if drawn % EIGHTHS >= talk.wild or not begun:
        return ACTIONS[ORACLE.choose(DeskSight(row * SCALES, DESK.layout))]
    mask[LEAVING] = 0
    if (mask & AMONG[talk.among]).any():
        mask &= AMONG[talk.among]
    legal = np.flatnonzero(mask)
    return int(legal[(drawn // EIGHTHS) % len(legal)])


def steps_of(talk: Talk, user: AgendaUser = USER) -> list[Step]:
    """The whole conversation after its opening."""
    episode, engine = opened(talk, user)
    steps = []
    while not episode.end:
        before, number = episode.snapshot(), next_act(talk, episode)
        engine.apply(episode, DESK.turn(episode, number))
        steps.append(Step(before, ACTIONS.actions[number], episode.snapshot(), episode.user_turn))
    return steps


def turns_of(talk: Talk, user: AgendaUser = USER) -> list[UserTurn]:
    opening, _ = opened(talk, user)
    return [opening.user_turn, *(step.answer for step in steps_of(talk, user) if step.answer)]


def answered(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step.answer]


def says(step: Step, act: str) -> bool:
    return step.answer is not None and U[act] in step.answer.acts


# -- what it says ----------------------------------------------------------------------------------


@thorough
@given(TALKS)
def test_it_states_nothing_but_what_it_knows(talk):
    """Values stand in its ladders; a slip comes first and once, then it goes down rung by rung."""
    known = knowledge(draw_task(talk.split, talk.number))
    said = [act for turn in turns_of(talk) for act in turn.acts]
    values = {act for act in said if USER_ACTS[act].startswith("inform_")}
    assert values <= {act for ladder in known.ladders for act in ladder} | {*known.misremembered}
    assert {act for act in said if USER_ACTS[act].startswith("request_")} <= {known.request}
    for ladder, slip in zip(known.ladders, known.misremembered, strict=True):
        own = [act for act in said if act in ladder or act == slip]
        if slip in own and slip not in ladder:
            assert own.index(slip) == 0 and own.count(slip) == 1
            own = own[1:]
        assert [ladder.index(act) for act in own] == sorted(ladder.index(act) for act in own)


# -- promises --------------------------------------------------------------------------------------


def waiting_after(steps: list[Step]) -> list[bool]:
    """Said yes to its own request, has not been told of the deed, and was not refused since."""
    waiting, after = False, []
    for step in steps:
        waiting = waiting or says(step, "affirm")
        waiting = waiting and not step.after.belief[V.told_done]
        waiting = waiting and step.action.kind != acts.DENY
        after.append(bool(waiting))
    return after


@thorough
@given(TALKS)
def test_it_never_leaves_between_its_yes_and_the_report(talk):
    steps = steps_of(talk)
    for step, waiting in zip(steps, waiting_after(steps), strict=True):
        assert not (waiting and step.answer and step.answer.closed)
        # Who is not sure of the report may say yes once more, and waits for another.
        user = step.after.user
        assert user.waiting == waiting or (user.doubted and not user.satisfied)


@pytest.mark.parametrize("last", ["offer_return_later", "close", "greet", "explain", "ask_more"])
def test_no_wrong_refusal_of_before_makes_it_leave_after_its_yes(last):
    """Refused wrongly three times, then asked properly, then spoken to: it must wait."""
    number = first(lambda task: workflow(task) == "cancel" and decision(task).effect == ALLOW)
    persona = Persona(patience=1.0, accuracy=1.0).levels
    waited = 0
    for key in range(60):
        talk = Talk("train", number, persona, child(5, key), 0, "anything")
        episode, engine = opened(talk)
        refusals = 0
        while not (episode.end or episode.user.waiting):
            refused = refusals < 3 and episode.belief[V.wants[D.names.index("cancel")]]
            refusals += bool(refused)
            act = ACTIONS["deny_not_cancellable"] if refused else next_act(talk, episode)
            engine.apply(episode, DESK.turn(episode, act))
        if not episode.end:
            engine.apply(episode, DESK.turn(episode, ACTIONS[last]))
            assert not episode.end
            waited += 1
    assert waited > 20


@thorough
@given(TALKS)
def test_it_reminds_of_a_promise(talk):
    for step in answered(steps_of(talk)):
        broken = step.before.user.waiting and step.action.kind in BREAKING
        assert says(step, "remind_promise") == broken


# -- refusals --------------------------------------------------------------------------------------


@thorough
@given(TALKS)
def test_a_refusal_is_taken_with_its_alternative_once_that_is_offered(talk):
    steps = steps_of(talk)
    right = decision(draw_task(talk.split, talk.number))
    offered = False
    for step in steps:
        if step.action.kind == acts.OFFER and step.before.user.denied == 1:
            offered |= OFFERS[step.action.argument] == right.alternative
        assert step.after.user.offered == offered
        taken = says(step, "accept_alternative"), says(step, "accept_refusal")
        if step.after.user.resolved:
            assert right.effect == REFUSE and step.after.user.denied == 1
            assert taken == (bool(right.alternative), not right.alternative)
            assert offered == bool(right.alternative)
            assert step.answer.closed
        else:
            assert not any(taken)


@thorough
@given(TALKS)
def test_whoever_is_refused_rightly_by_the_oracle_takes_it(talk):
    steps = steps_of(talk._replace(wild=0))
    right = decision(draw_task(talk.split, talk.number))
    if right.effect == REFUSE:
        last = "accept_alternative" if right.alternative else "accept_refusal"
        assert says(steps[-1], last)


# -- patience --------------------------------------------------------------------------------------


@thorough
@given(TALKS)
def test_nobody_gives_up_below_the_grace(talk):
    """Save whoever has been refused wrongly once too often, which is counted by itself."""
    for step in answered(steps_of(talk)):
        bother = step.after.user.bother
        leaving = [made for made in step.answer.decisions if made.point == LEAVE]
        for made in leaving:
            assert bother >= GRACE
            above = min(bother, MOST_BOTHER) - GRACE
            assert made.situation == USER.model.bother[LEAVE] * above
        refused_wrongly = step.before.user.disputes > MOST_DISPUTES and step.after.user.denied == 2
        if says(step, "give_up"):
            assert refused_wrongly or any(made.yes for made in leaving)
            assert step.answer.closed


def is_late(step: Step) -> bool:
    return step.after.turn - step.before.user.heard_turn > LONG_WAIT


@thorough
@given(TALKS)
def test_a_question_explained_costs_nothing_and_passed_over_costs_one(talk):
    """Beside the same act heard by the same user with no question open, and none to come."""
    engine = Engine(DESK, USER, MAX_TURNS)
    for step in answered(steps_of(talk)):
        user, kind = step.before.user, step.action.kind
        if user.question == NOTHING:
            continue
        cost = step.after.user.bother - user.bother
        if kind == acts.EXPLAIN:
            assert cost == is_late(step)
            assert step.after.user.question != user.question and step.after.user.owed < 0
            if user.owed >= 0 and not says(step, "give_up"):
                known, slot = user.knowledge, user.owed
                given = {*known.ladders[slot], known.misremembered[slot]} & {*step.answer.acts}
                assert given or (step.after.user.holding and says(step, "hold"))
            continue
        other = step.before.snapshot()
        other.user.question, other.user.owed, other.user.puzzled = NOTHING, -1, 3
        engine.apply(other, DESK.turn(other, ACTIONS[step.action.name]))
        met = user.question == SURE and step.after.user.satisfied
        left = kind == acts.CLOSE and says(step, "bye") and not user.satisfied
        assert step.after.user.bother - other.user.bother == (not met and not left)
        if user.question == SURE and not left:
            assert (step.after.user.question == SURE) == (not met)


# -- replies of several acts, and what only a text says --------------------------------------------

CALM = {
    "greet_only": 1.0,
    "misremember": 0.0,
    "volunteer": 0.0,
    "answer_too": 1.0,
    "look_up": 1.0,
    "ask_why": 0.0,
    "ask_meaning": 0.0,
    "doubt": 0.0,
    "ask_next": 0.0,
    "protest": 1.0,
    "show_frustration": 0.0,
    "leave": 0.0,
    "close_now": 0.0,
    "tangent": 0.0,
}
"""A user that asks nothing, gives what it is asked for, and stays."""
ASK_INTENT, CHAT, EXPLAIN = Heard(acts.ASK_INTENT), Heard(acts.CHAT), Heard(acts.EXPLAIN)
ASK_EMAIL, ASK_POSTCODE = Heard(acts.ASK, EMAIL), Heard(acts.ASK, POSTCODE)
ASK_ORDER, DONE, PROMISED = Heard(acts.ASK, ORDER), Heard(acts.REPORT_DONE), Heard(acts.PROMISE)
TELL_FEE, TELL_CHANNEL = Heard(acts.TELL, FACT_FEE), Heard(acts.TELL, FACT_CHANNEL)
JARGON, CONFIRM = Heard(acts.JARGON), Heard(acts.CONFIRM)
WRONGLY_DENIED = Heard(acts.DENY, verdict=acts.WRONG)


class Listener:
    """A user like `CALM` but for `base`, who has said what it wants: say something to it."""

    def __init__(self, key: int = 0, known: int = KNOWS_ID, **base: float) -> None:
        tasks = (draw_task("train", number) for number in range(9999))
        task = next(
            t
            for t in tasks
            if workflow(t) == "cancel"
            and decision(t).effect == ALLOW
            and request(t).knowledge == known
        )
        self.episode = Episode(task, child(9, key), 0, DESK.layout.row())
        self.user = AgendaUser(U, DecisionModel(CALM | base))
        DESK.open(self.episode, Persona().levels)
        self.user.open(self.episode)
        self.state = self.episode.user
        self.hears(ASK_INTENT)
        assert self.state.intent_said and not self.state.bother

    def hears(self, *heard: Heard) -> tuple[list[str], int]:
        """What it says to this reply, and how much the reply bothers it."""
        self.episode.turn += 1
        before = self.state.bother
        turn = self.user.answer(self.episode, heard)
        return [USER_ACTS[act] for act in turn.acts], self.state.bother - before


@pytest.mark.parametrize(("looks", "brings"), [(1.0, "inform_order"), (0.0, "no_luck")])
def test_nobody_minds_being_given_time(looks, brings):
    one = Listener(known=LOOKS_UP, look_up=looks, false_claim=1.0)
    assert one.hears(ASK_ORDER) == (["hold"], 0)
    assert one.hears(CHAT) == ([brings], 0)
    assert one.hears(CHAT) == (["acknowledge"], 1)


@pytest.mark.parametrize(
    ("point", "reply"),
    [
        (ASK_MEANING, (TELL_FEE, TELL_CHANNEL)),
        (ASK_MEANING, (ASK_ORDER, JARGON, TELL_FEE, TELL_CHANNEL)),
        (ASK_WHY, (ASK_EMAIL, ASK_POSTCODE)),
    ],
    ids=["facts", "terms", "slots"],
)
def test_every_occasion_for_a_question_is_a_draw_of_its_own(monkeypatch, point, reply):
    """With a number of its own: whoever does not ask at one may ask at the next."""
    numbers, drawn = [], AgendaUser._drawn

    def noted(self, episode, state, at, index, situation):
        if at == point:
            numbers.append(index // STRIDE)
        return drawn(self, episode, state, at, index, situation)

    monkeypatch.setattr(AgendaUser, "_drawn", noted)
    Listener().hears(*reply)
    assert len(numbers) == len(set(numbers)) == len(reply)


@pytest.mark.parametrize("slot", [EMAIL, ORDER])
@pytest.mark.parametrize("explains_first", [True, False])
def test_what_is_explained_and_asked_for_again_is_given_once(slot, explains_first):
    one = Listener(ask_why=1.0, ask_meaning=1.0)
    ask = Heard(acts.ASK, slot)
    assert one.hears(ask)[0] in (["ask_why"], ["ask_meaning"])
    assert one.state.owed == slot and not one.state.asked[slot]
    said = one.hears(*((EXPLAIN, ask) if explains_first else (ask, EXPLAIN)))
    assert said == ([USER_ACTS[one.state.knowledge.ladders[slot][0]]], 0)
    assert one.state.asked[slot] == 1 and one.state.owed < 0 and one.state.question == NOTHING


def test_a_promise_takes_a_wrong_refusal_off_the_table():
    ends = {}
    for promises in (False, True):
        one = Listener()
        for _ in range(MOST_DISPUTES + 1):
            assert "push_back" in one.hears(WRONGLY_DENIED)[0]
        assert one.state.denied == 2
        if promises:
            one.hears(PROMISED)
            assert not one.state.denied
        ends[promises] = one.hears(Heard(acts.OFFER, verdict=acts.WRONG))[0]
    assert ends[False] == ["give_up"]
    assert not {"give_up", "push_back"} & {*ends[True]}


def test_a_promise_does_not_keep_its_user():
    """It is not the user's yes: patience runs out, and a farewell is taken."""
    one = Listener(leave=1.0)
    assert one.hears(PROMISED) == (["acknowledge"], 0)
    costs = [one.hears(CHAT)[1] for _ in range(GRACE)]
    assert costs == [1] * GRACE and one.state.closing
    other = Listener(protest=0.0)
    other.hears(PROMISED)
    assert "bye" in other.hears(Heard(acts.CLOSE))[0] and other.state.closing


@pytest.mark.parametrize("kind", BREAKING)
def test_a_promise_that_is_broken_is_reminded_of(kind):
    breaking, costs = Heard(kind, FACT_FEE if kind == acts.TELL else 0), {}
    for promises in (False, True):
        one = Listener()
        if promises:
            one.hears(PROMISED)
            assert "remind_promise" not in one.hears(ASK_EMAIL)[0]
        said, costs[promises] = one.hears(breaking)
        assert ("remind_promise" in said) == promises
    assert costs[True] == costs[False] + 1
    for ends in (DONE, WRONGLY_DENIED):
        other = Listener()
        other.hears(PROMISED)
        other.hears(ends)
        assert "remind_promise" not in other.hears(breaking)[0]


def test_a_yes_after_the_deed_waits_for_nothing():
    one = Listener(thank=1.0, bye=1.0)
    assert one.hears(CONFIRM) == (["affirm"], 0) and one.state.waiting
    assert one.hears(DONE) == (["thank"], 0) and not one.state.waiting
    assert one.hears(CONFIRM) == (["affirm", "no_more", "bye"], 0)
    assert one.state.closing and not one.state.waiting


def test_what_a_reply_explains_needs_no_asking():
    one = Listener(ask_why=1.0, ask_meaning=1.0, doubt=1.0, thank=1.0)
    assert one.hears(ASK_EMAIL, EXPLAIN) == (["inform_email"], 0)
    assert one.hears(EXPLAIN, JARGON)[0] == ["acknowledge"]
    assert one.hears(JARGON) == (["ask_meaning"], 0)
    assert one.state.question == MEANING
    assert one.hears(EXPLAIN) == (["acknowledge"], 0)
    assert one.hears(JARGON)[0] == ["acknowledge"], "once in a conversation"
    assert one.hears(DONE, EXPLAIN)[0][0] == "thank", "no doubt beside an explanation"
    assert one.state.satisfied


def test_nothing_is_owed_to_who_is_content_or_gone():
    one = Listener(doubt=1.0, thank=1.0)
    one.hears(DONE)
    one.hears(CONFIRM)
    assert one.state.waiting
    one.hears(EXPLAIN)
    assert one.state.satisfied and not one.state.waiting
    assert "remind_promise" not in one.hears(Heard(acts.ASK_MORE))[0]
    gone = Listener(protest=0.0)
    gone.hears(PROMISED)
    assert gone.hears(Heard(acts.CLOSE))[0] == ["bye"]


@pytest.mark.parametrize("answer", [DONE, EXPLAIN])
def test_doubt_of_a_deed_stays_until_it_is_met(answer):
    one = Listener(doubt=1.0, thank=1.0)
    assert one.hears(DONE) == (["ask_sure"], 0)
    untrue = Heard(acts.REPORT_DONE, verdict=acts.WRONG)
    for passed_over in (CHAT, ASK_POSTCODE, TELL_FEE, untrue):
        assert one.hears(passed_over)[1] > 0
        assert one.state.question == SURE and not one.state.satisfied
    assert one.hears(answer) == (["thank"], 0)
    assert one.state.question == NOTHING and one.state.satisfied


# -- choices and their probabilities ---------------------------------------------------------------


@thorough
@given(TALKS, st.dictionaries(st.sampled_from([p.name for p in POINTS]), st.floats(0, 1)))
def test_a_turns_log_probability_is_that_of_its_choices(talk, base):
    model = DecisionModel(base)
    for turn in turns_of(talk, AgendaUser(U, model)):
        assert turn.log_prob == model.log_prob(turn.decisions, talk.persona) <= 0.0
        for point, situation, _ in turn.decisions:
            _, yes, no = model.choice(point, talk.persona, situation)
            assert yes < 0 and no < 0, "nothing that is chosen is certain"


def test_yes_and_no_make_one():
    thresholds = [choice[0] for choice in SIGMOID]
    assert thresholds == sorted(thresholds)
    assert thresholds[row_of(0)] == 2**31
    for threshold, yes, no in SIGMOID:
        p = math.exp(yes * LOG_UNIT)
        assert p == pytest.approx(threshold / 2**32, abs=2e-6)
        assert p + math.exp(no * LOG_UNIT) == pytest.approx(1.0, abs=2e-6)


# -- the same again --------------------------------------------------------------------------------


def ending(talk: Talk, episode: Episode, engine: Engine) -> list:
    """What comes after: every turn, the public belief, the verdict."""
    seen = []
    while not episode.end:
        engine.apply(episode, DESK.turn(episode, next_act(talk, episode)))
        seen += [episode.user_turn, episode.tool_results, bytes(episode.belief)]
    return [*seen, episode.end, episode.violations, DESK.grade(episode)]


@thorough
@given(TALKS, st.integers(0, MAX_TURNS))
def test_the_same_key_gives_the_same_turns_and_a_snapshot_goes_on_the_same(talk, turns):
    episode, engine = opened(talk)
    opening = episode.user_turn
    for _ in range(turns):
        if not episode.end:
            engine.apply(episode, DESK.turn(episode, next_act(talk, episode)))
    saved = episode.snapshot()
    went_on = ending(talk, episode, engine)
    assert ending(talk, saved.snapshot(), engine) == went_on
    episode.restore(saved)
    assert ending(talk, episode, Engine(DESK, AgendaUser(U), MAX_TURNS)) == went_on
    again, engine = opened(talk)
    assert again.user_turn == opening
    whole = ending(talk, again, engine)
    assert whole[len(whole) - len(went_on) :] == went_on


# -- that all this is ever put to the test ---------------------------------------------------------


def test_conversations_come_to_everything_that_is_claimed_of_them():
    met: Counter[str] = Counter()
    for number in range(960):
        key, wild, among = child(77, number), WILD[number % 6], sorted(AMONG)[number // 6 % 5]
        steps = steps_of(Talk("train", number, draw_levels(key), key, wild, among))
        for step, waiting in zip(steps, [False, *waiting_after(steps)], strict=False):
            question = step.before.user.question
            met["breaks a promise"] += waiting and step.action.kind in BREAKING
            met["explains"] += question > 0 and step.action.kind == acts.EXPLAIN
            met["owes a value"] += step.before.user.owed >= 0 and step.action.kind == acts.EXPLAIN
            met["passes over"] += question > 0 and says(step, "acknowledge")
            met["gives up"] += says(step, "give_up")
            met["takes an alternative"] += says(step, "accept_alternative")
            met["takes a refusal"] += says(step, "accept_refusal")
            met["is refused wrongly"] += step.after.user.denied == 2
            met["is late"] += step.answer is not None and is_late(step)
            met["is unsure"] += question == SURE
            met["stays unsure"] += question == SURE == step.after.user.question
            met["is puzzled twice"] += step.after.user.puzzled == 3
            met["comes back"] += step.before.user.holding > 0
        met["is granted"] += decision(steps[-1].before.task).effect == ALLOW
    assert min(met.values()) >= 10, met
