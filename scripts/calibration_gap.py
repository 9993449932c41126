"""The gap of a calibrated user, and of what it is compared with, on a corpus: train → dev.

    python scripts/calibration_gap.py DATA/multidogo --logs 1000
    python scripts/calibration_gap.py DATA/multiwoz --logs 999

users   calibrated   counted from the logs; where agents speak, it answers their recorded turns
        open loop    the same where nobody hears an agent; only where agents speak
        reworded     the held-out acts in other words: gold acts, teacher-forced
        template     the calibrated acts, one phrase for each signature
        scripted     one script for everybody
        shuffled     real turns in no order

Each number stands beside its ratio: by the 95th percentile of the noise floor, of an AUC what both
have above ½. Floors are those of random halves of the held-out part, carried on to as many
conversations as are compared. `_new` is a test once more without the user turns of both sides that
stand in the logs word for word; `verbatim_share` is the share of those turns. – is a test for which
too few turns are left.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.baselines import scripted, shuffled, template
from convgym.calibration.floors import noise_floors
from convgym.calibration.gap import TURN_LEVELS
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.signatures import speaks
from convgym.calibration.tallies import Tallies
from convgym.calibration.turns import UserTurns, plain
from convgym.calibration.two_sample import (
    LEVELS,
    classifier_two_sample_test,
    examples_of,
    held_out_scores,
)
from convgym.conversation import Conversation
from convgym.data.logs import read_log
from convgym.language.encoders import HashedEncoder

Talks = Sequence[Conversation]
Measures = dict[str, float]
SPLITS, TEST_SPLITS = 50, 10
"""Halvings behind a floor, and behind that of a classifier."""


def measured(real: Talks, sim: Talks, training: set[str]) -> Measures:
    """Every row of the table."""
    turns = UserTurns.of([*real, *sim])
    tallies = Tallies(turns, HashedEncoder().encode(turns.texts))
    is_real = np.arange(len(real) + len(sim)) < len(real)
    found = tallies.measure(is_real.astype(float), (~is_real).astype(float))
    found["verbatim_share"] = verbatim_share(sim, training)
    new = [[without(c, training) for c in side] for side in (real, sim)]
    for level in LEVELS:
        compared = {f"c2st_{level}": (real, sim)}
        if level in TURN_LEVELS:
            compared[f"c2st_{level}_new"] = new[0], new[1]
        for name, sides in compared.items():
            result = classifier_two_sample_test(*sides, level)
            if result is not None:
                found[name] = result.auc
    return found


def without(conversation: Conversation, training: set[str]) -> Conversation:
    """The conversation without the user turns that stand in the logs."""
    kept = tuple(
        m for m in conversation.messages if not (speaks(m) and plain(m.content) in training)
    )
    return replace(conversation, messages=kept)


def verbatim_share(talks: Talks, training: set[str]) -> float:
    """Share of user turns that stand in the logs."""
    said = [plain(m.content) for c in talks for m in c.messages if speaks(m)]
    return float(np.mean([text in training for text in said]))


def floors(real: Talks, n: int) -> Measures:
    """95th percentile of each measure between random halves, at n conversations a side."""
    turns = UserTurns.of(real)
    encoder = HashedEncoder()
    vectors = encoder.encode(turns.texts)
    tallies = Tallies(turns, vectors)
    examples = {level: examples_of(level, turns, vectors, encoder) for level in LEVELS}
    everybody = np.arange(len(real))

    def counted(one: NDArray[np.int64], other: NDArray[np.int64]) -> Measures:
        return tallies.measure(*(np.bincount(side, minlength=len(real)) for side in (one, other)))

    def classified(one: NDArray[np.int64], other: NDArray[np.int64]) -> Measures:
        side = np.full(len(real), -1)
        side[one], side[other] = 0, 1
        found = {level: held_out_scores(of, side, 0) for level, of in examples.items()}
        return {
            f"c2st_{level}": abs(scores.auc(np.ones(len(real))) - 0.5)
            for level, scores in found.items()
            if scores is not None
        }

    found = noise_floors(counted, everybody, n, SPLITS)
    found |= noise_floors(classified, everybody, n, TEST_SPLITS)
    return {name: floor.p95 for name, floor in found.items()}


def show(users: dict[str, Measures], floor: Measures) -> None:
    """A line for each measure: its floor, and of each user the value and its ratio."""
    print(f"{'':20s}{'floor p95':>10s}" + "".join(f"{name:>19s}" for name in users))
    names = dict.fromkeys(name for found in users.values() for name in found)
    for name in names:
        chance = 0.5 if name.startswith("c2st") else 0.0
        p95 = floor.get(name.removesuffix("_new")) if name != "vocab_overlap" else None
        line = f"{name:20s}" + ("" if p95 is None else f"{chance + p95:.4f}").rjust(10)
        for found in users.values():
            value = found.get(name)
            ratio = "" if None in (value, p95) else f"({(value - chance) / p95:.1f})"
            line += f"{'–' if value is None else f'{value:.4f}':>11s}{ratio:>8s}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of a corpus, with train and dev")
    parser.add_argument("--logs", type=int, default=1000, help="conversations to count")
    parser.add_argument("--held-out", type=int, default=500, help="conversations to compare with")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = np.random.default_rng(arguments.seed)
    logs, dev = (
        list(read_log(arguments.folder / f"{part}.jsonl.gz")) for part in ("train", "dev")
    )
    logs, dev = ([talks[i] for i in chance.permutation(len(talks))] for talks in (logs, dev))
    logs, held_out = logs[: arguments.logs], dev[: arguments.held_out]
    n, seed = len(held_out), arguments.seed + 1
    agents = held_out if any(any(c.said_by("assistant")) for c in held_out) else None
    training = {plain(m.content) for c in logs for m in c.messages if speaks(m)}

    start = time.process_time()
    simulator = LogSimulator.of(logs)
    print(f"{len(logs)} logs counted in {time.process_time() - start:.2f} CPU-s")
    start = time.process_time()
    calibrated = simulator.generate(n, seed, agents)
    spent = time.process_time() - start
    turns = sum(speaks(m) for c in calibrated for m in c.messages)
    print(f"{turns} user turns in {spent:.2f} CPU-s: {turns / spent:,.0f} a second")
    known = verbatim_share(held_out, training)
    print(f"{n} conversations a side; of the real turns {known:.3f} stand in the logs\n")

    users = {
        "calibrated": calibrated,
        **({"open loop": simulator.generate(n, seed)} if agents else {}),
        "reworded": simulator.reword(held_out, seed),
        "template": template(logs, calibrated),
        "scripted": scripted(logs, n, agents),
        "shuffled": shuffled(logs, n, arguments.seed),
    }
    show(
        {name: measured(held_out, sim, training) for name, sim in users.items()},
        floors(dev[: 2 * n], n),
    )


if __name__ == "__main__":
    main()
