"""Whoever can play, recorded as a Minari dataset.

    ExpertDataCollector(env_id) ─► collect_from_policy(policy, 100, dataset_id="mine/expert-v0")

    policy   of Stable-Baselines3, of ours, or a callable      (trainers.offline.players)
    dataset  written whole or not at all                       (convgym.data.episodes)

Episode i is a keyed draw from (seed, i): the same arguments give the same bytes. Infos keep the
propensity of each action where the policy can tell it, the legal acts, and `success` where the
environment says. Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from convgym.data.episodes import collection_plans, episode_buffer, write_dataset
from convgym.data.info_fields import chosen_fields, info_column
from convgym.engine.keys import child
from convgym.engine.tasks import check_split
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import play
from convgym.evaluation.side_by_side import Plan
from convgym.policies.policy import Policy
from trainers.offline.environments import make_env
from trainers.offline.players import as_policy

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector import EpisodeBuffer


class ExpertDataCollector:
    """Records policies in one environment: any ConvGym id, or any with Box or Discrete spaces.

    `keywords` go to `gymnasium.make`. Raises InvalidConfiguration where it cannot be made, or for
    actions that no offline learner takes.
    """

    def __init__(self, env_id: str, **keywords: Any) -> None:
        self.env = make_env(env_id, keywords)

    def collect_from_policy(
        self,
        policy: Any,
        n_episodes: int,
        dataset_id: str,
        *,
        seed: int = 0,
        deterministic: bool = False,
        split: str = "train",
        description: str | None = None,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> MinariDataset:
        """Let `policy` play `n_episodes` and write them as `dataset_id` into Minari's local root.

        policy: of Stable-Baselines3 (a model or its policy), of ours, or a callable that gives an
            action for an observation.
        deterministic: take the best action always; the propensity of an act is then 1.
        split: of the tasks, where the environment has such.

        Raises DatasetError for an id that is taken (unless `overwrite`), InvalidConfiguration for
        what cannot play.
        """
        if n_episodes < 1:
            raise InvalidConfiguration(f"n_episodes={n_episodes}; it must be 1 or more")
        player = as_policy(policy, self.env.action_space, deterministic)
        recorded = self.env.env  # without the wrapper of masks: its spec is the user's own
        spec = deepcopy(recorded.spec)
        assert spec is not None, "gymnasium.make gives one"
        if self._has_tasks:
            spec.kwargs["split"] = "test"
        return write_dataset(
            dataset_id,
            recorded,
            self._episodes(player, self._plans(n_episodes, seed, split), progress),
            description=description or f"{player.name} in {spec.id}.",
            ref_min_score=None,
            ref_max_score=None,
            algorithm_name=player.name,
            eval_env=spec,
            overwrite=overwrite,
        )

    @property
    def _has_tasks(self) -> bool:
        return hasattr(self.env.unwrapped, "draws_tasks")

    def _plans(self, episodes: int, seed: int, split: str) -> list[Plan]:
        if self._has_tasks:
            check_split(split)
            drawn = bool(self.env.unwrapped.draws_tasks)  # type: ignore[attr-defined]
            return collection_plans(episodes, seed, split, drawn)
        return [(child(seed, index), {}) for index in range(episodes)]

    def _episodes(
        self, player: Policy, plans: Sequence[Plan], progress: Callable[[int], None] | None
    ) -> Iterator[EpisodeBuffer]:
        spaces = self.env.observation_space, self.env.action_space
        for number, (key, options) in enumerate(plans, 1):
            rollout = play(self.env, player, seed=key, options=options or None)
            played = {
                "policy": [0] * (rollout.length + 1),
                "propensity": [np.nan, *rollout.propensities],
                "act": [-1, *rollout.acts],
            }
            infos = {
                name: info_column(name, played.get(name) or [info[name] for info in rollout.infos])
                for name in self._fields(rollout.infos[0])
            }
            yield episode_buffer(
                spaces,
                rollout,
                options,
                observations=rollout.observations,
                actions=rollout.actions,
                rewards=rollout.rewards,
                infos=infos,
            )
            if progress is not None:
                progress(number)

    def _fields(self, info: dict[str, Any]) -> tuple[str, ...]:
        """Of ConvGym's environments the usual ones, else what learners read."""
        spaces = self.env.observation_space, self.env.action_space
        if self._has_tasks:
            return chosen_fields(None, info, *spaces)
        acts = isinstance(spaces[1], gym.spaces.Discrete)
        return ("propensity", *["action_mask"] * acts, *["success"] * ("success" in info))
