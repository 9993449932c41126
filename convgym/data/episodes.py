"""Conversations as Minari episodes: collecting, writing, hashing.

    observations  o0  o1  o2     (T + 1,)
    actions       a0  a1         (T,)
    rewards       r0  r1         (T,)      r0 earned by a0
    infos         i0  i1  i2     (T + 1,)  i0 from reset

    infos, by index      t = 0    t
    action_mask           m0      legal acts when a_t is decided; not there for text actions
    act                   -1      number of the act behind a_(t-1), where actions are texts
    propensity            NaN     probability of a_(t-1) under the policy that played, see below
    policy                k       which of the policies handed to `collect` played; constant
    success               0       1 at the end of an episode that reached its goal
    user_log_prob        log p    of the customer's choices in the turn that o_t shows
    user_acts            JSON     what that turn meant; only where observations are words
    (others on request: `convgym.data.info_fields`)

**The propensity of action t stands at t + 1.** It is the probability under the one policy that
played the episode, not under the mixture (`convgym.data.mixture`); for a policy that speaks it
is the probability of the act behind the words.

Few keys on purpose: every one makes writing slower. Needs Minari, but only once it is called.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from convgym.data.hdf5_writing import write_episodes
from convgym.data.info_fields import chosen_fields, info_column
from convgym.data.local_root import check_free, hidden_root, minari_module, settle
from convgym.data.mixture import BehaviorMixture
from convgym.engine.keys import TASK, below, child, draw
from convgym.engine.tasks import SPLITS, check_split
from convgym.errors import DatasetError
from convgym.evaluation.rollout import Rollout, play
from convgym.evaluation.side_by_side import Plan
from convgym.policies.policy import Policy

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector import EpisodeBuffer

AUTHOR = "ConvGym contributors"
REQUIREMENTS = ("convgym>=0.1",)


def collect(
    env: gym.Env[Any, Any],
    policies: Sequence[tuple[Policy, float]],
    episodes: int,
    seed: int,
    split: str = "train",
    progress: Callable[[int], None] | None = None,
    info_fields: Sequence[str] | str | None = None,
) -> list[EpisodeBuffer]:
    """Let a weighted mixture of policies play; the same arguments give the same bytes.

    Task, policy and chance of episode i are keyed draws from (seed, i); where the environment
    fixes a topic, a difficulty or a task, or has a randomizer, that decides among the tasks. Each
    episode carries its own seed and options, so that it can be played again. `progress` hears how
    many are done.
    """
    check_split(split)
    mixture = BehaviorMixture(policies)
    buffers = []
    drawn = bool(env.unwrapped.draws_tasks)  # type: ignore[attr-defined]
    for number, (key, options) in enumerate(collection_plans(episodes, seed, split, drawn), 1):
        rollout = play(env, mixture, seed=key, options=options)
        buffers.append(_buffer(env, rollout, options, mixture.index, info_fields))
        if progress is not None:
            progress(number)
    return buffers


def collection_plans(episodes: int, seed: int, split: str, drawn: bool) -> list[Plan]:
    """Seed and reset options of each episode; `drawn` if the environment draws among the tasks."""
    keys = [child(seed, index) for index in range(episodes)]
    if drawn:
        # Topic, difficulty or a randomizer decide; the task they drew is what is noted.
        return [(key, {"split": split}) for key in keys]
    return [
        (key, {"task_id": f"{split}-{below(draw(key, TASK, 0, 0), SPLITS[split])}"})
        for key in keys
    ]


def _buffer(
    env: gym.Env[Any, Any],
    rollout: Rollout,
    options: dict[str, Any],
    policy: int,
    info_fields: Sequence[str] | str | None,
) -> EpisodeBuffer:
    infos, length = rollout.infos, rollout.length + 1
    spaces = env.observation_space, env.action_space
    played = {
        "policy": [policy] * length,
        "propensity": [np.nan, *rollout.propensities],
        "act": [-1, *rollout.acts],
    }
    return episode_buffer(
        spaces,
        rollout,
        options,
        observations=rollout.observations,
        actions=rollout.actions,
        rewards=rollout.rewards,
        infos={
            name: info_column(name, played.get(name) or [info[name] for info in infos])
            for name in chosen_fields(info_fields, infos[0], *spaces)
        },
    )


def episode_buffer(
    spaces: tuple[gym.Space[Any], gym.Space[Any]],
    rollout: Rollout,
    options: dict[str, Any],
    *,
    observations: Any,
    actions: Any,
    rewards: Any,
    infos: dict[str, Any],
) -> EpisodeBuffer:
    """One episode as Minari has it; observations and actions are lists or stacked arrays."""
    minari_module()
    from minari.data_collector import EpisodeBuffer

    ends = np.arange(1, rollout.length + 1) == rollout.length
    return EpisodeBuffer(
        seed=rollout.seed,
        options=options,
        observations=_column(spaces[0], observations),
        actions=_column(spaces[1], actions),
        rewards=np.array(rewards, dtype=np.float64),  # type: ignore[arg-type]
        terminations=ends & rollout.terminated,
        truncations=ends & rollout.truncated,
        infos=infos,
    )


def _column(space: gym.Space[Any], values: Any) -> Any:
    """One episode's observations or actions, as Minari stores this space."""
    if isinstance(space, gym.spaces.Dict):
        if isinstance(values, Mapping):
            return {key: _column(part, values[key]) for key, part in space.items()}
        return {key: _column(part, [v[key] for v in values]) for key, part in space.items()}
    return list(values) if isinstance(space, gym.spaces.Text) else np.array(values, space.dtype)


