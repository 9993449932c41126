"""Correlation alignment: features of both domains shall vary, and vary together, alike.

    L = ‖C_S − C_T‖²_F / (4 d²)        C = (D − mean)ᵀ (D − mean) / (n − 1),   d features

Deep CORAL (Sun & Saenko, 2016, arXiv:1607.01719, eqs. 1 to 3). What a newcomer would get wrong:
covariances do not see the mean, so a shift of that alone costs nothing.
"""

from __future__ import annotations

from convgym.errors import InvalidConfiguration, MissingExtra

try:
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "offline") from error


def covariance(features: Tensor) -> Tensor:
    """(n, d) → (d, d); raises InvalidConfiguration for fewer than two rows."""
    if len(features) < 2:
        raise InvalidConfiguration(
            f"{len(features)} rows of features; a covariance takes two or more"
        )
    centred = features - features.mean(dim=0)
    return centred.T @ centred / (len(features) - 1)


class CORAL(nn.Module):
    """The loss above; it has nothing to learn of its own."""

    def forward(self, source: Tensor, target: Tensor, strength: float = 1.0) -> Tensor:
        """strength · L."""
        apart = covariance(source) - covariance(target)
        return strength * apart.square().sum() / (4 * source.shape[1] ** 2)
