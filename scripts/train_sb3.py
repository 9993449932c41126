"""Train an agent online with Stable-Baselines3, and see what it has learnt.

    python scripts/train_sb3.py --env ConvGym/CustomerService-v0 --algorithm maskable_ppo
                                --steps 200000 --seed 0 --out policy.zip
    python scripts/train_sb3.py --env CartPole-v1 --algorithm ppo --steps 50000
    python scripts/train_sb3.py --keywords '{"observation": "message"}' --encoder hashed
    python scripts/train_sb3.py --settings '{"learning_rate": 0.0005, "hidden": [256, 256]}'
                                --checkpoint run.zip --log metrics

Prints what the agent scores before and after: in ConvGym success on the test split with its 95 %
interval, elsewhere the mean return. The same command with the same --checkpoint goes on where it
was broken off. Load the policy with `SB3Policy.load("policy.zip")`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

import convgym
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.evaluation.evaluate import evaluate
from convgym.evaluation.intervals import mean_interval
from convgym.evaluation.rollout import play
from convgym.policies.policy import Policy
from trainers.online.configurations import CONFIGURATIONS

ACTING = {"observation": "features", "action": "act"}
TRAINING = {"reward": "graded"}
"""What ConvGym's environments are made with, and while the agent trains."""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    it = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    it.add_argument("--env", default="ConvGym/CustomerService-v0", help="any Gymnasium id")
    it.add_argument("--algorithm", default="maskable_ppo", choices=list(CONFIGURATIONS))
    it.add_argument("--steps", type=int, default=200_000, help="agent turns")
    it.add_argument("--seed", type=int, default=0)
    it.add_argument("--settings", type=json.loads, default={}, help="of the algorithm, as JSON")
    it.add_argument("--keywords", type=json.loads, default={}, help="of the environment, as JSON")
    it.add_argument("--encoder", help="encode observed texts: hashed, or the path of an encoder")
    it.add_argument("--split", default="test", help="of the evaluation, in ConvGym")
    it.add_argument("--episodes", type=int, default=500, help="of an evaluation")
    it.add_argument("--out", type=Path, help="write the policy to this file")
    it.add_argument("--checkpoint", type=Path, help="go on from this file, and write it")
    it.add_argument("--log", type=Path, help="a folder for metrics as CSV")
    return it


def maker(asked: argparse.Namespace) -> tuple[Callable[..., gym.Env[Any, Any]], bool]:
    """What makes the environment, and whether it is one of ConvGym's."""
    ours = asked.env in convgym.ENVIRONMENTS
    make = partial(gym.make, asked.env, **{**(ACTING if ours else {}), **asked.keywords})
    if asked.encoder is None:
        return make, ours
    from trainers.online.encoded_text import EncodedText

    return lambda **more: EncodedText(make(**more), asked.encoder), ours


def score(policy: Policy, env: gym.Env[Any, Any], episodes: int, split: str, ours: bool) -> str:
    """What a policy scores, with its interval."""
    if ours:
        return str(evaluate(policy, env, episodes=episodes, split=split))
    returns = [play(env, policy, seed=seed, keep=False).return_ for seed in range(episodes)]
    low, high = mean_interval(returns)
    mean = sum(returns) / episodes
    return f"{policy.name:<28} return {mean:.3f} [{low:.3f}, {high:.3f}]  n={episodes}"


def train(asked: argparse.Namespace) -> None:
    """Score, learn, score, save."""
    from trainers.callbacks import ProgressBar

    settings = {"seed": asked.seed, **asked.settings}
    if "hidden" in settings:
        settings["hidden"] = tuple(settings["hidden"])
    known = CONFIGURATIONS[asked.algorithm].__dataclass_fields__
    if unknown := sorted(set(settings) - set(known)):
        raise InvalidConfiguration(
            f"{asked.algorithm} has no setting {unknown[0]!r}; it has {', '.join(known)}"
        )
    learner = CONFIGURATIONS[asked.algorithm](**settings).create()
    make, ours = maker(asked)
    training = partial(make, **TRAINING) if ours and "reward" not in asked.keywords else make
    judged = partial(score, episodes=asked.episodes, split=asked.split, ours=ours)

    print("before:", judged(learner.fit(training, 0), make()), flush=True)
    policy = learner.fit(
        training,
        asked.steps,
        callbacks=[ProgressBar(asked.steps)],
        checkpoint=asked.checkpoint,
        log=asked.log,
    )
    print("after: ", judged(policy, make()), flush=True)
    if asked.out:
        policy.save(asked.out)
        print(f"the policy is in {asked.out}")


def main(given: list[str] | None = None) -> int:
    """Train as the options say."""
    asked = parser().parse_args(given)
    import torch

    torch.set_num_threads(1)
    try:
        train(asked)
    except ConvGymError as error:
        print(f"train_sb3: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
