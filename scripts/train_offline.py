"""Learn a policy from a Minari dataset, and say what it earns on tasks it has not seen.

    python scripts/train_offline.py convgym/customer-service/mixed-v0 --algorithm cql --out policy
    python scripts/train_offline.py cartpole/expert-v0 --algorithm bc --steps 5000 --out clone
    python scripts/train_offline.py folder/of/mixed-v0 --option cql_alpha=0.1 --option n_step=10

    [--steps N] [--seed 0] [--evaluate-every 2000] [--episodes 200] [--best 0.5] [--d3rlpy]

    out/policy.zip       the policy           trainers.offline.saved_policies.load_policy reads it
    out/critic.zip       its values of states  trainers.offline.value_function.ValueFunction.load
    out/checkpoint.zip   weights, optimisers, generators; the same command goes on from it
    out/log.csv          a row every 500 steps; with --tensorboard out/tensorboard, too
    out/report.json      options and scores

ConvGym's own datasets of acts are learnt from with the options, and for as many steps, that were
found on them (`trainers.offline.tuned`), unless an option is given; all else with the config's
defaults and for 20,000 steps. Datasets made of logs (scripts/logs_to_policy.py) have no
environment: nothing is played then. While it learns it is scored on the validation split, in the
end on the test split, where the environment has splits; else on seeds of its own. `--d3rlpy` takes
d3rlpy's algorithm of that name, without checkpoints.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import convgym  # noqa: F401 (registers the ids)
from convgym.data.recipes import recipe_ids
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.evaluation.scores import Score
from convgym.policies.policy import Policy
from trainers.callbacks import Callback, CSVLog, ProgressBar, TensorBoardLog
from trainers.offline.config import Shapes, checked
from trainers.offline.environments import Flat, Masked, flat_size
from trainers.offline.registry import config_of
from trainers.offline.scores import score
from trainers.offline.stored_data import chosen, open_dataset, read_source
from trainers.offline.tuned import STEPS, tuned
from trainers.offline.value_function import value_function_of


def shapes_of_spaces(dataset: Any) -> Shapes:
    """What networks must fit to learn from a dataset."""
    actions, observation = dataset.action_space, flat_size(dataset.observation_space)
    if isinstance(actions, gym.spaces.Discrete):
        return Shapes(observation, int(actions.n), True)
    low, high = actions.low.astype(np.float32), actions.high.astype(np.float32)
    return Shapes(observation, actions.shape[0], False, low, high)


def environment_of(dataset: Any) -> gym.Env[Any, Any] | None:
    """Where its policy is to be scored, or None for data that people made."""
    if dataset.env_spec is None:
        return None
    return Flat(Masked(dataset.recover_environment(eval_env=True)))


def takes_tuned(options: argparse.Namespace, dataset: Any) -> bool:
    """Whether options found on ConvGym's own data are for this run."""
    acts = isinstance(dataset.action_space, gym.spaces.Discrete)
    return acts and dataset.id in recipe_ids() and not options.option and not options.d3rlpy


def config_for(options: argparse.Namespace, shapes: Shapes, found: bool = False) -> Any:
    """The learner's config; `found`: with the options found on ConvGym's own data."""
    named = {"seed": options.seed, **dict(options.option)}
    if options.d3rlpy:
        from trainers.offline.d3rlpy_learner import D3RLPyConfig

        fields = D3RLPyConfig.__annotations__
        own = {name: named.pop(name) for name in list(named) if name in fields}
        return D3RLPyConfig(algorithm=options.algorithm, options=named, **own)
    if found:
        return tuned(options.algorithm, **named)
    return checked(config_of(options.algorithm, discrete=shapes.discrete), named)


def callbacks_for(options: argparse.Namespace) -> list[Callback]:
    """Progress bar, CSV and, if wanted, TensorBoard."""
    found: list[Callback] = [ProgressBar(options.steps), CSVLog(options.out / "log.csv")]
    if options.tensorboard:
        found.append(TensorBoardLog(options.out / "tensorboard"))
    return found


def learn(options: argparse.Namespace) -> Mapping[str, Any]:
    """Everything; what report.json says."""
    dataset = open_dataset(options.dataset)
    shapes, env = shapes_of_spaces(dataset), environment_of(dataset)
    found = takes_tuned(options, dataset)
    config = config_for(options, shapes, found)
    if options.steps is None:
        options.steps = STEPS if found else 20_000
    episodes = chosen(read_source(dataset, config.discount), best=options.best)
    turns = sum(map(len, episodes))
    print(f"{dataset.id}: {len(episodes):,} episodes, {turns:,} turns; {config}")
    if found:
        print(f"options found on such data (trainers.offline.tuned), {options.steps:,} steps")

    def scored(policy: Policy, split: str, seed: int) -> Score:
        assert env is not None
        return score(policy, env, options.episodes, seed=seed, split=split)

    evaluators = {"validation": lambda p: scored(p, "validation", options.seed).return_}
    keywords: dict[str, Any] = {} if options.d3rlpy else {
        "checkpoint": options.out / "checkpoint.zip", "checkpoint_every": options.checkpoint_every,
    }  # fmt: skip
    learner = config.create(options.device)
    policy = learner.fit(
        episodes,
        options.steps,
        evaluators if env is not None and options.evaluate_every else None,
        shapes=shapes,
        evaluate_every=options.evaluate_every,
        callbacks=callbacks_for(options),
        **keywords,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    policy.save(options.out / "policy.zip")
    if not options.d3rlpy:
        with suppress(InvalidConfiguration):  # a clone has no values
            values = value_function_of(learner.algorithm, shapes.discrete)
            values.save(options.out / "critic.zip")
    report: dict[str, Any] = {"dataset": dataset.id, "steps": options.steps, **config.to_dict()}
    if env is None:
        print("the dataset has no environment; see off-policy evaluation for what it would earn")
    else:
        # A seed that no evaluation while learning had.
        earned = scored(policy, "test", options.seed + 1_000_000)
        print(f"test  {earned}")
        report["test"] = earned.to_dict()
    return report


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", help="id of a Minari dataset, or its folder")
    parser.add_argument("--algorithm", default="cql", help="see trainers.offline.registry")
    parser.add_argument("--d3rlpy", action="store_true", help="d3rlpy's algorithm of that name")
    parser.add_argument(
        "--option", type=_option, action="append", default=[], metavar="NAME=VALUE",
        help="of the algorithm's config; VALUE is JSON or a word. Others are the config's defaults",
    )  # fmt: skip
    parser.add_argument("--steps", type=int, help="updates in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--best", type=float, default=1.0, help="share of episodes, by return")
    parser.add_argument("--out", type=Path, default=Path("policy"), help="folder")
    parser.add_argument("--checkpoint-every", type=int, default=1000, help="steps")
    parser.add_argument("--evaluate-every", type=int, default=0, help="steps; 0 is never")
    parser.add_argument("--episodes", type=int, default=200, help="of an evaluation")
    parser.add_argument("--tensorboard", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Learn; a sentence and 1 where the data do not allow it."""
    options = parse(arguments)
    if options.device == "cpu":
        torch.set_num_threads(1)
    try:
        report = learn(options)
    except ConvGymError as error:
        print(error, file=sys.stderr)
        return 1
    temporary = options.out / f"report.json.{os.getpid()}.part"
    temporary.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    os.replace(temporary, options.out / "report.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
