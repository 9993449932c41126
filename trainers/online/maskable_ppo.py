"""Proximal policy optimisation over dialogue acts, with illegal acts masked out.

    make_env ─► n_envs conversations side by side ─► sb3-contrib's MaskablePPO ─► SB3Policy
                (trainers.online.vec_env)

The arithmetic is Stable-Baselines3's; this file holds the configuration that suits
conversations, the seeding, and the way back to our `Policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.policies.batched import BatchActPolicy, Masks
from convgym.policies.policy import ActPolicy, Policy, Probabilities

Evaluator = Callable[[Policy], float]
Progress = Callable[[int, Mapping[str, float]], None]


@dataclass(frozen=True, kw_only=True)
class MaskablePPOConfig:
    """PPO with clipped ratios (Schulman et al., 2017, arXiv:1707.06347) over legal acts only
    (Huang & Ontañón, 2020, arXiv:2006.14171).

    L = E[ min(r A, clip(r, 1-ε, 1+ε) A) ] − c_v (V − R)² + c_e H

    Give the environment `reward="graded"`: partial evidence pays at the end, so that the first
    steps of a long chain are learnt before the last is ever reached. With "success" or
    "milestones", whose shaping telescopes away, the first 200,000 turns earn nothing (tried).
    """

    n_envs: int = 32
    """Conversations played side by side."""
    n_steps: int = 64
    """Agent turns of each conversation between two updates."""
    batch_size: int = 512
    n_epochs: int = 8
    """Passes over each rollout."""
    learning_rate: float = 1e-3
    clip_range: float = 0.2
    """ε."""
    entropy_coefficient: float = 0.01
    """c_e. Too small, and the policy hangs up early for ever."""
    value_coefficient: float = 0.5
    """c_v."""
    discount: float = 0.995
    """γ per agent turn."""
    gae_lambda: float = 0.95
    hidden: tuple[int, ...] = (128, 128)
    """Units of each layer, policy and value alike."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("n_envs", "n_steps", "batch_size", "n_epochs"):
            if getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name}={getattr(self, name)}; it must be 1 or more")
        for name in ("discount", "gae_lambda"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise InvalidConfiguration(f"{name}={getattr(self, name)} is outside (0, 1]")
        if self.learning_rate <= 0:
            raise InvalidConfiguration(f"learning_rate={self.learning_rate}; it must be above 0")

    def create(self, device: str = "cpu") -> MaskablePPOLearner:
        """The learner; needs the extra `sb3`."""
        return MaskablePPOLearner(self, device)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


class MaskablePPOLearner:
    """Fits one policy; `history` holds a row for each evaluation."""

    def __init__(self, config: MaskablePPOConfig, device: str = "cpu") -> None:
        self.config = config
        self.device = device
        self.history: list[dict[str, float]] = []

    def fit(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        n_steps: int,
        evaluators: Mapping[str, Evaluator] | None = None,
        evaluate_every: int = 0,
        progress: Progress | None = None,
    ) -> SB3Policy:
        """Learn for about `n_steps` agent turns (rounded up to whole rollouts).

        `make_env` gives a new environment with features, acts and `action_masks()`.
        `progress` hears the steps done and the newest metrics after each rollout.
        """
        model = self._model(make_env)
        policy = SB3Policy(model)
        model.learn(n_steps, callback=self._callback(policy, evaluators, evaluate_every, progress))
        model.get_env().close()
        if evaluators:
            final = {name: evaluator(policy) for name, evaluator in evaluators.items()}
            self.history.append({"step": float(model.num_timesteps), **final})
        return policy

    def _model(self, make_env: Callable[[], gym.Env[Any, Any]]) -> Any:
        try:
            from sb3_contrib import MaskablePPO
        except ImportError as error:
            raise MissingExtra(error.name or "sb3_contrib", "sb3") from error
        from trainers.online.vec_env import side_by_side

        config = self.config
        environments = side_by_side(make_env, config.n_envs)
        environments.seed(config.seed)
        return MaskablePPO(
            "MlpPolicy",
            environments,
            n_steps=config.n_steps,
            batch_size=config.batch_size,
            n_epochs=config.n_epochs,
            learning_rate=config.learning_rate,
            clip_range=config.clip_range,
            ent_coef=config.entropy_coefficient,
            vf_coef=config.value_coefficient,
            gamma=config.discount,
            gae_lambda=config.gae_lambda,
            policy_kwargs={"net_arch": list(config.hidden)},
            seed=config.seed,
            device=self.device,
        )

    def _callback(
        self,
        policy: SB3Policy,
        evaluators: Mapping[str, Evaluator] | None,
        evaluate_every: int,
        progress: Progress | None,
    ) -> Any:
        from stable_baselines3.common.callbacks import BaseCallback

        history = self.history

        class Report(BaseCallback):
            """Evaluates and reports between rollouts."""

            def _on_step(self) -> bool:
                return True

            def _on_rollout_end(self) -> None:
                row: dict[str, float] = {"step": float(self.num_timesteps)}
                last = history[-1]["step"] if history else 0.0
                if evaluators and evaluate_every and self.num_timesteps - last >= evaluate_every:
                    row |= {name: evaluator(policy) for name, evaluator in evaluators.items()}
                    history.append(row)
                if progress is not None:
                    progress(self.num_timesteps, row)

        return Report()


class SB3Policy(ActPolicy):
    """A Stable-Baselines3 model as our `Policy`; chance comes from the episode's seed."""

    name = "MaskablePPO"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """The model's distribution over the legal acts.  # (actions,)"""
        import torch

        with torch.no_grad():
            tensor, _ = self.model.policy.obs_to_tensor(observation)
            distribution = self.model.policy.get_distribution(tensor, action_masks=action_masks)
            return distribution.distribution.probs[0].cpu().numpy().astype(np.float64)

    def batched(self) -> SB3BatchPolicy:
        """The same model for many conversations at once."""
        return SB3BatchPolicy(self.model)

    def save(self, path: str | Path) -> None:
        """Write Stable-Baselines3's own archive."""
        self.model.save(str(path))

    @classmethod
    def load(cls, path: str | Path) -> SB3Policy:
        """Read what `save`, or Stable-Baselines3 itself, has written."""
        try:
            from sb3_contrib import MaskablePPO
        except ImportError as error:
            raise MissingExtra(error.name or "sb3_contrib", "sb3") from error
        return cls(MaskablePPO.load(str(path), device="cpu"))


class SB3BatchPolicy(BatchActPolicy):
    """`SB3Policy` for a batch of conversations, in one pass through the network.

    A network rounds a batch otherwise than a single row, so that probabilities agree to about
    seven digits.
    """

    name = SB3Policy.name

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def action_probs(self, observations: Any, masks: Masks) -> NDArray[np.float64]:
        """The model's distributions over the legal acts.  # (k, actions)"""
        import torch

        with torch.no_grad():
            tensor, _ = self.model.policy.obs_to_tensor(observations)
            distribution = self.model.policy.get_distribution(tensor, action_masks=masks)
            return distribution.distribution.probs.cpu().numpy().astype(np.float64)
