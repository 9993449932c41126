"""Refusals with their ground, and what is offered in their place.

    "I can't renew it: it is reserved by another reader."   deny(reserved)
     └─ inability ──┘         └─ ground ─────────────┘      up to two sentences apart
    "It can't leave the building."       deny(reference)    a ground that refuses alone
    "Reserved books can't be renewed."   nothing            a rule of the house
    "It isn't reserved, so I can renew it."                 nothing
"""

from __future__ import annotations

from collections.abc import Mapping

from convgym.language.cues import Denial
from convgym.language.deeds import verbs
from convgym.language.lines import (
    Line,
    Lines,
    begins_with_any,
    is_conditional,
    is_embedded,
    is_general,
    is_hedged,
    is_idle,
    is_own,
    of_others,
)
from convgym.language.moods import awaited, taken_back
from convgym.language.spans import Hit, Tag

NEAR = 2
"""Sentences to either side of a ground in which the inability may stand."""
_INABILITY = 10
"""Words from "cannot" to the deed."""


def denials(
    line: Line, before: Lines, after: Lines, grounds: Mapping[str, Denial]
) -> list[Hit]:
    """The grounds on which it refuses, in order, each once."""
    if not (line.of("because") or line.of("alone") or "unable" in line.places):
        return []
    if _says_nothing(line):
        return []
    found: dict[str, Hit] = {}
    for hit in line.of("alone"):
        if not (_is_doubted(line, hit) or line.sentence.near("negation", hit.start, 3)):
            found.setdefault(hit.name, hit)
    around = (line, *reversed(before[-NEAR:]), *after[:NEAR])
    flat: list[Hit] = []
    for hit in line.of("because"):
        if hit.name in found or _is_doubted(line, hit) or _is_not_so(line, hit):
            continue
        of = grounds[hit.name].of
        if any(_refused(n, of) for n in around if "unable" in n.places and not _says_nothing(n)):
            found[hit.name] = hit
        elif any(_flatly(n, of) for n in around):
            flat.append(hit)
    if len({hit.name for hit in flat}) == 1:  # else: no to which of them?
        found.setdefault(flat[0].name, flat[0])
    refused = {deed for name in found for deed in grounds[name].of}
    for name, ground in grounds.items():
        if ground.bare and refused.isdisjoint(ground.of) and "condition" not in line.places:
            if hits := _refused(line, ground.of):
                found[name] = hits[0]._replace(tag=Tag("bare", name))
    return sorted(found.values(), key=lambda hit: hit.start)


def refuses(line: Line, deeds: tuple[str, ...] = ()) -> bool:
    """It says that the agent cannot do one of some deeds (none: any), or flatly no."""
    if "unable" not in line.places and "flat_no" not in line.places:
        return False
    return not _says_nothing(line) and (bool(_refused(line, deeds)) or _flatly(line, deeds))


def _says_nothing(line: Line) -> bool:
    return is_idle(line) or is_general(line) or begins_with_any(line)


def _is_doubted(line: Line, hit: Hit) -> bool:
    s, place = line.sentence, hit.start
    doubted = taken_back(s, place - 1, "governor", "unsaid") or awaited(s, place)
    return doubted or is_embedded(line, place)


_NO = frozenset(("no", "false", "not"))


def _is_not_so(line: Line, hit: Hit) -> bool:
    """"It isn't reserved": a "not" before the ground, in its own clause."""
    at = line.tokens
    s = line.sentence
    if not _NO.isdisjoint(at[hit.end : hit.end + 1]) or line.has("unsaid"):
        return True
    if not s.near("negation", hit.start, 4):
        return False
    place = max(p for p in s.at("negation") if p < hit.start)
    return {"as", "since"}.isdisjoint(at[place : hit.start])


def _flatly(line: Line, deeds: tuple[str, ...]) -> bool:
    """"That isn't possible", of no other deed than these."""
    if "flat_no" not in line.places or "not_now" in line.places or _says_nothing(line):
        return False
    named = {hit.name for hit in _mentions(line)}
    if deeds and named and named.isdisjoint(deeds):
        return False
    s = line.sentence
    return any(not taken_back(s, place, "governor") for place in s.at("flat_no"))


