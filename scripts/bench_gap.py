"""The gap report on users whose gap is known: real ones, real turns in disorder, a script.

    python scripts/bench_gap.py [--data FOLDER] [--conversations 500] [--null 0]

FOLDER holds the corpora of the tests, as CONVGYM_DATA does. Of each corpus so many conversations
play the simulator, as they are, with the user's turns in disorder, and with one phrase for each
act; up to twice as many others are the real ones. `--null` compares real ones so many times,
quickly, and counts the verdicts of all rows, which should be green. Seconds are the processor's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from convgym.calibration import compute_sim_real_gap
from convgym.conversation import Conversation, Message
from convgym.data.logs import read_log
from convgym.data.quality import action_of

CORPORA = ("multidogo", "multiwoz", "persuasionforgood")
SHOWN = ("length_js", "act_bigram_js", "mmd", "c2st_turn", "c2st_context", "c2st_conversation")


def disordered(conversations: Sequence[Conversation]) -> list[Conversation]:
    """Each of the user's turns at a place drawn from all of them."""
    turns = [m for c in conversations for m in c.said_by("user")]
    drawn = iter(np.random.default_rng(0).permutation(len(turns)))
    return _with_turns(conversations, lambda _: turns[next(drawn)])


def scripted(conversations: Sequence[Conversation]) -> list[Conversation]:
    """One phrase for each act."""
    return _with_turns(
        conversations,
        lambda turn: replace(turn, content=f"I {action_of(turn) or ' '.join(turn.intents)} it"),
    )


def _with_turns(
    conversations: Sequence[Conversation], change: Callable[[Message], Message]
) -> list[Conversation]:
    return [
        replace(c, messages=tuple(change(m) if m.role == "user" else m for m in c.messages))
        for c in conversations
    ]


def main() -> int:
    """Print a row for each corpus and user."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given = os.environ.get("CONVGYM_DATA") or Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=given)
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--null", type=int, default=0)
    options = parser.parse_args()
    print(f"{'corpus':<18} {'user':<11} {'n':>4} {'quick s':>7} {'full s':>7} ", *SHOWN, "verdict")
    for corpus in CORPORA:
        paths = [Path(options.data) / corpus / f"{part}.jsonl.gz" for part in ("train", "dev")]
        if not all(path.exists() for path in paths):
            print(f"{corpus:<18} not in {options.data}; name its folder with --data")
            continue
        logs = [conversation for path in paths for conversation in read_log(path)]
        n = min(options.conversations, len(logs) // 2)
        verdicts: Counter[str] = Counter()
        for seed in range(max(1, options.null)):
            order = np.random.default_rng(seed).permutation(len(logs))[: 3 * n]
            sim, real = [logs[at] for at in order[:n]], [logs[at] for at in order[n:]]
            if options.null:
                rows = compute_sim_real_gap(real, sim, "quick", conversations=n, seed=seed).rows
                verdicts.update(row.verdict for row in rows if row.ratio is not None)
                continue
            for name, user in (
                ("real", sim),
                ("disordered", disordered(sim)),
                ("scripted", scripted(sim)),
            ):
                start = time.process_time()
                compute_sim_real_gap(real, user, "quick", conversations=n)
                quick = time.process_time() - start
                report = compute_sim_real_gap(real, user, conversations=n)
                full = time.process_time() - start - quick
                cells = [
                    f"{report[m]:>{len(m)}.4f}" if m in report else "–".rjust(len(m)) for m in SHOWN
                ]
                print(
                    f"{corpus:<18} {name:<11} {n:>4} {quick:>7.1f} {full:>7.1f} ",
                    *cells,
                    report.verdict,
                    flush=True,
                )
        if options.null:
            told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
            print(f"{corpus:<18} real, {options.null} times at n = {n}: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
