"""What an agent says of changes that it makes itself: a yes asked for, a promise, a report.

    "Shall I renew it?"               confirm    a yes asked for, the deed named here or before
    "I'd renew it until 5 May. OK?"   confirm
    "I'll renew it." "Renewing it."   promise
    "I've renewed it." "It's done"    done       the past or the passive, by the agent itself
    "I could renew it."               nothing
"""

from __future__ import annotations

from itertools import pairwise

from convgym.language.lines import (
    Line,
    Lines,
    clause_of,
    is_asserted,
    is_conditional,
    is_denied,
    is_general,
    is_hedged,
    is_idle,
)
from convgym.language.moods import DOERS, announced, clause, is_planned
from convgym.language.spans import Hit

FAR = 6
"""Sentences before a question for a yes in which the deed may be named."""
_DETERMINERS = frozenset(
    "a an the your my our this that these those no any his her their new next of".split()
)


_KINDS = frozenset(("do", "doing", "done", "noun"))


def verbs(line: Line, kind: str) -> list[Hit]:
    """Hits that are verbs here: "order it", not "your order"."""
    hits = line.hits.get(kind)
    if hits is None:
        return []
    return [
        hit
        for hit in hits
        if is_whole(line, hit) or not (hit.start and line.tokens[hit.start - 1] in _DETERMINERS)
    ]


def is_whole(line: Line, hit: Hit) -> bool:
    """The phrase is a report by itself: "fine has been removed"."""
    return hit.end - hit.start > 1 and not _COMPLETE.isdisjoint(line.tokens[hit.start : hit.end])


_COMPLETE = frozenset("is are was were has have been".split())


# -- a yes -----------------------------------------------------------------------------------------

_NO_PROPOSAL = frozenset(
    "did have has was were had which what why where who how when is are".split()
)
_NO_ORDER = _NO_PROPOSAL - {"is", "are"}
_LEADING = frozenset(
    "really so then just ok okay right and well now actually great sure yes or no please".split()
)
_ASKS_PAST = frozenset("did have has was were had".split())
_AVERTED = frozenset(
    "stop stopping undo undoing avoid avoiding prevent preventing refrain refraining reverse "
    "reversing instead rather than pretend without block withdraw revoke skip postpone delay how "
    "why".split()
)
_OR_NOT = frozenset("no not should shall would do is are did n rather".split())


def confirms(line: Line, before: Lines) -> list[tuple[str, Line, int]]:
    """(deed, line in which it is named, place) for each yes that is asked for."""
    if not _proposes(line) or line.staged or _is_withheld(line) or _chooses(line):
        return []
    named = named_deeds(line)
    if any(_comes_later(line, hit) for hit in named):
        return []
    if named:
        return [(hit.name, line, hit.start) for hit in named]
    found: list[tuple[str, Line, int]] = []
    for earlier in reversed(before[-FAR:]):
        if earlier.staged or _is_withheld(earlier) or _chooses(earlier):
            break
        if earlier.sentence.question and not _proposes(earlier):
            break  # "Is the sky blue? Yes or no?"
        if reports(earlier):
            break
        if earlier.has("unable") or is_hedged(earlier) or is_conditional(earlier):
            continue
        found += [(hit.name, earlier, hit.start) for hit in named_deeds(earlier)]
    return found[:1] if len({deed for deed, _, _ in found}) == 1 else []


_LATER = frozenset("once after when whenever as until".split())


def _comes_later(line: Line, hit: Hit) -> bool:
    """"Would you like to return it once it is there?" """
    return not _LATER.isdisjoint(line.tokens[hit.end :]) and line.question


def is_direct(line: Line) -> bool:
    """It asks for a yes to a deed that it names itself: "shall I send it to your address?"."""
    return "confirm" in line.places and bool(named_deeds(line)) and _proposes(line)


