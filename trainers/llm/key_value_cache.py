"""Keys and values of many conversations of different lengths, each in a lane of one memory.

    lane    0  ├── 37 tokens ──┤·················     a lane holds one conversation
            1  ├── 12 ──┤························     every row of a batch writes at its own place
            2  ├────────── 55 ──────────┤·········
    copy       lane 1 begins with what lane 0 begins with: a shared prompt is computed once
    swap       two lanes change places, so that those that decode stand side by side

A model of transformers gets it as `past_key_values`; which lanes a batch belongs to and where its
tokens stand is said before each forward pass. Knows nothing of tokens or sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from convgym.errors import MissingExtra

try:
    import torch
    from torch import Tensor
    from transformers.cache_utils import Cache, CacheLayerMixin
except ImportError as error:
    raise MissingExtra(error.name or "transformers", "llm") from error

Shape = tuple[int, int]
"""Heads and their size."""
Part = tuple[int, int]
"""A layer, and 0 for its keys or 1 for its values."""


class _Lanes(CacheLayerMixin):
    """One layer; the cache as a whole does its work."""

    is_sliding = False

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        raise NotImplementedError("lanes are made by their cache")

    def update(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("lanes are written by their cache")

    def get_seq_length(self) -> int:
        return 0  # every row has its own; positions are always given

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        raise NotImplementedError("a batch on lanes needs a mask of four dimensions")

    def get_max_length(self) -> int:
        return -1


class KeyValueCache(Cache):
    """`lanes` conversations; memory is taken at the first forward pass, and more as they grow."""

    def __init__(self, layers: int, lanes: int) -> None:
        super().__init__(layers=[_Lanes() for _ in range(layers)])
        self.lanes, self.places = lanes, 64
        """How many conversations, and of how many tokens there is room now."""
        self._stores: dict[Shape, Tensor] = {}
        """By heads and size: (2 · layers, lanes · heads · places + 1, size). The last row of each
        layer is for padding, which is no token."""
        self._where: dict[Part, tuple[Shape, int]] = {}
        """Which memory a layer's keys or values have, and where in it."""
        self._flat: dict[Part, Tensor] = {}  # (lanes · heads · places + 1, size)
        self._views: dict[Part, Tensor] = {}  # (lanes, heads, places, size)
        self._index: dict[int, Tensor] = {}
        """By number of heads: where the next pass writes.  (n · heads · T,)"""
        self._at: tuple[Tensor, Tensor] | None = None
        self._rows: slice | Tensor = slice(0)
        self._width = 0

    def reserve(self, places: int) -> None:
        """Make room for conversations of so many tokens, at least doubling it where it is short."""
        if places <= self.places:
            return
        before, self.places = self.places, max(places, 2 * self.places)
        for (heads, size), store in self._stores.items():
            grown = self._memory(store, heads, size)
            _by_lane(grown, self.lanes, heads)[:, :, :, :before] = _by_lane(
                store, self.lanes, heads
            )
            self._stores[heads, size] = grown
        for part, (shape, number) in self._where.items():
            self._look(part, shape, number)

    def write(self, lanes: Tensor, places: Tensor, rows: slice | Tensor | None, width: int) -> None:
        """What the next forward pass reads of (n, T) tokens, and where it writes them.

        lanes, places  where tokens are written; a place of −1 is padding.  (n,), (n, T)
        rows, width    lanes that its queries see, as far as `width`; None: only the batch itself
        """
        self._at, self._index = (lanes, places), {}
        self._rows, self._width = (slice(0), 0) if rows is None else (rows, width)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Called by the model's layers.  (n, heads, T, size) → (n, heads, width, size)"""
        keys, values = (layer_idx, 0), (layer_idx, 1)
        self._put(key_states, keys)
        self._put(value_states, values)
        if not self._width:
            return key_states, value_states
        return (
            self._views[keys][self._rows, :, : self._width],
            self._views[values][self._rows, :, : self._width],
        )

    def copy(self, source: Sequence[int], target: Sequence[int], width: int) -> None:
        """The first `width` places of lanes `source` to lanes `target`, of which none is a source.

        One lane after the other: on a CPU that is thrice as fast as indexing with all of them.
        """
        for lanes in self._all_lanes():
            for one, other in zip(source, target, strict=True):
                lanes[:, other, :, :width].copy_(lanes[:, one, :, :width])

    def swap(self, one: Sequence[int], other: Sequence[int], width: int) -> None:
        """Lanes change places in pairs, as far as `width`; all are different."""
        for lanes in self._all_lanes():
            for here, there in zip(one, other, strict=True):
                first, second = lanes[:, here, :, :width], lanes[:, there, :, :width]
                kept = first.clone()
                first.copy_(second)
                second.copy_(kept)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """0: every row has a length of its own, and positions are always given."""
        return 0

    # -- memory --------------------------------------------------------------------------------

    def _all_lanes(self) -> Iterator[Tensor]:
        for (heads, _), store in self._stores.items():
            yield _by_lane(store, self.lanes, heads)

    def _put(self, states: Tensor, part: Part) -> None:
        _, heads, _, size = states.shape
        if part not in self._flat:
            self._make(states, part, (heads, size))
        index = self._index.get(heads)
        if index is None:
            index = self._index[heads] = self._places_of(heads)
        self._flat[part].index_copy_(0, index, states.reshape(-1, size))

    def _places_of(self, heads: int) -> Tensor:
        assert self._at is not None, "write() comes before a forward pass"
        lanes, places = self._at
        first = (lanes[:, None] * heads + torch.arange(heads, device=lanes.device)) * self.places
        index = first[:, :, None] + places[:, None]  # (n, heads, T)
        nowhere = self.lanes * heads * self.places
        return torch.where(places[:, None] < 0, nowhere, index).flatten()

    def _make(self, states: Tensor, part: Part, shape: Shape) -> None:
        """Memory for a layer; that of all layers of a shape is one tensor, to be moved at once."""
        if shape not in self._stores:
            self._stores[shape] = self._memory(states, *shape)
        number = sum(known == shape for known, _ in self._where.values())
        self._where[part] = shape, number
        self._look(part, shape, number)

    def _memory(self, like: Tensor, heads: int, size: int) -> Tensor:
        # What was never written is masked, but a product with it must be a number.
        rows = self.lanes * heads * self.places + 1
        return like.new_zeros((2 * len(self.layers), rows, size))

    def _look(self, part: Part, shape: Shape, number: int) -> None:
        store = self._stores[shape]
        self._flat[part] = store[number]
        self._views[part] = _by_lane(store, self.lanes, shape[0])[number]


def _by_lane(store: Tensor, lanes: int, heads: int) -> Tensor:
    """Without the row for padding.  → (2 · layers, lanes, heads, places, size)"""
    return store[:, :-1].view(len(store), lanes, heads, -1, store.shape[-1])
