"""What a reply at the shop's service desk says, as labels: `ask(email)`, `inform(status=shipped)`.

    text, request ─► understanding ─► labels     is_label: whether there is such a label

`tests/data/replies.md` tells what each label stands for. What a newcomer would get wrong: a refusal
that says only "too late" has no label of its own; what the customer asked for settles it.
"""

from __future__ import annotations

import re

from convgym.domains.customer_service.claims import (
    LATE,
    OFFERS,
    PROMISES,
    REASONS,
    SLOTS,
    STATUS,
    TERMS,
    UNLABELLED,
    WRITES,
)
from convgym.domains.customer_service.understanding import Reranker, read_speech
from convgym.errors import InvalidConfiguration
from convgym.language.figures import MONTHS

REQUESTS = ("", "status", *WRITES)
"""What the customer may have asked for so far; empty where it is not told."""
LABELS = frozenset(
    ["greet", "ask_intent", "explain", "apologise", "wait", "close"]
    + [f"ask({slot})" for slot in SLOTS]
    + [f"inform(status={stage})" for stage in STATUS]
    + [f"inform({term}={value})" for term, values in TERMS.items() for value in values]
    + [f"{act}({write})" for act in ("confirm", "done") for write in WRITES]
    + [f"promise({promise})" for promise in PROMISES]
    + [f"deny({reason})" for reason in REASONS]
    + [f"offer({offer})" for offer in OFFERS]
)
"""All labels but those with a number in them."""
_NUMBERED = re.compile(rf"inform\((eta=\d\d? ({'|'.join(MONTHS)})|fee=\d\d?\d?)\)")
_TOO_LATE_FOR = {
    "cancel": "not_cancellable", "address": "already_shipped", "return": "not_delivered",
    "billing": "dispute_late",
}  # fmt: skip


def is_label(label: str) -> bool:
    """Whether a labelled reply may bear it."""
    return label in LABELS or bool(_NUMBERED.fullmatch(label))


def labels(text: str, request: str = "", reranker: Reranker | None = None) -> frozenset[str]:
    """The labels that the understanding gives to a reply.

    Raises InvalidConfiguration for a request that is not one of `REQUESTS`.
    """
    if request not in REQUESTS:
        raise InvalidConfiguration(
            f"request is {request!r}; it takes one of {', '.join(REQUESTS[1:])}."
        )
    claims = read_speech(text, reranker)
    found = {str(claim) for claim in claims if claim.act not in UNLABELLED}
    late = f"deny({LATE})"
    if late in found:
        found.remove(late)
        if request in _TOO_LATE_FOR:
            found.add(f"deny({_TOO_LATE_FOR[request]})")
    return frozenset(found)
