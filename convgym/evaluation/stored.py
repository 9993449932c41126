"""Episodes that were stored so that they can be played again: from Minari, or as JSON lines.

    {"env_id": "ConvGym/CustomerService-v0", "keywords": {"action": "act"},      which environment
     "seed": 17, "options": {"task_id": "test-4"},                               how it was reset
     "actions": [3, 8, 8],                                                       T, what was done
     "observations": ["a41c…", "77e0…", "19bd…", "5f02…"],                       T + 1 fingerprints
     "rewards": [0.0, 0.0, 1.0], "success": true, "terminated": true, "truncated": false}

`env_id` and `actions` must be there. Without `observations` nobody notices that an episode went
another way; without `rewards` and `success` there is no old score. An action is what the action
space takes: a number or a text. A fingerprint is the beginning of a SHA-256 of the observation,
names, types and shapes included, the same on every platform.

Minari keeps seed and options among an episode's metadata and the environment in the dataset's
`env_spec`, as `convgym.data.episodes` writes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from convgym.errors import DatasetError, InvalidConfiguration, told
from convgym.evaluation.rollout import Rollout

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector import EpisodeBuffer

DIGITS = 16
"""Hexadecimal digits of a fingerprint."""
_KINDS: dict[str, type] = {
    "env_id": str,
    "keywords": dict,
    "seed": int,
    "options": dict,
    "actions": list,
    "observations": list,
    "rewards": list,
    "success": bool,
    "terminated": bool,
    "truncated": bool,
}


@dataclass(frozen=True)
class StoredEpisode:
    """One episode of T agent turns, without its observations."""

    env: EnvSpec
    """Id, keywords and wrappers of the environment that it was played in."""
    actions: tuple[Any, ...]  # T
    seed: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    observations: tuple[str, ...] = ()  # T + 1 fingerprints; empty where none were kept
    rewards: tuple[float, ...] | None = None  # T
    success: bool | None = None
    terminated: bool | None = None
    truncated: bool | None = None
    """None where nobody knows; both False of an episode that was not played to its end."""

    def __post_init__(self) -> None:
        length = len(self.actions)
        if self.observations and len(self.observations) != length + 1:
            raise DatasetError(
                f"an episode has {len(self.observations)} observations and {length} actions; "
                "there must be one more than actions"
            )
        if self.rewards is not None and len(self.rewards) != length:
            raise DatasetError(
                f"an episode has {len(self.rewards)} rewards and {length} actions; there must be "
                "as many"
            )

    def to_record(self) -> dict[str, Any]:
        """The JSON object; raises InvalidConfiguration where wrappers or keywords are not JSON."""
        if self.env.additional_wrappers:
            raise InvalidConfiguration(
                "an environment with wrappers does not fit in a JSON record; keep the episode in "
                "Minari"
            )
        record: dict[str, Any] = {
            "env_id": self.env.id,
            "keywords": self.env.kwargs,
            "seed": self.seed,
            "options": self.options,
            "actions": list(self.actions),
            "observations": list(self.observations),
            "rewards": None if self.rewards is None else list(self.rewards),
            "success": self.success,
            "terminated": self.terminated,
            "truncated": self.truncated,
        }
        try:
            json.dumps(record, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidConfiguration(
                f"the episode cannot be written as JSON: {told(error)}"
            ) from None
        return record


def stored_rollout(
    env: gym.Env[Any, Any], rollout: Rollout, options: Mapping[str, Any] | None = None
) -> StoredEpisode:
    """A rollout of `play(env, …, options=options)`, kept with all it has seen.

    Raises InvalidConfiguration for one that was played with `keep=False`.
    """
    if len(rollout.observations) != rollout.length + 1:
        raise InvalidConfiguration("this rollout was played with keep=False; play with keep=True")
    return StoredEpisode(
        env=_spec(env),
        actions=tuple(_plain(action) for action in rollout.actions),
        seed=rollout.seed,
        options=dict(options or {}),
        observations=tuple(fingerprint(seen) for seen in rollout.observations),
        rewards=tuple(rollout.rewards),
        success=bool(rollout.final_info["success"]),
        terminated=rollout.terminated,
        truncated=rollout.truncated,
    )


def stored_buffers(env: gym.Env[Any, Any], buffers: Sequence[EpisodeBuffer]) -> list[StoredEpisode]:
    """What `convgym.data.episodes.collect(env, …)` returned."""
    spec = _spec(env)
    return [_stored(spec, buffer.seed, buffer.options, buffer) for buffer in buffers]


def stored_dataset(dataset: MinariDataset) -> Iterator[StoredEpisode]:
    """The episodes of a Minari dataset, in order.

    Raises InvalidConfiguration for a dataset that does not name its environment.
    """
    if dataset.env_spec is None:
        raise InvalidConfiguration(
            f"the dataset {dataset.id!r} does not say which environment it comes from; its "
            "episodes cannot be played again"
        )
    about = dataset.storage.get_episode_metadata(dataset.episode_indices)
    for metadata, episode in zip(about, dataset.iterate_episodes(), strict=True):
        yield _stored(dataset.env_spec, metadata.get("seed"), metadata.get("options"), episode)


def write_stored(path: str | os.PathLike[str], episodes: Iterable[StoredEpisode]) -> int:
    """Write one JSON line an episode, whole or not at all; how many there were."""
    aside = Path(f"{os.fspath(path)}.{os.getpid()}.part")
    count = 0
    try:
        with aside.open("w", encoding="utf-8") as file:
            for episode in episodes:
                file.write(json.dumps(episode.to_record(), ensure_ascii=False) + "\n")
                count += 1
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    return count


def read_stored(path: str | os.PathLike[str]) -> Iterator[StoredEpisode]:
    """The episodes of a file of JSON lines; raises DatasetError with the line that is wrong."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        try:
            yield from_record(json.loads(line))
        except (ValueError, RecursionError, DatasetError) as error:
            raise DatasetError(f"line {number} of {path}: {told(error)}") from None


