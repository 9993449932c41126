"""What `convgym tune` finds by its name: one function of plain values."""

from __future__ import annotations

from typing import Any

from trainers.tuning.search import Asked, Say, search


def tune(say: Say, tell: Say, **asked: Any) -> None:
    """Search, with progress to `tell`; the values are those of `trainers.tuning.search.Asked`."""
    search(Asked(**asked), say, tell)
