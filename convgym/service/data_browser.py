"""Local Minari datasets for people: which there are, their episodes, one episode turn by turn.

    datasets() ─► id ─► episodes(id, start, count) ─► index ─► episode(id, index) ─► steps

    step 0    what the reset showed
    step t    the action, what it earned, and what it brought

Reads only what it lists, so that no path can be asked for. Texts are shown as they are; of
features, the names of the acts alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

import convgym.envs.registration as registration
from convgym.data.local_root import local_ids, local_path
from convgym.data.minari_reading import episodes_of, opened
from convgym.errors import ConvGymError
from convgym.service.plain_values import plain
from convgym.service.problems import Problem

MOST_EPISODES = 50
"""In one answer."""
_TOLD = ("user_acts", "user_log_prob", "propensity", "act", "success", "failure_reason",
         "violations", "reward_terms", "tool_results")  # fmt: skip
"""Infos that are shown where a dataset holds them."""


def datasets() -> list[dict[str, Any]]:
    """All local ones, by id."""
    return [_told(dataset_id) for dataset_id in sorted(local_ids())]


def _told(dataset_id: str) -> dict[str, Any]:
    """What the metadata of a dataset say; of a damaged one, that it is."""
    try:
        about = json.loads((local_path(dataset_id) / "data" / "metadata.json").read_bytes())
        found = {
            "episodes": int(about.get("total_episodes", 0)),
            "steps": int(about.get("total_steps", 0)),
            "description": plain(str(about.get("description") or "")),
        }
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        found = {"episodes": 0, "steps": 0, "description": "its metadata cannot be read"}
    return {"id": dataset_id, **found}


def episodes(dataset_id: str, start: int, count: int) -> dict[str, Any]:
    """Some episodes in a line each; raises Problem 404 for another dataset."""
    dataset = _opened(dataset_id)
    total = int(dataset.total_episodes)
    wanted = [int(i) for i in dataset.episode_indices[start : start + min(count, MOST_EPISODES)]]
    rows = []
    if wanted:
        metadata = list(dataset.storage.get_episode_metadata(wanted))
        for about, episode in zip(metadata, episodes_of(dataset, wanted), strict=True):
            infos = episode.infos or {}
            success = infos.get("success")
            rows.append({
                "index": int(episode.id),
                "steps": len(episode.rewards),
                "return": plain(float(np.sum(episode.rewards))),
                "success": None if success is None else bool(np.asarray(success)[-1]),
                "task_id": plain(str((about.get("options") or {}).get("task_id", "")))
                if isinstance(about.get("options"), Mapping) else "",
            })  # fmt: skip
    return {"dataset": dataset_id, "total": total, "start": start, "episodes": rows}


def episode(dataset_id: str, index: int) -> dict[str, Any]:
    """One episode, turn by turn; raises Problem 404 where there is none."""
    dataset = _opened(dataset_id)
    if index not in {int(i) for i in dataset.episode_indices}:
        raise Problem(404, "no_episode", f"{dataset_id} has no episode {index}")
    (found,) = episodes_of(dataset, [index])
    names = _act_names(dataset)
    infos = {name: found.infos[name] for name in _TOLD if name in (found.infos or {})}
    steps = []
    for t in range(len(found.rewards) + 1):
        step: dict[str, Any] = {"seen": _seen(found.observations, t)}
        step["infos"] = {name: plain(_at(values, t)) for name, values in infos.items()}
        if t:
            action = plain(_at(found.actions, t - 1))
            step["action"] = names[action] if _names_it(names, action) else _shortened(action)
            step["reward"] = plain(float(found.rewards[t - 1]))
            step["terminated"] = bool(found.terminations[t - 1])
            step["truncated"] = bool(found.truncations[t - 1])
        steps.append(step)
    return {"dataset": dataset_id, "index": index, "steps": steps,
            "return": plain(float(np.sum(found.rewards)))}  # fmt: skip


def _opened(dataset_id: str) -> Any:
    if dataset_id not in local_ids():
        raise Problem(404, "no_dataset", "there is no such dataset here; /v1/datasets lists them")
    return opened(local_path(dataset_id) / "data")


def _act_names(dataset: Any) -> list[str]:
    """Of the acts, where it was one of our environments that was played."""
    spec = getattr(dataset.spec, "env_spec", None)
    if spec is None or spec.id not in registration.ENVIRONMENTS:
        return []
    if not isinstance(dataset.action_space, gym.spaces.Discrete):
        return []
    registration.register_envs()
    try:
        env: Any = gym.make(spec.id, disable_env_checker=True, observation="features", action="act")
    except (ConvGymError, TypeError):  # a domain of somebody's own, which is not here
        return []
    return list(env.unwrapped.domain.actions.names)


def _names_it(names: list[str], action: Any) -> bool:
    return isinstance(action, int) and 0 <= action < len(names)


def _at(values: Any, t: int) -> Any:
    if isinstance(values, Mapping):
        return {name: _at(part, t) for name, part in values.items()}
    value = values[t]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _seen(observations: Any, t: int) -> dict[str, Any]:
    """The texts of an observation; of numbers, how many there are."""
    value = _at(observations, t)
    if isinstance(value, Mapping):
        texts = {name: plain(part) for name, part in value.items() if isinstance(part, str)}
        return {name: texts[name] for name in ("tool_results", "message") if name in texts} or texts
    if isinstance(value, str):
        return {"message": plain(value)}
    return {"numbers": int(np.size(value))}


def _shortened(action: Any) -> Any:
    return f"a vector of {len(action)} numbers" if isinstance(action, list) else action
