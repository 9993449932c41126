"""A library of real turns without their values, found by what they do, where and in whose style.

    signature ─► turns that do this ─► of the same place, agent act, style ─► the least used one
                     └─ none? the largest part of the signature, then the rest

Taken without replacement: within a run a turn comes again only when all others of its shelf have
come; where only one user said it, in part with another's words (`paraphrase`). The values of the
conversation are put into its gaps: what the agent has just said where the recorded user echoed the
agent, else the goal's. Knows nothing of how a signature is chosen.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from convgym.calibration.paraphrase import Splices
from convgym.calibration.signatures import Gap, Pieces, Signature
from convgym.calibration.turns import slot_name
from convgym.engine.keys import MASK, child, mix
from convgym.errors import InvalidConfiguration

ENOUGH = 4
"""Turns that a shelf needs before a narrower description is preferred to a wider one."""
_ARTICLE = re.compile(r"\b([Aa])(n?) $")


class PhraseBank:
    """Real turns on shelves, from narrow to wide."""

    def __init__(self, turns: Sequence[tuple[Signature, Sequence[Hashable], Pieces]]) -> None:
        """Of each turn its signature, its descriptions from wide to narrow, and its pieces."""
        self.enough: float = ENOUGH
        self.splices = Splices([(_group(done, pieces), pieces) for done, _, pieces in turns])
        self.size = len(turns)
        self._turns = [(signature, pieces) for signature, _, pieces in turns]
        self._commonest: dict[Signature, Pieces] = {}
        self._shelves: dict[Signature, dict[Hashable, list[int]]] = defaultdict(dict)
        for number, (signature, descriptions, _) in enumerate(turns):
            for place in enumerate(((), *descriptions)):
                self._shelves[signature].setdefault(place, []).append(number)
        self._signatures = sorted(self._shelves)
        self._parts: dict[Signature, tuple[Signature, ...]] = {}

    def __contains__(self, signature: Signature) -> bool:
        return signature in self._shelves

    def parts(self, signature: Signature) -> tuple[Signature, ...]:
        """Signatures that have turns and together cover this one, as far as any do.

        Empty where none has a part of it.
        """
        if signature not in self._parts:
            self._parts[signature] = tuple(self._split(signature))
        return self._parts[signature]

    def shelf(self, signature: Signature, descriptions: Sequence[Hashable]) -> list[int]:
        """Turns of this signature on the narrowest shelf that has `enough` of them."""
        shelves = self._shelves[signature]
        for level in range(len(descriptions), 0, -1):
            found = shelves.get((level, descriptions[level - 1]))
            if found is not None and len(found) >= self.enough:
                return found
        return shelves[0, ()]

    def commonest(self, number: int) -> Pieces:
        """The words that are said most often for what a turn does."""
        signature = self._turns[number][0]
        if signature not in self._commonest:
            said = Counter(self._turns[other][1] for other in self.shelf(signature, ()))
            self._commonest[signature] = min(said, key=lambda words: (-said[words], str(words)))
        return self._commonest[signature]

    def _split(self, signature: Signature) -> list[Signature]:
        if signature in self:
            return [signature]
        acts, slots = map(set, signature)
        fitting = [s for s in self._signatures if acts.issuperset(s[0]) and slots.issuperset(s[1])]
        chosen: list[Signature] = []
        while fitting:
            gain = [len(acts.intersection(a)) + len(slots.intersection(s)) for a, s in fitting]
            best = max(range(len(fitting)), key=lambda i: (gain[i], -i))
            if not gain[best]:
                break
            chosen.append(fitting[best])
            acts -= set(fitting[best][0])
            slots -= set(fitting[best][1])
        return chosen


class Reading:
    """One run through a bank, which remembers what it has taken."""

    def __init__(self, bank: PhraseBank, seed: int) -> None:
        """`seed` decides the order in which turns are taken, and how they are reworded.

        Raises InvalidConfiguration for one below 0.
        """
        if seed < 0:
            raise InvalidConfiguration(f"seed={seed!r}; it takes a whole number from 0")
        self.bank = bank
        self._key = mix(seed & MASK)
        self._taken = 0
        self._used = [0] * bank.size
        self._order = np.random.default_rng(seed).random(bank.size).tolist()
        self._queues: dict[int, tuple[list[int], int]] = {}

    def take(self, shelf: list[int]) -> Pieces:
        """The next turn of a shelf, none again before all have come as often."""
        queue, at = self._queues.get(id(shelf)) or (sorted(shelf, key=self._order.__getitem__), 0)
        for _ in queue:
            number = queue[at % len(queue)]
            at += 1
            if self._used[number] * len(queue) < at:
                break
        self._queues[id(shelf)] = queue, at
        self._used[number] += 1
        self._taken += 1
        return self.bank.splices.reworded(number, child(self._key, self._taken))


def filled(pieces: Pieces, values: Mapping[str, str], told: Sequence[tuple[str, str]]) -> str:
    """A turn with its gaps filled; a slot that stands twice keeps its second wording.

    values: the conversation's goal, a value for each slot.
    told: (slot, value) of what the agent has just said, for gaps that were heard.
    """
    text, had = "", set()
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        value = piece.value if piece.slot in had else _value(piece, values, told)
        had.add(piece.slot)
        text = _with_article(text, value) + _like(piece.value, value, start=not text)
    return text


def _group(signature: Signature, pieces: Pieces) -> Signature:
    """Turns that may be spliced: the same but for the slots that have gaps."""
    gaps = {piece.slot for piece in pieces if isinstance(piece, Gap)}
    return signature[0], tuple(slot for slot in signature[1] if slot not in gaps)


def _value(gap: Gap, values: Mapping[str, str], told: Sequence[tuple[str, str]]) -> str:
    if gap.heard:
        for slot, value in reversed(told):
            if slot == slot_name(gap.slot):
                return value
    return values[gap.slot]


def _with_article(text: str, value: str) -> str:
    """`a` or `an`, as the value's first letter wants it."""
    article = _ARTICLE.search(text)
    if article is None:
        return text
    vowel = value[:1].lower() in "aeio"
    return text[: article.start()] + article[1] + ("n " if vowel else " ")


def _like(before: str, value: str, *, start: bool) -> str:
    """The value with the case of the one it replaces, where that is plain."""
    if before.islower():
        return value.lower()
    if start and before[:1].isupper():
        return value[:1].upper() + value[1:]
    return value
