"""Steps per second of vector environments beside CartPole's, in one run.

    python scripts/bench_vector.py [--env ID …] [--modes "features x act" …] [--seconds 2]

Single, synchronous, asynchronous and batched environments play what the planner does, recorded
beforehand for the same seeds, so that only environments are timed. Every episode's end counts, with
its grade and the reset that follows; the steps that next-step autoreset spends on a reset are not
counted as steps, and the first reset, whose seeds lead back to what was recorded, is not timed.
Seconds are of the CPU, but for the
asynchronous one, whose processes share it. A ratio is to CartPole-v1, driven the same way: single
to `gym.make`, synchronous to synchronous, and so on.

Texts come three times: read before, as in a run whose agent repeats itself; as if all replies
were different, though not in what their sentences look like without names and figures; and as if
each sentence of them were new, too. The vectors of what has been said before come from memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from bench_env import empty_memory, forget_texts, remember_texts

import convgym  # noqa: F401  registers the environments
from convgym.envs.registration import VECTOR_ENVIRONMENTS
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

STEPS = 64
MOST_RECORDED = 256
"""Rows recorded; more rows of a vector environment play them again."""
SIZES = (1, 8, 64, 512, 4096)
RUNS = 5
"""Of random legal acts, whose rate varies most."""
MEMORIES = ("", ", different", ", nothing known")
MODES = tuple(
    f"{observation} x {action}"
    for action in ("act", "text", "embedding")
    for observation in ("features", "message", "dict", "embedding")
)


class Recorded:
    """What the planner does in the first steps of rows, one reset after the other."""

    def __init__(self, environment: str, action: str, rows: int) -> None:
        self.actions: list[list[Any]] = []  # by row
        self.real = np.ones((rows, STEPS), dtype=bool)
        """False where next-step autoreset resets."""
        for row in range(rows):
            self.actions.append(self._row(environment, action, row))

    def _row(self, environment: str, action: str, row: int) -> list[Any]:
        played = "text" if action == "text" else "act"
        env = gym.make(environment, observation="dict", action=played, disable_env_checker=True)
        base: Any = env.unwrapped
        domain = base.domain.domain
        planner: Any = ladder(domain)["planner"]()
        policy = RenderedPolicy(planner, domain=domain) if action == "text" else planner
        observation, info = env.reset(seed=row)
        policy.reset(row)
        actions, over = [], False
        for step in range(STEPS):
            if over:
                actions.append(actions[-1])
                self.real[row, step] = False
                observation, info = env.reset()
                policy.reset(row + step)
                over = False
                continue
            chosen = policy.predict(observation, action_masks=info["action_mask"])[0]
            actions.append(chosen)
            observation, _, terminated, truncated, info = env.step(chosen)
            over = terminated or truncated
        return list(base.candidate_vectors[actions]) if action == "embedding" else actions

    def batch(self, rows: int) -> tuple[list[int], list[Any], int]:
        """(seed of each row, actions of each step, real steps) for any number of rows."""
        of = [row % len(self.actions) for row in range(rows)]
        steps: list[Any] = [[self.actions[row][step] for row in of] for step in range(STEPS)]
        if not isinstance(steps[0][0], str):
            steps = [np.array(step) for step in steps]
        return of, steps, int(self.real[of].sum())


def rate(
    envs: Any, seeds: list[int], steps: list[Any], real: int, seconds: float,
    clock: Callable[[], float],
) -> float:  # fmt: skip
    """Real steps a second; what is made once is made before."""
    count, spent, warm = 0, 0.0, False
    while not warm or spent < seconds:
        envs.reset(seed=seeds)
        start = clock()
        for actions in steps:
            envs.step(actions)
        if warm:
            spent += clock() - start
            count += real
        warm = True
    envs.close()
    return count / spent


def single_rate(environment: str, recorded: Any, seconds: float, **keywords: Any) -> float:
    """Of `gym.make`, which is asked for each reset and each step."""
    env = gym.make(environment, **keywords)
    count, spent = 0, 0.0
    while spent < seconds:
        for row, actions in enumerate(recorded.actions):
            env.reset(seed=row)
            start = time.process_time()
            for real, action in zip(recorded.real[row], actions, strict=True):
                if real:
                    env.step(action)
                    count += 1
                else:
                    env.reset()
            spent += time.process_time() - start
    return count / spent


def random_rate(environment: str, rows: int, seconds: float) -> tuple[float, float]:
    """Of the batched environment in acts drawn from the masks, outside the clock; steps an episode.
    """
    envs = made(environment, "vector_entry_point", rows, observation="features", action="act")
    rng, (_, infos) = np.random.default_rng(0), envs.reset(seed=0)
    count, ended, spent, warm_up = 0, 0, 0.0, 32
    while spent < seconds:
        drawn = rng.random(infos["action_mask"].shape, dtype=np.float32) * infos["action_mask"]
        actions, start = drawn.argmax(axis=1), time.process_time()
        _, _, terminated, truncated, infos = envs.step(actions)
        if warm_up:
            warm_up -= 1
            continue
        spent += time.process_time() - start
        ended += int((terminated | truncated).sum())
        count += rows
    envs.close()
    # A row that has ended resets in the next step, which is not counted.
    return (count - ended) / spent, (count - ended) / ended


def first_met_rate(environment: str, recorded: Recorded, rows: int) -> tuple[list[float], int]:
    """Of replies all different, each met for the first time by a memory that is empty at first.

    Two rates: in the first round what tools and users say is made, too.
    """
    texts = sorted({text for row in recorded.actions for text in row})
    np.random.default_rng(0).shuffle(texts)
    steps = [texts[first : first + rows] for first in range(0, len(texts) - rows + 1, rows)]
    remember_texts()
    rates = []
    for _ in range(2):
        envs = made(environment, "vector_entry_point", rows, observation="message", action="text")
        envs.reset(seed=0)
        empty_memory()
        start = time.process_time()
        for some in steps:
            envs.step(some)
        rates.append(rows * len(steps) / (time.process_time() - start))
    return rates, rows * len(steps)


class Pole:
    """Random pushes, recorded like the planner's acts."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.pushes = rng.integers(0, 2, (STEPS, max(SIZES)))

    def single(self, seconds: float) -> float:
        """Of `gym.make("CartPole-v1")`."""
        env = gym.make("CartPole-v1")
        env.reset(seed=0)
        pushes, count, start = self.pushes.ravel()[:4096].tolist(), 0, time.process_time()
        while time.process_time() - start < seconds:
            for push in pushes:
                _, _, terminated, truncated, _ = env.step(push)
                if terminated or truncated:
                    env.reset()
            count += len(pushes)
        return count / (time.process_time() - start)

    def many(self, form: str, count: int, seconds: float, clock: Callable[[], float]) -> float:
        """Of `gym.make_vec` in one of its forms."""
        envs = gym.make_vec("CartPole-v1", count, vectorization_mode=form)
        steps = list(self.pushes[:, :count])
        envs.reset(seed=0)
        ended = sum(int(np.logical_or(*envs.step(step)[2:4]).sum()) for step in steps)
        seeds: Any = 0
        return rate(envs, seeds, steps, STEPS * count - ended, seconds, clock)