def _refused(line: Line, deeds: tuple[str, ...]) -> list[Hit]:
    """The mentions of some deeds, or of any where none is given, that an inability reaches."""
    if "unable" not in line.places or "not_now" in line.places or _lacks(line):
        return []
    s = line.sentence
    unable = [
        place
        for place in s.at("unable")
        if not (taken_back(s, place, "governor") or taken_back(s, place - 1, "unsaid"))
    ]
    if not unable or "if" in line.words:
        return []
    if not (deeds or is_own(line) or not _AGENT.isdisjoint(line.words)):
        return []
    return [
        hit
        for hit in _mentions(line)
        if (not deeds or hit.name in deeds)
        and not s.word_before(_AVERTED, hit.start, 3)
        and any(_reaches(line, place, hit) for place in unable)
    ]


_AGENT = frozenset(("i", "we", "im"))


def _reaches(line: Line, place: int, hit: Hit) -> bool:
    """The inability at `place` is one of the deed: "cannot renew", "a renewal isn't possible"."""
    if place < hit.start:
        nearer = any(place < other < hit.start for other in line.sentence.at("unable"))
        return hit.start - place <= _INABILITY and not nearer and not _cut(line, place, hit.start)
    return 0 <= place - hit.end < 5 and not _cut(line, hit.end, place)


_AVERTED = frozenset("undo undoing stop stopping reverse reversing avoid prevent".split())
_HINGES = frozenset("before until till unless without".split())
_KNOWING = frozenset("i ive we weve you youve your knowing having my".split())


def _lacks(line: Line) -> bool:
    """Something is needed first: "I can't renew it until I have your card number"."""
    return not _HINGES.isdisjoint(line.words) and any(
        token in _HINGES and not _KNOWING.isdisjoint(line.tokens[at + 1 : at + 2])
        for at, token in enumerate(line.tokens)
    )


def _cut(line: Line, begin: int, end: int) -> bool:
    return not _CUTS.isdisjoint(line.tokens[begin:end])


_CUTS = frozenset((",", "because", "as", "since", "so"))


def _mentions(line: Line) -> list[Hit]:
    """Deeds as something that is or is not done: "renew", "be renewed", "a renewal"."""
    done = [hit for hit in verbs(line, "done") if line.tokens[hit.start - 1] in _BE]
    return [*verbs(line, "do"), *verbs(line, "doing"), *done, *line.of("noun")]


_BE = frozenset("be get getting being it them that have".split())


# -- offers ----------------------------------------------------------------------------------------

_OFFERED = frozenset("offered gave".split())
_HEADED = 3
_NEVER = frozenset(("no", "not", "wont"))


def offers(line: Line, before: Lines, after: Lines) -> list[Hit]:
    """What it offers, in order, each once; an item of a list below an offer is offered too."""
    hits = line.of("offer")
    if not hits or line.staged or is_conditional(line) or is_hedged(line):
        return []
    if line.has("rule", "condition", "governor", "unsaid") or of_others(line):
        return []
    if line.sentence.joined and after and after[0].has("negation", "unable"):
        return []  # "I'd offer an e-book, but we have none"
    if not _OFFERED.isdisjoint(line.words) or "yourself" in line.words:
        return []
    offering = "offering" in line.places
    if not offering and (not _is_headed(line, before) or is_general(line)):
        return []
    s = line.sentence
    if s.question and line.tokens[0] in ("did", "have", "has", "was", "were", "is", "why", "who"):
        return []
    found: dict[str, Hit] = {}
    for hit in hits:
        if s.near("negation", hit.start, 6) or s.near("unable", hit.start, 9):
            continue
        if any(hit.end <= place <= hit.end + 3 for place in s.at("unable", "negation")):
            continue
        if s.word_before(_NEVER, hit.start, 8):
            continue
        found.setdefault(hit.name, hit)
    return list(found.values())


def _is_headed(line: Line, before: Lines) -> bool:
    """A short item below a line that offers."""
    if len(line.tokens) > 8:
        return False
    for earlier in reversed(before[-_HEADED:]):
        if earlier.has("offering"):
            return not (earlier.has("unable", "condition", "governor") or is_hedged(earlier))
        if not earlier.of("offer"):
            return False
    return False
