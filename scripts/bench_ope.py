"""Off-policy estimates beside true values, and how often intervals hold them.

    python scripts/bench_ope.py coverage [--replications 1500] [--conversations 500]
    python scripts/bench_ope.py toy [--conversations 1500]
    python scripts/bench_ope.py customer-service technical-support sales [--out report.html]

`coverage` and `toy` use the conversation whose values are known exactly. A domain's name takes its
mixed data set, asks about scripts with noise and blends of them, and plays each one for the truth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from convgym.data.building import read_recipe
from convgym.data.loading import load_dataset
from convgym.data.transitions import EpisodeArrays, read_episodes
from convgym.envs.registration import register_envs
from convgym.evaluation.bootstrap import TaskBootstrap
from convgym.evaluation.evaluate import plans
from convgym.evaluation.ope.behavior import mixture_behavior
from convgym.evaluation.ope.estimators import (
    RatioSums,
    doubly_robust,
    weighted,
    weighted_doubly_robust,
)
from convgym.evaluation.ope.fitted_q import cross_fitted
from convgym.evaluation.ope.logged import LoggedPolicyData
from convgym.evaluation.ope.off_policy import OffPolicyConfig
from convgym.evaluation.ope.off_policy_report import OffPolicyReport, show
from convgym.evaluation.ope.page import write_off_policy_report
from convgym.evaluation.ope.selection import (
    CONSERVATIVE,
    evaluate_policies,
    selection_quality,
)
from convgym.evaluation.ope.support import effective_sample_size
from convgym.evaluation.ope.tabular import TabularQ
from convgym.evaluation.side_by_side import play_side_by_side
from convgym.policies.batched import RowPolicies
from convgym.policies.policy import ActPolicy
from convgym.policies.roster import ladder
from trainers import toy_dialogue as toy

Floats = np.ndarray[Any, np.dtype[np.float64]]
AT_ONCE = 100
"""Replications in one data set."""


# -- the toy ---------------------------------------------------------------------------------------


def noisy(noise: float, acts: int = toy.BLUNDERS) -> Floats:
    """The script, or any of the first `acts` acts with this probability."""
    return (1 - noise) * toy.script() + noise * toy.uniform(acts)


def state_of(observations: Any) -> Any:
    """States are observed as they are; replications are told apart by multiples."""
    return observations


def by_state(table: Floats) -> Callable[[Any, Any], Floats]:
    """A table as a policy over observed states."""
    return lambda observations, masks: table[observations % toy.STATES]


def coverage(
    behavior: Floats,
    policy: Floats,
    replications: int,
    conversations: int,
    seed: int = 0,
    alpha: float = 0.05,
) -> dict[str, float]:
    """Share of replications whose interval holds the true value, beside the mean width.

    A replication is as many conversations; a hundred of them are one data set whose states are
    numbered apart, so that each has values fitted to itself alone.
    """
    truth = float(toy.toy_model().values(policy)[toy.START])
    bootstrap = TaskBootstrap(conversations, seed, resamples=1_000)
    told: dict[str, list[Floats]] = {}
    for start in range(0, replications, AT_ONCE):
        count = min(AT_ONCE, replications - start)
        episodes = toy.record_states(behavior, count * conversations, seed=seed + start)
        apart = [
            replace(one, observations=one.observations + toy.STATES * (i // conversations))
            for i, one in enumerate(episodes)
        ]
        data = LoggedPolicyData.build(apart, by_state(policy))
        q = cross_fitted(data, TabularQ(state_of), seed=seed + start)
        shape = count, conversations, -1
        parts = (data.weights, data.padded(data.rewards), *data.padded_values(q))
        weights, rewards, taken, values = (part.reshape(shape) for part in parts)
        given = weights, rewards, data.discount, taken, values
        for name, sums in (
            ("WIS", weighted(*given[:3])),
            ("DR", doubly_robust(*given)),
            ("WDR", weighted_doubly_robust(*given)),
        ):
            low, high = np.nanquantile(_redrawn(sums, bootstrap), [alpha / 2, 1 - alpha / 2], 0)
            told.setdefault(name, []).append((low <= truth) & (truth <= high))
            told.setdefault(f"{name} width", []).append(high - low)
        told.setdefault("ess", []).append(effective_sample_size(weights[..., -1]))
    return {name: float(np.concatenate(parts).mean()) for name, parts in told.items()}


def _redrawn(sums: RatioSums, bootstrap: TaskBootstrap) -> Floats:
    """Redrawn estimates of each replication.  # (resamples, replications)"""
    count, n, columns = sums.columns.shape
    drawn = bootstrap.sums(np.moveaxis(sums.columns, 0, 1).reshape(n, -1))
    return sums.of_sums(drawn.reshape(-1, count, columns), n)


