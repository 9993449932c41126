"""What a support agent's reply says, as labels: `check(power_light)`, `instruct(restart)`.

    text ─► understanding ─► labels     is_label: whether there is such a label

`tests/data/replies.md` tells what each label stands for. What a newcomer would get wrong: the
same check in words of the trade is another label, `check(power_light, technical)`.
"""

from __future__ import annotations

import re

from convgym.domains.technical_support.dialogue import (
    CHECK_NAMES,
    CONFIRMS,
    FACTS,
    PROMISES,
    REASONS,
    SHOWN,
    SLOTS,
    STEP_NAMES,
    WARRANTY,
    WRITE_NAMES,
)
from convgym.domains.technical_support.facts import OFFERS, TOLD
from convgym.domains.technical_support.remarks import UNNAMED
from convgym.domains.technical_support.understanding import (
    TECHNICAL,
    UNLABELLED,
    Claim,
    Reranker,
    read_speech,
)
from convgym.domains.technical_support.vocabulary import LOOK, VALUE_NAMES

_FIGURES = tuple(term for term in TOLD if term not in UNNAMED)
_LOOKED = {fact: [VALUE_NAMES[value] for value in SHOWN[LOOK[fact]]] for fact in FACTS}
LABELS = frozenset(
    ["greet", "ask_intent", "explain", "apologise", "wait", "close", "who", "done"]
    + [f"ask({slot})" for slot in (*SLOTS, "more")]
    + [f"check({name}{trade})" for name in CHECK_NAMES for trade in ("", f", {TECHNICAL}")]
    + [f"instruct({name}{trade})" for name in STEP_NAMES for trade in ("", f", {TECHNICAL}")]
    + [f"inform({fact}={value})" for fact, values in _LOOKED.items() for value in ("", *values)]
    + [f"inform({term})" for term in UNNAMED]
    + [f"inform({WARRANTY}={value})" for value in ("yes", "no")]
    + [f"confirm({name})" for name in CONFIRMS]
    + [f"done({name})" for name in WRITE_NAMES]
    + [f"promise({name})" for name in PROMISES]
    + [f"deny({reason})" for reason in REASONS]
    + [f"offer({offer})" for offer in OFFERS]
)
"""All labels but those with a number in them."""
_NUMBERED = re.compile(rf"inform\((?:{'|'.join(_FIGURES)})=\d+\)")


def is_label(label: str) -> bool:
    """Whether a labelled reply may bear it."""
    return label in LABELS or bool(_NUMBERED.fullmatch(label))


def labels(text: str, reranker: Reranker | None = None) -> frozenset[str]:
    """The labels that the understanding gives to a reply."""
    return frozenset(
        _label(claim) for claim in read_speech(text, reranker) if claim.act not in UNLABELLED
    )


def _label(claim: Claim) -> str:
    if claim.value == TECHNICAL:
        return f"{claim.act}({claim.slot}, {TECHNICAL})"
    if claim.act == "inform" and claim.slot in UNNAMED:
        return f"inform({claim.slot})"
    return "explain" if claim.act == "locate" else str(claim)
