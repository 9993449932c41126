"""The whole road once: logs in, a conversation, a dataset, two policies, one honest table.

    python scripts/demo.py [--logs FILE.jsonl[.gz]] [--out demo] [--seed 0]

1 logs       statistics, bad lines, what a simulated customer can learn from them
2 talk       one conversation with its ledger and its reward terms
3 collect    a Minari dataset by scripted agents of mixed skill
4 offline    DiscreteCQL (d3rlpy) on that dataset
5 online     MaskablePPO (sb3-contrib) in the environment
6 evaluate   both against random, null and scripted policies on test tasks
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
from tqdm import tqdm

import convgym
from convgym.data.episodes import collect, write_dataset
from convgym.data.logs import LogReader, read_log
from convgym.data.mixture import BehaviorMixture
from convgym.data.reward_model import MIN_CONVERSATIONS, fit_reward_model
from convgym.data.statistics import LogStatistics
from convgym.data.user_fit import fit_user
from convgym.errors import ConvGymError
from convgym.evaluation.evaluate import Evaluation, evaluate
from convgym.evaluation.report import (
    SCORE_HEADER,
    Section,
    curves_svg,
    paragraph,
    preformatted,
    score_rows,
    scores_svg,
    table_html,
    write_report,
)
from convgym.evaluation.rollout import play
from convgym.policies.policy import ActPolicy, Policy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import null_policies
from convgym.policies.scripted import (
    KeywordPolicy,
    OraclePolicy,
    PlannerPolicy,
    RandomPolicy,
    SlotFillingPolicy,
)
from convgym.users.fit import UserFit

SAMPLE = Path(__file__).parents[1] / "datasets" / "samples" / "support_sample.jsonl"
ENVIRONMENT = "ConvGym/CustomerService-v0"
DATASET = "demo/customer-service/mixed-v0"
DISCOUNT = 0.98
VALIDATION = 100
"""Tasks of each point of a learning curve."""


@dataclass
class Demo:
    """What one run carries from step to step."""

    logs: Path
    out: Path
    seed: int
    episodes: int
    cql_steps: int
    ppo_steps: int
    test_episodes: int
    user: str = ""
    sections: list[Section] = field(default_factory=list)
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def make(self, **keywords: Any) -> gym.Env[Any, Any]:
        """The environment with the customer fitted to the logs."""
        return gym.make(ENVIRONMENT, user=self.user, **keywords)

    def acting(self, **keywords: Any) -> gym.Env[Any, Any]:
        """The same with features in and acts out."""
        return self.make(observation="features", action="act", **keywords)


def say(text: str = "") -> None:
    """A line to the terminal that leaves a progress bar whole."""
    tqdm.write(text)


# -- 1 logs ----------------------------------------------------------------------------------------


def read_logs(demo: Demo) -> None:
    """Read, count, report bad lines; fit the customer and, with rewards, a reward model."""
    say(f"\n== 1 logs: {demo.logs.name}")
    with tqdm(unit=" lines", desc="reading", leave=False) as bar:
        reader = read_log(demo.logs, progress=lambda report: bar.update(report.lines - bar.n))
        statistics = LogStatistics.from_conversations(reader)
    report = reader.report
    say(f"{report.loaded:,} conversations of {report.lines:,} lines; {report.skipped:,} skipped")
    for fault in report.faults[:5]:
        say(f"  {fault}")
    if report.skipped > 5:
        say(f"  ... and {report.skipped - 5:,} more")
    say(statistics.to_markdown())

    fit = fit_user(reader)
    path = demo.out / "user.json"
    fit.to_json(path)
    demo.user = str(path)
    used = _what_is_used(reader, statistics, fit)
    for line in used:
        say(line)
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in statistics.to_markdown().splitlines()[2:]
    ]
    body = table_html(("statistic", "value"), rows) + "".join(paragraph(line) for line in used)
    demo.sections.append(Section(f"Logs: {demo.logs.parent.name}/{demo.logs.name}", body))


def _what_is_used(reader: LogReader, statistics: LogStatistics, fit: UserFit) -> list[str]:
    """Sentences that say what these logs feed, and what they cannot."""
    phrases = sum(len(said) for said in fit.wordings().values())
    counted = ", ".join(
        f"{name} {base:.2f} (n={fit.probabilities[name].n:,})"
        for name, base in fit.bases().items()
        if fit.probabilities[name].n
    )
    lines = [
        f"The simulated customer takes from these logs: {counted or 'no probability'}, and "
        + (f"{phrases} phrases for {', '.join(fit.wordings())}." if phrases else "no phrases.")
    ]
    if not statistics.assistant_turns:
        lines.append(
            "These logs hold customer turns only: they feed the statistics, the phrases and the "
            "customer's fitted choices. No agent can be learnt from them."
        )
    if statistics.reward is None:
        lines.append("There are no rewards in these logs; the agents learn in the simulated shop.")
        return lines
    drivers = ", ".join(
        f"{d.name} {d.spearman:+.2f}" for d in fit.reward_drivers if d.spearman is not None
    )
    lines.append(f"Rewards go along with (Spearman): {drivers or 'nothing that varies'}.")
    if statistics.reward.summary.n >= MIN_CONVERSATIONS:
        model = fit_reward_model(reader)
        low, high = model.interval
        lines.append(
            f"A linear model of the last reply predicts the reward of held-out conversations: "
            f"{model.metric} {model.value:.3f} [{low:.3f}, {high:.3f}], from the domain alone "
            f"{model.baseline:.3f} (n={model.n_test:,})."
        )
    else:
        lines.append(
            f"{statistics.reward.summary.n} rewarded conversations are too few for a reward "
            f"model ({MIN_CONVERSATIONS} needed)."
        )
    return lines


# -- 2 talk ----------------------------------------------------------------------------------------


def talk(demo: Demo) -> None:
    """One conversation of the oracle in words, with ledger and reward terms."""
    say("\n== 2 one conversation, its ledger and its rewards")
    env = demo.make(
        observation="dict", action="text", reward="milestones", split="test", render_mode="ansi"
    )
    rollout = play(env, RenderedPolicy(OraclePolicy()), seed=demo.seed + 1)
    text = str(env.render())
    terms = "\n".join(
        f"  step {step:>2}  reward {reward:+.2f}  {info['reward_terms']}"
        for step, (reward, info) in enumerate(
            zip(rollout.rewards, rollout.infos[1:], strict=True), start=1
        )
        if reward
    )
    text = f"{text}\n  -- rewards\n{terms}"
    say(text)
    demo.sections.append(Section("One conversation", preformatted(text)))


# -- 3 collect -------------------------------------------------------------------------------------


def behavior() -> list[tuple[Policy, float]]:
    """Scripted agents of mixed skill, with their shares."""
    return [
        (RandomPolicy(), 0.15),
        (KeywordPolicy(noise=0.1), 0.2),
        (SlotFillingPolicy(noise=0.15), 0.35),
        (PlannerPolicy(noise=0.2), 0.3),
    ]


def make_dataset(demo: Demo) -> Any:
    """Collect episodes, write them as a Minari dataset, load it the plain way."""
    import minari

    say(f"\n== 3 collect {demo.episodes:,} episodes by scripted agents of mixed skill")
    env = demo.acting(reward="milestones", discount=DISCOUNT)
    with tqdm(total=demo.episodes, unit=" episodes", desc="collecting", leave=False) as bar:
        buffers = collect(
            env, behavior(), demo.episodes, demo.seed, progress=lambda n: bar.update(n - bar.n)
        )
    write_dataset(
        DATASET,
        env,
        buffers,
        description="The demo's dataset: scripted agents of mixed skill at the support desk.",
        ref_min_score=0.0,
        ref_max_score=1.0,
        algorithm_name=BehaviorMixture(behavior()).name,
        overwrite=True,
    )
    dataset = minari.load_dataset(DATASET)
    say(
        f"{dataset.total_episodes:,} episodes, {dataset.total_steps:,} steps, read back with "
        f"minari.load_dataset({DATASET!r}) from {os.environ['MINARI_DATASETS_PATH']}"
    )
    return dataset


# -- 4, 5 learn ------------------------------------------------------------------------------------


def _validation(demo: Demo) -> Callable[[Policy], float]:
    env = demo.acting(split="validation")
    return lambda policy: evaluate(policy, env, episodes=VALIDATION, split="validation").success


def learn_offline(demo: Demo, dataset: Any) -> Policy:
    """DiscreteCQL on the dataset alone; the environment only draws its learning curve."""
    from trainers.offline.d3rlpy_adapter import train_discrete_cql

    say(f"\n== 4 offline: DiscreteCQL (d3rlpy), {demo.cql_steps:,} gradient steps")
    validate = _validation(demo)
    curve = demo.curves.setdefault("DiscreteCQL, offline", [])
    with tqdm(total=demo.cql_steps, unit=" steps", desc="CQL", leave=False) as bar:

        def heard(step: int, metrics: Any) -> None:
            bar.update(step - bar.n)
            if "success" in metrics:
                curve.append((step, metrics["success"]))
                bar.set_postfix(validation=f"{metrics['success']:.2f}")

        policy, _ = train_discrete_cql(
            dataset,
            n_steps=demo.cql_steps,
            seed=demo.seed,
            progress=heard,
            evaluators={"success": validate},
            evaluate_every=max(1, demo.cql_steps // 8),
        )
    return policy


def learn_online(demo: Demo) -> Policy:
    """MaskablePPO in the environment."""
    from trainers.online.maskable_ppo import MaskablePPOConfig

    say(f"\n== 5 online: MaskablePPO (sb3-contrib), {demo.ppo_steps:,} agent turns")
    config = MaskablePPOConfig(seed=demo.seed)
    learner = config.create()
    with tqdm(total=demo.ppo_steps, unit=" turns", desc="PPO", leave=False) as bar:

        def heard(step: int, metrics: Any) -> None:
            bar.update(min(step, demo.ppo_steps) - bar.n)
            if "success" in metrics:
                bar.set_postfix(validation=f"{metrics['success']:.2f}")

        policy = learner.fit(
            lambda: demo.acting(reward="graded"),
            demo.ppo_steps,
            evaluators={"success": _validation(demo)},
            evaluate_every=demo.ppo_steps // 8,
            progress=heard,
        )
    demo.curves["MaskablePPO, online"] = [
        (row["step"], row["success"]) for row in learner.history
    ]
    return policy


# -- 6 evaluate ------------------------------------------------------------------------------------


def compare(demo: Demo, learnt: Sequence[Policy]) -> list[Evaluation]:
    """Everybody on the same test tasks with the same customers."""
    say(f"\n== 6 evaluate on {demo.test_episodes} test tasks that nobody has met")
    in_words = demo.make(observation="message", action="text", split="test")
    in_acts = demo.acting(split="test")
    contestants: list[tuple[Policy, gym.Env[Any, Any]]] = [
        *(
            (policy, in_acts if isinstance(policy, ActPolicy) else in_words)
            for policy in (make() for make in null_policies().values())
        ),
        (RandomPolicy(), in_acts),
        (KeywordPolicy(), in_acts),
        (_named(BehaviorMixture(behavior()), "behaviour (data)"), in_acts),
        *((policy, in_acts) for policy in learnt),
        (SlotFillingPolicy(), in_acts),
        (PlannerPolicy(), in_acts),
        (OraclePolicy(), in_acts),
    ]
    scores = []
    with tqdm(contestants, unit=" policies", desc="evaluating", leave=False) as bar:
        for policy, env in bar:
            bar.set_postfix(policy=policy.name)
            scores.append(
                evaluate(policy, env, episodes=demo.test_episodes, seed=demo.seed + 1000)
            )
    for score in scores:
        say(str(score))
    return scores


def _named(policy: Any, name: str) -> Any:
    policy.name = name
    return policy


def conclusions(scores: Sequence[Evaluation]) -> list[str]:
    """What the table shows, and where it does not."""
    by_name = {score.policy: score for score in scores}
    lines = []
    for learnt, baseline in (("DiscreteCQL", "behaviour (data)"), ("MaskablePPO", "keyword")):
        above = by_name[learnt].success_interval[0] > by_name[baseline].success_interval[1]
        lines.append(
            f"{learnt} {by_name[learnt].success:.3f} against {baseline} "
            f"{by_name[baseline].success:.3f}: the intervals "
            + ("do not overlap." if above else "overlap; this run shows no clear gain.")
        )
    return lines


def main() -> int:
    """Run the road; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=Path, default=SAMPLE, help="JSONL, .gz and .zst too")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="where results go")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=3000, help="of the dataset")
    parser.add_argument("--cql-steps", type=int, default=4_000)
    parser.add_argument("--ppo-steps", type=int, default=800_000)
    parser.add_argument("--test-episodes", type=int, default=500)
    options = parser.parse_args()
    demo = Demo(**vars(options))
    demo.out.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str((demo.out / "minari").resolve())
    started = time.monotonic()
    try:
        run(demo)
    except ConvGymError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    say(f"\nreport: {demo.out / 'report.html'}   ({time.monotonic() - started:.0f} s)")
    return 0


def run(demo: Demo) -> None:
    """The six steps and the page."""
    import torch

    torch.set_num_threads(1)
    say(f"ConvGym {convgym.__version__}: from logs to a policy")
    read_logs(demo)
    talk(demo)
    dataset = make_dataset(demo)
    learnt = [_named(learn_offline(demo, dataset), "DiscreteCQL"), learn_online(demo)]
    scores = compare(demo, learnt)
    found = conclusions(scores)
    for line in found:
        say(line)
    levels = {s.policy: s.success for s in scores if s.policy in ("keyword", "behaviour (data)")}
    demo.sections += [
        Section(
            "Scores on test tasks",
            table_html(SCORE_HEADER, score_rows(scores))
            + "".join(paragraph(line) for line in found)
            + scores_svg(scores),
        ),
        Section(
            "Learning curves",
            curves_svg(demo.curves, levels, f"success on {VALIDATION} validation tasks", VALIDATION)
            + paragraph(
                "Offline training never plays; its curve is drawn by evaluating beside it. "
                f"Commands: make demo, seed {demo.seed}.",
                note=True,
            ),
        ),
    ]
    write_report(demo.out / "report.html", "ConvGym: from logs to a policy", demo.sections)


if __name__ == "__main__":
    sys.exit(main())
