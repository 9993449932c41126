"""What an ended conversation was worth, from evidence in diff, ledger and belief.

    success = goal diff holds × facts told × no violation × obligations met        0 or 1
    graded  = Σ weight of evidence reached, 0 where any violation stands           [0, 1]

Early evidence weighs little: being polite to a form must not pay. A domain fills in
`Evidence`; the arithmetic is the same for all.
"""

from __future__ import annotations

from typing import NamedTuple


class Evidence(NamedTuple):
    """What a domain can show for an episode; each 0 or 1."""

    authenticated: bool
    read: bool
    """The read that the decision rests on was made."""
    decided: bool
    """The right write, refusal, transfer or first fact."""
    told: bool
    """All that the user had to hear was heard."""
    clean: bool
    """The diff holds nothing but what the goal allows, and no violation stands."""


WEIGHTS = (0.05, 0.10, 0.35, 0.25)
CLOSING = 0.25


class Grade(NamedTuple):
    """The verdict on an episode at one moment."""

    success: bool
    graded: float
    progress: float
    """Potential for shaping: the graded sum without what only the end earns."""
    evidence: Evidence


def grade(evidence: Evidence) -> Grade:
    """Turn evidence into numbers; each piece counts only on top of those before it."""
    progress, complete = 0.0, True
    for weight, reached in zip(WEIGHTS, evidence[:4], strict=True):
        complete = complete and reached
        progress += weight * complete
    success = complete and evidence.clean
    graded = progress + CLOSING * success if evidence.clean else 0.0
    return Grade(success, graded, progress if evidence.clean else 0.0, evidence)
