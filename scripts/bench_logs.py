"""A long log streamed: conversations in a CPU-second, peak memory, the same numbers as in memory.

    python scripts/bench_logs.py [--conversations 1000000] [--stream-only] [--log FILE]

The log is made here, seeded, about six turns a conversation, unless `--log` names one. Each pass
is a process of its own, so that its peak memory is its own: once the stream, which filters, counts
the statistics and writes the kept conversations again; once the data set in memory, of which the
same is asked. The two must agree to the last digit and byte, and the stream must stay below 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from convgym.conversation import Conversation, Message
from convgym.data.conversations import (
    ConversationDataset,
    ConversationDatasetConfig,
    ConversationStream,
)
from convgym.data.logs import write_log
from convgym.data.packed_files import read_blocks

CONFIG = ConversationDatasetConfig(
    quality_threshold=0.05, min_turns=2, normalize_rewards=True, compute_returns=True
)
PASSES = {"stream": ConversationStream, "memory": ConversationDataset}
WORDS = 20_000
"""Different words, drawn by Zipf's law."""
AT_ONCE = 10_000
MOST_MIB = 1024


def generated(count: int, seed: int) -> Iterator[Conversation]:
    """Conversations of 2 to 10 turns, 1 to 19 words each, with rewards and metadata."""
    chance = np.random.default_rng(seed)
    words = np.array([f"{'abcdefghijklmnopqrst'[n % 20]}word{n}" for n in range(WORDS)])
    odds = 1.0 / np.arange(1, WORDS + 1)
    for start in range(0, count, AT_ONCE):
        number = min(AT_ONCE, count - start)
        turns = 2 * chance.integers(1, 6, size=number)
        ends = np.cumsum(chance.integers(1, 20, size=int(turns.sum()))).tolist()
        said = words[chance.choice(WORDS, size=ends[-1], p=odds / odds.sum())].tolist()
        texts = (" ".join(said[a:b]) for a, b in pairwise([0, *ends]))
        rewards = chance.random(number).round(3).tolist()
        for place in range(number):
            messages = tuple(
                Message("assistant" if turn % 2 else "user", next(texts))
                for turn in range(turns[place])
            )
            metadata = {"domain": f"shop {place % 7}", "number": start + place}
            yield Conversation(f"log-{start + place:08}", messages, rewards[place], metadata)


def one_pass(kind: str, log: Path) -> dict[str, Any]:
    """What a user does with a log, with its cost."""
    start = time.process_time()
    conversations = PASSES[kind].from_jsonl(log, CONFIG)
    statistics = conversations.get_statistics()
    counted = time.process_time() - start
    returns = sum(sum(c.metadata["returns_to_go"]) for c in conversations)
    digest = sha256()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "kept.jsonl"
        written = conversations.to_jsonl(kept)
        for block in read_blocks(kept):
            digest.update(block)
    found = {
        "statistics": statistics,
        "report": conversations.report.to_dict(),
        "scale": [conversations.reward_scale.mean, conversations.reward_scale.sd],
        "returns": returns,
        "written": written,
        "sha256": digest.hexdigest(),
    }
    return {
        "found": found,
        "statistics_s": counted,
        "all_s": time.process_time() - start,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def own_process(kind: str, log: Path, *more: str) -> str:
    """What this script prints when it is started once more."""
    command = [sys.executable, __file__, "--pass", kind, "--log", str(log), *more]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measured(kind: str, log: Path) -> dict[str, Any]:
    """`one_pass` in a process of its own, printed."""
    told: dict[str, Any] = json.loads(own_process(kind, log))
    count = told["found"]["report"]["loaded"]
    print(
        f"{kind:<8}{count:>14,}{told['statistics_s']:>14,.1f}{count / told['statistics_s']:>12,.0f}"
        f"{told['all_s']:>10,.1f}{told['peak_mib']:>10,.0f}",
        flush=True,
    )
    return told


def main() -> int:
    """Make, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=1_000_000)
    parser.add_argument("--stream-only", action="store_true", help="leave the memory alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--pass", dest="kind", choices=("make", *PASSES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind == "make":
        write_log(options.log, generated(options.conversations, options.seed))
        return 0
    if options.kind:
        print(json.dumps(one_pass(options.kind, options.log)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        log = options.log or Path(folder) / "log.jsonl"
        if options.log is None:
            # Elsewhere too: a process begins with the peak of the one that started it.
            asked = ["--conversations", str(options.conversations), "--seed", str(options.seed)]
            own_process("make", log, *asked)
        print(f"{log.name}: {log.stat().st_size / 2**20:,.0f} MiB")
        print("          conversations  statistics s  each CPU-s     all s  peak MiB")
        stream = measured("stream", log)
        same = options.stream_only or measured("memory", log)["found"] == stream["found"]
    if not same:
        print("the stream and the data set in memory differ")
    return 0 if same and stream["peak_mib"] <= MOST_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
