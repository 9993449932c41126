"""The gap of a calibrated user, and of what it is compared with, on a corpus: train → dev.

    python scripts/calibration_gap.py DATA/multidogo --logs 1000
    python scripts/calibration_gap.py DATA/multiwoz --logs 999

rows   real half    other real conversations of the held-out part: the floor of every test
       calibrated   counted from the logs; where agents speak, it answers their recorded turns
       reworded     the held-out acts in other words: gold acts, teacher-forced
       shuffled     real turns in no order
       template     the calibrated acts, one phrase for each signature
       scripted     one script for everybody

`*_new` is a test once more without the user turns that stand verbatim in the logs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from convgym.calibration.baselines import scripted, shuffled, template
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.signatures import speaks
from convgym.calibration.tallies import Tallies
from convgym.calibration.turns import UserTurns, plain
from convgym.calibration.two_sample import LEVELS, classifier_two_sample_test
from convgym.conversation import Conversation
from convgym.data.logs import read_log
from convgym.language.encoders import HashedEncoder

Talks = list[Conversation]
COUNTED = ("length_js", "turn_js", "act_js", "act_bigram_js", "word_js", "mmd")


def counted(real: Sequence[Conversation], sim: Sequence[Conversation]) -> dict[str, float]:
    """The measures that need no classifier."""
    turns = UserTurns.of([*real, *sim])
    tallies = Tallies(turns, HashedEncoder().encode(turns.texts))
    side = np.arange(len(real) + len(sim)) < len(real)
    found = tallies.measure(side.astype(float), (~side).astype(float))
    return {name: found[name] for name in COUNTED if name in found}


def classified(real: Talks, sim: Talks, training: set[str]) -> dict[str, float]:
    """AUC of each classifier, and once more without verbatim turns where turns are examples."""
    found = {}
    for level in LEVELS:
        result = classifier_two_sample_test(real, sim, level)
        if result is not None:
            found[f"c2st_{level}"] = result.auc
        if level != "conversation":
            new = [[without(c, training) for c in side] for side in (real, sim)]
            result = classifier_two_sample_test(new[0], new[1], level)
            if result is not None:
                found[f"c2st_{level}_new"] = result.auc
    return found


def without(conversation: Conversation, training: set[str]) -> Conversation:
    """The conversation without the user turns that stand in the logs."""
    kept = tuple(
        m for m in conversation.messages if not (speaks(m) and plain(m.content) in training)
    )
    return replace(conversation, messages=kept)


def verbatim_share(sim: Talks, training: set[str]) -> float:
    """Share of user turns that stand in the logs."""
    said = [plain(m.content) for c in sim for m in c.messages if speaks(m)]
    return float(np.mean([text in training for text in said]))


def floors(real: Talks, n: int, splits: int) -> dict[str, float]:
    """95th percentile of each counted measure between random halves of n real conversations."""
    turns = UserTurns.of(real)
    tallies = Tallies(turns, HashedEncoder().encode(turns.texts))
    chance, found = np.random.default_rng(0), []
    for _ in range(splits):
        order = chance.permutation(len(real))
        sides = [np.isin(np.arange(len(real)), order[part]) for part in (slice(n), slice(n, 2 * n))]
        found.append(tallies.measure(*(side.astype(float) for side in sides)))
    names = [name for name in COUNTED if name in found[0]]
    return {name: float(np.quantile([f[name] for f in found], 0.95)) for name in names}


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
    n = len(held_out)
    spare = dev[n : 2 * n] if len(dev) >= 2 * n else dev[n // 2 :]
    agents = held_out if any(any(c.said_by("assistant")) for c in held_out) else None
    training = {plain(m.content) for c in logs for m in c.messages if speaks(m)}

    start = time.process_time()
    simulator = LogSimulator.of(logs)
    print(f"{len(logs)} logs counted in {time.process_time() - start:.2f} CPU-s")
    start = time.process_time()
    calibrated = simulator.generate(n, arguments.seed + 1, agents)
    spent = time.process_time() - start
    turns = sum(speaks(m) for c in calibrated for m in c.messages)
    print(f"{turns} user turns in {spent:.2f} CPU-s: {turns / spent:,.0f} a second")

    half = min(n, len(dev) // 2)
    for name, p95 in floors(dev, half, 20).items():
        print(f"floor of {name}: p95 {p95:.5f} at {half} conversations a side")
    compared = {
        "real half": (held_out[: n // 2] if len(dev) < 2 * n else held_out, spare),
        "calibrated": (held_out, calibrated),
        "reworded": (held_out, simulator.reword(held_out, arguments.seed + 1)),
        "shuffled": (held_out, shuffled(logs, n, arguments.seed)),
        "template": (held_out, template(logs, calibrated)),
        "scripted": (held_out, scripted(logs, n, agents)),
    }
    for name, (real, sim) in compared.items():
        measured = counted(real, sim) | classified(real, sim, training)
        measured["verbatim"] = verbatim_share(sim, training)
        shown = (f"{what} {value:.5f}" for what, value in measured.items())
        print(f"{name:11s}", *shown, flush=True)


if __name__ == "__main__":
    main()
