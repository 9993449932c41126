"""The buyer: what it pays, what it brings up, and what no conversation makes it do."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sales_driven import DESK, act_of, begin, belief

from convgym.domains.sales import tasks
from convgym.domains.sales.buyer import MOST_HAGGLES, OFFENCE, Buyer
from convgym.domains.sales.tasks import draw_task
from convgym.domains.sales.vocabulary import (
    ACTIONS,
    CREATE_QUOTE,
    HELD,
    LAYOUT,
    OBJECTIONS,
    TOLD,
    USER_ACTS,
    VIEW,
    U,
)
from convgym.engine import acts
from convgym.engine.acts import FIRST_TOOL, AgentTurn, Call, Heard, Said
from convgym.engine.engine import Engine
from convgym.policies.sales import OraclePolicy
from convgym.users import decisions
from convgym.users.decisions import Decision, DecisionModel
from convgym.users.persona import Persona

SPOKEN = [n for n, a in enumerate(ACTIONS.actions) if a.kind < FIRST_TOOL]
QUIET = {
    "greet_only": 0, "ask_why": 0, "ask_meaning": 0, "doubt": 0, "ask_next": 0, "misremember": 0,
    "object": 0, "tangent": 0, "leave": 0,
}  # fmt: skip


class Set(DecisionModel):
    """These choices always turn out the same way."""

    def __init__(self, **wanted):
        super().__init__()
        self.wanted = {decisions.NUMBER[name]: value for name, value in wanted.items()}

    def choice(self, point, persona, situation=0):
        if point in self.wanted:
            return (2**32 if self.wanted[point] else 0, 0, 0)
        return super().choice(point, persona, situation)


def names(turn):
    return [USER_ACTS[act] for act in turn.acts]


def a_sale(**wanted):
    """The first task that can be sold and has these fields."""
    return next(
        task
        for task in (draw_task("train", number) for number in range(4000))
        if task.branch == tasks.SELL
        and all(getattr(task, name) == value for name, value in wanted.items())
    )


def priced(task, discount, model=None, persona=None):
    """An episode in which this price has just been told for a product that fits, and its k."""
    user = Buyer(model or Set(**QUIET))
    episode, engine = begin(task, 7, user, persona or Persona())
    while not any(episode.belief[LAYOUT[f"liked_{k}"]] for k in VIEW):
        engine.apply(episode, DESK.turn(episode, act_of(OraclePolicy(), episode)))
    while episode.belief[LAYOUT["pending_feature"]]:
        engine.apply(episode, DESK.turn(episode, act_of(OraclePolicy(), episode)))
    k = next(k for k in VIEW if episode.belief[LAYOUT[f"liked_{k}"]])
    reprice(engine, episode, k, discount)
    return episode, engine, k


def reprice(engine, episode, k, discount):
    engine.apply(
        episode, AgentTurn(calls=(Call(CREATE_QUOTE, episode.task.quantity, k, discount),))
    )
    engine.apply(episode, AgentTurn((Said(acts.QUOTE, TOLD, k),)))


def hold(engine, episode, k):
    engine.apply(episode, AgentTurn((Said(acts.QUOTE, HELD, k),)))


# -- prices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [-20, -1, 0, 1, 20])
def test_it_takes_exactly_what_is_not_above_what_it_pays(gap):
    task = dataclasses.replace(a_sale(objection=-1), walk=930_000 + gap * 1000)
    episode, _, _ = priced(task, 70, Set(**QUIET, haggle=0))
    said = names(episode.user_turn)
    assert said == (["accept_price"] if gap >= 0 else ["counter_offer"])


def test_it_haggles_twice_at_most_over_a_price_it_pays():
    task = dataclasses.replace(a_sale(objection=-1), walk=1_100_000)
    episode, engine, k = priced(task, 0, Set(**QUIET, haggle=1))
    said = [names(episode.user_turn)]
    for _ in range(MOST_HAGGLES):
        hold(engine, episode, k)
        said.append(names(episode.user_turn))
    assert said == [["counter_offer"], ["object_price"], ["accept_price"]]


@pytest.mark.parametrize("bears", [0, 1])
def test_a_price_that_is_too_high_cannot_be_held_for_ever(bears):
    task = dataclasses.replace(a_sale(objection=-1), walk=800_000)
    episode, engine, k = priced(task, 0, Set(**QUIET, push_again=bears))
    said = []
    while not episode.end:
        hold(engine, episode, k)
        said.append(names(episode.user_turn))
    assert said == [["object_price"]] * (1 + bears) + [["walk_away"]]
    assert episode.end == "user_closed"


def test_a_step_down_begins_its_patience_anew():
    task = dataclasses.replace(a_sale(objection=-1), walk=800_000)
    episode, engine, k = priced(task, 0, Set(**QUIET, push_again=0))
    for discount in (25, 50, 75, 100):
        hold(engine, episode, k)
        assert not episode.end
        reprice(engine, episode, k, discount)
    assert names(episode.user_turn) == ["object_price"]


@pytest.mark.parametrize("patience", [0.0, 0.5, 1.0])
def test_a_price_held_seldom_makes_leave_whom_it_suits(patience):
    """As often as the model says, and the impatient more often."""
    model = DecisionModel()
    shares = [
        model.probability("leave", Persona(patience=p).levels, OFFENCE) for p in (0.0, 0.5, 1.0)
    ]
    assert 0.15 > shares[0] > shares[1] > shares[2] > 0
    quiet = {name: value for name, value in QUIET.items() if name != "leave"}
    sold = [task for task in (draw_task("train", n) for n in range(700)) if task.branch == 0]
    left = 0
    for key, task in enumerate(sold):
        task = dataclasses.replace(task, walk=1_200_000, objection=-1, nice=-1)
        user, persona = Buyer(Set(**quiet, haggle=1)), Persona(patience=patience)
        episode, _ = begin(task, key, user, persona)
        buyer, out = episode.user, []
        user._quote(episode, buyer, Heard(acts.QUOTE, 1000, 5), out)
        user._quote(episode, buyer, Heard(acts.QUOTE, 1000, 5), out)
        left += out[1] == U["walk_away"]
    expected = model.probability("leave", Persona(patience=patience).levels, OFFENCE) * len(sold)
    assert abs(left - expected) <= 4 * expected**0.5 + 1


def test_the_last_word_at_the_lowest_price_is_taken_or_accepted():
    """A true refusal of a lower price: whoever pays takes the price, whoever does not, the no."""
    sale = a_sale(objection=-1, switches=0)
    for walk, says in ((1000 - sale.allowed, "accept_price"), (999 - sale.allowed, None)):
        task = dataclasses.replace(sale, walk=walk * 1000)
        episode, engine, _ = priced(task, sale.allowed, Set(**QUIET, haggle=1, push_again=0))
        assert names(episode.user_turn) == ["counter_offer"]
        engine.apply(episode, DESK.turn(episode, ACTIONS["deny_beyond_authority"]))
        said = names(episode.user_turn)
        assert said == ([says] if says else ["accept_refusal", "bye"])
        assert episode.user.resolved == (says is None)


# -- objections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("objection", range(3))
@pytest.mark.parametrize("early", [0, 1])
def test_its_objection_comes_and_only_its_own_answer_settles_it(objection, early):
    category = (objection + 1) % 3
    task = dataclasses.replace(
        a_sale(objection=objection, category=category), walk=1_200_000, nice=-1
    )
    quiet = {name: value for name, value in QUIET.items() if name != "object"}
    model = Set(**quiet, haggle=0, object=early)
    if early:
        user = Buyer(model)
        episode, engine = begin(task, 7, user, Persona())
        while not any(episode.belief[LAYOUT[f"liked_{k}"]] for k in VIEW):
            engine.apply(episode, DESK.turn(episode, act_of(OraclePolicy(), episode)))
        assert not episode.user.price
    else:
        episode, engine, _ = priced(task, 0, model)
    name = f"object_{OBJECTIONS[objection]}"
    assert name in names(episode.user_turn)
    for other in set(range(4)) - {objection}:
        bother = episode.user.bother
        engine.apply(episode, DESK.turn(episode, ACTIONS[f"answer_{OBJECTIONS[other]}"]))
        assert name in names(episode.user_turn)
        assert episode.user.bother > bother
    engine.apply(episode, DESK.turn(episode, ACTIONS[f"answer_{OBJECTIONS[objection]}"]))
    assert names(episode.user_turn) == ["ask_price" if early else "accept_price"]
    assert episode.user.objecting < 0


def test_an_objection_passed_over_comes_back_with_the_next_price():
    task = dataclasses.replace(a_sale(objection=1), walk=1_200_000)
    episode, engine, k = priced(task, 0, Set(**QUIET, haggle=0))
    assert names(episode.user_turn) == ["object_trust"]
    hold(engine, episode, k)
    assert names(episode.user_turn) == ["object_trust"]
    assert episode.user.bother > 0
    engine.apply(episode, DESK.turn(episode, ACTIONS["answer_trust"]))
    assert names(episode.user_turn) == ["accept_price"]


# -- products, extras, the yes ---------------------------------------------------------------------


def test_what_lacks_a_must_have_is_turned_down_with_what_is_needed():
    task = next(
        task
        for task in (draw_task("train", number) for number in range(4000))
        if task.knowledge == 4 and task.branch == tasks.SELL
    )
    episode, engine = begin(task, 3, Buyer(Set(**QUIET, look_up=1)), Persona())
    heard = []
    while not any(name.startswith("reject_") for name in heard) and not episode.end:
        engine.apply(episode, DESK.turn(episode, act_of(OraclePolicy(), episode)))
        heard = names(episode.user_turn) if episode.user_turn else []
    assert heard[:2] in (["reject_first", "inform_needs"], ["reject_second", "inform_needs"])
    assert episode.desk.needs == task.must
    assert episode.belief[LAYOUT["search_old"]]
    rejected = [k for k in VIEW if episode.belief[LAYOUT[f"rejected_{k}"]]]
    assert len(rejected) == 1


@pytest.mark.parametrize("wants", [False, True])
def test_the_addon_is_taken_by_who_wants_it_and_kept_apart_from_the_yes(wants):
    task = dataclasses.replace(
        a_sale(objection=-1), walk=1_200_000, wants_addon=wants, switches=0
    )
    episode, engine, k = priced(task, 0, Set(**QUIET, haggle=0, take_extra=1))
    engine.apply(episode, DESK.turn(episode, ACTIONS["offer_addon"]))
    assert names(episode.user_turn) == ["take_addon" if wants else "decline_addon"]
    if not wants:
        engine.apply(episode, DESK.turn(episode, ACTIONS[f"add_addon_{k}"]))
    # Asked for a yes to an order with what it does not want, or without what it wants:
    engine.apply(episode, DESK.turn(episode, ACTIONS[f"confirm_{k}"]))
    assert names(episode.user_turn)[0] == "negate"
    assert "affirm" not in names(episode.user_turn)
    if wants:
        engine.apply(episode, DESK.turn(episode, ACTIONS[f"add_addon_{k}"]))
        engine.apply(episode, DESK.turn(episode, ACTIONS[f"confirm_{k}"]))
        assert names(episode.user_turn) == ["affirm"]


def test_a_yes_needs_the_right_number_of_pieces():
    task = dataclasses.replace(a_sale(objection=-1, quantity=2), walk=1_200_000, switches=0)
    episode, engine, k = priced(task, 0, Set(**QUIET, haggle=0))
    engine.apply(episode, AgentTurn(calls=(Call(CREATE_QUOTE, 1, k, 0),)))
    engine.apply(episode, DESK.turn(episode, ACTIONS[f"confirm_{k}"]))
    assert names(episode.user_turn) == ["negate", "inform_quantity"]


# -- laws over any talk ----------------------------------------------------------------------------

ANY_TALK = (
    st.integers(0, 20_000),
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=30),
)
thorough = settings(
    max_examples=250, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def agent_turn(episode, drawn):
    """What a drawn number stands for: sensible, random, several things at once."""
    row = belief(episode)
    legal = [int(a) for a in np.flatnonzero(ACTIONS.mask(row))]
    legal = [a for a in legal if ACTIONS.names[a] not in ("end_conversation", "transfer_to_human")]
    kind = drawn % 8
    if kind < 5:
        return DESK.turn(episode, act_of(OraclePolicy(), episode))
    if kind < 7:
        return DESK.turn(episode, legal[(drawn >> 4) % len(legal)])
    speech = [a for a in legal if a in SPOKEN]
    chosen = sorted({speech[(drawn >> shift) % len(speech)] for shift in (4, 12, 20)})
    rows = (ACTIONS.actions[a] for a in chosen)
    return AgentTurn(tuple(Said(a.kind, a.argument, a.pointer, a.value) for a in rows))


def conversation(number, key, script):
    """(before, turn, after) of each step of a conversation."""
    task = draw_task("train", number)
    episode, engine = begin(task, key, max_turns=80)
    steps = []
    for drawn in script:
        if episode.end:
            break
        before, turn = episode.snapshot(), agent_turn(episode, drawn)
        engine.apply(episode, turn)
        steps.append((before, turn, episode.snapshot()))
    return task, steps


@thorough
@given(*ANY_TALK)
def test_no_talk_makes_it_pay_more_or_say_yes_to_something_else(number, key, script):
    task, steps = conversation(number, key, script)
    for before, _, after in steps:
        said = names(after.user_turn) if after.user_turn else []
        if "accept_price" in said or "affirm" in said:
            quote = after.desk.quotes[after.desk.priced]
            assert task.pays(quote.discount)
        if "affirm" in said:
            product, _, pieces, addon = after.desk.confirmed
            assert product in after.desk.quotes
            assert pieces == task.quantity
            assert addon == (after.desk.addon == 1)
            assert DESK.shop.features[product] & task.must == task.must
        if before.user.waiting and after.user.waiting:
            assert "bye" not in said  # nobody leaves between the yes and the deed content
        if "walk_away" in said:
            assert after.end == "user_closed"
            assert after.user.holds > 0


@thorough
@given(*ANY_TALK)
def test_it_brings_up_its_own_objection_and_feature_and_no_other(number, key, script):
    task, steps = conversation(number, key, script)
    settled = False
    for _, turn, after in steps:
        said = names(after.user_turn) if after.user_turn else []
        for place, objection in enumerate(OBJECTIONS):
            if f"object_{objection}" in said:
                assert place == task.objection
                assert not settled
        settled |= after.user.objecting < 0 and after.user.objection < 0 <= task.objection
        assert task.nice >= 0 or "ask_feature" not in said
        assert not (turn.calls and not turn.said and after.user_turn and not after.end)


@thorough
@given(*ANY_TALK)
def test_the_log_probability_is_that_of_the_choices(number, key, script):
    _, steps = conversation(number, key, script)
    model = DecisionModel()
    for _, _, after in steps:
        if after.user_turn:
            made = [Decision(*choice) for choice in after.user_turn.decisions]
            logged = model.log_prob(made, after.user.persona)
            assert after.user_turn.log_prob == pytest.approx(logged, abs=1e-9)


@thorough
@given(*ANY_TALK)
def test_a_snapshot_goes_on_as_the_original_does(number, key, script):
    task = draw_task("train", number)
    episode, engine = begin(task, key, max_turns=80)
    for place, drawn in enumerate(script):
        if episode.end:
            break
        copy = episode.snapshot()
        other = Engine(DESK, Buyer(), 80)
        for one, runs in ((episode, engine), (copy, other)):
            runs.apply(one, agent_turn(one, drawn))
        assert copy.user_turn == episode.user_turn, place
        assert bytes(copy.belief) == bytes(episode.belief)
        assert copy.diff == episode.diff
        assert (copy.end, copy.violations) == (episode.end, episode.violations)


def test_all_it_can_say_is_heard_somewhere():
    """Every act of the vocabulary comes up in play, but what only free text brings about."""
    heard = set()
    for number in range(1500):
        split = "test_primitive" if number % 5 == 0 else "train"
        task = draw_task(split, number)
        episode, engine = begin(task, number)
        heard |= set(names(episode.user_turn))
        policy = OraclePolicy(noise=0.25)
        policy.reset(number)
        while not episode.end:
            engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
            if episode.user_turn:
                heard |= set(names(episode.user_turn))
    unclear_words, no_answer = "ask_back", "dont_know"  # a buyer here has an answer to all
    assert set(USER_ACTS) - heard == {unclear_words, no_answer}
