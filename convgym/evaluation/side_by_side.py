"""The loop that lets a batched policy play many episodes in a vector environment.

    plans   0  1  2  3  4  5 …      seed and reset options of each episode
            │  │  │
    row 0   0─────────┐3───────┐5   a row that is free takes the next plan
    row 1   1──┐2─────────┐4─────

An episode is decided by its plan alone, so it is the same in whichever row it is played, beside
whichever others, and the same as `convgym.evaluation.rollout.play` has it. Episodes come out as
they end; who wants them in order sorts them by number.

At the end of the plans rows are left over. They are stepped on, for a vector environment steps
all its rows or none, and what they show is dropped: take fewer rows than plans, an eighth, say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.envs.autoreset import DISABLED, SAME_STEP
from convgym.envs.rows import (
    Envs,
    as_arrays,
    attribute_of,
    autoreset_mode,
    put_row,
    reset_rows,
    rows_of,
)
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import Rollout
from convgym.policies.batched import BatchPolicy

Plan = tuple[int, dict[str, Any]]
"""Seed and reset options of an episode."""

ENDING = ("success", "failure_reason")


class Recorder(Protocol):
    """Whoever keeps more of an episode than its sums."""

    fields: tuple[str, ...]
    """What it needs of the infos."""

    def begin(self, row: int, observation: Any, info: dict[str, Any]) -> None:
        """An episode begins in `row`."""

    def step(
        self,
        rows: NDArray[np.intp],
        actions: Any,
        policy: BatchPolicy,
        observations: Any,
        rewards: NDArray[np.float64],
        infos: dict[str, Any],
    ) -> None:
        """What these rows have done, in the order of `rows`, and what all rows show now."""


def play_side_by_side(
    envs: Envs,
    policy: BatchPolicy,
    plans: Sequence[Plan],
    *,
    deterministic: bool = False,
    recorder: Recorder | None = None,
) -> Iterator[tuple[int, int, Rollout]]:
    """Play all `plans`: (number of the plan, row, sums and last info) of each episode as it ends.

    `final_info` holds `success` and `failure_reason`. What a recorder keeps of the row is to be
    taken before the next episode is asked for.

    Raises InvalidConfiguration for environments whose episodes hang on those before, or that
    begin anew within a step.
    """
    check_rows(envs)
    fields = ("action_mask", *(recorder.fields if recorder else ()))
    playing = np.full(envs.num_envs, -1)  # (n,) the plan of each row; -1 is none
    returns, lengths = np.zeros(envs.num_envs), np.zeros(envs.num_envs, dtype=np.int64)
    free, following = list(range(envs.num_envs)), 0
    observations: Any = None
    masks: Any = None
    resets_itself = autoreset_mode(envs) != DISABLED
    rewarded = getattr(policy, "rewarded", None)
    while following < len(plans) or (playing >= 0).any():
        taken = free[: max(0, len(plans) - following)]
        playing[taken] = range(following, following + len(taken))
        following += len(taken)
        # A row without a plan begins as the first one does; nobody looks.
        begun = free if observations is None or not resets_itself else taken
        given = [plans[max(0, playing[row])] for row in begun]
        seeds, options = [seed for seed, _ in given], [chosen for _, chosen in given]
        shown = reset_rows(envs, begun, seeds, options, fields)
        if observations is None:
            observations, masks = _batch([one for one, _ in shown]), _masks(shown)
        for row, (observation, info) in zip(begun, shown, strict=True):
            put_row(observations, row, observation)
            masks[row] = info["action_mask"]
            if recorder is not None and playing[row] >= 0:
                recorder.begin(row, observation, info)
        policy.begin(np.array(taken, dtype=np.intp), [plans[playing[row]][0] for row in taken])
        returns[taken], lengths[taken] = 0.0, 0

        rows = np.flatnonzero(playing >= 0)
        seen = observations if len(rows) == len(playing) else rows_of(observations, rows)
        actions = policy.actions(seen, masks[rows], rows, deterministic)
        stepped = _for_all(envs, actions, rows, masks)
        shown_now, rewards, terminated, truncated, infos = envs.step(stepped)
        observations, masks = as_arrays(shown_now), np.array(infos["action_mask"])
        if rewarded is not None:
            rewarded(rows, rewards[rows])
        returns += rewards
        lengths += 1
        if recorder is not None:
            recorder.step(rows, actions, policy, observations, rewards, infos)
        free = np.flatnonzero(terminated | truncated).tolist()
        for row in free:
            if playing[row] < 0:
                continue
            number, playing[row] = int(playing[row]), -1
            yield number, row, Rollout(
                plans[number][0],
                terminated=bool(terminated[row]),
                truncated=bool(truncated[row]),
                return_=float(returns[row]),
                length=int(lengths[row]),
                final_info={name: infos[name][row] for name in ENDING},
            )


def check_rows(envs: Envs) -> None:
    """Whether episodes in these rows hang on their plans alone."""
    if autoreset_mode(envs) == SAME_STEP:
        raise InvalidConfiguration(
            "these environments begin anew within the step that ends an episode, with chance of "
            "their own; make them with autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED"
        )
    if getattr(attribute_of(envs, "randomizer"), "curriculum", "none") != "none":
        raise InvalidConfiguration(
            "a curriculum goes by what was played before, so episodes beside each other would "
            "differ from those one after another; play them one by one, or leave it away"
        )


def _for_all(envs: Envs, actions: Any, rows: NDArray[np.intp], masks: NDArray[np.int8]) -> Any:
    """The actions of `rows`, and in rows without a plan any that may be sent."""
    if len(rows) == envs.num_envs:
        return actions if isinstance(actions, np.ndarray) else tuple(actions)
    if not isinstance(envs.single_action_space, spaces.Text):
        discrete = isinstance(envs.single_action_space, spaces.Discrete)
        chosen = masks.argmax(axis=1) if discrete else np.zeros((envs.num_envs, *actions.shape[1:]))
        chosen[rows] = actions
        return chosen
    texts = [""] * envs.num_envs
    for row, text in zip(rows.tolist(), actions, strict=True):
        texts[row] = text
    return tuple(texts)


def _batch(rows: list[Any]) -> Any:
    """Single observations as a batch of arrays."""
    if isinstance(rows[0], dict):
        return {name: _batch([row[name] for row in rows]) for name in rows[0]}
    return np.array(rows, dtype=object if isinstance(rows[0], str) else None)


def _masks(shown: list[tuple[Any, dict[str, Any]]]) -> NDArray[np.int8]:
    return np.array([info["action_mask"] for _, info in shown])
