"""A user with a goal, knowledge, an agenda and a mood.

    opening ─► request ─► answers what it is asked, from what it knows, rung by rung
                       ─► has questions of its own: why, what that means, are you sure, what next
                       ─► confirms its own request on its own object, nothing else
                       ─► doubts what the agent did not look up, disputes refusals
                       ─► raises its next request, if it came for several
                       ─► leaves content, refused, or fed up

    knowledge   a ladder of acts per slot: known, vague, wrong, or to be looked up first
    agenda      what is still open, in this order: the thing it went to look up, its question,
                the deed it was promised, its request, its parting
    mood        one number, `bother`: repetition, questions left unanswered, claims without a
                basis, long replies and long waits raise it, an apology soothes it once

Every choice is a decision point; its log-probability is summed into the turn. The user
states only what stands in its knowledge, and never leaves between its yes and the deed.
What its words are about is the domain's: it hands over act numbers and ladders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from convgym.engine import acts
from convgym.engine.acts import Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.keys import USER, draw
from convgym.users import decisions
from convgym.users.decisions import PLAIN_DECISIONS, Decision, DecisionModel
from convgym.users.user_state import (
    LOOKING,
    MEANING,
    NEXT,
    NOTHING,
    PRETENDING,
    SURE,
    WHY,
    UserState,
)

MOST_DISPUTES = 2
"""Times a right refusal can be disputed; a wrong one is disputed once more before leaving."""
LONG_WAIT = 6
"""Agent turns of tools alone before a user's turn that bother it."""
LONG_REPLY = 900
"""Characters of one reply that bother whoever has to read them."""

TERM = 16
"""Number of the draw on a term among those on slots, which come before it, and facts."""


_REFUSING = (acts.DENY, acts.OFFER)
BREAKING = (acts.ASK_MORE, acts.CLOSE, acts.TELL, acts.ASK_INTENT)
"""What an agent says instead of doing what it owes."""


def _is_idle(state: UserState, act: Heard) -> bool:
    """Talk that brings nobody further: pastime, another apology, an explanation unasked."""
    if act.kind == acts.APOLOGISE:
        return state.apologised
    if act.kind == acts.EXPLAIN:
        return not state.question
    return act.kind == acts.CHAT or (act.kind == acts.PROMISE and act.verdict != acts.FINE)


def _be_content(state: UserState) -> None:
    """Nothing is owed any more."""
    state.satisfied, state.waiting, state.promised = True, False, False


_turn_of: Callable[[tuple[Any, ...]], UserTurn] = partial(tuple.__new__, UserTurn)
"""A turn of all its fields, made in half the time of `UserTurn(…)`."""


