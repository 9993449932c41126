"""For a team with logs: from recorded conversations to a policy, and to a customer to try it on.

    python scripts/tutorials/team_with_logs.py [--logs my.jsonl.gz] [--out team] [--smallest]

    1 read        bad lines are named by number, nothing is lost silently
    2 judge       what is in the logs, and which learner fits them
    3 acts        what the agent can do, found in what it said; a Minari dataset
    4 learn       CQL, IQL, and a clone of the people who answered
    5 estimate    what each would earn, from the logs alone, and where that cannot be told
    6 keep        the policy as a folder, asked again in code
    7 calibrate   a simulated customer fitted to yours, and a page about how far off it is

Read it from top to bottom. Without --logs the project's own simulator makes some: a support desk
staffed by agents of mixed skill. A line of a log is one conversation:

    {"conversation_id": "a", "turns": [{"role": "user", "content": "hi"}, …], "reward": 1.0}

Needs `convgym[offline,calibration,report]`. Everything is written below --out. As it stands, with
2,000 conversations of the simulator, it prints (108 CPU-seconds):

    the people earned    .373 a conversation, 600 held out
    the clone            at least .361, 600 effective conversations
    CQL, IQL, greedy     refused: none of the 600 conversations is one that they could have had
    the fitted user      gap 1.58, where real beside real has 1.57 and a script 609
    verdict of the page  red: over whole conversations a classifier still tells the two apart
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from convgym.calibration.calibration import Calibration, calibrate
from convgym.calibration.gap import compute_sim_real_gap
from convgym.calibration.polish import simulated
from convgym.conversation import Conversation
from convgym.data.agent_acts import fit_agent_acts
from convgym.data.log_datasets import import_log
from convgym.data.log_episodes import LogEpisodes
from convgym.data.logs import read_log, write_log
from convgym.data.quality import quality_report
from convgym.data.splits import split_indices
from convgym.data.transitions import EpisodeArrays, read_episodes
from convgym.errors import ConvGymError
from convgym.evaluation.ope.logged import LoggedPolicyData
from convgym.evaluation.ope.off_policy import OffPolicyConfig
from convgym.evaluation.ope.off_policy_report import OffPolicyReport
from convgym.evaluation.ope.page import write_off_policy_report
from convgym.evaluation.ope.selection import evaluate_policies
from convgym.language.encoders import HashedEncoder
from convgym.policies.scripted import KeywordPolicy, PlannerPolicy, SlotFillingPolicy
from convgym.simulator import ConversationSimulator, SimulatorConfig


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is done; the smallest is for a test, and learns nothing to speak of."""

    conversations: int = 2_000
    """That the simulator makes, where no logs are given."""
    acts: int = 16
    """Kinds of replies that are told apart."""
    dim: int = 256
    """Numbers that stand for a message."""
    steps: int = 2_000
    """Updates of each learner."""
    page: bool = True
    """Whether the gap is measured in full, with classifiers, and drawn."""


SMALLEST = Size(conversations=150, acts=6, dim=64, steps=40, page=False)
DATASET = "team/desk-v0"
HELD_OUT = 0.3
STEP, LIKELY = 0.1, 0.2
"""How often a learner decides, and among acts at least so likely as the likeliest."""


def our_logs(size: Size, path: Path) -> None:
    """Logs as a desk would have them, for those who have brought none.

    Three sorts of agents, none of them perfect: only where people have answered differently can
    anybody learn which answer was better.
    """
    simulator = ConversationSimulator(SimulatorConfig(difficulty=0.3, reward="graded"))
    staff = [KeywordPolicy(noise=0.1), SlotFillingPolicy(noise=0.15), PlannerPolicy(noise=0.15)]

    def talks() -> Iterator[Conversation]:
        for number in range(size.conversations):
            agent = staff[number % len(staff)]
            talk = simulator.generate_conversation(agent=agent, seed=number)
            # What a log of the world does not have, nobody shall learn from here: no policy
            # document, no reward for each turn, no labels. The outcome is all there is.
            said = [m for m in talk.messages if m.role != "system"]
            plain = tuple(replace(message, reward=None, acts=()) for message in said)
            yield replace(talk, messages=plain, metadata={"agent": agent.name})

    write_log(path, talks())


