"""A user with a goal, knowledge, an agenda and limited patience.

    opening ─► request ─► answers what it is asked, from what it knows, rung by rung
                       ─► confirms its own request on its own object, nothing else
                       ─► doubts what the agent did not look up, disputes refusals
                       ─► leaves content, refused, or fed up

Every choice is a decision point; its log-probability is summed into the turn. The user
states only what stands in its knowledge, and never leaves between its yes and the deed.
What its words are about is the domain's: it hands over act numbers and ladders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from convgym.engine import acts
from convgym.engine.acts import Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.keys import USER, draw
from convgym.users import decisions
from convgym.users.decisions import DecisionModel
from convgym.users.persona import Persona

MOST_DISPUTES = 2
"""Times a right refusal can be disputed; a wrong one is disputed once more before leaving."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a user wants and can say, as act numbers of the domain."""

    request: int
    ladders: tuple[tuple[int, ...], ...]
    """For each slot what is said at the first, second, … asking; empty: nothing is known."""
    misremembered: tuple[int, ...]
    """For each slot what a slip of memory says at the first asking; -1: no slip."""
    main_slot: int
    """The slot that names the object, which a talkative user gives unasked."""
    first_slot: int
    """The slot that a talkative user opens with."""
    must_look_up: bool
    """The main slot needs a moment: `hold` now, the value with the next turn."""
    alternative: bool
    """Whether the policy has something else to offer where it refuses."""
    facts: tuple[int, ...] = ()
    """Facts that make this user content, as `argument` of TELL; empty: a deed does."""


class UserState:
    """The private record of one user in one episode."""

    __slots__ = (
        "apologised",
        "asked",
        "bother",
        "closing",
        "denied",
        "disputes",
        "holding",
        "intent_said",
        "knowledge",
        "log_prob",
        "offered",
        "persona",
        "resolved",
        "satisfied",
        "slipped",
        "told",
        "turn",
        "waiting",
    )

    def __init__(self, persona: Persona, knowledge: Knowledge) -> None:
        self.persona: tuple[int, ...] = astuple(persona)
        self.knowledge = knowledge
        self.turn = 0
        self.bother = 0
        self.log_prob = 0  # in LOG_UNITs
        self.asked = [0] * len(knowledge.ladders)
        self.slipped = 0  # bit per slot
        self.told = 0  # bit per fact
        self.intent_said = False
        self.holding = False
        self.waiting = False  # said yes, waits for the deed
        self.satisfied = False
        self.apologised = False
        self.denied = 0  # 0 not, 1 rightly, 2 wrongly
        self.disputes = 0
        self.offered = False
        self.resolved = False  # took a right refusal
        self.closing = False

    def copy(self) -> UserState:
        """An independent copy."""
        copy = UserState.__new__(UserState)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.asked = list(self.asked)
        return copy


_TRAITS = ("patience", "openness", "accuracy", "assertiveness", "politeness")
TRAIT_OF = tuple(_TRAITS.index(point.trait) for point in decisions.POINTS)