def print_coverage(replications: int, conversations: int) -> None:
    """Of policies nearer and farther, and behaviours better and worse."""
    print("behaviour  policy       value  ESS | WIS   width | DR    width | WDR   width")
    for behaved, noises in ((0.4, (0.3, 0.2, 0.1)), (0.7, (0.5, 0.4))):
        for noise in noises:
            policy = noisy(noise)
            found = coverage(noisy(behaved), policy, replications, conversations)
            value = toy.toy_model().values(policy)[toy.START]
            cells = " | ".join(
                f"{found[name]:.3f} {found[f'{name} width']:.3f}" for name in ("WIS", "DR", "WDR")
            )
            print(f"{behaved:9.1f}  script+{noise:.1f}  {value:6.3f} {found['ess']:5.0f} | {cells}")


def toy_candidates() -> dict[str, Floats]:
    """Twelve policies between the script and the worst that the behaviour can still tell of."""
    tables = {f"script, noise {noise}": noisy(noise) for noise in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)}
    for act, name in ((toy.CLOSE, "closes"), (toy.SMALL_TALK, "chats"), (toy.RECAP, "recaps")):
        for share in (0.1, 0.25):
            tables[f"{name} {share}"] = (1 - share) * noisy(0.3) + share * toy.always(act)
    return tables


def toy_reports(
    conversations: int, seed: int = 0
) -> tuple[list[OffPolicyReport], dict[str, float]]:
    """Reports of `toy_candidates` and their exact values."""
    tables = toy_candidates()
    behavior = noisy(0.5)
    episodes = toy.record_states(behavior, conversations, seed)
    data = LoggedPolicyData.build(episodes, by_state(behavior))
    config = OffPolicyConfig(fit_q=TabularQ(state_of), states=state_of)
    asked = {name: by_state(table) for name, table in tables.items()}
    model = toy.toy_model()
    truth = {name: float(model.values(table)[toy.START]) for name, table in tables.items()}
    return evaluate_policies(data, asked, config), truth


# -- the domains -----------------------------------------------------------------------------------


class Blend(ActPolicy):
    """One policy's choice or another's, drawn anew at every turn."""

    def __init__(self, first: ActPolicy, second: ActPolicy, share: float) -> None:
        super().__init__()
        self.parts, self.share = (first, second), share

    def action_probs(self, observation: Any, action_masks: Any) -> Any:
        """share · first + (1 − share) · second.  # (actions,)"""
        first, second = (part.action_probs(observation, action_masks) for part in self.parts)
        return self.share * first + (1 - self.share) * second


def domain_candidates(domain: str) -> dict[str, Callable[[], ActPolicy]]:
    """Makers of scripts with noise, and of blends of two."""
    rungs: Mapping[str, Any] = ladder(domain)
    makers: dict[str, Callable[[], ActPolicy]] = {"random": rungs["random"]}
    for name, noises in (
        ("keyword", (0.0, 0.2)),
        ("slot-filling", (0.0, 0.1, 0.3, 0.5)),
        ("planner", (0.0, 0.1, 0.3, 0.5)),
        ("oracle", (0.0, 0.2, 0.4)),
    ):
        for noise in noises:
            makers[f"{name}, noise {noise}"] = lambda kind=rungs[name], noise=noise: kind(noise)
    for share in (0.5, 0.8):
        makers[f"planner {share}, slot-filling"] = lambda share=share: Blend(
            rungs["planner"](0.1), rungs["slot-filling"](0.1), share
        )
    return makers


class _Discounted:
    """Discounted returns of the rows, for `play_side_by_side`."""

    fields = ()

    def __init__(self, rows: int, discount: float) -> None:
        self.returns, self.factors, self.discount = np.zeros(rows), np.ones(rows), discount

    def begin(self, row: int, observation: Any, info: Any) -> None:
        """A new conversation."""
        self.returns[row], self.factors[row] = 0.0, 1.0

    def step(
        self, rows: Any, actions: Any, policy: Any, observations: Any, rewards: Any, infos: Any
    ) -> None:
        """One turn of these rows."""
        self.returns[rows] += self.factors[rows] * rewards[rows]
        self.factors[rows] *= self.discount


