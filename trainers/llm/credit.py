"""Which token gets credit for what a conversation earned: three ways, each a frozen value.

    Episodes  ─► GroupRelative        the group of the same task is the baseline    GRPO, RLOO, …
              ─► DiscountedReturns    the whole batch is                            REINFORCE++
              ─► GeneralizedAdvantage a critic is                                   PPO, VAPO, A2C
                     .estimate(episodes) ─► Credit: advantages (B, T), returns (B, T)

B conversations of N agent turns and T tokens. Discounts count agent turns, never tokens.
Knows nothing of losses or models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from convgym.errors import InvalidConfiguration
from trainers.functional import discounted_sums, generalized_advantages
from trainers.llm.advantages import (
    Baseline,
    Scale,
    group_advantages,
    last_tokens,
    length_adaptive_lambda,
    on_last_tokens,
    on_tokens,
    whiten,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Episodes:
    """What B conversations earned, and where their tokens are."""

    rewards: Tensor  # (B, N) of each agent turn
    played: Tensor  # (B, N) bool: whether there was that turn
    turns: Tensor  # (B, T) the turn of a token, −1 where the agent did not sample it
    groups: Tensor  # (B,) whole numbers, equal for rollouts of one task, persona and seed
    valid: Tensor  # (B,) bool: False where the environment, the judge or the writer failed
    values: Tensor | None = None  # (B, T) the critic's, of the state before the token
    bootstrap: Tensor | None = None  # (B,) its value after the last token; 0 where terminated

    @property
    def mask(self) -> Tensor:
        """1 on sampled tokens of valid rows.  # (B, T) bool"""
        return (self.turns >= 0) & self.valid[:, None].bool()

    def returns_to_go(self, discount: float) -> Tensor:
        """From each turn on; 0 after the last turn and in failed rows.  # (B, N)"""
        played = self.played.bool() & self.valid[:, None].bool()
        return discounted_sums(self.rewards, played, discount)


@dataclass(frozen=True, eq=False)
class Credit:
    """0 where the mask is 0."""

    advantages: Tensor  # (B, T)
    returns: Tensor | None = None  # (B, T) what a critic learns


@dataclass(frozen=True, kw_only=True)
class GroupRelative:
    """The other rollouts of the same task are the baseline (DeepSeekMath, arXiv:2402.03300).

    A = (R − mean of the group) / (std of the group + ε)
    """

    credit: Literal["episode", "turn", "turn_index"] = "episode"
    """"episode": the return, for every token. "turn": the return from each turn on, less what the
    whole group earned from there on, rows that had ended at 0, so that ending early changes no
    baseline. "turn_index": the turn's own reward among those who played it; biased where the
    agent decides when to stop, for it pays for one more turn."""
    baseline: Baseline = "mean"
    """Of the group, or of its other rows."""
    scale: Scale = "group"
    """The std that divides: the group's, the batch's, or none."""
    discount: float = 1.0
    """γ per agent turn."""
    epsilon: float = 1e-4
    """ε beside the std (trl's; verl has 1e-6)."""

    def __post_init__(self) -> None:
        _one_of(self, "credit", ("episode", "turn", "turn_index"))
        _one_of(self, "baseline", ("mean", "leave_one_out"))
        _one_of(self, "scale", ("group", "batch", "none"))
        _within(self, "discount", 0, 1)
        _within(self, "epsilon", 0, 1)

    def estimate(self, episodes: Episodes) -> Credit:
        """Advantages of every sampled token."""
        played = episodes.played.bool() & episodes.valid[:, None].bool()
        if self.credit == "turn_index":
            return self._credit(episodes.rewards, played, episodes)
        returns = episodes.returns_to_go(self.discount)
        if self.credit == "episode":
            returns = returns[:, :1]
        return self._credit(returns, episodes.valid.bool(), episodes)

    def _credit(self, rewards: Tensor, valid: Tensor, episodes: Episodes) -> Credit:
        advantages = group_advantages(
            rewards,
            episodes.groups,
            baseline=self.baseline,
            scale=self.scale,
            epsilon=self.epsilon,
            valid=valid,
        ).expand_as(episodes.rewards)
        return Credit(on_tokens(advantages, episodes.turns).masked_fill(~episodes.mask, 0.0))