def named_deeds(line: Line) -> list[Hit]:
    """The first mention of each deed, not shunned: "renew", "the renewal", "want it renewed"."""
    found: dict[str, Hit] = {}
    if _KINDS.isdisjoint(line.hits):
        return []
    for kind in ("do", "doing", "done", "noun"):
        for hit in line.of(kind) if kind == "noun" else verbs(line, kind):
            if is_denied(line, hit.start) or _averted(line, hit.start):
                continue
            if kind == "done" and line.tokens[hit.start - 1 : hit.start] in (["have"], ["having"]):
                continue  # "should I have renewed it?"
            if hit.name not in found or hit.start < found[hit.name].start:
                found[hit.name] = hit
    if len(found) > 1:  # "cancel the order": the noun of another deed is the object of this one
        verbal = [h for kind in ("do", "doing", "done") for h in verbs(line, kind)]
        found = {
            name: hit
            for name, hit in found.items()
            if hit.tag.kind != "noun" or not any(v.start < hit.start <= v.end + 2 for v in verbal)
        }
    return sorted(found.values(), key=lambda hit: hit.start)


def _averted(line: Line, place: int) -> bool:
    return line.sentence.word_before(_AVERTED, place, 5)


def _is_withheld(line: Line) -> bool:
    """Nothing is proposed: shunned, quoted, known of, guessed, somebody else's."""
    if line.has("withheld", "governor", "quote"):
        return True
    return not _AVERTED.isdisjoint(line.words) and any(
        _averted(line, hit.start)
        for kind in ("do", "doing", "done", "noun")
        for hit in line.of(kind)
    )


def _chooses(line: Line) -> bool:
    """"Shall I renew it or leave it?" leaves open what a yes is to."""
    if not line.question or "or" not in line.words:
        return False
    tokens = line.tokens
    return any(
        token == "or"
        and bool(tokens[at + 1 :])
        and (
            _OR_NOT.isdisjoint(tokens[at + 1 : at + 3])
            or any(hit.start > at for kind in ("do", "noun") for hit in line.of(kind))
        )
        and tokens[at - 1 : at + 2] != ["yes", "or", "no"]
        for at, token in enumerate(tokens)
    )


def _proposes(line: Line) -> bool:
    """It asks for a yes: in so many words, or by a question that names what would be done."""
    places = line.places
    asks_yes = "yes" in line.words and (
        line.question or "request" in places or len(line.tokens) <= 5
    )
    if not (line.question or asks_yes or "confirm" in places):
        return False
    if "other" in places or is_hedged(line) or ("unable" in places and not line.question):
        return False
    first = next((token for token in line.tokens if token not in _LEADING), "")
    if "confirm" in places or asks_yes:
        at = line.tokens.index(first) if first else 0
        asked = any(place >= at for place in places.get("confirm", ()))
        return not (line.question and first in _NO_PROPOSAL and (first in _ASKS_PAST or not asked))
    if first in _NO_ORDER:
        return False
    if "confirm_question" in places:
        return _ends_in_question(line) or first not in ("is", "are")
    place = line.tokens.index(first) if first else 0
    if line.tokens[place : place + 2] == ["are", "you"]:  # "are you ready to place the order?"
        place += 2
        first = next(iter(line.tokens[place:]), "")
    if first in _READY and line.tokens[place + 1 : place + 2] == ["to"]:
        return True
    ordered = any(hit.start == place for hit in verbs(line, "do"))
    return ordered and "or" not in line.tokens


_READY = frozenset("ready okay ok fine happy".split())
_AGREED = frozenset("that it this ok okay alright right correct fine good".split())


def _ends_in_question(line: Line) -> bool:
    """"Is that okay with you?" """
    return not _AGREED.isdisjoint(line.tokens[:4]) and len(line.tokens) <= 12


# -- promises --------------------------------------------------------------------------------------


def promises(line: Line, before: Lines) -> list[Hit]:
    """The deeds that it says it will do or is doing."""
    if line.question or line.staged or line.has("rule", "quote", "confirm_first"):
        return []
    if _KINDS.isdisjoint(line.hits):
        return _resumed(line, before)
    if line.has("governor", "hedge"):
        return []
    found = [
        hit
        for kind in ("do", "doing", "done")
        for hit in verbs(line, kind)
        if not (kind == "done" and (is_whole(line, hit) or _by_agent(line.tokens, hit.start)))
        and announced(line.sentence, hit.start)
        and not (_averted(line, hit.start) or _is_subject(line, hit))
    ]
    for hit in line.of("noun"):
        left, _ = clause(line.sentence, hit.start)
        if not DOERS.isdisjoint(left) and announced(line.sentence, hit.start):
            found.append(hit)
    return sorted(found, key=lambda hit: hit.start)


