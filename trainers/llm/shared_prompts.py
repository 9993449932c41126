"""Rows that begin with the same prompt as one sequence, so that it goes through the model once.

    rows        P P P a b        packed    P P P a b c d e      tokens
                P P P c d e                0 1 2 3 4 3 4 5      places, as in their own rows
                                           · · · 0 0 1 1 1      owners: a token sees the prompt
                                                                and what its own row said before

Eight replies of 32 tokens to a prompt of 70 are 326 tokens instead of 816. Attention over a longer
sequence costs more, so a prompt is shared by as many rows as pays. A prompt is what stands before
the first sampled token. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convgym.errors import MissingExtra
from trainers.llm.rollouts import Rows

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

_PROMPT, _NOTHING = -1, -2


@dataclass(frozen=True, eq=False)
class Packed:
    """B rows as K sequences of at most L tokens, padded on the right."""

    tokens: Tensor  # (K, L) long
    places: Tensor  # (K, L) long, of a token in its own row
    owners: Tensor  # (K, L) long, which row of the pack; −1 the prompt, −2 padding
    index: Tensor  # (B, T) where in the flattened sequences a row's token stands

    def visible(self) -> Tensor:
        """Which token (second to last axis) sees which (last).  # (K, 1, L, L) bool"""
        seen = (self.owners[:, None] == self.owners[..., None]) | (self.owners == _PROMPT)[:, None]
        found = seen.tril()  # padding sees padding, so that no row of the mask is empty
        return found[:, None]

    def to(self, device: torch.device | str) -> Packed:
        """The same elsewhere."""
        return Packed(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


def pack(rows: Rows, packs: Sequence[Tensor]) -> Packed:
    """Rows of each pack, by number, into one sequence; each row is in exactly one pack.

    Rows of a pack begin with the same prompt.
    """
    prompts, lengths = prompt_lengths(rows).tolist(), rows.lengths.tolist()
    sizes = [packed_length(part, prompts, lengths) for part in packs]
    tokens = torch.zeros((len(packs), max(sizes)), dtype=torch.long)
    places, owners = torch.zeros_like(tokens), torch.full_like(tokens, _NOTHING)
    index = torch.zeros(rows.tokens.shape, dtype=torch.long)
    counted = torch.arange(index.shape[1])
    for number, part in enumerate(packs):
        numbers = part.tolist()
        first, shared = number * max(sizes), prompts[numbers[0]]
        tokens[number, :shared] = rows.tokens[numbers[0], :shared]
        places[number, :shared] = counted[:shared]
        owners[number, :shared] = _PROMPT
        begin = shared
        for owner, row in enumerate(numbers):
            own = lengths[row] - shared
            here = slice(begin, begin + own)
            tokens[number, here] = rows.tokens[row, shared : lengths[row]]
            places[number, here] = counted[shared : lengths[row]]
            owners[number, here] = owner
            index[row, :shared] = first + counted[:shared]
            index[row, shared : lengths[row]] = first + begin + counted[:own]
            begin += own
    return Packed(tokens, places, owners, index)


def prompt_lengths(rows: Rows) -> Tensor:
    """Tokens before the first sampled one; of rows without any, all.  # (B,)"""
    mask = rows.mask
    return torch.where(mask.any(-1), mask.int().argmax(-1), rows.lengths)


def packed_length(part: Tensor, prompts: Sequence[int], lengths: Sequence[int]) -> int:
    """Tokens of a pack."""
    numbers = part.tolist()
    shared = prompts[numbers[0]]
    return shared + sum(lengths[number] - shared for number in numbers)


def packs_of(rows: Rows, index: Tensor, width: int) -> list[Tensor]:
    """Numbers of the rows in `index`, in packs of one prompt, as many in each as pays.

    `width` is that of the model: with L tokens of width D in a sequence a token costs about 6 D
    for what is done to it alone and L for attention, half of it where no mask is needed.
    """
    prompts, lengths = prompt_lengths(rows).tolist(), rows.lengths.tolist()
    groups: dict[bytes, list[int]] = {}
    for number in index.tolist():
        prompt = rows.tokens[number, : prompts[number]]
        groups.setdefault(prompt.numpy().tobytes(), []).append(number)
    found: list[Tensor] = []
    for numbers in groups.values():
        shared = prompts[numbers[0]]
        own = sum(lengths[number] for number in numbers) / len(numbers) - shared
        parts = min(range(1, len(numbers) + 1), key=_Cost(shared, own, len(numbers), width))
        dealt = sorted(numbers, key=lambda number: -lengths[number])  # packs of like length
        found += [torch.tensor(dealt[part::parts]) for part in range(parts)]
    return found


@dataclass(frozen=True)
class _Cost:
    """Of so many packs for rows of `shared` and on average `own` tokens."""

    shared: int
    own: float
    rows: int
    width: int

    def __call__(self, packs: int) -> float:
        length = self.shared + self.own * self.rows / packs
        attention = length if packs < self.rows else length / 2
        return packs * length * (6 * self.width + attention)