def write_dataset(
    dataset_id: str,
    env: gym.Env[Any, Any] | tuple[gym.Space[Any], gym.Space[Any]],
    buffers: Iterable[EpisodeBuffer],
    *,
    description: str,
    ref_min_score: float | None,
    ref_max_score: float | None,
    algorithm_name: str,
    eval_env: gym.envs.registration.EnvSpec | None = None,
    author: str = AUTHOR,
    author_email: str | None = None,
    code_permalink: str | None = None,
    requirements: Sequence[str] = REQUIREMENTS,
    overwrite: bool = False,
    finish: Callable[[Any], None] | None = None,
) -> MinariDataset:
    """Write episodes as the Minari dataset `dataset_id` into Minari's local root, whole or not.

    `env` is what played, or the spaces of observations and actions where people did. `buffers` may
    be an iterator, of `convgym.data.collection.collect_episodes` for one.
    `ref_min_score` and `ref_max_score` are the returns of a null policy and of the best known
    one. `eval_env` defaults to `env`'s spec on the split "test". `finish` is handed the storage
    when all episodes are in it. What is written appears whole or not at all
    (`convgym.data.local_root`); not for two threads at once.

    Raises DatasetError for an id that is taken (unless `overwrite`) or for no episodes.
    """
    minari = minari_module()
    check_free(dataset_id, overwrite)
    episodes = iter(buffers)
    first = next(episodes, None)
    if first is None:
        raise DatasetError(f"there are no episodes to write as {dataset_id!r}; collect some first")
    played: dict[str, Any] = {"eval_env": eval_env}
    if isinstance(env, tuple):
        played |= dict(zip(("observation_space", "action_space"), env, strict=True))
    else:
        assert env.spec is not None, "make it with gymnasium.make, which knows its spec"
        played["env"] = env
        if eval_env is None:
            played["eval_env"] = deepcopy(env.spec)
            played["eval_env"].kwargs["split"] = "test"
    with hidden_root() as aside:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="`(author_email|code_permalink)` is set to")
            if "env" not in played:
                warnings.filterwarnings("ignore", message="`eval_env` is set to|env_spec is None")
            empty = minari.create_dataset_from_buffers(
                dataset_id,
                [],
                **played,
                algorithm_name=algorithm_name,
                author=author,
                author_email=author_email,
                code_permalink=code_permalink,
                ref_min_score=ref_min_score,
                ref_max_score=ref_max_score,
                description=description,
                data_format="hdf5",
                requirements=list(requirements),
            )
            _fill(empty.storage, chain([first], episodes))
            if finish is not None:
                finish(empty.storage)
        settle(aside, dataset_id)
    return minari.load_dataset(dataset_id)


def _fill(storage: Any, episodes: Iterable[EpisodeBuffer]) -> None:
    """Put the episodes where Minari would have put them, and count them as it does."""
    count, steps = write_episodes(Path(storage.data_path) / "main_data.hdf5", episodes)
    storage.update_metadata(
        {"total_episodes": count, "total_steps": steps, "dataset_size": storage.get_size()}
    )


def content_hash(data: MinariDataset | Sequence[EpisodeBuffer]) -> str:
    """SHA-256 over what the episodes hold, in order; the same before and after writing.

    It covers seeds, options, observations, actions, rewards, flags and infos, names and types
    included. It leaves out the id, descriptions, scores and the versions that wrote them.
    """
    digest = hashlib.sha256()
    for seed, options, episode in _episodes(data):
        _absorb(digest, {"seed": seed, "options": options})
        for name in ("observations", "actions", "rewards", "terminations", "truncations", "infos"):
            _absorb(digest, getattr(episode, name))
    return digest.hexdigest()


def _episodes(
    data: MinariDataset | Sequence[EpisodeBuffer],
) -> Iterator[tuple[int | None, dict[str, Any] | None, Any]]:
    """(seed, options, episode) for each; Minari keeps the first two among the metadata."""
    if isinstance(data, Sequence):
        yield from ((buffer.seed, buffer.options, buffer) for buffer in data)
    else:
        metadata = data.storage.get_episode_metadata(data.episode_indices)
        for about, episode in zip(metadata, data.iterate_episodes(), strict=True):
            yield about.get("seed"), about.get("options"), episode


def _absorb(digest: Any, value: Any) -> None:
    """Every part is preceded by its kind and size, so that no two contents look alike."""
    if isinstance(value, Mapping):
        digest.update(b"{%d}" % len(value))
        for key in sorted(value):
            _absorb(digest, key)
            _absorb(digest, value[key])
    elif isinstance(value, bytes | str):
        raw = value.encode() if isinstance(value, str) else value
        digest.update(b"s%d:" % len(raw) + raw)
    elif value is None:
        digest.update(b"-")
    elif isinstance(value, list | tuple) or np.asarray(value).dtype.kind in "OSU":
        digest.update(b"[%d]" % len(value))
        for part in value:
            _absorb(digest, part)
    else:
        array = np.asarray(value)
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{array.dtype.kind}{array.dtype.itemsize}{array.shape}".encode())
        digest.update(array.tobytes())
