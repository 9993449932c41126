"""Scores of stored episodes after a change of the grading: each is played again and graded anew.

    stored:  seed, options, a0 a1 a2    o0 o1 o2 o3    return, success   (old)
    replay:  reset ─► o0 ─ a0 ─► o1 ─ a1 ─► o2 ─ a2 ─► o3   return, success   (new)
                      =          ≠ ──► diverged at step 1: no new score

The stored actions answer what was observed then. Where the present engine shows something else,
another user is answering, and a score would be that of a conversation nobody had; the episode is
reported as diverged with the first step that differs, and keeps its old score. An episode that was
stored without observations cannot be checked so, and is counted as unchecked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.evaluation.stored import StoredEpisode, fingerprint

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

_CLOSE = 1e-9
_SHOWN = 20
_DRAWN = ("task_id", "user_seed", "wording_seed")
"""With all of these among the options an episode needs no seed."""


@dataclass(frozen=True, slots=True)
class Regraded:
    """One episode's old and new score."""

    episode: int
    """Its place among those handed in."""
    task_id: str
    old_success: bool | None
    """None where none was stored."""
    new_success: bool | None
    """None where the episode diverged."""
    old_return: float | None
    new_return: float | None
    rewards: tuple[float, ...]
    """The new ones, by step; empty where the episode diverged.  # (T,)"""
    checked: bool
    """Whether stored observations were there to compare with."""
    diverged_at: int | None = None
    """t of the first observation o_t that differs or cannot be had; 0 is reset's."""
    reason: str = ""
    """How it diverged."""

    @property
    def diverged(self) -> bool:
        """Whether the replay became another conversation."""
        return self.diverged_at is not None

    @property
    def changed(self) -> bool:
        """Whether the new score differs from a stored one."""
        if self.new_success is None or self.new_return is None:
            return False
        if self.old_success is not None and self.old_success != self.new_success:
            return True
        return self.old_return is not None and not math.isclose(
            self.old_return, self.new_return, rel_tol=_CLOSE, abs_tol=_CLOSE
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        given = {"changed": self.changed, "diverged": self.diverged}
        return asdict(self) | {"rewards": list(self.rewards)} | given


@dataclass(frozen=True)
class Regrading:
    """All episodes, in the order they were handed in."""

    episodes: tuple[Regraded, ...]

    @property
    def changed(self) -> tuple[Regraded, ...]:
        """Those with another score."""
        return tuple(episode for episode in self.episodes if episode.changed)

    @property
    def diverged(self) -> tuple[Regraded, ...]:
        """Those that became another conversation."""
        return tuple(episode for episode in self.episodes if episode.diverged)

    def summary(self) -> dict[str, Any]:
        """Counts, and means before and after over the same episodes.

        `success` and `return` are [before, after] over those that did not diverge and had an old
        score; None where there is none.
        """
        kept = [episode for episode in self.episodes if not episode.diverged]
        success = [
            (bool(e.old_success), bool(e.new_success)) for e in kept if e.old_success is not None
        ]
        returns = [
            (e.old_return, e.new_return)
            for e in kept
            if e.old_return is not None and e.new_return is not None
        ]
        return {
            "episodes": len(self.episodes),
            "changed": len(self.changed),
            "won": sum(new and not old for old, new in success),
            "lost": sum(old and not new for old, new in success),
            "diverged": len(self.diverged),
            "unchecked": sum(not episode.checked for episode in kept),
            "success": _means(success),
            "return": _means(returns),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return self.summary() | {"results": [episode.to_dict() for episode in self.episodes]}

    def to_markdown(self) -> str:
        """The summary, and the first episodes that diverged."""
        told = self.summary()
        lines = ["# Regrading", "", "| | |", "|---|---|"]
        for name in ("episodes", "changed", "won", "lost", "diverged", "unchecked"):
            lines.append(f"| {name} | {told[name]} |")
        for name in ("success", "return"):
            if told[name] is not None:
                before, after = told[name]
                lines.append(f"| mean {name} | {before:.4f} → {after:.4f} |")
        if self.diverged:
            lines += ["", "| diverged | task | at | how |", "|---|---|---|---|"]
        for one in self.diverged[:_SHOWN]:
            how = one.reason.replace("|", "\\|")
            lines.append(f"| {one.episode} | {one.task_id} | {one.diverged_at} | {how} |")
        if len(self.diverged) > _SHOWN:
            lines.append(f"| … and {len(self.diverged) - _SHOWN} more | | | |")
        return "\n".join([*lines, ""])


def regrade(
    episodes: Iterable[StoredEpisode],
    *,
    env: gym.Env[Any, Any] | None = None,
    keywords: Mapping[str, Any] | None = None,
) -> Regrading:
    """Play stored episodes through the present engine and return old and new scores.

    Each is played in the environment it names, made once, or in `env`. `keywords` replace
    keywords of the environments, such as `{"reward": "graded"}` for what the same conversations
    earn by another reward. Raises InvalidConfiguration for both at once, and for what is no
    stored episode.
    """
    if env is not None and keywords:
        raise InvalidConfiguration("keywords go to environments made here; env= is made already")
    made: dict[str, gym.Env[Any, Any]] = {}
    return Regrading(
        tuple(
            _regraded(
                env if env is not None else _environment(stored.env, keywords or {}, made),
                stored,
                place,
            )
            for place, stored in enumerate(_stored(episodes))
        )
    )


def _stored(episodes: Iterable[StoredEpisode]) -> Iterator[StoredEpisode]:
    for place, episode in enumerate(episodes):
        if not isinstance(episode, StoredEpisode):
            raise InvalidConfiguration(
                f"episode {place} is {type(episode).__name__}; regrade takes StoredEpisode, as "
                "`convgym.evaluation.stored` records and reads them"
            )
        yield episode


def rescored(episodes: Sequence[StoredEpisode], regrading: Regrading) -> list[StoredEpisode]:
    """The episodes with their new scores, for `write_stored`; those that diverged are left out."""
    return [
        replace(stored, rewards=one.rewards, success=one.new_success)
        for stored, one in _pairs(episodes, regrading)
    ]


def rescored_buffers(
    buffers: Sequence[EpisodeBuffer], regrading: Regrading
) -> list[EpisodeBuffer]:
    """The same for Minari's, for `convgym.data.episodes.write_dataset`."""
    new = []
    for buffer, one in _pairs(buffers, regrading):
        success = np.zeros(len(one.rewards) + 1, dtype=np.int8)
        success[-1] = bool(one.new_success)
        rewards: Any = np.array(one.rewards, dtype=np.float64)
        new.append(
            replace(buffer, rewards=rewards, infos={**(buffer.infos or {}), "success": success})
        )
    return new


def _means(pairs: Sequence[tuple[float, float]]) -> list[float] | None:
    """[mean before, mean after]."""
    if not pairs:
        return None
    return [math.fsum(side) / len(pairs) for side in zip(*pairs, strict=True)]


def _pairs(episodes: Sequence[Any], regrading: Regrading) -> list[tuple[Any, Regraded]]:
    if len(episodes) != len(regrading.episodes):
        raise InvalidConfiguration(
            f"{len(episodes)} episodes and {len(regrading.episodes)} results; hand in the episodes "
            "that were regraded"
        )
    pairs = zip(episodes, regrading.episodes, strict=True)
    return [(episode, one) for episode, one in pairs if not one.diverged]


def _environment(
    spec: EnvSpec, keywords: Mapping[str, Any], made: dict[str, gym.Env[Any, Any]]
) -> gym.Env[Any, Any]:
    try:
        name = spec.to_json()
    except ValueError as error:
        raise InvalidConfiguration(
            f"the keywords of {spec.id!r} are not JSON ({error}); hand in the environment as env="
        ) from None
    if name not in made:
        changed = deepcopy(spec)
        changed.kwargs.update(keywords)
        made[name] = gym.make(changed, disable_env_checker=True)
    return made[name]


def _regraded(env: gym.Env[Any, Any], stored: StoredEpisode, place: int) -> Regraded:
    rewards: list[float] = []
    task_id, success, at, reason = str(stored.options.get("task_id", "")), False, 0, ""
    try:
        if stored.seed is None and not set(_DRAWN) <= set(stored.options):
            raise _Diverged(f"no seed was stored, and not all of {', '.join(_DRAWN)}")
        observation, info = env.reset(seed=stored.seed, options=dict(stored.options) or None)
        task_id = str(info.get("task_id", task_id))
        _compare(stored, 0, observation)
        ended = (False, False)
        for t, action in enumerate(stored.actions):
            at = t + 1
            if any(ended):
                raise _Diverged(f"the replay ended after {t} of {len(stored.actions)} actions")
            observation, reward, *flags, info = env.step(action)
            ended = (bool(flags[0]), bool(flags[1]))
            rewards.append(float(reward))
            _compare(stored, at, observation)
        success = bool(info["success"])
        if None not in (stored.terminated, stored.truncated):
            _compare_ends((bool(stored.terminated), bool(stored.truncated)), ended)
    except (_Diverged, ConvGymError) as error:
        reason = str(error) or type(error).__name__
    old_return = None if stored.rewards is None else math.fsum(stored.rewards)
    return Regraded(
        episode=place,
        task_id=task_id,
        old_success=stored.success,
        new_success=None if reason else success,
        old_return=old_return,
        new_return=None if reason else math.fsum(rewards),
        rewards=() if reason else tuple(rewards),
        checked=bool(stored.observations),
        diverged_at=at if reason else None,
        reason=reason,
    )


class _Diverged(Exception):
    """The replay is another conversation; the message says how."""


def _compare(stored: StoredEpisode, t: int, observation: Any) -> None:
    if stored.observations and stored.observations[t] != fingerprint(observation):
        raise _Diverged("another observation than the stored one")


_FLAGS = {
    (False, False): "going on",
    (True, False): "terminated",
    (False, True): "truncated",
    (True, True): "terminated and truncated",
}


def _compare_ends(stored: tuple[bool, bool], replayed: tuple[bool, bool]) -> None:
    if stored != replayed:
        raise _Diverged(f"stored as {_FLAGS[stored]}, the replay is {_FLAGS[replayed]}")
