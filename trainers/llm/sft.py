"""Supervised fine-tuning on the agent's tokens: of all conversations, or of the best ones only.

    loss     − log π(token | all that stands before it), the mean over the agent's tokens

Imitation is as good as the data; of the top share by return it is better where good conversations
are good throughout, and no better where each has some good turns: that is what `ilql` is for.
Knows nothing of environments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.checkpoints import read_checkpoint, restore, write_checkpoint
from trainers.llm.token_batches import TokenBatches, padded
from trainers.llm.token_policy import TokenPolicy, Tokens
from trainers.llm.tokens import TokenRow

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
    seed: int = 0
    """Of the batches."""

    def __post_init__(self) -> None:
        if not 0.0 < self.top_share <= 1.0:
            raise InvalidConfiguration(f"top_share={self.top_share}; it lies in (0, 1]")
        if self.learning_rate <= 0.0:
            raise InvalidConfiguration(f"learning_rate={self.learning_rate}; it must be above 0")
        if self.batch_size < 1:
            raise InvalidConfiguration(f"batch_size={self.batch_size}; it must be 1 or more")

    def create(self, model: Any) -> SFT:
        """A learner that trains this `TokenModel` in place."""
        return SFT(self, model)


def best_rows(rows: Sequence[TokenRow], share: float) -> list[TokenRow]:
    """The top share of conversations by return from their start, at least one, in their order."""
    earned = np.array([row.returns[0] for row in rows])
    chosen = np.argsort(-earned, kind="stable")[: max(1, round(share * len(rows)))]
    return [rows[number] for number in sorted(chosen)]


class SFT:
    """A model, its optimiser and the steps it has done."""

    def __init__(self, config: SFTConfig, model: Any) -> None:
        self.config, self.model, self.step = config, model, 0
        self.model.eval()  # no dropout, so that the same seed gives the same weights
        learnt = [weights for weights in model.parameters() if weights.requires_grad]
        self._optimizer = torch.optim.Adam(learnt, lr=config.learning_rate)

    def fit(self, rows: Sequence[TokenRow], n_steps: int, report: Report | None = None) -> SFT:
        """Go on for `n_steps`; after `load` as if there had been no break."""
        batches = TokenBatches(best_rows(rows, self.config.top_share))
        for _ in range(n_steps):
            seed = (self.config.seed, self.step)
            batch = batches.draw(self.config.batch_size, seed, _device(self.model))
            logits = self.model.logits(batch.tokens, batch.attention)[batch.row, batch.before]
            loss = F.cross_entropy(logits, batch.token)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self._optimizer.step()
            self.step += 1
            if report is not None:
                report(self.step, {"loss": float(loss.detach())})
        return self

    def policy(self, *, end: int, limit: int = 64, seed: int = 0) -> TokenPolicy:
        """The model as an agent."""
        return TokenPolicy(
            lambda said: next_logits(self.model, said), end=end, limit=limit, seed=seed
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model, optimiser and step."""
        write_checkpoint(
            path, _FORM, self.config, self.step, {"model": self.model}, self._optimizer
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any) -> SFT:
        """What `save` wrote; `model`, of the shape that was trained, takes its weights."""
        config, step, tensors = read_checkpoint(path, _FORM)
        found = cls(SFTConfig(**config), model)
        restore(tensors, {"model": model}, found._optimizer)
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
