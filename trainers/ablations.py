"""What a part brings: runs without and with it, in pairs that share everything else.

part ─► seed ─► (without, with) ─► a line of the file ─► mean of the paired differences, Student's t
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from convgym.evaluation.ope.intervals import student_t
from trainers.result_lines import ResultLines

Part = Callable[[int], tuple[float, float]]
"""Of a seed what was reached without and with the part."""


def ablated(parts: Mapping[str, Part], seeds: int, path: Path) -> str:
    """Runs what the file at `path` has not, says each as it ends, and gives the table."""
    results = ResultLines(path)
    for seed in range(seeds):
        for name, part in parts.items():
            if results.has(part=name, seed=seed):
                continue
            begun = time.process_time()
            without, with_ = part(seed)
            seconds = round(time.process_time() - begun, 1)
            results.add(part=name, seed=seed, without=without, seconds=seconds, **{"with": with_})
            print(f"{name} {seed}: {without:.2f} -> {with_:.2f}, {seconds} CPU-s", flush=True)
    return table(results.rows, list(parts))


def table(rows: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> str:
    """One line for each part, 95 % intervals of the difference over seeds, paired."""
    lines = ["| part | without | with | difference | seeds |", "|---|---|---|---|---|"]
    for part in parts:
        pairs = [(row["without"], row["with"]) for row in rows if row["part"] == part]
        if not pairs:
            continue
        without, with_ = np.array(pairs).T
        gains = with_ - without
        low, high = student_t(gains) if len(gains) > 1 else (-np.inf, np.inf)
        lines.append(
            f"| {part} | {without.mean():.2f} | {with_.mean():.2f} | {gains.mean():+.2f} "
            f"[{low:+.2f}, {high:+.2f}] | {len(pairs)} |"
        )
    return "\n".join(lines)