class AgendaUser:
    """Answers agent turns; one instance serves any number of episodes.

    `vocabulary` maps the names of the general acts (greet, affirm, hold, …) to the
    domain's act numbers.
    """

    def __init__(self, vocabulary: Mapping[str, int], model: DecisionModel | None = None) -> None:
        self.model = model or DecisionModel()
        self.u = dict(vocabulary)
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
            acts.UNCLEAR: self._unclear,
            acts.EXPLAIN: self._explain,
            acts.PROMISE: self._promise,
            acts.JARGON: self._jargon,
        }

    def open(self, episode: Episode) -> UserTurn:
        """The opening: a bare greeting, or the request with whatever is volunteered."""
        state: UserState = episode.user
        if self._decide(episode, state, decisions.GREET_ONLY):
            out = [self.u["greet"]]
        else:
            greets = self._decide(episode, state, decisions.GREET)
            out = [self.u["greet"]] if greets else []
            out.append(self._request(state))
            if self._decide(episode, state, decisions.FRONT_LOAD):
                self._volunteer(episode, state, out)
                if self._decide(episode, state, decisions.FRONT_LOAD, 1):
                    out.append(self._rung(episode, state, state.knowledge.first_slot))
        return self._turn(state, out)

    def answer(self, episode: Episode, heard: Sequence[Heard]) -> UserTurn:
        """React to each act in turn, then see to one's own business."""
        state: UserState = episode.user
        out: list[int] = []
        bother_before, content_before, at_before = state.bother, state.satisfied, state.at
        question, waited, promised = state.question, state.waiting, state.promised
        # What is explained in a reply needs no asking, wherever in the reply it stands.
        if len(heard) > 1:
            heard = sorted(dict.fromkeys(heard), key=lambda act: act.kind != acts.EXPLAIN)
        heard = heard or [Heard(acts.UNCLEAR)]
        self._wait(episode, state, heard)
        self._come_back(episode, state, out)
        for act in heard:
            if not state.closing:
                self._reactions[act.kind](episode, state, act, out)
        if question and not state.closing:
            self._mind_question(state, question, heard)
        owed = (waited and state.waiting) or (promised and state.promised)
        if owed and not state.closing and any([act.kind in BREAKING for act in heard]):
            state.bother += 1
            out.append(self.u["remind_promise"])
        done = state.closing or state.satisfied
        if state.denied and not done and any([act.kind in _REFUSING for act in heard]):
            self._face_refusal(episode, state, out)
        if state.satisfied and not state.closing:
            self._part(episode, state, out, content_before)
        if not state.intent_said and not state.closing:
            out.append(self._request(state))
        # Who has just got what it wanted, and goes on to the next thing, does not leave over it.
        bothered = state.bother > bother_before and state.at == at_before
        if bothered and not (state.closing or state.satisfied or state.waiting):
            self._lose_patience(episode, state, out)
        if not out:
            out.append(self.u["acknowledge"])
        if not state.closing and self._decide(episode, state, decisions.TANGENT):
            out.append(self.u["tangent"])
        return self._turn(state, out)

    # -- reactions, one for each kind of speech ---------------------------------------------

    def _chat(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        """Idle talk asks for nothing."""

    def _ask_intent(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if state.satisfied:
            return  # "what else can I do for you?": its parting answers that
        state.bother += state.intent_said
        out.append(self._request(state))

    def _ask(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        slot, knowledge = act.argument, state.knowledge
        if state.answered >> slot & 1:
            return
        if state.answered and not self._decide(episode, state, decisions.ANSWER_TOO, slot):
            return
        state.answered |= 1 << slot
        rungs = len(knowledge.ladders[slot])
        if not rungs:
            state.bother += 1
            out.append(self.u["dont_know"])
            return
        if self._questions_it(episode, state, act, out):
            state.owed = slot
            return
        if state.owed == slot:
            state.owed = -1
        if state.asked[slot] >= rungs + (state.slipped >> slot & 1):
            state.bother += 1
        self._give(episode, state, slot, out)

    def _ask_more(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if not (state.satisfied or state.waiting):
            state.bother += 1
            out.append(self._insist(state))

    def _tell(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if act.verdict == acts.DOUBTFUL:
            state.bother += 2
            out.append(self.u["challenge"])
        elif act.verdict == acts.OTHER_OBJECT:
            state.bother += 1
            out.append(state.knowledge.correct)
        else:
            state.told |= 1 << act.argument
            wanted = state.knowledge.facts
            if wanted and all(state.told >> fact & 1 for fact in wanted):
                self._believe(episode, state, out)
            elif not state.question:
                self._ask_meaning(episode, state, act, out)

    def _confirm(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        u = self.u
        if act.verdict == acts.FINE:
            state.waiting = not state.satisfied
            state.denied = 0  # a refusal before this yes is off the table
            out.append(u["affirm"])
        elif act.verdict == acts.TERM_UNKNOWN:
            out.append(state.knowledge.asks[act.pointer])
        elif act.verdict == acts.OTHER_OBJECT:
            state.bother += 1
            out += [u["negate"], state.knowledge.correct]
        else:
            state.bother += 1
            out += [u["negate"], self._request(state)]

    def _deny(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        state.waiting = state.promised = False
        state.denied = 1 if act.verdict == acts.FINE or state.denied == 1 else 2

    def _offer(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if act.verdict == acts.FINE and state.denied == 1:
            state.offered = True
        elif state.denied != 2:
            state.bother += 1
            out.append(self.u["decline_offer"])

    def _report_done(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if act.verdict == acts.FINE:
            state.waiting = state.promised = False
            self._believe(episode, state, out)
        else:
            state.bother += 2
            out.append(self.u["challenge_done"])

    def _apologise(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if not state.apologised and state.bother:
            state.bother -= 1
        state.apologised = True

    def _close(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if state.satisfied:
            return
        state.bother += 2
        if state.waiting:
            return  # the agenda's next line reminds the agent
        if self._decide(episode, state, decisions.PROTEST):
            out.append(self._insist(state))
        else:
            out.append(self.u["bye"])
            state.closing = True

    def _unclear(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if state.satisfied:
            return
        state.bother += 1
        out.append(self.u["ask_back"])

    def _explain(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        """Answers the open question, whatever it was."""
        state.explained = True
        question, state.question = state.question, NOTHING
        if question == SURE:
            _be_content(state)
        slot, state.owed = state.owed, -1
        if slot >= 0 and not state.answered >> slot & 1:
            state.answered |= 1 << slot
            self._give(episode, state, slot, out)

    def _promise(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if act.verdict == acts.FINE:
            state.promised, state.denied = not state.satisfied, 0

    def _jargon(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if not state.question:
            self._ask_meaning(episode, state, act, out)

    # -- the user's own business --------------------------------------------------------------

    def _wait(self, episode: Episode, state: UserState, heard: Sequence[Heard]) -> None:
        """What it took to hear from the agent again: time, and words, perhaps for nothing."""
        if state.turn > 1 and not state.holding:
            state.bother += all([_is_idle(state, act) for act in heard])
        state.bother += episode.turn - state.heard_turn > LONG_WAIT
        state.bother += len(episode.reply) > LONG_REPLY
        state.heard_turn = episode.turn

    def _come_back(self, episode: Episode, state: UserState, out: list[int]) -> None:
        """From looking something up, or from having said so."""
        slot = state.knowledge.main_slot
        state.answered |= (state.holding > 0) << slot
        if state.holding == LOOKING:
            out.append(self._rung(episode, state, slot))
        elif state.holding == PRETENDING:
            out.append(self.u["no_luck"])
            state.asked[slot] = 1
        state.holding = 0

    def _questions_it(
        self, episode: Episode, state: UserState, act: Heard, out: list[int]
    ) -> bool:
        """Instead of an answer: what for? or, what is that? Once each in a conversation."""
        if state.question or state.explained:
            return False
        if act.argument in state.knowledge.personal and not state.puzzled & 1:
            if self._decide(episode, state, decisions.ASK_WHY, act.argument):
                state.puzzled |= 1
                self._put(state, WHY, "ask_why", out)
                return True
        return self._ask_meaning(episode, state, act, out)

    def _ask_meaning(
        self, episode: Episode, state: UserState, act: Heard, out: list[int]
    ) -> bool:
        term = act.kind == acts.JARGON or (act.kind, act.argument) in state.knowledge.terms
        if not term or state.puzzled & 2 or state.explained:
            return False
        which = act.argument + {acts.ASK: 0, acts.JARGON: TERM}.get(act.kind, TERM + 1)
        if not self._decide(episode, state, decisions.ASK_MEANING, which):
            return False
        state.puzzled |= 2
        self._put(state, MEANING, "ask_meaning", out)
        return True

    def _put(self, state: UserState, question: int, act: str, out: list[int]) -> None:
        state.question, state.fresh = question, True
        out.append(self.u[act])

    def _mind_question(self, state: UserState, question: int, heard: Sequence[Heard]) -> None:
        """A question that was passed over bothers; only doubt stays until it is met."""
        if question == SURE:
            met = state.satisfied
        else:
            met = any([act.kind == acts.EXPLAIN for act in heard])
        state.bother += not met
        if not state.fresh and (met or question != SURE):
            state.question = NOTHING
        if not met:
            state.owed = -1

    def _believe(self, episode: Episode, state: UserState, out: list[int]) -> None:
        """All that was wanted is said to be there: content, or not yet sure."""
        if not (state.doubted or state.satisfied or state.explained):
            state.doubted = True
            if self._decide(episode, state, decisions.DOUBT):
                self._put(state, SURE, "ask_sure", out)
                return
        _be_content(state)

    def _face_refusal(self, episode: Episode, state: UserState, out: list[int]) -> None:
        u = self.u
        if state.denied == 2:
            if state.disputes > MOST_DISPUTES:
                out.append(u["give_up"])
                state.closing = True
                return
            state.disputes += 1
            state.bother += 1
            out.append(u["push_back"])
            return
        disputes = state.disputes < MOST_DISPUTES
        if disputes and self._decide(episode, state, decisions.PUSH_AGAIN):
            state.disputes += 1
            out.append(u["push_back"])
        elif state.knowledge.alternative and not state.offered:
            out.append(u["ask_alternative"])
        elif disputes and state.offered and not self._decide(episode, state, decisions.ACCEPT):
            state.disputes += 1
            out.append(u["push_back"])
        else:
            taken = "accept_alternative" if state.knowledge.alternative else "accept_refusal"
            state.resolved = True
            state.taken |= 1 << state.at
            if state.has_more:
                out.append(u[taken])
                self._raise_next(state, out)
            else:
                out += [u[taken], u["bye"]]
                state.closing = True

    def _part(self, episode: Episode, state: UserState, out: list[int], was_content: bool) -> None:
        u = self.u
        if state.has_more:
            if was_content or self._decide(episode, state, decisions.RAISE_NEXT):
                self._raise_next(state, out)
            else:
                out.append(u["thank"])
            return
        if was_content:
            out.append(u["no_more"])
            self._say_bye(episode, state, out)
            return
        if self._decide(episode, state, decisions.ASK_NEXT):
            self._put(state, NEXT, "ask_next", out)
            return
        if self._decide(episode, state, decisions.THANK):
            out.append(u["thank"])
        if self._decide(episode, state, decisions.CLOSE_NOW):
            self._say_bye(episode, state, out)

    def _raise_next(self, state: UserState, out: list[int]) -> None:
        state.next_request()
        out.append(self._request(state))

    def _say_bye(self, episode: Episode, state: UserState, out: list[int]) -> None:
        """Nobody leaves without a word that says so."""
        kind = self.u["thank"] in out or self.u["no_more"] in out
        if self._decide(episode, state, decisions.BYE) or not kind:
            out.append(self.u["bye"])
        state.closing = True

    def _lose_patience(self, episode: Episode, state: UserState, out: list[int]) -> None:
        bother = min(state.bother, decisions.MOST_BOTHER)
        if bother >= decisions.GRACE:
            situation = self.model.bother[decisions.LEAVE] * (bother - decisions.GRACE)
            if self._drawn(episode, state, decisions.LEAVE, decisions.LEAVE, situation):
                out[:] = [self.u["give_up"]]
                state.closing = True
                return
        if bother >= 2 and self._decide(episode, state, decisions.SHOW_FRUSTRATION):
            out.append(self.u["frustrated"])

    def _request(self, state: UserState) -> int:
        state.intent_said = True
        return state.knowledge.request

    def _insist(self, state: UserState) -> int:
        """What is still open: the doubt about what was said, else the request itself."""
        return self.u["ask_sure"] if state.question == SURE else self._request(state)

    def _give(self, episode: Episode, state: UserState, slot: int, out: list[int]) -> None:
        """Answer for a slot: at once, after a look, or around it; perhaps with more unasked."""
        knowledge = state.knowledge
        if slot == knowledge.main_slot and knowledge.must_look_up and not state.asked[slot]:
            if self._decide(episode, state, decisions.LOOK_UP):
                state.holding = LOOKING
            elif self._decide(episode, state, decisions.FALSE_CLAIM):
                state.holding = PRETENDING
            if state.holding:
                out.append(self.u["hold"])
                return
            state.asked[slot] = 1  # skips what it would have to look up
        said = self._rung(episode, state, slot)
        if said not in out:
            out.append(said)
        if slot != knowledge.main_slot and self._decide(
            episode, state, decisions.VOLUNTEER, slot
        ):
            self._volunteer(episode, state, out)

    def _rung(self, episode: Episode, state: UserState, slot: int) -> int:
        """What is said when `slot` is asked for now: the next rung, or the last again."""
        ladder, slip = state.knowledge.ladders[slot], state.knowledge.misremembered[slot]
        asked = state.asked[slot]
        state.asked[slot] = asked + 1
        if asked == 0 and slip >= 0:
            if self._decide(episode, state, decisions.MISREMEMBER, 1 + slot):
                state.slipped |= 1 << slot
                return slip
        # Asked again after a slip: the object is described anew, anything else is put right.
        if slot != state.knowledge.main_slot:
            asked -= state.slipped >> slot & 1
        return ladder[min(asked, len(ladder) - 1)]

    def _volunteer(self, episode: Episode, state: UserState, out: list[int]) -> None:
        slot = state.knowledge.main_slot
        if not state.asked[slot] and not state.knowledge.must_look_up:
            out.append(self._rung(episode, state, slot))

    def _decide(self, episode: Episode, state: UserState, point: int, which: int = 0) -> bool:
        return self._drawn(episode, state, point, point + decisions.STRIDE * which, 0)

    def _drawn(
        self, episode: Episode, state: UserState, point: int, index: int, situation: int
    ) -> bool:
        choice = self.model.choice(point, state.persona, situation)
        yes = draw(episode.user_key, USER, state.turn, index) < choice[0]
        state.log_prob += choice[1] if yes else choice[2]
        made = Decision(point, situation, yes) if situation else PLAIN_DECISIONS[point][yes]
        state.decisions.append(made)
        return yes

    def _turn(self, state: UserState, out: list[int]) -> UserTurn:
        log_prob = state.log_prob * decisions.LOG_UNIT
        said = tuple(dict.fromkeys(out) if len(out) > 1 else out)
        made = tuple(state.decisions)
        turn = _turn_of((said, log_prob, state.closing, made, "", "", state.about))
        state.turn += 1
        state.about = state.at
        state.log_prob = state.answered = 0
        state.fresh = state.explained = False
        state.decisions.clear()
        return turn
