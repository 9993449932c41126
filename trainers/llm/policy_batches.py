"""What an update needs of an iteration's rollouts, made once, and cut into parts.

    RolloutBatch ─► values, old and reference log-probabilities   one pass without gradients
                 ─► credit: advantages, returns                   of whole groups and batches
                 ─► PolicyBatch (B, T) ─► minibatch ─► micro-batches of rows of like length

Rows are the segments of conversations. What depends on the whole batch is computed before it is
cut, so that how it is cut changes nothing. Knows nothing of optimisers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Literal

from convgym.errors import MissingExtra
from trainers.llm.language_model import LanguageModel, Scored
from trainers.llm.losses import log_group_expectations
from trainers.llm.objective_loss import LossInputs
from trainers.llm.objectives import Objective
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.ranks import Ranks, own_rows
from trainers.llm.rollouts import RolloutBatch, Rows
from trainers.llm.shared_prompts import pack, packed_length, packs_of, prompt_lengths
from trainers.llm.value_head import ValueHead, after_rows, before_tokens

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

Old = Literal["current", "sampler", "scored"]
"""Where ℓ of the policy that sampled comes from: the first pass itself, the rollouts, a pass of
its own."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyBatch:
    """B rows of T tokens, and what their loss needs but the policy that learns."""

    rows: Rows
    advantages: Tensor  # (B, T)
    positive: Tensor  # (B,) bool: rows that went well
    teaches: Tensor  # (B,) bool: rows that add to the gradient
    fresh: Tensor  # (B,) bool: rows sampled by the policy as it is before the first step
    old_log_probs: Tensor | None = None  # (B, T)
    reference_log_probs: Tensor | None = None  # (B, T)
    log_group_expectations: Tensor | None = None  # (B, 1)
    old_values: Tensor | None = None  # (B, T)
    returns: Tensor | None = None  # (B, T)

    def at(self, index: Tensor) -> PolicyBatch:
        """Some of the rows, without the padding that none of them needs."""
        rows = self.rows.at(index)
        width = rows.tokens.shape[1]
        parts = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Tensor):
                parts[entry.name] = value[index, :width] if value.dim() == 2 else value[index]
        return replace(self, rows=rows, **parts)

    def to(self, device: torch.device | str) -> PolicyBatch:
        """The same elsewhere."""
        parts = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return replace(self, **{n: v.to(device) for n, v in parts.items() if v is not None})

    def inputs(self, objective: Objective, scored: Scored, values: Tensor | None) -> LossInputs:
        """For the loss; `values` (B, T) are those that learn."""
        return LossInputs(
            mask=self.rows.mask,
            log_probs=scored.log_probs,
            advantages=self.advantages,
            old_log_probs=self.old_log_probs,
            reference_log_probs=self.reference_log_probs,
            sampler_log_probs=None if objective.correction is None else self.rows.log_probs,
            log_group_expectations=self.log_group_expectations,
            entropies=scored.entropies,
            values=values,
            old_values=self.old_values,
            returns=self.returns,
            positive=self.positive,
        )


def policy_batch(
    batch: RolloutBatch,
    model: LanguageModel,
    head: ValueHead | None,
    config: PolicyOptimizerConfig,
    old: Old,
    version: int = 0,
    ranks: Ranks | None = None,
) -> PolicyBatch:
    """Everything that is computed before the first step, on the CPU.

    Rollouts of another `version` were sampled by an earlier policy; the log-probabilities that
    they were sampled with are those of the policy that spoke, whatever `old` is for the others.
    """
    goal, rows = config.goal, batch.rows
    old_log_probs = rows.log_probs if old == "sampler" else None
    reference = values = bootstrap = None
    if head is not None or old == "scored":
        scored, reached = _scored(rows, model, config, head, ranks)
        old_log_probs = scored if old == "scored" else old_log_probs
        if reached is not None:
            values, bootstrap = before_tokens(reached), _bootstrap(batch, reached)
    fresh = torch.tensor([rollout.version == version for rollout in batch.rollouts])[rows.rollouts]
    if old_log_probs is not None and not bool(fresh.all()):
        kept = rows.log_probs.to(old_log_probs.dtype)
        old_log_probs = torch.where(fresh[:, None], old_log_probs, kept)
    if goal.kl is not None:
        with model.reference():
            reference, _ = _scored(rows, model, config, None, ranks)
    episodes = batch.episodes(values, bootstrap)
    credit = goal.credit.estimate(episodes)
    advantages = batch.on_rows(credit.advantages)
    expectations = None
    if goal.ratio == "group_expectation" and old_log_probs is not None:
        groups = batch.groups[rows.rollouts]
        expectations = log_group_expectations(old_log_probs, rows.mask, groups)
    return PolicyBatch(
        rows=rows,
        advantages=advantages,
        positive=_positive(batch, config)[rows.rollouts],
        teaches=_teaches(goal, advantages, rows.mask),
        fresh=fresh,
        old_log_probs=old_log_probs,
        reference_log_probs=reference,
        log_group_expectations=expectations,
        old_values=values,
        returns=None if credit.returns is None else batch.on_rows(credit.returns),
    )


