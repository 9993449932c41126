"""What algorithms take that learn from a replay buffer, and explore by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainers.online.checks import check_counts, check_not_negative, check_positive, check_shares
from trainers.online.config import OnlineConfig


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(OnlineConfig):
    """A replay buffer, returns of n steps, a target network, and ε-greedy exploration."""

    n_envs: int = 8
    """Conversations played side by side."""
    learning_rate: float = 5e-4
    """Adam's."""
    buffer_size: int = 50_000
    """Newest agent turns that are kept: 8 bytes for each number of an observation and its mask."""
    learning_starts: int = 2_000
    """Agent turns of random legal acts before the first update."""
    batch_size: int = 128
    """Agent turns of one gradient step."""
    train_every: int = 1
    """Steps of all conversations between two updates."""
    gradient_steps: int = 1
    """Gradient steps of an update."""
    n_step_td: int = 10
    """n: rewards that are summed before bootstrapping; more carry a late success faster."""
    target_update: int = 1_000
    """Agent turns between two copies to the target network."""
    discount: float = 0.99
    """γ per agent turn."""
    exploration_fraction: float = 0.4
    """Share of the run in which ε falls."""
    exploration_start: float = 1.0
    """ε at first: share of random legal acts."""
    exploration_end: float = 0.05
    """ε from then on."""
    max_grad_norm: float = 10.0
    """Longer gradients are shortened to this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "buffer_size", "batch_size", "train_every", "gradient_steps")
        check_counts(self, "n_step_td", "target_update")
        check_not_negative(self, "learning_starts", "exploration_start", "exploration_end")
        check_shares(self, "exploration_fraction")
        check_positive(self, "max_grad_norm")

    def keywords(self) -> dict[str, Any]:
        """The settings as Stable-Baselines3 names them."""
        return {
            **super().keywords(),
            "buffer_size": self.buffer_size,
            "learning_starts": self.learning_starts,
            "batch_size": self.batch_size,
            "train_freq": self.train_every,
            "gradient_steps": self.gradient_steps,
            "n_steps": self.n_step_td,
            "target_update_interval": self.target_update,
            "exploration_fraction": self.exploration_fraction,
            "exploration_initial_eps": self.exploration_start,
            "exploration_final_eps": self.exploration_end,
            "max_grad_norm": self.max_grad_norm,
        }
