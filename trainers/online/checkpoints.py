"""Online runs that can be broken off at any moment and go on to the same weights.

    turns   0 ──────── 10,000 ──────── 20,000 ───   a stretch between two checkpoints
            │             │               │
            seed(s, 0)    seed(s, 1)      seed(s, 2)   chance and all conversations begin anew

Stable-Baselines3's archive holds weights, optimiser and counters; beside it lie the rows of a
replay buffer. Neither holds conversations under way or the state of four generators of chance. So
a run with checkpoints begins them anew at each one, broken off or not, and then the two are equal.

Exact on a CPU with one thread: weights, optimiser, replay buffer and history, in environments that
are decided by their seed. Not exact: environments that remember earlier episodes (a curriculum),
and callbacks with a memory, which hear the history again but not the reports between. A run without
checkpoints is another run than one with, and so is one with other stretches or another length.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine.keys import child
from convgym.errors import InvalidConfiguration, told
from trainers.online.sb3_archive import archived, write_whole

_FORMAT = "convgym online run 1"
_MODEL, _PAGE = "model.zip", "run.json"
_COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")

History = list[dict[str, float]]


def write_checkpoint(
    path: str | os.PathLike[str], model: Any, config: Mapping[str, Any], history: History
) -> None:
    """One file: the model, its replay buffer if it has one, its settings and what was measured."""
    buffer = getattr(model, "replay_buffer", None)
    page = {"format": _FORMAT, "config": config, "history": history}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        if buffer is not None:
            page["replay"] = {"pos": int(buffer.pos), "full": bool(buffer.full)}
            for name, column in _columns(buffer).items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.save(file, column[: buffer.size()], allow_pickle=False)
        archive.writestr(_MODEL, archived(model))
        archive.writestr(_PAGE, json.dumps(page))
    write_whole(path, content.getvalue())


def read_checkpoint(
    path: str | os.PathLike[str], config: Mapping[str, Any], algorithm: Any, **loading: Any
) -> tuple[Any, History]:
    """The model as it was, and what was measured; `loading` is what `algorithm.load` takes.

    Raises InvalidConfiguration for a file of another kind, or of a run with other settings.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            page = json.loads(archive.read(_PAGE))
            if page["format"] != _FORMAT:
                raise ValueError(page["format"])
            _check_same(path, page["config"], config)
            if "replay" in page:  # or Stable-Baselines3 warns that returns have one step
                loading["replay_buffer_class"] = None
            model = algorithm.load(io.BytesIO(archive.read(_MODEL)), **loading)
            if "replay" in page:
                buffer = model.replay_buffer
                buffer.pos, buffer.full = page["replay"]["pos"], page["replay"]["full"]
                for name, column in _columns(buffer).items():
                    kept = np.load(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
                    column[: len(kept)] = kept
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidConfiguration):
            raise
        raise InvalidConfiguration(
            f"{os.fspath(path)} is no checkpoint of an online run ({told(error)}); move it away, "
            "or name another file"
        ) from error
    return model, page["history"]


def _check_same(path: str | os.PathLike[str], kept: Any, given: Mapping[str, Any]) -> None:
    given = json.loads(json.dumps(given))
    other = [name for name in sorted({*kept, *given}) if kept.get(name) != given.get(name)]
    if other:
        raise InvalidConfiguration(
            f"the run in {Path(path).name} has {other[0]}={kept.get(other[0])!r}, and this one "
            f"{other[0]}={given.get(other[0])!r}; take the same settings, or name another file"
        )


def _columns(buffer: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a replay buffer; those of a Dict by their parts."""
    found: dict[str, NDArray[Any]] = {}
    for name in _COLUMNS:
        column = getattr(buffer, name)
        parts = column.items() if isinstance(column, dict) else [("", column)]
        found.update({f"{name}.{part}": array for part, array in parts})
    return found


def begin_stretch(model: Any, number: int) -> None:
    """Chance and all conversations begin anew, as the run's seed and `number` say."""
    _close_replay(model)
    model.set_random_seed(child(model.seed, number) & 0x7FFFFFFF)
    model._last_obs = model.env.reset()
    model._last_episode_starts = np.ones(model.n_envs, dtype=bool)


def _close_replay(model: Any) -> None:
    """What was under way is cut off: returns over several steps end at the newest row."""
    buffer = getattr(model, "replay_buffer", None)
    if buffer is not None and buffer.size():
        buffer.timeouts[buffer.pos - 1] = np.logical_not(buffer.dones[buffer.pos - 1]) | (
            buffer.timeouts[buffer.pos - 1] > 0
        )
        buffer.dones[buffer.pos - 1] = 1.0
