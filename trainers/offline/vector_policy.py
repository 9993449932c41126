"""A trained network over vectors as a policy: numpy only, saved without pickle.

    deterministic   tanh(actor)
    gaussian        tanh(actor) + σ · noise                 one σ for every observation
    squashed        tanh(mean + σ · noise)                  both from the actor
    generative      a + limit · tanh(shift(s, a)),  a = tanh(decoder(s, noise within ±0.5))

    [−1, 1] ─► the action space's bounds ─► the nearest candidate, where there are any
    of several such proposals, the critic's best is done

Noise is hashed from the episode's seed and the turn, so an episode of a seed can be played again,
alone or in a batch. Knows nothing of what trained it, nor of torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine.keys import MASK, POLICY, draw_batch
from convgym.errors import InvalidConfiguration, told
from convgym.language.archive import DAMAGE
from convgym.policies.batched import Masks, Rows
from convgym.policies.policy import belief_of
from trainers.archive import read_archive, write_archive
from trainers.offline.discrete_policy import Layers, forward

Floats = NDArray[np.float32]
KINDS = {
    "deterministic": ("actor",),
    "gaussian": ("actor",),
    "squashed": ("actor",),
    "generative": ("decoder", "shift"),
}
"""The networks of each kind; any kind may have a `critic` besides."""
_FORMAT = "convgym vector policy 1"


@dataclass(frozen=True, eq=False)
class VectorSpace:
    """Where actions lie."""

    low: Floats  # (d,)
    high: Floats  # (d,)
    candidates: Floats | None = None  # (K, d)
    """Vectors of length 1; where there are any, the nearest by cosine is done."""

    def of(self, unit: Floats, masks: Masks | None = None) -> Floats:
        """What is done for actions in [−1, 1].  (n, N, d), (n, K) → (n, N, d)"""
        actions = self.low + (unit + 1.0) / 2.0 * (self.high - self.low)
        if self.candidates is None:
            return np.asarray(actions.clip(self.low, self.high), dtype=np.float32)
        cosines = actions @ self.candidates.T
        if masks is not None:
            cosines = np.where(masks[:, None] > 0, cosines, -np.inf)
        return self.candidates[cosines.argmax(axis=-1)]

    def unit(self, actions: Floats) -> Floats:
        """Actions in [−1, 1].  (…, d)"""
        scaled: Floats = (actions - self.low) / (self.high - self.low) * np.float32(2.0)
        return scaled - np.float32(1.0)


class VectorPolicy:
    """Answers an observation with a vector.

    `samples` above 1 draws so many proposals and does the one that the network `critic` values
    most, of decoded actions; they are drawn in any case. Else `deterministic=True` leaves noise
    out.
    """

    def __init__(
        self,
        kind: str,
        networks: Mapping[str, Layers],
        space: VectorSpace,
        name: str = "vector policy",
        *,
        log_std: Floats | None = None,
        samples: int = 1,
        limit: float = 0.0,
    ) -> None:
        if kind not in KINDS or set(networks) - {"critic"} != set(KINDS[kind]):
            raise InvalidConfiguration(
                f"kind={kind!r} with networks {', '.join(sorted(networks))}; there are {KINDS}"
            )
        if samples < 1 or (samples > 1 and "critic" not in networks):
            raise InvalidConfiguration(
                f"samples={samples}; it is 1 or more, and above 1 a critic chooses"
            )
        self.kind, self.name, self.samples, self.limit = kind, name, samples, limit
        self.networks = {key: list(layers) for key, layers in networks.items()}
        self.space, self.log_std = space, log_std
        self._key, self._step = 0, 0

    # -- acting ------------------------------------------------------------------------------------

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""
        self._key, self._step = seed & MASK, 0

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Floats, Any]:
        """The action (d,); masks tell which candidates are legal."""
        rows = np.asarray(belief_of(observation), dtype=np.float32)[None]
        masks = None if action_masks is None else np.asarray(action_masks)[None]
        keys = np.array([self._key], dtype=np.uint64)
        steps = np.array([self._step], dtype=np.uint64)
        self._step += 1
        return self.act(rows, masks, keys, steps, deterministic)[0], state

    def act(
        self,
        rows: Floats,
        masks: Masks | None,
        keys: NDArray[np.uint64],
        steps: NDArray[np.uint64],
        deterministic: bool = False,
    ) -> Floats:
        """Actions of many conversations at once.  (n, o), (n, K), (n,), (n,) → (n, d)"""
        size = (self.samples, self._noise_size())
        noise = normals(keys, steps, size[0] * size[1]).reshape(len(rows), *size)
        if deterministic and self.samples == 1:
            noise = np.zeros_like(noise)
        shown = np.broadcast_to(rows[:, None], (len(rows), self.samples, rows.shape[1]))
        found = self.space.of(self._proposals(shown, noise), masks)  # (n, N, d)
        if self.samples == 1:
            return found[:, 0]
        pairs = np.concatenate([shown, self.space.unit(found)], axis=-1)
        best = forward(self.networks["critic"], pairs)[..., 0].argmax(axis=1)
        return found[np.arange(len(rows)), best]

    def _proposals(self, rows: Floats, noise: Floats) -> Floats:
        """In [−1, 1].  (n, N, o), (n, N, k) → (n, N, d)"""
        if self.kind == "generative":
            within = noise.clip(-0.5, 0.5)
            both = np.concatenate([rows, within], axis=-1)
            base = np.tanh(forward(self.networks["decoder"], both))
            shift = np.tanh(forward(self.networks["shift"], np.concatenate([rows, base], axis=-1)))
            return (base + self.limit * shift).clip(-1.0, 1.0)
        heads = forward(self.networks["actor"], rows)
        if self.kind == "squashed":
            means, log_std = np.split(heads, 2, axis=-1)
            return np.tanh(means + np.exp(log_std.clip(-5.0, 2.0)) * noise)
        if self.kind == "gaussian":
            assert self.log_std is not None, "a Gaussian has a width"
            return (np.tanh(heads) + np.exp(self.log_std) * noise).clip(-1.0, 1.0)
        return np.tanh(heads)

    def _noise_size(self) -> int:
        """Numbers of noise that a proposal takes."""
        if self.kind == "generative":
            observed = len(self.networks["shift"][0][0]) - len(self.space.low)
            return len(self.networks["decoder"][0][0]) - observed
        return len(self.space.low)

    def batched(self) -> BatchVectorPolicy:
        """The same policy for many conversations at once."""
        return BatchVectorPolicy(self)

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write one file; the same policy gives the same bytes."""
        about = {
            "format": _FORMAT,
            "kind": self.kind,
            "name": self.name,
            "samples": self.samples,
            "limit": self.limit,
            "layers": {name: len(layers) for name, layers in self.networks.items()},
        }
        arrays = {
            f"networks.{name}.{layer}.{part}": np.asarray(array, dtype=np.float32)
            for name, layers in self.networks.items()
            for layer, pair in enumerate(layers)
            for part, array in zip(("weight", "bias"), pair, strict=True)
        }
        for name, array in {**vars(self.space), "log_std": self.log_std}.items():
            if array is not None:
                arrays[name] = np.asarray(array, dtype=np.float32)
        write_archive(path, about, arrays)

    @classmethod
    def load(cls, path: str | Path) -> VectorPolicy:
        """Read what `save` has written; raises InvalidConfiguration for any other file."""
        about, arrays = read_archive(path, _FORMAT)
        try:
            networks = {
                name: [
                    (arrays[f"networks.{name}.{k}.weight"], arrays[f"networks.{name}.{k}.bias"])
                    for k in range(layers)
                ]
                for name, layers in about["layers"].items()
            }
            space = VectorSpace(arrays["low"], arrays["high"], arrays.get("candidates"))
            return cls(
                about["kind"], networks, space, about["name"], log_std=arrays.get("log_std"),
                samples=about["samples"], limit=about["limit"],
            )  # fmt: skip
        except DAMAGE as error:
            raise InvalidConfiguration(
                f"{path} is no whole vector policy: {told(error)}"
            ) from error


