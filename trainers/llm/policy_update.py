"""From an iteration's rollouts to new weights: epochs, minibatches, micro-batches, AdamW.

    PolicyBatch ─► minibatch of rows ─► Totals of all of them
                        └─► micro-batch ─► scores ─► its share of the loss ─► gradient, added up
                            of this rank's rows                               over all ranks
                   step, at the rate of its number

How a minibatch is cut into ranks and micro-batches changes the gradient by rounding only. Which
rows are in which minibatch follows from the run's seed and the iteration. Knows nothing of
environments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from convgym.errors import MissingExtra
from trainers.llm.language_model import LanguageModel, Scored
from trainers.llm.losses import Totals
from trainers.llm.objective_loss import objective_loss
from trainers.llm.policy_batches import (
    PolicyBatch,
    micro_batch_tokens,
    micro_batches,
    micro_parts,
)
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.ranks import Ranks, own_rows
from trainers.llm.shared_prompts import pack
from trainers.llm.value_head import ValueHead, before_tokens, explained_variance

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

Penalty = Callable[[int], Tensor]
"""A loss of the weights themselves at an optimiser step, by its number from 0. What it draws, it
draws by that number, so that a run that is taken up goes on as it would have."""
"""A loss of the weights as they are.  # ()"""
_OF_TOKENS = ("clip_share", "policy_kl", "kl", "entropy")
_GAPS = ("sampler_gap", "sampler_gap_max")  # measured here, before the policy has moved
_LEAST, _MOST = ("ratio_min",), ("ratio_max", "sampler_gap_max")


class Watched:
    """Measurements of an iteration: means over its optimiser steps, and extremes."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = defaultdict(list)

    def add(self, values: dict[str, float]) -> None:
        """One optimiser step's."""
        for name, value in values.items():
            self._values[name].append(value)

    def summary(self) -> dict[str, float]:
        """Of all steps."""
        how = dict.fromkeys(_LEAST, np.min) | dict.fromkeys(_MOST, np.max)
        return {n: float(how.get(n, np.mean)(values)) for n, values in self._values.items()}


def minibatches(rows: int, config: PolicyOptimizerConfig, iteration: int) -> Iterator[Tensor]:
    """Numbers of rows, shuffled anew in each epoch and cut into nearly equal parts."""
    for epoch in range(config.epochs):
        rng = np.random.default_rng((config.seed, iteration, epoch))
        for part in np.array_split(rng.permutation(rows), config.minibatches):
            if len(part):
                yield torch.as_tensor(part)


def step_totals(batch: PolicyBatch, index: Tensor, config: PolicyOptimizerConfig) -> Totals:
    """What the means of one optimiser step divide by: all its rows, also those left out."""
    return Totals.of(
        batch.rows.mask[index],
        batch.positive[index],
        count_empty_rows=config.goal.count_empty_rows,
    )


def sampler_gap(batch: PolicyBatch, scored: Scored) -> dict[str, float]:
    """|ℓ learner − ℓ sampler| before the first step: the sum, its number of tokens, and the most.

    Of tokens that this policy sampled and whose log-probability the sampler knew.
    """
    theirs = batch.rows.log_probs
    known = batch.rows.mask & batch.fresh[:, None] & theirs.isfinite()
    gaps = (scored.log_probs.detach() - theirs).abs().masked_fill(~known, 0.0)
    return {
        "sampler_gap": float(gaps.sum()),
        "sampler_gap_tokens": float(known.sum()),
        "sampler_gap_max": float(gaps.max()),
    }


def mean_gap(found: dict[str, float]) -> dict[str, float]:
    """With the mean in place of the sum; without any where nothing was known."""
    names = ("sampler_gap", "sampler_gap_tokens", "sampler_gap_max")
    total, tokens, most = (found.pop(name, 0.0) for name in names)
    return found | ({"sampler_gap": total / tokens, "sampler_gap_max": most} if tokens else {})