FORMS: tuple[tuple[str, int], ...] = (
    ("sync", 64), ("async", 8), *(("vector_entry_point", size) for size in SIZES),
)  # fmt: skip


def clock_of(form: str) -> Callable[[], float]:
    """Wall time for processes of their own."""
    return time.perf_counter if form == "async" else time.process_time


def made(environment: str, form: str, count: int, **keywords: Any) -> Any:
    """A vector environment of a form; no text may go through shared memory."""
    more = {"vector_kwargs": {"shared_memory": False}} if form == "async" else {}
    return gym.make_vec(environment, count, vectorization_mode=form, **more, **keywords)


def random_table(environment: str, seconds: float) -> None:
    """Print medians of runs of random legal acts, each beside CartPole's own."""
    rows, pole = max(SIZES), Pole()
    rates, ratios, lengths = [], [], []
    for _ in range(RUNS):
        one, length = random_rate(environment, rows, seconds)
        rates.append(one)
        ratios.append(one / pole.many("vector_entry_point", rows, seconds, time.process_time))
        lengths.append(length)
    print(
        f"  random legal acts, {rows:,} rows: {statistics.median(rates):,.0f} "
        f"({statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}, "
        f"{RUNS} runs); {statistics.median(lengths):.1f} steps an episode"
    )


def table(environment: str, modes: list[str], seconds: float, anchors: dict[Any, float]) -> None:
    """Print rates and ratios of one environment."""
    recorded: dict[str, Recorded] = {}
    print(f"\n{environment}\n{'':<34}{'single':>16}", end="")
    print("".join(f"{form.split('_')[0]} {count:>4}".rjust(18) for form, count in FORMS))
    for mode in modes:
        observation, action = mode.split(" x ")
        if action not in recorded:
            recorded[action] = Recorded(environment, action, MOST_RECORDED)
            if action == "text":
                texts = {text for row in recorded[action].actions for text in row}
                median = statistics.median(len(text.split()) for text in texts)
                print(f"  {len(texts):,} different replies, median {median:.0f} words")
        keywords = {"observation": observation, "action": action}
        for memory in MEMORIES if action == "text" else MEMORIES[:1]:
            remember_texts()
            if memory:
                forget_texts(also_sentences=memory == MEMORIES[2])
            print(f"{mode + memory:<34}", end="", flush=True)
            one = single_rate(environment, recorded[action], seconds, **keywords)
            print(f"{one:>9,.0f} {one / anchors['single']:6.3f}", end="", flush=True)
            for form, count in FORMS:
                seeds, steps, real = recorded[action].batch(count)
                envs = made(environment, form, count, **keywords)
                many = rate(envs, seeds, steps, real, seconds, clock_of(form))
                print(f"{many:>11,.0f} {many / anchors[form, count]:6.3f}", end="", flush=True)
            print()
        if mode == MODES[0]:
            random_table(environment, seconds)
        if mode == "message x text":
            (cold, warm), count = first_met_rate(environment, recorded[action], 512)
            print(
                f"  {count:,} different replies, each met for the first time, 512 rows: "
                f"{warm:,.0f}; {cold:,.0f} where the environment's own texts are new, too"
            )
    remember_texts()


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", nargs="*", default=[
        name for name in VECTOR_ENVIRONMENTS if "Own" not in name
    ])
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=MODES)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each figure")
    options = parser.parse_args()

    pole = Pole()
    anchors: dict[Any, float] = {"single": pole.single(options.seconds)}
    for form, count in FORMS:
        anchors[form, count] = pole.many(form, count, options.seconds, clock_of(form))
    print("CartPole-v1, steps a second: single " + f"{anchors['single']:,.0f}" + "".join(
        f", {form.split('_')[0]} {count} {anchors[form, count]:,.0f}" for form, count in FORMS
    ))
    for environment in options.env:
        table(environment, options.modes, options.seconds, anchors)
    again = pole.single(options.seconds)
    print(f"\nCartPole-v1 again, single: {again:,.0f} ({again / anchors['single']:.2f} x)")


if __name__ == "__main__":
    main()
