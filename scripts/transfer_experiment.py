"""What calibration buys a policy: four ways to train it, one real side to play it on.

    python scripts/transfer_experiment.py
    python scripts/transfer_experiment.py --ranks      do simulators rank fixed agents alike?

    uncalibrated    the environment's own user
    randomised      a user for each episode: bases ± 1.5 in logits, all personas
    calibrated      the user fitted to logs of the real side (`fit_decisions`), with their acts
    both            a user for each episode, drawn from the fit's posterior, all personas
    real            the real side itself: what no simulator can beat by much

Real are twins (`tests/twin_env.py`): the environment with hidden users, other words and breaks,
each drawn from its seed. A policy is a scripted agent with knobs (`tests/twin_agents.py`); the
learner sets one knob after the other, in random order, to what earns most on the same episodes.
All arms have the same episodes, the same number of them and the same order of knobs. Values are
success less costs of replies and acts, on episodes of the twin that nobody trained on.

What a newcomer would get wrong: twins differ by more than arms do. So an arm's interval is that of
what it loses against the policy that was trained on the twin itself, twin by twin.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from convgym.calibration.decision_fit import PRIOR_SD, DecisionFit, fit_decisions, save_user
from convgym.policies.scripted import OraclePolicy, PlannerPolicy, SlotFillingPolicy
from convgym.users.decisions import POINTS
from convgym.users.fitted_user import FittedUser
from trainers.transfer.rank_transfer import PolicyValues, RankTransfer, rank_transfer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from twin_agents import AGENTS, CHEAP, DEAR, OPTIONS, KnobAgent, Knobs, returns
from twin_env import HiddenDecisions, RepliesEnv, TwinEnv, record

ENV_ID = "ConvGym/CustomerService-v0"
ARMS = ("uncalibrated", "randomised", "calibrated", "both", "real")
USERS = 16
"""Users that a randomised arm is trained on, in turn."""
LOGGING = (
    OraclePolicy,
    PlannerPolicy,
    partial(OraclePolicy, 0.15),
    partial(PlannerPolicy, 0.15),
    partial(SlotFillingPolicy, 0.1),
    partial(KnobAgent, Knobs(asks_ahead=True), 0.05),
    partial(KnobAgent, Knobs(asks_ahead=True, tells_ahead=True, explains_ending=True), 0.05),
    partial(KnobAgent, Knobs(asks_ahead=True, answers=False, offers_ahead=True), 0.05),
)
"""Makers of the agents that talk in the logs."""
RANK_MEASURES = ("spearman", "value_error", "regret_at_1")
_TRAIN, _TEST = 10_000, 1_000_000
"""First seeds of the episodes that are trained on, and of those that are not."""


def learn(envs: Sequence[Any], episodes: int, sweeps: int, seed: int) -> Knobs:
    """Coordinate search: each knob in turn at what earns most; episode i is played in env i."""
    chance = np.random.default_rng(seed)
    seeds = _TRAIN + np.arange(episodes) + episodes * seed

    def worth(knobs: Knobs) -> float:
        agent = KnobAgent(knobs)
        parts = [returns(env, agent, seeds[i :: len(envs)], DEAR) for i, env in enumerate(envs)]
        return float(np.concatenate(parts).mean())

    best, value = Knobs(), worth(Knobs())
    for _ in range(sweeps):
        for name in chance.permutation(list(OPTIONS)).tolist():
            for option in OPTIONS[name]:
                other = replace(best, **{name: option})
                if other != best and (found := worth(other)) > value:
                    best, value = other, found
    return best


def wide_user(seed: int) -> FittedUser:
    """A user whose bases are as far from the domain's own as the prior has them."""
    chance = np.random.default_rng(seed)
    bases = {}
    for point in POINTS:
        odds = point.base / (1 - point.base) * np.exp(chance.normal(0, PRIOR_SD))
        bases[point.name] = float(odds / (1 + odds))
    return FittedUser(bases)


