"""Environments of acts for RLlib, and what its PPO has learnt as a policy of ours.

    our environment              features, info["action_mask"]
    └─ MaskedObservation         {"observations": features, "action_mask": 0 or 1 for each act}
       └─ RLlib's masking PPO    logits + log(mask)
          └─ RLlibPolicy         the same network, asked by our evaluation

An example of how to bring our environments to a library that knows masks only as observations;
`maskable_ppo` is what trains best here. Written for ray 2.60, its new API stack; the masking module
is the one among RLlib's own examples.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import convgym
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.policies.policy import ActPolicy, Probabilities

ACTING = {"observation": "features", "action": "act"}
_NAME = "convgym-acts"


class MaskedObservation(gym.Wrapper[Any, Any, Any, Any]):
    """Features and mask in one Dict, as RLlib's masking module reads them.

    Raises InvalidConfiguration where actions are no numbers or observations no vectors.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        shown, acted = env.observation_space, env.action_space
        if not (isinstance(acted, spaces.Discrete) and isinstance(shown, spaces.Box)):
            raise InvalidConfiguration(
                f"RLlib's masking PPO reads vectors and takes acts; this environment shows "
                f"{type(shown).__name__} and takes {type(acted).__name__}; make it with "
                'observation="features", action="act"'
            )
        self.observation_space = spaces.Dict({
            "observations": shown,
            "action_mask": spaces.Box(0.0, 1.0, (int(acted.n),), np.float32),
        })  # fmt: skip

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return masked(observation, info["action_mask"]), info

    def step(
        self, action: Any
    ) -> tuple[dict[str, NDArray[np.float32]], float, bool, bool, dict[str, Any]]:
        """One act; numpy's whole numbers are taken as well."""
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        seen = masked(observation, info["action_mask"])
        return seen, float(reward), terminated, truncated, info


def masked(features: Any, mask: Any) -> dict[str, NDArray[np.float32]]:
    """One observation.  # (cells,), (actions,)"""
    return {
        "observations": np.asarray(features, np.float32),
        "action_mask": np.asarray(mask, np.float32),
    }


def made(config: dict[str, Any]) -> gym.Env[Any, Any]:
    """What RLlib calls: `config` holds `env_id` and `keywords`."""
    convgym.register_envs()  # a worker of ray has imported nothing yet
    keywords = {**ACTING, **config.get("keywords", {})}
    return MaskedObservation(gym.make(config["env_id"], disable_env_checker=True, **keywords))


def masked_ppo(
    env_id: str, keywords: dict[str, Any] | None = None, seed: int = 0, runners: int = 0
) -> Any:
    """RLlib's `PPOConfig` over an environment of acts; change it further as RLlib has it.

    `runners` are processes that play; 0 plays in this one.

    Raises MissingExtra where RLlib is not installed, and InvalidConfiguration as
    `MaskedObservation` does.
    """
    try:
        from ray.rllib.algorithms.ppo import PPOConfig
        from ray.rllib.core.rl_module.rl_module import RLModuleSpec
        from ray.rllib.examples.rl_modules.classes.action_masking_rlm import (
            ActionMaskingTorchRLModule,
        )
        from ray.tune.registry import register_env
    except ImportError as error:
        raise MissingExtra(error.name or "ray", "rllib") from error
    asked = {"env_id": env_id, "keywords": keywords or {}}
    made(asked).close()
    register_env(_NAME, made)
    return (
        PPOConfig()
        .environment(_NAME, env_config=asked)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=8,
            rollout_fragment_length="auto",
            batch_mode="truncate_episodes",
        )
        .learners(num_learners=0, num_gpus_per_learner=0)
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=ActionMaskingTorchRLModule,
                model_config={"head_fcnet_hiddens": [], "fcnet_hiddens": [64, 64]},
            )
        )
        .training(
            lr=1e-3,
            gamma=0.99,
            train_batch_size_per_learner=2048,
            minibatch_size=256,
            num_epochs=6,
            entropy_coeff=0.01,
            vf_clip_param=10.0,
        )
        .debugging(seed=seed, log_level="ERROR")
    )


class RLlibPolicy(ActPolicy):
    """What an RLlib module chooses, drawn by the episode's own seed."""

    name = "RLlib PPO"

    def __init__(self, module: Any) -> None:
        """`module`: of an algorithm, `algorithm.get_module()`."""
        super().__init__()
        self.module = module

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """Probability of each act, 0 where the mask is 0.  # (actions,)"""
        import torch

        seen = masked(observation, action_masks)
        batch = {name: torch.from_numpy(one[None]) for name, one in seen.items()}
        with torch.no_grad():
            found = self.module.forward_inference({"obs": batch})["action_dist_inputs"]
        legal = np.asarray(action_masks, bool)
        chances = np.where(legal, torch.softmax(found[0].double(), -1).numpy(), 0.0)
        return chances / chances.sum()
