"""Minari episodes from a vector environment: many conversations at once, the same data.

    collect_episodes ─► episode after episode ─► write_dataset

The episodes are those of `convgym.data.episodes.collect`, in its order, whatever the number of
rows; nothing but what is being played is kept in memory, so `write_dataset` can be handed the
iterator of a million turns.

While an episode is played, what its row shows is written into columns, all rows in one call:

    column   (rows, turns, …)    observations and infos at t = 0 … T, the rest at t = 0 … T - 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.data.episodes import collection_plans, episode_buffer
from convgym.data.info_fields import PLAYED, chosen_fields, info_column
from convgym.engine.tasks import check_split
from convgym.envs.modes import MESSAGE_LENGTH
from convgym.envs.rows import Envs, as_arrays, attribute_of, rows_of
from convgym.evaluation.side_by_side import ENDING, play_side_by_side
from convgym.policies.batched import BatchPolicy

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

_TURNS = 32
"""Turns that columns begin with; they double when an episode is longer."""


def collect_episodes(
    envs: Envs,
    policy: BatchPolicy,
    episodes: int,
    seed: int,
    split: str = "train",
    info_fields: Sequence[str] | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[EpisodeBuffer]:
    """Let a batched policy play; the same arguments give the same bytes, with any number of rows.

    Task, policy and chance of episode i are keyed draws from (seed, i), as in `collect`.
    `info_fields` says what of the infos is kept (`convgym.data.info_fields`). Take
    `autoreset_mode=AutoresetMode.DISABLED` or the default. `progress` hears how many are done.

    Raises InvalidConfiguration for environments whose episodes hang on those before.
    """
    check_split(split)
    spaces = envs.single_observation_space, envs.single_action_space
    fields = chosen_fields(info_fields, _known(envs, info_fields), *spaces)
    plans = collection_plans(episodes, seed, split, bool(attribute_of(envs, "draws_tasks", False)))
    columns = Columns(envs.num_envs, fields)
    waiting: dict[int, EpisodeBuffer] = {}
    due = 0
    for number, row, rollout in play_side_by_side(envs, policy, plans, recorder=columns):
        kept = columns.taken(row, rollout.length)
        infos = {name: info_column(name, kept["infos"][name]) for name in fields}
        options = plans[number][1]
        waiting[number] = episode_buffer(spaces, rollout, options, **{**kept, "infos": infos})
        while due in waiting:
            yield waiting.pop(due)
            due += 1
            if progress is not None:
                progress(due)


def _known(envs: Envs, info_fields: Sequence[str] | str | None) -> list[str]:
    """The names of the environment's own fields, where somebody asks for them."""
    if info_fields is None:
        return []
    _, infos = envs.reset(seed=0)
    return [name for name in infos if not name.startswith("_")]


def parted(
    episodes: Iterable[EpisodeBuffer], part: str, noted: Sequence[str] = ()
) -> Iterator[EpisodeBuffer]:
    """Episodes seen as Dicts, as who sees `features` or the newest `message` alone has them.

    A policy may so look at more than the data shows: one that speaks needs the Dict's `view`.
    `noted` parts become infos.
    """
    for episode in episodes:
        seen: dict[str, Any] = {**episode.observations, "message": _newest(episode.observations)}  # type: ignore[dict-item]
        infos = {**(episode.infos or {}), **{name: seen[name] for name in noted}}
        yield replace(episode, observations=seen[part], infos=infos)


def _newest(seen: Any) -> list[str]:
    """What `observation="message"` shows: the tools' words, then the user's."""
    pairs = zip(seen["tool_results"], seen["message"], strict=True)
    return ["\n".join(filter(None, pair))[:MESSAGE_LENGTH] for pair in pairs]


class Columns:
    """What the running episodes have shown and done so far."""

    def __init__(self, rows: int, fields: Sequence[str]) -> None:
        self._fields = tuple(name for name in fields if name not in PLAYED)
        self.fields = (*self._fields, *(name for name in ENDING if name not in fields))
        self._rows = rows
        self._turns = np.zeros(rows, dtype=np.intp)  # (rows,) newest turn
        self._columns: dict[str, Any] = {}

    def begin(self, row: int, observation: Any, info: dict[str, Any]) -> None:
        """An episode begins in `row`."""
        self._turns[row] = 0
        shown = {name: info[name] for name in self._fields}
        self._put("observations", np.array([row]), 0, _batch_of_one(observation))
        self._put("infos", np.array([row]), 0, _batch_of_one(shown))

    def step(
        self,
        rows: NDArray[np.intp],
        actions: Any,
        policy: BatchPolicy,
        observations: Any,
        rewards: NDArray[np.float64],
        infos: dict[str, Any],
    ) -> None:
        """What these rows have done, and what all rows show now."""
        turns = self._turns[rows]
        self._put("actions", rows, turns, as_arrays(actions))
        self._put("rewards", rows, turns, rewards[rows])
        turns = turns + 1
        self._turns[rows] = turns
        shown = {name: infos[name] for name in self._fields}
        if len(rows) < self._rows:
            observations, shown = rows_of(observations, rows), rows_of(shown, rows)
        self._put("observations", rows, turns, observations)
        self._put("infos", rows, turns, shown)
        self._put("policy", rows, turns, policy.indices)
        self._put("propensity", rows, turns, policy.propensities)
        self._put("act", rows, turns, policy.acts)

    def _put(self, name: str, rows: NDArray[np.intp], turns: Any, values: Any) -> None:
        """Write `values` (k, …) of `rows` at their turns; dicts have a column a key."""
        if isinstance(values, Mapping):
            for key, part in values.items():
                self._put(f"{name}/{key}", rows, turns, part)
            return
        column = self._columns.get(name)
        if column is None:
            shape = (self._rows, _TURNS, *values.shape[1:])
            column = self._columns[name] = np.zeros(shape, dtype=values.dtype)
        while np.max(turns) >= column.shape[1]:
            column = np.concatenate([column, np.zeros_like(column)], axis=1)
            self._columns[name] = column
        column[rows, turns] = values

    def taken(self, row: int, length: int) -> dict[str, Any]:
        """The episode of `row`, which took `length` turns, as copies."""
        kept: dict[str, Any] = {
            "observations": self._part("observations", row, length + 1),
            "actions": self._part("actions", row, length),
            "rewards": self._part("rewards", row, length),
            "infos": {name: self._part(f"infos/{name}", row, length + 1) for name in self._fields},
        }
        chosen = self._part("policy", row, length + 1)
        chosen[0] = chosen[-1]  # one policy plays an episode from start to end
        odds = self._part("propensity", row, length + 1)
        odds[0] = np.nan
        acts = self._part("act", row, length + 1)
        acts[0] = -1
        kept["infos"] |= {"policy": chosen, "propensity": odds, "act": acts}
        return kept

    def _part(self, name: str, row: int, count: int) -> Any:
        if name in self._columns:
            return self._columns[name][row, :count].copy()
        inner = [key for key in self._columns if key.startswith(f"{name}/")]
        return {key.removeprefix(f"{name}/"): self._part(key, row, count) for key in inner}


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, Mapping):
        return {key: _batch_of_one(part) for key, part in observation.items()}
    return np.array([observation], dtype=object if isinstance(observation, str) else None)
