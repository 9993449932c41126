"""What was met while learning, beside what was recorded before.

    step by step  ─► conversation ─┐ it ended: its returns are known
    whole episode ─────────────────┴► Replay      the newest turns, as `Transitions` has them
                                        │
    Transitions (offline) ──────────────┴► Mixed ─► batch: a share of it online

A turn can be drawn once its conversation has ended, for only then is its return-to-go known, and
what an n-step target spans. One that was cut off ends as well: it is not `terminated`, and its last
turn bootstraps from its next observation. Knows nothing of learners or of environments.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.errors import DatasetError, InvalidConfiguration
from trainers.offline.batches import Indices, Items, Transitions
from trainers.offline.sampling import Sampling, Uniform


class Replay:
    """The newest turns, the oldest first; indexed as `Transitions`, with the same fields.

    Raises InvalidConfiguration for a capacity below 1.
    """

    def __init__(
        self, capacity: int, *, discount: float, n_step: int = 1, device: str = "cpu"
    ) -> None:
        if capacity < 1:
            raise InvalidConfiguration(f"capacity={capacity}; it must be 1 or more")
        self.capacity, self.discount, self.n_step = capacity, discount, n_step
        self.device = torch.device(device)
        self.added = 0
        """Turns that ever came in."""
        self._columns: dict[str, Tensor] = {}  # (capacity, …), turn number k at k modulo capacity
        self._running: dict[int, _Running] = {}

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def __getitem__(self, index: Indices) -> dict[str, Tensor]:
        index = torch.as_tensor(index, device=self.device)
        slots = (self.added - len(self) + index) % self.capacity
        return {name: column[slots] for name, column in self._columns.items()}

    def add(self, episode: EpisodeArrays) -> None:
        """Take in a whole conversation; its returns are made anew with this discount.

        Raises DatasetError for one with other fields, shapes or types than those before.
        """
        whole = replace(episode, returns=returns_to_go(episode.rewards, self.discount))
        turns = Transitions([whole], device=self.device, discount=self.discount, n_step=self.n_step)
        new = turns[torch.arange(len(turns), device=self.device)]
        here = {name: (tuple(c.shape[1:]), c.dtype) for name, c in self._columns.items()}
        came = {name: (tuple(c.shape[1:]), c.dtype) for name, c in new.items()}
        if here and here != came:
            other = sorted(k for k in here.keys() | came.keys() if here.get(k) != came.get(k))
            raise DatasetError(
                f"a conversation came whose {', '.join(other)} are not like those here; one "
                "replay takes conversations of one environment, all with masks or none"
            )
        if not here:
            # Empty, not zeros: memory is taken as turns come in.
            self._columns = {
                name: torch.empty((self.capacity, *c.shape[1:]), dtype=c.dtype, device=self.device)
                for name, c in new.items()
            }
        kept = torch.arange(max(0, len(turns) - self.capacity), len(turns), device=self.device)
        slots = (self.added + kept) % self.capacity
        for name, column in new.items():
            self._columns[name][slots] = column[kept]
        self.added += len(turns)

    def step(
        self,
        observation: NDArray[Any],
        action: Any,
        reward: float,
        next_observation: NDArray[Any],
        terminated: bool,
        truncated: bool,
        *,
        mask: NDArray[Any] | None = None,
        next_mask: NDArray[Any] | None = None,
        propensity: float | None = None,
        row: int = 0,
    ) -> None:
        """A turn of the conversation in this row of a vector environment.

        What ended both ways has ended by itself. Raises DatasetError for an observation that is
        not the next one of the turn before, as where a reset was missed, and for a mask of one
        observation alone.
        """
        if (mask is None) != (next_mask is None):
            raise DatasetError("only one of mask and next_mask came; give both, or none")
        running = self._running.setdefault(row, _Running([np.array(observation)], [mask]))
        if not np.array_equal(running.observations[-1], observation):
            raise DatasetError(
                f"a turn came in row {row} that does not go on where the last one stopped; give "
                "each conversation's turns in order, up to the one that ends it"
            )
        # Copies: environments may write into the arrays they gave.
        running.observations.append(np.array(next_observation))
        running.masks.append(None if next_mask is None else np.array(next_mask))
        running.actions.append(np.array(action))
        running.rewards.append(float(reward))
        running.propensities.append(propensity)
        if terminated or truncated:
            self.add(self._running.pop(row).ended(terminated))

    def state(self) -> dict[str, Tensor]:
        """What is here, for a checkpoint; conversations that have not ended are not in it."""
        here = torch.arange(len(self), device=self.device)
        return {"added": torch.tensor(self.added), **(self[here] if len(here) else {})}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state of the same capacity."""
        columns = {name: column for name, column in state.items() if name != "added"}
        self.added = int(state["added"])
        slots = torch.arange(self.added - len(self), self.added) % self.capacity
        self._columns = {}
        for name, column in columns.items():
            whole = torch.empty((self.capacity, *column.shape[1:]), dtype=column.dtype)
            whole[slots] = column.cpu()
            self._columns[name] = whole.to(self.device)
        self._running.clear()


