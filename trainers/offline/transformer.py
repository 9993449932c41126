"""A small causal transformer that reads a conversation as returns, states and actions.

    turn      0           1           2
    token     R0  s0  a0  R1  s1  a1  R2  s2        each sees itself and what stands left of it
    output        ↓           ↓           ↓
                  a0          a1          a2        logits of acts, or a vector

Conversations are padded on the right. Nothing looks to the right, so padding is never seen, and
a conversation has the same outputs alone and beside any others. Knows nothing of losses.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from convgym.errors import InvalidConfiguration
from trainers.offline.losses import legal_only


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What a Decision Transformer is built from."""

    observation: int
    """Entries of an observation."""
    actions: int
    """Acts, or entries of a vector."""
    discrete: bool
    context: int
    """Turns it sees at most."""
    turns: int
    """Numbers of turns it tells apart; later turns count as the last of them."""
    width: int
    heads: int
    layers: int
    max_return: float
    """What returns are divided by."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class DecisionTransformer(nn.Module):
    """The model of Chen et al. (2021, arXiv:2106.01345): figure 1, algorithm 1.

    Differs from the paper: layers are normalised before, not after, attention (as in GPT-2), and
    attention itself has no dropout. Vectors lie between `low` and `high` where both are finite.
    """

    low: Tensor  # (actions,) of vectors, else empty
    high: Tensor

    def __init__(
        self, architecture: Architecture, low: Tensor | None = None, high: Tensor | None = None
    ) -> None:
        super().__init__()
        self.architecture = known = architecture
        width = known.width
        self.of_return = nn.Linear(1, width)
        self.of_state = nn.Linear(known.observation, width)
        reader: type[nn.Embedding | nn.Linear] = nn.Embedding if known.discrete else nn.Linear
        self.of_action = reader(known.actions, width)
        self.of_turn = nn.Embedding(known.turns, width)
        self.first_norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, known.heads) for _ in range(known.layers))
        self.head = nn.Linear(width, known.actions)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)
        none = torch.full((0 if known.discrete else known.actions,), torch.inf)
        self.register_buffer("low", -none if low is None else low.clone())
        self.register_buffer("high", none if high is None else high.clone())

    def forward(
        self,
        states: Tensor,  # (B, T, observation)
        actions: Tensor,  # (B, T) acts, or (B, T, actions); those of turn t are seen after it
        returns_to_go: Tensor,  # (B, T), as the data have them
        timesteps: Tensor,  # (B, T) numbers of turns, from 0
        masks: Tensor | None = None,  # (B, T, actions) bool
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits of each turn's act, −∞ for illegal ones, or its vector.  # (B, T, actions)"""
        scaled = returns_to_go[..., None].to(states.dtype) / self.architecture.max_return
        tokens = torch.stack(
            [self.of_return(scaled), self.of_state(states), self.of_action(actions)], dim=2
        )
        turn = self.of_turn(timesteps.clamp(max=self.architecture.turns - 1))
        # The last action has nothing to its right.
        x = (tokens + turn[:, :, None]).flatten(1, 2)[:, :-1]  # (B, 3 T − 1, width)
        x = dropped(self.first_norm(x), dropout, generator)
        for block in self.blocks:
            x = block(x, dropout, generator)
        found = self.head(self.last_norm(x[:, 1::3])).float()
        if self.architecture.discrete:
            return legal_only(found, masks)
        if not (self.low.isfinite() & self.high.isfinite()).all():
            return found
        return self.low + (found.tanh() + 1) / 2 * (self.high - self.low)

    @torch.no_grad()
    def last(
        self,
        states: Tensor,
        actions: Tensor,
        returns_to_go: Tensor,
        timesteps: Tensor,
        masks: Tensor | None = None,  # (B, actions) bool, of the last turn
        lengths: Tensor | None = None,  # (B,) turns of each conversation; None is T
    ) -> Tensor:
        """`forward` at each conversation's last turn.  # (B, actions)"""
        found = self(states, actions, returns_to_go, timesteps)
        if lengths is None:
            found = found[:, -1]
        else:
            found = found[torch.arange(len(found), device=found.device), lengths - 1]
        return legal_only(found, masks) if self.architecture.discrete else found

    def generate(
        self,
        states: Tensor,  # (B, T, observation)
        actions: Tensor,  # (B, T − 1), or (B, T), where the last is not looked at; vectors (…, A)
        returns_to_go: Tensor,  # (B, T)
        timesteps: Tensor,  # (B, T)
        masks: Tensor | None = None,  # (B, actions) bool, of the last turn
    ) -> Tensor:
        """The action of the last turn: the best legal act (B,), or a vector (B, actions).

        Of conversations longer than `context`, the last turns are read. Raises
        InvalidConfiguration for shapes that do not fit together.
        """
        turns = states.shape[1]
        if actions.shape[1] == turns - 1:
            unknown = actions.new_zeros(len(actions), 1, *actions.shape[2:])
            actions = torch.cat([actions, unknown], dim=1)
        if not turns == actions.shape[1] == returns_to_go.shape[1] == timesteps.shape[1] >= 1:
            raise InvalidConfiguration(
                f"{turns} states, {actions.shape[1]} actions, {returns_to_go.shape[1]} returns and "
                f"{timesteps.shape[1]} timesteps came; each turn has one, the last action may miss"
            )
        seen = slice(-self.architecture.context, None)
        found = self.last(
            states[:, seen], actions[:, seen], returns_to_go[:, seen], timesteps[:, seen], masks
        )
        return found.argmax(-1) if self.architecture.discrete else found


class Block(nn.Module):
    """Attention to what stands left, then two layers for each token alone."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.layers_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x: Tensor, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """(B, L, width) → (B, L, width)"""
        parts = self.queries_keys_values(self.attention_norm(x))
        each = parts.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (3, B, H, L, D)
        seen = functional.scaled_dot_product_attention(each[0], each[1], each[2], is_causal=True)
        x = x + dropped(self.mixed(seen.transpose(1, 2).flatten(2)), dropout, generator)
        wide = functional.gelu(self.up(self.layers_norm(x)))
        return x + dropped(self.down(wide), dropout, generator)


def dropped(x: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Dropout (Srivastava et al., 2014) by a generator that can be saved, as torch's own cannot."""
    if not share:
        return x
    kept = torch.empty_like(x, dtype=torch.float32).bernoulli_(1 - share, generator=generator)
    return x * kept.to(x.dtype) / (1 - share)
