"""Single episodes and rows of the batched engine, step by step side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np

import convgym  # noqa: F401
from convgym.engine.batch import ENDS
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.engine.turn_words import acts_json, acts_of, results_text

Choose = Callable[[Any, np.random.Generator], int]
"""(single environment, generator) → action number"""


def at_random(env: Any, rng: np.random.Generator, legal: float = 0.9) -> int:
    """A legal act mostly, any act at times."""
    mask = env.action_masks()
    if rng.random() < legal:
        return int(rng.choice(np.flatnonzero(mask)))
    return int(rng.integers(len(mask)))


def engine_of(env: Any) -> Any:
    """The batched engine of an environment."""
    base = env.unwrapped
    return base.domain.batched(base.conditions.model, base.conditions.max_turns)


def rows_of(batched: Any, singles: list[Any]) -> tuple[Any, Any, Any]:
    """Fresh rows for single environments that were just reset, not yet opened."""
    episodes = np.zeros(len(singles), batched.episode)
    tasks = np.zeros(len(singles), batched.task)
    belief = np.zeros((len(singles), len(singles[0].domain.layout)), np.uint8)
    for row, env in enumerate(singles):
        episode = env._episode
        split, number = episode.task.task_id.rsplit("-", 1)
        batched.compile(split, int(number), tasks[row])
        episodes[row]["user_key"], episodes[row]["wording_key"] = (
            episode.user_key, episode.wording_key,
        )  # fmt: skip
        episodes[row]["persona"] = episode.user.persona
    return episodes, belief, tasks


def said_in(batched: Any, episode: Any, task: Any) -> tuple[str, list[Any]]:
    """What the user of one row said: as JSON, and as acts by name."""
    turns, tasks, words = np.array([episode]), np.array([task]), batched.words
    row = np.zeros(1, np.int32)
    spoken = acts_of(words, turns, tasks, row, ordered=True)
    named = [words.act(*key) for key in spoken.keys()]  # noqa: SIM118
    return acts_json(words, turns, tasks, row)[0], named


def results_in(batched: Any, episode: Any, quoted: tuple[str, ...] = ()) -> str:
    """What the tools of one row answered, a line each."""
    return results_text(batched.words, np.array([episode]), np.zeros(1, np.int32), [quoted])[0]


def assert_same(batched: Any, env: Any, episode: Any, belief: Any, task: Any, info: Any) -> None:
    """One row equals its twin."""
    single = env._episode
    cells = np.frombuffer(single.belief, np.uint8)
    wrong = [env.domain.layout.names[i] for i in np.flatnonzero(cells != belief)]
    assert not wrong, f"cells differ: {wrong[:8]}"
    assert episode["turn"] == single.turn and episode["errors"] == single.errors
    assert ENDS[episode["end"]] == single.end and bool(episode["truncated"]) == single.truncated
    assert episode["violations"] == single.violations
    turn = single.user_turn
    assert bool(episode["answered"]) == (turn is not None)
    if turn is not None:
        assert tuple(episode["acts"][: episode["n_acts"]]) == turn.acts
        assert episode["log_prob"] * 1e-6 == turn.log_prob
        assert episode["about"] == turn.about
        acts, spoken = said_in(batched, episode, task)
        assert acts == env.domain.acts_json(single, turn)
        assert spoken == env.domain.spoken(single, turn)
    assert results_in(batched, episode) == "\n".join(single.tool_results)
    if single.end:
        grade = env.domain.grade(single)
        assert bool(episode["success"]) == bool(grade.success)
        assert episode["graded"] == grade.graded and episode["progress"] == grade.progress


def play_beside(
    env_id: str,
    choose: Choose,
    episodes: int,
    seed: int = 0,
    **keywords: Any,
) -> int:
    """Play episodes in both engines and compare after every step; returns the steps."""
    singles = [
        gym.make(env_id, observation="features", action="act", **keywords).unwrapped
        for _ in range(episodes)
    ]
    batched = engine_of(singles[0])
    rng = np.random.default_rng(seed)
    infos = [env.reset(seed=child(seed, i))[1] for i, env in enumerate(singles)]
    rows, belief, tasks = rows_of(batched, singles)
    every = np.arange(episodes, dtype=np.int32)
    batched.open_rows(every, rows, belief, tasks)
    steps = 0
    for i, env in enumerate(singles):
        assert_same(batched, env, rows[i], belief[i], tasks[i], infos[i])
    alive = list(range(episodes))
    while alive:
        actions = [choose(singles[i], rng) for i in alive]
        batched.step_rows(
            np.array(alive, np.int32), np.array(actions, np.int32), rows, belief, tasks, False
        )
        going = []
        for i, action in zip(alive, actions, strict=True):
            _, _, terminated, truncated, info = singles[i].step(action)
            assert_same(batched, singles[i], rows[i], belief[i], tasks[i], info)
            steps += 1
            if not (terminated or truncated):
                going.append(i)
        alive = going
    return steps


def play_for_long(env_id: str, agents: Callable[[], Iterable[Choose]], number: int) -> None:
    """`play_beside` in split after split, 10,000 steps; one agent of those that are made anew."""
    steps, splits = 0, list(SPLITS)
    for seed in range(1000):
        choose, split = list(agents())[number], splits[seed % len(splits)]
        steps += play_beside(env_id, choose, 40, seed=seed, split=split)
        if steps >= 10_000:
            return
    raise AssertionError(f"{steps} steps only")