def environments(users: Sequence[FittedUser], **keywords: Any) -> list[Any]:
    """One environment for each user."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for number, user in enumerate(users):
            path = Path(folder) / f"{number}.npz"
            save_user(user, path)
            made.append(RepliesEnv(user=path, **keywords))
    return made


def training_sides(arm: str, twin: int, fit: DecisionFit) -> list[Any]:
    """Where a policy of this arm is trained."""
    everybody = {"randomizer": {"persona_variation": 1.0, "seed": twin}}
    if arm == "uncalibrated":
        return [RepliesEnv()]
    if arm == "randomised":
        return environments([wide_user(1000 * twin + i) for i in range(USERS)], **everybody)
    if arm == "calibrated":
        return environments([fit.user()])
    if arm == "both":
        return environments([fit.draw(i) for i in range(USERS)], **everybody)
    return [TwinEnv(twin)]


def run_twin(
    twin: int, *, logs: int, episodes: int, test_episodes: int, sweeps: int, simulated: int
) -> dict[str, tuple[float, Knobs]]:
    """Value on the twin, and knobs, of the policy of each arm."""
    recorded = record(TwinEnv(twin, observation="message"), [m() for m in LOGGING], logs, twin)
    fit = fit_decisions(
        recorded, ENV_ID, labelled=True, agents=LOGGING, simulated=simulated, seed=twin
    )
    real, seeds = TwinEnv(twin), range(_TEST, _TEST + test_episodes)
    found = {}
    for arm in ARMS:
        knobs = learn(training_sides(arm, twin, fit), episodes, sweeps, twin)
        found[arm] = (float(returns(real, KnobAgent(knobs), seeds, DEAR).mean()), knobs)
    return found


def run_ranks(
    twin: int, *, logs: int, test_episodes: int, simulated: int
) -> dict[str, RankTransfer]:
    """How the agents of `AGENTS` rank in four simulators, beside their ranks on the twin.

    "bases" is the environment with the twin's own bases: what a fit could reach that knew them.
    """
    recorded = record(TwinEnv(twin, observation="message"), [m() for m in LOGGING], logs, twin)

    def fitted(labelled: bool) -> Any:
        fit = fit_decisions(
            recorded, ENV_ID, labelled=labelled, agents=LOGGING, simulated=simulated, seed=twin
        )
        return environments([fit.user()])[0]

    def values(env: Any) -> PolicyValues:
        seeds = range(_TEST, _TEST + test_episodes)  # the same tasks and personas everywhere
        earned = {name: returns(env, KnobAgent(k), seeds, CHEAP) for name, k in AGENTS.items()}
        return PolicyValues.of_returns(earned, paired=True)

    real = values(TwinEnv(twin))
    sides = {
        "uncalibrated": RepliesEnv(),
        "acts": fitted(True),
        "text": fitted(False),
        "bases": environments([FittedUser(HiddenDecisions(twin).bases)])[0],
    }
    return {name: rank_transfer(values(env), real) for name, env in sides.items()}


def show_ranks(twins: Sequence[int], **options: Any) -> dict[str, Any]:
    """Print and give each simulator's measures, twin by twin and their means."""
    found = {}
    for twin in twins:
        found[twin] = run_ranks(twin, **options)
        for side, ranks in found[twin].items():
            print(f"twin {twin:3d} {side:14s} {_row(ranks)}", flush=True)
    means = {}
    for side in found[twins[0]]:
        means[side] = {
            name: float(np.mean([getattr(each[side], name).value for each in found.values()]))
            for name in RANK_MEASURES
        }
        shown = "  ".join(f"{name} {value:.3f}" for name, value in means[side].items())
        print(f"mean     {side:14s} {shown}")
    return means


def _row(ranks: RankTransfer) -> str:
    return "  ".join(f"{name} {getattr(ranks, name).value:.3f}" for name in RANK_MEASURES)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval over twins, by Student's t."""
    from scipy.stats import t

    sample = np.asarray(values)
    half = t.ppf(0.975, len(sample) - 1) * sample.std(ddof=1) / np.sqrt(len(sample))
    mean = float(sample.mean())
    return mean, mean - float(half), mean + float(half)


def summary(
    rounds: Mapping[int, Mapping[str, tuple[float, Knobs]]],
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """By arm: value, and what it loses against the policy of the real side, each (mean, 95 %)."""
    return {
        arm: {
            "value": interval([found[arm][0] for found in rounds.values()]),
            "loss": interval([found["real"][0] - found[arm][0] for found in rounds.values()]),
        }
        for arm in ARMS
    }


def write(target: Path | None, found: Mapping[str, Any]) -> None:
    """The numbers as JSON, where somebody asked for a file."""
    if target:
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def show_arms(twins: Sequence[int], **options: Any) -> dict[str, Any]:
    """Print and give what each arm's policy is worth, twin by twin and over all."""
    rounds = {}
    for twin in twins:
        rounds[twin] = run_twin(twin, **options)
        values = "  ".join(f"{arm} {rounds[twin][arm][0]:.3f}" for arm in ARMS)
        print(f"twin {twin}  {values}", flush=True)
    print(f"\n{'trained on':14s} {'value on real users':26s} loss against training on them")
    found = summary(rounds)
    for arm, row in found.items():
        cells = ("{:.3f} [{:.3f}, {:.3f}]".format(*row[name]) for name in ("value", "loss"))
        print(f"{arm:14s} {next(cells):26s} {next(cells)}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--twins", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="seed of the first twin")
    parser.add_argument("--logs", type=int, default=1000, help="logged conversations per twin")
    parser.add_argument("--episodes", type=int, default=200, help="episodes per value in training")
    parser.add_argument("--test-episodes", type=int, default=1000)
    parser.add_argument("--sweeps", type=int, default=2, help="times that each knob is set")
    parser.add_argument("--simulated", type=int, default=1000, help="per step of the fit")
    parser.add_argument("--json", type=Path, help="write the numbers here, too")
    parser.add_argument("--ranks", action="store_true", help="rank fixed agents; nobody learns")
    options = vars(parser.parse_args(arguments))
    taken = (options.pop(name) for name in ("twins", "first", "json", "ranks"))
    count, first, target, ranks = taken
    if count < 2:
        parser.error("an interval over twins takes two or more")
    twins = range(first, first + count)
    if ranks:
        del options["episodes"], options["sweeps"]
        write(target, show_ranks(twins, **options))
    else:
        write(target, show_arms(twins, **options))


if __name__ == "__main__":
    main()
