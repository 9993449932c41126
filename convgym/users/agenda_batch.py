"""Many agenda users at once: `convgym.users.agenda` on integer arrays, one row a user.

Sections, helpers and their order are those of the plain user; where that one branches,
this one selects rows:

    if state.holding:                      rows = rows[state.holding[rows]]
        state.holding = False       ──►    state.holding[rows] = False
        out.append(…)                      state.say(rows, …)

`rows` are row numbers, none twice; arguments beside them have one element for each. A user
hears one act a turn here. Draws are keyed, so no order of asking for them changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from convgym.engine import acts
from convgym.engine.keys import PERSONA, USER, below_batch, draw_batch
from convgym.users import decisions
from convgym.users.agenda import MOST_DISPUTES, TRAIT_OF, Knowledge
from convgym.users.decisions import DecisionModel
from convgym.users.persona import LEVELS

Rows = NDArray[np.intp]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_ACTS = 8
"""Acts in one user turn; the longest that can happen is shorter."""
RUNGS = 3
"""Rungs of a ladder; a shorter one repeats its last."""


class Columns:
    """Arrays of one length, by name: row i of them all is one record. They may nest."""

    def __getitem__(self, rows: Rows) -> Self:
        """An independent copy of these records, in this order."""
        taken = object.__new__(type(self))
        for name, column in vars(self).items():
            setattr(taken, name, column[rows])
        return taken

    def __setitem__(self, rows: Rows, records: Self) -> None:
        for name, column in vars(self).items():
            column[rows] = getattr(records, name)


class Knowledges(Columns):
    """`Knowledge` of n users, under the same names."""

    def __init__(self, known: Sequence[Knowledge]) -> None:
        self.request = np.array([one.request for one in known])  # (n,)
        self.ladders = np.array(  # (n, slots, RUNGS)
            [
                [(*ladder, *(ladder[-1:] or (-1,)) * RUNGS)[:RUNGS] for ladder in one.ladders]
                for one in known
            ]
        )
        self.rungs = np.array([[len(ladder) for ladder in one.ladders] for one in known])
        self.misremembered = np.array([one.misremembered for one in known])  # (n, slots)
        self.main_slot = np.array([one.main_slot for one in known])
        self.first_slot = np.array([one.first_slot for one in known])
        self.must_look_up = np.array([one.must_look_up for one in known])
        self.alternative = np.array([one.alternative for one in known])
        self.facts = np.array([sum(1 << fact for fact in one.facts) for one in known])  # bit sets


class UserStates(Columns):
    """`UserState` of n users, under the same names, and what they say in this turn."""

    def __init__(self, keys: NDArray[np.uint64], personas: Ints, knowledge: Knowledges) -> None:
        n, slots = knowledge.misremembered.shape
        self.key = keys
        self.persona = personas  # (n, 5)
        self.knowledge = knowledge
        self.turn, self.bother, self.log_prob, self.told, self.denied, self.disputes = np.zeros(
            (6, n), dtype=np.int64
        )
        self.asked = np.zeros((n, slots), dtype=np.int64)
        self.slipped = np.zeros((n, slots), dtype=bool)
        self.intent_said, self.holding, self.waiting, self.satisfied = np.zeros((4, n), dtype=bool)
        self.apologised, self.offered, self.resolved, self.closing = np.zeros((4, n), dtype=bool)
        self.acts = np.full((n, MOST_ACTS), -1, dtype=np.int16)
        """The turn's acts in their order, none twice; then -1."""
        self.said = np.zeros(n, dtype=np.int64)
        """How many they are."""

    def hush(self, rows: Rows) -> None:
        """Begin a turn: nothing said, nothing drawn."""
        self.acts[rows] = -1
        self.said[rows] = self.log_prob[rows] = 0

    def say(self, rows: Rows, act: Ints | int) -> None:
        """Append an act to each turn, unless it is in there."""
        if not len(rows):
            return
        fresh = (self.acts[rows] != np.reshape(act, (-1, 1))).all(axis=1)
        self.acts[rows, self.said[rows]] = np.where(fresh, act, -1)
        self.said[rows] += fresh


