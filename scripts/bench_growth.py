"""What a step costs as tasks, turns and environments grow, and what memory they take.

    python scripts/bench_growth.py [--env ID …] [--seconds 2] [--only-memory]

Tasks: 4,096 rows that all have one task, or draw from the 2,000 of `test`, or the 100,000 of
`train`. Turns: steps 41 to 50 of conversations against steps 16 to 25, in acts and in text; the
agent reads the same record over and over, which ends nothing. Environments: microseconds a step
of 1 to 4,096 rows, with the peak memory of a process of their own. Figures stand beside the first
of their row, as ratios in one run. Memory: KiB that one more environment takes, made by itself and
as a row, after its first episode and by every hundred episodes more; of all ids.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np
from fuzzed_forms import NEEDED, TEXT_ONLY
from fuzzing import held

import convgym  # noqa: F401  registers the environments
from convgym.engine.acts import FIRST_TOOL
from convgym.envs.registration import ENVIRONMENTS, VECTOR_ENVIRONMENTS, WRAPPED_ENVIRONMENTS

ROWS = 4096
SIZES = (1, 8, 64, 512, 4096)
LONG = 50
"""Turns of a long conversation."""
SETTLED = 12
"""Turns after which the agent does the same again and again."""
IN_NUMBERS: dict[str, Any] = {"observation": "features", "action": "act"}


def random_acts(masks: Any, rng: np.random.Generator) -> Any:
    """A legal act of each row."""
    return (rng.random(masks.shape, dtype=np.float32) * masks).argmax(axis=1)


def recorded(environment: str, rows: int, steps: int, **keywords: Any) -> list[Any]:
    """Legal acts for these many steps of rows seeded from 0."""
    envs: Any = gym.make_vec(environment, rows, **IN_NUMBERS, **keywords)
    rng = np.random.default_rng(0)
    _, infos = envs.reset(seed=0)
    made = []
    for _ in range(steps):
        made.append(random_acts(infos["action_mask"], rng))
        infos = envs.step(made[-1])[4]
    envs.close()
    return made


def microseconds(environment: str, rows: int, seconds: float, **keywords: Any) -> float:
    """CPU time of one row's step; what begins after an episode counts, the first reset does not."""
    script = recorded(environment, rows, 48, **keywords)
    envs: Any = gym.make_vec(environment, rows, **IN_NUMBERS, **keywords)
    count, spent, warm = 0, 0.0, False
    while not warm or spent < seconds:
        envs.reset(seed=0)
        start = time.process_time()
        for actions in script:
            envs.step(actions)
        if warm:
            spent += time.process_time() - start
            count += rows * len(script)
        warm = True
    envs.close()
    return spent / count * 1e6


def of_tasks(environment: str, seconds: float) -> None:
    """One task, those of a test split, those of train."""
    costs = [
        microseconds(environment, ROWS, seconds, **keywords)
        for keywords in ({"task_id": "train-1"}, {"split": "test"}, {"split": "train"})
    ]
    shown = (f"{cost:.3f} µs ({cost / costs[0]:.2f})" for cost in costs)
    print("  tasks 1 / 2,000 / 100,000:  " + ", ".join(shown))


def readings(environment: str, seed: int) -> tuple[list[int], list[str]]:
    """Fifty acts that look up and read, which ends no conversation, and their wordings."""
    env: Any = gym.make(environment, max_turns=60, **IN_NUMBERS, persona="patient_expert")
    base = env.unwrapped
    table = base.domain.actions.actions
    leaving = ("end_conversation", "transfer_to_human", "book_order")
    quiet = np.array(
        [act.kind >= FIRST_TOOL and act.name not in leaving for act in table], dtype=np.int8
    )
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    acts: list[int] = []
    texts: list[str] = []
    while len(acts) < LONG:
        legal = info["action_mask"] * quiet
        if len(acts) > SETTLED:  # the same from now on: what it costs depends on the turn alone
            legal = np.eye(len(quiet), dtype=np.int8)[acts[-1]]
        elif not legal.any() or len(acts) < 4:
            legal = info["action_mask"] * (1 - quiet) * np.array(
                [act.name.startswith("ask_") for act in table], dtype=np.int8
            )
        acts.append(int(rng.choice(np.flatnonzero(legal))))
        texts.append(base.in_words(acts[-1])[1])
        _, _, terminated, truncated, info = env.step(acts[-1])
        if terminated or truncated:
            break
    return acts, texts


