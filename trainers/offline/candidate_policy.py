"""A trained critic over candidate replies as a policy: numpy only, saved without pickle.

    observation, vectors of the candidates ─► MLPs on [observation | vector] ─► the least value
    the best of those that there are, or softmax(values / temperature)

The candidates are the rows of its table that the mask allows, or, for `choose`, any vectors, such
as those of replies that somebody proposes. Knows nothing of what trained it, nor of torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, told
from convgym.language.archive import DAMAGE
from convgym.policies.batched import BatchActPolicy, Masks
from convgym.policies.policy import ActPolicy, Probabilities, belief_of
from trainers.archive import read_archive, write_archive
from trainers.offline.discrete_policy import Layers, forward

_FORMAT = "convgym candidate policy 1"


class CandidatePolicy(ActPolicy):
    """Chooses among candidates by the value of their vectors.

    `temperature` 0 takes the best one always; above 0 it samples from
    softmax(values / temperature). `deterministic=True` takes the best in any case.
    """

    def __init__(
        self,
        networks: Sequence[Layers],
        candidates: NDArray[np.float32],
        name: str = "candidate policy",
        temperature: float = 0.0,
    ) -> None:
        super().__init__()
        if not temperature >= 0:
            raise InvalidConfiguration(f"temperature={temperature}; it must be 0 or more")
        self.networks = [list(layers) for layers in networks]
        self.candidates, self.name, self.temperature = candidates, name, temperature

    def values(self, observation: Any, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of each candidate for each observation.  (…, o), (K, d) → (…, K)"""
        rows = np.asarray(belief_of(observation), dtype=np.float32)
        each = []
        for (weight, bias), *rest in self.networks:
            split = rows.shape[-1]
            x = (rows @ weight[:split] + bias)[..., None, :] + vectors @ weight[split:]
            each.append(forward(rest, np.maximum(x, 0.0))[..., 0] if rest else x[..., 0])
        return np.asarray(np.min(each, axis=0), dtype=np.float64)

    def choose(self, observation: Any, vectors: NDArray[np.float32]) -> int:
        """The best of these vectors, whether or not they are in the table.  (o,), (N, d)"""
        return int(self.values(observation, np.asarray(vectors, dtype=np.float32)).argmax())

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """1 for the best candidate, or a softmax over those there are.  # (…, K)"""
        there = np.asarray(action_masks) > 0
        assert there.any(axis=-1).all(), "there is always a candidate"
        scores = np.where(there, self.values(observation, self.candidates), -np.inf)
        if self.temperature == 0:
            return np.eye(scores.shape[-1])[scores.argmax(axis=-1)]
        weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / self.temperature)
        found: Probabilities = weights / weights.sum(axis=-1, keepdims=True)
        return found

    def batched(self) -> BatchCandidatePolicy:
        """The same policy for many conversations at once."""
        return BatchCandidatePolicy(self)

    def save(self, path: str | Path) -> None:
        """Write one file; the same policy gives the same bytes."""
        about = {
            "format": _FORMAT,
            "name": self.name,
            "temperature": self.temperature,
            "layers": [len(layers) for layers in self.networks],
        }
        arrays = {
            f"{network}.{layer}.{part}": np.asarray(array, dtype=np.float32)
            for network, layers in enumerate(self.networks)
            for layer, pair in enumerate(layers)
            for part, array in zip(("weight", "bias"), pair, strict=True)
        }
        write_archive(path, about, {**arrays, "candidates": self.candidates})

    @classmethod
    def load(cls, path: str | Path) -> CandidatePolicy:
        """Read what `save` has written; raises InvalidConfiguration for any other file."""
        about, arrays = read_archive(path, _FORMAT)
        try:
            networks = [
                [(arrays[f"{n}.{k}.weight"], arrays[f"{n}.{k}.bias"]) for k in range(layers)]
                for n, layers in enumerate(about["layers"])
            ]
            return cls(networks, arrays["candidates"], about["name"], about["temperature"])
        except DAMAGE as error:
            raise InvalidConfiguration(
                f"{path} is no whole candidate policy: {told(error)}"
            ) from error


class BatchCandidatePolicy(BatchActPolicy):
    """`CandidatePolicy` for a batch of conversations."""

    def __init__(self, policy: CandidatePolicy) -> None:
        super().__init__()
        self.policy, self.name = policy, policy.name

    def action_probs(self, observations: Any, masks: Masks) -> NDArray[np.float64]:
        """Of each row.  # (k, K)"""
        return self.policy.action_probs(observations, masks)
