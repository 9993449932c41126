"""Advantage actor-critic: one gradient step for each short rollout."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from trainers.online.checks import (
    check_counts,
    check_layers,
    check_not_negative,
    check_positive,
    check_shares,
)

if TYPE_CHECKING:
    from trainers.online.learner import SB3Learner


@dataclass(frozen=True, kw_only=True)
class A2CConfig:
    """Synchronous advantage actor-critic (Mnih et al., 2016, arXiv:1602.01783).

    L = E[ log π(a|o) A ] − c_v (V − R)² + c_e H,  A by generalised advantages (λ = 1: the paper's)

    In an environment that masks its acts, π is over the legal ones.

    Different from the paper: one process, Adam as in PPO instead of RMSprop, and λ below 1.

    Tried as in `trainers.online.ppo`: 0.058 [0.041, 0.082] in 20 CPU-s. With advantages brought to
    spread 1, as PPO has them, and c_e = 0.01 it earned nothing (0.000 to 0.004, with learning rates
    of 1e-3 and 3e-3 and rollouts of 128 to 512 turns): where rewards are rare, that spreads noise.
    """

    algorithm: ClassVar[str] = "A2C"

    n_envs: int = 32
    """Conversations played side by side."""
    n_steps: int = 8
    """Agent turns of each conversation between two updates."""
    learning_rate: float = 1e-3
    """Adam's."""
    entropy_coefficient: float = 0.002
    """c_e. Advantages are not brought to spread 1, so a little of it goes far."""
    value_coefficient: float = 0.5
    """c_v."""
    discount: float = 0.995
    """γ per agent turn."""
    gae_lambda: float = 0.95
    """λ of the advantages: 1 trusts returns alone, 0 the value alone."""
    max_grad_norm: float = 0.5
    """Longer gradients are shortened to this."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of each layer, policy and value alike."""
    seed: int = 0
    """Of weights, exploration, minibatches and conversations."""

    def __post_init__(self) -> None:
        check_counts(self, "n_envs", "n_steps")
        check_shares(self, "discount", "gae_lambda")
        check_positive(self, "learning_rate", "max_grad_norm")
        check_not_negative(self, "entropy_coefficient", "value_coefficient")
        check_layers(self)

    def create(self, device: str = "cpu") -> SB3Learner:
        """The learner; needs the extra `sb3`."""
        from trainers.online.learner import SB3Learner

        return SB3Learner(self, device)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def keywords(self) -> dict[str, Any]:
        """As Stable-Baselines3 names them."""
        return {
            "n_steps": self.n_steps,
            "learning_rate": self.learning_rate,
            "gamma": self.discount,
            "gae_lambda": self.gae_lambda,
            "ent_coef": self.entropy_coefficient,
            "vf_coef": self.value_coefficient,
            "max_grad_norm": self.max_grad_norm,
            "use_rms_prop": False,
            "policy_kwargs": {"net_arch": list(self.hidden)},
        }
