"""Which transitions a batch holds.

    sampling.draw(size, generator) ─► indices (B,), weights (B,) or None
    sampling.heard(indices, errors)   after the update: how wrong each was

    Uniform                     each alike
    Stratified                  fixed shares of acts, policies, outcomes: what is rare is seen
    Prioritised                 turns that were wrong, more often
    PrioritisedConversations    conversations that were wrong, more often; in them any turn

An importance weight is the share of an item in the data over its share in batches, so that a
weighted mean over batches is the mean over the data: learners go where they went before, only by
other steps. All chance is the generator's. Knows nothing of what is at an index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from convgym.data.sum_tree import SumTree
from convgym.errors import InvalidConfiguration


class Sampling(Protocol):
    """A way to choose the transitions of each batch."""

    def draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Indices, and importance weights where they are not drawn alike."""

    def heard(self, indices: Tensor, errors: Tensor) -> None:
        """The TD errors of a batch that was drawn."""

    def state(self) -> dict[str, Tensor]:
        """What must be saved to draw the same batches again."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""


class Uniform:
    """Each transition alike, with replacement."""

    def __init__(self, count: int) -> None:
        self.count = count

    def draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Indices, all of the same weight."""
        device = generator.device
        return torch.randint(self.count, (size,), generator=generator, device=device), None

    def heard(self, indices: Tensor, errors: Tensor) -> None:
        """Nothing to learn from it."""

    def state(self) -> dict[str, Tensor]:
        """Nothing to save."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Nothing to restore."""


class Stratified:
    """So much of each stratum in every batch, whatever its part of the data.

    labels: the stratum of each item, numbers or texts, in their order; of conversations,
        `np.repeat(labels, turns.lengths)` gives those of their turns.  (N,)
    shares: of a batch by label, summing to 1, such as {True: 0.5, False: 0.5}; None gives every
        stratum the same. A batch of B has ⌊B·share⌋ or one more of each, B·share on the average.
    importance: whether items come with weights, N_k / N over the share of their stratum k. With
        them a learner's fixed point stays that of the data; without, rare strata count more, which
        is what balancing a clone means.

    Raises InvalidConfiguration for no labels, shares that do not fit them, or weights where a
    stratum is never drawn.
    """

    def __init__(
        self,
        labels: ArrayLike,
        shares: Mapping[Any, float] | None = None,
        *,
        importance: bool = False,
    ) -> None:
        names, strata = np.unique(np.asarray(labels), return_inverse=True)
        if not len(names):
            raise InvalidConfiguration("there are no labels to draw by")
        given = dict.fromkeys(names.tolist(), 1 / len(names)) if shares is None else dict(shares)
        if set(given) != set(names.tolist()):
            raise InvalidConfiguration(
                f"shares are of {sorted(map(str, given))}, the labels are "
                f"{sorted(map(str, names))}; give a share, or 0, for each label"
            )
        self.shares = np.array([given[name] for name in names.tolist()], dtype=np.float64)
        if not (self.shares >= 0).all() or abs(self.shares.sum() - 1) > 1e-6:
            raise InvalidConfiguration(f"shares={given}; they must be 0 or more and sum to 1")
        if importance and not self.shares.all():
            raise InvalidConfiguration(
                "importance weights cannot make up for a stratum that is never drawn; give each "
                "a share above 0"
            )
        self.shares /= self.shares.sum()
        self._order = torch.as_tensor(np.argsort(strata, kind="stable"))  # items, by stratum
        counts = np.bincount(strata)
        self._counts = torch.as_tensor(counts)
        self._starts = torch.as_tensor(np.cumsum(counts) - counts)
        self._bounds = torch.as_tensor(np.cumsum(self.shares)[:-1])
        self._weights = (
            torch.as_tensor(counts / len(strata) / self.shares, dtype=torch.float32)
            if importance
            else None
        )

    def draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Items in the order of their strata, each alike within its own."""
        first, within = _drawn(1, generator), _drawn(size, generator)
        places = (torch.arange(size) + first) / size
        strata = torch.searchsorted(self._bounds, places, right=True)
        items = (within * self._counts[strata]).long()
        indices = self._order[self._starts[strata] + items].to(generator.device)
        weights = None if self._weights is None else self._weights[strata].to(generator.device)
        return indices, weights

    def heard(self, indices: Tensor, errors: Tensor) -> None:
        """Nothing to learn from it."""

    def state(self) -> dict[str, Tensor]:
        """Nothing to save."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Nothing to restore."""


