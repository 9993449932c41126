"""Trust-region steps for language models: TRPO (arXiv:1502.05477) on whatever of a model learns.

    rows ─► gradient of the surrogate ─► natural step ─► line search: gains, and KL(old ‖ new) ≤ δ
                       F·v: second derivatives of KL at the sampled places ┘

The divergence is exact, over the whole vocabulary at each sampled place, which is kept for a
minibatch: N · V numbers. So this is for adapters, heads and models of small vocabularies.
Knows nothing of environments; the linear algebra is in `natural_step`.
"""

from __future__ import annotations

from dataclasses import replace

from convgym.errors import MissingExtra
from trainers.llm.language_model import LanguageModel, Scored
from trainers.llm.losses import Totals
from trainers.llm.natural_step import natural_step
from trainers.llm.objective_loss import objective_loss
from trainers.llm.policy_batches import PolicyBatch, micro_batch_tokens, micro_batches
from trainers.llm.policy_config import PolicyOptimizerConfig, TrustRegion
from trainers.llm.policy_update import Watched, mean_gap, minibatches, sampler_gap, step_totals

try:
    import torch
    from torch import Tensor
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


class TrustRegionUpdate:
    """One natural step for each minibatch; the objective's clip is not used."""

    def __init__(self, model: LanguageModel, config: PolicyOptimizerConfig) -> None:
        self.model, self.config = model, config
        self.region = config.trust_region or TrustRegion()
        self.goal = replace(config.goal, clip=None)
        self.steps = 0
        self.optimizer: torch.optim.Optimizer | None = None
        self._learnt = list(model.trainable().values())

    def run(self, batch: PolicyBatch, iteration: int) -> dict[str, float]:
        """Learn from an iteration's rows; what to watch."""
        watched = Watched()
        for number, index in enumerate(minibatches(len(batch.teaches), self.config, iteration)):
            if bool(batch.teaches[index].any()):
                watched.add(self._step(batch, index, measures_sampler=number == 0))
        return watched.summary()

    def _step(self, batch: PolicyBatch, index: Tensor, measures_sampler: bool) -> dict[str, float]:
        region, totals = self.region, step_totals(batch, index, self.config)
        parts = [self._with_old(part) for part in self._parts(batch, index)]
        curved = self._parts(batch, self._curved(batch, index))
        begun, gradient, found = self._gradient(parts, totals)
        if measures_sampler:
            found |= self._sampler_gap(parts)
        with torch.no_grad():
            old = [self._distributions(part) for part in parts]
        direction, length = natural_step(
            gradient,
            lambda vector: self._fisher_product(curved, vector),
            max_kl=region.max_kl,
            damping=region.damping,
            iterations=region.iterations,
        )
        start = self._weights()
        self.steps += 1
        for attempt in range(region.attempts):
            stride = float(length) * region.shrink**attempt
            self._put(start - stride * direction)
            loss, divergence = self._measured(parts, old, totals)
            if loss < begun and divergence <= region.max_kl:
                gain = begun - loss
                return found | {"policy_kl": divergence, "step_length": stride, "gain": gain}
        self._put(start)
        return found | {"policy_kl": 0.0, "step_length": 0.0, "gain": 0.0}

    def _parts(self, batch: PolicyBatch, index: Tensor) -> list[PolicyBatch]:
        """These rows in micro-batches, where the model is."""
        size = micro_batch_tokens(self.model, self.config)
        return [
            batch.at(rows).to(self.model.device)
            for rows in micro_batches(batch.rows.lengths, index, size)
        ]

    def _curved(self, batch: PolicyBatch, index: Tensor) -> Tensor:
        """Rows on which the curvature is measured: the first of an order that is drawn."""
        spoken = index[batch.rows.mask[index].any(dim=1)]
        return spoken[: max(1, round(self.region.curvature_share * len(spoken)))]

    # -- what is measured --------------------------------------------------------------------------

    @torch.no_grad()
    def _with_old(self, part: PolicyBatch) -> PolicyBatch:
        """Ratios of a line search are to where it began."""
        if part.old_log_probs is not None:
            return part
        return replace(part, old_log_probs=self._scored(part).log_probs)

    def _scored(self, part: PolicyBatch) -> Scored:
        wants = "detached" if not self.goal.entropy_coefficient else True
        return self.model.score(part.rows, self.config.sampling.temperature, entropies=wants)  # type: ignore[arg-type]

    def _distributions(self, part: PolicyBatch) -> Tensor:
        """log π of every token at the places of those that were sampled.  # (N, V)"""
        return self.model.distributions(part.rows, self.config.sampling.temperature)

    def _gradient(
        self, parts: list[PolicyBatch], totals: Totals
    ) -> tuple[float, Tensor, dict[str, float]]:
        """The loss at the weights as they are, and its gradient (P,)."""
        loss, spread = 0.0, 0.0
        gradient = torch.zeros_like(self._weights())
        for part in parts:
            scored = self._scored(part)
            share, _ = objective_loss(self.goal, part.inputs(self.goal, scored, None), totals)
            gradient += self._flat_gradient(share)
            loss += float(share.detach())
            if scored.entropies is not None:
                spread += float(scored.entropies.detach().sum())
        found = {"loss": loss, "grad_norm": float(gradient.norm())}
        return loss, gradient, found | {"entropy": spread / max(1, totals.tokens)}

    @torch.no_grad()
    def _measured(
        self, parts: list[PolicyBatch], old: list[Tensor], totals: Totals
    ) -> tuple[float, float]:
        """The loss, and the mean of KL(old ‖ new) over sampled tokens."""
        loss = divergence = 0.0
        for part, before in zip(parts, old, strict=True):
            inputs = part.inputs(self.goal, self._scored(part), None)
            loss += float(objective_loss(self.goal, inputs, totals)[0])
            divergence += float(_divergence(before, self._distributions(part)))
        return loss, divergence / max(1, totals.tokens)

    @torch.no_grad()
    def _sampler_gap(self, parts: list[PolicyBatch]) -> dict[str, float]:
        gaps = [sampler_gap(part, self._scored(part)) for part in parts]
        added = {name: sum(gap[name] for gap in gaps) for name in gaps[0]}
        return mean_gap(added | {"sampler_gap_max": max(gap["sampler_gap_max"] for gap in gaps)})

    def _fisher_product(self, parts: list[PolicyBatch], vector: Tensor) -> Tensor:
        """F v, the second derivative of KL(old ‖ new) where new is old.  (P,) → (P,)"""
        product = torch.zeros_like(vector)
        tokens = max(1, sum(int(part.rows.mask.sum()) for part in parts))
        for part in parts:
            with sdpa_kernel(SDPBackend.MATH):  # others have no second derivative
                logs = self._distributions(part)
                divergence = _divergence(logs.detach(), logs) / tokens
                slope = self._flat_gradient(divergence, twice=True)
                product += self._flat_gradient(slope @ vector)
        return product

    # -- weights as one vector ---------------------------------------------------------------------

    def _weights(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self._learnt])

    @torch.no_grad()
    def _put(self, weights: Tensor) -> None:
        sizes = [p.numel() for p in self._learnt]
        for p, part in zip(self._learnt, weights.split(sizes), strict=True):
            p.copy_(part.view_as(p))

    def _flat_gradient(self, value: Tensor, twice: bool = False) -> Tensor:
        found = torch.autograd.grad(
            value, self._learnt, create_graph=twice, materialize_grads=True, allow_unused=True
        )
        return torch.cat([gradient.flatten() for gradient in found])


def _divergence(old: Tensor, new: Tensor) -> Tensor:
    """Σ KL(old ‖ new) over rows of log-probabilities.  (N, V), (N, V) → ()"""
    return (old.exp() * (old - new)).sum()
