"""The arithmetic of ILQL on agent tokens: expectile, bootstrap, conservatism, choice of words.

    M   agent tokens of a batch, each with what it earned and the one that followed
    N   tokens of the vocabulary;  2 value functions, of which the smaller is believed

From Snell et al., 2022, arXiv:2206.11871. Pure functions. Knows nothing of models, rows or padding.
"""

from __future__ import annotations

from convgym.errors import MissingExtra

try:
    from torch import Tensor
    from torch.nn import functional as F
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


def td_targets(reward: Tensor, discount: Tensor, next_v: Tensor) -> Tensor:
    """r + γ V(next agent token); the discount is 0 where nothing follows.  # (M,)"""
    return reward + discount * next_v.detach()


def td_loss(q: Tensor, targets: Tensor) -> Tensor:
    """(Q − target)² of each token, summed over both value functions.  (2, M) → (M,)"""
    return ((q - targets) ** 2).sum(dim=0)


def conservative_loss(q: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy of the data's token under softmax(Q).  (2, M, N) → (M,)

    It pushes the values of tokens that the data do not hold below those that they do. Summed over
    both value functions.
    """
    losses = F.cross_entropy(q.flatten(0, 1), tokens.repeat(len(q)), reduction="none")
    return losses.view(len(q), -1).sum(dim=0)


def mean_of(losses: Tensor, known: Tensor) -> Tensor:
    """Over the tokens whose target is known; 0 if there are none.  (M,), (M,) → ()"""
    return (losses * known).sum() / known.sum().clamp(min=1)


def perturbed(logits: Tensor, q: Tensor, v: Tensor, beta: float) -> Tensor:
    """log π_SFT + β (Q − V): logits of the improved policy.  (…, N) and (…,) → (…, N)

    V moves all tokens alike and so changes no probability; with it, numbers tell by how much a
    token is better than expected.
    """
    return F.log_softmax(logits, dim=-1) + beta * (q - v[..., None])