class PolicyUpdate:
    """AdamW on the model's weights, and on the critic's at a rate of their own."""

    def __init__(
        self,
        model: LanguageModel,
        head: ValueHead | None,
        config: PolicyOptimizerConfig,
        penalties: Mapping[str, Penalty] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.model, self.head, self.config = model, head, config
        self.ranks = ranks or Ranks()
        self.penalties = dict(penalties or {})
        self.steps = 0
        """Optimiser steps so far."""
        self._learnt = list(model.trainable().values())
        groups = [{"params": self._learnt, "weight_decay": config.weight_decay}]
        if head is not None:
            rate = config.critic.learning_rate
            own = {"params": list(head.parameters()), "lr": rate, "weight_decay": 0.0}
            groups.append(own)
        self.optimizer: torch.optim.Optimizer | None = torch.optim.AdamW(
            groups, lr=config.learning_rate, fused=True
        )

    def run(self, batch: PolicyBatch, iteration: int) -> dict[str, float]:
        """Learn from an iteration's rows; what to watch."""
        watched = Watched()
        for number, index in enumerate(minibatches(len(batch.teaches), self.config, iteration)):
            if bool(batch.teaches[index].any()):
                watched.add(self._step(batch, index, measures_sampler=number == 0))
            elif self.penalties:  # they have something to say where rewards have not
                watched.add(self._penalty_alone())
        found = watched.summary()
        if batch.old_values is not None and batch.returns is not None:
            found["explained_variance"] = explained_variance(
                batch.old_values, batch.returns, batch.rows.mask
            )
        return found

    def pretrain(self, batch: PolicyBatch) -> dict[str, float]:
        """Teach the critic alone, of a policy that stays as it is."""
        head, optimizer = self.head, self.optimizer
        assert head is not None and optimizer is not None and batch.returns is not None
        hidden, returns = self._places(batch)
        for _ in range(self.config.critic.pretraining_epochs):
            loss = (head(hidden) - returns).square().mean() / 2
            optimizer.zero_grad(set_to_none=True)  # the model's stay None, so it does not move
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            values = head(hidden)
        everything = torch.ones_like(values)
        return {
            "value_loss": float((values - returns).square().mean() / 2),
            "explained_variance": explained_variance(values, returns, everything),
        }

    @torch.no_grad()
    def _places(self, batch: PolicyBatch) -> tuple[Tensor, Tensor]:
        """Hidden vectors before sampled tokens, and the returns from there.  # (N, D), (N,)"""
        hidden, returns = [], []
        every = torch.arange(len(batch.teaches))
        size = micro_batch_tokens(self.model, self.config)
        for index in micro_batches(batch.rows.lengths, every, size):
            part = batch.at(index)
            states = self.model.score(part.rows, hidden=True).hidden
            assert states is not None and part.returns is not None
            predicted = part.rows.mask[:, 1:]
            hidden.append(states[:, :-1][predicted.to(states.device)])
            returns.append(part.returns[:, 1:][predicted])
        return torch.cat(hidden), torch.cat(returns).to(hidden[0].device)

    def _step(self, batch: PolicyBatch, index: Tensor, measures_sampler: bool) -> dict[str, float]:
        """One optimiser step on these rows."""
        optimizer = self.optimizer
        assert optimizer is not None
        totals, added = step_totals(batch, index, self.config), Watched()
        scored_rows = index[batch.teaches[index]] if self.config.skip_zero_advantages else index
        optimizer.zero_grad(set_to_none=True)
        own = own_rows(scored_rows, batch.rows.lengths, self.ranks)
        found_here = [
            self._gradient(batch.at(rows), packs, totals, measures_sampler)
            for rows, packs in micro_parts(batch.rows, own, self.model, self.config)
        ]
        learnt = [weight for group in optimizer.param_groups for weight in group["params"]]
        self.ranks.add_up_gradients(learnt)
        parts = [part for found in self.ranks.gathered(found_here) for part in found]
        for part in parts:
            added.add(part)
        tokens = int(batch.rows.mask[scored_rows].sum())
        found = mean_gap(_added_up(added, len(parts), totals.tokens / max(1, tokens)))
        return found | self._penalty() | self._move(optimizer)

    def _penalty_alone(self) -> dict[str, float]:
        """One optimiser step where no row teaches."""
        optimizer = self.optimizer
        assert optimizer is not None
        optimizer.zero_grad(set_to_none=True)
        return self._penalty() | self._move(optimizer)

    def _penalty(self) -> dict[str, float]:
        """Losses of the weights themselves, added to the gradient."""
        found = {}
        for name, penalty in self.penalties.items():
            loss = penalty(self.steps)
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            found[name] = float(loss.detach())
        return found

    def _gradient(
        self, part: PolicyBatch, packs: list[Tensor], totals: Totals, measures_sampler: bool
    ) -> dict[str, float]:
        """Of a micro-batch, added to what is there."""
        goal, head = self.config.goal, self.head
        packed = pack(part.rows, packs) if packs else None
        part = part.to(self.model.device)
        scored = self.model.score(
            part.rows,
            self.config.sampling.temperature,
            entropies=True if goal.entropy_coefficient else "detached",
            hidden=head is not None,
            packed=packed,
        )
        values = None
        if head is not None and scored.hidden is not None:
            values = before_tokens(head(scored.hidden))
        loss, shown = objective_loss(goal, part.inputs(goal, scored, values), totals)
        loss.backward()  # type: ignore[no-untyped-call]
        found = {"loss": float(loss.detach())} | {
            name: float(value) for name, value in shown.items() if name not in _GAPS
        }
        return found | (sampler_gap(part, scored) if measures_sampler else {})

    def _move(self, optimizer: torch.optim.Optimizer) -> dict[str, float]:
        """Take the step, unless the gradient is no number."""
        limit = self.config.max_grad_norm
        norm = nn.utils.clip_grad_norm_(self._learnt, float("inf") if limit is None else limit)
        rate = self.config.rate(self.steps)
        finite = bool(norm.isfinite())
        if finite:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
        self.steps += 1
        found = {"learning_rate": rate, "lost_steps": float(not finite)}
        return found | ({"grad_norm": float(norm)} if finite else {})


def _added_up(added: Watched, parts: int, share: float) -> dict[str, float]:
    """Of one optimiser step: shares of its parts make sums, extremes stay extremes.

    `share`: means over tokens are of the tokens that were scored, not of all.
    """
    found = added.summary()
    for name in found:
        if name not in _LEAST + _MOST:
            found[name] *= parts * (share if name in _OF_TOKENS else 1.0)
    return found
