"""The parts that policy losses of language models are put together from; pure, on tensors.

    log-probs  new ℓ, old ℓ°, reference, sampler's     (B, T) each
        ratio  ─► clip ─► + β KL ─► aggregate ─► a number
        w         per token losses (B, T)

A row is one conversation; the mask is 1 on tokens that the policy sampled. What stands elsewhere
has no influence, but must be finite where gradients flow. A mean divides by `Totals` of the whole
optimiser step, so that micro-batches and processes add up to it. Knows nothing of models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["row_mean", "token_mean", "constant"]
Estimator = Literal["k1", "k2", "k3"]
Level = Literal["token", "sequence"]
Action = Literal["truncate", "mask"]

LARGEST = 20.0
"""Log-ratios are cut here; e²⁰ is half a billion, and e⁸⁹ no number of 32 bits."""


# -- log-probabilities -----------------------------------------------------------------------------


def tempered_log_probs(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """log softmax(logits / temperature): learn at the temperature of sampling.  (…, V) → (…, V)"""
    return (logits / temperature).log_softmax(-1)


def entropy(log_probs: Tensor) -> Tensor:
    """−Σ p log p; what has no probability counts 0.  (…, V) → (…)"""
    impossible = log_probs == -torch.inf
    return -(log_probs.exp() * log_probs.masked_fill(impossible, 0.0)).sum(-1)


def row_means(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over each row's tokens, 0 where it has none.  (B, T), (B, T) → (B, 1)"""
    kept = values.masked_fill(~mask.bool(), 0.0)
    return kept.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)


def _exp(log_ratios: Tensor) -> Tensor:
    return log_ratios.clamp(max=LARGEST).exp()


# -- ratios, new to old ----------------------------------------------------------------------------


def token_ratios(log_probs: Tensor, old_log_probs: Tensor) -> Tensor:
    """π / π_old of each token (PPO, arXiv:1707.06347).  (B, T)"""
    return _exp(log_probs - old_log_probs)


def sequence_ratios(log_probs: Tensor, old_log_probs: Tensor, mask: Tensor) -> Tensor:
    """Their geometric mean over a row (GSPO, arXiv:2507.18071, eq. 7).  (B, T) → (B, 1)"""
    return _exp(row_means(log_probs - old_log_probs, mask))


def sequence_token_ratios(log_probs: Tensor, old_log_probs: Tensor, mask: Tensor) -> Tensor:
    """The row's ratio as value, each token's own gradient (GSPO-token, eq. 14).  (B, T)

    sg[s] · π / sg[π], so that tokens of one row may have advantages of their own.
    """
    own = (log_probs - log_probs.detach()).exp()
    return sequence_ratios(log_probs, old_log_probs, mask).detach() * own


def log_group_expectations(old_log_probs: Tensor, mask: Tensor, groups: Tensor) -> Tensor:
    """log Ê_q[q] = log (Σ q² / Σ q) over a row's group, q its mean probability (arXiv:2508.17850).

    q = exp(mean ℓ°), as the official code has it: a product over tokens underflows. Rows without
    tokens are left out. It needs whole groups, so it comes before any splitting of the batch.
    (B, T), (B, T), (B,) → (B, 1)
    """
    logs = row_means(old_log_probs, mask)[:, 0]
    together = (groups[:, None] == groups) & mask.bool().any(-1)  # (B, B)
    logs = logs.expand(together.shape).masked_fill(~together, -torch.inf)
    expected = (2 * logs).logsumexp(-1) - logs.logsumexp(-1)
    return torch.where(together.any(-1), expected, 0.0)[:, None]


def group_expectation_ratios(log_probs: Tensor, mask: Tensor, log_expectations: Tensor) -> Tensor:
    """p / Ê_q[q], which is not 1 for the policy that sampled (GEPO, arXiv:2508.17850).  (B, 1)"""
    return _exp(row_means(log_probs, mask) - log_expectations)


# -- clips -----------------------------------------------------------------------------------------


def clipped_losses(
    ratios: Tensor, advantages: Tensor, low: float, high: float, dual: float | None = None
) -> Tensor:
    """−min(w A, clip(w, 1 − low, 1 + high) A) (PPO, arXiv:1707.06347, eq. 7).

    Two ends: DAPO, arXiv:2503.14476. `dual` also bounds what a negative advantage costs, by
    −dual · A (arXiv:1912.09729).
    """
    losses = -torch.minimum(ratios * advantages, ratios.clamp(1 - low, 1 + high) * advantages)
    if dual is None:
        return losses
    return torch.where(advantages < 0, torch.minimum(losses, -dual * advantages), losses)