@dataclass
class _Running:
    """A conversation that has not ended."""

    observations: list[Any]
    masks: list[Any]
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    propensities: list[float | None] = field(default_factory=list)

    def ended(self, terminated: bool) -> EpisodeArrays:
        rewards = np.array(self.rewards)
        masked = all(mask is not None for mask in self.masks)
        known = all(propensity is not None for propensity in self.propensities)
        return EpisodeArrays(
            observations=np.array(self.observations),
            actions=np.array(self.actions),
            rewards=rewards,
            terminated=terminated,
            truncated=not terminated,
            returns=rewards,  # made anew by whoever knows the discount
            masks=np.array(self.masks, dtype=np.int8) if masked else None,
            propensities=np.array(self.propensities, dtype=np.float64) if known else None,
        )


class Mixed:
    """Batches of both: `ratio` of each from `online`, the rest from `offline`.

    Indices below len(offline) are offline, the others online. It is a `Sampling` over itself:

        indices, weights = mixed.draw(256, generator)
        batch = mixed[indices]

    A batch of B has ⌊B·ratio⌋ or one more online turns, B·ratio on the average; all are offline
    while `online` is empty. `sampling` chooses among the offline ones. Online turns have the
    weight 1. Propensities are left out of batches where only one side has them.

    Raises InvalidConfiguration for a ratio outside [0, 1].
    """

    def __init__(
        self, offline: Items, online: Replay, ratio: float, sampling: Sampling | None = None
    ) -> None:
        if not 0.0 <= ratio <= 1.0:
            raise InvalidConfiguration(f"ratio={ratio} is outside [0, 1]")
        self.offline, self.online, self.ratio = offline, online, ratio
        self.sampling: Sampling = sampling or Uniform(len(offline))

    def __len__(self) -> int:
        return len(self.offline) + len(self.online)

    def draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Offline indices first, then online ones."""
        over = torch.rand(1, generator=generator, device=generator.device, dtype=torch.float64)
        new = min(size, int(size * self.ratio + float(over))) if len(self.online) else 0
        indices, weights = self.sampling.draw(size - new, generator)
        device = generator.device
        online = torch.randint(max(1, len(self.online)), (new,), generator=generator, device=device)
        if weights is not None:
            weights = torch.cat([weights, weights.new_ones(new)])
        return torch.cat([indices, online + len(self.offline)]), weights

    def __getitem__(self, index: Indices) -> dict[str, Tensor]:
        index = torch.as_tensor(index)
        ours = index < len(self.offline)
        if bool(ours.all()):
            return self.offline[index]
        new = self.online[index[~ours] - len(self.offline)]
        if not bool(ours.any()):
            return new
        old = self.offline[index[ours]]
        if other := (old.keys() ^ new.keys()) - {"propensities"}:
            raise DatasetError(
                f"only one of the offline and online turns has {', '.join(sorted(other))}; collect "
                "both with masks, or both without"
            )
        batch = {}
        for name in old.keys() & new.keys():
            column = old[name].new_empty((len(index), *old[name].shape[1:]))
            column[ours], column[~ours] = old[name], new[name]
            batch[name] = column
        return batch

    def heard(self, indices: Tensor, errors: Tensor) -> None:
        """The errors of offline turns go to their sampling."""
        ours = indices < len(self.offline)
        if bool(ours.any()):
            self.sampling.heard(indices[ours], errors[ours])

    def state(self) -> dict[str, Tensor]:
        """Of the offline sampling; `online` is saved by who fills it."""
        return self.sampling.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        self.sampling.restore(state)
