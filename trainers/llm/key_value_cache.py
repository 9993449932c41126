"""Keys and values of many conversations of different lengths, each in a lane of one memory.

    lane    0  ├── 37 tokens ──┤·················     a lane holds one conversation
            1  ├── 12 ──┤························     every row of a batch writes at its own place
            2  ├────────── 55 ──────────┤·········
    copy       lane 1 begins with what lane 0 begins with: a shared prompt is computed once
    swap       two lanes change places, so that those that decode stand side by side

A model of transformers gets it as `past_key_values`; which lanes a batch belongs to and where its
tokens stand is said before each forward pass. Memory of layers is (lanes · places, heads · size),
so that a token is one row. Knows nothing of tokens or sampling.
"""

from __future__ import annotations

from typing import Any

from convgym.errors import MissingExtra

try:
    import torch
    from torch import Tensor
    from transformers.cache_utils import Cache, CacheLayerMixin
except ImportError as error:
    raise MissingExtra(error.name or "transformers", "llm") from error


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
        self._stores: dict[int, Tensor] = {}
        """By heads · size: (2 · layers, lanes · places + 1, heads · size); the last row of each
        layer is `nowhere`."""
        self._where: dict[tuple[int, int], tuple[int, int]] = {}
        """By layer and part, 0 keys and 1 values: which memory, and where in it."""
        self._slabs: dict[tuple[int, int], Tensor] = {}
        self._index: Tensor | None = None
        self._rows: slice | Tensor = slice(0)
        self._width = 0

    @property
    def nowhere(self) -> int:
        """Where padding is written, which is no token."""
        return self.lanes * self.places

    def reserve(self, places: int) -> None:
        """Make room for conversations of so many tokens, at least doubling it where it is short."""
        if places <= self.places:
            return
        before, self.places = self.places, max(places, 2 * self.places)
        for row, store in self._stores.items():
            grown = store.new_zeros((len(store), self.lanes * self.places + 1, row))
            self._by_lane(grown)[:, :, :before] = self._by_lane(store, before)
            self._stores[row] = grown
        self._slabs = {key: self._stores[row][at] for key, (row, at) in self._where.items()}

    def write(self, index: Tensor, rows: slice | Tensor | None, width: int = 0) -> None:
        """The next forward pass writes its tokens to `index`: lane · places + place, or `nowhere`.

        (n · T,).  Its queries see the first `width` places of the lanes `rows`; with None only
        the batch itself.
        """
        self._index, self._rows, self._width = index, slice(0) if rows is None else rows, width

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Called by the model's layers.  (n, heads, T, size) → (n, heads, width, size)"""
        keys = self._put(key_states, layer_idx, 0)
        values = self._put(value_states, layer_idx, 1)
        if not self._width:
            return key_states, value_states
        return self._seen(keys, key_states), self._seen(values, value_states)

    def copy(self, source: Tensor, target: Tensor, width: int) -> None:
        """The first `width` places of lanes `source` to lanes `target`.  (n,), (n,)"""
        for store in self._stores.values():
            lanes = self._by_lane(store)
            lanes[:, target, :width] = lanes[:, source, :width]

    def swap(self, one: Tensor, other: Tensor, width: int) -> None:
        """Lanes change places, as far as `width`.  (n,), (n,), all different"""
        source, target = torch.cat([one, other]), torch.cat([other, one])
        self.copy(source, target, width)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """0: every row has a length of its own, and positions are always given."""
        return 0

    # -- memory --------------------------------------------------------------------------------

    def _put(self, states: Tensor, layer: int, part: int) -> Tensor:
        slab = self._slabs.get((layer, part))
        if slab is None:
            slab = self._made(states, layer, part)
        rows = states.transpose(1, 2).reshape(-1, slab.shape[-1])
        assert self._index is not None
        slab.index_copy_(0, self._index, rows)
        return slab

    def _seen(self, slab: Tensor, states: Tensor) -> Tensor:
        heads, size = states.shape[1], states.shape[3]
        lanes = slab[:-1].view(self.lanes, self.places, heads, size)
        return lanes[self._rows, : self._width].transpose(1, 2)

    def _made(self, states: Tensor, layer: int, part: int) -> Tensor:
        """Memory for a layer; that of all layers of a size is one tensor, to be moved at once."""
        row = states.shape[1] * states.shape[3]
        if row not in self._stores:
            shape = (2 * len(self.layers), self.lanes * self.places + 1, row)
            # What was never written is masked, but a product with it must be a number.
            self._stores[row] = states.new_zeros(shape)
        taken = sum(size == row for size, _ in self._where.values())
        self._where[layer, part] = row, taken
        slab = self._slabs[layer, part] = self._stores[row][taken]
        return slab

    def _by_lane(self, store: Tensor, places: int | None = None) -> Tensor:
        return store[:, :-1].view(len(store), self.lanes, places or self.places, -1)
