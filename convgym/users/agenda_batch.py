"""Many agenda users at once: `convgym.users.agenda` on integer arrays, one row a user.

Sections, helpers and their order are those of the plain user; where that one branches,
this one selects rows:

    if state.question == SURE:             rows = rows[state.question[rows] == SURE]
        state.satisfied = True      ──►    state.satisfied[rows] = True
        out.append(…)                      state.say(rows, …)

`rows` are row numbers, none twice; arguments beside them have one element for each. A user
hears one act a turn here, and no words: what only a text can be (unclear, a promise, a term
in passing, long) has no counterpart. Draws are keyed, so no order of asking for them changes
a bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from convgym.engine import acts
from convgym.engine.keys import PERSONA, USER, below_batch, draw_batch
from convgym.users import decisions
from convgym.users.agenda import (
    BREAKING,
    LONG_WAIT,
    LOOKING,
    MEANING,
    MOST_DISPUTES,
    NEXT,
    NOTHING,
    PRETENDING,
    SURE,
    TERM,
    WHY,
    Knowledge,
)
from convgym.users.decisions import POINTS, SIGMOID, TILT_UNIT, DecisionModel, row_of
from convgym.users.persona import HUNDRED, TRAITS

Rows = NDArray[np.intp]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_ACTS = 8
"""Acts in one user turn; the longest that can happen is shorter."""
RUNGS = 4
"""Rungs that a ladder can have; a shorter one repeats its last."""
KINDS = acts.FIRST_TOOL
"""Kinds of speech there is room for."""


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
        assert all(len(ladder) <= RUNGS for one in known for ladder in one.ladders)
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
        self.facts = np.array([_bits(one.facts) for one in known])  # bit sets
        self.personal = np.array([_bits(one.personal) for one in known])
        self.terms = np.array(  # (n, KINDS), bit sets of arguments
            [
                [_bits(argument for kind, argument in one.terms if kind == k) for k in range(KINDS)]
                for one in known
            ]
        )


class UserStates(Columns):
    """`UserState` of n users, under the same names, and what they say in this turn."""

    def __init__(self, keys: NDArray[np.uint64], personas: Ints, knowledge: Knowledges) -> None:
        n, slots = knowledge.misremembered.shape
        self.key = keys
        self.persona = personas  # (n, traits)
        self.knowledge = knowledge
        self.logits = np.zeros((n, len(POINTS)), dtype=np.int64)
        """Of every decision point, before the situation adds to it."""
        self.turn, self.heard_turn, self.bother, self.log_prob = np.zeros((4, n), dtype=np.int64)
        self.asked = np.zeros((n, slots), dtype=np.int64)
        self.slipped, self.told, self.answered = np.zeros((3, n), dtype=np.int64)
        self.holding, self.question, self.puzzled = np.zeros((3, n), dtype=np.int64)
        self.owed = np.full(n, -1)
        self.denied, self.disputes = np.zeros((2, n), dtype=np.int64)
        self.intent_said, self.fresh, self.doubted, self.waiting = np.zeros((4, n), dtype=bool)
        self.satisfied, self.apologised, self.offered = np.zeros((3, n), dtype=bool)
        self.resolved, self.closing = np.zeros((2, n), dtype=bool)
        self.acts = np.full((n, MOST_ACTS), -1, dtype=np.int16)
        """The turn's acts in their order, none twice; then -1."""
        self.said = np.zeros(n, dtype=np.int64)
        """How many they are."""

    def hush(self, rows: Rows) -> None:
        """Begin a turn: nothing said, nothing drawn."""
        self.acts[rows] = -1
        self.said[rows] = self.log_prob[rows] = self.answered[rows] = 0

    def say(self, rows: Rows, act: Ints | int) -> None:
        """Append an act to each turn, unless it is in there."""
        if not len(rows):
            return
        fresh = (self.acts[rows] != np.reshape(act, (-1, 1))).all(axis=1)
        self.acts[rows, self.said[rows]] = np.where(fresh, act, -1)
        self.said[rows] += fresh


_BREAKING = np.isin(np.arange(KINDS), BREAKING)
"""Whether a kind of speech is what an agent says instead of doing what it owes."""
_SIGMOID = np.array(SIGMOID)  # (logits, 3)


def _is_idle(state: UserStates, rows: Rows, kind: Ints) -> Flags:
    """Talk that brings nobody further: pastime, another apology, an explanation unasked."""
    again = (kind == acts.APOLOGISE) & state.apologised[rows]
    unasked = (kind == acts.EXPLAIN) & (state.question[rows] == NOTHING)
    return (kind == acts.CHAT) | again | unasked


