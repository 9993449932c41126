"""Turns that encoders turn into vectors in a CPU-second, beside scikit-learn's hashing.

    python scripts/bench_encoder.py [--log conversations.jsonl.gz] [--dim 256] [--turns 20000]

Each round begins with an encoder that has met no word; the table of the static one was learnt
from the same turns, whose learning is timed by itself. scikit-learn hashes runs of three letters
into sparse rows and projects nothing. The last line is of turns that a cache in a file has met.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sklearn.feature_extraction.text import HashingVectorizer

from convgym.data.embedding_cache import EmbeddingCache
from convgym.data.logs import LogReader
from convgym.data.recipes import recipes_folder
from convgym.language.encoders import HashedEncoder
from convgym.language.static_encoder import StaticEncoder

ROUNDS = 5


def turns_of(log: Path, most: int) -> list[str]:
    """The texts of a log, over and over until there are enough."""
    texts = [message.content for talk in LogReader(log) for message in talk.messages]
    return list(itertools.islice(itertools.cycle(texts), most))


def rate(encode: Callable[[Sequence[str]], object], texts: Sequence[str]) -> float:
    """Texts per CPU-second."""
    start = time.process_time()
    encode(texts)
    return len(texts) / (time.process_time() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sample = recipes_folder() / "samples" / "support_sample.jsonl"
    parser.add_argument("--log", type=Path, default=sample)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--turns", type=int, default=20_000)
    options = parser.parse_args()
    texts = turns_of(options.log, options.turns)
    words = statistics.mean(len(text.split()) for text in texts)
    print(f"{len(texts):,} turns, {len(set(texts)):,} of them different, {words:.0f} words each")

    tables = []
    learning = rate(lambda spoken: tables.append(StaticEncoder.fit(spoken, options.dim)), texts)
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        sparse = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3))
        for name, encode in {
            f"HashedEncoder({options.dim})": HashedEncoder(options.dim).encode,
            f"StaticEncoder({options.dim})": tables[0].encode,
            "HashingVectorizer": sparse.transform,
        }.items():
            rates.setdefault(name, []).append(rate(encode, texts))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, median in medians.items():
        ratio = median / medians["HashingVectorizer"]
        print(f"{name:<20} {median:>9,.0f} turns/CPU-s ({ratio:.2f} x)")
    print(f"StaticEncoder.fit    {learning:>9,.0f} turns/CPU-s")
    with tempfile.TemporaryDirectory() as folder:
        cache = EmbeddingCache(folder, HashedEncoder(options.dim))
        cache.encode(texts)
        hits = statistics.median(rate(cache.encode, texts) for _ in range(ROUNDS))
    print(f"EmbeddingCache, hits {hits:>9,.0f} turns/CPU-s")


if __name__ == "__main__":
    main()
