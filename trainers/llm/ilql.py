"""Implicit language Q-learning: a language model's words weighed by what they lead to.

    data ─► SFT model ──────────────── log π ──────────┐
      │       └ copy ─► value model ─┬─ Q1, Q2 (words) ─┼─► log π + β (min Q − V) ─► next word
      │                              └─ V ──────────────┘
      └─► steps between agent words: r + γ V(next) ─► Q;   expectile of target Q ─► V

What a newcomer would get wrong: the policy is never trained; it is the SFT model with its logits
moved at every word, so that what the data do not say stays unlikely. γ counts utterances, and
inside one the value of a word is that of the word after it. Targets are of a slow (Polyak)
average of the value model. Knows nothing of environments.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.functional import expectile_loss
from trainers.llm.checkpoints import read_checkpoint, restore, write_checkpoint
from trainers.llm.ilql_losses import (
    conservative_loss,
    mean_of,
    perturbed,
    td_loss,
    td_targets,
)
from trainers.llm.sft import Report, last_of, next_logits
from trainers.llm.token_batches import TokenBatch, TokenBatches, padded
from trainers.llm.token_policy import BestOf, TokenPolicy, Tokens
from trainers.llm.tokens import TokenRow

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

_FORM = "convgym ilql 1"


@dataclass(frozen=True, kw_only=True)
class ILQLConfig:
    """Implicit language Q-learning (Snell et al., 2022, arXiv:2206.11871).

    L = Σᵢ (r + γ V(s') − Qᵢ(s, a))²  +  |τ − 1(Q̂ < V)| (Q̂ − V)²  +  α Σᵢ CE(softmax Qᵢ, a)

    with Q̂ the smaller of both target values and s' the place of the agent's next token. Differs
    from the paper: the discount counts utterances, not tokens.
    """

    expectile: float = 0.8
    """τ, in (0, 1): 0.5 values the data as they are, higher trusts their better words more."""
    discount: float = 0.99
    """γ per utterance; in [0, 1]."""
    conservatism: float = 0.01
    """α: how much words that the data do not say are held down."""
    beta: float = 16.0
    """β: how far values move the policy; 0 is the SFT model."""
    polyak: float = 0.05
    """How far the target goes towards the value model at each step; in (0, 1]."""
    learning_rate: float = 1e-3
    """Of Adam."""
    batch_size: int = 64
    """Conversations a step."""
    seed: int = 0
    """Of the heads' first weights and of the batches."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.discount <= 1.0:
            raise InvalidConfiguration(f"discount={self.discount}; it lies in [0, 1]")
        for name in ("conservatism", "beta"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise InvalidConfiguration(f"{name}={getattr(self, name)}; it is a number ≥ 0")
        if not 0.0 < self.expectile < 1.0:
            raise InvalidConfiguration(f"expectile={self.expectile}; it lies between 0 and 1")
        if not 0.0 < self.polyak <= 1.0:
            raise InvalidConfiguration(f"polyak={self.polyak}; it lies in (0, 1]")
        if self.learning_rate <= 0.0:
            raise InvalidConfiguration(f"learning_rate={self.learning_rate}; it must be above 0")
        if self.batch_size < 1:
            raise InvalidConfiguration(f"batch_size={self.batch_size}; it must be 1 or more")

    def create(self, model: Any) -> ILQL:
        """A learner over a `TokenModel` after SFT; its weights are copied, and stay as they are."""
        return ILQL(self, model)


class ValueNetwork(nn.Module):
    """Two action values for every word, and a state value, at any place of a row."""

    def __init__(self, model: Any, seed: int) -> None:
        super().__init__()
        self.body = copy.deepcopy(model)
        device = next(model.parameters()).device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.q = nn.ModuleList([_head(model.width, model.vocabulary) for _ in range(2)])
            self.v = _head(model.width, 1)
        self.to(device).eval()  # no dropout: a value that flickers is a bad target

    def hidden(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """(B, L) → (B, L, width)"""
        found: Tensor = self.body.hidden(tokens, attention)
        return found

    def action_values(self, hidden: Tensor) -> Tensor:
        """(M, width) → (2, M, vocabulary)"""
        return torch.stack([head(hidden) for head in self.q])

    def state_values(self, hidden: Tensor) -> Tensor:
        """(M, width) → (M,)"""
        found: Tensor = self.v(hidden)[..., 0]
        return found


def _head(width: int, size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, size))


class ILQL:
    """The SFT model, its value model, the target of that, and the steps done."""

    def __init__(self, config: ILQLConfig, model: Any) -> None:
        self.config, self.model, self.step = config, model.eval(), 0
        self.value = ValueNetwork(model, config.seed)
        self.target = copy.deepcopy(self.value).requires_grad_(False)
        learnt = [weights for weights in self.value.parameters() if weights.requires_grad]
        self._optimizer = torch.optim.Adam(learnt, lr=config.learning_rate)

    def fit(self, rows: Sequence[TokenRow], n_steps: int, report: Report | None = None) -> ILQL:
        """Go on for `n_steps`; after `load` as if there had been no break.

        Rows are whole conversations, as `conversation_row` makes them.
        """
        batches = TokenBatches(rows, self.config.discount)
        device = next(self.model.parameters()).device
        for _ in range(n_steps):
            batch = batches.draw(self.config.batch_size, (self.config.seed, self.step), device)
            losses = self.losses(batch)
            self._optimizer.zero_grad(set_to_none=True)
            torch.stack(list(losses.values())).sum().backward()
            self._optimizer.step()
            self._follow()
            self.step += 1
            if report is not None:
                report(self.step, {name: float(loss.detach()) for name, loss in losses.items()})
        return self

    def losses(self, batch: TokenBatch) -> dict[str, Tensor]:
        """The three terms of the loss of a batch, as they are added."""
        seen = self.value.hidden(batch.tokens, batch.attention)
        here = seen[batch.row, batch.before]
        q, v = self.value.action_values(here), self.value.state_values(here)
        with torch.no_grad():
            followed = self.value.state_values(seen[batch.row, batch.after])
            believed = self.target.hidden(batch.tokens, batch.attention)[batch.row, batch.before]
            q_hat = _of(self.target.action_values(believed), batch.token).amin(dim=0)
        targets = td_targets(batch.reward, batch.discount, followed)
        above = expectile_loss(q_hat.detach() - v, self.config.expectile)
        return {
            "td": mean_of(td_loss(_of(q, batch.token), targets), batch.known),
            "value": mean_of(above, batch.known),
            "conservative": self.config.conservatism * conservative_loss(q, batch.token).mean(),
        }

    @torch.no_grad()
    def _follow(self) -> None:
        pairs = zip(self.target.parameters(), self.value.parameters(), strict=True)
        for slow, fast in pairs:
            slow.lerp_(fast, self.config.polyak)

    # -- acting ------------------------------------------------------------------------------------

    def scores(self, said: Sequence[Tokens], beta: float | None = None) -> Tensor:
        """log π_SFT + β (Q − V) of the token that follows each of n rows.  # (n, vocabulary)"""
        q, v = self.values(said)
        beta = self.config.beta if beta is None else beta
        return perturbed(next_logits(self.model, said), q, v, beta)

    @torch.inference_mode()
    def values(self, said: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """The smaller Q of each next token, and V, by the target.  # (n, vocabulary), (n,)"""
        tokens, attention = padded(said, next(self.model.parameters()).device)
        last = last_of(self.target.hidden(tokens, attention), attention)
        return self.target.action_values(last).amin(dim=0), self.target.state_values(last)

    def reply_values(
        self, said: Sequence[Tokens], replies: Sequence[Tokens]
    ) -> NDArray[np.float64]:
        """Of whole replies: the Q of the token that ends each.  # (n,)"""
        rows = [np.concatenate([row, reply[:-1]]) for row, reply in zip(said, replies, strict=True)]
        q, _ = self.values(rows)
        ends = torch.tensor([int(reply[-1]) for reply in replies], device=q.device)
        return q.gather(1, ends[:, None])[:, 0].double().cpu().numpy()

    def policy(
        self, *, end: int, limit: int = 64, beta: float | None = None, seed: int = 0
    ) -> TokenPolicy:
        """The improved policy; `beta` None is that of the config."""
        return TokenPolicy(lambda said: self.scores(said, beta), end=end, limit=limit, seed=seed)

    def best_of(self, *, end: int, limit: int = 64, candidates: int = 8, seed: int = 0) -> BestOf:
        """The SFT model's most valuable reply of several: no word is moved, replies are chosen."""
        proposals = TokenPolicy(
            lambda said: next_logits(self.model, said), end=end, limit=limit, seed=seed
        )
        return BestOf(proposals, self.reply_values, candidates)

    # -- file --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all models, the optimiser and the step."""
        write_checkpoint(path, _FORM, self.config, self.step, self._modules(), self._optimizer)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any) -> ILQL:
        """What `save` wrote; `model`, of the shape of the SFT model, takes its weights."""
        config, step, tensors = read_checkpoint(path, _FORM)
        found = cls(ILQLConfig(**config), model)
        restore(tensors, found._modules(), found._optimizer)
        found.step = step
        return found

    def _modules(self) -> dict[str, nn.Module]:
        return {"model": self.model, "value": self.value, "target": self.target}


def _of(q: Tensor, tokens: Tensor) -> Tensor:
    """The values of the tokens that were said.  (2, M, N), (M,) → (2, M)"""
    return q.gather(2, tokens.expand(len(q), -1)[..., None])[..., 0]
