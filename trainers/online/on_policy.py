"""What algorithms take that learn from rollouts of their newest policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainers.online.checks import check_counts, check_not_negative, check_positive, check_shares
from trainers.online.config import OnlineConfig


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(OnlineConfig):
    """Rollouts, and advantages of them.

    A_t = Σ_k (γ λ)^k (r_{t+k} + γ V(o_{t+k+1}) − V(o_{t+k}))   (Schulman et al., 2016,
    arXiv:1506.02438)
    """

    n_envs: int = 32
    """Conversations played side by side."""
    n_steps: int = 64
    """Agent turns of each conversation between two updates."""
    learning_rate: float = 1e-3
    """Adam's."""
    discount: float = 0.995
    """γ per agent turn."""
    gae_lambda: float = 0.95
    """λ of the advantages: 1 trusts returns alone, 0 the value alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "n_steps")
        check_shares(self, "gae_lambda")

    def keywords(self) -> dict[str, Any]:
        """The settings as Stable-Baselines3 names them."""
        return {**super().keywords(), "n_steps": self.n_steps, "gae_lambda": self.gae_lambda}


@dataclass(frozen=True, kw_only=True)
class ClippedConfig(OnPolicyConfig):
    """Several passes over each rollout, within clipped ratios.

    L = E[ min(r A, clip(r, 1-ε, 1+ε) A) ] − c_v (V − R)² + c_e H,  r = π_new(a|o) / π_old(a|o)
    """

    batch_size: int = 512
    """Agent turns of one gradient step."""
    n_epochs: int = 8
    """Passes over each rollout."""
    clip_range: float = 0.2
    """ε; how far a probability may move in one update."""
    entropy_coefficient: float = 0.01
    """c_e. Too small, and the policy hangs up early for ever."""
    value_coefficient: float = 0.5
    """c_v."""
    max_grad_norm: float = 0.5
    """Longer gradients are shortened to this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "batch_size", "n_epochs")
        check_positive(self, "clip_range", "max_grad_norm")
        check_not_negative(self, "entropy_coefficient", "value_coefficient")

    def keywords(self) -> dict[str, Any]:
        """The settings as Stable-Baselines3 names them."""
        return {
            **super().keywords(),
            "batch_size": self.batch_size,
            "n_epochs": self.n_epochs,
            "clip_range": self.clip_range,
            "ent_coef": self.entropy_coefficient,
            "vf_coef": self.value_coefficient,
            "max_grad_norm": self.max_grad_norm,
        }
