"""Labelled texts of `tests/data`, and how well something reads them.

    {"text": "How about $950?", "acts": ["quote(950)"]}
        └─► read ─► labels       right are those that stand there, letter by letter

An act is the part of a label before its bracket; its macro-F1 is over the acts with enough
examples, since a figure of two or three examples says nothing.
"""

import json
from collections import Counter
from functools import cached_property
from pathlib import Path

DATA = Path(__file__).parent / "data"
ENOUGH = 8
"""Examples that an act needs to count in the mean."""


def rows(name):
    """The rows of a file of `tests/data`."""
    text = (DATA / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line]


def kind(label):
    """The act of a label: what stands before the bracket."""
    return label.partition("(")[0]


class Reading:
    """(labels that should be read, labels that are read) of many texts, and what they make."""

    def __init__(self, pairs):
        self.pairs = [(frozenset(wanted), frozenset(found)) for wanted, found in pairs]

    @classmethod
    def of(cls, name, read):
        """A file of labelled texts, read by `read`, which gives labels."""
        return cls((row["acts"], read(row["text"])) for row in rows(name))

    @cached_property
    def counts(self):
        """Labels by act: (right, read, wanted)."""
        right, read, wanted = Counter(), Counter(), Counter()
        for want, found in self.pairs:
            right.update(map(kind, want & found))
            read.update(map(kind, found))
            wanted.update(map(kind, want))
        return {act: (right[act], read[act], wanted[act]) for act in sorted(read | wanted)}

    @property
    def exact(self):
        """Share of the texts of which all labels and no others are read."""
        return sum(want == found for want, found in self.pairs) / len(self.pairs)

    @property
    def abstained(self):
        """Share of the texts with a label of which nothing is read."""
        labelled = [found for want, found in self.pairs if want]
        return sum(not found for found in labelled) / len(labelled)

    def acts(self, enough=ENOUGH):
        """The acts with that many examples."""
        return [act for act, (_, _, wanted) in self.counts.items() if wanted >= enough]

    def macro_f1(self, enough=ENOUGH):
        """Mean F1 of the acts with that many examples."""
        acts = self.acts(enough)
        return sum(2 * r / (n + w) for r, n, w in map(self.counts.get, acts)) / len(acts)

    @property
    def micro_f1(self):
        """F1 over all labels at once."""
        right, read, wanted = map(sum, zip(*self.counts.values(), strict=True))
        return 2 * right / (read + wanted)

    def precision(self, *acts):
        """Share of the labels of these acts that were read rightly."""
        right, read, _ = map(sum, zip(*map(self.counts.get, acts), strict=True))
        return right / read