_VERBS = frozenset(
    "is isnt wont will costs cost takes take means would can cant could may might doesnt does has "
    "hasnt needs requires works should didnt was wasnt helps".split()
)


def _is_subject(line: Line, hit: Hit) -> bool:
    """"Renewing it won't cost anything"."""
    if hit.tag.kind != "doing" or (hit.start and line.tokens[hit.start - 1] != ","):
        return False
    return not _VERBS.isdisjoint(line.tokens[hit.end : hit.end + 4])


_RESUMING = frozenset("do doing sort sorting arrange arranging handle handling action".split())
_IT = frozenset("it this that so".split())


def _resumed(line: Line, before: Lines) -> list[Hit]:
    """"I'm doing it right now", of the deed that was named last."""
    tokens = line.tokens
    if len(tokens) > 12 or _RESUMING.isdisjoint(line.words) or line.has("governor", "hedge"):
        return []
    for place, token in enumerate(tokens):
        if token in _RESUMING and not _IT.isdisjoint(tokens[place + 1 : place + 3]):
            if not announced(line.sentence, place):
                continue
            for earlier in reversed(before[-2:]):
                named = [] if earlier.staged or earlier.has("unable") else named_deeds(earlier)
                if named:
                    return named if len(named) == 1 else []
    return []


# -- reports ---------------------------------------------------------------------------------------

_ADVERBS = frozenset(
    "just now also already successfully gladly officially fully safely all both gone went ahead "
    "and been since hereby happily duly".split()
)
_AGENT = frozenset("i we ive weve".split())
_HAVE = frozenset(("have", "had"))
_BE = frozenset("is are was were been its theyre thats".split())
_BARE_LEADS = frozenset(
    "all now successfully just ok okay done great sure yes and already perfect right alright "
    "it your the , good news there".split()
)
_TIMES = frozenset("twice thrice times maximum ago last yesterday previously before".split())
_FOR_OTHERS = frozenset(
    (word, other)
    for word in ("for", "by")
    for other in ("another", "someone", "somebody", "myself", "others", "them", "him", "her")
)
_SOMEBODY = frozenset("by for someone somebody another".split())


def reports(line: Line) -> list[Hit]:
    """The deeds that it says the agent has done."""
    if not (line.of("done") or line.of("noun") or "managed" in line.places):
        return []
    if is_idle(line) or "habit" in line.places or is_general(line) or _is_undone(line):
        return []
    if not _TIMES.isdisjoint(line.words) or "withheld" in line.places:
        return []
    found = [hit for hit in verbs(line, "done") if _is_done(line, hit)]
    if "noun" in line.hits:
        found += [hit for hit in line.of("noun") if _is_carried_out(line, hit)]
    if "managed" in line.places:
        mentioned = (*line.of("do"), *line.of("noun"))
        found += [hit for hit in mentioned if _is_managed(line, hit)]
    said = [hit for hit in found if not _is_ensured(line.tokens, hit.start)]
    return sorted(said, key=lambda hit: hit.start)


def _is_undone(line: Line) -> bool:
    """"Then I reversed it", but not "it has been cancelled", where to cancel is a deed."""
    if "undid" not in line.hits:
        return False
    ends = {hit.end for hit in line.of("done") if not any(
        noun.end <= hit.start for noun in line.of("noun")
    )}
    return any(hit.end not in ends for hit in line.of("undid"))


def _is_managed(line: Line, hit: Hit) -> bool:
    """"I was able to renew it", "we hereby confirm the renewal"."""
    if _AGENT.isdisjoint(line.words) and "this" not in line.words:
        return False
    near = line.sentence.near("managed", hit.start, 5)
    return near and is_asserted(line, hit.start) and line.tokens[0] != "you"