def _be_content(state: UserStates, rows: Rows) -> None:
    """Nothing is owed any more."""
    state.satisfied[rows], state.waiting[rows] = True, False


class BatchedAgendaUser:
    """Answers for any number of users, as `AgendaUser` answers for one."""

    def __init__(self, vocabulary: Mapping[str, int], model: DecisionModel | None = None) -> None:
        self.model = model or DecisionModel()
        self.u = dict(vocabulary)
        self._base = np.array(self.model.base)
        self._tilts = np.zeros((len(POINTS), len(TRAITS)), dtype=np.int64)
        for point, tilts in enumerate(self.model.tilts):
            for trait, slope in tilts:
                self._tilts[point, trait] = slope
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
            acts.EXPLAIN: self._explain,
        }

    def open(self, state: UserStates) -> None:
        """The opening of every row: a bare greeting, or the request and what is volunteered."""
        state.logits[:] = self._base + (state.persona - 50) @ self._tilts.T
        rows = np.arange(len(state.key))
        asks = ~self._decide(state, rows, decisions.GREET_ONLY)
        greets = ~asks
        greets[asks] = self._decide(state, rows[asks], decisions.GREET)
        state.say(rows[greets], self.u["greet"])
        rows = rows[asks]
        state.say(rows, self._request(state, rows))
        rows = rows[self._decide(state, rows, decisions.FRONT_LOAD)]
        self._volunteer(state, rows)
        rows = rows[self._decide(state, rows, decisions.FRONT_LOAD, 1)]
        state.say(rows, self._rung(state, rows, state.knowledge.first_slot[rows]))
        state.turn += 1

    def answer(
        self, state: UserStates, rows: Rows, now: Ints, kind: Ints, argument: Ints, verdict: Ints
    ) -> None:
        """React to the one act each of `rows` heard, then see to one's own business.

        `now` is the agent's turn.
        """
        state.hush(rows)
        bother_before, content_before = state.bother[rows], state.satisfied[rows]
        question, waited = state.question[rows], state.waiting[rows]
        self._wait(state, rows, now, kind)
        self._come_back(state, rows)
        for one, at in by_kind(kind):
            self._reactions[one](state, rows[at], argument[at], verdict[at])
        minding = (question != NOTHING) & ~state.closing[rows]
        self._mind_question(state, rows[minding], question[minding], kind[minding])
        broken = rows[waited & state.waiting[rows] & _BREAKING[kind]]
        state.bother[broken] += 1
        state.say(broken, self.u["remind_promise"])
        done = (state.closing | state.satisfied)[rows]
        refused = ((kind == acts.DENY) | (kind == acts.OFFER)) & (state.denied[rows] > 0) & ~done
        self._face_refusal(state, rows[refused])
        parting = state.satisfied[rows] & ~state.closing[rows]
        self._part(state, rows[parting], content_before[parting])
        mute = rows[~(state.intent_said | state.closing)[rows]]
        state.say(mute, self._request(state, mute))
        bothered = state.bother[rows] > bother_before
        bothered &= ~(state.closing | state.satisfied | state.waiting)[rows]
        self._lose_patience(state, rows[bothered])
        state.say(rows[state.said[rows] == 0], self.u["acknowledge"])
        staying = rows[~state.closing[rows]]
        digressing = staying[self._decide(state, staying, decisions.TANGENT)]
        state.say(digressing, self.u["tangent"])
        state.turn[rows] += 1
        state.answered[rows], state.fresh[rows] = 0, False

    # -- reactions, one for each kind of speech ---------------------------------------------

    def _chat(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        """Idle talk asks for nothing."""

    def _ask_intent(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        state.bother[rows] += state.intent_said[rows]
        state.say(rows, self._request(state, rows))

    def _ask(self, state: UserStates, rows: Rows, slot: Ints, verdict: Ints) -> None:
        answered = state.answered[rows]
        more = (answered > 0) & (answered >> slot & 1 == 0)
        answers = (answered == 0) | more
        answers[more] = self._decide(state, rows[more], decisions.ANSWER_TOO, slot[more])
        rows, slot = rows[answers], slot[answers]
        state.answered[rows] |= 1 << slot
        rungs = state.knowledge.rungs[rows, slot]
        ignorant = rows[rungs == 0]
        state.bother[ignorant] += 1
        state.say(ignorant, self.u["dont_know"])
        rows, slot, rungs = rows[rungs > 0], slot[rungs > 0], rungs[rungs > 0]
        asks = self._questions_it(state, rows, acts.ASK, slot)
        state.owed[rows[asks]] = slot[asks]
        rows, slot, rungs = rows[~asks], slot[~asks], rungs[~asks]
        state.owed[rows[state.owed[rows] == slot]] = -1
        state.bother[rows] += state.asked[rows, slot] >= rungs + (state.slipped[rows] >> slot & 1)
        self._give(state, rows, slot)

    def _ask_more(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        rows = rows[~(state.satisfied | state.waiting)[rows]]
        state.bother[rows] += 1
        state.say(rows, self._insist(state, rows))

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
        content = (wanted > 0) & (state.told[rows] & wanted == wanted)
        self._believe(state, rows[content])
        wonders = ~content & (state.question[rows] == NOTHING)
        self._ask_meaning(state, rows[wonders], acts.TELL, fact[wonders])

    def _confirm(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        u, fine, other = self.u, rows[verdict == acts.FINE], rows[verdict == acts.OTHER_OBJECT]
        state.waiting[fine], state.denied[fine] = ~state.satisfied[fine], 0
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
        state.waiting[fine] = False
        self._believe(state, fine)
        state.bother[rows] += 2
        state.say(rows, self.u["challenge_done"])

    def _apologise(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        state.bother[rows] -= ~state.apologised[rows] & (state.bother[rows] > 0)
        state.apologised[rows] = True

    def _close(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        rows = rows[~state.satisfied[rows]]
        state.bother[rows] += 2
        rows = rows[~state.waiting[rows]]
        protests = self._decide(state, rows, decisions.PROTEST)
        state.say(rows[protests], self._insist(state, rows[protests]))
        state.say(rows[~protests], self.u["bye"])
        state.closing[rows[~protests]] = True

    def _explain(self, state: UserStates, rows: Rows, argument: Ints, verdict: Ints) -> None:
        """Answers the open question, whatever it was."""
        _be_content(state, rows[state.question[rows] == SURE])
        state.question[rows] = NOTHING
        rows = rows[state.owed[rows] >= 0]
        slot, state.owed[rows] = state.owed[rows], -1
        new = state.answered[rows] >> slot & 1 == 0
        rows, slot = rows[new], slot[new]
        state.answered[rows] |= 1 << slot
        self._give(state, rows, slot)

    # -- the user's own business --------------------------------------------------------------

    def _wait(self, state: UserStates, rows: Rows, now: Ints, kind: Ints) -> None:
        """What it took to hear from the agent again: time, perhaps for nothing."""
        idle = _is_idle(state, rows, kind)
        state.bother[rows] += idle & (state.turn[rows] > 1) & (state.holding[rows] == 0)
        state.bother[rows] += now - state.heard_turn[rows] > LONG_WAIT
        state.heard_turn[rows] = now

    def _come_back(self, state: UserStates, rows: Rows) -> None:
        """From looking something up, or from having said so."""
        rows = rows[state.holding[rows] > 0]
        slot, looked = state.knowledge.main_slot[rows], state.holding[rows] == LOOKING
        state.answered[rows] |= 1 << slot
        state.say(rows[looked], self._rung(state, rows[looked], slot[looked]))
        state.say(rows[~looked], self.u["no_luck"])
        state.asked[rows[~looked], slot[~looked]] = 1
        state.holding[rows] = 0

    def _questions_it(self, state: UserStates, rows: Rows, kind: int, slot: Ints) -> Flags:
        """Instead of an answer: what for? or, what is that? Once each in a conversation."""
        idle = state.question[rows] == NOTHING
        asks = idle & (state.knowledge.personal[rows] >> slot & 1 > 0)
        asks &= state.puzzled[rows] & 1 == 0
        asks[asks] = self._decide(state, rows[asks], decisions.ASK_WHY, slot[asks])
        state.puzzled[rows[asks]] |= 1
        self._put(state, WHY, "ask_why", rows[asks])
        rest = idle & ~asks
        asks[rest] = self._ask_meaning(state, rows[rest], kind, slot[rest])
        return asks

    def _ask_meaning(self, state: UserStates, rows: Rows, kind: int, argument: Ints) -> Flags:
        asks = state.knowledge.terms[rows, kind] >> argument & 1 > 0
        asks &= state.puzzled[rows] & 2 == 0
        which = argument[asks] + (TERM + 1 if kind == acts.TELL else 0)
        asks[asks] = self._decide(state, rows[asks], decisions.ASK_MEANING, which)
        state.puzzled[rows[asks]] |= 2
        self._put(state, MEANING, "ask_meaning", rows[asks])
        return asks

    def _put(self, state: UserStates, question: int, act: str, rows: Rows) -> None:
        state.question[rows], state.fresh[rows] = question, True
        state.say(rows, self.u[act])

    def _mind_question(self, state: UserStates, rows: Rows, question: Ints, kind: Ints) -> None:
        """A question that was passed over bothers; only doubt stays until it is met."""
        met = np.where(question == SURE, state.satisfied[rows], kind == acts.EXPLAIN)
        state.bother[rows] += ~met
        state.question[rows[~state.fresh[rows] & (met | (question != SURE))]] = NOTHING
        state.owed[rows[~met]] = -1

    def _believe(self, state: UserStates, rows: Rows) -> None:
        """All that was wanted is said to be there: content, or not yet sure."""
        doubts = ~(state.doubted | state.satisfied)[rows]
        state.doubted[rows[doubts]] = True
        doubts[doubts] = self._decide(state, rows[doubts], decisions.DOUBT)
        self._put(state, SURE, "ask_sure", rows[doubts])
        _be_content(state, rows[~doubts])

    def _face_refusal(self, state: UserStates, rows: Rows) -> None:
        u, wrong = self.u, rows[state.denied[rows] == 2]
        tired = state.disputes[wrong] > MOST_DISPUTES
        state.say(wrong[tired], u["give_up"])
        state.closing[wrong[tired]] = True
        wrong = wrong[~tired]
        state.bother[wrong] += 1
        rows = rows[state.denied[rows] == 1]
        pushes = state.disputes[rows] < MOST_DISPUTES
        rests = ~pushes
        pushes[pushes] = self._decide(state, rows[pushes], decisions.PUSH_AGAIN)
        alternative, offered = state.knowledge.alternative[rows], state.offered[rows]
        hopes = ~pushes & alternative & ~offered
        state.say(rows[hopes], u["ask_alternative"])
        declines = ~pushes & ~rests & offered
        declines[declines] = ~self._decide(state, rows[declines], decisions.ACCEPT)
        pushing = np.concatenate([wrong, rows[pushes | declines]])
        state.disputes[pushing] += 1
        state.say(pushing, u["push_back"])
        takes = ~(pushes | hopes | declines)
        rows, alternative = rows[takes], alternative[takes]
        state.say(rows, np.where(alternative, u["accept_alternative"], u["accept_refusal"]))
        state.say(rows, u["bye"])
        state.resolved[rows] = state.closing[rows] = True

    def _part(self, state: UserStates, rows: Rows, was_content: Flags) -> None:
        u, done, rows = self.u, rows[was_content], rows[~was_content]
        state.say(done, u["no_more"])
        wonders = self._decide(state, rows, decisions.ASK_NEXT)
        self._put(state, NEXT, "ask_next", rows[wonders])
        rows = rows[~wonders]
        state.say(rows[self._decide(state, rows, decisions.THANK)], u["thank"])
        leaving = rows[self._decide(state, rows, decisions.CLOSE_NOW)]
        self._say_bye(state, np.concatenate([done, leaving]))

    def _say_bye(self, state: UserStates, rows: Rows) -> None:
        kind = np.isin(state.acts[rows], (self.u["thank"], self.u["no_more"])).any(axis=1)
        says = self._decide(state, rows, decisions.BYE) | ~kind
        state.say(rows[says], self.u["bye"])
        state.closing[rows] = True

    def _lose_patience(self, state: UserStates, rows: Rows) -> None:
        bother = np.minimum(state.bother[rows], decisions.MOST_BOTHER)
        leaves = bother >= decisions.GRACE
        situation = self.model.bother[decisions.LEAVE] * (bother[leaves] - decisions.GRACE)
        leaves[leaves] = self._drawn(
            state, rows[leaves], decisions.LEAVE, decisions.LEAVE, situation
        )
        leaving, rows = rows[leaves], rows[~leaves & (bother >= 2)]
        state.acts[leaving], state.said[leaving] = -1, 0
        state.say(leaving, self.u["give_up"])
        state.closing[leaving] = True
        rows = rows[self._decide(state, rows, decisions.SHOW_FRUSTRATION)]
        state.say(rows, self.u["frustrated"])

    def _request(self, state: UserStates, rows: Rows) -> Ints:
        state.intent_said[rows] = True
        return state.knowledge.request[rows]

    def _insist(self, state: UserStates, rows: Rows) -> Ints:
        """What is still open: the doubt about what was said, else the request itself."""
        unsure = state.question[rows] == SURE
        request = np.full(len(rows), self.u["ask_sure"])
        request[~unsure] = self._request(state, rows[~unsure])
        return request

    def _give(self, state: UserStates, rows: Rows, slot: Ints) -> None:
        """Answer for a slot: at once, after a look, or around it; perhaps with more unasked."""
        knowledge, main = state.knowledge, slot == state.knowledge.main_slot[rows]
        searches = main & knowledge.must_look_up[rows] & (state.asked[rows, slot] == 0)
        looking = rows[searches]
        state.holding[looking] = LOOKING * self._decide(state, looking, decisions.LOOK_UP)
        idle = looking[state.holding[looking] == 0]
        state.holding[idle] = PRETENDING * self._decide(state, idle, decisions.FALSE_CLAIM)
        holding = state.holding[rows] > 0
        state.say(rows[holding], self.u["hold"])
        skips = searches & ~holding
        state.asked[rows[skips], slot[skips]] = 1  # skips what it would have to look up
        rows, slot, main = rows[~holding], slot[~holding], main[~holding]
        state.say(rows, self._rung(state, rows, slot))
        rows, slot = rows[~main], slot[~main]
        self._volunteer(state, rows[self._decide(state, rows, decisions.VOLUNTEER, slot)])

    def _rung(self, state: UserStates, rows: Rows, slot: Ints) -> Ints:
        """What is said when `slot` is asked for now: the next rung, or the last again."""
        knowledge, slip = state.knowledge, state.knowledge.misremembered[rows, slot]
        asked, slipped = state.asked[rows, slot], state.slipped[rows] >> slot & 1
        state.asked[rows, slot] = asked + 1
        slips = (asked == 0) & (slip >= 0)
        slips[slips] = self._decide(state, rows[slips], decisions.MISREMEMBER, 1 + slot[slips])
        state.slipped[rows[slips]] |= 1 << slot[slips]
        # Asked again after a slip: the object is described anew, anything else is put right.
        asked = asked - (slipped & (slot != knowledge.main_slot[rows]))
        return np.where(slips, slip, knowledge.ladders[rows, slot, np.minimum(asked, RUNGS - 1)])

    def _volunteer(self, state: UserStates, rows: Rows) -> None:
        knowledge, slot = state.knowledge, state.knowledge.main_slot[rows]
        free = (state.asked[rows, slot] == 0) & ~knowledge.must_look_up[rows]
        rows, slot = rows[free], slot[free]
        state.say(rows, self._rung(state, rows, slot))

    def _decide(self, state: UserStates, rows: Rows, point: int, which: Ints | int = 0) -> Flags:
        return self._drawn(state, rows, point, point + decisions.STRIDE * which, 0)

    def _drawn(
        self, state: UserStates, rows: Rows, point: int, index: Ints | int, situation: Ints | int
    ) -> Flags:
        if not len(rows):
            return np.zeros(0, dtype=bool)
        choice = _SIGMOID[rows_of(state.logits[rows, point] + situation)]
        turns, indices = state.turn[rows].astype(np.uint64), np.asarray(index).astype(np.uint64)
        yes = draw_batch(state.key[rows], USER, turns, indices) < choice[:, 0]
        state.log_prob[rows] += np.where(yes, choice[:, 1], choice[:, 2])
        return yes


def rows_of(logits: Ints) -> Ints:
    """`row_of` of every logit."""
    step = TILT_UNIT // HUNDRED
    return np.clip((logits + step // 2) // step + row_of(0), 0, len(SIGMOID) - 1)


def by_kind(kind: Ints) -> Iterator[tuple[int, Rows]]:
    """Every kind that occurs, and where."""
    for one in np.flatnonzero(np.bincount(kind)).tolist():
        yield one, np.flatnonzero(kind == one)


def draw_personas(keys: NDArray[np.uint64]) -> Ints:
    """`draw_levels` of every key.  # (n, traits)"""
    traits = np.arange(len(TRAITS), dtype=np.uint64)
    return below_batch(draw_batch(keys[:, None], PERSONA, 0, traits), HUNDRED + 1)


def _bits(members: Iterable[int]) -> int:
    return sum(1 << member for member in members)
