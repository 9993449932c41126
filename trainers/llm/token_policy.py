"""A model as an agent: replies said token by token, or the best of several by their value.

    said (n rows) ─► scores of the next token ─► draw ─► … until <end> ─► n replies
    said ─► K replies each ─► their values ─► the best                  (`BestOf`)

Rows are spoken to all at once and may differ in length; every token reads its row from the start,
so that any model will do, at a cost that grows with the square of a reply's length.
Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

Tokens = NDArray[np.int64]
Scores = Callable[[Sequence[Tokens]], Tensor]
"""Logits of the token that follows each of n rows.  # (n, vocabulary)"""
Values = Callable[[Sequence[Tokens], Sequence[Tokens]], NDArray[np.float64]]
"""What each of n replies to its row is worth.  # (n,)"""


class TokenPolicy:
    """Replies by next-token scores, drawn from `seed`; a reply ends with `end` or at `limit`."""

    def __init__(self, scores: Scores, *, end: int, limit: int, seed: int = 0) -> None:
        if limit < 1:
            raise InvalidConfiguration(f"limit={limit}; a reply takes at least 1 token")
        self.scores, self.end, self.limit = scores, end, limit
        self._chance = torch.Generator().manual_seed(seed)

    def reply(self, said: Sequence[Tokens], deterministic: bool = False) -> list[Tokens]:
        """A reply to each row; `deterministic` takes the best token always."""
        rows, live = [list(row) for row in said], list(range(len(said)))
        for _ in range(self.limit):
            scores = self.scores([np.array(rows[row]) for row in live])
            for row, token in zip(live, self._draw(scores, deterministic), strict=True):
                rows[row].append(token)
            live = [row for row in live if rows[row][-1] != self.end]
            if not live:
                break
        return [np.array(row[len(start) :]) for row, start in zip(rows, said, strict=True)]

    def _draw(self, scores: Tensor, deterministic: bool) -> list[int]:
        if deterministic:
            best: list[int] = scores.argmax(dim=-1).tolist()
            return best
        odds = scores.double().softmax(dim=-1).cpu()
        drawn: list[int] = torch.multinomial(odds, 1, generator=self._chance)[:, 0].tolist()
        return drawn


class BestOf:
    """The most valuable of `candidates` replies that another policy draws (as CHAI does)."""

    def __init__(self, proposals: TokenPolicy, values: Values, candidates: int = 8) -> None:
        if candidates < 1:
            raise InvalidConfiguration(f"candidates={candidates}; it must be 1 or more")
        self.proposals, self.values, self.candidates = proposals, values, candidates

    def reply(self, said: Sequence[Tokens]) -> list[Tokens]:
        """A reply to each row."""
        asked = [row for row in said for _ in range(self.candidates)]
        replies = self.proposals.reply(asked)
        best = self.values(asked, replies).reshape(len(said), self.candidates).argmax(axis=1)
        return [replies[row * self.candidates + place] for row, place in enumerate(best)]