def unreported(line: Line) -> list[str]:
    """The deeds of which it says that they are not done."""
    found = []
    if "negation" in line.places or "unable" in line.places:
        found = [hit.name for hit in line.of("done") if is_denied(line, hit.start)]
    if _is_undone(line):
        found += [hit.name for kind in ("done", "noun") for hit in line.of(kind)]
    return found


def _is_done(line: Line, hit: Hit) -> bool:
    if not _is_said_done(line, hit.start):
        return False
    if not _FOR_OTHERS.isdisjoint(pairwise(line.tokens[hit.end :])):
        return False
    if is_whole(line, hit):
        return _NOT_DONE.isdisjoint(line.tokens[hit.start : hit.end])
    return _by_agent(line.tokens, hit.start) or _is_bare(line, hit)


def _is_ensured(tokens: list[str], place: int) -> bool:
    """"Make sure that it is booked": somebody is to see to it."""
    if _ENSURING.isdisjoint(tokens):
        return False
    before = tokens[:place]
    return any(
        word in _ENSURING and (word == "ensure" or before[max(0, at - 1) : at] == ["make"])
        for at, word in enumerate(before)
    )


_ENSURING = frozenset(("ensure", "sure", "certain"))
_NOT_DONE = frozenset(
    "should would could will shall must might may can cannot not never to you who if be being "
    "hasnt isnt wasnt , i they almost nearly".split()
)
"""Words that a report like "fine has now been removed" does not hold."""


def _is_said_done(line: Line, place: int) -> bool:
    s = line.sentence
    return (
        is_asserted(line, place)
        and not is_planned(s, place)
        and not announced(s, place)
        and not any(at > place and at - place < 4 for at in s.at("unable"))
    )


def _by_agent(tokens: list[str], place: int) -> bool:
    """The words before the participle make it the agent's own deed, or a passive without doer."""
    at = place - 1
    while at >= 0 and tokens[at] in _ADVERBS:
        at -= 1
    if at < 0:
        return False
    if tokens[at] in _AGENT:
        return True
    if tokens[at] in _HAVE:
        return tokens[at - 1 : at] in (["i"], ["we"])
    if tokens[at] in _BE or (tokens[at] == "has" and "been" in tokens[at:place]):
        return _SOMEBODY.isdisjoint(tokens[place + 1 : place + 3]) or "you" in tokens[place + 1 :]
    return False


def _is_bare(line: Line, hit: Hit) -> bool:
    """"Renewed!", "All renewed until 5 May", "LB-2041 renewed"."""
    tokens, place = line.tokens, hit.start
    if place > 4 or len(tokens) > 14 or line.has("unable", "negation"):
        return False
    if line.of("do") or not _AGENT.isdisjoint(tokens) or not _BE.isdisjoint(tokens):
        return False
    if not _SOMEBODY.isdisjoint(tokens[place + 1 : place + 3]):
        return False
    if place == 1 and tokens[0] not in _PRONOUNS and tokens[2:3] in _NOTHING_DONE_TO:
        return True  # "order cancelled"
    covered = {
        at for kind in (line.named, line.of("noun")) for h in kind for at in range(h.start, h.end)
    }
    return all(tokens[at] in _BARE_LEADS or at in covered for at in range(place))


_PRONOUNS = frozenset(
    "you he she they who nobody noone none someone somebody anyone everybody everyone never not no "
    "to be being get getting".split()
)
_NOTHING_DONE_TO: tuple[list[str], ...] = (
    [], ["for"], ["until"], ["now"], ["successfully"], ["as"], ["today"], [","],
)  # fmt: skip
_DOING_NOUN = 5
"""Words between a deed's noun and what says that it is done."""


def _is_carried_out(line: Line, hit: Hit) -> bool:
    """"The renewal is done", "I've set up the renewal"."""
    tokens = line.tokens
    for place in line.sentence.at("created"):
        if hit.end <= place <= hit.end + _DOING_NOUN:
            between = tokens[hit.end : place]
            linked = not between or not {"is", "was", "are", "has", "now"}.isdisjoint(between)
            if linked and "," not in between and _is_said_done(line, place):
                return True
        if hit.start - 4 <= place < hit.start and clause_of(line, hit.start) <= place:
            if _is_said_done(line, place) and _by_agent(tokens, place):
                return True
    return False
