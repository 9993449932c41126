"""What a policy earns in an environment, with an interval: any environment, ours or not.

Episode i is a keyed draw from (seed, i), so two policies meet the same episodes; where there are
splits of tasks, they are the first ones of `split`. Knows nothing of learners.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym

from convgym.engine.keys import child
from convgym.errors import InvalidConfiguration
from convgym.evaluation.evaluate import plans
from convgym.evaluation.intervals import mean_interval, wilson
from convgym.evaluation.rollout import play
from convgym.policies.policy import Policy
from trainers.offline.players import as_policy


@dataclass(frozen=True)
class Score:
    """Means over episodes, with 95 % intervals."""

    policy: str
    episodes: int
    return_: float
    return_interval: tuple[float, float]
    """Normal."""
    length: float
    """Mean turns."""
    success: float | None
    """Share; None where the environment does not tell."""
    success_interval: tuple[float, float] | None
    """Wilson."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        low, high = self.return_interval
        shown = f"{self.policy}: return {self.return_:.3f} [{low:.3f}, {high:.3f}]"
        if self.success is not None and self.success_interval is not None:
            low, high = self.success_interval
            shown += f"  success {self.success:.3f} [{low:.3f}, {high:.3f}]"
        return f"{shown}  turns {self.length:.1f}  n={self.episodes}"


def score(
    policy: Policy,
    env: gym.Env[Any, Any],
    episodes: int = 100,
    *,
    seed: int = 0,
    split: str = "test",
    deterministic: bool = True,
) -> Score:
    """Let `policy` play; `env` is one of `trainers.offline.environments`.

    Raises InvalidConfiguration for fewer than two episodes, or more than the split has.
    """
    if hasattr(env.unwrapped, "draws_tasks"):
        planned = plans(episodes, seed, split, None, env.unwrapped.draws_tasks)
    elif episodes >= 2:
        planned = [(child(seed, index), {}) for index in range(episodes)]
    else:
        raise InvalidConfiguration(f"episodes={episodes}; an interval takes 2 or more")
    player = as_policy(policy, env.action_space, deterministic)
    played = [play(env, player, seed=key, options=how or None, keep=False) for key, how in planned]
    returns = [rollout.return_ for rollout in played]
    told = "success" in played[0].final_info
    successes = sum(bool(rollout.final_info["success"]) for rollout in played) if told else 0
    return Score(
        policy=policy.name,
        episodes=episodes,
        return_=sum(returns) / episodes,
        return_interval=mean_interval(returns),
        length=sum(rollout.length for rollout in played) / episodes,
        success=successes / episodes if told else None,
        success_interval=wilson(successes, episodes) if told else None,
    )
