"""A small tagger: which acts a user's text does, learned from examples in a fraction of a second.

    "Cancel W48213 please, it's under dana@shop.com"
        └─► cancel {order} please it is under {email}        values become their slots
              └─► words, pairs of words, ideas ─► ridge regression ─► one probability per act

A text is weighed as a whole and sentence by sentence, and each act keeps the best of these. An
*idea* is a set of phrases that mean one thing (`cues`): through it a wording shares something
with examples that have none of its words.

What a newcomer would get wrong: the probability of an act is its own, they do not sum to one. It
is fitted on errors with each example left out in turn, so it holds for unseen wordings of the
same kind, and no further. Knows nothing of any domain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration
from convgym.language.phrases import packaged, read_tables
from convgym.language.understanding import Lexicon

MOST_FEATURES = 1024
"""Features that are kept unless more are asked for: the commonest ones."""
MOST_CHARACTERS = 2000
"""How far a text is read."""
LIKELY, LEAST, LEAD = 0.4, 0.2, 1.5
"""What an act needs to be told; see `ActTagger.spot`."""
_LEAST_SEEN = 3
_LONGEST_CUE = 7
_IDEA_WEIGHT = 2.0
_RIDGE = 0.5
_NOT = frozenset("not dont doesnt didnt wont wouldnt cant cannot couldnt never shouldnt".split())
_NOT_REACHES = 3
"""Words after a "not" that are other features: not to cancel is no wish to cancel."""
_MOST = 12
"""Sentences of a text that are weighed alone."""

_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*"
PATTERNS: dict[str, str] = {
    "email": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "order": r"\b[a-z]\d{5}\b",
    "date": rf"\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b"
    r"|\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b",
    "postcode": r"\b\d{5}\b",
}
"""Regular expressions of the values that look alike everywhere, by slot; first come, first read."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_TOKEN = re.compile(r"\{\w+\}|[a-z0-9]+|\?")
_STRAIGHT = str.maketrans({"’": "", "‘": "", "'": "", "`": "", "-": " "})


class ActTagger:
    """Acts of a text, after examples `(text, acts)`; slots may stand in them in braces.

    `cues`: ideas, each with its phrases as `Lexicon` writes them. `values`: regular expressions
    of the domain's own values by slot, such as its items; they are looked for after `PATTERNS`,
    or instead of the one of the same slot. `most_features` are kept, the commonest ones.
    """

    def __init__(
        self,
        examples: Iterable[tuple[str, Collection[str]]],
        cues: Mapping[str, Sequence[str]] | None = None,
        values: Mapping[str, str] | None = None,
        most_features: int = MOST_FEATURES,
    ) -> None:
        rows = [(text, frozenset(done)) for text, done in examples]
        self.acts: tuple[str, ...] = tuple(sorted({act for _, done in rows for act in done}))
        """Every act that it knows."""
        if not self.acts:
            raise InvalidConfiguration("a tagger came without examples; give some with acts.")
        patterns = {**PATTERNS, **(values or {})}
        self._values = re.compile(
            "|".join(f"(?P<{slot}>{pattern})" for slot, pattern in patterns.items()), re.IGNORECASE
        )
        self._ideas = _ideas(cues or {})
        bare = {act for text, done in rows for act in done if "{" not in text}
        self.value_acts: frozenset[str] = frozenset(self.acts) - bare
        """Acts that never come without a value."""
        features = [self._features(text) for text, _ in rows]
        self._fit(features, [done for _, done in rows], most_features)
        self.chance: dict[str, float] = self.part_scores("")[0]
        """A probability per act: that of words of which it knows none."""

    # -- reading -----------------------------------------------------------------------------------

    def normalise(self, text: str) -> str:
        """`text` in small letters, its values replaced by their slots in braces."""
        text = text[:MOST_CHARACTERS]
        return self._values.sub(lambda found: " {" + str(found.lastgroup) + "} ", text).lower()

    def values(self, text: str) -> list[tuple[str, str]]:
        """The values that stand in a text as (slot, value), in their order."""
        found = self._values.finditer(text[:MOST_CHARACTERS])
        return [(str(value.lastgroup), value.group()) for value in found]

    def sentences(self, text: str) -> list[str]:
        """The sentences that are weighed alone."""
        return _sentences(text[:MOST_CHARACTERS]) or [text]

    def scores(self, text: str) -> dict[str, float]:
        """A probability per act."""
        best = self._probabilities(_parts(text[:MOST_CHARACTERS])).max(axis=0)
        return dict(zip(self.acts, best.tolist(), strict=True))

    def part_scores(self, text: str) -> list[dict[str, float]]:
        """A probability per act: of the whole text, then of each sentence if it has several."""
        table = self._probabilities(_parts(text[:MOST_CHARACTERS])).tolist()
        return [dict(zip(self.acts, row, strict=True)) for row in table]

    def tag(self, text: str) -> list[str]:
        """The acts of a text, in the order in which they appear."""
        return [act for act, _ in self.spot(text)]

    def spot(self, text: str) -> list[tuple[str, int]]:
        """The acts of a text with the number of the sentence in which each is likeliest.

        An act is there if it is as likely as `LIKELY`. Where no act is, the likeliest one is
        taken if it reaches `LEAST` and leads by `LEAD` times.
        """
        table = self._probabilities(_parts(text[:MOST_CHARACTERS]))  # (1 + sentences, acts)
        best = table.max(axis=0)
        found = np.flatnonzero(best >= LIKELY).tolist()
        if not found:
            second, first = np.argsort(best, kind="stable")[-2:].tolist()
            found = [first] if best[first] >= max(LEAST, LEAD * best[second]) else []
        alone = table[1:] if len(table) > 1 else table
        spots = sorted((int(alone[:, act].argmax()), -best[act], act) for act in found)
        return [(self.acts[act], sentence) for sentence, _, act in spots]

    # -- features ----------------------------------------------------------------------------------

    def _features(self, text: str) -> dict[str, float]:
        words = _TOKEN.findall(self.normalise(text).translate(_STRAIGHT))
        around = ["^", *words, "$"]
        found = {f"{a} {b}": 1.0 for a, b in pairwise(around)}
        reach = 0  # words for which a "not" still holds
        for start, first in enumerate(words):
            found[f"!{first}" if reach else first] = 1.0
            mark, phrase = "!@" if reach else "@", ""
            for word in words[start : start + _LONGEST_CUE]:
                phrase = f"{phrase} {word}" if phrase else word
                for idea in self._ideas.get(phrase, ()):
                    found[mark + idea] = _IDEA_WEIGHT
            reach = _NOT_REACHES if first in _NOT else max(reach - 1, 0)
        return found

    def _table(self, rows: Sequence[Mapping[str, float]]) -> NDArray[np.float32]:
        """Rows of unit length.  # (texts, features)"""
        table = np.zeros((len(rows), len(self._places)), np.float32)
        for row, features in zip(table, rows, strict=True):
            known = [(self._places[f], w) for f, w in features.items() if f in self._places]
            if known:
                places, weights = zip(*known, strict=True)
                row[list(places)] = weights
        table *= self._rareness
        length = np.sqrt((table**2).sum(axis=1, keepdims=True))
        return table / np.maximum(length, 1e-6)

    # -- learning ----------------------------------------------------------------------------------

    def _fit(self, rows: list[dict[str, float]], done: list[frozenset[str]], most: int) -> None:
        seen = Counter(feature for row in rows for feature in row)
        kept = sorted((-n, f) for f, n in seen.items() if n >= _LEAST_SEEN)[:most]
        self._places = {feature: place for place, (_, feature) in enumerate(kept)}
        counts = np.array([-n for n, _ in kept], np.float32)
        self._rareness = np.log1p(len(rows) / np.maximum(counts, 1.0)).astype(np.float32)
        table = self._table(rows)
        wanted = np.array([[act in d for act in self.acts] for d in done], np.float32)
        self._base = wanted.mean(axis=0)
        gram = table.T @ table
        gram[np.diag_indices_from(gram)] += _RIDGE
        inverse = np.linalg.inv(gram)
        self._weights = inverse @ (table.T @ (wanted - self._base))  # (features, acts)
        fitted = table @ self._weights + self._base
        # What each example would get from a fit without it, in closed form.
        pull = ((table @ inverse) * table).sum(axis=1, keepdims=True).clip(0.0, 0.99)
        self._slope, self._middle = _logistic((fitted - pull * wanted) / (1.0 - pull), wanted)

    def _probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        raw = self._table([self._features(text) for text in texts]) @ self._weights + self._base
        odds = self._slope * (raw.astype(np.float64) - self._middle)
        probability: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-odds.clip(-30.0, 30.0)))
        return probability.round(6)  # (texts, acts)


