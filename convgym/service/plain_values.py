"""Observations, infos and spaces as plain JSON values, and actions back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from convgym.service.problems import Problem, clean


def plain(value: Any) -> Any:
    """Arrays as lists, numbers as Python's; NaN and infinities, which JSON has not, as None."""
    if isinstance(value, str):
        return value if value.isascii() else clean(value, len(value))
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return clean(str(value), 1000)


def space_record(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """What a session takes: texts, act numbers with their names, or vectors."""
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        domain = getattr(env.unwrapped, "domain", None)
        names = list(domain.actions.names) if domain is not None else []
        return {"kind": "act", "n": int(space.n), "names": names}
    if isinstance(space, spaces.Box):
        return {"kind": "vector", "shape": list(space.shape)}
    return {"kind": "text", "max_length": int(getattr(space, "max_length", 4096))}


def action_of(env: gym.Env[Any, Any], given: Any) -> Any:
    """A JSON value as an action; raises Problem 422 where it is of another kind."""
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        if isinstance(given, int) and not isinstance(given, bool):
            return given
        raise _other("a whole number, the act's")
    if isinstance(space, spaces.Box):
        numbers = isinstance(given, list) and all(
            isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 1e30
            for one in given
        )
        if numbers and (len(given),) == space.shape:
            return np.array(given, dtype=space.dtype)
        raise _other(f"a list of {space.shape[0]} numbers")
    if isinstance(given, str):
        return given
    raise _other("a text")


def _other(allowed: str) -> Problem:
    return Problem(422, "not_allowed", f"the action of this session is {allowed}")
