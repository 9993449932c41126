"""Quantile-regression Q-learning: the whole distribution of returns of each act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trainers.online.checks import check_counts
from trainers.online.off_policy import OffPolicyConfig


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig(OffPolicyConfig):
    """QR-DQN (Dabney et al., 2017, arXiv:1710.10044) on returns of n steps.

    L = Σ_i E_j[ ρ_{τ_i}( Σ_k γ^k r_k + γ^n θ_j(o_n, a*) − θ_i(o, a) ) ],  a* the best mean

    In an environment that masks its acts, a* and the acts that explore are legal ones. Returns of n
    steps are not corrected for acts that explored.

    Tried as in `trainers.online.ppo`: 60,000 turns still give 0.000 [0.000, 0.008], in 137 CPU-s:
    it has learnt to keep talking, no more, where DQN begins to succeed. Small tasks it learns as
    DQN does.
    """

    algorithm: ClassVar[str] = "QRDQN"

    n_quantiles: int = 32
    """Quantiles θ_i of each act."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "n_quantiles")

    def keywords(self) -> dict[str, Any]:
        """As Stable-Baselines3 names them."""
        keywords = super().keywords()
        keywords["policy_kwargs"]["n_quantiles"] = self.n_quantiles
        return keywords