class Prioritised:
    """Items in proportion to how wrong they were (Schaul et al., 2016, arXiv:1511.05952).

        P(i) = p_i^α / Σ p_k^α,  p_i = |δ_i| + ε        w_i = (N · P(i))^−β

    α 0 draws each alike, β 1 corrects in full; β rises from `beta` to 1 over `anneal` draws, 0 of
    them leave it. What was never drawn has the greatest priority there was, 1 at first.

    Differs from the paper: weights are not divided by the greatest of the batch. That would tie an
    item's weight to those it is drawn with, and no β would correct for the priorities any more.
    Their mean is 1 where β is 1, below it otherwise.

    Raises InvalidConfiguration for no items, α or β outside [0, 1], ε not above 0, or anneal < 0.
    """

    def __init__(
        self,
        count: int,
        alpha: float = 0.6,
        beta: float = 0.4,
        anneal: int = 0,
        epsilon: float = 1e-3,
    ) -> None:
        if count < 1 or anneal < 0 or not epsilon > 0:
            raise InvalidConfiguration(
                f"count={count}, anneal={anneal}, epsilon={epsilon}; at least 1, 0, and above 0"
            )
        if not (0 <= alpha <= 1 and 0 <= beta <= 1):
            raise InvalidConfiguration(f"alpha={alpha}, beta={beta}; both lie in [0, 1]")
        self.count, self.alpha, self.anneal, self.epsilon = count, alpha, anneal, epsilon
        self._first_beta, self._draws = beta, 0
        self._tree = SumTree(count)
        self._tree[np.arange(count)] = 1.0
        self._fresh = np.ones(count, dtype=bool)  # never heard of
        self._greatest = 1.0

    @property
    def beta(self) -> float:
        """β of the next draw."""
        done = min(1.0, self._draws / self.anneal) if self.anneal else 0.0
        return self._first_beta + (1.0 - self._first_beta) * done

    def draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """One item from each of `size` equal shares of the priorities, and its weight."""
        places, shares = self._placed(size, generator)
        return _tensors(places, self._weighed(shares * self.count), generator)

    def heard(self, indices: Tensor, errors: Tensor) -> None:
        """New priorities; where an index comes twice, its last error counts."""
        self._set(indices.cpu().numpy(), errors.detach().cpu().double().abs().numpy())

    def state(self) -> dict[str, Tensor]:
        """Shares, which are fresh, the greatest priority, how many draws there were."""
        return {
            "shares": torch.as_tensor(self._tree[np.arange(self.count)]),
            "fresh": torch.as_tensor(self._fresh),
            "greatest": torch.tensor(self._greatest, dtype=torch.float64),
            "draws": torch.tensor(self._draws),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state; raises InvalidConfiguration for one of another count."""
        if len(state["shares"]) != self.count:
            raise InvalidConfiguration(
                f"the saved priorities are of {len(state['shares'])} items, here are {self.count}"
            )
        self._tree[np.arange(self.count)] = state["shares"].numpy()
        self._fresh = state["fresh"].numpy().copy()
        self._greatest, self._draws = float(state["greatest"]), int(state["draws"])

    def _placed(
        self, size: int, generator: torch.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Places, and the probability of each."""
        masses = (np.arange(size) + _drawn(size, generator).numpy()) / max(1, size)
        masses *= self._tree.total
        places = self._tree.find(masses)
        return places, self._tree[places] / self._tree.total

    def _weighed(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights of items drawn so many times as often as others on the average."""
        weights: NDArray[np.float64] = ratios**-self.beta
        self._draws += 1
        return weights

    def _set(self, places: NDArray[np.int64], errors: NDArray[np.float64]) -> None:
        if not np.isfinite(errors).all():
            raise InvalidConfiguration(
                "an error is not finite, so it cannot be a priority; the learner has diverged, "
                "take a lower learning rate"
            )
        priorities = errors + self.epsilon
        self._tree[places] = priorities**self.alpha
        self._fresh[places] = False
        if (greatest := float(priorities.max())) > self._greatest:
            self._greatest = greatest
            self._tree[np.flatnonzero(self._fresh)] = greatest**self.alpha


class PrioritisedConversations:
    """Conversations in proportion to how wrong they were, and in each any of its turns alike.

        P(turn) = P(conversation) / its turns        w = (turns in all · P(turn))^−β

    A conversation's error is the mean of the newest errors of its turns that were heard of: one
    surprising turn brings the whole conversation back. All else as `Prioritised`.

    lengths: turns of each conversation, `Transitions.lengths`; indices are of turns.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        alpha: float = 0.6,
        beta: float = 0.4,
        anneal: int = 0,
        epsilon: float = 1e-3,
    ) -> None:
        self._lengths = np.asarray(lengths, dtype=np.int64)
        if self._lengths.ndim != 1 or not (self._lengths >= 1).all():
            raise InvalidConfiguration("lengths are a row of whole numbers from 1")
        self._conversations = Prioritised(len(self._lengths), alpha, beta, anneal, epsilon)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._of_turn = np.repeat(np.arange(len(self._lengths)), self._lengths)
        self._errors = np.full(len(self._of_turn), np.nan)  # of each turn; NaN was never heard of

    def draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A turn of each conversation that is drawn, and its weight."""
        found, shares = self._conversations._placed(size, generator)
        lengths = self._lengths[found]
        turns = self._starts[found] + (_drawn(size, generator).numpy() * lengths).astype(np.int64)
        weights = self._conversations._weighed(shares / lengths * len(self._of_turn))
        return _tensors(turns, weights, generator)

    def heard(self, indices: Tensor, errors: Tensor) -> None:
        """New priorities of the conversations these turns are of."""
        turns = indices.cpu().numpy()
        self._errors[turns] = errors.detach().cpu().double().abs().numpy()
        found = np.unique(self._of_turn[turns])
        lengths = self._lengths[found]
        before = np.cumsum(lengths) - lengths
        rows = np.arange(lengths.sum()) + np.repeat(self._starts[found] - before, lengths)
        known = ~np.isnan(self._errors[rows])
        sums = np.add.reduceat(np.where(known, self._errors[rows], 0.0), before)
        self._conversations._set(found, sums / np.add.reduceat(known, before, dtype=np.int64))

    def state(self) -> dict[str, Tensor]:
        """That of the conversations, and the errors of turns."""
        return {**self._conversations.state(), "errors": torch.as_tensor(self._errors.copy())}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        self._conversations.restore(state)
        self._errors = state["errors"].numpy().copy()


def bands(values: ArrayLike, count: int) -> NDArray[np.int64]:
    """The band of each value, 0 … count − 1 from the lowest, cut at quantiles: labels of strata.

    Equal values are in one band, so that there may be fewer. Raises InvalidConfiguration for
    fewer than one band.
    """
    if count < 1:
        raise InvalidConfiguration(f"count={count}; there is at least one band")
    row = np.asarray(values, dtype=np.float64)
    cuts = np.quantile(row, np.arange(1, count) / count)
    return np.searchsorted(cuts, row, side="right")


def _drawn(size: int, generator: torch.Generator) -> Tensor:
    """Numbers in [0, 1), on the CPU.  # (size,)"""
    found = torch.rand(size, generator=generator, device=generator.device, dtype=torch.float64)
    return found.cpu()


def _tensors(
    indices: NDArray[np.int64], weights: NDArray[np.float64], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    device = generator.device
    return (
        torch.as_tensor(indices, device=device),
        torch.as_tensor(weights, dtype=torch.float32, device=device),
    )
