"""A customer at a device: an agenda user that looks, does what it is told, and sees for itself.

    asked to look ─► has it? ── able? ── no ──► asks how ─► explained ─► looks
                                   └─ yes ─► the truth | a wrong value | cannot tell
    told to do it ─► has it? ── able? ── no ──► asks how ─► explained ─► does it
                                   └─ yes ─► done | openly not done | claimed
    done ─► perhaps tries at once whether it works ─► it does: content, and waits for a last word

Every slip ends when it is asked again, so that an agent who doubts a report can find out:

    MISOBSERVE, CANNOT_TELL   only at the first look since the thing came to be as it is; a second
                              look at the same thing shows the truth. Whether it works and whether
                              it got wet is never reported wrong.
    SKIP_STEP, CLAIM_STEP     only the first time that a step is asked for in a conversation; who is
                              asked again does it.
    missing expertise         asks back until it is explained, and is able from then on

What one person takes a thing for when it sees wrong is always the same. Of the steps of one
message the first is done and the others are put off; what is to be looked at is looked at then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from convgym.domains.technical_support.dialogue import (
    CONFIRMS,
    DEVICE,
    PHONE,
    PIN,
    SEES,
    STEP_NAMES,
    TELLS,
    U,
)
from convgym.domains.technical_support.handling import (
    ABLE,
    ASKS,
    CERTAIN,
    CLAIMED,
    DONE,
    LEFT,
    NEEDS_HELP,
    UNABLE,
    ability,
    attempt,
    sight,
)
from convgym.domains.technical_support.hearing import TECHNICAL
from convgym.domains.technical_support.physics import (
    HAS_LOOK_ROWS,
    HAS_OPERATION_ROWS,
    observe,
)
from convgym.domains.technical_support.records import act_on
from convgym.domains.technical_support.tasks import (
    KNOWS_SERIAL,
    MISTAKEN,
    Task,
)
from convgym.domains.technical_support.vocabulary import (
    BOOKINGS,
    CANNOT_TELL,
    CHECKS,
    EXPERT,
    OK,
    SERVICE,
    STEPS,
    VALUE_NAMES,
)
from convgym.engine import acts
from convgym.engine.acts import Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.keys import USER, draw
from convgym.users import decisions
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import DecisionModel
from convgym.users.persona import TRAITS, Levels
from convgym.users.user_state import MEANING, NEXT, NOTHING, Knowledge, UserState

MOST_ALIKE = 3
"""Times that one bears to look at the same thing, or to be told to do the same."""
TRIES = 64
"""Number of the draw whether one tries at once if it works, among those on slots."""
WRONG_VALUE = decisions.STRIDE - 1
"""Number of the draw of what a thing is mistaken for, where a decision point has its own."""
_EXPERTISE = TRAITS.index("expertise")
NOTHING_PUZZLES, A_CHECK, A_STEP = range(3)
_STAYING = frozenset((acts.CHECK, acts.INSTRUCT, acts.EXPLAIN, acts.TELL, acts.CONFIRM))
"""What an agent says that has more to do: nobody leaves at it."""


class SupportState(UserState):
    """The private record of one customer in one episode; the device itself is the desk's."""

    __slots__ = (
        "alike",
        "booked",
        "checks_come",
        "knows",
        "puzzle",
        "puzzled_by",
        "skilled",
        "staying",
        "step",
        "told_to",
        "tried",
        "truth",
    )

    def __init__(self, persona: Levels, task: Task) -> None:
        super().__init__(persona, knowledge(task))
        self.knows = 0  # bits of the checks that were explained
        self.skilled = 0  # bits of the steps that were explained
        self.truth = [-1] * len(CHECKS)  # what each check had to show when it was last made
        self.alike = [0] * len(CHECKS)  # times that it was looked at since the last deed
        self.told_to = [0] * len(STEPS)  # times that each step was asked for
        self.puzzle = NOTHING_PUZZLES  # what it has asked how to do
        self.puzzled_by = -1
        self.booked = False  # was told of a booking: content whatever the device does
        # Of the turn that is being answered:
        self.step = -1  # the first step that it asks for
        self.tried = False  # the customer has tried whether it works
        self.checks_come = False
        self.staying = False  # nothing in it that one leaves at


