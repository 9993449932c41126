"""Copies a log and spoils some of its lines, each in one way, to see whether a reader finds them.

    python scripts/inject_faults.py log.jsonl.gz spoiled.jsonl.gz --faults 200 --seed 0

Every spoiled line is one bad line, the number of lines stays, and nothing else is changed. Which
lines and how is written beside the copy, as `spoiled.jsonl.gz.faults.json`. The log must be good;
its first line is kept, for others to repeat its id. Same seed, same bytes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from convgym.data.packed_files import check_readable, read_blocks, whole_file
from convgym.errors import ConvGymError, InvalidConfiguration

DEPTH = 100_000
"""Brackets; Python's JSON reader gives up after a few thousand at most."""
MONOLOGUE = [{"role": "assistant", "content": text} for text in ("Hello?", "Hello?")]


def with_fields(line: bytes, **fields: Any) -> bytes:
    """The line with other fields."""
    return json.dumps(json.loads(line) | fields).encode()


def with_turn(line: bytes, **fields: Any) -> bytes:
    """The line with other fields in its first turn."""
    turns = json.loads(line)["turns"]
    return with_fields(line, turns=[turns[0] | fields, *turns[1:]])


def without(line: bytes, field: str) -> bytes:
    """The line without one field."""
    record = json.loads(line)
    del record[field]
    return json.dumps(record).encode()


KINDS: dict[str, Callable[[bytes, str], bytes]] = {
    "broken JSON": lambda line, other: line.rstrip()[:-1],
    "missing field": lambda line, other: without(line, "turns"),
    "wrong type": lambda line, other: with_turn(line, content=7),
    "duplicate id": lambda line, other: with_fields(line, conversation_id=other),
    "non-finite reward": lambda line, other: with_fields(line, reward=math.nan),
    "invalid UTF-8": lambda line, other: line[:-1] + b"\xff" + line[-1:],
    "empty line": lambda line, other: b"",
    "unknown role": lambda line, other: with_turn(line, role="narrator"),
    "half a surrogate pair": lambda line, other: with_turn(line, content="\ud83d"),
    "deep nesting": lambda line, other: b'{"turns":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
    "no turns": lambda line, other: with_fields(line, turns=[]),
    "no user turn": lambda line, other: with_fields(line, turns=MONOLOGUE),
}


def inject(source: Path, target: Path, faults: int, seed: int) -> list[tuple[int, str]]:
    """Writes the spoiled copy; (line counted from 1, kind) of each fault, in order.

    The kinds are as frequent as each other, as nearly as `faults` allows. Raises
    InvalidConfiguration where the log has not more lines than that.
    """
    check_readable(source)
    content = b"".join(read_blocks(source))
    lines = content.removesuffix(b"\n").split(b"\n")
    if not 0 <= faults < len(lines):
        raise InvalidConfiguration(
            f"{source} has {len(lines)} lines and {faults} faults are asked for; ask for fewer "
            f"than it has lines."
        )
    chance = np.random.default_rng(seed)
    places = np.sort(1 + chance.permutation(len(lines) - 1)[:faults])
    kinds = chance.permutation(np.resize(list(KINDS), faults))
    injected = list(zip(places.tolist(), kinds.tolist(), strict=True))
    first_id = json.loads(lines[0])["conversation_id"]
    for place, kind in injected:
        lines[place] = KINDS[kind](lines[place], first_id)
    with whole_file(target) as file:
        file.write(b"\n".join(lines) + b"\n")
    return [(place + 1, kind) for place, kind in injected]


def main(arguments: list[str] | None = None) -> int:
    """Read the arguments, spoil, write the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        injected = inject(options.source, options.target, options.faults, options.seed)
    except ConvGymError as error:
        print(error, file=sys.stderr)
        return 2
    told = [{"line": line, "kind": kind} for line, kind in injected]
    with whole_file(f"{options.target}.faults.json") as file:
        file.write(json.dumps(told, indent=1).encode())
    print(f"{len(injected)} faults of {len(KINDS)} kinds in {options.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
