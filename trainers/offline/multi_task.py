"""One learner for several domains: their data joined, and a policy for each of them given back.

    observation   | domain's row, then zeros | 1 of N for the domain |
    act           the union of all acts; those of the same name are one act
    mask          the domain's legal acts, and no other domain's

What is learnt of an act in one domain is there for the others, as far as the networks find their
observations alike: rows that are vectors of texts are comparable, features of unlike layouts are
told apart by the domain. Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.data.transitions import EpisodeArrays
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.policies.policy import Policy, belief_of
from trainers.offline.config import Shapes


@dataclass(frozen=True, eq=False)
class Task:
    """One domain's data."""

    episodes: Sequence[EpisodeArrays]
    """Of act numbers; without masks all acts are legal."""
    acts: Sequence[str]
    """Names of its acts, by number."""


class MultiTask:
    """Domains that are learnt together.

    Raises InvalidConfiguration for no domains, and DatasetError for episodes whose actions are no
    numbers of the acts that are named.
    """

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        if not tasks:
            raise InvalidConfiguration("there are no domains to learn; give one or more")
        for name, task in tasks.items():
            _check(name, task)
        self.tasks = dict(tasks)
        self.names = tuple(tasks)
        self.acts = tuple(dict.fromkeys(act for task in tasks.values() for act in task.acts))
        """Names of the union."""
        number = {act: place for place, act in enumerate(self.acts)}
        self._numbers = {
            name: np.array([number[act] for act in task.acts]) for name, task in tasks.items()
        }
        self._sizes = {n: int(t.episodes[0].observations.shape[-1]) for n, t in tasks.items()}
        self.width = max(self._sizes.values())

    @property
    def shapes(self) -> Shapes:
        """What networks must fit; `OfflineLearner.fit` takes it beside the episodes."""
        return Shapes(self.width + len(self.names), len(self.acts), True)

    def episodes(self) -> list[EpisodeArrays]:
        """Every domain's episodes, one domain after the other."""
        return [
            replace(
                episode,
                observations=self.rows(name, episode.observations),
                actions=self._numbers[name][episode.actions],
                masks=self.masks(name, episode.masks, len(episode) + 1),
            )
            for name, task in self.tasks.items()
            for episode in task.episodes
        ]

    def rows(self, name: str, observations: NDArray[Any]) -> NDArray[np.float32]:
        """A domain's observations as the learner takes them.  (n, o) → (n, width + domains)"""
        rows = np.asarray(observations, dtype=np.float32)
        if rows.shape[-1] != self._sizes[name]:
            raise InvalidConfiguration(
                f"an observation of {name} has {rows.shape[-1]} numbers; its data have "
                f"{self._sizes[name]}"
            )
        found = np.zeros((len(rows), self.width + len(self.names)), dtype=np.float32)
        found[:, : rows.shape[1]] = rows
        found[:, self.width + self.names.index(name)] = 1.0
        return found

    def masks(self, name: str, masks: NDArray[np.int8] | None, count: int) -> NDArray[np.int8]:
        """A domain's masks over the union.  (n, its acts) → (n, acts)"""
        found = np.zeros((count, len(self.acts)), dtype=np.int8)
        found[:, self._numbers[name]] = 1 if masks is None else masks
        return found

    def policies(self, learnt: Policy) -> dict[str, TaskPolicy]:
        """For each domain what has been learnt, in its own observations and acts.

        All ask `learnt` itself: of a policy with chance, play one conversation at a time.
        """
        return {name: TaskPolicy(learnt, self, name) for name in self.names}

    def own(self, name: str, act: int) -> int:
        """A domain's own number of an act of the union."""
        return int(np.flatnonzero(self._numbers[name] == act)[0])


class TaskPolicy:
    """A joint policy, as one domain's."""

    def __init__(self, learnt: Policy, joint: MultiTask, task: str) -> None:
        self.learnt, self.joint, self.task = learnt, joint, task
        self.name = f"{learnt.name} of {', '.join(joint.names)}"

    @property
    def propensity(self) -> float:
        """Probability of the newest act, where the joint policy knows it; else NaN."""
        return float(getattr(self.learnt, "propensity", float("nan")))

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""
        self.learnt.reset(seed)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[int, Any]:
        """The domain's own number of the act."""
        row = self.joint.rows(self.task, np.asarray(belief_of(observation))[None])[0]
        given = None if action_masks is None else np.asarray(action_masks)[None]
        mask = self.joint.masks(self.task, given, 1)[0]
        act, state = self.learnt.predict(
            row, state, episode_start, deterministic, action_masks=mask
        )
        return self.joint.own(self.task, int(act)), state


def _check(name: str, task: Task) -> None:
    if not task.episodes:
        raise DatasetError(f"there are no episodes of {name}")
    if len(set(task.acts)) != len(task.acts):
        raise InvalidConfiguration(f"two acts of {name} have the same name; rename one of them")
    for episode in task.episodes:
        acts = episode.actions
        if acts.dtype.kind not in "iu" or acts.min() < 0 or acts.max() >= len(task.acts):
            raise DatasetError(
                f"actions of {name} are not numbers from 0 to {len(task.acts) - 1}, one for each "
                "act that is named"
            )
