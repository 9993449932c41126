"""The buyer on integer rows: `convgym.domains.sales.buyer`, reaction by reaction.

`D` are the tables of the decision model and of what buyers know, `e` is an episode's record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from convgym.domains.sales import cells
from convgym.domains.sales.buyer import (
    DECLINES,
    MOST_HAGGLES,
    MOST_HOLDS,
    OBJECTED,
    OFFENCE,
    TAKES,
    knowledge,
)
from convgym.domains.sales.hearing import ASKED, LACKS_FIRST, TOO_DEAR
from convgym.domains.sales.tasks import Task, draw_task
from convgym.domains.sales.vocabulary import (
    ADDON,
    BUDGETS,
    KNOWLEDGES,
    NEED,
    OFFERS,
    PRICE_DENIALS,
    U,
)
from convgym.engine import acts
from convgym.engine.batch import Fields, numbers
from convgym.engine.kernel import kernel
from convgym.engine.rules import ALLOW, Decision
from convgym.users import agenda_batch as agenda
from convgym.users import decisions
from convgym.users.agenda_batch import (
    put,
)
from convgym.users.user_batch import (
    AFFIRM,
    CHALLENGE,
    NEGATE,
    any_heard,
    decide,
    drawn,
    general,
    known,
    order_heard,
    out,
)
from convgym.users.user_state import NOTHING, Knowledge

BUYER_FIELDS: Fields = numbers(
    "walk objection objecting nice open_to_addon curious shown price price_of prices_come "
    "has_countered haggles holds accepted extra"
)
"""`BuyerState`; `price_of` and `has_countered` are its `priced` and `countered`."""

_OBJECTS = np.array(cells.OBJECTS)
_LIKE_PRODUCT, _ASK_FEATURE, _ASK_PRICE = U["like_product"], U["ask_feature"], U["ask_price"]
_REJECT_FIRST, _REJECT_SECOND, _REJECT_DEAR = (
    U["reject_first"], U["reject_second"], U["reject_dear"]
)  # fmt: skip
_INFORM_NEEDS, _INFORM_QUANTITY = U["inform_needs"], U["inform_quantity"]
_ACCEPT_PRICE, _WALK_AWAY = U["accept_price"], U["walk_away"]
_COUNTER_OFFER, _OBJECT_PRICE = U["counter_offer"], U["object_price"]
_TAKE_ADDON, _DECLINE_ADDON = U["take_addon"], U["decline_addon"]


def known_of(task: Task) -> int:
    """Row of the table of knowledge that a task's buyer has."""
    kind = task.knowledge * len(BUDGETS) + task.budget_kind
    return (kind * 2 + (task.wrong >= 0)) * 2 + bool(task.decision.alternative)


def all_known() -> list[Knowledge]:
    """All that a buyer can know, in the order of `known_of`."""
    task = draw_task("train", 0)
    return [
        knowledge(
            replace(
                task,
                knowledge=kind,
                budget_kind=budget,
                wrong=wrong,
                decision=Decision(ALLOW, "", alternative),
            )
        )
        for kind in range(len(KNOWLEDGES))
        for budget in range(len(BUDGETS))
        for wrong in (-1, 0)
        for alternative in ("", OFFERS[0])
    ]


@kernel
def begin_buyer(e: Any, t: Any) -> None:
    """A fresh record for a task."""
    e.requests = 1
    e.knows[0] = t.known
    e.walk = t.walk
    e.objection = t.objection
    e.objecting = e.shown = e.price_of = -1
    e.nice = t.nice >= 0
    e.open_to_addon = t.wants_addon
    e.curious = e.price = e.prices_come = e.has_countered = 0
    e.haggles = e.holds = e.accepted = e.extra = 0


@kernel
def answer(D: Any, e: Any) -> None:
    """React to each act in turn, then see to one's own business."""
    e.prices_come = any_heard(e, acts.QUOTE) or any_heard(e, acts.CONFIRM)
    bother_before, content_before, at_before = e.bother, e.satisfied, e.at
    question, waited, promised = e.question, e.waiting, e.promised
    order_heard(e)
    wait(e)
    agenda.come_back(D, e)
    for at in range(e.n_heard):
        if not e.closing:
            react(D, e, e.heard[at, 0], e.heard[at, 1], e.heard[at, 2], e.heard[at, 3])
    if question and not e.closing:
        agenda.mind_question(e, question)
    agenda.remind(D, e, waited, promised)
    done = e.closing or e.satisfied
    if e.denied and not done and (any_heard(e, acts.DENY) or any_heard(e, acts.OFFER)):
        agenda.face_refusal(D, e)
    if e.satisfied and not e.closing:
        agenda.part(D, e, content_before != 0)
    agenda.conclude(D, e, bother_before, at_before)


