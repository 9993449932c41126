"""For a researcher: an agent that learns online, measured so that others can believe it.

    python scripts/tutorials/researcher.py [--smallest] [--turns 200000] [--seeds 3]

    1 the environment is a Gymnasium environment, and says what it observes
    2 what a policy is worth without learning: a floor and a ceiling
    3 plain PPO of Stable-Baselines3, by hand: any library of Gymnasium plays here
    4 MaskablePPO by a configuration, several seeds
    5 intervals: of tasks within one run, of runs over seeds
    6 repeatability: the same seed is the same run, to the last digit

Read it from top to bottom; it does what it says in this order. Needs `convgym[sb3]`. As it stands
it prints, of 500 test tasks (278 CPU-seconds):

    random        .000 [.000, .008]      planner  .628 [.585, .669]     oracle  1.000
    plain PPO     .000 [.000, .008]      50,000 turns, no masks
    MaskablePPO   .144  .102  .106       200,000 turns, three seeds; over seeds .117 [.091, .144]
    seed 0 again  .144                   identical

Four times as many turns earn about .3 (`python scripts/train_sb3.py --steps 800000`).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial

import gymnasium as gym
import numpy as np

import convgym  # noqa: F401  registers the ids
from convgym.evaluation.evaluate import Evaluation, evaluate
from convgym.evaluation.intervals import mean_interval
from convgym.policies.policy import Policy
from convgym.policies.scripted import OraclePolicy, PlannerPolicy, RandomPolicy


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is done; the smallest is for a test, and learns nothing to speak of."""

    turns: int = 200_000
    """Agent turns of each MaskablePPO."""
    plain_turns: int = 50_000
    """Of plain PPO."""
    seeds: int = 3
    episodes: int = 500
    """Test tasks of an evaluation."""


SMALLEST = Size(turns=256, plain_turns=128, seeds=2, episodes=10)

# Belief features in, a numbered dialogue act out: the setting in which policies learn in minutes.
# Words come later (`observation="dict", action="text"`): the same customer in the same world.
desk = partial(gym.make, "ConvGym/CustomerService-v0", observation="features", action="act")


def the_environment() -> None:
    """1. `gym.make`, `reset`, `step`: nothing here is ConvGym's own."""
    print("\n== 1 the environment")
    env = desk()
    print(f"observes {env.observation_space}, takes {env.action_space}")

    # All chance follows from the seed: who calls, what for, how they talk.
    observation, info = env.reset(seed=7)
    print(f"seed 7 is task {info['task_id']}, {info['action_mask'].sum()} acts are legal at first")

    # An illegal act is no error of Python's: the desk answers that it cannot be done, and the
    # conversation goes on, shorter by a turn. `info["action_mask"]` says which ones are legal.
    act = int(np.flatnonzero(info["action_mask"])[0])
    _, reward, terminated, truncated, _ = env.step(act)
    print(f"act {act}: reward {reward}, terminated {terminated}, truncated {truncated}")

    again, same = desk().reset(seed=7)
    assert np.array_equal(observation, again) and info["task_id"] == same["task_id"]


def score(policy: Policy, size: Size) -> Evaluation:
    """Success on test tasks.

    Whoever is evaluated with the same seed meets the same customers with the same wishes in the
    same words, so that a difference of two policies is theirs. The test split shares no customer
    with `train`; `validation` is there for choosing between settings.
    """
    return evaluate(policy, desk(split="test"), episodes=size.episodes, seed=0)


def the_floor_and_the_ceiling(size: Size) -> None:
    """2. A learner's number means nothing before these are known."""
    print("\n== 2 what is there without learning")
    for policy in (RandomPolicy(), PlannerPolicy(), OraclePolicy()):
        print(score(policy, size))
    # The oracle sees no more than the agent does: what it reaches can be reached.


def plain_ppo(size: Size) -> None:
    """3. Stable-Baselines3 as its own manual has it.

    It knows no masks, and most of the acts are illegal at any moment: it spends its turns on
    learning what a mask would have told it. Its policy is wrapped so that the same evaluation
    can be asked of it; a mask is obeyed there by whoever plays.
    """
    from stable_baselines3 import PPO

    from trainers.online.sb3_policy import SB3Policy

    print("\n== 3 plain PPO, by hand")
    env = desk(reward="graded")
    steps = min(512, size.plain_turns)
    model = PPO("MlpPolicy", env, n_steps=steps, batch_size=min(64, steps), seed=0, device="cpu")
    model.learn(size.plain_turns)
    print(score(SB3Policy(model), size))


def masked_ppo(size: Size, seed: int) -> Policy:
    """4. The same algorithm over legal acts only, 32 conversations side by side.

    `reward="graded"` pays partial evidence at the end of a conversation; with `"success"` the
    first success is too far away for chance to find. Evaluation counts success whatever the
    training was paid by.
    """
    from trainers.online.maskable_ppo import MaskablePPOConfig

    config = MaskablePPOConfig(seed=seed)
    if size.turns < config.n_envs * config.n_steps:  # one rollout is more than the smallest size
        config = MaskablePPOConfig(seed=seed, n_envs=4, n_steps=32, batch_size=64)
    return config.create().fit(partial(desk, reward="graded"), size.turns)


def seeds_and_intervals(size: Size) -> Evaluation:
    """5. Two questions with an interval each; papers often give one for the other.

    How good is *this policy*? Tasks were drawn: Wilson's interval, printed with each score.
    How good is *the algorithm*? Seeds were drawn: an interval over the runs, which needs several.
    """
    print(f"\n== 4, 5 MaskablePPO, {size.turns:,} turns, {size.seeds} seeds")
    found = []
    for seed in range(size.seeds):
        found.append(score(masked_ppo(size, seed), size))
        print(f"seed {seed}  {found[-1]}", flush=True)
    successes = [one.success for one in found]
    low, high = mean_interval(successes)
    print(f"over seeds: {np.mean(successes):.3f} [{low:.3f}, {high:.3f}]")
    # Of three runs this is a rough interval (normal, where Student's t would be wider): take five
    # or more for a claim, and report every seed.
    return found[0]


def the_same_again(size: Size, first: Evaluation) -> None:
    """6. On a CPU with one thread a seed is a run: weights, customers, numbers."""
    print("\n== 6 seed 0 once more")
    again = score(masked_ppo(size, 0), size)
    print(again)
    assert again == first, "a seed must be a run; is torch on one thread?"
    print("identical")


def main(given: list[str] | None = None) -> None:
    """The lesson."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smallest", action="store_true", help="seconds, and nothing learnt")
    parser.add_argument("--turns", type=int, default=Size.turns, help="of each MaskablePPO")
    parser.add_argument("--seeds", type=int, default=Size.seeds)
    asked = parser.parse_args(given)
    size = SMALLEST if asked.smallest else Size(turns=asked.turns, seeds=asked.seeds)

    import torch

    torch.set_num_threads(1)  # several threads add numbers in no fixed order
    the_environment()
    the_floor_and_the_ceiling(size)
    plain_ppo(size)
    first = seeds_and_intervals(size)
    the_same_again(size, first)


if __name__ == "__main__":
    main()