class SupportUser(AgendaUser):
    """Answers agent turns; one instance serves any number of episodes."""

    def __init__(self, model: DecisionModel | None = None) -> None:
        super().__init__(U, model)
        self._reactions[acts.CHECK] = self._check
        self._reactions[acts.INSTRUCT] = self._instruct

    def answer(self, episode: Episode, heard: Sequence[Heard]) -> UserTurn:
        """React to each act in turn, then see to one's own business."""
        state: SupportState = episode.user
        steps = [act.argument for act in heard if act.kind == acts.INSTRUCT]
        kinds = [act.kind for act in heard]
        state.step = steps[0] if steps else -1
        state.checks_come = acts.CHECK in kinds
        state.staying = bool(kinds) and _STAYING.issuperset(kinds)
        state.tried = False
        if len(heard) > 1:
            # What has to be done is done first, wherever in the reply it stands; then it looks.
            heard = sorted(heard, key=lambda act: act.kind != acts.INSTRUCT)
        return super().answer(episode, heard)

    # -- looking -------------------------------------------------------------------------------

    def _check(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, SupportState)
        look = act.argument
        state.knows |= state.explained << look
        if not HAS_LOOK_ROWS[episode.task.kind][look]:
            out.append(self.u["no_such_part"])
            return
        able = self._ability(state, CHECKS[look].level, act.pointer, state.knows >> look & 1)
        if able == UNABLE:
            self._ask_how(state, A_CHECK, look, out)
        else:
            self._look(episode, state, look, able, out)

    def _look(
        self, episode: Episode, state: SupportState, look: int, able: int, out: list[int]
    ) -> None:
        kind, device = episode.task.kind, episode.desk.device
        truth = observe(kind, device, look)
        first = state.truth[look] != truth
        state.truth[look] = truth
        state.alike[look] += 1
        state.bother += state.alike[look] > MOST_ALIKE
        doubtful = first and look not in CERTAIN
        cannot = doubtful and able == ABLE and self._decide(
            episode, state, decisions.CANNOT_TELL, look
        )
        wrong = doubtful and not cannot and self._decide(
            episode, state, decisions.MISOBSERVE, look
        )
        drawn = _slip(episode, look)
        outcome, value = sight(kind, device, look, able, cannot=cannot, wrong=wrong, drawn=drawn)
        assert outcome != ASKS
        if value == CANNOT_TELL:
            out.append(self.u["cannot_tell"])
            return
        out.append(SEES[look, value])
        if look == SERVICE:
            self._see_whether_it_works(state, value)

    @staticmethod
    def _see_whether_it_works(state: SupportState, value: int) -> None:
        state.tried = True
        state.satisfied = value == OK or state.booked
        if state.satisfied:  # nothing is owed any more
            state.waiting = state.promised = False

    # -- doing ---------------------------------------------------------------------------------

    def _instruct(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, SupportState)
        step = act.argument
        if step != state.step:
            state.bother += 1
            out.append(self.u["one_by_one"])
            return
        if not HAS_OPERATION_ROWS[episode.task.kind][step]:
            out.append(self.u["no_such_part"])
            return
        state.skilled |= state.explained << step
        state.told_to[step] += 1
        state.bother += state.told_to[step] > MOST_ALIKE + 1
        self._do(episode, state, step, act.pointer, out)

    def _do(
        self, episode: Episode, state: SupportState, step: int, words: int, out: list[int]
    ) -> None:
        able = self._ability(state, STEPS[step].level, words, state.skilled >> step & 1)
        first = state.told_to[step] == 1
        skips = first and self._decide(episode, state, decisions.SKIP_STEP, step)
        claims = skips and self._decide(episode, state, decisions.CLAIM_STEP, step)
        kind, device = episode.task.kind, episode.desk.device
        outcome, _ = attempt(kind, device, step, able, skips=skips, claims=claims)
        if outcome == NEEDS_HELP:
            self._ask_how(state, A_STEP, step, out)
            return
        if outcome == LEFT:
            out.append(self.u["not_done"])
            return
        assert outcome in (DONE, CLAIMED)
        if outcome == DONE:
            act_on(episode, step)
        out.append(self.u["did_it" if outcome == DONE else "claim_it"])
        self._note_deed(state)
        self._try_at_once(episode, state, step, out)

    @staticmethod
    def _note_deed(state: SupportState) -> None:
        """Things may be otherwise now: whether it works is open, and looking makes sense again."""
        state.satisfied = state.booked
        state.alike = [0] * len(CHECKS)

    def _try_at_once(
        self, episode: Episode, state: SupportState, operation: int, out: list[int]
    ) -> None:
        if not state.checks_come and self._decide(
            episode, state, decisions.VOLUNTEER, TRIES + operation
        ):
            self._look(episode, state, SERVICE, ABLE, out)

    # -- being able ----------------------------------------------------------------------------

    @staticmethod
    def _ability(state: SupportState, level: int, words: int, explained: int) -> int:
        if words == TECHNICAL:
            level = max(level, EXPERT)
        return ability(level, state.persona[_EXPERTISE], bool(explained))

    def _ask_how(self, state: SupportState, puzzle: int, number: int, out: list[int]) -> None:
        state.puzzle, state.puzzled_by = puzzle, number
        self._put(state, MEANING, "ask_how", out)

    def _explain(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, SupportState)
        puzzle, number = state.puzzle, state.puzzled_by
        super()._explain(episode, state, act, out)
        state.puzzle = NOTHING_PUZZLES
        if puzzle == A_CHECK:
            state.knows |= 1 << number
            if not state.checks_come:
                self._check(episode, state, Heard(acts.CHECK, number), out)
        elif puzzle == A_STEP:
            state.skilled |= 1 << number
            if state.step < 0:  # else there is something newer to do
                self._do(episode, state, number, 0, out)

    def _mind_question(self, state: UserState, question: int, heard: Sequence[Heard]) -> None:
        assert isinstance(state, SupportState)
        super()._mind_question(state, question, heard)
        if state.question == NOTHING:
            state.puzzle = NOTHING_PUZZLES

    # -- what is done for it -------------------------------------------------------------------

    def _confirm(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        if act.verdict == acts.FINE and CONFIRMS[act.argument] in STEP_NAMES:
            out.append(self.u["affirm"])  # what it will do itself
        else:
            super()._confirm(episode, state, act, out)

    def _report_done(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, SupportState)
        if act.verdict != acts.FINE:
            super()._report_done(episode, state, act, out)
            return
        state.waiting = state.promised = False
        if act.argument in BOOKINGS:
            state.booked = True
            self._believe(episode, state, out)
        else:
            self._note_deed(state)
            self._try_at_once(episode, state, act.argument, out)

    def _part(self, episode: Episode, state: UserState, out: list[int], was_content: bool) -> None:
        assert isinstance(state, SupportState)
        if was_content and state.staying:
            return
        if was_content or not state.tried:
            super()._part(episode, state, out, was_content)
        elif self._decide(episode, state, decisions.ASK_NEXT):
            self._put(state, NEXT, "ask_next", out)
        elif self._decide(episode, state, decisions.THANK):
            out.append(self.u["thank"])


def mistaken_for(episode: Episode, look: int) -> int:
    """The value that this customer tells where it sees a thing wrong; always the same one.

    The true value where nobody sees wrong.
    """
    kind, device, drawn = episode.task.kind, episode.desk.device, _slip(episode, look)
    return sight(kind, device, look, ABLE, cannot=False, wrong=True, drawn=drawn)[1]


def _slip(episode: Episode, look: int) -> int:
    return draw(episode.user_key, USER, 0, WRONG_VALUE + decisions.STRIDE * look)


def knowledge(task: Task) -> Knowledge:
    """What this task's customer wants and can say."""
    decision = task.decision
    alternative, unverified = bool(decision.alternative), decision.reason == "unverified"
    return _knowledge(task.symptom, task.knowledge, alternative, unverified)


@cache
def _knowledge(symptom: int, known: int, alternative: bool, unverified: bool) -> Knowledge:
    serial, wrong = U["inform_serial"], U["inform_serial_wrong"]
    described = (U["inform_kind"], U["inform_room"])
    ladders = {KNOWS_SERIAL: (serial,), MISTAKEN: (wrong, U["inform_room"])}
    numbered = known in (KNOWS_SERIAL, MISTAKEN)
    pin = U["inform_pin_wrong" if unverified else "inform_pin"]
    slots = {
        PHONE: (U["inform_phone"],),
        PIN: (pin,),
        DEVICE: ladders.get(known, described),
    }
    asks = {"limit_fee": U["ask_limit_fee"], "technician_fee": U["ask_technician_fee"]}
    return Knowledge(
        request=U[f"request_{VALUE_NAMES[symptom]}"],
        ladders=tuple(slots[slot] for slot in sorted(slots)),
        # Who has the serial wrong anyway draws for a slip as well, or its log-probability would
        # tell.
        misremembered=(U["inform_phone_wrong"], U["inform_pin_wrong"], wrong if numbered else -1),
        main_slot=DEVICE,
        first_slot=PHONE,
        must_look_up=False,
        alternative=alternative,
        personal=(PHONE, PIN),
        terms=frozenset(
            ((acts.ASK, DEVICE), (acts.TELL, TELLS.index("settings_lost")))
        ),
        asks=tuple(asks.get(name, -1) for name in TELLS),
        correct=U["correct_device"],
    )
