"""Weights in a binary tree of sums: draw a place in proportion to its weight, change weights.

                 10                node 1
              ┌───┴───┐
              4       6            nodes 2, 3
            ┌─┴─┐   ┌─┴─┐
            3   1   0   6          nodes 4 … 7: places 0 … 3
    mass    0-3 3-4     4-10

Prioritized experience replay (Schaul et al., 2016, arXiv:1511.05952, appendix B.2.1). All draws
go down together, level by level. What a newcomer would get wrong: adding differences to sums lets
rounding errors grow, so every sum is made anew from its two children; the tree depends on its
weights alone, never on the order in which they came. Knows nothing of conversations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
Weights = NDArray[np.float64]


class SumTree:
    """`capacity` places, each with a weight from 0; all begin at 0."""

    def __init__(self, capacity: int) -> None:
        self._depth = (capacity - 1).bit_length()
        self._leaves = 1 << self._depth
        self._sums = np.zeros(2 * self._leaves)

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self._sums[1])

    def __getitem__(self, places: Any) -> Weights:
        """Weights of these places.  (n,) → (n,)"""
        found: Weights = self._sums[self._leaves :][places]
        return found

    def __setitem__(self, places: Places, weights: Weights | float) -> None:
        """Write weights, finite and from 0; where a place comes twice, the last one stays."""
        nodes = self._leaves + np.asarray(places, dtype=np.int64)
        self._sums[nodes] = weights
        for _ in range(self._depth):
            nodes = nodes >> 1
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def find(self, masses: Weights) -> Places:
        """The places in whose share of [0, total) the masses lie; never one of weight 0.

        (n,) → (n,). The total must be above 0.
        """
        nodes = np.ones(len(masses), dtype=np.int64)
        rest = np.array(masses, dtype=np.float64)
        for _ in range(self._depth):
            nodes *= 2
            left = self._sums[nodes]
            # Rounding may leave a mass beyond its node's end: there the right side may be empty.
            right = (rest >= left) & (self._sums[nodes + 1] > 0)
            rest -= left * right
            nodes += right
        return nodes - self._leaves

    def draw(self, count: int, rng: np.random.Generator) -> Places:
        """`count` places in proportion to weight, in their order, one from each of as many equal
        shares of the mass (stratified, as in the paper); a place may come more than once.
        """
        return self.find((np.arange(count) + rng.random(count)) * (self.total / count))
