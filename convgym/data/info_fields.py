"""Which fields of the infos an episode keeps, and in what form.

    None     the usual ones: what learners read
    names    these: any of the environment's, and `policy`, `propensity` and `act`
    "all"    every field of the environment's, and `policy`, `propensity` and `act`

Every field costs time and space in writing, so few is better. Numbers are stored as numbers, truth
as 0 and 1, text as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration

ALL = "all"
PLAYED = ("policy", "propensity", "act")
"""What the collector adds to the infos of the environment."""

_FORMS: dict[str, type[np.generic]] = {
    "act": np.int16,
    "action_mask": np.int8,
    "policy": np.int8,
    "propensity": np.float64,
    "success": np.int8,
    "user_log_prob": np.float32,  # hides the last bits that platforms differ in
}


def usual_fields(
    observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> tuple[str, ...]:
    """The mask of acts, or the act behind a reply; and what the user's words meant."""
    fields = ["policy", "propensity", "success", "user_log_prob"]
    fields.append("act" if isinstance(action_space, spaces.Text) else "action_mask")
    if not isinstance(observation_space, spaces.Box):
        fields.append("user_acts")
    return tuple(fields)


def chosen_fields(
    wanted: Sequence[str] | str | None,
    known: Iterable[str],
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
) -> tuple[str, ...]:
    """The names of the fields to keep; `known` are those of the environment.

    Raises InvalidConfiguration for a name that there is not.
    """
    there = (*PLAYED, *known)
    if wanted is None:
        return usual_fields(observation_space, action_space)
    if wanted == ALL:
        return there
    for name in [wanted] if isinstance(wanted, str) else wanted:
        if name not in there or isinstance(wanted, str):
            raise InvalidConfiguration(
                f"info_fields={wanted!r}: there is no field {name!r}; give {ALL!r} or a list of "
                f"{', '.join(there)}"
            )
    return tuple(wanted)


def info_column(name: str, values: Any) -> NDArray[Any] | list[str]:
    """One field of T + 1 infos, as Minari stores it."""
    first = values[0]
    if isinstance(first, str):
        return [str(value) for value in values]
    if name in _FORMS:
        return np.array(values, dtype=_FORMS[name])
    array = np.array(values)
    return array.astype(np.int8) if array.dtype == np.bool_ else array
