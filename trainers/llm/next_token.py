"""The next token of many replies at once, by inverse distribution function.

    logits ─► / temperature ─► softmax ─► its logarithm: as a learner scores it
                                └─► top_k, top_p ─► cumulative ─► first place above the uniform

A token flips only if its uniform lies within rounding of a border, so that who else is in the
batch does not matter. Knows nothing of models.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convgym.errors import MissingExtra
from trainers.llm.sampling import Sampling

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

_BELOW_ONE = 1 - 2.0**-40
"""So that rounding never takes a draw past the last possible token."""


def next_tokens(
    logits: Tensor, chances: NDArray[np.float64], sampling: Sampling
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """A token for each row, and its log-probability at the temperature with nothing cut off.

    (n, V), (n,) uniforms → (n,), (n,)
    """
    logits = logits.float()
    if not sampling.greedy and sampling.temperature != 1:
        logits = logits / sampling.temperature
    probs = torch.softmax(logits, -1)
    if sampling.greedy:
        tokens = logits.argmax(-1, keepdim=True)
    else:
        cumulative = _kept(probs, sampling).cumsum(-1, dtype=torch.float64)
        chance = torch.from_numpy(chances * _BELOW_ONE).to(logits.device)[:, None]
        tokens = torch.searchsorted(cumulative, chance * cumulative[:, -1:], right=True)
    found = probs.gather(-1, tokens).log_()
    return tokens[:, 0].cpu().numpy(), found[:, 0].cpu().numpy()


def _kept(probs: Tensor, sampling: Sampling) -> Tensor:
    """0 on what `top_k` and `top_p` leave out; the likeliest token is always left in."""
    if not sampling.top_k and sampling.top_p == 1:
        return probs
    ordered, order = torch.sort(probs, dim=-1, descending=True, stable=True)
    out = torch.zeros_like(ordered, dtype=torch.bool)
    if sampling.top_k:
        out[:, sampling.top_k :] = True
    if sampling.top_p < 1:
        out |= ordered.cumsum(-1) - ordered >= sampling.top_p
    return probs.masked_fill(out.scatter(-1, order, out), 0.0)
