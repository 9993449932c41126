"""Conversations of earlier tasks, whole groups of them, kept to be learnt from again.

    task A  ─► groups ─┐                                 ┌─ a new task's groups
    task B  ─► groups ─┴─► at most `capacity` ─► draw ─►─┴─ one batch

A group is kept and drawn as a whole, for its mean is the baseline of each of its rollouts. Rollouts
keep the log-probabilities they were sampled with, so that importance ratios are those of the policy
that learns to the one that spoke, however long ago that was. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from convgym.errors import InvalidConfiguration
from trainers.llm.rollouts import Rollout

Group = tuple[Rollout, ...]


class RolloutReplay:
    """At most `capacity` groups; each task keeps a uniform sample of all it was given.

    `balanced`: every task has the same share of what is kept and of what is drawn, however many
    groups it gave. Else all groups are one pool, in which a long task crowds out a short one.
    Chance comes from `seed`; the same calls give the same groups.
    """

    def __init__(self, capacity: int = 256, *, balanced: bool = True, seed: int = 0) -> None:
        if capacity < 1:
            raise InvalidConfiguration(f"capacity={capacity}; a replay keeps 1 group or more")
        self.capacity, self.balanced = capacity, balanced
        self._kept: dict[str, list[Group]] = {}
        self._given: dict[str, int] = {}
        self._chance = np.random.default_rng(seed)

    def __len__(self) -> int:
        return sum(len(groups) for groups in self._kept.values())

    @property
    def tasks(self) -> list[str]:
        """In the order they came."""
        return list(self._kept)

    def kept(self, task: str) -> list[Group]:
        """The groups of a task."""
        return list(self._kept.get(task, ()))

    def add(self, task: str, rollouts: Sequence[Rollout]) -> None:
        """Keep what may teach: groups of two valid rollouts or more that did not all earn alike."""
        groups: dict[int, list[Rollout]] = {}
        for rollout in rollouts:
            if rollout.valid:
                groups.setdefault(rollout.group, []).append(rollout)
        pool = task if self.balanced else ""
        kept = self._kept.setdefault(pool, [])
        self._given.setdefault(pool, 0)
        for group in groups.values():
            if len({rollout.return_ for rollout in group}) > 1:
                self._reservoir(pool, kept, tuple(group))
        self._shrink()

    def draw(self, groups: int) -> list[Rollout]:
        """So many groups, with replacement only once all are in; [] where nothing is kept.

        Their group numbers are below 0 and differ, so that they meet no group of the batch.
        """
        pools = [pool for pool in self._kept.values() if pool]
        if not pools or groups < 1:
            return []
        drawn: list[Group] = []
        first = int(self._chance.integers(len(pools)))
        for place in range(groups):
            pool = pools[(first + place) % len(pools)]
            left = [g for g in pool if not any(g is other for other in drawn)] or pool
            drawn.append(left[int(self._chance.integers(len(left)))])
        return [
            replace(rollout, group=-1 - number)
            for number, group in enumerate(drawn)
            for rollout in group
        ]

    def _room(self) -> int:
        """Groups that each pool may keep."""
        return max(self.capacity // max(len(self._kept), 1), 1)

    def _reservoir(self, pool: str, kept: list[Group], group: Group) -> None:
        """Algorithm R (Vitter, 1985): every group given so far is kept with the same chance."""
        self._given[pool] += 1
        if len(kept) < self._room():
            kept.append(group)
        elif (place := int(self._chance.integers(self._given[pool]))) < len(kept):
            kept[place] = group

    def _shrink(self) -> None:
        """A new task takes its share from the others."""
        for kept in self._kept.values():
            while len(kept) > self._room():
                kept.pop(int(self._chance.integers(len(kept))))
