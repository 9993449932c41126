"""Steps per CPU-second of the environment beside CartPole, in one run.

    python scripts/bench_env.py [--env ConvGym/CustomerService-v0] [--seconds 3] [--episodes 400]

Every figure counts resets and grading. Modes are driven by what the planner does, recorded
beforehand from the same seed, so that only the environment is timed; the median length of its
replies is printed. The run is seeded once, at its beginning, as CartPole's is. Each mode is
measured as its tasks and replies come in a run that begins with an empty memory; `again`, when
all of them have come before; and, in text, `all new`, as if each reply and each sentence were.
A ratio is to `gym.make("CartPole-v1")` in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import gymnasium as gym
import numpy as np

import convgym  # noqa: F401  registers the environments
from convgym.domains.customer_service import understanding
from convgym.domains.sales import understanding as sales_understanding
from convgym.domains.technical_support import understanding as support_understanding
from convgym.engine.tasks import kept_task
from convgym.envs.batched_replies import BatchedReplies
from convgym.envs.registration import ENVIRONMENTS
from convgym.language import speech
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

ENVIRONMENT = "ConvGym/CustomerService-v0"

Script = list[list[Any]]
"""The actions of each episode of a run that is seeded with 0."""
AS_THEY_COME, AGAIN, ALL_NEW = "", ", again", ", all new"
MODES = (
    ("text", AS_THEY_COME),
    ("text", AGAIN),
    ("text", ALL_NEW),
    ("act", AS_THEY_COME),
    ("act", AGAIN),
)
_LONGEST = understanding.LONGEST_CACHED, speech.LONGEST_CACHED


def scripted(action: str, episodes: int, environment: str = ENVIRONMENT) -> Script:
    """What the planner does in each episode, in acts or in words."""
    env = gym.make(environment, observation="dict", action=action)
    base: Any = env.unwrapped
    domain = base.make_domain().domain
    planner = ladder(domain)["planner"]()
    policy: Any = RenderedPolicy(planner, domain=domain) if action == "text" else planner
    script = []
    observation, info = env.reset(seed=0)
    for episode in range(episodes):
        policy.reset(episode)
        actions, over = [], False
        while not over:
            chosen = policy.predict(observation, action_masks=info["action_mask"])[0]
            actions.append(chosen)
            observation, _, terminated, truncated, info = env.step(chosen)
            over = terminated or truncated
        script.append(actions)
        observation, info = env.reset()
    return script


def drive(env: gym.Env[Any, Any], script: Script) -> tuple[list[float], list[float]]:
    """CPU seconds of each step, and of each reset that follows an episode."""
    steps, resets = [], []
    clock = time.process_time_ns
    env.reset(seed=0)
    for actions in script:
        for action in actions:
            start = clock()
            env.step(action)
            steps.append((clock() - start) * 1e-9)
        start = clock()
        env.reset()
        resets.append((clock() - start) * 1e-9)
    return steps, resets


def total(env: gym.Env[Any, Any], script: Script) -> tuple[int, float]:
    """Steps, and CPU seconds with the resets that follow, without a clock in between."""
    env.reset(seed=0)
    count, start = 0, time.process_time()
    for actions in script:
        for action in actions:
            env.step(action)
        count += len(actions)
        env.reset()
    return count, time.process_time() - start


def forget_texts(also_sentences: bool = True) -> None:
    """From now on every text is read as if it were new, and each of its sentences too.

    Without `also_sentences`, what sentences mean without names and figures stays known.
    """
    understanding.LONGEST_CACHED = speech.LONGEST_CACHED = -1 if also_sentences else 0
    BatchedReplies.remembers = False


def remember_texts() -> None:
    """A text that comes again is known, as it is unless benchmarks forget it."""
    understanding.LONGEST_CACHED, speech.LONGEST_CACHED = _LONGEST
    BatchedReplies.remembers = True


def empty_memory() -> None:
    """Forget what has been drawn and read so far."""
    kept_task.cache_clear()
    understanding._cached.cache_clear()
    readers: list[Any] = [sales_understanding._reader(), support_understanding._reader()]
    for reader in readers:
        reader._cached.cache_clear()
        reader._seen.cache_clear()
    readers[0]._alike.cache_clear()


def cartpole(seconds: float) -> float:
    """Steps per CPU-second of CartPole with random actions, resets counted."""
    env = gym.make("CartPole-v1")
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 2, 4096).tolist()
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        count += len(actions)
    return count / (time.process_time() - start)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default=ENVIRONMENT, choices=tuple(ENVIRONMENTS))
    parser.add_argument("--seconds", type=float, default=3.0, help="for CartPole")
    parser.add_argument("--episodes", type=int, default=400, help="of each mode")
    options = parser.parse_args()

    scripts = {
        action: scripted(action, options.episodes, options.env) for action in ("text", "act")
    }
    words = [len(a.split()) for actions in scripts["text"] for a in actions]
    calls = sum("<tool_call>" in a for actions in scripts["text"] for a in actions)
    print(
        f"planner's replies: median {statistics.median(words):.0f} words, "
        f"{calls / len(words):.0%} with a tool call, {len(words):,} steps"
    )
    anchor = cartpole(options.seconds)
    print(f"{'mode':<28}{'steps/CPU-s':>12}{'x CartPole':>12}", end="")
    print(f"{'p50 µs':>9}{'p99 µs':>9}{'reset µs':>10}")
    print(f"{'CartPole-v1':<28}{anchor:>12,.0f}{1:>12.2f}")
    for action, memory in MODES:
        (forget_texts if memory == ALL_NEW else remember_texts)()
        for observation in ("message", "transcript", "dict", "features"):
            env = gym.make(options.env, observation=observation, action=action)
            total(env, scripts[action][:20])  # what is made once is made
            if memory == AGAIN:
                total(env, scripts[action])
            else:
                empty_memory()
            count, seconds = total(env, scripts[action])
            if memory != AGAIN:
                empty_memory()
            steps, resets = drive(env, scripts[action])
            p50, p99 = np.percentile(steps, [50, 99]) * 1e6
            rate = count / seconds
            print(
                f"{observation + ' x ' + action + memory:<28}{rate:>12,.0f}"
                f"{rate / anchor:>12.3f}{p50:>9.0f}{p99:>9.0f}"
                f"{statistics.median(resets) * 1e6:>10.0f}"
            )
    again = cartpole(options.seconds)
    print(f"{'CartPole-v1, again':<28}{again:>12,.0f}{again / anchor:>12.2f}")


if __name__ == "__main__":
    main()
