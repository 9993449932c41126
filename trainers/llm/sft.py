"""Supervised fine-tuning on the agent's tokens: of all conversations, or of the best ones only.

    loss     − log π(token | all that stands before it), the mean over the agent's tokens

Imitation is as good as the data; of the top share by return it is better where good conversations
are good throughout, and no better where each has some good turns: that is what `ilql` is for.
The model is a LanguageModel, adapters or not, a causal model of transformers, or any `TokenModel`;
a LanguageModel computes logits at the agent's tokens only. Knows nothing of environments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.checkpoints import (
    put_weights,
    read_checkpoint,
    restore,
    weights_of,
    write_checkpoint,
)
from trainers.llm.rollouts import Rows
from trainers.llm.token_batches import TokenBatch, TokenBatches, padded
from trainers.llm.token_models import token_model
from trainers.llm.token_policy import TokenPolicy, Tokens
from trainers.llm.tokens import TokenRow
from trainers.option_kinds import check_kinds

try:
    import torch
    from torch.nn import functional as F
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

Report = Callable[[int, dict[str, float]], None]
"""Called after each step with its number and what was measured."""
_FORM = "convgym sft 1"


@dataclass(frozen=True, kw_only=True)
class SFTConfig:
    """Maximum likelihood of the agent's tokens; with `top_share` below 1, filtered cloning."""

    top_share: float = 1.0
    """Share of the conversations to learn from, those of the highest return; in (0, 1]."""
    learning_rate: float = 2e-3
    """Of Adam."""
    batch_size: int = 64
    """Conversations a step."""
    micro_batch_size: int | None = None
    """Conversations whose gradients are computed together; None: all of a step."""
    seed: int = 0
    """Of the batches."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 0.0 < self.top_share <= 1.0:
            raise InvalidConfiguration(f"top_share={self.top_share}; it lies in (0, 1]")
        if self.learning_rate <= 0.0:
            raise InvalidConfiguration(f"learning_rate={self.learning_rate}; it must be above 0")
        if self.batch_size < 1:
            raise InvalidConfiguration(f"batch_size={self.batch_size}; it must be 1 or more")
        if self.micro_batch_size is not None and self.micro_batch_size < 1:
            raise InvalidConfiguration(
                f"micro_batch_size={self.micro_batch_size}; it must be 1 or more, or None"
            )

    def create(self, model: Any) -> SFT:
        """A learner that trains this LanguageModel, transformers model or TokenModel in place."""
        return SFT(self, model)


def best_rows(rows: Sequence[TokenRow], share: float) -> list[TokenRow]:
    """The top share of conversations by return from their start, at least one, in their order."""
    earned = np.array([row.returns[0] for row in rows])
    chosen = np.argsort(-earned, kind="stable")[: max(1, round(share * len(rows)))]
    return [rows[number] for number in sorted(chosen)]


class SFT:
    """A model, its optimiser and the steps it has done."""

    def __init__(self, config: SFTConfig, model: Any) -> None:
        self.config, self.model, self.step = config, token_model(model), 0
        self._language = model if hasattr(model, "score") else None
        self.model.eval()  # no dropout, so that the same seed gives the same weights
        learnt = [weights for weights in self.model.parameters() if weights.requires_grad]
        self._optimizer = torch.optim.Adam(learnt, lr=config.learning_rate)

    def fit(self, rows: Sequence[TokenRow], n_steps: int, report: Report | None = None) -> SFT:
        """Go on for `n_steps`; after `load` as if there had been no break."""
        batches = TokenBatches(best_rows(rows, self.config.top_share))
        size = self.config.micro_batch_size or self.config.batch_size
        for _ in range(n_steps):
            numbers = batches.numbers(self.config.batch_size, (self.config.seed, self.step))
            pieces = [numbers[first : first + size] for first in range(0, len(numbers), size)]
            made = [batches.batch(piece, _device(self.model)) for piece in pieces]
            tokens = sum(len(batch.token) for batch in made)
            self._optimizer.zero_grad(set_to_none=True)
            loss = 0.0
            for batch in made:
                share = self._loss(batch) * (len(batch.token) / tokens)
                share.backward()
                loss += float(share.detach())
            self._optimizer.step()
            self.step += 1
            if report is not None:
                report(self.step, {"loss": loss})
        return self

    def _loss(self, batch: TokenBatch) -> Tensor:
        """Mean over the agent's tokens."""
        if self._language is None:
            logits = self.model.logits(batch.tokens, batch.attention)[batch.row, batch.before]
            return F.cross_entropy(logits, batch.token)
        turns = torch.full_like(batch.tokens, -1)
        turns[batch.row, batch.before + 1] = 0
        numbers = torch.arange(len(turns), device=turns.device)
        rows = Rows(
            batch.tokens, batch.attention, turns, torch.zeros(turns.shape, device=turns.device),
            numbers,
        )  # fmt: skip
        log_probs: Tensor = self._language.score(rows).log_probs
        return -log_probs[batch.row, batch.before + 1].mean()

    def policy(self, *, end: int, limit: int = 64, seed: int = 0) -> TokenPolicy:
        """The model as an agent."""
        return TokenPolicy(
            lambda said: next_logits(self.model, said), end=end, limit=limit, seed=seed
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model, optimiser and step; of a LanguageModel with adapters the adapters alone."""
        language = self._language
        write_checkpoint(
            path,
            _FORM,
            self.config,
            self.step,
            {"model": self.model} if language is None else {},
            self._optimizer,
            None if language is None else weights_of(language.trainable()),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any) -> SFT:
        """What `save` wrote; `model`, of the shape that was trained, takes its weights."""
        config, step, tensors = read_checkpoint(path, _FORM)
        found = cls(SFTConfig(**config), model)
        if found._language is not None:
            put_weights(tensors, found._language.trainable())
        restore(tensors, {"model": found.model} if found._language is None else {},
                found._optimizer)  # fmt: skip
        found.step = step
        return found


@torch.inference_mode()
def next_logits(model: Any, said: Sequence[Tokens]) -> Tensor:
    """Of the token that follows each of n rows.  # (n, vocabulary)"""
    tokens, attention = padded(said, _device(model))
    return last_of(model.logits(tokens, attention), attention)


def last_of(rows: Tensor, attention: Tensor) -> Tensor:
    """What stands at the last real place of each row.  (B, L, …) → (B, …)"""
    return rows[torch.arange(len(rows), device=rows.device), attention.sum(dim=1) - 1]


def _device(model: Any) -> torch.device:
    device: torch.device = next(model.parameters()).device
    return device