def off_topic(package: str = "") -> list[str]:
    """Sentences without any act, as examples: general ones, and the own ones of a domain."""
    own = [packaged(package, "user_background.toml")] if package else []
    files = [packaged("convgym.language", "background.toml"), *own]
    return [text for path in files for text in read_tables(path)["background"]]


def _parts(text: str) -> list[str]:
    """The whole text, then its sentences where there are several."""
    sentences = _sentences(text)
    return [text, *sentences] if len(sentences) > 1 else [text]


def _sentences(text: str) -> list[str]:
    """The sentences; those after the last that is weighed alone are one."""
    found = [s for s in _SENTENCE.split(text) if s and not s.isspace()]
    return [*found[: _MOST - 1], " ".join(found[_MOST - 1 :])] if len(found) > _MOST else found


def _ideas(cues: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The ideas of each phrase."""
    found: dict[str, tuple[str, ...]] = {}
    for idea, phrases in cues.items():
        for phrase in Lexicon({idea: phrases}).phrases():
            found[phrase] = (*found.get(phrase, ()), idea)
    return found


def _logistic(scores: NDArray[np.float32], wanted: NDArray[np.float32]) -> tuple[float, float]:
    """Slope and middle of σ(slope · (score - middle)), by Newton's method on all pairs."""
    x, y = scores.ravel().astype(np.float64), wanted.ravel().astype(np.float64)
    slope, shift = 5.0, -2.0
    for _ in range(25):
        p = 1.0 / (1.0 + np.exp(-(slope * x + shift).clip(-30.0, 30.0)))
        weight = p * (1.0 - p)
        gradient = np.array([((y - p) * x).sum() - 1e-3 * slope, (y - p).sum()])
        cross = (weight * x).sum()
        hessian = np.array([[(weight * x * x).sum() + 1e-3, cross], [cross, weight.sum() + 1e-9]])
        step = np.linalg.solve(hessian, gradient)
        slope, shift = slope + float(step[0]), shift + float(step[1])
        if abs(step).max() < 1e-8:
            break
    return slope, -shift / slope
