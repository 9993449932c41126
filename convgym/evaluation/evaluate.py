"""Seeded evaluation of a policy, with intervals.

Episode i plays task `<split>-<i>` with user and wording seeds drawn from (seed, i): two
policies evaluated with one seed meet the same customers in the same order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym

from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.errors import InvalidConfiguration
from convgym.evaluation.intervals import mean_interval, wilson
from convgym.evaluation.rollout import play
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
) -> Evaluation:
    """Play the first `episodes` tasks of `split`; `progress` hears how many are done.

    `options` are reset options for every episode, such as `{"persona": "busy_professional"}`. Where
    they or the environment's keywords fix a topic or a difficulty, or draw them, the tasks are
    drawn from `split` accordingly instead of being taken in order.

    Raises InvalidConfiguration for fewer than two episodes or more than the split has.
    """
    if split not in SPLITS or not 2 <= episodes <= SPLITS[split]:
        raise InvalidConfiguration(
            f"cannot evaluate {episodes} episodes of split {split!r}; it takes 2 to "
            f"{SPLITS.get(split, 0)}, splits are {', '.join(SPLITS)}"
        )
    given = dict(options or {})
    drawn = bool({"topic", "difficulty"} & set(given))
    drawn = drawn or getattr(env.unwrapped, "draws_tasks", False)
    returns, lengths, successes = [], 0, 0
    failures: Counter[str] = Counter()
    for index in range(episodes):
        rollout = play(
            env,
            policy,
            seed=child(seed, index),
            options=given | ({"split": split} if drawn else {"task_id": f"{split}-{index}"}),
            deterministic=deterministic,
            keep=False,
        )
        returns.append(rollout.return_)
        lengths += rollout.length
        successes += rollout.final_info["success"]
        if not rollout.final_info["success"]:
            failures[rollout.final_info["failure_reason"]] += 1
        if progress is not None:
            progress(index + 1)
    return Evaluation(
        policy=policy.name,
        split=split,
        episodes=episodes,
        success=successes / episodes,
        success_interval=wilson(successes, episodes),
        return_=sum(returns) / episodes,
        return_interval=mean_interval(returns),
        length=lengths / episodes,
        failures=dict(failures),
        successes=successes,
    )
