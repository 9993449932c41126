"""A buyer: an agenda user that weighs prices, raises objections, and walks away.

    recommended ─► has what it needs? ── no ──► says what is missing
                        │ yes
                   likes it ─► an objection of its own (delivery, trust, …), perhaps later
                            ─► a feature it would like to know of ─► what does it cost?
    price told ─► objection first, if there is one left
               ─► at most what it pays ──► haggles a time or two, then takes it
               ─► more than it pays ─────► objects; walks away when the price is held again
    price taken ─► the add-on, if offered ─► yes to product, pieces and price ─► booked

An answer to an objection settles that objection and no other; one that is passed over comes
back with the next price. What it pays is hidden and fixed (`Task.walk`): no persona moves it.
A persona moves how often it haggles (`HAGGLE`), how soon its objection comes (`OBJECT`), how often
it bears that a price which is too high is held (`PUSH_AGAIN`), whether a held price makes it leave
although it would have paid (`LEAVE`, seldom), and whether it takes extras (`TAKE_EXTRA`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from convgym.domains.sales.hearing import ASKED, LACKS_FIRST, TOO_DEAR
from convgym.domains.sales.tasks import Task
from convgym.domains.sales.vocabulary import (
    ADDON,
    BUDGET,
    CLEAR,
    FACT_FEATURE,
    KNOWN,
    LOOKS_UP,
    MISTAKEN,
    NEED,
    OBJECTIONS,
    PARTIAL,
    PRICE_DENIALS,
    QUANTITY,
    ROUGH,
    VAGUE,
    WITHHELD,
    U,
)
from convgym.engine import acts
from convgym.engine.acts import Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.users import decisions
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import DecisionModel
from convgym.users.persona import Levels
from convgym.users.user_state import NEXT, NOTHING, Knowledge, UserState

OBJECTED = NEXT + 1
"""The open question is an objection."""
MOST_HAGGLES = 2
"""Times that a buyer tries for less although it would pay what is asked."""
MOST_HOLDS = 2
"""Times that a price which is too high can be held; at the second it may go, too."""
OFFENCE = -5 * decisions.TILT_UNIT // 2
"""Added to the logit of leaving when a price is held: it seldom makes anybody leave by itself."""
TAKES, DECLINES = 1, 2
_PRICES = (acts.QUOTE, acts.CONFIRM)
_TERMS = frozenset(((acts.ASK, NEED), (acts.TELL, FACT_FEATURE)))


class BuyerState(UserState):
    """The private record of one buyer in one episode."""

    __slots__ = (
        "accepted",
        "countered",
        "curious",
        "extra",
        "haggles",
        "holds",
        "nice",
        "objecting",
        "objection",
        "open_to_addon",
        "price",
        "priced",
        "prices_come",
        "shown",
        "walk",
    )

    def __init__(self, persona: Levels, task: Task) -> None:
        super().__init__(persona, knowledge(task))
        self.walk = task.walk
        self.objection = task.objection  # not raised yet; -1 for nothing
        self.objecting = -1  # raised, and not answered
        self.nice = task.nice >= 0  # has a feature to ask about
        self.open_to_addon = task.wants_addon
        self.curious = False  # has asked about it, and not been told
        self.shown = -1  # the product it likes
        self.priced = -1  # the product that the price is of
        self.price = 0  # told last, per mille of the list price; 0 before
        self.prices_come = False  # the agent's turn that is being heard names one
        self.countered = False  # has said how much less it would like to pay
        self.haggles = 0
        self.holds = 0
        self.accepted = False
        self.extra = 0  # TAKES, DECLINES

    @property
    def pays(self) -> bool:
        """Whether the price told last is at most what it pays."""
        return self.price * 1000 <= self.walk


class Buyer(AgendaUser):
    """Answers agent turns; one instance serves any number of episodes."""

    def __init__(self, model: DecisionModel | None = None) -> None:
        super().__init__(U, model)
        self._reactions[acts.RECOMMEND] = self._recommend
        self._reactions[acts.QUOTE] = self._quote

    def answer(self, episode: Episode, heard: Sequence[Heard]) -> UserTurn:
        """React to each act in turn, then see to one's own business."""
        episode.user.prices_come = any([act.kind in _PRICES for act in heard])
        return super().answer(episode, heard)

    # -- products ------------------------------------------------------------------------------

    def _recommend(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, BuyerState)
        if self._turns_down(state, act, out):
            return
        state.denied = 0  # there is something to sell after all
        if state.shown == act.pointer:
            state.bother += 1
            return
        state.shown = act.pointer
        out.append(self.u["like_product"])
        if state.objection >= 0 and self._decide(episode, state, decisions.OBJECT):
            self._raise(state, out)
        else:
            self._go_on(state, out)

    def _turns_down(self, state: BuyerState, act: Heard, out: list[int]) -> bool:
        """A claim without a basis, or a product that will not do."""
        if act.verdict == acts.DOUBTFUL:
            state.bother += 2
            out.append(self.u["challenge"])
        elif act.verdict == acts.OTHER_OBJECT:
            self._reject(state, act, out)
        return act.verdict in (acts.DOUBTFUL, acts.OTHER_OBJECT)

    def _reject(self, state: BuyerState, act: Heard, out: list[int]) -> None:
        state.bother += 1
        if act.pointer == state.shown:
            state.shown, state.price = -1, 0
        if act.argument == TOO_DEAR:
            out.append(self.u["reject_dear"])
            return
        lacks_first = act.argument == LACKS_FIRST
        out += [self.u["reject_first" if lacks_first else "reject_second"], self.u["inform_needs"]]
        state.asked[NEED] = len(state.knowledge.ladders[NEED])

    def _go_on(self, state: BuyerState, out: list[int]) -> None:
        """What it wants to know of a product that it likes."""
        if state.nice:
            state.nice, state.curious = False, True
            out.append(self.u["ask_feature"])
        elif not state.price and state.shown >= 0:
            out.append(self.u["ask_price"])

    def _tell(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, BuyerState)
        if self._turns_down(state, act, out):
            return
        if act.pointer == ASKED:
            state.curious = False
        if not state.question and not self._ask_meaning(episode, state, act, out):
            self._go_on(state, out)

    def _wait(self, episode: Episode, state: UserState, heard: Sequence[Heard]) -> None:
        assert isinstance(state, BuyerState)
        super()._wait(episode, state, heard)
        if state.curious and not any([act.kind == acts.TELL for act in heard]):
            state.bother += 1
            state.curious = False

    # -- objections ----------------------------------------------------------------------------

    def _raise(self, state: BuyerState, out: list[int]) -> None:
        if state.objecting < 0:
            state.objecting, state.objection = state.objection, -1
        self._put(state, OBJECTED, f"object_{OBJECTIONS[state.objecting]}", out)

    def _explain(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, BuyerState)
        if state.objecting >= 0 and act.argument == 1 + state.objecting:
            state.explained, state.objecting = True, -1
            if state.question == OBJECTED:
                state.question = NOTHING
            if state.price and not state.prices_come:
                self._weigh(episode, state, out)
            elif not state.price:
                self._go_on(state, out)
        elif state.question == OBJECTED:
            state.bother += 1
            self._raise(state, out)
        elif not act.argument:
            super()._explain(episode, state, act, out)

    # -- prices --------------------------------------------------------------------------------

    def _quote(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, BuyerState)
        if not self._turns_down(state, act, out):
            held = self._note_price(state, act)
            self._weigh(episode, state, out, held)

    @staticmethod
    def _note_price(state: BuyerState, act: Heard) -> bool:
        """Take in a price; whether it was only held."""
        known = state.priced == act.pointer and state.price > 0
        held = known and act.argument >= state.price
        if not held:
            state.holds = state.denied = 0
        if not known or act.argument > state.price:
            state.accepted = False
        state.shown = state.priced = act.pointer
        state.price = act.argument
        return held

    def _weigh(
        self, episode: Episode, state: BuyerState, out: list[int], held: bool = False
    ) -> None:
        """What to say to the price on the table."""
        if state.waiting or state.satisfied:
            return
        if state.objecting >= 0 or state.objection >= 0:
            self._raise(state, out)
        elif state.accepted:
            out.append(self.u["accept_price"])
        elif held and not self._bears_it(episode, state):
            out.append(self.u["walk_away"])
            state.closing = True
        elif state.pays:
            haggles = state.haggles < MOST_HAGGLES
            if haggles and self._decide(episode, state, decisions.HAGGLE, state.haggles):
                state.haggles += 1
                self._haggle(state, out)
            else:
                state.accepted = True
                out.append(self.u["accept_price"])
        else:
            self._haggle(state, out)

    def _bears_it(self, episode: Episode, state: BuyerState) -> bool:
        """Whether it stays, now that a price it has objected to is held."""
        state.holds += 1
        if state.pays or state.holds == 1:
            which = decisions.LEAVE + decisions.STRIDE * state.holds
            return not self._drawn(episode, state, decisions.LEAVE, which, OFFENCE)
        return state.holds <= MOST_HOLDS and self._decide(
            episode, state, decisions.PUSH_AGAIN, state.holds
        )

    def _haggle(self, state: BuyerState, out: list[int]) -> None:
        out.append(self.u["object_price" if state.countered else "counter_offer"])
        state.countered = True

    def _deny(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, BuyerState)
        if act.argument >= PRICE_DENIALS or not state.price:
            super()._deny(episode, state, act, out)
        elif act.verdict != acts.FINE:
            self._weigh(episode, state, out, held=True)
        elif state.pays:
            state.haggles = MOST_HAGGLES  # that was the last word
            self._weigh(episode, state, out)
        else:
            super()._deny(episode, state, act, out)

    # -- the deal ------------------------------------------------------------------------------

    def _offer(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, BuyerState)
        if act.argument != ADDON:
            super()._offer(episode, state, act, out)
            return
        if state.extra:
            state.bother += 1
        else:
            takes = self._decide(episode, state, decisions.TAKE_EXTRA) and state.open_to_addon
            state.extra = TAKES if takes else DECLINES
        out.append(self._on_addon(state))

    def _on_addon(self, state: BuyerState) -> int:
        return self.u["take_addon" if state.extra == TAKES else "decline_addon"]

    def _confirm(self, episode: Episode, state: UserState, act: Heard, out: list[int]) -> None:
        assert isinstance(state, BuyerState)
        u = self.u
        if act.verdict == acts.OTHER_OBJECT:
            out.append(u["negate"])
        if self._turns_down(state, act, out):
            return
        if act.verdict == acts.OTHER_REQUEST:
            state.bother += 1
            out += [u["negate"], u["inform_quantity"]]
        elif act.verdict == acts.WRONG:
            state.bother += 1
            out += [u["negate"], self._on_addon(state)]
        elif state.shown not in (-1, act.pointer):
            state.bother += 1
            out += [u["negate"], state.knowledge.correct]
        else:
            held = self._note_price(state, act)
            said: list[int] = []
            self._weigh(episode, state, said, held)
            if state.accepted:
                state.waiting, state.denied = not state.satisfied, 0
                said = [u["affirm"]]
            out += said


