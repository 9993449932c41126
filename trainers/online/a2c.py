"""Advantage actor-critic: one gradient step for each short rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trainers.online.checks import check_not_negative, check_positive
from trainers.online.on_policy import OnPolicyConfig


@dataclass(frozen=True, kw_only=True)
class A2CConfig(OnPolicyConfig):
    """Synchronous advantage actor-critic (Mnih et al., 2016, arXiv:1602.01783).

    L = E[ log π(a|o) A ] − c_v (V − R)² + c_e H,  A by generalised advantages (λ = 1: the paper's)

    In an environment that masks its acts, π is over the legal ones.

    Different from the paper: one process, Adam as in PPO instead of RMSprop, and λ below 1.

    Tried as in `trainers.online.ppo`: 0.058 [0.041, 0.082] in 20 CPU-s. With advantages brought to
    spread 1, as PPO has them, and c_e = 0.01 it earned nothing (0.000 to 0.004, with learning rates
    of 1e-3 and 3e-3 and rollouts of 128 to 512 turns): where rewards are rare, that spreads noise.
    """

    algorithm: ClassVar[str] = "A2C"

    n_steps: int = 8
    """Agent turns of each conversation between two updates."""
    entropy_coefficient: float = 0.002
    """c_e. Advantages are not brought to spread 1, so a little of it goes far."""
    value_coefficient: float = 0.5
    """c_v."""
    max_grad_norm: float = 0.5
    """Longer gradients are shortened to this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "max_grad_norm")
        check_not_negative(self, "entropy_coefficient", "value_coefficient")

    def keywords(self) -> dict[str, Any]:
        """As Stable-Baselines3 names them."""
        return {
            **super().keywords(),
            "ent_coef": self.entropy_coefficient,
            "vf_coef": self.value_coefficient,
            "max_grad_norm": self.max_grad_norm,
            "use_rms_prop": False,
        }
