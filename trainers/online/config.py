"""What every online algorithm takes, whatever it learns from.

    OnlineConfig ─┬─ OnPolicyConfig     rollouts of the newest policy       on_policy
                  │    └─ ClippedConfig     … used several times
                  └─ OffPolicyConfig    a replay buffer                     off_policy

An algorithm's file adds what is its own, with its formula and what it earned.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from trainers.online.checks import check_counts, check_layers, check_positive, check_shares

if TYPE_CHECKING:
    from trainers.online.learner import SB3Learner


@dataclass(frozen=True, kw_only=True)
class OnlineConfig:
    """Options that all online algorithms share; InvalidConfiguration for what they may not be."""

    algorithm: ClassVar[str]
    """The class's name in Stable-Baselines3."""

    n_envs: int
    """Conversations played side by side."""
    learning_rate: float
    """Adam's."""
    discount: float
    """γ per agent turn."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of each layer; where there are a policy and a value, of either."""
    seed: int = 0
    """Of weights, exploration, minibatches and conversations."""

    def __post_init__(self) -> None:
        check_counts(self, "n_envs")
        check_positive(self, "learning_rate")
        check_shares(self, "discount")
        check_layers(self)

    def create(self, device: str = "cpu") -> SB3Learner:
        """The learner; needs the extra `sb3`."""
        from trainers.online.learner import SB3Learner

        return SB3Learner(self, device)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def keywords(self) -> dict[str, Any]:
        """The settings as Stable-Baselines3 names them."""
        return {
            "learning_rate": self.learning_rate,
            "gamma": self.discount,
            "policy_kwargs": {"net_arch": list(self.hidden)},
        }
