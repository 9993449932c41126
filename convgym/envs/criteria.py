"""What an author calls success, stated without code.

    must_mention       ["refund", ["5 days", "a working week"]]   each, or one of each list
    must_not_mention   ["store credit"]                           none, ever
    must_ask           ["order number"]                           each, in a question or request
    after              {"refund": ["r3"]}                         counts once the user has said r3

A phrase counts as mentioned where it is asserted: denied, asked, or tied to a condition it
is not (`convgym.envs.reply`). What was said once stays said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convgym.envs.reply import Reply, stems_of

MENTION, NOT_MENTION, ASK = "must_mention", "must_not_mention", "must_ask"
KINDS = (MENTION, NOT_MENTION, ASK)
FIELDS = (*KINDS, "after")

Phrases = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that has to be said, asked, or left unsaid."""

    kind: str
    """One of `KINDS`."""
    phrases: Phrases
    """Any of these will do."""
    after: tuple[str, ...] = ()
    """Ids of the responses that have to be out before it counts."""

    def holds(self, reply: Reply, said: Sequence[str]) -> bool:
        """Whether this message does it, the user having said the responses `said` before."""
        if any(one not in said for one in self.after):
            return False
        return reply.asks(*self.phrases) if self.kind == ASK else reply.says(*self.phrases)


@dataclass(frozen=True, slots=True)
class Criteria:
    """All that an author asks for."""

    wanted: tuple[Criterion, ...] = ()
    forbidden: tuple[Criterion, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.wanted or self.forbidden)

    def done(self, reply: Reply, said: Sequence[str], before: int) -> int:
        """Bit per wanted criterion that has been met: `before`, and what this message adds."""
        for bit, criterion in enumerate(self.wanted):
            if not before >> bit & 1 and criterion.holds(reply, said):
                before |= 1 << bit
        return before

    def broken(self, reply: Reply, said: Sequence[str]) -> bool:
        """Whether this message says what must not be said."""
        return any(criterion.holds(reply, said) for criterion in self.forbidden)

    def all_done(self, bits: int) -> bool:
        """Whether every wanted criterion has been met."""
        return bits == (1 << len(self.wanted)) - 1


def criteria_of(given: Any, ids: Sequence[str], problems: list[str]) -> Criteria:
    """Criteria from a mapping, or from a list of phrases that must be mentioned.

    What is wrong is appended to `problems`, a sentence each.
    """
    if isinstance(given, list | tuple | str):
        given = {MENTION: given}
    if not isinstance(given, Mapping):
        problems.append(
            f"success is {given!r:.60}; it takes a mapping of {', '.join(FIELDS)}, or a list of "
            "phrases that must be mentioned"
        )
        return Criteria()
    for name in given:
        if name not in FIELDS:
            problems.append(f"success has {name!r:.40}; it takes {', '.join(FIELDS)}")
    after = _after(given.get("after", {}), ids, problems)
    found = {kind: _phrases(kind, given.get(kind, ()), problems) for kind in KINDS}
    known = {phrase for groups in found.values() for one in groups for phrase in one}
    for phrase in sorted(after.keys() - known):
        problems.append(
            f"success.after names {phrase!r:.60}, which is none of the phrases of "
            f"{', '.join(KINDS)}"
        )
    forbidden = {stems_of(p) for one in found[NOT_MENTION] for p in one}
    for one in found[MENTION]:
        if all(stems_of(phrase) in forbidden for phrase in one):
            problems.append(f"success.{MENTION} and success.{NOT_MENTION} both have {one[0]!r:.60}")
    wanted: list[Criterion] = []
    unwanted: list[Criterion] = []
    for kind, groups in found.items():
        for one in groups:
            waits = tuple(dict.fromkeys(i for phrase in one for i in after.get(phrase, ())))
            (unwanted if kind == NOT_MENTION else wanted).append(Criterion(kind, one, waits))
    return Criteria(tuple(wanted), tuple(unwanted))


def phrases_of(where: str, given: Any, problems: list[str]) -> Phrases:
    """One phrase or a list of them; each must hold a word."""
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not all(isinstance(p, str) for p in listed):
        problems.append(f"{where} is {given!r:.60}; it takes a phrase or a list of phrases")
        return ()
    for phrase in listed:
        if not stems_of(phrase):
            problems.append(f"{where} has {phrase!r:.60}, in which there is no word to look for")
    return tuple(phrase for phrase in listed if stems_of(phrase))


def _phrases(kind: str, given: Any, problems: list[str]) -> list[Phrases]:
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple):
        problems.append(
            f"success.{kind} is {given!r:.60}; it takes a list of phrases, each a text or a list "
            "of alternatives"
        )
        return []
    groups = [phrases_of(f"success.{kind}", one, problems) for one in listed]
    return [group for group in groups if group]


def _after(given: Any, ids: Sequence[str], problems: list[str]) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, Mapping):
        problems.append(
            f"success.after is {given!r:.60}; it takes a mapping of phrases to ids of responses"
        )
        return {}
    found = {}
    for phrase, waits in given.items():
        listed = [waits] if isinstance(waits, str) else waits
        if not isinstance(listed, list | tuple) or any(one not in ids for one in listed):
            problems.append(
                f"success.after[{phrase!r:.40}] is {waits!r:.60}; it takes ids of responses, here "
                f"{', '.join(ids)}"
            )
        else:
            found[str(phrase)] = tuple(listed)
    return found
