"""Proximal policy optimisation with a memory: for observations that do not tell all."""

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
class RecurrentPPOConfig:
    """PPO (Schulman et al., 2017, arXiv:1707.06347) whose policy and value read an LSTM.

    h_t = LSTM(o_t, h_{t-1}),  π(a | h_t),  V(h_t);  L as in PPO, over whole stretches of a rollout

    For observations that forget, such as the newest message alone. Features tell all that was said,
    and memory only costs there. In an environment that masks its acts, π is over the legal ones.

    Tried as in `trainers.online.ppo`, on features: 100,000 turns give 0.028 [0.017, 0.046] in 132
    CPU-s; after as many PPO has about 0.05, in 24 CPU-s.
    """

    algorithm: ClassVar[str] = "RecurrentPPO"

    n_envs: int = 32
    """Conversations played side by side."""
    n_steps: int = 64
    """Agent turns of each conversation between two updates."""
    batch_size: int = 512
    """Agent turns of one gradient step."""
    n_epochs: int = 8
    """Passes over each rollout."""
    learning_rate: float = 1e-3
    """Adam's."""
    clip_range: float = 0.2
    """ε; how far a probability may move in one update."""
    entropy_coefficient: float = 0.01
    """c_e. Too small, and the policy hangs up early for ever."""
    value_coefficient: float = 0.5
    """c_v."""
    discount: float = 0.995
    """γ per agent turn."""
    gae_lambda: float = 0.95
    """λ of the advantages: 1 trusts returns alone, 0 the value alone."""
    max_grad_norm: float = 0.5
    """Longer gradients are shortened to this."""
    memory: int = 64
    """Units of the LSTM; policy and value have one each."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of each layer, policy and value alike."""
    seed: int = 0
    """Of weights, exploration, minibatches and conversations."""

    def __post_init__(self) -> None:
        check_counts(self, "n_envs", "n_steps", "batch_size", "n_epochs", "memory")
        check_shares(self, "discount", "gae_lambda")
        check_positive(self, "learning_rate", "clip_range", "max_grad_norm")
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
            "batch_size": self.batch_size,
            "n_epochs": self.n_epochs,
            "learning_rate": self.learning_rate,
            "gamma": self.discount,
            "gae_lambda": self.gae_lambda,
            "clip_range": self.clip_range,
            "ent_coef": self.entropy_coefficient,
            "vf_coef": self.value_coefficient,
            "max_grad_norm": self.max_grad_norm,
            "policy_kwargs": {"net_arch": list(self.hidden), "lstm_hidden_size": self.memory},
        }