def read_and_judge(logs: Path) -> list[Conversation]:
    """1, 2. A line that cannot be read costs itself, and is named; the rest is there."""
    print(f"\n== 1, 2 {logs}")
    reader = read_log(logs)
    talks = list(reader)
    print(reader.report)
    for fault in reader.report.faults[:5]:
        print(f"  {fault}")
    # The report speaks of returns, of duplicates, of who leaks from one split into another, and
    # says which learner such data are for.
    print(quality_report(talks).to_markdown())
    return talks


def held_out_ids(talks: Sequence[Conversation]) -> frozenset[str]:
    """Whom nobody learns from.

    Conversations that begin alike stay on one side: a retried ticket in both would be a test that
    one has read before.
    """
    _, held = split_indices(talks, (1 - HELD_OUT, HELD_OUT), 0)
    return frozenset(talks[index].conversation_id for index in held)


@dataclass(frozen=True)
class Data:
    """Episodes to learn from and to estimate on, and how they were made."""

    made: LogEpisodes
    training: list[EpisodeArrays]
    held_out: list[EpisodeArrays]

    @property
    def names(self) -> tuple[str, ...]:
        """What the acts are called."""
        assert self.made.acts is not None, "features have acts"
        return self.made.acts.names


def acts_and_dataset(
    talks: Sequence[Conversation], held: frozenset[str], logs: Path, size: Size
) -> Data:
    """3. A policy that learns from logs chooses what to do next; somebody else words it.

    So replies become acts: by their labels where the log has them, by a tagger, or, as here, by
    clusters of what was said. The acts are learnt from the training part alone. An observation is
    the newest messages as numbers; the dataset is Minari's, for any library that reads those.
    """
    encoder = HashedEncoder(size.dim)
    training = [talk for talk in talks if talk.conversation_id not in held]
    acts = fit_agent_acts(training, encoder, most=size.acts, seed=0)
    imported = import_log(DATASET, logs, acts=acts, encoder=encoder, overwrite=True)
    dataset = imported.dataset
    print(f"\n== 3 {dataset.id}: {dataset.total_episodes:,} episodes of {dataset.total_steps:,} "
          f"agent turns, {len(acts.names)} acts")  # fmt: skip
    for reason, count in imported.skipped.items():
        print(f"  left out: {count:,} because {reason}")
    parts: tuple[list[EpisodeArrays], list[EpisodeArrays]] = [], []
    notes = dataset.storage.get_episode_metadata(dataset.episode_indices)
    for about, episode in zip(notes, read_episodes(dataset), strict=True):
        parts[about["options"]["conversation_id"] in held].append(episode)
    return Data(LogEpisodes.load(dataset.storage.data_path), *parts)


def learn(data: Data, size: Size) -> dict[str, Any]:
    """4. Two learners that keep near to what was done, and a clone that does nothing else.

    All that is known of an act is what came of it when somebody chose it. A learner that trusts
    its guesses about the rest is lost (plain Q-learning earns .00 on ConvGym's own data); CQL
    pushes such guesses down, IQL never asks for them. The clone is the yardstick: who is not
    better has learnt nothing that the people did not know.
    """
    from trainers.offline.config import Shapes
    from trainers.offline.tuned import tuned

    print(f"\n== 4 {size.steps:,} updates each")
    shapes = Shapes(data.training[0].observations.shape[-1], len(data.names), discrete=True)
    learnt = {}
    for name, options in {"cql": {}, "iql": {}, "bc": {"temperature": 1.0}}.items():
        learner = tuned(name, seed=0, **options).create()
        learnt[name] = learner.fit(data.training, size.steps, shapes=shapes)
        newest = {k: round(v, 3) for k, v in learner.history[-1].items() if k != "step"}
        print(f"  {name}: {newest}", flush=True)
    return learnt


def estimate(learnt: dict[str, Any], data: Data, out: Path) -> list[OffPolicyReport]:
    """5. What each would earn, asked of conversations that none has learnt from.

    Weights say how much likelier a policy was to act as was acted. Who acted here wrote down no
    probabilities, so the clone's stand in for them. Where a policy would have gone other ways, no
    conversation tells how that would have ended: such estimates are refused, not guessed. So a
    step is asked about, too: as before nine times of ten, else the learner's choice among what
    the people might well have done.
    """
    def odds(name: str) -> Any:
        policy = learnt[name]
        return lambda rows, masks: policy.action_probs(rows, np.ones((len(rows), len(data.names))))

    def step(name: str) -> Any:
        def probabilities(rows: Any, masks: Any) -> Any:
            usual = odds("bc")(rows, masks)
            usable = usual >= LIKELY * usual.max(axis=1, keepdims=True)
            best = np.where(usable, learnt[name].scores(rows), -np.inf).argmax(axis=1)
            return STEP * np.eye(len(data.names))[best] + (1 - STEP) * usual

        return probabilities

    rows = np.concatenate([episode.observations for episode in data.held_out])
    behavior = odds("bc")(rows, None)
    logged = LoggedPolicyData.build(data.held_out, odds("bc"), behavior=behavior)
    policies = {"the clone": odds("bc")}
    for name in ("cql", "iql"):
        policies |= {f"a step to {name}": step(name), name: odds(name)}
    reports = evaluate_policies(logged, policies, OffPolicyConfig(resamples=500))
    print(f"\n== 5 the people earned {logged.returns.mean():.3f} a conversation")
    for report in reports:
        print(f"  {report.headline}")
    write_off_policy_report(reports, out / "worth.html")
    return reports