@kernel
def react(D: Any, e: Any, kind: int, argument: int, pointer: int, verdict: int) -> None:
    """To one act, by its kind."""
    if kind == acts.RECOMMEND:
        recommend(D, e, argument, pointer, verdict)
    elif kind == acts.QUOTE:
        quote(D, e, argument, pointer, verdict)
    elif kind == acts.TELL:
        tell(D, e, argument, pointer, verdict)
    elif kind == acts.EXPLAIN:
        explain(D, e, argument)
    elif kind == acts.CONFIRM:
        confirm(D, e, argument, pointer, verdict)
    elif kind == acts.DENY:
        deny(D, e, argument, verdict)
    elif kind == acts.OFFER:
        offer(D, e, argument, verdict)
    else:
        agenda.react(D, e, kind, argument, pointer, verdict)


# -- products ------------------------------------------------------------------------------------


@kernel
def recommend(D: Any, e: Any, argument: int, pointer: int, verdict: int) -> None:
    """To a product: like it, object to it, or be bothered where it was shown before."""
    if turns_down(D, e, argument, pointer, verdict):
        return
    e.denied = 0  # there is something to sell after all
    if e.shown == pointer:
        e.bother += 1
        return
    e.shown = pointer
    out(e, _LIKE_PRODUCT)
    if e.objection >= 0 and decide(D, e, decisions.OBJECT, 0):
        raise_objection(D, e)
    else:
        go_on(e)


@kernel
def turns_down(D: Any, e: Any, argument: int, pointer: int, verdict: int) -> bool:
    """A claim without a basis, or a product that will not do."""
    if verdict == acts.DOUBTFUL:
        e.bother += 2
        general(D, e, CHALLENGE)
    elif verdict == acts.OTHER_OBJECT:
        reject(D, e, argument, pointer)
    return verdict == acts.DOUBTFUL or verdict == acts.OTHER_OBJECT


@kernel
def reject(D: Any, e: Any, argument: int, pointer: int) -> None:
    """Say why a product will not do, and what was wanted."""
    e.bother += 1
    if pointer == e.shown:
        e.shown = -1
        e.price = 0
    if argument == TOO_DEAR:
        out(e, _REJECT_DEAR)
        return
    out(e, _REJECT_FIRST if argument == LACKS_FIRST else _REJECT_SECOND)
    out(e, _INFORM_NEEDS)
    e.asked[NEED] = D.rungs[known(e), NEED]


@kernel
def go_on(e: Any) -> None:
    """What it wants to know of a product that it likes."""
    if e.nice:
        e.nice = 0
        e.curious = 1
        out(e, _ASK_FEATURE)
    elif not e.price and e.shown >= 0:
        out(e, _ASK_PRICE)


@kernel
def tell(D: Any, e: Any, argument: int, pointer: int, verdict: int) -> None:
    """To something told of a product: go on, or ask what it means."""
    if turns_down(D, e, argument, pointer, verdict):
        return
    if pointer == ASKED:
        e.curious = 0
    if not e.question and not agenda.ask_meaning(D, e, acts.TELL, argument):
        go_on(e)


@kernel
def wait(e: Any) -> None:
    """As `agenda.wait`; a question about a product that was not answered bothers."""
    agenda.wait(e)
    if e.curious and not any_heard(e, acts.TELL):
        e.bother += 1
        e.curious = 0


# -- objections ----------------------------------------------------------------------------------


@kernel
def raise_objection(D: Any, e: Any) -> None:
    """Put the objection that it came with, or the open one again."""
    if e.objecting < 0:
        e.objecting = e.objection
        e.objection = -1
    put(D, e, OBJECTED, _OBJECTS[e.objecting])


@kernel
def explain(D: Any, e: Any, argument: int) -> None:
    """To an explanation: the objection that it answers is settled, any other stays."""
    if e.objecting >= 0 and argument == 1 + e.objecting:
        e.explained = 1
        e.objecting = -1
        if e.question == OBJECTED:
            e.question = NOTHING
        if e.price and not e.prices_come:
            weigh(D, e, False)
        elif not e.price:
            go_on(e)
    elif e.question == OBJECTED:
        e.bother += 1
        raise_objection(D, e)
    elif not argument:
        agenda.explain(D, e)


# -- prices --------------------------------------------------------------------------------------


