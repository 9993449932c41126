"""Minari episodes as plain arrays: the one reading of the data that every converter starts from.

    Minari       observations  o0  o1  o2      (T + 1,)   the last one is never acted upon
                 infos         i0  i1  i2      (T + 1,)   propensity of a_t at t + 1
    EpisodeArrays
                 observations  o0  o1  o2      (T + 1, …)
                 actions       a0  a1          (T,)
                 rewards       r0  r1          (T,)       r_t earned by a_t
                 masks         m0  m1  m2      (T + 1, A) legal acts at o_t
                 propensities  p0  p1          (T,)       moved: p_t belongs to a_t

Transition t is (o_t, a_t, r_t, o_{t+1}), within one episode. Whoever concatenates observations
over episodes beside T actions each, shifts every episode but the first.

A cut episode (`truncated`) has no terminal state: bootstrap from o_T. An episode with both
flags has ended by itself. `episode_buffers` is the way back. Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.data.info_fields import info_column
from convgym.data.minari_reading import episodes_of
from convgym.errors import DatasetError

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector import EpisodeBuffer

Parts = str | Sequence[str]
"""Of Dict observations: the part that is read, or several, which make a dict of arrays."""


@dataclass(frozen=True, eq=False)
class EpisodeArrays:
    """One episode of T agent turns."""

    observations: Any  # (T + 1, …); of Text: objects; of several parts: a dict of such
    actions: NDArray[Any]  # (T, …); of Text: objects
    rewards: NDArray[np.float64]  # (T,)
    terminated: bool
    """Ended by itself: nothing follows o_T."""
    truncated: bool
    """Cut off: bootstrap from o_T. Exactly one of the two is true."""
    returns: NDArray[np.float64]  # (T,) discounted sum of rewards from t on, r_t included
    masks: NDArray[np.int8] | None = None  # (T + 1, A)
    propensities: NDArray[np.float64] | None = None  # (T,) under the policy that played
    policy: int | None = None
    """Which of the collecting policies played."""
    success: bool | None = None

    def __len__(self) -> int:
        """T, the agent's turns."""
        return len(self.actions)


def returns_to_go(rewards: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """G_t = r_t + γ G_{t+1}, with 0 after the last reward.  # (T,)"""
    returns = np.zeros(len(rewards))
    total = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        returns[t] = total = rewards[t] + discount * total
    return returns


def read_episodes(
    dataset: MinariDataset, discount: float = 1.0, part: Parts = "features"
) -> list[EpisodeArrays]:
    """Every episode of a Minari dataset (or of a filtered or split one), in its order.

    Of Dict observations, `part` is read, or several of them. Raises DatasetError for an episode
    whose lengths or flags do not fit together.
    """
    return [_arrays(episode, discount, part) for episode in episodes_of(dataset)]


def _arrays(episode: Any, discount: float, part: Parts) -> EpisodeArrays:
    observations, actions = _observations(episode.observations, part), _array(episode.actions)
    rewards, infos = np.asarray(episode.rewards, dtype=np.float64), episode.infos or {}
    terminated, truncated = _ending(episode)
    masks, propensities = infos.get("action_mask"), infos.get("propensity")
    length = len(actions)
    read = observations if isinstance(observations, dict) else {"": observations}
    for column in read.values():
        _check(episode.id, "observations", len(column), length + 1)
    _check(episode.id, "rewards", len(rewards), length)
    _check(episode.id, "flags", len(episode.terminations), length)
    for name in infos.keys() & {"action_mask", "propensity", "policy", "success"}:
        _check(episode.id, f"infos of {name!r}", len(infos[name]), length + 1)
    return EpisodeArrays(
        observations=observations,
        actions=actions,
        rewards=rewards,
        terminated=terminated,
        truncated=truncated,
        returns=returns_to_go(rewards, discount),
        masks=None if masks is None else np.asarray(masks, dtype=np.int8),
        propensities=None if propensities is None else np.asarray(propensities)[1:],
        policy=int(infos["policy"][0]) if "policy" in infos else None,
        success=bool(infos["success"][-1]) if "success" in infos else None,
    )


def _observations(stored: Any, part: Parts) -> Any:
    if not isinstance(stored, Mapping):
        return _array(stored)
    missing = {part} - stored.keys() if isinstance(part, str) else set(part) - stored.keys()
    if missing:
        raise DatasetError(
            f"the observations have no part {min(missing)!r}; there are {', '.join(sorted(stored))}"
        )
    if isinstance(part, str):
        return _array(stored[part])
    return {name: _array(stored[name]) for name in part}


def _array(stored: Any) -> NDArray[Any]:
    return stored if isinstance(stored, np.ndarray) else np.array(list(stored), dtype=object)


def _ending(episode: Any) -> tuple[bool, bool]:
    """(terminated, truncated); one of them. An episode without a flag was cut by its recorder."""
    terminations, truncations = np.asarray(episode.terminations), np.asarray(episode.truncations)
    if not len(terminations) or len(terminations) != len(truncations):
        raise DatasetError(f"episode {episode.id} has no turns, or flags of unlike length")
    if terminations[:-1].any() or truncations[:-1].any():
        raise DatasetError(f"episode {episode.id} goes on after its end; it is two episodes in one")
    terminated = bool(terminations[-1])
    return terminated, not terminated


def _check(episode: int, what: str, came: int, expected: int) -> None:
    if came != expected:
        raise DatasetError(f"episode {episode} has {came} {what}; it must have {expected}")


def episode_buffers(episodes: Iterable[EpisodeArrays]) -> list[EpisodeBuffer]:
    """The way back: episodes as `write_dataset` and Minari itself take them.

    They have neither seed nor options. Infos are those that arrays hold: `action_mask`,
    `propensity` (again at t + 1, NaN at 0), `policy` and `success`, each where it is known.
    """
    from minari.data_collector import EpisodeBuffer

    made = []
    for episode in episodes:
        last = np.arange(1, len(episode) + 1) == len(episode)
        made.append(
            EpisodeBuffer(
                observations=episode.observations,
                actions=episode.actions,  # type: ignore[arg-type]
                rewards=episode.rewards,  # type: ignore[arg-type]
                terminations=last & episode.terminated,  # type: ignore[arg-type]
                truncations=last & episode.truncated,  # type: ignore[arg-type]
                infos=_infos(episode),
            )
        )
    return made


def _infos(episode: EpisodeArrays) -> dict[str, Any]:
    length = len(episode) + 1
    infos: dict[str, Any] = {}
    if episode.masks is not None:
        infos["action_mask"] = episode.masks
    if episode.propensities is not None:
        infos["propensity"] = np.concatenate([[np.nan], episode.propensities])
    if episode.policy is not None:
        infos["policy"] = info_column("policy", [episode.policy] * length)
    if episode.success is not None:
        infos["success"] = info_column("success", [False] * (length - 1) + [episode.success])
    return infos


def count(episodes: Iterable[EpisodeArrays]) -> dict[str, int]:
    """How much there is: episodes, transitions, and how many episodes were cut."""
    listed = list(episodes)
    return {
        "episodes": len(listed),
        "transitions": sum(len(episode) for episode in listed),
        "truncated": sum(episode.truncated for episode in listed),
    }
