"""Action masks for the learners of Stable-Baselines3 that know none.

    environments ─► LegalRows ─► row [ observation │ mask ] ─► policy
                                       │                 └───► illegal acts: logit or value −10⁸
                                       └─► network (the mask is no input)

MaskablePPO asks the environment for masks; PPO, A2C, TRPO, RecurrentPPO, DQN and QR-DQN do not.
Here the mask travels inside the observation, so that it is in every buffer beside what was seen: an
illegal act is neither sampled, nor explored, nor bootstrapped from, nor given a gradient.

An observation of several parts is laid out flat, its parts in the order of their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.errors import MissingExtra

try:
    import torch
    from sb3_contrib import QRDQN
    from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
    from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
    from stable_baselines3 import DQN
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
    from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
except ImportError as error:
    raise MissingExtra(error.name or "sb3_contrib", "sb3") from error

NEVER = -1e8
"""Logit or value of an illegal act; finite, since 0 · ∞ is no number."""

Rows = NDArray[np.float32]


# -- observations ----------------------------------------------------------------------------------


class LegalRows(VecEnvWrapper):
    """Environments with masks, seen as rows of numbers that end in the mask."""

    def __init__(self, environments: VecEnv) -> None:
        self.acts = int(environments.action_space.n)  # type: ignore[attr-defined]
        self.seen = environments.observation_space
        wide = spaces.flatdim(self.seen) + self.acts
        row = spaces.Box(-np.inf, np.inf, (wide,), dtype=np.float32)
        super().__init__(environments, observation_space=row)

    def reset(self) -> Rows:
        """Begin all episodes.  # (n, cells + acts)"""
        return self._rows(self.venv.reset())

    def step_wait(self) -> Any:
        """One step; a terminal observation ends in its own mask, ones where nobody tells it."""
        observations, rewards, dones, infos = self.venv.step_wait()
        for info in (infos[row] for row in np.flatnonzero(dones)):
            mask = np.asarray(info.get("action_mask", np.ones(self.acts)))
            last = batch_of_one(info["terminal_observation"])
            info["terminal_observation"] = with_masks(self.seen, last, mask[None])[0]
        return self._rows(observations), rewards, dones, infos

    def _rows(self, observations: Any) -> Rows:
        masks = np.stack(self.venv.env_method("action_masks"))
        return with_masks(self.seen, observations, masks)


def with_masks(seen: spaces.Space[Any], observations: Any, masks: NDArray[Any]) -> Rows:
    """A batch of observations from `seen` as rows that end in masks.  # (k, cells + acts)"""
    return np.concatenate([_flat(seen, observations), masks], axis=1, dtype=np.float32)


def _flat(space: spaces.Space[Any], batch: Any) -> NDArray[Any]:
    """A batch as rows of numbers.  # (k, cells)"""
    if isinstance(space, spaces.Dict):
        return np.concatenate([_flat(part, batch[name]) for name, part in space.items()], axis=1)
    batch = np.asarray(batch)
    if isinstance(space, spaces.Discrete):
        return np.eye(int(space.n))[batch - space.start]
    return batch.reshape(len(batch), -1)


def batch_of_one(observation: Any) -> Any:
    """A single observation as a batch.  (…) → (1, …)"""
    if isinstance(observation, Mapping):
        return {name: batch_of_one(part) for name, part in observation.items()}
    return np.asarray(observation)[None]


# -- policies --------------------------------------------------------------------------------------


class WithoutMask(BaseFeaturesExtractor):
    """The row without its mask, which is kept for whoever reads this row's acts next."""

    def __init__(self, observation_space: spaces.Box, seen: spaces.Space[Any]) -> None:
        """`seen` is what the environment itself shows."""
        super().__init__(observation_space, spaces.flatdim(seen))
        self.seen = seen
        self.illegal: torch.Tensor

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """(k, cells + acts) → (k, cells)"""
        self.illegal = rows[:, self.features_dim :] == 0
        return rows[:, : self.features_dim]


class _LegalLogits:
    """Of a policy with an action distribution: illegal acts have no probability."""

    def _get_action_dist_from_latent(self: Any, latent: torch.Tensor) -> Any:
        logits = self.action_net(latent).masked_fill(self.pi_features_extractor.illegal, NEVER)
        return self.action_dist.proba_distribution(action_logits=logits)


class LegalActorCritic(_LegalLogits, ActorCriticPolicy):
    """For PPO, A2C and TRPO."""


class LegalRecurrent(_LegalLogits, RecurrentActorCriticPolicy):
    """For RecurrentPPO."""


class LegalQNetwork(QNetwork):
    """Action values, those of illegal acts `NEVER`."""

    def forward(self, obs: Any) -> torch.Tensor:
        """(k, cells + acts) → (k, acts)"""
        values = super().forward(obs)
        return values.masked_fill(_illegal(self), NEVER)


def _illegal(network: Any) -> torch.Tensor:
    """Of the rows that it has just read.  # (k, acts)"""
    illegal: torch.Tensor = network.features_extractor.illegal
    return illegal


class LegalDQNPolicy(DQNPolicy):
    """For DQN."""

    def make_q_net(self) -> LegalQNetwork:
        """The network, and once more as the target."""
        made = self._update_features_extractor(self.net_args, features_extractor=None)
        return LegalQNetwork(**made).to(self.device)


class LegalQuantileNetwork(QuantileNetwork):
    """Quantiles of the return, those of illegal acts `NEVER`."""

    def forward(self, obs: Any) -> torch.Tensor:
        """(k, cells + acts) → (k, quantiles, acts)"""
        quantiles = super().forward(obs)
        return quantiles.masked_fill(_illegal(self)[:, None], NEVER)


class LegalQRDQNPolicy(QRDQNPolicy):
    """For QR-DQN."""

    def make_quantile_net(self) -> LegalQuantileNetwork:
        """The network, and once more as the target."""
        made = self._update_features_extractor(self.net_args, features_extractor=None)
        return LegalQuantileNetwork(**made).to(self.device)


# -- exploration -----------------------------------------------------------------------------------


class _ExploresLegally:
    """ε-greedy, each row for itself, uniformly over the legal acts."""

    def _sample_action(
        self: Any, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        acts = self.action_space.n
        legal = self._last_obs[:, -acts:] > 0
        warming_up = self.num_timesteps < learning_starts
        explores = np.random.rand(n_envs) < (1.0 if warming_up else self.exploration_rate)
        explored = ((1.0 - np.random.rand(n_envs, acts)) * legal).argmax(axis=1)
        greedy, _ = self.policy.predict(self._last_obs, deterministic=True)
        chosen = np.where(explores, explored, greedy)
        return chosen, chosen


class LegalDQN(_ExploresLegally, DQN):
    """DQN that explores legal acts alone."""


class LegalQRDQN(_ExploresLegally, QRDQN):
    """QR-DQN that explores legal acts alone."""
