"""What a policy scores in any environment, with intervals; ConvGym's tasks come in their order.

Episode i is a keyed draw from (seed, i), so that two policies meet the same episodes; where there
are splits of tasks, they are the first ones of `split`. Knows nothing of learners.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym

from convgym.crew.crew import Backend
from convgym.engine.keys import child
from convgym.errors import InvalidConfiguration
from convgym.evaluation.evaluate import plans
from convgym.evaluation.intervals import mean_interval, wilson
from convgym.evaluation.rollout import Rollout
from convgym.evaluation.shares import Source, play_plans
from convgym.policies.policy import Policy


@dataclass(frozen=True, kw_only=True)
class Score:
    """Means over episodes, with 95 % intervals."""

    policy: str
    episodes: int
    return_: float
    return_interval: tuple[float, float]
    """Normal."""
    turns: float
    success: float | None
    """Share; None where the environment does not tell."""
    success_interval: tuple[float, float] | None
    """Wilson."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        low, high = self.return_interval
        shown = f"{self.policy:<16} return {self.return_:.3f} [{low:.3f}, {high:.3f}]"
        if self.success is not None and self.success_interval is not None:
            low, high = self.success_interval
            shown += f"  success {self.success:.3f} [{low:.3f}, {high:.3f}]"
        return f"{shown}  turns {self.turns:.1f}  n={self.episodes}"


def score(
    policy: Policy,
    env: gym.Env[Any, Any],
    episodes: int,
    *,
    seed: int = 0,
    split: str = "test",
    workers: int = 1,
    backend: Backend = "local",
    source: Source | None = None,
) -> Score:
    """Let `policy` play; workers, backend and source are those of `evaluate`.

    Raises InvalidConfiguration for fewer than two episodes, or more than the split has.
    """
    if hasattr(env.unwrapped, "draws_tasks"):
        planned = plans(episodes, seed, split, None, env.unwrapped.draws_tasks)
    elif episodes >= 2:
        planned = [(child(seed, index), {}) for index in range(episodes)]
    else:
        raise InvalidConfiguration(f"episodes={episodes}; an interval takes 2 or more")
    played = play_plans(
        policy, env, planned, workers=workers, backend=backend, source=source
    )
    return summary(policy.name, played)


def summary(name: str, played: list[Rollout]) -> Score:
    """What two episodes or more come to."""
    returns, n = [rollout.return_ for rollout in played], len(played)
    told = "success" in played[0].final_info
    successes = sum(bool(rollout.final_info["success"]) for rollout in played) if told else 0
    return Score(
        policy=name,
        episodes=n,
        return_=sum(returns) / n,
        return_interval=mean_interval(returns),
        turns=sum(rollout.length for rollout in played) / n,
        success=successes / n if told else None,
        success_interval=wilson(successes, n) if told else None,
    )