def knowledge(task: Task) -> Knowledge:
    """What this task's buyer wants and can say."""
    alternative = bool(task.decision.alternative)
    return _knowledge(task.knowledge, task.budget_kind, alternative, task.wrong >= 0)


@cache
def _knowledge(known: int, budget_kind: int, alternative: bool, confusable: bool) -> Knowledge:
    needs, wrong = U["inform_needs"], U["inform_needs_wrong"]
    budget = U["inform_budget"]
    return Knowledge(
        request=U["request_product"],
        ladders=(
            {
                CLEAR: (needs,),
                PARTIAL: (U["inform_need_part"], needs),
                VAGUE: (U["inform_use"], needs),
                LOOKS_UP: (needs,),
                MISTAKEN: (wrong, needs),
            }[known],
            {
                KNOWN: (budget,),
                ROUGH: (U["inform_budget_rough"], budget),
                WITHHELD: (U["withhold_budget"], budget),
            }[budget_kind],
            (U["inform_quantity"],),
        ),
        # Whoever has them wrong anyway draws for a slip as well, or its log-probability would tell.
        misremembered=(
            wrong if confusable and known in (CLEAR, LOOKS_UP, MISTAKEN) else -1,
            -1,
            -1,
        ),
        main_slot=NEED,
        first_slot=QUANTITY,
        must_look_up=known == LOOKS_UP,
        alternative=alternative,
        personal=(BUDGET,),
        terms=_TERMS,
        correct=U["correct_product"],
    )
