"""The one policy loss: an objective and log-probabilities in, a number with its gradient out.

    log-probs ─► ratios w ─► surrogate ─► × sampler's weights ─► + β KL − c_e H ─► mean ─► loss
    advantages ─────────────┘                      values ─► + c_v · value loss ──────────┘

    rows          ├──────┤├──────┤     an optimiser step's rows may be split in any way: given the
    micro-batch      1       2         whole step's Totals, losses of the parts add up

Knows nothing of models; what is differentiated is whatever made `log_probs` and `values`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from convgym.errors import InvalidConfiguration
from trainers.llm.losses import (
    Totals,
    aggregate,
    are_clipped,
    capped_losses,
    clipped_losses,
    group_expectation_ratios,
    kl,
    sampler_weights,
    sequence_ratios,
    sequence_token_ratios,
    token_ratios,
    value_losses,
)
from trainers.llm.objectives import Clip, Objective, WeightCap


@dataclass(frozen=True, kw_only=True, eq=False)
class LossInputs:
    """B rows of T tokens; what stands where the mask is 0 has no influence, NaN included."""

    mask: Tensor  # (B, T) 1 on sampled tokens of rows that count
    log_probs: Tensor  # (B, T) of the policy that learns
    advantages: Tensor  # (B,) or (B, T)
    old_log_probs: Tensor | None = None  # (B, T) of the policy that sampled; None: it is this one
    reference_log_probs: Tensor | None = None  # (B, T)
    sampler_log_probs: Tensor | None = None  # (B, T) as the program that sampled gave them
    log_group_expectations: Tensor | None = None  # (B, 1) by losses.log_group_expectations
    entropies: Tensor | None = None  # (B, T) of the policy that learns
    values: Tensor | None = None  # (B, T) of the critic that learns
    old_values: Tensor | None = None  # (B, T) of the critic that advantages came from
    returns: Tensor | None = None  # (B, T)
    positive: Tensor | None = None  # (B,) bool: rows that went well


_PER_TOKEN = (
    "log_probs", "advantages", "old_log_probs", "reference_log_probs", "sampler_log_probs",
    "entropies", "values", "old_values", "returns",
)  # fmt: skip


def objective_loss(
    objective: Objective, inputs: LossInputs, totals: Totals | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, and what to watch of it, without gradients; each of shape ().

    `totals` are those of the whole optimiser step; None: these rows are all of it. Watched are the
    terms of the loss before their coefficients, `policy_loss`, `kl_loss`, `entropy_bonus`,
    `value_loss`, `positive_loss`, and means over tokens where their inputs came:

        clip_share   tokens whose ratio lost its gradient, or was capped
        policy_kl    KL(old ‖ new), k3        kl            KL(new ‖ reference), k3
        entropy                               sampler_gap   |old − sampler|

    All of them are shares, which add up over the parts of a step. Extremes do not: `ratio_min`,
    `ratio_max`, `sampler_gap_max`.

    Raises InvalidConfiguration where the objective needs something that is not among the inputs.
    """
    if totals is None:
        counted = objective.count_empty_rows
        totals = Totals.of(inputs.mask, inputs.positive, count_empty_rows=counted)
    inputs = _inert(inputs)
    ratios = _ratios(objective, inputs)
    terms = list(_terms(objective, inputs, ratios, totals))
    loss = torch.stack([coefficient * term for _, coefficient, term in terms]).sum()
    watched = {name: term.detach() for name, _, term in terms}
    return loss, watched | _diagnostics(objective, inputs, ratios, totals)


def _inert(inputs: LossInputs) -> LossInputs:
    """Zeros where the mask is 0, advantages of tokens, old log-probabilities."""
    mask = inputs.mask.bool()
    given = {name: getattr(inputs, name) for name in _PER_TOKEN}
    if given["advantages"].dim() == 1:
        given["advantages"] = given["advantages"][:, None].expand(mask.shape)
    if given["old_log_probs"] is None:
        given["old_log_probs"] = inputs.log_probs.detach()
    inert = {n: v.masked_fill(~mask, 0.0) for n, v in given.items() if v is not None}
    return replace(inputs, mask=mask, **inert)


