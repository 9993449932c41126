"""A trained network over acts as a policy: numpy only, saved without pickle.

    observation ─► MLPs with ReLU, one or several ─► scores of each act: mean − pessimism · std
                   MLP of the behaviour           ─► acts that the data hardly show: −∞
                   mask                           ─► illegal acts: −∞
                   argmax, or softmax(scores / temperature)

Scores are action values of a Q-learner or logits of a clone. The file is JSON beside safetensors
(`trainers.archive`): loading runs no code. Knows nothing of what trained it, nor of torch.
"""

from __future__ import annotations

import math
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

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]  # weights (in, out), bias (out,)
Layers = Sequence[Layer]
_FORMAT = "convgym discrete policy 2"


class DiscretePolicy(ActPolicy):
    """Chooses among the legal acts by score.

    `temperature` 0 takes the best one always; above 0 acts are sampled from
    softmax(scores / temperature). `deterministic=True` takes the best in any case.
    `pessimism` κ: several networks count as mean − κ · std; None takes their minimum.
    `support`, a clone's network: acts less than `threshold` times as likely as the likeliest legal
    one are left alone (Fujimoto et al., 2019, arXiv:1910.01708, eq. 10). `prior` λ: its logits
    count λ times among the scores; with the temperature λ that is the policy ∝ β exp(Q / λ).
    """

    def __init__(
        self,
        networks: Sequence[Layers],
        name: str = "discrete policy",
        temperature: float = 0.0,
        *,
        pessimism: float | None = 0.0,
        support: Layers | None = None,
        threshold: float = 0.0,
        prior: float = 0.0,
    ) -> None:
        super().__init__()
        if not temperature >= 0:
            raise InvalidConfiguration(f"temperature={temperature}; it must be 0 or more")
        if pessimism is not None and not pessimism >= 0:
            raise InvalidConfiguration(f"pessimism={pessimism}; it must be 0 or more")
        if not prior >= 0 or (prior and support is None):
            raise InvalidConfiguration(f"prior={prior}; it must be 0 or more, of a given support")
        if not 0.0 <= threshold <= 1.0:
            raise InvalidConfiguration(f"threshold={threshold} is outside [0, 1]")
        self.networks = [list(layers) for layers in networks]
        self.name = name
        self.temperature = temperature
        self.pessimism = pessimism
        self.support = None if support is None else list(support)
        self.threshold, self.prior = threshold, prior

    def scores(self, observation: Any) -> NDArray[np.float64]:
        """A score for each act, legal or not.  # (…, actions)"""
        rows = np.asarray(belief_of(observation), dtype=np.float32)
        each = np.array([forward(layers, rows) for layers in self.networks], dtype=np.float64)
        if self.pessimism is None:
            scores = each.min(axis=0)
        else:
            spread = self.pessimism * each.std(axis=0) if self.pessimism else 0.0
            scores = each.mean(axis=0) - spread
        if self.support is not None and self.prior:
            scores += self.prior * forward(self.support, rows)
        return np.asarray(scores)

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """1 for the best act, or a softmax over those allowed.  # (…, actions)"""
        allowed = np.asarray(action_masks) > 0
        assert allowed.any(axis=-1).all(), "some act is always legal"
        if self.support is not None and self.threshold:
            rows = np.asarray(belief_of(observation), dtype=np.float32)
            known = np.where(allowed, forward(self.support, rows), -np.inf)
            least = known.max(axis=-1, keepdims=True) + math.log(self.threshold)
            allowed = allowed & (known >= least)
        scores = np.where(allowed, self.scores(observation), -np.inf)
        if self.temperature == 0:
            return np.eye(scores.shape[-1])[scores.argmax(axis=-1)]
        weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / self.temperature)
        found: Probabilities = weights / weights.sum(axis=-1, keepdims=True)
        return found

    def batched(self) -> BatchDiscretePolicy:
        """The same policy for many conversations at once."""
        return BatchDiscretePolicy(self)

    def save(self, path: str | Path) -> None:
        """Write one file; the same policy gives the same bytes."""
        groups = [*self.networks, *([self.support] if self.support is not None else [])]
        about = {
            "format": _FORMAT,
            "name": self.name,
            "temperature": self.temperature,
            "pessimism": self.pessimism,
            "threshold": self.threshold if self.support is not None else None,
            "prior": self.prior,
            "layers": [len(layers) for layers in groups],
        }
        arrays = {
            f"{network}.{layer}.{part}": np.asarray(array, dtype=np.float32)
            for network, layers in enumerate(groups)
            for layer, pair in enumerate(layers)
            for part, array in zip(("weight", "bias"), pair, strict=True)
        }
        write_archive(path, about, arrays)

    @classmethod
    def load(cls, path: str | Path) -> DiscretePolicy:
        """Read what `save` has written; raises InvalidConfiguration for any other file."""
        about, arrays = read_archive(path, _FORMAT)
        try:
            groups = [
                [(arrays[f"{n}.{k}.weight"], arrays[f"{n}.{k}.bias"]) for k in range(layers)]
                for n, layers in enumerate(about["layers"])
            ]
            limited = about["threshold"] is not None
            return cls(
                groups[:-1] if limited else groups,
                about["name"],
                about["temperature"],
                pessimism=about["pessimism"],
                support=groups[-1] if limited else None,
                threshold=about["threshold"] or 0.0,
                prior=about["prior"],
            )
        except DAMAGE as error:
            raise InvalidConfiguration(
                f"{path} is no whole discrete policy: {told(error)}"
            ) from error


class BatchDiscretePolicy(BatchActPolicy):
    """`DiscretePolicy` for a batch of conversations, in one pass through the networks."""

    def __init__(self, policy: DiscretePolicy) -> None:
        super().__init__()
        self.policy, self.name = policy, policy.name

    def action_probs(self, observations: Any, masks: Masks) -> NDArray[np.float64]:
        """Of each row.  # (k, actions)"""
        return self.policy.action_probs(observations, masks)


def forward(layers: Layers, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """An MLP with ReLU between its layers.  (…, in) → (…, out)"""
    for weight, bias in layers[:-1]:
        rows = np.maximum(rows @ weight + bias, 0.0)
    weight, bias = layers[-1]
    return rows @ weight + bias