def from_record(record: object) -> StoredEpisode:
    """The episode of one JSON object; raises DatasetError for what is missing or of a wrong kind.

    Keys that are not named above are ignored; null means absent.
    """
    if not isinstance(record, dict):
        raise DatasetError(f"a stored episode is a JSON object, not {type(record).__name__}")
    given = {name: record[name] for name in _KINDS if record.get(name) is not None}
    for name in ("env_id", "actions"):
        if name not in given:
            raise DatasetError(f"a stored episode must have {name!r}")
    for name, value in given.items():
        kind = _KINDS[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise DatasetError(f"{name!r} is {str(value)[:40]!r}; it must be a {kind.__name__}")
    if not all(map(_is_finite, given.get("rewards", ()))):
        raise DatasetError("'rewards' must be finite numbers")
    try:
        spec = deepcopy(gym.spec(given["env_id"]))
    except gym.error.Error:
        raise DatasetError(
            f"there is no environment {given['env_id']!r}; import the package that registers it"
        ) from None
    spec.kwargs.update(given.get("keywords", {}))
    return StoredEpisode(
        env=spec,
        actions=tuple(given["actions"]),
        seed=given.get("seed"),
        options=given.get("options", {}),
        observations=tuple(given.get("observations", ())),
        rewards=tuple(float(r) for r in given["rewards"]) if "rewards" in given else None,
        success=given.get("success"),
        terminated=given.get("terminated"),
        truncated=given.get("truncated"),
    )


def _is_finite(number: Any) -> bool:
    return type(number) in (int, float) and abs(number) <= sys.float_info.max  # never of NaN


def fingerprint(observation: Any) -> str:
    """The beginning of a SHA-256 of an observation: text, array, or a mapping of them."""
    digest = hashlib.sha256()
    _absorb(digest, observation)
    return digest.hexdigest()[:DIGITS]


def _absorb(digest: Any, value: Any) -> None:
    """Every part is preceded by its kind and size, so that no two contents look alike."""
    if isinstance(value, Mapping):
        digest.update(b"{%d" % len(value))
        for key in sorted(value):
            _absorb(digest, key)
            _absorb(digest, value[key])
    elif isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        digest.update(b"s%d:" % len(raw) + raw)
    else:
        array = np.asarray(value)
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{array.dtype.kind}{array.dtype.itemsize}{array.shape}".encode())
        digest.update(array.tobytes())


def _stored(
    spec: EnvSpec, seed: int | None, options: dict[str, Any] | None, episode: Any
) -> StoredEpisode:
    """A Minari buffer or episode."""
    length, infos = len(episode.rewards), episode.infos or {}
    return StoredEpisode(
        env=spec,
        actions=tuple(_plain(_at(episode.actions, t)) for t in range(length)),
        seed=None if seed is None else int(seed),
        options=dict(options or {}),
        observations=tuple(fingerprint(_at(episode.observations, t)) for t in range(length + 1)),
        rewards=tuple(float(reward) for reward in episode.rewards),
        success=bool(infos["success"][-1]) if "success" in infos else None,
        terminated=bool(episode.terminations[-1]),
        truncated=bool(episode.truncations[-1]),
    )


def _at(column: Any, t: int) -> Any:
    """What stands at t of a column, which is a list, an array or a mapping of columns."""
    if isinstance(column, Mapping):
        return {name: _at(part, t) for name, part in column.items()}
    return column[t]


def _plain(action: Any) -> Any:
    """A number or text as Python knows it, for JSON; anything else as it is."""
    single = isinstance(action, np.generic | np.ndarray) and np.ndim(action) == 0
    return action.item() if single else action


def _spec(env: gym.Env[Any, Any]) -> EnvSpec:
    if env.spec is None:
        raise InvalidConfiguration(
            "this environment has no spec, so nobody could make it again; use gymnasium.make"
        )
    return env.spec