@dataclass(frozen=True, kw_only=True)
class DiscountedReturns:
    """The return from each turn on, whitened over all tokens (REINFORCE++, arXiv:2501.03262).

    A = (G − mean) / std over the batch
    """

    discount: float = 1.0
    """γ per agent turn."""

    def __post_init__(self) -> None:
        _within(self, "discount", 0, 1)

    def estimate(self, episodes: Episodes) -> Credit:
        """Advantages of every sampled token."""
        returns = on_tokens(episodes.returns_to_go(self.discount), episodes.turns)
        return Credit(whiten(returns, episodes.mask))


@dataclass(frozen=True, kw_only=True)
class GeneralizedAdvantage:
    """A critic is the baseline (GAE, arXiv:1506.02438; lengths: VAPO, arXiv:2504.05118).

    δ_t = r_t + γ V_{t+1} − V_t      A_t = δ_t + γ λ A_{t+1}      over sampled tokens only

    A turn's reward stands on its last token.
    """

    discount: float = 1.0
    """γ per agent turn: between the tokens of a turn it is 1."""
    lam: float = 0.95
    """λ per token."""
    alpha: float | None = None
    """VAPO's α: where given, λ = 1 − 1 / (α · tokens of the row), 0 up to 1/α tokens."""
    critic_lam: float | None = None
    """λ of what the critic learns, 1 for plain returns; None: that of the advantages."""
    whitened: bool = True
    """Whether advantages are whitened over the batch."""

    def __post_init__(self) -> None:
        _within(self, "discount", 0, 1)
        _within(self, "lam", 0, 1)
        if self.critic_lam is not None:
            _within(self, "critic_lam", 0, 1)
        if self.alpha is not None and not self.alpha > 0:
            raise InvalidConfiguration(f"alpha={self.alpha}; it must be above 0, or None")

    def estimate(self, episodes: Episodes) -> Credit:
        """Advantages of every sampled token, and the returns that the critic learns."""
        if episodes.values is None:
            raise InvalidConfiguration(
                "generalised advantages need the critic's values of the episodes; none came. "
                "Give `values`, or take a group-relative objective"
            )
        mask, turns = episodes.mask, episodes.turns
        rewards = on_last_tokens(episodes.rewards, turns)
        values, bootstrap = episodes.values.detach(), episodes.bootstrap
        discounts = torch.ones_like(rewards).masked_fill(last_tokens(turns), self.discount)
        lam: float | Tensor = self.lam
        if self.alpha is not None:
            lam = length_adaptive_lambda(mask.sum(-1, keepdim=True), self.alpha).to(rewards.dtype)
        critic_lam = lam if self.critic_lam is None else self.critic_lam
        advantages, returns = generalized_advantages(
            rewards, values, mask, discounts, lam, bootstrap
        )
        if critic_lam is not lam:
            _, returns = generalized_advantages(
                rewards, values, mask, discounts, critic_lam, bootstrap
            )
        return Credit(whiten(advantages, mask) if self.whitened else advantages, returns)


CreditAssignment = GroupRelative | DiscountedReturns | GeneralizedAdvantage


def _one_of(config: CreditAssignment, name: str, allowed: tuple[str, ...]) -> None:
    if getattr(config, name) not in allowed:
        raise InvalidConfiguration(
            f"{name}={getattr(config, name)!r}; it is one of {', '.join(allowed)}"
        )


def _within(config: CreditAssignment, name: str, low: float, high: float) -> None:
    if not low <= getattr(config, name) <= high:
        raise InvalidConfiguration(f"{name}={getattr(config, name)} is outside [{low}, {high}]")
