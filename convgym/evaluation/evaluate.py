"""Seeded evaluation of a policy, with intervals.

Episode i plays task `<split>-<i>` with user and wording seeds drawn from (seed, i): two
policies evaluated with one seed meet the same customers in the same order, one after another
(`evaluate`, by one worker or many) or side by side (`evaluate_side_by_side`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym

from convgym.crew.crew import Backend
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.envs.rows import Envs, attribute_of
from convgym.errors import InvalidConfiguration
from convgym.evaluation.intervals import mean_interval, wilson
from convgym.evaluation.rollout import Rollout
from convgym.evaluation.shares import Source, play_plans
from convgym.evaluation.side_by_side import Plan, play_side_by_side
from convgym.policies.batched import BatchPolicy
from convgym.policies.policy import Policy


@dataclass(frozen=True)
class Evaluation:
    """What a policy scored."""

    policy: str
    split: str
    episodes: int
    success: float
    success_interval: tuple[float, float]
    """Wilson, 95 %."""
    return_: float
    return_interval: tuple[float, float]
    """Normal, 95 %."""
    length: float
    """Mean agent turns."""
    failures: dict[str, int]
    """Failed episodes by `failure_reason`."""
    successes: int

    @property
    def standard_error(self) -> float:
        """Of `success`: s / √n."""
        return math.sqrt(self.success * (1.0 - self.success) / (self.episodes - 1))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        low, high = self.success_interval
        return (
            f"{self.policy:<28} success {self.success:.3f} [{low:.3f}, {high:.3f}]  "
            f"return {self.return_:.3f}  turns {self.length:.1f}  n={self.episodes}"
        )


def evaluate(
    policy: Policy,
    env: gym.Env[Any, Any],
    *,
    episodes: int = 500,
    seed: int = 0,
    split: str = "test",
    deterministic: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
    workers: int = 1,
    backend: Backend = "local",
    source: Source | None = None,
) -> Evaluation:
    """Play the first `episodes` tasks of `split`; `progress` hears how many are done.

    `options` are reset options for every episode, such as `{"persona": "busy_professional"}`. Where
    they or the environment's keywords fix a topic or a difficulty, or draw them, the tasks are
    drawn from `split` accordingly instead of being taken in order.

    `workers` are processes, or with `backend="ray"` actors on as many cores of a Ray cluster; the
    result is the same. Each makes its own environment, and its policy by `source(environment)`;
    without one it is sent the policy, which pickle must then be able to do.

    Raises InvalidConfiguration for fewer than two episodes or more than the split has, and for
    what cannot be sent; WorkerLost where workers die; whatever the policy raises.
    """
    planned = plans(episodes, seed, split, options, getattr(env.unwrapped, "draws_tasks", False))
    played = play_plans(
        policy, env, planned, deterministic=deterministic, workers=workers, backend=backend,
        source=source, progress=progress,
    )  # fmt: skip
    return summary(policy.name, split, played)


def evaluate_side_by_side(
    policy: BatchPolicy,
    envs: Envs,
    *,
    episodes: int = 500,
    seed: int = 0,
    split: str = "test",
    deterministic: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """`evaluate` in a vector environment: the same episodes and numbers, many at a time.

    Take `autoreset_mode=AutoresetMode.DISABLED` or the default, and an eighth as many rows as
    episodes.
    """
    drawn = bool(attribute_of(envs, "draws_tasks", False))
    planned = plans(episodes, seed, split, options, drawn)
    played: list[Rollout | None] = [None] * episodes
    finished = play_side_by_side(envs, policy, planned, deterministic=deterministic)
    for done, (number, _, rollout) in enumerate(finished, 1):
        played[number] = rollout
        if progress is not None:
            progress(done)
    return summary(policy.name, split, [one for one in played if one is not None])


def plans(
    episodes: int, seed: int, split: str, options: Mapping[str, Any] | None, drawn: bool
) -> list[Plan]:
    """Seed and reset options of each episode of an evaluation."""
    if split not in SPLITS or not 2 <= episodes <= SPLITS[split]:
        raise InvalidConfiguration(
            f"cannot evaluate {episodes} episodes of split {split!r}; it takes 2 to "
            f"{SPLITS.get(split, 0)}, splits are {', '.join(SPLITS)}"
        )
    given = dict(options or {})
    drawn = drawn or bool({"topic", "difficulty"} & set(given))
    return [
        (
            child(seed, index),
            given | ({"split": split} if drawn else {"task_id": f"{split}-{index}"}),
        )
        for index in range(episodes)
    ]


def summary(policy: str, split: str, played: Sequence[Rollout]) -> Evaluation:
    """What the episodes come to."""
    episodes, returns = len(played), [rollout.return_ for rollout in played]
    failed = (one.final_info for one in played if not one.final_info["success"])
    failures = Counter(info["failure_reason"] for info in failed)
    successes = episodes - failures.total()
    return Evaluation(
        policy=policy,
        split=split,
        episodes=episodes,
        success=successes / episodes,
        success_interval=wilson(successes, episodes),
        return_=sum(returns) / episodes,
        return_interval=mean_interval(returns),
        length=sum(rollout.length for rollout in played) / episodes,
        failures=dict(failures),
        successes=successes,
    )
