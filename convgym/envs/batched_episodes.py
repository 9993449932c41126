"""The running episodes of a batched environment: which tasks, whose keys, how far they are.

    begin(rows, seeds, setup)   keys ─► task, persona ─► open_rows
    step(rows, actions)         step_rows
    look()                      standing, turns: copies that stay as they are ─► rewards
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from convgym.engine import batch
from convgym.engine.batched_domain import BatchedDomain
from convgym.engine.tasks import SPLITS, parse_task_id
from convgym.envs.batched_replies import BatchedReplies
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.episode_setup import EpisodeSetup
from convgym.randomization.scenarios import user_key_of, wording_key_of
from convgym.users.persona import HUNDRED, TRAITS, Persona
from convgym.users.persona_batch import AS_DRAWN, FAMILIAR, UNFAMILIAR, draw_personas

Rows = NDArray[np.int32]
_STANDING = np.dtype(batch.STANDING_FIELDS, align=True)
_TURN = np.dtype(batch.TURN_FIELDS)
SPLIT_NAMES = np.array(["", *SPLITS], dtype=object)
"""By number; 0 is that of rows that never began."""


class BatchedEpisodes:
    """`count` episodes of one environment's domain, as rows."""

    def __init__(self, single: ConversationEnv, batched: BatchedDomain, count: int) -> None:
        self._single, self._batched, self._conditions = single, batched, single.conditions
        self.records = np.zeros(count, batched.episode)
        self.belief = np.zeros((count, len(single.domain.layout)), dtype=np.uint8)
        self.tasks = np.zeros(count, batched.task)
        self.numbers = np.zeros(count, dtype=np.int64)
        """Of each row's task in its split."""
        self.splits = np.zeros(count, dtype=np.int8)
        """By their places in `SPLIT_NAMES`."""
        self.difficulty = np.full(count, -1.0)
        self.characters = np.zeros(count, dtype=np.int64)
        """Of the agent's newest reply in each row."""
        decodes = self._conditions.action == "embedding"
        self.acts = np.full(count, -1) if decodes else None
        """The newest act in each row, -1 where there was none; None where nobody has to be told."""
        self.quotes: list[tuple[str, ...]] = [()] * count
        """Sentences of it that the tools' answers may quote; made anew with every step."""
        self._is_seeded = np.zeros(count, dtype=bool)
        self.seeds: list[int | None] = [None] * count
        self._grades = self._conditions.reward == "milestones"
        """Whether every step is graded."""
        self._run_keys = np.zeros(count, dtype=np.uint64)
        self._begun = np.zeros(count, dtype=np.int64)
        self._potential = np.zeros(count)
        self.look()

    # -- beginning -------------------------------------------------------------------------------

    def begin(
        self,
        rows: Rows,
        seeds: Sequence[int | None] | None,
        setup: EpisodeSetup,
        task_ids: Sequence[str] | None = None,
    ) -> None:
        """Open the next episode of each of these rows; `seeds` has one for each of them.

        `task_ids` too, where each plays a task of its own, all of one split.
        """
        self._seed(rows, seeds)
        episode_keys = np.empty(len(rows), dtype=np.uint64)
        batch.draw_keys(rows, self._run_keys, self._begun, self.records, episode_keys)
        if setup.user_seed is not None:
            self.records["user_key"][rows] = user_key_of(setup.user_seed)
        if setup.wording_seed is not None:
            self.records["wording_key"][rows] = wording_key_of(setup.wording_seed)
        split = self._draw_tasks(rows, episode_keys, setup, task_ids)
        self._draw_personas(rows, split, setup)
        self._batched.open_rows(rows, self.records, self.belief, self.tasks)
        self.difficulty[rows] = -1.0 if setup.difficulty is None else setup.difficulty / 100
        self._potential[rows] = 0.0
        self.characters[rows] = 0
        if self.acts is not None:
            self.acts[rows] = -1

    def _seed(self, rows: Rows, seeds: Sequence[int | None] | None) -> None:
        """Begin the runs of rows that are given a seed, or have had none so far."""
        if seeds is None:
            if self._is_seeded.all():
                return
            rows = rows[~self._is_seeded[rows]]
            seeds = [None] * len(rows)
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            if seed is None and self._is_seeded[row]:
                continue
            generator, self.seeds[row] = seeding.np_random(seed)
            self._run_keys[row] = generator.integers(0, 2**64, dtype=np.uint64)
            self._begun[row], self._is_seeded[row] = 0, True

    def _draw_tasks(
        self,
        rows: Rows,
        episode_keys: NDArray[np.uint64],
        setup: EpisodeSetup,
        task_ids: Sequence[str] | None,
    ) -> str:
        if task_ids is not None:
            chosen = [parse_task_id(task_id) for task_id in task_ids]
            split, numbers = chosen[0][0], np.array([number for _, number in chosen])
        elif setup.task_id is None and not setup.draws_tasks:
            assert setup.split is not None
            split = setup.split
            numbers = np.empty(len(rows), dtype=np.int64)
            batch.draw_numbers(episode_keys, SPLITS[split], numbers)
        else:
            table = self._single.domain.table
            chosen = [setup.task(int(key), table) for key in episode_keys]
            split, numbers = chosen[0][0], np.array([number for _, number in chosen])
        self._batched.draw(split, numbers, rows, self.tasks)
        self.numbers[rows] = numbers
        self.splits[rows] = list(SPLITS).index(split) + 1
        return split

    def _draw_personas(self, rows: Rows, split: str, setup: EpisodeSetup) -> None:
        low, high, sort, given = [0] * len(TRAITS), [HUNDRED] * len(TRAITS), AS_DRAWN, -1
        if isinstance(setup.persona, Persona):
            low = high = list(setup.persona.levels)
        elif setup.persona is not None:
            low, high = (list(ends) for ends in zip(*setup.persona.ranges, strict=True))
        else:
            sort = UNFAMILIAR if split == "test_persona" else FAMILIAR
            given = -1 if setup.difficulty is None else setup.difficulty
        ends = np.array([low, high], dtype=np.int32)
        draw_personas(rows, self.records, ends[0], ends[1], given, sort)

    # -- stepping --------------------------------------------------------------------------------

    def step(self, rows: Rows, actions: Rows) -> None:
        """Take one act in each of these rows."""
        if self.acts is not None:
            self.acts[rows] = actions
        self._batched.step_rows(
            rows, actions, self.records, self.belief, self.tasks, self._grades
        )

    def step_replies(self, rows: Rows, replies: BatchedReplies, places: Rows) -> None:
        """Take the reply at one of its `places` in each of these rows."""
        self._batched.step_readings(
            rows, places, replies.readings, self.records, self.belief, self.tasks, self._grades
        )
        self.characters[rows] = replies.lengths(places)
        self.quotes = [()] * len(self.quotes)
        for row, quotes in zip(rows.tolist(), replies.quotes(places), strict=True):
            self.quotes[row] = quotes

    # -- how they stand --------------------------------------------------------------------------

    def look(self) -> None:
        """Note how all episodes stand: `standing` and `turns` are new arrays each time."""
        count = len(self.records)
        self.standing = np.empty(count, dtype=_STANDING)
        """Records of `STANDING_FIELDS`."""
        self.turns = np.empty(count, dtype=_TURN)
        """What the newest step of each row brought: records of `TURN_FIELDS`."""
        batch.copy_standing(self.records, self.tasks, self.standing, self.turns)
        self.ended = self.standing["end"] != batch.GOING_ON
        self.truncated = self.ended & (self.standing["truncated"] != 0)
        self.succeeded = self.ended & ~self.truncated & (self.standing["success"] != 0)
        """Rows whose newest step has ended their episode in success.  (count,)"""

    def rewards(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """What the newest step of each row earned, and what milestones added to it, if they do.

        To be asked for once after a step and a look.
        """
        success = self.succeeded.astype(np.float64)
        if self._conditions.reward == "success":
            return success, None
        kept = self.ended & ~self.truncated
        if self._conditions.reward == "graded":
            return np.where(kept, self.standing["graded"], 0.0), None
        potential = np.where(kept, 0.0, self.standing["progress"])
        shaping = self._conditions.discount * potential - self._potential
        self._potential = potential
        return success + shaping, shaping

    def task_ids(self) -> list[str]:
        """The names of the rows' tasks; empty where no episode has begun."""
        return task_ids(self.splits, self.numbers)

    def tasks_of(self, splits: NDArray[np.int8], numbers: NDArray[np.int64]) -> NDArray[np.void]:
        """Tasks by split and number, drawn again; nothing where no episode has begun.  # (n,)"""
        tasks = np.empty(len(numbers), dtype=self.tasks.dtype)
        for split in set(splits.tolist()) - {0}:
            rows = np.flatnonzero(splits == split).astype(np.int32)
            self._batched.draw(SPLIT_NAMES[split], numbers[rows], rows, tasks)
        return tasks


def task_ids(splits: NDArray[np.int8], numbers: NDArray[np.int64]) -> list[str]:
    """Names of tasks, by their splits' places in `SPLIT_NAMES` and their numbers."""
    names = SPLIT_NAMES[splits].tolist()
    return [f"{name}-{n}" if name else "" for name, n in zip(names, numbers.tolist(), strict=True)]
