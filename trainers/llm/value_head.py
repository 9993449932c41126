"""A critic for language models: what a conversation will still earn, from what was read so far.

    hidden    h0  h1  h2  h3       h_t knows tokens 0 … t
    values     0  v0  v1  v2       of the state before a token, as credit wants them
    after                   v3     of the state after the last one, where a conversation is cut off

Knows nothing of losses.
"""

from __future__ import annotations

from typing import Any

from convgym.errors import MissingExtra
from trainers.llm.policy_config import Critic

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


class ValueHead(nn.Module):
    """One number for each hidden vector; 0 for all of them before it has learnt."""

    def __init__(self, width: int, config: Critic | None = None, dtype: Any = None) -> None:
        super().__init__()
        self.config = config or Critic()
        inner = self.config.hidden
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            own = [nn.LayerNorm(width), nn.Linear(width, inner), nn.Tanh()] if inner else []
            self.body = nn.Sequential(*own).to(dtype)
            self.last = nn.Linear(inner or width, 1).to(dtype)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """What follows each place.  (…, D) → (…)"""
        if not self.config.shared:
            hidden = hidden.detach()
        values: Tensor = self.last(self.body(hidden.to(self.last.weight.dtype)))
        return values[..., 0]


def before_tokens(values: Tensor) -> Tensor:
    """From what follows each place to what each token was chosen in; 0 before the first.

    (B, T) → (B, T)
    """
    return torch.cat([torch.zeros_like(values[:, :1]), values[:, :-1]], -1)


def after_rows(values: Tensor, lengths: Tensor) -> Tensor:
    """What follows the last token of each row.  (B, T), (B,) → (B,)"""
    return values.gather(-1, (lengths[:, None] - 1).to(values.device))[:, 0]


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float:
    """1 − var(returns − values) / var(returns) over tokens; 0 says that a constant does as well.

    0 where returns do not vary.
    """
    kept = mask.bool()
    spread = returns[kept].var(correction=0)
    if not spread > 1e-12:
        return 0.0
    return float(1 - (returns - values)[kept].var(correction=0) / spread)