def played(
    make: Callable[[], ActPolicy], environment: dict[str, Any], episodes: int, seed: int = 11
) -> tuple[float, float]:
    """(value, success) by playing tasks of the split that the data are from."""
    keywords, rows = dict(environment), 128
    envs = gym.make_vec(keywords.pop("id"), num_envs=rows, **keywords)
    earned = _Discounted(rows, environment["discount"])
    returns, successes = [], []
    for _, row, rollout in play_side_by_side(
        envs, RowPolicies(make), plans(episodes, seed, "train", None, False), recorder=earned
    ):
        returns.append(earned.returns[row])
        successes.append(rollout.final_info["success"])
    envs.close()
    return float(np.mean(returns)), float(np.mean(successes))


def for_success(episodes: list[EpisodeArrays]) -> list[EpisodeArrays]:
    """The same conversations, rewarded with 1 at the end of a successful one."""
    return [
        replace(one, rewards=np.append(np.zeros(len(one) - 1), float(bool(one.success))))
        for one in episodes
    ]


def domain_reports(
    domain: str, episodes_played: int, stored: bool = False
) -> dict[str, tuple[list[OffPolicyReport], dict[str, float]]]:
    """Reports and true values, of the discounted return and of success."""
    register_envs()
    dataset_id = f"convgym/{domain}/mixed-v0"
    recipe = read_recipe(dataset_id)
    episodes = read_episodes(load_dataset(dataset_id))
    scripts: Mapping[str, Any] = ladder(domain)
    behavior = None
    if not stored:
        who = [
            scripts[entry["policy"]](*([entry["noise"]] if "noise" in entry else []))
            for entry in recipe.behavior
        ]
        behavior = mixture_behavior(episodes, who)
    makers = domain_candidates(domain)
    outcomes = {
        name: played(make, recipe.environment, episodes_played) for name, make in makers.items()
    }
    asked = {name: make() for name, make in makers.items()}
    found = {}
    for place, (kind, rewarded, discount) in enumerate(
        (("value", episodes, recipe.environment["discount"]), ("success", for_success(episodes), 1))
    ):
        data = LoggedPolicyData.build(
            rewarded, asked["random"], discount=discount, behavior=behavior
        )
        truth = {name: outcome[place] for name, outcome in outcomes.items()}
        found[kind] = evaluate_policies(data, asked), truth
    return found


# -- tables ----------------------------------------------------------------------------------------


def print_reports(reports: list[OffPolicyReport], truth: dict[str, float]) -> None:
    """A line a policy, and a line an estimator."""
    names = [row.estimator for row in reports[0].rows]
    print(f"{'policy':<26} true    ESS  verdict          " + " ".join(f"{n[:7]:>7}" for n in names))
    for report in reports:
        values = " ".join(f"{show(report[name]):>7}" for name in names)
        print(
            f"{report.policy:<26} {truth[report.policy]:6.3f} {report.ess:5.0f}  "
            f"{report.verdict:<16} {values}"
        )
    print("estimator      policies  Spearman  regret@1  regret@3   RMSE  relative")
    for name in [*names, CONSERVATIVE]:
        q = selection_quality(reports, truth, name)
        print(
            f"{name:<14} {q.policies:8d} {q.spearman:9.3f} {q.regret_at_1:9.3f} "
            f"{q.regret_at_3:9.3f} {q.rmse:6.3f} {q.relative_error:9.3f}"
        )
    print()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+", help="coverage, toy, or domains")
    parser.add_argument("--replications", type=int, default=1_500)
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--played", type=int, default=1_000, help="conversations a true value")
    parser.add_argument("--stored", action="store_true", help="stored propensities, no mixture")
    parser.add_argument("--out", help="an HTML page of the last reports")
    options = parser.parse_args()
    for what in options.what:
        start = time.process_time()
        if what == "coverage":
            print_coverage(options.replications, options.conversations)
        elif what == "toy":
            reports, truth = toy_reports(options.conversations)
            print_reports(reports, truth)
        else:
            for kind, (reports, truth) in domain_reports(
                what, options.played, options.stored
            ).items():
                print(f"{what}: {kind}")
                print_reports(reports, truth)
        print(f"{what}: {time.process_time() - start:.0f} CPU-seconds\n", flush=True)
        if options.out and what != "coverage":
            print(write_off_policy_report(reports, options.out, truth=truth))


if __name__ == "__main__":
    main()