class BatchVectorPolicy:
    """`VectorPolicy` for a batch of conversations, in one pass through the networks."""

    def __init__(self, policy: VectorPolicy) -> None:
        self.policy, self.name = policy, policy.name
        self._keys = np.zeros(0, dtype=np.uint64)  # (rows,)
        self._steps = np.zeros(0, dtype=np.uint64)  # (rows,)
        self.propensities = np.zeros(0)
        self.indices = self.acts = np.zeros(0, dtype=np.intp)

    def begin(self, rows: Rows, seeds: Sequence[int]) -> None:
        """Begin an episode in each of `rows`."""
        missing = int(np.max(rows, initial=-1)) + 1 - len(self._keys)
        if missing > 0:
            self._keys = np.pad(self._keys, (0, missing))
            self._steps = np.pad(self._steps, (0, missing))
        self._keys[rows] = np.array([seed & MASK for seed in seeds], dtype=np.uint64)
        self._steps[rows] = 0

    def actions(
        self, observations: Any, masks: Masks, rows: Rows, deterministic: bool = False
    ) -> Floats:
        """An action for each row.  # (k, d)"""
        shown = np.asarray(belief_of(observations), dtype=np.float32)
        chosen = self.policy.act(shown, masks, self._keys[rows], self._steps[rows], deterministic)
        self._steps[rows] += np.uint64(1)
        self.propensities = np.full(len(rows), np.nan)
        self.indices = np.zeros(len(rows), dtype=np.intp)
        self.acts = np.full(len(rows), -1)
        return chosen


def normals(keys: NDArray[np.uint64], steps: NDArray[np.uint64], count: int) -> Floats:
    """`count` numbers from N(0, 1) of each (key, step), by Box and Muller.  (n,), (n,) → (n, count)

    They are the same for a key and a step whatever else is asked for.
    """
    places = np.arange(2 * count, dtype=np.uint64)
    drawn = (draw_batch(keys[:, None], POLICY, steps[:, None], places) + 0.5) / 2**32
    radius = np.sqrt(-2.0 * np.log(drawn[:, ::2]))
    found: Floats = (radius * np.cos(2.0 * np.pi * drawn[:, 1::2])).astype(np.float32)
    return found
