"""The support desk of an online shop: the declared service desk, with this shop's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from convgym.desk import wording
from convgym.desk.desk import ServiceDesk
from convgym.desk.loading import declaration_of
from convgym.desk.state import Case
from convgym.desk.tasks import Tasks
from convgym.desk.vocabulary import Vocabulary
from convgym.domains.customer_service.reports import ELSEWHERE
from convgym.domains.customer_service.understanding import LATE, Claim, Reranker, read_speech
from convgym.domains.customer_service.world import (
    DELIVERED,
    DEPENDS,
    STAGES,
    STREETS,
    TOWNS,
    world,
)
from convgym.engine import acts
from convgym.engine.acts import Said
from convgym.language.phrases import PhraseBank, packaged_banks
from convgym.language.retrieval import packaged_indexes
from convgym.language.tagging import ActTagger
from convgym.language.voice import Voice

_PACKAGE = "convgym.domains.customer_service"


@cache
def vocabulary() -> Vocabulary:
    """Cells, actions and acts of this desk, as its folder declares it."""
    return Vocabulary(declaration_of(files(_PACKAGE))[0])


@cache
def tasks() -> Tasks:
    """All tasks of this desk."""
    return Tasks(vocabulary().declaration, world(), world().among, DEPENDS)


class CustomerServiceDesk(ServiceDesk):
    """Ten workflows over orders, subscriptions, charges and accounts."""

    reranker: Reranker | None = None
    utterances = (
        "Hello, how can I help you today?",
        "Could you tell me the email address of your account?",
        "May I have the postcode of your account?",
        "Which order is this about?",
        "I am sorry for the trouble.",
        "Is there anything else I can do for you?",
        "Thank you for contacting us, goodbye.",
        '<tool_call>{"name": "list_orders", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "get_order", "arguments": {"order": "order:1"}}</tool_call>',
        '<tool_call>{"name": "transfer_to_human", "arguments": {}}</tool_call>',
    )
    """What a random text policy says."""

    def __init__(self) -> None:
        super().__init__(vocabulary(), tasks())

    def batched(self, model: Any, max_turns: int) -> Any:
        """This desk and its customer on rows of integers; replies are read as numbers, too."""
        from convgym.desk.batch import BatchedDesk
        from convgym.domains.customer_service.batch_forms import ShopForms

        return BatchedDesk(self, model, max_turns, ShopForms(self))

    # -- words -------------------------------------------------------------------------------------

    def user_voices(self) -> dict[str, Voice]:
        """The customer's wordings: `train` and `held_out`."""
        banks = packaged_banks(_PACKAGE, "user_phrases.toml")
        indexes = packaged_indexes(_PACKAGE, "user_turns.toml")
        return {part: Voice(bank, indexes[part]) for part, bank in banks.items()}

    def agent_banks(self) -> dict[str, PhraseBank]:
        """The agent's wordings: `train` and `held_out`."""
        return packaged_banks(_PACKAGE, "agent_phrases.toml")

    def read_speech(self, text: str) -> Sequence[Claim]:
        """What an agent's words claim."""
        return read_speech(text, self.reranker)

    def user_tagger(self) -> ActTagger:
        """What reads a customer's words, of a person or a model, as acts."""
        from convgym.domains.customer_service.user_understanding import user_tagger

        return user_tagger()

    def own_reranker(self) -> Reranker:
        """A reranker over the desk's own wordings."""
        from convgym.domains.customer_service.paraphrases import own_reranker

        return own_reranker()

    def policy_document(self, task: Any) -> str:
        """The policy of this episode in words."""
        return f"{super().policy_document(task)}\nToday is {self.records.today()}."

    def shown(self, kind: str, row: int, read: bool) -> dict[str, str]:
        """What is in sight of a record, by name; an order that was read has a `date`."""
        shown = super().shown(kind, row, read)
        return {**shown, "date": shown["eta"]} if read and kind == "order" else shown

    def policy_view(self, case: Case, wants: str) -> dict[str, str]:
        """The numbers that the agent's wordings name."""
        parameters = case.desk.parameters
        window = "exchange_window" if wants == "exchange" else "return_window"
        return {"fee": str(parameters["fee"]), "days": str(parameters[window])}

    def phrase_key(self, number: int, seen: Mapping[str, Any], record: Mapping[str, str]) -> str:
        """Under which name the wordings of an act stand."""
        action = self.actions.actions[number]
        if action.kind == acts.TELL and self.v.told[action.argument] == "eta":
            delivered = record.get("status") == STAGES[DELIVERED]
            return "inform_eta_delivered" if delivered else "inform_eta_coming"
        return wording.phrase_key(self, number, seen)

    # -- what this shop's customers and agents mean ------------------------------------------------

    def reason_meant(self, case: Case, reason: str) -> str:
        """The refusal meant by "too late" is that of what the customer has asked for."""
        if reason != LATE:
            return reason
        return _TOO_LATE.get(case.workflow.name, "")

    def sounds_done(self, case: Case, reason: str) -> bool:
        """"It is off and will not be sent" sounds like a refusal of what was asked for."""
        return reason in ("not_cancellable", "already_shipped")

    def left_standing(self, case: Case, said: Sequence[Any]) -> Sequence[Any]:
        """Without the ground of a refusal: "it has shipped" also holds of what was delivered."""
        if case.workflow.kind != "order" or not any(one[:2] in REFUSED_TOO_LATE for one in said):
            return said
        if self.records.text("order", case.request.row, "status") != STAGES[DELIVERED]:
            return said
        own = ("", self.records.text("order", case.request.row, "order"))
        return [one for one in said if not (one[:3] == SHIPPED_TOLD and one[3] in own)]

    def write_meant(self, case: Case, workflow: str, named: str) -> str:
        """"Shall I cancel it?" is about the subscription where that is to be ended."""
        ends = workflow == "cancel" and case.workflow.name == "subscription"
        return "subscription" if ends and not named else workflow

    def meaning_of(self, case: Case) -> str:
        """The term that was told, those of a return together; else the kind of number."""
        for term, cells in self.v.told_term.items():
            if any(case.belief[cell] for cell in cells):
                return "meaning" if term in ("fee", "channel") else term
        return case.workflow.kind or "order"

    def term_told(self, case: Case, told: int, value: str) -> Said:
        """A fee as the percent that it was said to be; any other term by the name of its value."""
        if self.v.told[told] == "fee" and value.isdigit():
            percent = int(value)
            wrong = percent not in (0, case.desk.parameters["fee"])
            claim = acts.FALSE if wrong else acts.KNOWN
            return Said(acts.TELL, told, value=int(percent > 0), claim=claim)
        return super().term_told(case, told, value)

    def agrees_on(self, case: Case, workflow: str, value: str) -> bool:
        """What a question names: an address or a variant; a fee with a return."""
        if workflow in ("return", "cancel"):
            return value in ("", "0", str(case.desk.parameters["fee"]))
        if workflow == "address":
            return bool(value) and super().agrees_on(case, workflow, value)
        return super().agrees_on(case, workflow, value)

    def agrees_with_report(self, case: Case, workflow: str, value: str) -> bool:
        """What a report names; what follows the street may be anything but another town."""
        if workflow != "address":
            return workflow in ("return", "cancel") or super().agrees_on(case, workflow, value)
        place = place_in(value)
        return not place or super().agrees_on(case, workflow, place)


SHIPPED_TOLD = ("inform", "status", "shipped")
REFUSED_TOO_LATE = tuple(("deny", x) for x in ("not_cancellable", "already_shipped", LATE))
_TOO_LATE = {
    "cancel": "not_cancellable",
    "address": "already_shipped",
    "return": "outside_window",
    "exchange": "outside_window",
    "warranty": "out_of_warranty",
    "billing": "dispute_late",
}


_PLACES = frozenset(" ".join((*STREETS, *TOWNS, ELSEWHERE)).lower().split())


def place_in(value: str) -> str:
    """The words of an address as it was told that are of a place this shop knows."""
    return " ".join(word for word in value.split() if word in _PLACES or word.isdigit())