@kernel
def quote(D: Any, e: Any, argument: int, pointer: int, verdict: int) -> None:
    """To a price: take it in, and weigh it unless the product will not do."""
    if not turns_down(D, e, argument, pointer, verdict):
        held = note_price(e, argument, pointer)
        weigh(D, e, held)


@kernel
def note_price(e: Any, argument: int, pointer: int) -> bool:
    """Take in a price; whether it was only held."""
    is_known = e.price_of == pointer and e.price > 0
    held = is_known and argument >= e.price
    if not held:
        e.holds = e.denied = 0
    if not is_known or argument > e.price:
        e.accepted = 0
    e.shown = e.price_of = pointer
    e.price = argument
    return held


@kernel
def pays(e: Any) -> bool:
    """Whether the price told last is at most what it pays."""
    return e.price * 1000 <= e.walk


@kernel
def weigh(D: Any, e: Any, held: bool) -> None:
    """What to say to the price on the table."""
    if e.waiting or e.satisfied:
        return
    if e.objecting >= 0 or e.objection >= 0:
        raise_objection(D, e)
    elif e.accepted:
        out(e, _ACCEPT_PRICE)
    elif held and not bears_it(D, e):
        out(e, _WALK_AWAY)
        e.closing = 1
    elif pays(e):
        if e.haggles < MOST_HAGGLES and decide(D, e, decisions.HAGGLE, e.haggles):
            e.haggles += 1
            haggle(e)
        else:
            e.accepted = 1
            out(e, _ACCEPT_PRICE)
    else:
        haggle(e)


@kernel
def bears_it(D: Any, e: Any) -> bool:
    """Whether it stays, now that a price it has objected to is held."""
    e.holds += 1
    if pays(e) or e.holds == 1:
        which = decisions.LEAVE + decisions.STRIDE * e.holds
        return not drawn(D, e, decisions.LEAVE, which, OFFENCE)
    return e.holds <= MOST_HOLDS and decide(D, e, decisions.PUSH_AGAIN, e.holds)


@kernel
def haggle(e: Any) -> None:
    """A counter-offer at first, a complaint about the price after that."""
    out(e, _OBJECT_PRICE if e.has_countered else _COUNTER_OFFER)
    e.has_countered = 1


@kernel
def deny(D: Any, e: Any, argument: int, verdict: int) -> None:
    """To a refusal: where a price is on the table, take it as the last word."""
    if argument >= PRICE_DENIALS or not e.price:
        agenda.deny(e, verdict)
    elif verdict != acts.FINE:
        weigh(D, e, True)
    elif pays(e):
        e.haggles = MOST_HAGGLES  # that was the last word
        weigh(D, e, False)
    else:
        agenda.deny(e, verdict)


# -- the deal ------------------------------------------------------------------------------------


@kernel
def offer(D: Any, e: Any, argument: int, verdict: int) -> None:
    """To an offer; that of the add-on is taken or declined once."""
    if argument != ADDON:
        agenda.offer(D, e, verdict)
        return
    if e.extra:
        e.bother += 1
    else:
        takes = decide(D, e, decisions.TAKE_EXTRA, 0) and e.open_to_addon != 0
        e.extra = TAKES if takes else DECLINES
    say_of_addon(e)


@kernel
def say_of_addon(e: Any) -> None:
    """Say whether it takes the add-on."""
    out(e, _TAKE_ADDON if e.extra == TAKES else _DECLINE_ADDON)


@kernel
def confirm(D: Any, e: Any, argument: int, pointer: int, verdict: int) -> None:
    """To a question for a yes: agree, correct what is wrong, or turn the product down."""
    if verdict == acts.OTHER_OBJECT:
        general(D, e, NEGATE)
    if turns_down(D, e, argument, pointer, verdict):
        return
    if verdict == acts.OTHER_REQUEST:
        e.bother += 1
        general(D, e, NEGATE)
        out(e, _INFORM_QUANTITY)
    elif verdict == acts.WRONG:
        e.bother += 1
        general(D, e, NEGATE)
        say_of_addon(e)
    elif e.shown != -1 and e.shown != pointer:
        e.bother += 1
        general(D, e, NEGATE)
        out(e, D.correct[known(e)])
    else:
        held = note_price(e, argument, pointer)
        before = e.n_acts
        weigh(D, e, held)
        if e.accepted:
            e.waiting = not e.satisfied
            e.denied = 0
            e.n_acts = before  # the yes stands for what was weighed
            general(D, e, AFFIRM)
