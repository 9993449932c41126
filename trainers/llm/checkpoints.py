"""A learner in one file, written whole or not at all: from it, training goes on bit by bit.

    sft.zip    about.json             format, config, steps so far
               weights.safetensors    model.…, and optimizer.<parameter>.<moment>

No pickle: loading runs no code. Batches are drawn from seed and step, so no generator is kept.
Knows nothing of what is learnt.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration, MissingExtra, told
from convgym.language.archive import DAMAGE, opened

try:
    import safetensors
    import torch
    from safetensors.torch import load, save
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

_ABOUT, _WEIGHTS = "about.json", "weights.safetensors"
_OPTIMIZER, _LEARNT = "optimizer", "weights"


def write_checkpoint(
    path: str | os.PathLike[str],
    form: str,
    config: Any,
    step: int,
    modules: Mapping[str, nn.Module],
    optimizer: torch.optim.Optimizer,
    others: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a learner; `config` is its dataclass, `form` names what kind of learner it is.

    `others` are tensors by name that are nobody's weights; `read_checkpoint` gives them back.
    """
    tensors = dict(others or {}) | {
        f"{name}.{key}": value
        for name, module in modules.items()
        for key, value in module.state_dict().items()
    }
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"{_OPTIMIZER}.{number}.{key}": value for key, value in moments.items()}
    write_tensors(path, {"format": form, "config": asdict(config), "step": step}, tensors)


def write_tensors(
    path: str | os.PathLike[str], about: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """One file of named tensors and JSON, whole or not at all; `about` has a "format"."""
    # cloned, because tied weights are one memory under two names, which the format refuses
    content = save({name: value.detach().clone().contiguous() for name, value in tensors.items()})
    temporary = Path(f"{os.fspath(path)}.{os.getpid()}.part")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            archive.writestr(zipfile.ZipInfo(_ABOUT), json.dumps(about, indent=1))
            archive.writestr(zipfile.ZipInfo(_WEIGHTS), content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_checkpoint(
    path: str | os.PathLike[str], form: str
) -> tuple[dict[str, Any], int, dict[str, Tensor]]:
    """Keywords of the config, steps so far, and tensors by name.

    Raises InvalidConfiguration for a file that is not there, damaged or of another learner.
    """
    about, tensors = read_tensors(path, form)
    if not {"config", "step"} <= set(about):
        raise InvalidConfiguration(f"{path} holds no {form}: its config or step is missing")
    return about["config"], about["step"], tensors


def read_tensors(
    path: str | os.PathLike[str], form: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `write_tensors` wrote with this format.

    Raises InvalidConfiguration for a file that is not there, damaged or of another one.
    """
    try:
        with opened(path) as archive:
            about = json.loads(archive.read(_ABOUT))
            if about["format"] != form:
                raise ValueError(f"it says {about['format']!r}")
            return about, load(archive.read(_WEIGHTS))
    except (*DAMAGE, safetensors.SafetensorError) as error:
        raise InvalidConfiguration(f"{path} holds no {form}: {told(error)}") from error


def restore(
    tensors: Mapping[str, Tensor],
    modules: Mapping[str, nn.Module],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Put the tensors of a checkpoint where `write_checkpoint` found them.

    Raises InvalidConfiguration where a module has other weights than those that were saved.
    """
    for name, module in modules.items():
        try:
            module.load_state_dict(_under(tensors, name))
        except RuntimeError as error:
            raise InvalidConfiguration(
                f"the weights of {name!r} are not those of the model given: {told(error)}; give a "
                "model of the shape that was trained"
            ) from error
    put_moments(_under(tensors, _OPTIMIZER), optimizer)


def put_moments(tensors: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Put an optimiser's state back, named "<parameter>.<moment>".

    Raises InvalidConfiguration where it is not that optimiser's.
    """
    state: dict[int, dict[str, Tensor]] = {}
    try:
        for key, value in tensors.items():
            number, moment = key.split(".")
            state.setdefault(int(number), {})[moment] = value
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    except DAMAGE as error:
        raise InvalidConfiguration(
            f"the state of the optimiser in the file is not that of the one given: {told(error)}"
        ) from error


def weights_of(learnt: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by name as `others` of a checkpoint: where adapters learn, they alone are kept."""
    return {f"{_LEARNT}.{name}": weights for name, weights in learnt.items()}


@torch.no_grad()
def put_weights(tensors: Mapping[str, Tensor], learnt: Mapping[str, Tensor]) -> None:
    """Put the tensors of a checkpoint where `weights_of` found them.

    Raises InvalidConfiguration where other weights learn than those that were saved.
    """
    saved = _under(tensors, _LEARNT)
    if {n: t.shape for n, t in saved.items()} != {n: t.shape for n, t in learnt.items()}:
        raise InvalidConfiguration(
            "the weights in the file are not those of the model given; give a model of the shape "
            "that was trained, with adapters like its own"
        )
    for name, weights in learnt.items():
        weights.copy_(saved[name])


def _under(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    start = f"{name}."
    return {key[len(start) :]: value for key, value in tensors.items() if key.startswith(start)}
