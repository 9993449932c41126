"""A fitted d3rlpy algorithm over vectors as our `Policy`, saved without pickle.

    observation ─► d3rlpy's networks ─► vector within the bounds it was fitted in

The file is JSON (d3rlpy's own description of the algorithm) beside safetensors (its networks,
without optimisers); d3rlpy's `.d3` would be a pickle. Where d3rlpy draws when it acts, as BCQ and
CRR do, it draws from the episode's seed. Needs the extra `offline`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convgym.engine.keys import MASK, POLICY, draw
from convgym.errors import InvalidConfiguration, told
from convgym.policies.policy import belief_of
from trainers.archive import read_archive, write_archive
from trainers.offline.d3rlpy_manners import import_d3rlpy, quiet

_FORMAT = "convgym d3rlpy policy 1"


class D3RLPyPolicy:
    """Answers an observation with the vector that a d3rlpy algorithm thinks best."""

    propensity = float("nan")

    def __init__(self, algo: Any, name: str) -> None:
        self.algo, self.name = algo, name
        self._key, self._step = 0, 0

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
    ) -> tuple[NDArray[np.float32], Any]:
        """The best vector (A,), whether `deterministic` or not."""
        row = np.asarray(belief_of(observation), dtype=np.float32)[None]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw(self._key, POLICY, self._step, 0))
            action = self.algo.predict(row)[0]
        self._step += 1
        return np.asarray(action, dtype=np.float32), state

    def save(self, path: str | Path) -> None:
        """Write one file; the same policy gives the same bytes."""
        impl = self.algo.impl
        description = import_d3rlpy().base.LearnableConfigWithShape(
            observation_shape=impl.observation_shape,
            action_size=impl.action_size,
            config=self.algo.config,
        )
        about = {
            "format": _FORMAT,
            "name": self.name,
            "algorithm": json.loads(description.serialize()),
        }
        arrays = {
            f"{part}.{name}": tensor.detach().cpu().numpy()
            for part, module in _networks(self.algo).items()
            for name, tensor in module.state_dict().items()
        }
        write_archive(path, about, arrays)

    @classmethod
    def load(cls, path: str | Path) -> D3RLPyPolicy:
        """Read what `save` has written; raises InvalidConfiguration for any other file."""
        about, arrays = read_archive(path, _FORMAT)
        d3rlpy = import_d3rlpy()
        try:
            with quiet():
                algo = d3rlpy.base.LearnableConfigWithShape.deserialize(
                    json.dumps(about["algorithm"])
                ).create(device=False)
            for part, module in _networks(algo).items():
                module.load_state_dict(
                    {
                        name.removeprefix(f"{part}."): torch.from_numpy(array)
                        for name, array in arrays.items()
                        if name.startswith(f"{part}.")
                    }
                )
            return cls(algo, about["name"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InvalidConfiguration(
                f"{path} is no whole d3rlpy policy: {told(error)}"
            ) from error


def _networks(algo: Any) -> dict[str, torch.nn.Module]:
    """All but the optimisers of a built algorithm, by name."""
    modules = algo.impl.modules
    return {name: part for name, part in vars(modules).items() if isinstance(part, torch.nn.Module)}