_REFUSING = (acts.DENY, acts.OFFER)


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
        }

    def open(self, episode: Episode) -> UserTurn:
        """The opening: a bare greeting, or the request with whatever is volunteered."""
        state: UserState = episode.user
        if self._decide(episode, state, decisions.GREET_ONLY):
            out = [self.u["greet"]]
        else:
            greets = self._decide(episode, state, decisions.THANK)
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
        bother_before = state.bother
        if state.holding:
            state.holding = False
            out.append(self._rung(episode, state, state.knowledge.main_slot))
        content_before = state.satisfied
        for act in heard or (Heard(acts.UNCLEAR),):
            if not state.closing:
                self._reactions[act.kind](episode, state, act, out)
        done = state.closing or state.satisfied
        if state.denied and not done and any(act.kind in _REFUSING for act in heard):
            self._face_refusal(episode, state, out)
        if state.satisfied and not state.closing:
            self._part(episode, state, out, content_before)
        if not state.intent_said and not state.closing:
            out.append(self._request(state))
        if not out:
            out.append(self.u["acknowledge"])
        bothered = state.bother > bother_before
        if bothered and not (state.closing or state.satisfied or state.waiting):
            self._lose_patience(episode, state, out)
        return self._turn(state, out)

    # -- reactions, one for each kind of speech ---------------------------------------------

    def _chat(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if state.turn > 1 and not out:
            state.bother += 1

    def _ask_intent(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        state.bother += state.intent_said
        out.append(self._request(state))

    def _ask(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        slot, knowledge = act.argument, state.knowledge
        rungs = len(knowledge.ladders[slot])
        if not rungs:
            state.bother += 1
            out.append(self.u["dont_know"])
            return
        if state.asked[slot] >= rungs + (state.slipped >> slot & 1):
            state.bother += 1
        if slot == knowledge.main_slot and knowledge.must_look_up and not state.asked[slot]:
            if not state.holding:
                state.holding = True
                out.append(self.u["hold"])
            return
        said = self._rung(episode, state, slot)
        if said not in out:
            out.append(said)
        if slot != knowledge.main_slot and self._decide(
            episode, state, decisions.VOLUNTEER, slot
        ):
            self._volunteer(episode, state, out)

    def _ask_more(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if not state.satisfied:
            state.bother += 1
            out.append(self._request(state))

    def _tell(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if act.verdict == acts.DOUBTFUL:
            state.bother += 2
            out.append(self.u["challenge"])
        elif act.verdict == acts.OTHER_OBJECT:
            state.bother += 1
            out.append(self.u["correct_order"])
        else:
            state.told |= 1 << act.argument
            wanted = state.knowledge.facts
            if wanted and all(state.told >> fact & 1 for fact in wanted):
                state.satisfied = True

    def _confirm(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        u = self.u
        if act.verdict == acts.FINE:
            state.waiting, state.denied = True, 0  # a refusal before this yes is off the table
            out.append(u["affirm"])
        elif act.verdict == acts.FEE_UNKNOWN:
            out.append(u["ask_fee"])
        elif act.verdict == acts.CHANNEL_UNKNOWN:
            out.append(u["ask_channel"])
        elif act.verdict == acts.OTHER_OBJECT:
            state.bother += 1
            out += [u["negate"], u["correct_order"]]
        else:
            state.bother += 1
            out += [u["negate"], self._request(state)]

    def _deny(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        state.waiting = False
        state.denied = 1 if act.verdict == acts.FINE or state.denied == 1 else 2

    def _offer(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if act.verdict == acts.FINE and state.denied == 1:
            state.offered = True
        elif state.denied != 2:
            state.bother += 1
            out.append(self.u["decline_offer"])

    def _report_done(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if act.verdict == acts.FINE:
            state.satisfied, state.waiting = True, False
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
        if state.waiting or self._decide(episode, state, decisions.PROTEST):
            out.append(self._request(state))
        else:
            out.append(self.u["bye"])
            state.closing = True

    def _unclear(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if state.satisfied:
            return
        state.bother += 1
        out.append(self.u["ask_back"])

    # -- the user's own business --------------------------------------------------------------

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
        if state.disputes < MOST_DISPUTES and self._decide(episode, state, decisions.PUSH_AGAIN):
            state.disputes += 1
            out.append(u["push_back"])
        elif state.knowledge.alternative and not state.offered:
            out.append(u["ask_alternative"])
        else:
            taken = "accept_alternative" if state.knowledge.alternative else "accept_refusal"
            out += [u[taken], u["bye"]]
            state.resolved = state.closing = True

    def _part(self, episode: Episode, state: UserState, out: list[int], was_content: bool) -> None:
        u = self.u
        if was_content:
            out += [u["no_more"], u["bye"]]
            state.closing = True
            return
        if self._decide(episode, state, decisions.THANK):
            out.append(u["thank"])
        if self._decide(episode, state, decisions.CLOSE_NOW):
            out.append(u["bye"])
            state.closing = True

    def _lose_patience(self, episode: Episode, state: UserState, out: list[int]) -> None:
        bother = min(state.bother, decisions.MOST_BOTHER)
        choice = self.model.leave[state.persona[0]][bother]
        if self._drawn(episode, state, choice, decisions.LEAVE):
            out[:] = [self.u["give_up"]]
            state.closing = True
        elif bother >= 2 and self._decide(episode, state, decisions.SHOW_FRUSTRATION):
            out.append(self.u["frustrated"])

    def _request(self, state: UserState) -> int:
        state.intent_said = True
        return state.knowledge.request

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

    def _decide(self, episode: Episode, state: UserState, point: int, index: int = 0) -> bool:
        choice = self.model.table[point][state.persona[TRAIT_OF[point]]]
        return self._drawn(episode, state, choice, point + 16 * index)

    def _drawn(
        self, episode: Episode, state: UserState, choice: decisions.Choice, index: int
    ) -> bool:
        yes = draw(episode.user_key, USER, state.turn, index) < choice[0]
        state.log_prob += choice[1] if yes else choice[2]
        return yes

    def _turn(self, state: UserState, out: list[int]) -> UserTurn:
        log_prob = state.log_prob * decisions.LOG_UNIT
        turn = UserTurn(tuple(dict.fromkeys(out)), log_prob, state.closing)
        state.turn += 1
        state.log_prob = 0
        return turn
