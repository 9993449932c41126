"""What a learnt policy earns in an environment, whatever form its actions have.

Knows nothing of learners.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym

from convgym.evaluation.scores import Score
from convgym.evaluation.scores import score as score_of_player
from convgym.policies.policy import Policy
from trainers.offline.players import as_policy


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

    Raises InvalidConfiguration as `convgym.evaluation.scores.score` does.
    """
    player = as_policy(policy, env.action_space, deterministic)
    found = score_of_player(player, env, episodes, seed=seed, split=split)
    return replace(found, policy=policy.name)
