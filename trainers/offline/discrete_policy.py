"""A trained network over acts as a policy: numpy only, saved without pickle.

    observation ─► MLP with ReLU (one, or several averaged) ─► a score for each act
                   mask ─► illegal acts: −∞ ─► argmax, or softmax(scores / temperature)

Scores are action values of a Q-learner or logits of a clone. The file is a zip archive with
`policy.json` and `weights.safetensors`, read and written here in that public format: loading
runs no code. Knows nothing of what trained it, nor of torch.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration
from convgym.policies.policy import ActPolicy, Probabilities, belief_of

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]  # weights (in, out), bias (out,)
_FORMAT = "convgym discrete policy 1"


class DiscretePolicy(ActPolicy):
    """Chooses among the legal acts by score.

    `temperature` 0 takes the best one always; above 0 acts are sampled from
    softmax(scores / temperature). `deterministic=True` takes the best in any case.
    """

    def __init__(
        self,
        networks: Sequence[Sequence[Layer]],
        name: str = "discrete policy",
        temperature: float = 0.0,
    ) -> None:
        super().__init__()
        if temperature < 0:
            raise InvalidConfiguration(f"temperature={temperature}; it must be 0 or more")
        self.networks = [list(layers) for layers in networks]
        self.name = name
        self.temperature = temperature

    def scores(self, observation: Any) -> NDArray[np.float64]:
        """A score for each act, legal or not.  # (…, actions)"""
        rows = np.asarray(belief_of(observation), dtype=np.float32)
        total = sum(_forward(layers, rows) for layers in self.networks)
        return np.asarray(total, dtype=np.float64) / len(self.networks)

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """1 for the best legal act, or a softmax over the legal ones.  # (actions,)"""
        scores = np.where(np.asarray(action_masks) > 0, self.scores(observation), -np.inf)
        assert np.isfinite(scores.max()), "some act is always legal"
        if self.temperature == 0:
            return (np.arange(len(scores)) == scores.argmax()).astype(np.float64)
        weights = np.exp((scores - scores.max()) / self.temperature)
        return weights / weights.sum()

    def save(self, path: str | Path) -> None:
        """Write one file; the same policy gives the same bytes."""
        about = {
            "format": _FORMAT,
            "name": self.name,
            "temperature": self.temperature,
            "layers": [len(layers) for layers in self.networks],
        }
        arrays = {
            f"{network}.{layer}.{part}": array
            for network, layers in enumerate(self.networks)
            for layer, pair in enumerate(layers)
            for part, array in zip(("weight", "bias"), pair, strict=True)
        }
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in (
                ("policy.json", json.dumps(about, indent=2).encode()),
                ("weights.safetensors", to_safetensors(arrays)),
            ):
                archive.writestr(zipfile.ZipInfo(member), content)

    @classmethod
    def load(cls, path: str | Path) -> DiscretePolicy:
        """Read what `save` has written; raises InvalidConfiguration for any other file."""
        try:
            with zipfile.ZipFile(path) as archive:
                about = json.loads(archive.read("policy.json"))
                arrays = from_safetensors(archive.read("weights.safetensors"))
            if about["format"] != _FORMAT:
                raise ValueError(about["format"])
            networks = [
                [(arrays[f"{n}.{k}.weight"], arrays[f"{n}.{k}.bias"]) for k in range(layers)]
                for n, layers in enumerate(about["layers"])
            ]
            return cls(networks, about["name"], about["temperature"])
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            raise InvalidConfiguration(f"{path} is no saved discrete policy: {error}") from error


def _forward(layers: Sequence[Layer], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    for weight, bias in layers[:-1]:
        rows = np.maximum(rows @ weight + bias, 0.0)
    weight, bias = layers[-1]
    return rows @ weight + bias


def to_safetensors(arrays: dict[str, NDArray[np.float32]]) -> bytes:
    """Arrays in the safetensors format: length of the header, header as JSON, raw numbers."""
    header: dict[str, Any] = {}
    body = io.BytesIO()
    for name, array in arrays.items():
        begin = body.tell()
        body.write(np.ascontiguousarray(array, dtype="<f4").tobytes())
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [begin, body.tell()],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body.getvalue()


def from_safetensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """The float32 arrays of a safetensors file."""
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = {}
    for name, about in json.loads(content[8:start]).items():
        if name == "__metadata__":
            continue
        if about["dtype"] != "F32":
            raise ValueError(f"{name} is of type {about['dtype']}, not F32")
        begin, end = about["data_offsets"]
        flat = np.frombuffer(content[start + begin : start + end], dtype="<f4")
        arrays[name] = flat.reshape(about["shape"]).astype(np.float32)
    return arrays
