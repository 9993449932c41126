"""Maximum mean discrepancy: how far apart two samples of features lie, for several kernels at once.

    k(x, y) = mean over s of exp(−|x − y|² / (s · m))      s = ¼ ½ 1 2 4,   m: median |x − y|²
    MMD²    = mean k(x, x') + mean k(y, y') − 2 mean k(x, y)         x ≠ x',  y ≠ y'

The unbiased estimate (Gretton et al., 2012, JMLR 13, eq. 3) under the sum of kernels that deep
adaptation uses (Long et al., 2015, arXiv:1502.02791). It is 0 on the average where both samples
are of one distribution, and may fall below. The median is over all pairs of both samples, and no
gradient flows through it: else features could come "closer" by growing.
"""

from __future__ import annotations

from convgym.errors import InvalidConfiguration, MissingExtra

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "offline") from error

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)


def squared_mmd(source: Tensor, target: Tensor) -> Tensor:
    """MMD² of features (n, d) and (m, d); raises InvalidConfiguration for fewer than two rows."""
    n, m = len(source), len(target)
    if min(n, m) < 2:
        raise InvalidConfiguration(f"{n} and {m} rows of features; MMD takes two or more of each")
    both = torch.cat([source, target])  # (n + m, d)
    both = both - both.mean(dim=0)  # changes no distance, and keeps the digits of the squares
    lengths = both.square().sum(dim=1)
    squares = lengths[:, None] + lengths[None, :] - 2 * both @ both.T
    apart = ~torch.eye(n + m, dtype=torch.bool, device=both.device)
    median = squares.detach()[apart].median()
    median = median.clamp(min=torch.finfo(both.dtype).eps)  # features that are all the same
    kernel = torch.stack([torch.exp(-squares / (scale * median)) for scale in SCALES]).mean(dim=0)
    others = kernel * apart
    return (
        others[:n, :n].sum() / (n * (n - 1))
        + others[n:, n:].sum() / (m * (m - 1))
        - 2 * kernel[:n, n:].mean()
    )


class MMD(nn.Module):
    """`squared_mmd` as a loss; it has nothing to learn of its own."""

    def forward(self, source: Tensor, target: Tensor, strength: float = 1.0) -> Tensor:
        """strength · MMD²."""
        return strength * squared_mmd(source, target)