def keep(learnt: dict[str, Any], data: Data, out: Path, talks: Sequence[Conversation]) -> None:
    """6. What goes into production: how a history is read, and what is done then."""
    from trainers.offline.discrete_policy import DiscretePolicy

    folder = out / "policy"
    folder.mkdir(parents=True, exist_ok=True)
    data.made.save(folder)
    learnt["cql"].save(folder / "policy.zip")

    # Elsewhere, on another day: plain files, no pickle, and numpy alone.
    read, policy = LogEpisodes.load(folder), DiscretePolicy.load(folder / "policy.zip")
    asked = next(talk for talk in talks if talk.messages[0].role == "user")
    begun = replace(asked, messages=asked.messages[:1])
    scores = policy.scores(read.observe(begun))
    print(f"\n== 6 in {folder}; to {begun.messages[0].content[:60]!r} it would")
    for act in np.argsort(-scores)[:3]:
        print(f"  {scores[act]:+.3f}  {data.names[act][:70]}")


def our_customers(
    talks: Sequence[Conversation], held: frozenset[str], size: Size, out: Path
) -> Calibration:
    """7. Estimates end where the logs do; a customer to talk to goes on.

    `calibrate` counts what users do, with intervals, and holds out conversations of its own to say
    how far the fitted user is from them. The gap is told in multiples of the noise floor, which is
    the gap of real conversations to other real ones: 1 is as good as real.
    """
    found = calibrate(talks, seed=0)
    user = out / "user.npz"
    found.save(user)
    print(f"\n== 7 gap {found.gap_after:.3f}, of a script {found.gap_before:.3f}, floor "
          f"{found.floor:.3f}; {found.method}")  # fmt: skip
    real = [talk for talk in talks if talk.conversation_id in set(found.held_out)]
    gap = compute_sim_real_gap(
        real, simulated(found.simulator(), real, 0), level="full" if size.page else "quick"
    )
    print(gap.headline)
    if size.page:
        from convgym.calibration.report_html import write_gap_report

        write_gap_report(gap, out / "gap.html")

    # That customer stands in for the simulator's own, in every environment: one that talks about
    # what your customers talked about, or a desk with tools and rules.
    for name in ("ConvGym/Recorded-v0", "ConvGym/CustomerService-v0"):
        observation, _ = gym.make(name, user=str(user), observation="message").reset(seed=1)
        print(f"  {name}: {str(observation)[:70]!r}")
    return found


def lesson(logs: Path | None, out: Path, size: Size) -> None:
    """From the first line to the last."""
    out.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str((out / "minari").resolve())
    if logs is None:
        logs = out / "logs.jsonl"
        our_logs(size, logs)
    talks = read_and_judge(logs)
    held = held_out_ids(talks)
    data = acts_and_dataset(talks, held, logs, size)
    learnt = learn(data, size)
    estimate(learnt, data, out)
    keep(learnt, data, out, talks)
    our_customers(talks, held, size, out)
    print(f"\nall of it is in {out}: worth.html, policy, user.npz"
          + (", gap.html" if size.page else ""))  # fmt: skip


def main(given: list[str] | None = None) -> int:
    """The lesson; a sentence and 1 where the logs do not allow it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=Path, help=".jsonl, .jsonl.gz or .jsonl.zst")
    parser.add_argument("--out", type=Path, default=Path("team"), help="a folder")
    parser.add_argument("--smallest", action="store_true", help="seconds, and nothing learnt")
    asked = parser.parse_args(given)
    import torch

    torch.set_num_threads(1)
    try:
        lesson(asked.logs, asked.out, SMALLEST if asked.smallest else Size())
    except ConvGymError as error:
        print(f"team_with_logs: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
