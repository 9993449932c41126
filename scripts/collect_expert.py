"""Record somebody who can play as a Minari dataset.

    python scripts/collect_expert.py ConvGym/CustomerService-v0 planner mine/expert-v0
    python scripts/collect_expert.py CartPole-v1 ppo:model.zip cartpole/expert-v0 --deterministic
    python scripts/collect_expert.py CartPole-v1 my_module:balance cartpole/scripted-v0

    [--episodes 1000] [--seed 0] [--split train] [--arguments '{"noise": 0.1}']
    [--keywords '{"reward": "milestones"}'] [--overwrite]

Who plays is one of the environment's scripted agents (random, keyword, slot-filling, planner,
oracle), a policy that was saved here (policy.zip), a model of Stable-Baselines3 with its class
before it (ppo, a2c, dqn, sac, td3, ddpg, maskableppo, recurrentppo, qrdqn, trpo), or
module:callable: a function of the observation, or with --arguments what it makes. A model of
Stable-Baselines3 is a pickle: load none that you do not trust.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from convgym.data.transitions import count, read_episodes
from convgym.errors import ConvGymError, InvalidConfiguration, MissingExtra
from convgym.simulator import scripted_agents
from trainers.callbacks import ProgressBar
from trainers.offline.expert_data import ExpertDataCollector
from trainers.offline.saved_policies import load_policy

MODELS = {
    **dict.fromkeys(("PPO", "A2C", "DQN", "SAC", "TD3", "DDPG"), "stable_baselines3"),
    **dict.fromkeys(("MaskablePPO", "RecurrentPPO", "QRDQN", "TRPO"), "sb3_contrib"),
}


def player_of(name: str, arguments: Mapping[str, Any] | None, env: gym.Env[Any, Any]) -> Any:
    """What `name` calls; raises InvalidConfiguration where it calls nothing."""
    kind, colon, rest = name.partition(":")
    models = {model.lower(): model for model in MODELS}
    try:
        if colon and kind.lower() in models:
            return _model(models[kind.lower()], rest)
        if colon:
            found = getattr(importlib.import_module(kind), rest)
            return found if arguments is None else found(**arguments)
        if Path(name).is_file():
            return load_policy(name)
        agents = scripted_agents(env)
        if name in agents:
            return agents[name](**(arguments or {}))
    except ConvGymError:
        raise
    except (ImportError, AttributeError, TypeError, ValueError, OSError) as error:
        raise InvalidConfiguration(f"no player can be made of {name!r}: {error}") from None
    raise InvalidConfiguration(
        f"nobody is called {name!r}; there are {', '.join(agents)}, files of saved policies, "
        "ppo:model.zip and module:callable"
    )


def _model(name: str, path: str) -> Any:
    try:
        package = importlib.import_module(MODELS[name])
    except ImportError as error:
        raise MissingExtra(error.name or MODELS[name], "sb3") from error
    return getattr(package, name).load(path, device="cpu")


def run(options: argparse.Namespace) -> None:
    """Record, and say what was recorded."""
    collector = ExpertDataCollector(options.env, **options.keywords)
    player = player_of(options.player, options.arguments, collector.env)
    bar = ProgressBar(options.episodes)
    dataset = collector.collect_from_policy(
        player,
        options.episodes,
        options.dataset,
        seed=options.seed,
        deterministic=options.deterministic,
        split=options.split,
        overwrite=options.overwrite,
        progress=lambda done: bar({"step": done}),
    )
    episodes = read_episodes(dataset)
    returns = [episode.rewards.sum() for episode in episodes]
    told = [episode.success for episode in episodes if episode.success is not None]
    print(f"{options.dataset} in {dataset.storage.data_path}")
    print("  " + ", ".join(f"{number:,} {what}" for what, number in count(episodes).items()))
    print(f"  return {np.mean(returns):.3f}, from {min(returns):.3f} to {max(returns):.3f}")
    if told:
        print(f"  success {np.mean(told):.3f}")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no JSON object")
    return value


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("env", help="id of the environment")
    parser.add_argument("player", help="scripted agent, policy.zip, ppo:model.zip, module:callable")
    parser.add_argument("dataset", help="id of the dataset, such as mine/expert-v0")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", default="train", help="of the tasks, where there are splits")
    parser.add_argument("--deterministic", action="store_true", help="the best action always")
    parser.add_argument("--arguments", type=_object, help="of what makes the player, JSON")
    parser.add_argument("--keywords", type=_object, default={}, help="of the environment, JSON")
    parser.add_argument("--overwrite", action="store_true", help="replace that dataset")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Record; a sentence and 1 where that cannot be."""
    try:
        run(parse(arguments))
    except ConvGymError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