def _terms(
    objective: Objective, inputs: LossInputs, ratios: Tensor, totals: Totals
) -> Iterator[tuple[str, float, Tensor]]:
    """Name, coefficient and value () of everything that the loss is the sum of."""
    mask = inputs.mask

    def mean(losses: Tensor) -> Tensor:
        return aggregate(losses, mask, objective.aggregation, totals, objective.length)

    yield "policy_loss", 1.0, mean(_surrogate(objective, inputs, ratios))
    if (penalty := objective.kl) is not None:
        reference = _needed(inputs, "reference_log_probs")
        divergence = kl(inputs.log_probs, reference, penalty.estimator)
        weighted = divergence * ratios if penalty.corrected else divergence
        yield "kl_loss", penalty.coefficient, mean(weighted)
    if objective.entropy_coefficient:
        bonus = mean(_needed(inputs, "entropies"))
        yield "entropy_bonus", -objective.entropy_coefficient, bonus
    if (critic := objective.value) is not None:
        old = None if critic.clip is None else _needed(inputs, "old_values")
        values, returns = _needed(inputs, "values"), _needed(inputs, "returns")
        losses = value_losses(values, returns, old, critic.clip)
        yield "value_loss", critic.coefficient, aggregate(losses, mask, "token_mean", totals)
    if objective.positive_coefficient:
        good = mask & _needed(inputs, "positive").bool()[:, None]
        share = -inputs.log_probs.masked_fill(~good, 0.0).sum() / max(totals.positive_tokens, 1)
        yield "positive_loss", objective.positive_coefficient, share


def _ratios(objective: Objective, inputs: LossInputs) -> Tensor:
    """w of every token.  # (B, T)"""
    new, old, mask = inputs.log_probs, _needed(inputs, "old_log_probs"), inputs.mask
    if objective.ratio == "none":
        return torch.ones_like(new)
    if objective.ratio == "token":
        return token_ratios(new, old)
    if objective.ratio == "sequence":
        return sequence_ratios(new, old, mask).expand_as(new)
    if objective.ratio == "sequence_token":
        return sequence_token_ratios(new, old, mask)
    expected = _needed(inputs, "log_group_expectations")
    return group_expectation_ratios(new, mask, expected).expand_as(new)


def _surrogate(objective: Objective, inputs: LossInputs, ratios: Tensor) -> Tensor:
    """What every token costs for its advantage.  # (B, T)"""
    clip, advantages = objective.clip, inputs.advantages
    if isinstance(clip, Clip):
        losses = clipped_losses(ratios, advantages, clip.low, clip.high, clip.dual)
    elif isinstance(clip, WeightCap):
        losses = capped_losses(ratios, advantages, inputs.log_probs, clip.cap, clip.floor)
    else:
        losses = -advantages * (inputs.log_probs if objective.ratio == "none" else ratios)
    if (fix := objective.correction) is None:
        return losses
    sampler, old = _needed(inputs, "sampler_log_probs"), _needed(inputs, "old_log_probs")
    return losses * sampler_weights(
        old, sampler, inputs.mask, level=fix.level, action=fix.action, cap=fix.cap
    )


@torch.no_grad()
def _diagnostics(
    objective: Objective, inputs: LossInputs, ratios: Tensor, totals: Totals
) -> dict[str, Tensor]:
    mask, clip, old = inputs.mask, objective.clip, _needed(inputs, "old_log_probs")
    per_token = {"policy_kl": kl(old, inputs.log_probs)}
    if isinstance(clip, Clip):
        lost = are_clipped(ratios, inputs.advantages, clip.low, clip.high, clip.dual)
        per_token["clip_share"] = lost.to(ratios.dtype)
    elif isinstance(clip, WeightCap):
        per_token["clip_share"] = ((ratios > clip.cap) | (ratios < clip.floor)).to(ratios.dtype)
    if inputs.reference_log_probs is not None:
        per_token["kl"] = kl(inputs.log_probs, inputs.reference_log_probs)
    if inputs.entropies is not None:
        per_token["entropy"] = inputs.entropies
    extremes = {
        "ratio_min": ratios.masked_fill(~mask, torch.inf).amin(),
        "ratio_max": ratios.masked_fill(~mask, -torch.inf).amax(),
    }
    if inputs.sampler_log_probs is not None:
        per_token["sampler_gap"] = (old - inputs.sampler_log_probs).abs()
        extremes["sampler_gap_max"] = per_token["sampler_gap"].amax()
    means = {n: aggregate(v, mask, "token_mean", totals) for n, v in per_token.items()}
    return means | extremes


def _needed(inputs: LossInputs, name: str) -> Tensor:
    value: Tensor | None = getattr(inputs, name)
    if value is None:
        raise InvalidConfiguration(f"this objective needs {name}; give them to LossInputs")
    return value
