"""The names of what an agent's reply can do at this desk, and one such act as it was said.

    "Shall I exchange W48213 for size M?"    Claim("confirm", "exchange", "size m", "W48213")
    "It stops at once."                      Claim("inform", "ends", "now")

Knows nothing of how they are read.
"""

from __future__ import annotations

from typing import NamedTuple

STATUS = ("processing", "packed", "shipped", "delivered")
"""Names of the stages of an order, in their order."""
SLOTS = (
    "email", "postcode", "order", "subscription", "charge",
    "reason", "address", "variant", "defect", "cause", "more",
)  # fmt: skip
"""What can be asked for; `more`: whether there is anything else."""
WRITES = (
    "cancel", "return", "address",
    "exchange", "refund", "subscription", "access", "warranty", "billing",
)  # fmt: skip
"""What can be confirmed, promised and reported as done."""
PROMISES = (*WRITES, "transfer")
TERMS = {
    "channel": ("original", "credit"),
    "postage": ("free", "charged"),
    "remedy": ("repair", "replacement"),
    "ends": ("now", "later"),
}
"""Terms that are told by a word; a fee is told in percent."""
REASONS = (
    "unverified", "not_cancellable", "not_delivered", "too_many_returns", "final_sale",
    "outside_window", "already_shipped", "not_served", "out_of_stock", "no_return_received",
    "refund_pending", "prepaid", "minimum_term", "not_covered", "out_of_warranty",
    "charge_pending", "dispute_late", "charge_valid",
)  # fmt: skip
LATE = "late"
"""A refusal that says only that it is too late; what for is what the customer asked."""
OFFERS = (
    "return_later", "store_credit", "pickup", "waitlist",
    "new_label", "pause", "paid_repair", "send_invoice",
)  # fmt: skip
UNLABELLED = ("jargon", "chat", "locate", "who")
"""Acts that labelled replies leave out."""
HARMLESS = frozenset(
    ["greet", "ask_intent", "apologise", "wait", "close", "explain"]
    + [f"ask({slot})" for slot in SLOTS]
)
"""Labels that carry no value and change nothing: what a reranker may propose."""


class Claim(NamedTuple):
    """One speech act with its value as it was said, not yet checked."""

    act: str
    """greet, ask_intent, ask, inform, confirm, deny, offer, done, promise, explain, apologise,
    close, wait; and, not labelled, jargon, chat (filler) and locate (where a number is found)."""
    slot: str = ""
    value: str = ""
    """What is told; of an address that is asked about or done the place: "7 harbour view exeter";
    of an exchange what is sent instead: "size m", "black", "elsewhere" where it is no such thing;
    of a return or cancellation that is asked about the fee, where one is named."""
    order: str = ""
    """The number of the order, subscription or charge that it is about; empty where none is."""

    def __str__(self) -> str:
        if not self.slot:
            return self.act
        told = f"={self.value}" if self.act == "inform" else ""
        return f"{self.act}({self.slot}{told})"
