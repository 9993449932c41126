"""The record of a user in a row: what it wants, knows and feels, its choices and its turns.

    knowledge, decision model ─► users(…)      one record of tables
    begin_user ─► decide, out, … ─► end_turn   a turn on the row

`convgym.users.user_state` and the first half of `convgym.users.decisions`, for the batched engine;
the reactions themselves stand in `convgym.users.agenda_batch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine import acts
from convgym.engine.acts import FIRST_TOOL
from convgym.engine.batch import HEARD_WIDTH, Fields, draw, hear, numbers, record
from convgym.engine.kernel import kernel
from convgym.engine.keys import USER
from convgym.users.agenda import BREAKING
from convgym.users.decisions import (
    _REACH,
    _STEP,
    POINTS,
    SIGMOID,
    STRIDE,
    DecisionModel,
)
from convgym.users.user_state import (
    Knowledge,
)

MOST_SLOTS = 16
MOST_REQUESTS = 3

USER_FIELDS: Fields = [
    *numbers(
        "heard_turn bother slipped told slots_answered intent_said holding question "
        "fresh explained owed puzzled doubted waiting promised satisfied apologised denied "
        "disputes was_offered resolved closing taken at now_about requests reply_length"
    ),
    ("asked", np.int32, (MOST_SLOTS,)),
    ("knows", np.int32, (MOST_REQUESTS,)),
]
"""The user's record, in the order of `UserState`; `knows` are rows of the table of knowledge."""

GENERAL = (
    "greet", "affirm", "negate", "thank", "bye", "hold", "ask_back", "acknowledge", "frustrated",
    "give_up", "push_back", "challenge", "challenge_done", "remind_promise", "decline_offer",
    "ask_why", "ask_meaning", "ask_sure", "ask_next", "ask_alternative", "accept_alternative",
    "accept_refusal", "no_more", "no_luck", "dont_know", "tangent",
)  # fmt: skip
"""Acts that users of every domain have."""
(
    GREET, AFFIRM, NEGATE, THANK, BYE, HOLD, ASK_BACK, ACKNOWLEDGE, FRUSTRATED,
    GIVE_UP, PUSH_BACK, CHALLENGE, CHALLENGE_DONE, REMIND_PROMISE, DECLINE_OFFER,
    ASK_WHY, ASK_MEANING, ASK_SURE, ASK_NEXT, ASK_ALTERNATIVE, ACCEPT_ALTERNATIVE,
    ACCEPT_REFUSAL, NO_MORE, NO_LUCK, DONT_KNOW, TANGENT,
) = range(len(GENERAL))  # fmt: skip

IS_BREAKING = np.array([kind in BREAKING for kind in range(FIRST_TOOL)])
_MIDDLE = _REACH + _STEP // 2


def users(
    vocabulary: Mapping[str, int], model: DecisionModel, known: Sequence[Knowledge]
) -> NDArray[np.void]:
    """Compile a vocabulary, a decision model, and knowledge by number, to one record.  # (1,)"""
    most = max(len(tilts) for tilts in model.tilts)
    traits = np.zeros((len(POINTS), most), dtype=np.int32)
    slopes = np.zeros((len(POINTS), most), dtype=np.int64)
    for point, tilts in enumerate(model.tilts):
        for place, (trait, slope) in enumerate(tilts):
            traits[point, place], slopes[point, place] = trait, slope

    def bits(members: Any) -> int:
        return sum(1 << member for member in members)

    slots = max(len(one.ladders) for one in known)
    assert slots <= MOST_SLOTS, f"a user of {slots} slots; the columns hold {MOST_SLOTS}"
    rungs = max(len(ladder) for one in known for ladder in one.ladders)
    ladders = np.full((len(known), slots, max(rungs, 1)), -1, dtype=np.int32)
    for number, one in enumerate(known):
        for slot, ladder in enumerate(one.ladders):
            ladders[number, slot, : len(ladder)] = ladder
    asks = np.full((len(known), max(1, max(len(one.asks) for one in known))), -1, dtype=np.int32)
    for number, one in enumerate(known):
        asks[number, : len(one.asks)] = one.asks
    return record(
        acts=[vocabulary.get(name, -1) for name in GENERAL],
        base=model.base,
        bother_tilt=model.bother,
        traits=traits,
        slopes=slopes,
        sigmoid=[[threshold, yes, no] for threshold, yes, no in SIGMOID],
        request=[one.request for one in known],
        ladders=ladders,
        rungs=[[len(ladder) for ladder in one.ladders] for one in known],
        slips=[one.misremembered for one in known],
        main_slot=[one.main_slot for one in known],
        first_slot=[one.first_slot for one in known],
        looks_up=[one.must_look_up for one in known],
        alternative=[one.alternative for one in known],
        facts=[bits(one.facts) for one in known],
        personal=[bits(one.personal) for one in known],
        terms_asked=[bits(a for kind, a in one.terms if kind == acts.ASK) for one in known],
        terms_told=[bits(a for kind, a in one.terms if kind == acts.TELL) for one in known],
        asks=asks,
        correct=[one.correct for one in known],
    )


