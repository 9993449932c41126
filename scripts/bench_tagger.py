"""Act tagging: accuracy, macro-F1 and turns a CPU-second, beside always saying the commonest act.

    python scripts/bench_tagger.py [--data FOLDER] [--acts 8 16]

FOLDER holds the corpora of the tests, as CONVGYM_DATA does: multidogo (the customer's intents) and
multiwoz (the agent's acts), each with train.jsonl.gz and dev.jsonl.gz. The tagger learns from the
first and is measured on the second; the speed is over texts of which no two are the same, hashing
included, on one thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from convgym.data.agent_acts import OTHER, act_label, frequent_labels
from convgym.data.logs import read_log
from convgym.language.act_tagger import ActTagger

CORPORA = {"multidogo": "user", "multiwoz": "assistant"}
TIMED = 200_000
"""Texts that are tagged for the speed; where there are fewer, over and over."""


def labelled(path: Path, role: str) -> tuple[list[str], list[str], list[int]]:
    """Texts of one role, their labels, and their places among that role's turns."""
    rows = [
        (message.content, label, place)
        for talk in read_log(path)
        for place, message in enumerate(talk.said_by(role))
        if (label := act_label(message)) is not None
    ]
    texts, labels, places = (list(column) for column in zip(*rows, strict=True))
    return texts, labels, places


def rate(tagger: ActTagger, texts: list[str]) -> float:
    """Turns a CPU-second over different texts."""
    texts, count, start = list(dict.fromkeys(texts)), 0, time.process_time()
    while count < TIMED:
        tagger.predict(texts)
        count += len(texts)
    return count / (time.process_time() - start)


def main() -> int:
    """Print a row for each corpus and number of acts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given = os.environ.get("CONVGYM_DATA") or Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=given)
    parser.add_argument("--acts", type=int, nargs="*", default=[8, 16])
    options = parser.parse_args()
    heads = "turns of   acts  train    dev  accuracy  macro-F1  commonest  fit s   turns/s"
    print(f"{'corpus':<11} {heads}")
    for corpus, role in CORPORA.items():
        paths = [options.data / corpus / f"{part}.jsonl.gz" for part in ("train", "dev")]
        if not all(path.exists() for path in paths):
            print(f"{corpus:<11} not in {options.data}; name its folder with --data")
            continue
        (texts, labels, places), (new, truth, spots) = (labelled(path, role) for path in paths)
        ActTagger.fit(texts[:99], labels[:99]).predict(texts[:9])  # what is compiled, is now
        for most in options.acts:
            names = frequent_labels(labels, most)
            acts = [label if label in names else OTHER for label in labels]
            start = time.process_time()
            tagger = ActTagger.fit(texts, acts, places, names=names)
            seconds = time.process_time() - start
            expected = [label if label in names else OTHER for label in truth]
            told = tagger.report(new, expected, spots)
            print(
                f"{corpus:<11} {role:<9} {len(names):>5} {len(texts):>6,} {len(new):>6,} "
                f"{told.accuracy:>9.3f} {told.macro_f1:>9.3f} {told.majority:>10.3f} "
                f"{seconds:>6.2f} {rate(tagger, new):>9,.0f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
