"""What a fitted critic says of a state: numpy only, saved without pickle.

    acts     max over legal acts of Q(s, a)        Q: mean − κ · std, or minimum, of the ensemble
    states   V(s)                                  where the algorithm learns one, such as IQL

The seam for learners that start from an offline critic. Knows nothing of what trained it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration
from convgym.language.archive import DAMAGE
from trainers.archive import read_archive, write_archive
from trainers.offline.config import Algorithm
from trainers.offline.discrete_policy import Layers, forward
from trainers.offline.networks import MLP

_FORMAT = "convgym value function 1"


class ValueFunction:
    """Values of states; `pessimism` as in `DiscretePolicy`."""

    def __init__(
        self, networks: Sequence[Layers], *, acts: bool, pessimism: float | None = 0.0
    ) -> None:
        self.networks = [list(layers) for layers in networks]
        self.acts, self.pessimism = acts, pessimism

    def __call__(self, observations: Any, masks: Any = None) -> NDArray[np.float64]:
        """Values, of acts the best legal one's.  (…, features), (…, A) → (…)"""
        rows = np.asarray(observations, dtype=np.float32)
        each = np.array([forward(layers, rows) for layers in self.networks], dtype=np.float64)
        if self.pessimism is None:
            values = each.min(axis=0)
        else:
            values = each.mean(axis=0) - self.pessimism * each.std(axis=0)
        if masks is not None and self.acts:
            values = np.where(np.asarray(masks) > 0, values, -np.inf)
        best: NDArray[np.float64] = values.max(axis=-1)
        return best

    def save(self, path: str | Path) -> None:
        """Write one file; the same values give the same bytes."""
        about = {
            "format": _FORMAT,
            "acts": self.acts,
            "pessimism": self.pessimism,
            "layers": [len(layers) for layers in self.networks],
        }
        arrays = {
            f"{network}.{layer}.{part}": np.asarray(array, dtype=np.float32)
            for network, layers in enumerate(self.networks)
            for layer, pair in enumerate(layers)
            for part, array in zip(("weight", "bias"), pair, strict=True)
        }
        write_archive(path, about, arrays)

    @classmethod
    def load(cls, path: str | Path) -> ValueFunction:
        """Read what `save` has written; raises InvalidConfiguration for any other file."""
        about, arrays = read_archive(path, _FORMAT)
        try:
            networks = [
                [(arrays[f"{n}.{k}.weight"], arrays[f"{n}.{k}.bias"]) for k in range(layers)]
                for n, layers in enumerate(about["layers"])
            ]
            return cls(networks, acts=about["acts"], pessimism=about["pessimism"])
        except DAMAGE as error:
            raise InvalidConfiguration(f"{path} is no whole value function: {error!r}") from error


def value_function_of(algorithm: Algorithm, acts: bool) -> ValueFunction:
    """The values that an algorithm has learnt, copied.

    Raises InvalidConfiguration for one that has none, such as a clone, or only of vectors.
    """
    parts: Any = algorithm.parts
    found = "value" if "value" in parts else "critic" if acts and "critic" in parts else None
    network = parts[found] if found is not None else None
    if not isinstance(network, MLP):
        raise InvalidConfiguration(
            f"{algorithm.name} has no values of states; take an algorithm with a critic over acts, "
            "or one that learns V(s)"
        )
    config: Any = getattr(algorithm, "config", None)
    return ValueFunction(
        [network.layers(n) for n in range(network.count)],
        acts=found == "critic",
        pessimism=getattr(config, "pessimism", 0.0) if network.count > 1 else 0.0,
    )
