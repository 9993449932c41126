"""A run of the policy optimiser in one file, from which it goes on bit by bit.

    run.zip    about.json             format, config, counters, rows so far, the reference's digest
               weights.safetensors    model.…, critic.…, optimizer.<parameter>.<moment>

Of the model only what learns is kept; whoever goes on brings the model that the run began with.
No generator is kept: all that is random follows from the seed and the counters. The file is
written whole or not at all. Knows nothing of what is learnt.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration, MissingExtra, told
from trainers.llm.checkpoints import put_moments, read_tensors, write_tensors

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

_FORM = "convgym policy run 1"


@dataclass(kw_only=True)
class RunState:
    """Where a run is, but for its weights."""

    config: dict[str, Any]
    counters: dict[str, int]
    rows: list[dict[str, float]] = field(default_factory=list)
    digest: str = ""
    """Of the weights that the run began with."""


def write_run(
    path: str | os.PathLike[str],
    state: RunState,
    weights: Mapping[str, Mapping[str, Tensor]],
    optimizer: torch.optim.Optimizer | None,
) -> None:
    """Write a run over an older one; `weights` by part and name."""
    tensors = {
        f"{part}.{n}": value for part, found in weights.items() for n, value in found.items()
    }
    if optimizer is not None:
        for number, moments in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{key}": value for key, value in moments.items()}
    about = {
        "format": _FORM, "config": state.config, "counters": state.counters, "rows": state.rows,
        "digest": state.digest,
    }  # fmt: skip
    write_tensors(path, about, tensors)


def read_run(path: str | os.PathLike[str]) -> tuple[RunState, dict[str, Tensor]]:
    """What `write_run` wrote; leftovers of writes that were killed are removed.

    Raises InvalidConfiguration for a file that is not there, damaged or of something else.
    """
    about, tensors = read_tensors(path, _FORM)
    target = Path(path)
    for leftover in target.parent.glob(f"{target.name}.*.part"):
        leftover.unlink(missing_ok=True)
    try:
        names = ("config", "counters", "rows", "digest")
        return RunState(**{name: about[name] for name in names}), tensors
    except KeyError as error:
        raise InvalidConfiguration(f"{path} holds no {_FORM}: {told(error)} is missing") from error


def put_back(
    tensors: Mapping[str, Tensor],
    weights: Mapping[str, Mapping[str, Tensor]],
    optimizer: torch.optim.Optimizer | None,
) -> None:
    """Tensors of a run into these weights and this optimiser.

    Raises InvalidConfiguration for weights of other names or shapes, before any is changed.
    """
    for part, found in weights.items():
        stored = {name: value.shape for name, value in _under(tensors, part).items()}
        if stored != {name: value.shape for name, value in found.items()}:
            raise InvalidConfiguration(
                f"the run has other weights of the {part} than the one given; bring the model, "
                "adapters and critic that the run began with"
            )
    with torch.no_grad():
        for part, found in weights.items():
            for name, value in found.items():
                value.copy_(tensors[f"{part}.{name}"])
    if optimizer is not None:
        put_moments(_under(tensors, "optimizer"), optimizer)


def digest(weights: Mapping[str, Tensor]) -> str:
    """Of names and numbers, to know a model by."""
    found = hashlib.sha256()
    for name, value in weights.items():
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _under(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    start = f"{name}."
    return {key[len(start) :]: value for key, value in tensors.items() if key.startswith(start)}
