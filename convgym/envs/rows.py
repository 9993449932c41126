"""Single rows of a vector environment: what they hold, and how some of them begin anew.

    reset_rows(envs, rows, seeds, options)   these rows begin, each with its own seed and options
    reset_asked(num_envs, seed, options)     what a reset of all rows asks for, if it may
    row_of(batch, row)                       what one row of a batch of observations holds
    rows_of, as_arrays, put_row              some rows of it; texts as arrays; one row replaced

Gymnasium's `reset` has a seed for each row but one set of options for all, so that rows with
unlike options are reset in a call each, by `options["reset_mask"]`; those of gymnasium 1.0 have not
even that. A vector environment that can do better offers

    envs.reset_rows(rows, seeds, options, fields) -> [(observation, info), …]

as below, and is asked. The rows of a `SyncVectorEnv` are reset by hand, in any gymnasium.

Finished rows may wait for a reset (`DISABLED`), or be due for one with the next step
(`NEXT_STEP`, the only mode of gymnasium 1.0), which they then no longer get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from convgym.envs.autoreset import NEXT_STEP, AutoresetMode, mode_named
from convgym.errors import InvalidConfiguration

Envs = VectorEnv[Any, Any, Any]
Begun = list[tuple[Any, dict[str, Any]]]
"""(observation, info) of each row that has begun."""


def autoreset_mode(envs: Envs) -> str:
    """When finished rows begin anew: one of `NEXT_STEP`, `SAME_STEP` and `DISABLED`."""
    return mode_named(envs.metadata.get("autoreset_mode") or NEXT_STEP)


def attribute_of(envs: Envs, name: str, default: Any = None) -> Any:
    """An attribute that all rows share: the vector environment's own, or that of the first row."""
    base: Any = envs.unwrapped
    if hasattr(base, name):
        return getattr(base, name)
    try:
        return base.get_attr(name)[0]
    except AttributeError:
        return default


def reset_asked(
    num_envs: int, seed: Any, options: Any
) -> tuple[list[int | None], NDArray[np.bool_] | None, dict[str, Any]]:
    """(a seed for each row, `reset_mask` if it is among the options, the other options).

    Raises InvalidConfiguration for seeds that are not one number or one for each row, options that
    are no mapping, and a mask that is no array of bools with at least one True.
    """
    if not (options is None or isinstance(options, Mapping)):
        raise InvalidConfiguration(f"reset's options are {options!r:.60}; they must be a dict")
    rest = dict(options or {})
    mask = rest.pop("reset_mask", None)
    fits = isinstance(mask, np.ndarray) and mask.dtype == bool
    if mask is not None and not (fits and mask.shape == (num_envs,) and mask.any()):
        raise InvalidConfiguration(
            f"reset_mask={mask!r:.60}; it has to be an array of {num_envs} bools with at least one "
            "True"
        )
    if seed is None or isinstance(seed, int | np.integer):
        return [None if seed is None else int(seed) + row for row in range(num_envs)], mask, rest
    if not is_one_each(seed, num_envs):
        raise InvalidConfiguration(
            f"seed={seed!r:.60}; give one number for all, or {num_envs}, one for each environment"
        )
    return list(seed), mask, rest


def is_one_each(values: Any, count: int) -> bool:
    """Whether this is a list, a tuple or an array of so many things, and no text."""
    if isinstance(values, np.ndarray):
        return values.ndim > 0 and len(values) == count
    return isinstance(values, list | tuple) and len(values) == count


def row_of(batch: Any, row: int) -> Any:
    """What `row` holds of a batch of observations, Dict or not."""
    if isinstance(batch, Mapping):
        return {name: row_of(part, row) for name, part in batch.items()}
    return batch[row]


def rows_of(batch: Any, rows: NDArray[np.intp]) -> Any:
    """A batch of these rows alone, in this order; `batch` holds arrays."""
    if isinstance(batch, Mapping):
        return {name: rows_of(part, rows) for name, part in batch.items()}
    return batch[rows]


def as_arrays(batch: Any) -> Any:
    """A batch of observations with its tuples of texts as arrays of objects, to be written to."""
    if isinstance(batch, Mapping):
        return {name: as_arrays(part) for name, part in batch.items()}
    return np.array(batch, dtype=None if isinstance(batch, np.ndarray) else object)


def put_row(batch: Any, row: int, observation: Any) -> None:
    """Replace one row of a batch of arrays."""
    if isinstance(batch, Mapping):
        for name, part in observation.items():
            put_row(batch[name], row, part)
    else:
        batch[row] = observation


def reset_rows(
    envs: Envs,
    rows: Sequence[int],
    seeds: Sequence[int | None] | None = None,
    options: Sequence[dict[str, Any]] | None = None,
    fields: Sequence[str] = ("action_mask",),
) -> Begun:
    """Begin an episode in each of `rows`, in their order: its observation and `fields` of its info.

    `seeds` and `options` hold an entry for each of `rows`; a seed of None goes on with the row's
    own chance.

    Raises InvalidConfiguration for a vector environment that cannot reset single rows.
    """
    seeds = [None] * len(rows) if seeds is None else seeds
    options = [{}] * len(rows) if options is None else options
    if hasattr(envs, "reset_rows"):
        begun: Begun = envs.reset_rows(rows, seeds, options, fields)
    elif isinstance(envs, SyncVectorEnv):
        begun = [_by_hand(envs, *one) for one in zip(rows, seeds, options, strict=True)]
    elif AutoresetMode is not None or "autoreset_mode" in envs.metadata:
        begun = _by_mask(envs, list(zip(rows, seeds, options, strict=True)), fields)
    else:
        raise InvalidConfiguration(
            f"gymnasium {gym.__version__} cannot reset single rows of a {type(envs).__name__}; "
            'take vectorization_mode="sync", or install gymnasium>=1.1'
        )
    return begun


def _by_hand(
    envs: Any, row: int, seed: int | None, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Reset the row itself, and take it off the list of those due."""
    observation, info = envs.envs[row].reset(seed=seed, options=options or None)
    envs._autoreset_envs[row] = False
    if hasattr(envs, "_env_obs"):  # what a later reset by mask shows of the rows it leaves alone
        envs._env_obs[row] = observation
    return observation, info


def _by_mask(
    envs: Any, waiting: list[tuple[int, int | None, dict[str, Any]]], fields: Sequence[str]
) -> Begun:
    """Rows of equal options in one call."""
    order = [row for row, _, _ in waiting]
    begun: dict[int, tuple[Any, dict[str, Any]]] = {}
    while waiting:
        shared = waiting[0][2]
        now = [one for one in waiting if one[2] == shared]
        waiting = [one for one in waiting if one[2] != shared]
        seeds: list[int | None] = [None] * envs.num_envs
        mask = np.zeros(envs.num_envs, dtype=np.bool_)
        for row, seed, _ in now:
            seeds[row], mask[row] = seed, True
        observations, infos = envs.reset(seed=seeds, options={**shared, "reset_mask": mask})
        for row, _, _ in now:
            info = {name: infos[name][row] for name in fields if name in infos}
            begun[row] = (row_of(observations, row), info)
    return [begun[row] for row in order]
