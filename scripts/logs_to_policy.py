"""From a log with rewards to a policy that chooses the agent's next act, in minutes on one core.

    python scripts/logs_to_policy.py logs.jsonl --out policy [--reward auto] [--acts 16]
                                     [--tagger FILE] [--dataset logs/mine-v0] [--overwrite]
    python scripts/logs_to_policy.py --load policy --history conversation.jsonl

    log ─► acts of the agent ─► Minari dataset ─► CQL, and a clone beside it ─► policy folder
            (training part)      (all episodes)    (training part)               │ a fresh process
    numbers on the held-out part ◄───────────────────────────────────────────────┘

One conversation of five is held out, with all that begin with the same words of the user. What is
printed of it says how well the policies know what the agent did, not how well they would do: for
that see off-policy evaluation. For learning, rewards are divided by the standard deviation of the
returns. FILE is a tagger that `convgym.language.act_tagger.ActTagger` has saved.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from convgym.conversation import Conversation
from convgym.data.agent_acts import fit_agent_acts
from convgym.data.log_datasets import LogImport, import_log
from convgym.data.log_episodes import LogEpisodes, LogForm
from convgym.data.logs import read_log, write_log
from convgym.data.quality import quality_report
from convgym.data.splits import split_indices
from convgym.data.transitions import EpisodeArrays, read_episodes
from convgym.errors import ConvGymError, DatasetError
from convgym.language.act_tagger import ActTagger
from convgym.language.encoders import HashedEncoder
from trainers.offline.discrete_policy import DiscretePolicy

FEWEST = 20
"""Conversations below which nothing is learnt, in training; a fifth of it held out."""
HELD_OUT = 0.2
BATCH, FEWEST_STEPS = 128, 500
CLONE_SOONER = 5
"""A clone is learnt in a fifth of the steps; more, and it is too sure of what it has seen."""


def held_out(log: Path) -> frozenset[str]:
    """The ids of the conversations that are kept from learning.

    One that is told twice, or is the beginning of another but for its last message, is on one side
    with that other (`convgym.data.splits`); so are those with one `first_user` in their metadata.
    """
    talks = list(read_log(log))
    begun = [replace(talk, messages=talk.messages[: max(2, len(talk) - 1)]) for talk in talks]
    _, held = split_indices(begun, (1 - HELD_OUT, HELD_OUT), 0, "first_user")
    return frozenset(talks[index].conversation_id for index in held)


def import_whole(options: argparse.Namespace, held: frozenset[str]) -> LogImport:
    """The dataset of all conversations, with the acts of those that are not held out."""
    log = read_log(options.log)
    tagger = ActTagger.load(options.tagger) if options.tagger else None
    encoder = HashedEncoder(options.dim)
    training = (talk for talk in log if talk.conversation_id not in held)
    acts = fit_agent_acts(training, encoder, most=options.acts, tagger=tagger, seed=options.seed)
    form = LogForm(reward=options.reward, messages=options.messages)
    return import_log(
        options.dataset,
        options.log,
        form,
        acts=acts,
        encoder=encoder,
        overwrite=options.overwrite,
        description=f"Conversations of {options.log.name}.",
    )


def parted(
    imported: LogImport, held: frozenset[str]
) -> tuple[list[EpisodeArrays], list[EpisodeArrays]]:
    """Episodes to learn from, and those held out, both with returns of spread 1.

    Raises DatasetError where there are too few, or where all returns are equal.
    """
    dataset = imported.dataset
    notes = dataset.storage.get_episode_metadata(dataset.episode_indices)
    kept: tuple[list[EpisodeArrays], list[EpisodeArrays]] = [], []
    for about, episode in zip(notes, read_episodes(dataset), strict=True):
        kept[about["options"]["conversation_id"] in held].append(episode)
    if len(kept[0]) < FEWEST or len(kept[1]) < HELD_OUT * FEWEST:
        raise DatasetError(
            f"{len(kept[0])} conversations to learn from and {len(kept[1])} held out are too few; "
            f"it takes {FEWEST} and {HELD_OUT * FEWEST:.0f} with a reward and an agent turn"
        )
    returns = [episode.rewards.sum() for episode in kept[0]]
    spread = float(np.std(returns))
    if max(returns) == min(returns):
        raise DatasetError(
            f"all {len(returns)} returns are {returns[0]:g}, so no act is better than another; "
            "take a reward that differs between conversations"
        )
    for part in kept:
        part[:] = [replace(episode, rewards=episode.rewards / spread) for episode in part]
    return kept


def learn(
    episodes: list[EpisodeArrays], acts: int, options: argparse.Namespace
) -> tuple[DiscretePolicy, DiscretePolicy]:
    """Conservative Q-learning, and a clone of the behaviour."""
    from trainers.offline.d3rlpy_adapter import train_discrete_bc, train_discrete_cql

    turns = sum(map(len, episodes))
    steps = max(FEWEST_STEPS, options.passes * turns // BATCH)
    shared: dict[str, Any] = {"action_size": acts, "batch_size": BATCH, "seed": options.seed}
    policy, _ = train_discrete_cql(
        episodes, n_steps=steps, alpha=options.alpha, hidden=(128, 128), **shared
    )
    clone, _ = train_discrete_bc(episodes, n_steps=steps // CLONE_SOONER, **shared)
    return policy, clone


def numbers(
    policies: dict[str, DiscretePolicy],
    training: list[EpisodeArrays],
    held: list[EpisodeArrays],
    acts: int,
) -> dict[str, Any]:
    """What the policies would say at each held-out turn, beside what was said.

    `log_likelihood` is nats a turn of the clone, sampling; `commonest` and `shares` need no
    learning.
    """
    rows = np.concatenate([episode.observations[:-1] for episode in held])
    truth = np.concatenate([episode.actions for episode in held])
    counts = np.bincount(np.concatenate([e.actions for e in training]), minlength=acts) + 1.0
    share = np.bincount(truth, minlength=acts) / len(truth)
    found: dict[str, Any] = {
        "turns": len(truth),
        "agreement": {"commonest": float((truth == counts.argmax()).mean())},
        "shares": {"logged": share.tolist()},
    }
    for name, policy in policies.items():
        chosen = policy.scores(rows).argmax(axis=1)
        found["agreement"][name] = float((chosen == truth).mean())
        found["shares"][name] = (np.bincount(chosen, minlength=acts) / len(chosen)).tolist()
    scores = policies["BC"].scores(rows)
    scores -= scores.max(axis=1, keepdims=True)
    log_probs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    found["log_likelihood"] = {
        "BC": float(log_probs[np.arange(len(truth)), truth].mean()),
        "shares": float(np.log(counts / counts.sum())[truth].mean()),
    }
    return found


def answer(folder: Path, history: Conversation) -> dict[str, Any]:
    """What a saved policy does after a history: its act, and the best five with their values."""
    episodes, policy = LogEpisodes.load(folder), DiscretePolicy.load(folder / "policy.zip")
    assert episodes.acts is not None, "policies are learnt from features"
    scores = policy.scores(episodes.observe(history))
    best = [int(act) for act in np.argsort(-scores, kind="stable")[:5]]
    names = episodes.acts.names
    return {"act": names[best[0]], "values": {names[act]: float(scores[act]) for act in best}}


def last_question(talks: Iterable[Conversation]) -> Conversation | None:
    """The first talk in which the agent answers a user, up to its last such answer; or None."""
    for talk in talks:
        roles = [message.role for message in talk.messages]
        places = [n for n, role in enumerate(roles) if role == "assistant" and "user" in roles[:n]]
        if places:
            return replace(talk, messages=talk.messages[: places[-1]])
    return None


def act_in_a_fresh_process(folder: Path, talk: Conversation) -> dict[str, Any]:
    """The saved policy's answer to what was said."""
    with tempfile.TemporaryDirectory() as aside:
        history = Path(aside) / "history.jsonl"
        write_log(history, [talk])
        command = [sys.executable, __file__, "--load", str(folder), "--history", str(history)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise DatasetError(f"the saved policy could not be loaded again: {done.stderr.strip()}")
    newest = talk.messages[-1].content[:70]
    print(f"\nafter {talk.conversation_id}, {len(talk)} messages; newest: {newest!r}")
    answered: dict[str, Any] = json.loads(done.stdout)
    return answered


def show(found: dict[str, Any], names: tuple[str, ...]) -> None:
    """Print the held-out numbers."""
    print(f"\nheld out, {found['turns']:,} agent turns")
    agreed = ", ".join(f"{name} {value:.3f}" for name, value in found["agreement"].items())
    likely = ", ".join(f"{name} {value:.3f}" for name, value in found["log_likelihood"].items())
    print(f"  acts as logged       {agreed}\n  log-likelihood/turn  {likely} nats")
    print(f"  {'share of acts':<40}" + "".join(f"{name:>8}" for name in found["shares"]))
    columns = np.array(list(found["shares"].values()))  # (policies, acts)
    for act in np.argsort(-columns[0], kind="stable"):
        print(f"  {names[act][:40]:<40}" + "".join(f"{share:>8.3f}" for share in columns[:, act]))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, from the log to the policy's answer."""
    began = time.perf_counter()
    print(quality_report(read_log(options.log)).to_markdown())
    held_ids = held_out(options.log)
    imported = import_whole(options, held_ids)
    part, dataset = imported.part, imported.dataset
    print(f"\n{dataset.id}: {part['episodes']:,} episodes, {part['steps']:,} agent turns")
    for reason, count in imported.skipped.items():
        print(f"  left out: {count:,} because {reason}")
    episodes = LogEpisodes.load(dataset.storage.data_path)
    assert episodes.acts is not None, "features have acts"
    names = episodes.acts.names
    training, held = parted(imported, held_ids)
    policy, clone = learn(training, len(names), options)
    options.out.mkdir(parents=True, exist_ok=True)
    episodes.save(options.out)
    policy.save(options.out / "policy.zip")
    clone.save(options.out / "clone.zip")
    found = numbers({"CQL": policy, "BC": clone}, training, held, len(names))
    show(found, names)
    asked = last_question(t for t in read_log(options.log) if t.conversation_id in held_ids)
    answered = None if asked is None else act_in_a_fresh_process(options.out, asked)
    if answered is not None:
        print(f"the policy in {options.out} says: {answered['act']}")
    print(f"{time.perf_counter() - began:.0f} s")
    report = {"dataset": dataset.id, "acts": names, "held_out": found, "answer": answered}
    (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return report


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", nargs="?", type=Path, help=".jsonl, .jsonl.gz or .jsonl.zst")
    parser.add_argument("--out", type=Path, default=Path("policy"), help="folder of the policy")
    parser.add_argument("--reward", default="auto", help="auto, turns, conversation, metadata.NAME")
    parser.add_argument("--acts", type=int, default=16, help="labels, or clusters of replies")
    parser.add_argument("--tagger", type=Path, help="a saved ActTagger that knows the acts")
    parser.add_argument("--dataset", help="its Minari id; logs/<name of --out>-v0 unless told")
    parser.add_argument("--overwrite", action="store_true", help="replace that dataset")
    parser.add_argument("--messages", type=int, default=2, help="newest messages that are seen")
    parser.add_argument("--dim", type=int, default=256, help="numbers of a message")
    parser.add_argument("--passes", type=int, default=30, help="over the data that CQL makes")
    parser.add_argument("--alpha", type=float, default=0.1, help="how conservative CQL is")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", type=Path, help="a policy folder that answers --history")
    parser.add_argument("--history", type=Path, help="a log whose first conversation is to go on")
    options = parser.parse_args(arguments)
    if (options.log is None) == (options.load is None) or bool(options.load) != bool(
        options.history
    ):
        parser.error("give a log to learn from, or --load and --history")
    if options.log is not None and options.dataset is None:
        name = "".join(c if c.isalnum() else "-" for c in options.out.resolve().name)
        options.dataset = f"logs/{name}-v0"
    return options


def main(arguments: list[str] | None = None) -> int:
    """Learn or answer; a sentence and 1 where the log does not allow it."""
    options = parse(arguments)
    try:
        if options.load is not None:
            history = read_log(options.history)
            talk = next(iter(history), None)
            if talk is None:
                raise DatasetError(f"there is no conversation to go on with; {history.report}")
            print(json.dumps(answer(options.load, talk)))
        else:
            import torch

            torch.set_num_threads(1)
            run(options)
    except ConvGymError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
