"""Token rows as transitions between agent tokens, in padded batches.

    tokens      s  u  u | a0 a0 | u  u | a1 a1      s, u: not the agent's; two utterances
    place       0  1  2   3  4    5  6   7  8
    step         chosen after   its token   next one is chosen after   reward   discount
      0          2              3           3                          0        1
      1          3              4           6                          r0       γ
      2          6              7           7                          0        1
      3          7              8           –                          r1       0

A step goes from an agent token to the agent's next, over whatever the other said meanwhile. What
a newcomer would get wrong: rewards come with the last token of an utterance, and γ counts
utterances, so tokens inside one are not discounted and long replies cost nothing. Where a
conversation was cut off, the last step is chosen on from the row's last token if that is not the
agent's; if it is, what followed is not known and the step's `known` is false.
Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from convgym.errors import DatasetError, MissingExtra
from trainers.llm.tokens import TokenRow

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


@dataclass(frozen=True, eq=False)
class TokenSteps:
    """The M agent tokens of a row, in their order; each array (M,)."""

    before: NDArray[np.int64]
    """Place of the token after which this one was chosen."""
    token: NDArray[np.int64]
    after: NDArray[np.int64]
    """Place after which the agent's next token is chosen; of no meaning where nothing follows."""
    reward: NDArray[np.float64]
    discount: NDArray[np.float64]
    """1 inside an utterance, γ at its end, 0 at the end of the conversation."""
    known: NDArray[np.bool_]
    """Whether what follows is known, so that there is a target."""


def token_steps(row: TokenRow, discount: float) -> TokenSteps:
    """The steps of one row.

    Raises DatasetError for a row that begins with the agent's token, and for turns without one.
    """
    places = np.flatnonzero(row.turns >= 0)
    owners = row.turns[places]
    if len(places) == 0 or places[0] == 0:
        raise DatasetError(
            "a row holds no agent token, or begins with one; put the prompt or a start token first"
        )
    if not np.array_equal(np.unique(owners), np.arange(len(row.rewards))):
        raise DatasetError(
            f"a row has {len(row.rewards)} rewards and tokens of {len(np.unique(owners))} agent "
            "turns; give every turn at least the token that ends it"
        )
    ends = np.append(owners[1:] != owners[:-1], True)
    last = len(row.input_ids) - 1
    after = np.append(places[1:] - 1, last)
    discounts = np.where(ends, discount, 1.0)
    discounts[-1] *= not row.terminated
    known = np.ones(len(places), dtype=bool)
    known[-1] = row.terminated or places[-1] < last
    return TokenSteps(
        before=places - 1,
        token=row.input_ids[places],
        after=after,
        reward=np.where(ends, row.rewards[owners], 0.0),
        discount=discounts,
        known=known,
    )


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """B rows padded on the right to L tokens, and their M steps."""

    tokens: Tensor  # (B, L) int64
    attention: Tensor  # (B, L) bool, False where there is padding
    row: Tensor  # (M,) which of the B rows; the others as in TokenSteps
    before: Tensor  # (M,)
    token: Tensor  # (M,)
    after: Tensor  # (M,)
    reward: Tensor  # (M,) float32
    discount: Tensor  # (M,) float32
    known: Tensor  # (M,) bool


class TokenBatches:
    """Rows to draw batches from; `discount` is γ per utterance."""

    def __init__(self, rows: Sequence[TokenRow], discount: float = 1.0) -> None:
        if not rows:
            raise DatasetError("there are no conversations to learn from")
        self._ids = [row.input_ids for row in rows]
        self._steps = [token_steps(row, discount) for row in rows]

    def draw(self, size: int, seed: Sequence[int], device: torch.device | str) -> TokenBatch:
        """`size` rows drawn with replacement; the seed alone decides which."""
        return self.batch(self.numbers(size, seed), device)

    def numbers(self, size: int, seed: Sequence[int]) -> list[int]:
        """Which rows `draw` takes."""
        drawn: list[int] = np.random.default_rng(seed).integers(len(self._ids), size=size).tolist()
        return drawn

    def batch(self, numbers: Sequence[int], device: torch.device | str = "cpu") -> TokenBatch:
        """These rows."""
        tokens, attention = padded([self._ids[number] for number in numbers], device)
        steps = [self._steps[number] for number in numbers]
        columns = {
            field.name: np.concatenate([getattr(step, field.name) for step in steps])
            for field in fields(TokenSteps)
        }
        columns["row"] = np.repeat(np.arange(len(steps)), [len(step.token) for step in steps])
        made = {
            name: torch.as_tensor(column.astype(np.float32) if column.dtype.kind == "f" else column)
            for name, column in columns.items()
        }
        return TokenBatch(tokens, attention, **{k: v.to(device) for k, v in made.items()})


def padded(
    rows: Sequence[NDArray[np.int64]], device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Tokens with zeros on the right, and where they are real.  # (B, L), (B, L)"""
    lengths = torch.tensor([len(row) for row in rows])
    flat = torch.as_tensor(np.concatenate(rows))
    attention = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    tokens = torch.zeros(attention.shape, dtype=torch.int64)
    tokens[attention] = flat
    return tokens.to(device), attention.to(device)
