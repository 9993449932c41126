"""The one loop that lets a policy play an environment.

    reset ─► o0 ─► a0 ─► r0, o1 ─► … ─► r(T-1), oT

Evaluation, data collection and scripts all go through `play`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from convgym.policies.policy import Policy


@dataclass
class Rollout:
    """One episode. With `keep=False` only the sums and the last info are there."""

    seed: int
    observations: list[Any] = field(default_factory=list)  # T + 1
    actions: list[Any] = field(default_factory=list)  # T
    rewards: list[float] = field(default_factory=list)  # T
    infos: list[dict[str, Any]] = field(default_factory=list)  # T + 1
    propensities: list[float] = field(default_factory=list)  # T, NaN where unknown
    acts: list[int] = field(default_factory=list)  # T, behind replies in words; else -1
    terminated: bool = False
    truncated: bool = False
    return_: float = 0.0
    length: int = 0
    final_info: dict[str, Any] = field(default_factory=dict)


def play(
    env: gym.Env[Any, Any],
    policy: Policy,
    *,
    seed: int,
    options: dict[str, Any] | None = None,
    deterministic: bool = False,
    keep: bool = True,
    policy_seed: int | None = None,
) -> Rollout:
    """Let `policy` play one episode; the same seeds and options give the same episode.

    `policy_seed` is the policy's own, for the same customer met again; None takes `seed`.
    """
    observation, info = env.reset(seed=seed, options=options)
    policy.reset(seed if policy_seed is None else policy_seed)
    rollout = Rollout(seed)
    state, start = None, True
    rewarded = getattr(policy, "rewarded", None)
    if keep:
        rollout.observations.append(observation)
        rollout.infos.append(info)
    while not (rollout.terminated or rollout.truncated):
        action, state = policy.predict(
            observation, state, start, deterministic, action_masks=info.get("action_mask")
        )
        observation, reward, rollout.terminated, rollout.truncated, info = env.step(action)
        rollout.return_ += float(reward)
        rollout.length += 1
        start = False
        if rewarded is not None:
            rewarded(float(reward))
        if keep:
            rollout.observations.append(observation)
            rollout.infos.append(info)
            rollout.actions.append(action)
            rollout.rewards.append(float(reward))
            rollout.propensities.append(getattr(policy, "propensity", float("nan")))
            rollout.acts.append(getattr(policy, "act", -1))
    rollout.final_info = info
    return rollout
