"""The customer of a task in plain words: who it is, what it wants, and what it knows of that.

    task ──► who    name, e-mail address, postcode, …
         └─► wants  one dictionary for each request: workflow, number, item, date, detail, …

What describes a customer to a person or a model, and what reads their text, needs no more than
these dictionaries. A text is empty where there is no such value.
"""

from __future__ import annotations

from typing import TypedDict

DETAILS: dict[str, str] = {
    "return": "reason",
    "address": "address",
    "exchange": "variant",
    "warranty": "defect",
    "billing": "cause",
}
"""What more a workflow's request needs, beside the record that it is about."""
DATES: dict[str, str] = {"order": "placed", "subscription": "started", "charge": "charged"}
"""What the date of a kind of record is called."""
LABELS: dict[str, str] = {"order": "item", "subscription": "plan", "charge": "amount"}
"""What a record is known by where its number is not."""


class Who(TypedDict):
    """The customer."""

    name: str
    email: str
    postcode: str
    wrong_postcode: str
    """What an impostor says instead."""
    impostor: bool
    """Writes in the name of another."""


class Want(TypedDict):
    """One request."""

    workflow: str
    kind: str
    """Of its record: order, subscription, charge; empty where it is about none."""
    knowledge: str
    """Of the record: number, item, looks up, vague, mistaken."""
    id: str
    wrong_id: str
    """What a mistaken customer takes for the number."""
    label: str
    """Item of an order, plan of a subscription, amount of a charge."""
    date: str
    """When it was placed, started or charged: `14 March`."""
    vague: str
    """All that a vague memory has of it at first: the category of an order."""
    detail: str
    """Reason, defect or cause by its name; new address or variant as it is said."""
    terms: tuple[str, ...]
    """What the customer wants to have been told before it says yes."""
