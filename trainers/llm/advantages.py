"""How much better than expected a conversation, a turn or a token was; pure, on tensors.

    rewards   1  0  ·  |  .2  .2     a group: the same task, user and seed, played G times
    groups    7  7  7  |   3   3     any whole numbers, in any order
    valid     1  1  0  |   1   1     0: the rollout failed; it is in no mean, its advantage is 0
    mean      .5 .5 ·  |  .2  .2
    result    +  −  0  |   0   0     a group without spread teaches nothing: exactly 0

B conversations of N agent turns and T tokens; `turns` (B, T) says which turn a token belongs to,
−1 on what the agent did not say, as in `trainers.llm.tokens`. Rewards are floats. Knows nothing of
models or losses.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Baseline = Literal["mean", "leave_one_out"]
Scale = Literal["group", "batch", "none"]


# -- groups ----------------------------------------------------------------------------------------


def group_advantages(
    rewards: Tensor,
    groups: Tensor,
    *,
    baseline: Baseline = "mean",
    scale: Scale = "group",
    epsilon: float = 1e-4,
    correction: int = 1,
    valid: Tensor | None = None,
) -> Tensor:
    """Rewards less what the row's group earned, over their spread (arXiv:2402.03300, §4.1.2).

        A_i = (r_i − b_i) / (std + ε)

    baseline    "mean" of the group; "leave_one_out": of its other rows (RLOO, arXiv:2402.14740)
    scale       "group": std of the group; "batch": of all rewards; "none": 1 and no ε, which is
                Dr. GRPO (arXiv:2503.20783)
    correction  1 divides by G − 1 in the std (trl, verl), 0 by G (ART)
    valid       (B,) or as `rewards`: False where there is no reward, whatever stands there

    A second axis of rewards is turns: each has statistics of its own, over who played it. A row
    that is alone or in a group without spread gets exactly 0.  (B,) or (B, N), (B,) → as rewards,
    and float64 where those are whole numbers
    """
    rewards = rewards if rewards.is_floating_point() else rewards.double()
    counted = _counted(rewards, valid)
    rewards = rewards.masked_fill(~counted, 0.0)
    number = _over_groups(counted.to(rewards.dtype), groups, "sum")
    mean = _over_groups(rewards, groups, "sum") / number.clamp(min=1)
    centred = (rewards - mean).masked_fill(~counted, 0.0)
    advantages = centred * number / (number - 1) if baseline == "leave_one_out" else centred
    if scale == "group":
        squares = _over_groups(centred.square(), groups, "sum")
        advantages = advantages / ((squares / (number - correction)).sqrt() + epsilon)
    elif scale == "batch":
        around = (rewards - rewards.sum() / counted.sum()).masked_fill(~counted, 0.0)
        variance = around.square().sum() / (counted.sum() - correction)
        advantages = advantages / (variance.sqrt() + epsilon)
    return torch.where(counted & _spread(rewards, groups, counted), advantages, 0.0)


def have_spread(rewards: Tensor, groups: Tensor, valid: Tensor | None = None) -> Tensor:
    """Rows of groups that teach something: not all of one reward (DAPO, arXiv:2503.14476, eq. 11).

    Rewards that differ by rounding are equal.  (B,), (B,) → (B,) bool
    """
    return _spread(rewards, groups, _counted(rewards, valid))


def _counted(rewards: Tensor, valid: Tensor | None) -> Tensor:
    if valid is None:
        return torch.ones_like(rewards, dtype=torch.bool)
    missing = rewards.dim() - valid.dim()
    return valid.bool().reshape(valid.shape + (1,) * missing).expand_as(rewards)


def _spread(rewards: Tensor, groups: Tensor, counted: Tensor) -> Tensor:
    high = _over_groups(rewards.masked_fill(~counted, -torch.inf), groups, "amax")
    low = _over_groups(rewards.masked_fill(~counted, torch.inf), groups, "amin")
    size = torch.maximum(high.abs(), low.abs()).clamp(min=1)
    return high - low > 8 * torch.finfo(rewards.dtype).eps * size  # more than rounding


def _over_groups(values: Tensor, groups: Tensor, how: Literal["sum", "amax", "amin"]) -> Tensor:
    """For every row the sum or extreme of its group, column by column."""
    _, group = groups.unique(return_inverse=True)
    index = group.reshape((-1,) + (1,) * (values.dim() - 1)).expand_as(values)
    empty = torch.zeros_like(values)  # as many groups as rows, at most
    return empty.scatter_reduce(0, index, values, how, include_self=False).gather(0, index)


def whiten(values: Tensor, mask: Tensor, epsilon: float = 1e-8) -> Tensor:
    """(x − mean) / √(variance + ε) over all with mask 1, 0 elsewhere, as REINFORCE++ has it.

    The variance divides by one less than their number (arXiv:2501.03262).
    """
    mask = mask.bool()
    number = mask.sum()
    values = values.masked_fill(~mask, 0.0)
    centred = (values - values.sum() / number.clamp(min=1)).masked_fill(~mask, 0.0)
    variance = centred.square().sum() / (number - 1).clamp(min=1)
    return centred * (variance + epsilon).rsqrt()


# -- turns and tokens ------------------------------------------------------------------------------


def on_tokens(values: Tensor, turns: Tensor) -> Tensor:
    """A turn's value on each of its tokens, 0 on others.  (B, N), (B, T) → (B, T)"""
    return values.gather(-1, turns.clamp(min=0)).masked_fill(turns < 0, 0.0)


def last_tokens(turns: Tensor) -> Tensor:
    """Whether a token is the last of its turn.  (B, T) → (B, T) bool"""
    after = torch.cat([turns[..., 1:], torch.full_like(turns[..., :1], -1)], -1)
    return (turns >= 0) & (turns != after)


def on_last_tokens(rewards: Tensor, turns: Tensor) -> Tensor:
    """What a turn earned on its last token, 0 on others.  (B, N), (B, T) → (B, T)"""
    return on_tokens(rewards, turns).masked_fill(~last_tokens(turns), 0.0)


# -- lengths ---------------------------------------------------------------------------------------


def length_adaptive_lambda(lengths: Tensor, alpha: float = 0.05) -> Tensor:
    """λ = 1 − 1 / (α l) of l sampled tokens, not below 0 (VAPO, arXiv:2504.05118).

    It is 0 up to 1/α tokens, which short replies never exceed: choose α by their length.
    Whole numbers of any shape → float64 of that shape.
    """
    return (1 - 1 / (alpha * lengths.double().clamp(min=1))).clamp(min=0)


def overlong_penalty(lengths: Tensor, longest: int, cache: int) -> Tensor:
    """0 up to `longest` − `cache` tokens, falling to −1 at `longest` (arXiv:2503.14476, eq. 13).

    It is added to rewards before they are compared within groups.  (B,) → (B,) float64
    """
    return ((longest - cache - lengths.double()) / max(cache, 1)).clamp(-1, 0)
