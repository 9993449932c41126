"""What OpenEnv's clients send and are sent, beside what a session records.

    session record                     OpenEnv
    observation  a text                observation: {message}
                 a dict                observation: as it is
                 a vector              observation: {features}
    system_prompt                      observation.system_prompt, at reset where there is one
    terminated or truncated            done
    reward                             reward; null at reset
    seed, turn, return, info, said …   metadata
    action       a text, an act, a vector ◄── {"message": …}, {"act": …}, {"vector": …}

Written for OpenEnv 0.10 (github.com/huggingface/OpenEnv, `core/env_server/types.py`). Pure: knows
neither requests nor sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from convgym.service.plain_values import space_record
from convgym.service.problems import Problem

ACTIONS = {"text": "message", "act": "act", "vector": "vector"}
"""The field of an action, by what the environment takes."""
_ABOUT = (
    "session_id", "env_id", "seed", "turn", "return", "terminated", "truncated", "info", "said",
    "calls", "ledger", "action_space",
)  # fmt: skip
_CODES = {
    429: "CAPACITY_REACHED", 503: "CAPACITY_REACHED", 404: "SESSION_ERROR", 409: "SESSION_ERROR",
    413: "VALIDATION_ERROR", 422: "VALIDATION_ERROR",
}  # fmt: skip


def envelope(record: Mapping[str, Any], began: bool) -> dict[str, Any]:
    """What answers a reset (`began`) or a step."""
    shown = record["observation"]
    if isinstance(shown, str):
        observation = {"message": shown}
    else:
        observation = dict(shown) if isinstance(shown, Mapping) else {"features": shown}
    if record.get("system_prompt"):
        observation.setdefault("system_prompt", record["system_prompt"])
    return {
        "observation": observation,
        "reward": None if began else record["reward"],
        "done": bool(record["terminated"] or record["truncated"]),
        "metadata": {name: record[name] for name in _ABOUT if name in record},
    }


def action_of(given: Mapping[str, Any]) -> Any:
    """The action in what a client sends; raises Problem 422 where there is not exactly one."""
    named = [name for name in given if name != "metadata"]
    if len(named) != 1 or named[0] not in ACTIONS.values():
        raise Problem(
            422, "not_allowed",
            f"an action has one field, {', '.join(ACTIONS.values())}; /schema tells which",
        )  # fmt: skip
    return given[named[0]]


def failure(problem: Problem) -> dict[str, Any]:
    """The message that tells of a problem."""
    return error_of(_CODES.get(problem.status, "EXECUTION_ERROR"), problem.message)


def error_of(code: str, message: str) -> dict[str, Any]:
    """A message of type error; `code` is one of OpenEnv's."""
    return {"type": "error", "data": {"message": message, "code": code}}


def schemas(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """JSON schemas of an environment's actions, observations and states."""
    kind = space_record(env)
    taken: dict[str, Any] = {
        "text": {"type": "string", "description": "what the agent says, tool calls within"},
        "act": {
            "type": "integer",
            "minimum": 0,
            "maximum": kind.get("n", 1) - 1,
            "description": "number of an act: " + ", ".join(kind.get("names", ())),
        },
        "vector": {"type": "array", "items": {"type": "number"}},
    }[kind["kind"]]
    about = {"metadata": {"type": "object"}}
    seen = _schema(env.observation_space)
    if seen.get("type") == "string":
        seen = _object({"message": seen})
    elif seen.get("type") != "object":
        seen = _object({"features": seen})
    shown = seen["properties"] | {
        "system_prompt": {"type": "string"},
        "done": {"type": "boolean"},
        "reward": {"type": ["number", "null"]},
    }
    field = ACTIONS[kind["kind"]]
    return {
        "action": _titled("Action", {field: taken} | about, [field]),
        "observation": _titled("Observation", shown | about, sorted(seen["properties"])),
        "state": _titled(
            "State",
            {
                "episode_id": {"type": ["string", "null"]},
                "step_count": {"type": "integer", "minimum": 0},
                "env_id": {"type": "string"},
                "return": {"type": "number"},
                "done": {"type": "boolean"},
            },
            ["step_count"],
        ),
    }


def _titled(title: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"title": title, **_object(properties), "required": required}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _schema(space: spaces.Space[Any]) -> dict[str, Any]:
    if isinstance(space, spaces.Text):
        return {"type": "string"}
    if isinstance(space, spaces.Discrete):
        return {"type": "integer"}
    if isinstance(space, spaces.Box):
        found: dict[str, Any] = {"type": "number"}
        for _ in space.shape:
            found = {"type": "array", "items": found}
        return found
    if isinstance(space, spaces.Dict):
        return _object({name: _schema(one) for name, one in space.spaces.items()})
    return {"type": "array"} if isinstance(space, spaces.Sequence) else {}
