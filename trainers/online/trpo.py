"""Trust region policy optimisation: each step as long as a divergence allows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from trainers.online.checks import check_counts, check_layers, check_positive, check_shares

if TYPE_CHECKING:
    from trainers.online.learner import SB3Learner


@dataclass(frozen=True, kw_only=True)
class TRPOConfig:
    """TRPO (Schulman et al., 2015, arXiv:1502.05477).

    max E[ r A ]  so that  E[ KL(π_old ‖ π_new) ] ≤ δ,  by conjugate gradients and a line search

    In an environment that masks its acts, π is over the legal ones.

    There is no entropy bonus: what explores is the slow step.

    Tried as in `trainers.online.ppo`: 0.100 [0.077, 0.129] in 109 CPU-s, more than twice PPO's.
    """

    algorithm: ClassVar[str] = "TRPO"

    n_envs: int = 32
    """Conversations played side by side."""
    n_steps: int = 64
    """Agent turns of each conversation between two updates."""
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
    discount: float = 0.995
    """γ per agent turn."""
    gae_lambda: float = 0.95
    """λ of the advantages: 1 trusts returns alone, 0 the value alone."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of each layer, policy and value alike."""
    seed: int = 0
    """Of weights, exploration, minibatches and conversations."""

    def __post_init__(self) -> None:
        check_counts(self, "n_envs", "n_steps", "batch_size", "n_critic_updates", "conjugate_steps")
        check_shares(self, "discount", "gae_lambda")
        check_positive(self, "learning_rate", "target_kl", "damping")
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
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "gamma": self.discount,
            "gae_lambda": self.gae_lambda,
            "target_kl": self.target_kl,
            "n_critic_updates": self.n_critic_updates,
            "cg_max_steps": self.conjugate_steps,
            "cg_damping": self.damping,
            "policy_kwargs": {"net_arch": list(self.hidden)},
        }