def micro_batch_tokens(model: LanguageModel, config: PolicyOptimizerConfig) -> int:
    """How many tokens go through the model at once."""
    if config.tokens_per_micro_batch is not None:
        return config.tokens_per_micro_batch
    return 4096 if model.device.type == "cpu" else 16_384


def micro_batches(lengths: Tensor, index: Tensor, tokens: int) -> list[Tensor]:
    """Rows of like length together, at most `tokens` with padding, at least one row.

    The longest come first, so that what does not fit into memory fails at once.  (B,), (n,) → …
    """
    order = index[lengths[index].argsort(descending=True, stable=True)]
    found: list[Tensor] = []
    while len(order):
        width = int(lengths[order[0]])
        found.append(order[: max(1, tokens // width)])
        order = order[len(found[-1]) :]
    return found


def micro_parts(
    rows: Rows, index: Tensor, model: LanguageModel, config: PolicyOptimizerConfig
) -> list[tuple[Tensor, list[Tensor]]]:
    """Micro-batches: numbers of rows, and among them packs that share a prompt, if any does."""
    if not len(index):
        return []
    limit = micro_batch_tokens(model, config)
    if not (config.share_prompts and model.shares_prompts):
        return [(part, []) for part in micro_batches(rows.lengths, index, limit)]
    found = micro_packs(rows, index, limit, model.width)
    return [(part, packs if len(packs) < len(part) else []) for part, packs in found]


def micro_packs(
    rows: Rows, index: Tensor, tokens: int, width: int
) -> list[tuple[Tensor, list[Tensor]]]:
    """Like `micro_batches`, of packs that share a prompt: rows, and packs of numbers among them.

    `width` is the model's.
    """
    prompts, lengths = prompt_lengths(rows).tolist(), rows.lengths.tolist()
    packs = packs_of(rows, index, width)
    sizes = torch.tensor([packed_length(part, prompts, lengths) for part in packs])
    found = []
    for chosen in micro_batches(sizes, torch.arange(len(packs)), tokens):
        parts = [packs[number] for number in chosen.tolist()]
        ends = list(accumulate(len(part) for part in parts))
        own = torch.arange(ends[-1]).tensor_split(ends[:-1])
        found.append((torch.cat(parts), list(own)))
    return found


@torch.no_grad()
def _scored(
    rows: Rows,
    model: LanguageModel,
    config: PolicyOptimizerConfig,
    head: ValueHead | None,
    ranks: Ranks | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities, and values after each place, each rank's rows scored there.

    # (B, T), (B, T)
    """
    ranks = ranks or Ranks()
    log_probs = torch.zeros(rows.tokens.shape, dtype=torch.promote_types(model.dtype, torch.float))
    values = None if head is None else torch.zeros(rows.tokens.shape)
    own = own_rows(torch.arange(len(rows.tokens)), rows.lengths, ranks)
    for index, packs in micro_parts(rows, own, model, config):
        part = rows.at(index)
        width = part.tokens.shape[1]
        scored = model.score(
            part,
            config.sampling.temperature,
            hidden=head is not None,
            packed=pack(part, packs) if packs else None,
        )
        log_probs[index, :width] = scored.log_probs.to("cpu", log_probs.dtype)
        if head is not None and values is not None and scored.hidden is not None:
            reached = head(scored.hidden).float().cpu()
            values[index, :width] = reached.masked_fill(~part.attention, 0.0)
    ranks.add_up([log_probs] if values is None else [log_probs, values])
    return log_probs, values


def _bootstrap(batch: RolloutBatch, reached: Tensor) -> Tensor:
    """Of conversations that were cut off, what their last segment still promised.  # (R,)"""
    last = after_rows(reached, batch.rows.lengths)
    owners = batch.rows.rollouts  # in order, each rollout's segments one after the other
    final = torch.cat([owners[1:] != owners[:-1], torch.tensor([True])])
    return last[final] * torch.tensor([not rollout.terminated for rollout in batch.rollouts])


def _positive(batch: RolloutBatch, config: PolicyOptimizerConfig) -> Tensor:
    if config.positive_return is None:
        return torch.tensor([rollout.success for rollout in batch.rollouts])
    return batch.returns >= config.positive_return


def _teaches(goal: Objective, advantages: Tensor, mask: Tensor) -> Tensor:
    """Rows that add to the gradient."""
    more = (goal.kl, goal.value, goal.entropy_coefficient, goal.positive_coefficient)
    return mask.any(-1) if any(more) else (mask & (advantages != 0)).any(-1)