class BatchedAgendaUser:
    """Answers for any number of users, as `AgendaUser` answers for one."""

    def __init__(self, vocabulary: Mapping[str, int], model: DecisionModel | None = None) -> None:
        self.model = model or DecisionModel()
        self.u = dict(vocabulary)
        self._table = np.array(self.model.table)  # (points, levels, 3)
        self._leave = np.array(self.model.leave)  # (levels, bother, 3)
        self._reactions = {
            acts.CHAT: self._chat,
            acts.ASK_INTENT: self._ask_intent,
            acts.ASK: self._ask,
            acts.ASK_MORE: self._ask_more,
            acts.TELL: self._tell,
            acts.CONFIRM: self._confirm,
            acts.DENY: self._deny,
            acts.OFFER: self._offer,
            acts.REPORT_DONE: self._report_done,
            acts.APOLOGISE: self._apologise,
            acts.CLOSE: self._close,
        }

    def open(self, state: UserStates) -> None:
        """The opening of every row: a bare greeting, or the request and what is volunteered."""
        rows = np.arange(len(state.key))
        asks = ~self._decide(state, rows, decisions.GREET_ONLY)
        greets = ~asks
        greets[asks] = self._decide(state, rows[asks], decisions.THANK)
        state.say(rows[greets], self.u["greet"])
        rows = rows[asks]
        state.say(rows, self._request(state, rows))
        rows = rows[self._decide(state, rows, decisions.FRONT_LOAD)]
        self._volunteer(state, rows)
        rows = rows[self._decide(state, rows, decisions.FRONT_LOAD, 1)]
        state.say(rows, self._rung(state, rows, state.knowledge.first_slot[rows]))
        state.turn += 1

    def answer(
        self, state: UserStates, rows: Rows, kind: Ints, argument: Ints, verdict: Ints
    ) -> None:
        """React to the one act each of `rows` heard, then see to one's own business."""
        state.hush(rows)
        bother_before, content_before = state.bother.copy(), state.satisfied.copy()
        back = rows[state.holding[rows]]
        state.holding[back] = False
        state.say(back, self._rung(state, back, state.knowledge.main_slot[back]))
        for one, at in by_kind(kind):
            self._reactions[one](state, rows[at], argument[at], verdict[at])
        done = (state.closing | state.satisfied)[rows]
        refused = ((kind == acts.DENY) | (kind == acts.OFFER)) & (state.denied[rows] > 0) & ~done
        self._face_refusal(state, rows[refused])
        parting = rows[state.satisfied[rows] & ~state.closing[rows]]
        self._part(state, parting, content_before[parting])
        mute = rows[~(state.intent_said | state.closing)[rows]]
        state.say(mute, self._request(state, mute))
        state.say(rows[state.said[rows] == 0], self.u["acknowledge"])
        bothered = (state.bother > bother_before) & ~(
            state.closing | state.satisfied | state.waiting
        )
        self._lose_patience(state, rows[bothered[rows]])
        state.turn[rows] += 1

    # -- reactions, one for each kind of speech ---------------------------------------------

    def _chat(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        state.bother[rows] += (state.turn[rows] > 1) & (state.said[rows] == 0)

    def _ask_intent(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        state.bother[rows] += state.intent_said[rows]
        state.say(rows, self._request(state, rows))

    def _ask(self, state: UserStates, rows: Rows, slot: Ints, verdict: Ints) -> None:
        knowledge, rungs = state.knowledge, state.knowledge.rungs[rows, slot]
        ignorant = rows[rungs == 0]
        state.bother[ignorant] += 1
        state.say(ignorant, self.u["dont_know"])
        rows, slot, rungs = rows[rungs > 0], slot[rungs > 0], rungs[rungs > 0]
        asked, main = state.asked[rows, slot], slot == knowledge.main_slot[rows]
        state.bother[rows] += asked >= rungs + state.slipped[rows, slot]
        searches = main & knowledge.must_look_up[rows] & (asked == 0)
        holding = rows[searches & ~state.holding[rows]]
        state.holding[holding] = True
        state.say(holding, self.u["hold"])
        rows, slot, main = rows[~searches], slot[~searches], main[~searches]
        state.say(rows, self._rung(state, rows, slot))
        rows, slot = rows[~main], slot[~main]
        self._volunteer(state, rows[self._decide(state, rows, decisions.VOLUNTEER, slot)])

    def _ask_more(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        rows = rows[~state.satisfied[rows]]
        state.bother[rows] += 1
        state.say(rows, self._request(state, rows))

    def _tell(self, state: UserStates, rows: Rows, fact: Ints, verdict: Ints) -> None:
        doubtful, other = rows[verdict == acts.DOUBTFUL], rows[verdict == acts.OTHER_OBJECT]
        state.bother[doubtful] += 2
        state.say(doubtful, self.u["challenge"])
        state.bother[other] += 1
        state.say(other, self.u["correct_order"])
        heard = (verdict != acts.DOUBTFUL) & (verdict != acts.OTHER_OBJECT)
        rows, fact = rows[heard], fact[heard]
        state.told[rows] |= 1 << fact
        wanted = state.knowledge.facts[rows]
        state.satisfied[rows] |= (wanted > 0) & (state.told[rows] & wanted == wanted)

    def _confirm(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        u, fine, other = self.u, rows[verdict == acts.FINE], rows[verdict == acts.OTHER_OBJECT]
        state.waiting[fine], state.denied[fine] = True, 0
        state.say(fine, u["affirm"])
        state.say(rows[verdict == acts.FEE_UNKNOWN], u["ask_fee"])
        state.say(rows[verdict == acts.CHANNEL_UNKNOWN], u["ask_channel"])
        state.bother[other] += 1
        state.say(other, u["negate"])
        state.say(other, u["correct_order"])
        rows = rows[(verdict == acts.OTHER_REQUEST) | (verdict == acts.WRONG)]
        state.bother[rows] += 1
        state.say(rows, u["negate"])
        state.say(rows, self._request(state, rows))

    def _deny(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        state.waiting[rows] = False
        state.denied[rows] = np.where((verdict == acts.FINE) | (state.denied[rows] == 1), 1, 2)

    def _offer(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        taken = (verdict == acts.FINE) & (state.denied[rows] == 1)
        state.offered[rows] |= taken
        rows = rows[~taken & (state.denied[rows] != 2)]
        state.bother[rows] += 1
        state.say(rows, self.u["decline_offer"])

    def _report_done(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        fine, rows = rows[verdict == acts.FINE], rows[verdict != acts.FINE]
        state.satisfied[fine], state.waiting[fine] = True, False
        state.bother[rows] += 2
        state.say(rows, self.u["challenge_done"])

    def _apologise(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        state.bother[rows] -= ~state.apologised[rows] & (state.bother[rows] > 0)
        state.apologised[rows] = True

    def _close(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        rows = rows[~state.satisfied[rows]]
        state.bother[rows] += 2
        protests = state.waiting[rows]
        protests[~protests] = self._decide(state, rows[~protests], decisions.PROTEST)
        state.say(rows[protests], self._request(state, rows[protests]))
        state.say(rows[~protests], self.u["bye"])
        state.closing[rows[~protests]] = True

    # -- the user's own business --------------------------------------------------------------

    def _face_refusal(self, state: UserStates, rows: Rows) -> None:
        u, wrong = self.u, rows[state.denied[rows] == 2]
        tired = state.disputes[wrong] > MOST_DISPUTES
        state.say(wrong[tired], u["give_up"])
        state.closing[wrong[tired]] = True
        wrong = wrong[~tired]
        state.bother[wrong] += 1
        rows = rows[state.denied[rows] == 1]
        pushes = state.disputes[rows] < MOST_DISPUTES
        pushes[pushes] = self._decide(state, rows[pushes], decisions.PUSH_AGAIN)
        pushing, rows = np.concatenate([wrong, rows[pushes]]), rows[~pushes]
        state.disputes[pushing] += 1
        state.say(pushing, u["push_back"])
        alternative = state.knowledge.alternative[rows]
        hopes = alternative & ~state.offered[rows]
        state.say(rows[hopes], u["ask_alternative"])
        rows, alternative = rows[~hopes], alternative[~hopes]
        state.say(rows, np.where(alternative, u["accept_alternative"], u["accept_refusal"]))
        state.say(rows, u["bye"])
        state.resolved[rows] = state.closing[rows] = True

    def _part(self, state: UserStates, rows: Rows, was_content: Flags) -> None:
        u, done, rows = self.u, rows[was_content], rows[~was_content]
        state.say(done, u["no_more"])
        state.say(rows[self._decide(state, rows, decisions.THANK)], u["thank"])
        leaving = np.concatenate([done, rows[self._decide(state, rows, decisions.CLOSE_NOW)]])
        state.say(leaving, u["bye"])
        state.closing[leaving] = True

    def _lose_patience(self, state: UserStates, rows: Rows) -> None:
        bother = np.minimum(state.bother[rows], decisions.MOST_BOTHER)
        choice = self._leave[state.persona[rows, 0], bother]
        leaves = self._drawn(state, rows, choice, decisions.LEAVE)
        leaving, rows = rows[leaves], rows[~leaves & (bother >= 2)]
        state.acts[leaving], state.said[leaving] = -1, 0
        state.say(leaving, self.u["give_up"])
        state.closing[leaving] = True
        rows = rows[self._decide(state, rows, decisions.SHOW_FRUSTRATION)]
        state.say(rows, self.u["frustrated"])

    def _request(self, state: UserStates, rows: Rows) -> Ints:
        state.intent_said[rows] = True
        return state.knowledge.request[rows]

    def _rung(self, state: UserStates, rows: Rows, slot: Ints) -> Ints:
        """What is said when `slot` is asked for now: the next rung, or the last again."""
        knowledge, slip = state.knowledge, state.knowledge.misremembered[rows, slot]
        asked = state.asked[rows, slot]
        state.asked[rows, slot] = asked + 1
        slips = (asked == 0) & (slip >= 0)
        slips[slips] = self._decide(state, rows[slips], decisions.MISREMEMBER, 1 + slot[slips])
        # Asked again after a slip: the object is described anew, anything else is put right.
        asked = asked - (state.slipped[rows, slot] & (slot != knowledge.main_slot[rows]))
        state.slipped[rows, slot] |= slips
        return np.where(slips, slip, knowledge.ladders[rows, slot, np.minimum(asked, RUNGS - 1)])

    def _volunteer(self, state: UserStates, rows: Rows) -> None:
        knowledge, slot = state.knowledge, state.knowledge.main_slot[rows]
        free = (state.asked[rows, slot] == 0) & ~knowledge.must_look_up[rows]
        rows, slot = rows[free], slot[free]
        state.say(rows, self._rung(state, rows, slot))

    def _decide(self, state: UserStates, rows: Rows, point: int, index: Ints | int = 0) -> Flags:
        choice = self._table[point, state.persona[rows, TRAIT_OF[point]]]
        return self._drawn(state, rows, choice, point + 16 * index)

    def _drawn(self, state: UserStates, rows: Rows, choice: Ints, index: Ints | int) -> Flags:
        turns, indices = state.turn[rows].astype(np.uint64), np.asarray(index).astype(np.uint64)
        yes = draw_batch(state.key[rows], USER, turns, indices) < choice[:, 0]
        state.log_prob[rows] += np.where(yes, choice[:, 1], choice[:, 2])
        return yes


def by_kind(kind: Ints) -> Iterator[tuple[int, Rows]]:
    """Every kind that occurs, and where."""
    for one in np.flatnonzero(np.bincount(kind)).tolist():
        yield one, np.flatnonzero(kind == one)


def draw_personas(keys: NDArray[np.uint64]) -> Ints:
    """`draw_persona`'s traits, of every key.  # (n, 5)"""
    return below_batch(draw_batch(keys[:, None], PERSONA, 0, np.arange(5, dtype=np.uint64)), LEVELS)