def of_turns(environment: str, seconds: float) -> None:
    """Early steps of a conversation against late ones."""
    played = [(seed, *readings(environment, seed)) for seed in range(60)]
    long = [(seed, acts, texts) for seed, acts, texts in played if len(acts) == LONG]
    for observation, action in (("features", "act"), ("message", "text")):
        env: Any = gym.make(
            environment, observation=observation, action=action, persona="patient_expert",
            max_turns=60,
        )  # fmt: skip
        # The least that each step has cost: what else the machine does, or is made once, is out.
        costs, until = np.full((len(long), LONG), np.inf), time.process_time() + 2 * seconds
        while time.process_time() < until:
            for place, (seed, acts, texts) in enumerate(long):
                env.reset(seed=seed)
                for step, sent in enumerate(acts if action == "act" else texts):
                    start = time.perf_counter()
                    env.step(sent)
                    costs[place, step] = min(costs[place, step], time.perf_counter() - start)
        ratio = costs[:, -10:].sum() / costs[:, 15:25].sum()
        print(
            f"  {observation} x {action}: turns {LONG - 9} to {LONG} cost {ratio:.2f} of turns 16 "
            f"to 25 ({len(long)} conversations)"
        )


def of_sizes(environment: str, seconds: float) -> None:
    """Cost and memory by number of environments."""
    for rows in SIZES:
        command = [sys.executable, __file__, "--one", environment, str(rows), str(seconds)]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        cost, peak = json.loads(told.stdout)
        print(f"  {rows:>5} environments: {cost:8.3f} µs a step, peak {peak:,.0f} MiB")


# -- memory of one ---------------------------------------------------------------------------------

MADE, EPISODES = 24, 300
"""Environments of one kind that are held at once, and episodes of each."""


def kib() -> float:
    """What this process holds."""
    gc.collect()
    return 1024 * held()


def memory_of_one(environment: str, rows: bool) -> tuple[float, float]:
    """(KiB of one more environment, KiB that it grows in 100 episodes), in this process.

    The first two pay for what all share, such as tables and words, and are not counted.
    """
    needed: dict[str, Any] = dict(NEEDED.get(environment, {}))
    in_text = environment in TEXT_ONLY or environment in WRAPPED_ENVIRONMENTS
    keywords = needed if in_text else {**needed, **IN_NUMBERS}

    def make() -> Any:
        if rows:
            return gym.make_vec(environment, 1, **keywords)
        return gym.make(environment, disable_env_checker=True, **keywords)

    def episodes(env: Any, count: int) -> None:
        env.action_space.seed(0)
        for seed in range(count):
            env.reset(seed=seed)
            for _ in range(3):
                answer = env.step(env.action_space.sample())
                if np.any(answer[2]) or np.any(answer[3]):
                    break

    first = [make(), make()]
    for env in first:
        episodes(env, EPISODES)
    before = kib()
    kept = [make() for _ in range(MADE)]
    for env in kept:
        episodes(env, 1)
    made = kib()
    for env in kept:
        episodes(env, EPISODES)
    grown = kib()
    return (made - before) / MADE, (grown - made) / MADE / EPISODES * 100


def of_memory() -> None:
    """Memory of one environment of every id, single and as a row."""
    print("memory of one environment, and its growth in 100 episodes")
    for environment in (*ENVIRONMENTS, *WRAPPED_ENVIRONMENTS):
        told = []
        for form in ("single", "row"):
            command = [sys.executable, __file__, "--memory-of", environment, form]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            size, growth = json.loads(done.stdout)
            told.append(f"{form} {1024 * size:>9,.0f} bytes, {1024 * growth:+8,.0f}")
        print(f"  {environment:<30} " + "   ".join(told), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", nargs="*", default=[
        name for name in VECTOR_ENVIRONMENTS if "Own" not in name
    ])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each figure")
    parser.add_argument("--only-memory", action="store_true", help="bytes of one environment alone")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        environment, form = options.memory_of
        print(json.dumps(memory_of_one(environment, form == "row")))
        return
    if options.only_memory:
        of_memory()
        return
    if options.one:
        environment, rows, seconds = options.one
        cost = microseconds(environment, int(rows), float(seconds))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([cost, peak]))
        return
    for environment in options.env:
        print(environment)
        of_tasks(environment, options.seconds)
        of_turns(environment, options.seconds)
        of_sizes(environment, options.seconds)
    of_memory()


if __name__ == "__main__":
    main()
