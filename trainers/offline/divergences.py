"""How far two sets of vectors lie apart, from samples: maximum mean discrepancy.

    MMD²(P, Q) = E k(x, x') + E k(y, y') − 2 E k(x, y)        x ~ P, y ~ Q

0 where both are alike; its gradient moves the samples of one towards the other. Means run over all
pairs, a sample with itself included, so that the square is never negative (Gretton et al., 2012,
eq. 5). Knows nothing of policies.
"""

from __future__ import annotations

from torch import Tensor

KERNELS = ("gaussian", "laplacian")
_LEAST = 1e-6
"""Added to the square: the root has no gradient at 0."""


def mmd(x: Tensor, y: Tensor, kernel: str, sigma: float) -> Tensor:
    """√MMD² of the samples of each row.  (B, N, d), (B, M, d) → (B,)

    gaussian   k(x, y) = exp(−‖x − y‖₂² / 2σ)
    laplacian  k(x, y) = exp(−‖x − y‖₁ / 2σ)         both as Kumar et al. (2019, arXiv:1906.00949)
    """
    square = (
        _kernel(x, x, kernel, sigma)
        + _kernel(y, y, kernel, sigma)
        - 2.0 * _kernel(x, y, kernel, sigma)
    )
    return (square.clamp(min=0.0) + _LEAST).sqrt()


def _kernel(x: Tensor, y: Tensor, kernel: str, sigma: float) -> Tensor:
    """Mean of k over all pairs of a row.  (B,)"""
    apart = x[:, :, None] - y[:, None]  # (B, N, M, d)
    distance = apart.abs().sum(-1) if kernel == "laplacian" else apart.square().sum(-1)
    return (-distance / (2.0 * sigma)).exp().mean((1, 2))