def are_clipped(
    ratios: Tensor, advantages: Tensor, low: float, high: float, dual: float | None = None
) -> Tensor:
    """Where `clipped_losses` gives no gradient though there is an advantage.  bool"""
    above = (ratios > 1 + high) & (advantages > 0)
    below = (ratios < 1 - low) & (advantages < 0)
    clipped = above | below
    return clipped if dual is None else clipped | (ratios > dual) & (advantages < 0)


def capped_losses(
    ratios: Tensor, advantages: Tensor, log_probs: Tensor, cap: float, floor: float = 0.0
) -> Tensor:
    """−sg[clip(w, floor, cap)] A ℓ: every token keeps a gradient (CISPO, arXiv:2506.13585, eq. 4).

    `cap` is the bound itself, not 1 + ε.
    """
    return -ratios.detach().clamp(floor, cap) * advantages * log_probs


# -- divergence from the reference, and from the sampler -------------------------------------------


def kl(log_probs: Tensor, reference: Tensor, estimator: Estimator = "k3") -> Tensor:
    """Estimates of KL(π ‖ reference) from one sample (Schulman, 2020), d = reference − ℓ.

    k1 = −d        k2 = d² / 2        k3 = eᵈ − d − 1
    """
    if estimator == "k1":
        return log_probs - reference
    if estimator == "k2":
        return (reference - log_probs).square() / 2
    difference = (reference - log_probs).clamp(max=LARGEST)
    return difference.exp() - difference - 1


def sampler_weights(
    old_log_probs: Tensor,
    sampler_log_probs: Tensor,
    mask: Tensor,
    *,
    level: Level = "token",
    action: Action = "truncate",
    cap: float = 2.0,
) -> Tensor:
    """Truncated importance weights where the sampler's numbers are not the trainer's.

    u = exp(ℓ°_trainer − ℓ_sampler) of a token or of a whole row (the sum over its tokens). Above
    the cap, "truncate" makes it the cap and "mask" makes it 0. 1 where the mask is 0, or, of rows,
    the row's; no gradient.  (B, T) → (B, T)
    """
    gaps = (old_log_probs - sampler_log_probs).detach().masked_fill(~mask.bool(), 0.0)
    weights = _exp(gaps.sum(-1, keepdim=True).expand_as(gaps) if level == "sequence" else gaps)
    return weights.clamp(max=cap) if action == "truncate" else weights.masked_fill(weights > cap, 0)


# -- values ----------------------------------------------------------------------------------------


def value_losses(
    values: Tensor, returns: Tensor, old_values: Tensor | None = None, clip: float | None = None
) -> Tensor:
    """½ (V − R)², or the worse of it and of V held within ±clip of the old value.  (B, T)"""
    losses = (values - returns).square()
    if clip is not None and old_values is not None:
        held = old_values + (values - old_values).clamp(-clip, clip)
        losses = torch.maximum(losses, (held - returns).square())
    return losses / 2


# -- aggregation -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Totals:
    """What the means of one optimiser step divide by; of its parts, the sum."""

    rows: int
    """Conversations."""
    tokens: int
    """Tokens with mask 1."""
    positive_tokens: int = 0
    """Those among them in rows that went well."""

    @classmethod
    def of(
        cls, mask: Tensor, positive: Tensor | None = None, *, count_empty_rows: bool = False
    ) -> Totals:
        """Of a mask (B, T); rows without tokens count if they shall (trl), or do not (verl)."""
        tokens = mask.bool().sum(-1)
        rows = len(mask) if count_empty_rows else int((tokens > 0).sum())
        good = 0 if positive is None else int(tokens[positive.bool()].sum())
        return cls(rows, int(tokens.sum()), good)

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.rows + other.rows,
            self.tokens + other.tokens,
            self.positive_tokens + other.positive_tokens,
        )


def aggregate(
    losses: Tensor, mask: Tensor, how: Aggregation, totals: Totals, length: int = 1
) -> Tensor:
    """This batch's share of the mean over the whole step.  (B, T), (B, T) → ()

    row_mean    (1 / rows) Σ_i (1 / n_i) Σ_t       GRPO, arXiv:2402.03300, eq. 3
    token_mean  (1 / tokens) Σ_i Σ_t               DAPO, arXiv:2503.14476, eq. 8
    constant    (1 / (rows · length)) Σ_i Σ_t      Dr. GRPO, arXiv:2503.20783; `length` 1: LUSPO
    """
    if how == "row_mean":
        return row_means(losses, mask).sum() / max(totals.rows, 1)
    total = losses.masked_fill(~mask.bool(), 0.0).sum()
    return total / max(totals.tokens if how == "token_mean" else totals.rows * length, 1)
