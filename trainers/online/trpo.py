"""Trust region policy optimisation: each step as long as a divergence allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trainers.online.checks import check_counts, check_positive
from trainers.online.on_policy import OnPolicyConfig


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(OnPolicyConfig):
    """TRPO (Schulman et al., 2015, arXiv:1502.05477).

    max E[ r A ]  so that  E[ KL(π_old ‖ π_new) ] ≤ δ,  by conjugate gradients and a line search

    In an environment that masks its acts, π is over the legal ones.

    There is no entropy bonus: what explores is the slow step.

    Tried as in `trainers.online.ppo`: 0.100 [0.077, 0.129] in 109 CPU-s, more than twice PPO's.
    """

    algorithm: ClassVar[str] = "TRPO"

    batch_size: int = 512
    """Agent turns of one gradient step of the value; the policy's takes them all."""
    target_kl: float = 0.02
    """δ, nats a turn."""
    n_critic_updates: int = 8
    """Passes of the value over each rollout."""
    conjugate_steps: int = 15
    """Most iterations of the conjugate gradients."""
    damping: float = 0.1
    """Added to the Fisher matrix."""
    learning_rate: float = 1e-3
    """Adam's, of the value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "batch_size", "n_critic_updates", "conjugate_steps")
        check_positive(self, "target_kl", "damping")

    def keywords(self) -> dict[str, Any]:
        """As Stable-Baselines3 names them."""
        return {
            **super().keywords(),
            "batch_size": self.batch_size,
            "target_kl": self.target_kl,
            "n_critic_updates": self.n_critic_updates,
            "cg_max_steps": self.conjugate_steps,
            "cg_damping": self.damping,
        }