# -- choices -------------------------------------------------------------------------------------


@kernel
def drawn(D: Any, e: Any, point: int, index: int, situation: int) -> bool:
    """A choice as it is drawn; its log-probability is added to the turn's."""
    logit = D.base[point] + situation
    for place in range(D.traits.shape[1]):
        logit += D.slopes[point, place] * (e.persona[D.traits[point, place]] - 50)
    row = (min(max(logit, -_REACH), _REACH) + _MIDDLE) // _STEP
    chosen = np.int64(draw(e.user_key, USER, e.user_turn, index)) < D.sigmoid[row, 0]
    e.log_prob += D.sigmoid[row, 1] if chosen else D.sigmoid[row, 2]
    return chosen


@kernel
def decide(D: Any, e: Any, point: int, which: int) -> bool:
    """A choice at a decision point."""
    return drawn(D, e, point, point + STRIDE * which, 0)


@kernel
def out(e: Any, act: int) -> None:
    """One more act of the user's turn; what it has said in it, it does not say again."""
    for place in range(e.n_acts):
        if e.acts[place] == act:
            return
    e.acts[e.n_acts] = act
    e.n_acts += 1


@kernel
def general(D: Any, e: Any, name: int) -> None:
    """One more of the acts that every user has."""
    out(e, D.acts[name])


@kernel
def is_said(e: Any, act: int) -> bool:
    """Whether an act is part of this turn."""
    for place in range(e.n_acts):
        if e.acts[place] == act:
            return True
    return False


@kernel
def known(e: Any) -> int:
    """Row of the knowledge of the request that the user is at."""
    return e.knows[e.at]


# -- opening and closing a turn --------------------------------------------------------------------


@kernel
def begin_user(e: Any) -> None:
    """A fresh record; persona, number of requests and knowledge are the caller's to set."""
    e.user_turn = e.heard_turn = e.bother = e.slipped = e.told = e.slots_answered = 0
    e.intent_said = e.holding = e.question = e.fresh = e.explained = e.puzzled = 0
    e.doubted = e.waiting = e.promised = e.satisfied = e.apologised = e.denied = 0
    e.disputes = e.was_offered = e.resolved = e.closing = e.taken = e.at = 0
    e.now_about = e.reply_length = 0
    e.owed = -1
    for slot in range(len(e.asked)):
        e.asked[slot] = 0


@kernel
def end_turn(e: Any) -> None:
    """`AgendaUser._turn`: what is of one turn alone is put back."""
    e.answered = 1
    e.about = e.now_about
    e.user_turn += 1
    e.now_about = e.at
    e.slots_answered = 0
    e.fresh = e.explained = 0


@kernel
def sort_heard(e: Any, kind: int) -> None:
    """What is of one kind comes first; else the order stays."""
    place = 0
    for at in range(e.n_heard):
        if e.heard[at, 0] == kind:
            for column in range(HEARD_WIDTH):
                moved = e.heard[at, column]
                for before in range(at, place, -1):
                    e.heard[before, column] = e.heard[before - 1, column]
                e.heard[place, column] = moved
            place += 1


@kernel
def order_heard(e: Any) -> None:
    """Each thing once, explanations first; silence is unclear."""
    if e.n_heard == 0:
        hear(e, acts.UNCLEAR, 0, -1, acts.FINE)
    if e.n_heard == 1:
        return
    kept = 0
    for at in range(e.n_heard):
        again = False
        for before in range(kept):
            same = True
            for column in range(HEARD_WIDTH):
                same = same and e.heard[at, column] == e.heard[before, column]
            again = again or same
        if not again:
            for column in range(HEARD_WIDTH):
                e.heard[kept, column] = e.heard[at, column]
            kept += 1
    e.n_heard = kept
    sort_heard(e, acts.EXPLAIN)


@kernel
def any_heard(e: Any, kind: int) -> bool:
    """Whether something of this kind is heard in this turn."""
    for at in range(e.n_heard):
        if e.heard[at, 0] == kind:
            return True
    return False
