"""What a sales agent's reply says, as labels: `quote(Aster Slim=1249)`, `inform(has=touchscreen)`.

    text ─► understanding ─► labels     is_label: whether there is such a label

`tests/data/replies.md` tells what each label stands for. What a newcomer would get wrong: the
figures of a yes or of a report ("shall I book it for $950?") belong to it, and are not in its
label.
"""

from __future__ import annotations

import re

from convgym.domains.sales.prices import (
    ADDON_PRICE,
    AUTHORITY,
    DISCOUNT,
    LIST_PRICE,
    SAVING,
    TOTAL,
)
from convgym.domains.sales.understanding import Reranker, read_speech
from convgym.domains.sales.vocabulary import DENIALS, OBJECTIONS, OFFERS, PROMISES, SLOTS
from convgym.domains.sales.world import EVERY_NAME, FEATURES

_UNLABELLED = ("chat", "jargon")
_BESIDE = (ADDON_PRICE, SAVING)
"""Figures that only belong to another claim."""
_FEATURES = [name for features in FEATURES for name, _ in features]
LABELS = frozenset(
    ["greet", "ask_intent", "explain", "apologise", "wait", "close", "hold", "recommend()"]
    + [f"ask({slot})" for slot in (*SLOTS, "more")]
    + [f"recommend({product})" for product in EVERY_NAME]
    + [f"inform({has}={name})" for has in ("has", "lacks") for name in (*_FEATURES, "asked")]
    + ["inform(stock=yes)", "confirm(book)", "done(book)"]
    + [f"answer({objection})" for objection in OBJECTIONS]
    + [f"deny({reason})" for reason in (*DENIALS, "floor")]
    + [f"offer({offer})" for offer in OFFERS]
    + [f"promise({promise})" for promise in PROMISES]
)
"""All labels but those with a number in them."""
_AMOUNT = r"\d+(?:\.\d+)?"
_NUMBERED = re.compile(
    rf"inform\((?:(?:{TOTAL}|{LIST_PRICE}|{DISCOUNT}|{AUTHORITY})={_AMOUNT}"
    r"|(?:delivery|stock)=\d+)\)"
    rf"|quote\((?:(?:{'|'.join(map(re.escape, EVERY_NAME))})=)?{_AMOUNT}\)"
)


def is_label(label: str) -> bool:
    """Whether a labelled reply may bear it."""
    return label in LABELS or bool(_NUMBERED.fullmatch(label))


def labels(text: str, reranker: Reranker | None = None) -> frozenset[str]:
    """The labels that the understanding gives to a reply."""
    return frozenset(
        str(claim)
        for claim in read_speech(text, reranker)
        if not (claim.act in _UNLABELLED or (claim.act == "inform" and claim.slot in _BESIDE))
    )
