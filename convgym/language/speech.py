"""From a domain's declared cue phrases to what an agent's words mean: claims, in order of speech.

    cues.toml ─► Cues ─► SpeechReader.read("It's reserved, so I can't renew it. An e-book instead?")
                             └─► deny(reserved), offer(ebook)

A claim is what a sentence asserts, asks, commands or offers *now*; whether it is true is the
domain's to say, which knows what the agent has looked up. What a newcomer would get wrong: the
reader rather says nothing than something that was not said. A reply that takes back what it
tells ("just kidding"), contradicts itself, gives every reason or every value, or plays a dialogue
of its own is not credited; lines of somebody else, raw data and longer quotations are not read.

Everything is linear in the text, at most `MOST_TOKENS` words of it, and nothing raises.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from convgym.language import directives, pleasantries, refusals, statements
from convgym.language.cues import Cues
from convgym.language.deeds import confirms, is_direct, promises, reports, unreported
from convgym.language.figures import sums_written_out, written_out
from convgym.language.lines import Line, goes_on, is_choice, takes_back
from convgym.language.own_words import labels_itself, own_words
from convgym.language.spans import Hit, Spans, Tag
from convgym.language.understanding import MOST_TOKENS, Lexicon, Part, Sentence, split

__all__ = ["MOST_TOKENS", "WEIGHTY", "Claim", "SpeechReader"]

WEIGHTY = frozenset("deny offer done inform confirm quote instruct promise recommend".split())
"""Acts that change what the user believes or does; taken back by "just kidding"."""
MOST_CHARACTERS = 8192
"""Characters of one reply that are looked at; `MOST_TOKENS` words of them are read."""
LONGEST_CACHED = 2048
"""Characters of a reply that is remembered; where it is negative, sentences are not either."""
CACHED = 8192
SENTENCES_CACHED = 4096
"""Sentences of which is remembered what stands in them: different replies share some."""
AROUND = 6
"""Sentences to either side that can complete what one leaves open."""
MOST_REASONS = 2
"""A reply that refuses for more reasons than this says whatever fits, and refuses nothing."""
MOST_OFFERS = 2
MOST_STEPS = 5
MOST_VALUES = 6
"""Facts of one reply; who tells more says every value."""


Spoken = tuple[Part, bool]
"""A sentence, and whether it belongs to a dialogue that is made up."""
Looked = tuple[dict[str, list[int]], dict[str, list[Hit]]]
"""The places of each concept and the hits of each kind in a sentence."""
_NO_HITS: list[Hit] = []
_LISTED = frozenset(("value", "alone"))
_GROUNDS = frozenset(("because", "alone"))
_DEEDS = frozenset(("do", "doing", "done", "noun"))
_STEPS = frozenset(("step", "stepping"))
_FACTS = frozenset(("name", "value"))


class Claim(NamedTuple):
    """One speech act, not yet checked."""

    act: str
    """greet, ask_intent, ask, check, instruct, inform, recommend, quote, confirm, deny, offer,
    done, promise, explain, apologise, close, wait, chat (filler) or jargon."""
    slot: str = ""
    """Slot, component, step, fact, deed, reason or offer, as declared; "more" and "transfer" are
    there in every domain."""
    value: str = ""
    """Of inform and quote: "2.50", "15", "5 May", or the declared value. Of confirm, done and
    promise: the figures that the sentence names, in order, "; " between them."""
    object: str = ""
    """The object named in or before the sentence: a name as handed over, an id in capitals,
    "order:2" for a handle."""

    def __str__(self) -> str:
        if self.act == "inform":
            return f"inform({self.slot}={self.value})"
        if self.act in ("quote", "recommend"):
            parts = [part for part in (self.object, self.value) if part]
            return f"{self.act}({'='.join(parts)})"
        return f"{self.act}({self.slot})" if self.slot else self.act


ACT: Callable[[Claim], str] = itemgetter(0)
ACT_AND_SLOT: Callable[[Claim], tuple[str, str]] = itemgetter(0, 1)


class SpeechReader:
    """Reads replies in a domain that is declared by its cues."""

    def __init__(self, cues: Cues | str | Path | Mapping[str, Any]) -> None:
        """Take cues, or what `Cues.load` takes; InvalidConfiguration where they are not allowed."""
        self.cues = cues if isinstance(cues, Cues) else Cues.load(cues)
        self._spans = Spans(self._entries(), _common()[0])
        self._ids = re.compile(
            "|".join(rf"(?<![\w-])(?:{pattern})(?![\w-])" for pattern in self.cues.ids) or r"(?!)",
            re.IGNORECASE,
        )
        self._handles = frozenset(self.cues.handles)
        self._cached: Callable[[str, tuple[str, ...]], tuple[Claim, ...]] = lru_cache(CACHED)(
            self._read
        )
        self._seen: Callable[[tuple[str, ...]], Looked] = lru_cache(SENTENCES_CACHED)(
            self._spans.look
        )

    def __reduce__(self) -> tuple[type[SpeechReader], tuple[Cues]]:
        return (SpeechReader, (self.cues,))  # what is remembered stays behind

    def _entries(self) -> Iterable[tuple[Tag, str]]:
        """Every phrase that is looked for, with what it stands for."""
        return (*_common()[1], *self.cues.entries())

    def read(self, text: str, names: Sequence[str] = ()) -> tuple[Claim, ...]:
        """The claims of a reply, in order of speech; short replies are remembered.

        `names`: objects in view that the reply may name, e.g. ("Nova 15", "Aero 13"). A claim
        carries the name as it is given here.
        """
        names = tuple(names)
        return self._cached(text, names) if len(text) <= LONGEST_CACHED else self._read(text, names)

    def mentions(self, text: str, names: Sequence[str] = ()) -> tuple[str, ...]:
        """The objects that a text names, in order, each once."""
        called, known = tuple(names), dict[str, str]()
        sentences = self._sentences(text[:MOST_CHARACTERS], called, known)
        lines = self._lines(sentences, called, known)
        return tuple(dict.fromkeys(hit.value for line in lines for hit in line.named))

    # -- words and phrases -------------------------------------------------------------------------

    def _sentences(self, text: str, names: tuple[str, ...], known: dict[str, str]) -> list[Spoken]:
        """The sentences of a text; `known` takes up the ids in it, by the words they become."""
        if self.cues.ids:
            text = self._ids.sub(lambda m: _kept(m[0], known), text)
        sentences: list[Spoken] = []
        budget = MOST_TOKENS
        for own, staged in own_words(text, names):
            for part in split(written_out(sums_written_out(own))):
                budget -= len(part.tokens)
                if budget < 0:
                    return sentences
                sentences.append((part, staged))
        return sentences

    def _lines(
        self, sentences: Iterable[Spoken], names: tuple[str, ...], known: Mapping[str, str]
    ) -> list[Line]:
        """Sentences with all that stands in them."""
        named = _compiled(names) if names else None
        lines: list[Line] = []
        before: Line | None = None
        for (tokens, question, leads, joined), staged in sentences:
            places, hits = self._look(tokens)
            objects = hits.pop("object", _NO_HITS)
            if named is not None:
                objects = named.find(tokens).get("object", _NO_HITS) + objects
            if known or not self._handles.isdisjoint(tokens):
                objects = [*objects, *self._pointed(tokens, known)]
                objects.sort(key=lambda hit: hit.start)
            line = Line(Sentence(tokens, places, question, leads, joined), hits, objects, staged)
            if before is not None:
                line.obj = before.named[-1].value if before.named else before.obj
                line.carried = goes_on(line, before)
            lines.append(line)
            before = line
        return lines

    def _look(self, tokens: list[str]) -> Looked:
        """Places and hits in a sentence, in tables of its own; the lists in them are shared."""
        if LONGEST_CACHED < 0:
            return self._spans.look(tokens)
        places, hits = self._seen(tuple(tokens))
        return places.copy(), hits.copy()

    def _pointed(self, tokens: list[str], known: Mapping[str, str]) -> list[Hit]:
        """Ids and handles."""
        found: list[Hit] = []
        for place, token in enumerate(tokens):
            if token in known:
                found.append(Hit(Tag("object", "", known[token]), place, place + 1))
            elif token in self._handles and tokens[place + 1 : place + 2]:
                number = tokens[place + 1]
                is_sum = tokens[place + 2 : place + 3] == ["dollars"]  # "the product, $300 each"
                if number.isdecimal() and len(number) < 4 and not is_sum:
                    named = Tag("object", "", f"{token}:{int(number)}")
                    found.append(Hit(named, place, place + 2))
        return found

    # -- meaning -----------------------------------------------------------------------------------

    def _read(self, text: str, names: tuple[str, ...]) -> tuple[Claim, ...]:
        text, known = text[:MOST_CHARACTERS], dict[str, str]()
        sentences = self._sentences(text, names, known)
        return self._meaning(self._lines(sentences, names, known), labels_itself(text))

    def _meaning(self, lines: list[Line], retracted: bool) -> tuple[Claim, ...]:
        """The claims of some sentences; `retracted`: none of them counts that carries weight."""
        claims: list[Claim] = []
        made_up = trade = False
        for place, line in enumerate(lines):
            before = lines[max(0, place - AROUND) : place]
            claims += self._of_line(line, before, lines[place + 1 : place + 1 + AROUND])
            trade = trade or "term" in line.hits
            if not line.question:
                retracted = retracted or "retraction" in line.places or takes_back(line)
                made_up = made_up or "made_up" in line.places
        found = tuple(dict.fromkeys(self._weighed(claims, lines, retracted, made_up)))
        if not found:
            if any("thanks_for" in line.places for line in lines):
                return (Claim("greet"),)
            if any("filler" in line.places for line in lines):
                return (Claim("chat"),)
        if trade and Claim("explain") not in found:
            found = (*found, Claim("jargon"))
        return found

    def _of_line(self, line: Line, before: list[Line], after: list[Line]) -> list[Claim]:
        """The claims of one sentence, in the order of its words."""
        told: list[tuple[int, Claim]] = []
        kinds, places = line.hits, line.places
        steps: list[Hit] = []
        looks: list[Hit] = []
        if "step" in kinds or "stepping" in kinds:
            steps = directives.instructs(line)
            told += [(hit.start, self._claim("instruct", hit.name, line, hit)) for hit in steps]
        if "check" in kinds:
            looks = directives.checks(line, steps)
            told += [(hit.start, Claim("check", hit.name)) for hit in looks]
        proposed: list[tuple[str, Line, int]] = []
        asked: list[Hit] = []
        if "confirm" in places and is_direct(line):
            proposed = confirms(line, before)
        if not proposed:
            if "ask" in kinds:
                asked = directives.asks(line, before, after)
                told += [(hit.start, Claim("ask", hit.name)) for hit in asked]
            if not (asked or steps or looks):
                proposed = confirms(line, before)
        for deed, where, place in proposed:
            span = before[before.index(where) :] if where is not line else []
            figures = _figures(*span, line)
            told += [
                (place if where is line else 0, Claim("confirm", deed, figures, named))
                for named in _meant(where, place, before)
            ]
        told += self._assertions(line, before, after, bool(proposed))
        claims: list[Claim] = []
        if told:
            told.sort(key=_PLACE)
            claims = [*map(_CLAIM, told)]
        return self._with_pleasantries(line, before, after, claims, bool(asked or looks))

    def _assertions(
        self, line: Line, before: list[Line], after: list[Line], proposed: bool
    ) -> list[tuple[int, Claim]]:
        """What it reports, promises, refuses, offers and tells."""
        told: list[tuple[int, Claim]] = []
        kinds = line.hits.keys()
        if pleasantries.defines(line):
            return told
        listed = not _LISTED.isdisjoint(kinds) and is_choice(line, before, after)
        denied = []
        if not listed and ("unable" in line.places or not _GROUNDS.isdisjoint(kinds)):
            denied = refusals.denials(line, before, after, self.cues.denials)
            told += [(hit.start, self._claim("deny", hit.name, line, hit)) for hit in denied]
        if not _DEEDS.isdisjoint(kinds):
            for hit in () if proposed or denied else reports(line):
                told += _made("done", line, hit)
            for name in unreported(line):
                told.append((0, Claim("undone", name)))
        if not proposed:
            for hit in promises(line, before):
                told += _made("promise", line, hit)
        if not _STEPS.isdisjoint(kinds):
            told += [(0, Claim("uninstruct", name)) for name in directives.forbids(line)]
        if "offer" in kinds and "quote" not in line.places:
            offered = refusals.offers(line, before, after)
            told += [(hit.start, self._claim("offer", hit.name, line, hit)) for hit in offered]
        if not (listed or _FACTS.isdisjoint(kinds)):
            told += self._facts(line)
        if self.cues.recommend is not None and line.named:
            for hit in statements.recommended(line, before):
                told.append((hit.start, Claim("recommend", object=hit.value)))
        if self.cues.quote is not None:
            told += self._prices(line)
        return told

    def _facts(self, line: Line) -> list[tuple[int, Claim]]:
        """The facts that it tells, and those that it says are not so."""
        return [
            (place, Claim(act, fact, value, line.object_at(place)))
            for act, found in (("inform", statements.facts_told), ("untold", statements.untold))
            for place, fact, value in found(line, self.cues.facts)
        ]

    def _prices(self, line: Line) -> list[tuple[int, Claim]]:
        """The prices that it names."""
        return [
            (place, Claim("quote", value=price, object=named))
            for place, named, price in statements.quoted(line)
        ]

    def _with_pleasantries(
        self, line: Line, before: list[Line], after: list[Line], claims: list[Claim], asking: bool
    ) -> list[Claim]:
        first: list[Claim] = []
        if pleasantries.greets(line, before):
            first.append(Claim("greet"))
        if pleasantries.hands_over(line):
            first.append(Claim("promise", "transfer"))
        elif "wait" in line.places and not asking and pleasantries.waits(line):
            if not pleasantries.is_told_to_wait(line, (*before[-1:], *after[:1])):
                first.append(Claim("wait"))
        if "sorry" in line.places:
            refusing = any(claim.act == "deny" for claim in claims) or (
                bool(after) and line.sentence.joined and refusals.refuses(after[0])
            )
            if pleasantries.apologises(line, after, refusing):
                first.append(Claim("apologise"))
        weighty = not _TAKEN_BACK.issuperset(map(ACT, claims))
        if not weighty:
            if pleasantries.asks_more(line):
                first.append(Claim("ask", "more"))
            elif pleasantries.asks_intent(line, False):
                first.append(Claim("ask_intent"))
            if pleasantries.explains(line, bool(first)):
                first.append(Claim("explain"))
        if pleasantries.closes(line):
            first.append(Claim("close"))
        return [*first, *claims]

    @staticmethod
    def _claim(act: str, slot: str, line: Line, hit: Hit) -> Claim:
        return Claim(act, slot, "", line.object_at(hit.start))

    # -- the whole reply ---------------------------------------------------------------------------

    def _weighed(
        self, claims: list[Claim], lines: list[Line], retracted: bool, made_up: bool
    ) -> list[Claim]:
        """Leave out what other claims of the same reply make nonsense of."""
        if retracted:
            claims = [claim for claim in claims if claim.act not in WEIGHTY]
        acts = [*map(ACT, claims)]
        if _CONSISTENT.issuperset(acts):
            return claims
        if len(acts) == 1 and not made_up:  # nothing beside it speaks against it
            return [] if acts[0] in _TAKEN_BACK else claims
        slots: dict[str, set[str]] = {}
        for claim in claims:
            if claim.act in slots:
                slots[claim.act].add(claim.slot)
            else:
                slots[claim.act] = {claim.slot}
        gone: set[tuple[str, str]] = set()
        for act, most in (("deny", MOST_REASONS), ("offer", MOST_OFFERS), ("instruct", MOST_STEPS)):
            if len(slots.get(act, ())) > most:
                gone |= {(act, slot) for slot in slots[act]}
        if "confirm" in slots:
            asked = {(claim.slot, claim.object) for claim in claims if claim.act == "confirm"}
            if len({slot for slot, _ in asked}) > 1 or len({name for _, name in asked} - {""}) > 1:
                gone |= {("confirm", slot) for slot, _ in asked}
        needed = not slots.get("ask", set()) <= {"more"}
        for deed in slots.get("promise", set()) - {"transfer"}:
            done = deed in slots.get("confirm", ()) or deed in slots.get("done", ())
            if needed or done or len(slots["promise"]) > 2:
                gone.add(("promise", deed))
        for deed in slots.get("undone", ()):
            gone.add(("done", deed))
        for step in slots.get("uninstruct", ()):
            gone.add(("instruct", step))
        for deed in slots.get("confirm", ()):
            gone.add(("done", deed))
            against = [r for r in slots.get("deny", ()) if deed in self.cues.denials[r].of]
            gone |= {("deny", reason) for reason in against}
            if against:
                gone.add(("confirm", deed))
        if not _TOLD.isdisjoint(slots):
            claims = _without_doubtful(claims, made_up)
        return [
            claim for claim in claims if claim[:2] not in gone and claim.act not in _TAKEN_BACK
        ]


_TAKEN_BACK = frozenset(("undone", "uninstruct", "untold"))
"""Claims that only take others back."""
_CONSISTENT = frozenset(
    "greet ask_intent ask check explain apologise close wait chat jargon recommend".split()
)
"""Acts that no other act makes nonsense of, and that make none of any other."""
_TOLD = frozenset(("inform", "done", "quote"))


def _without_doubtful(claims: list[Claim], made_up: bool) -> list[Claim]:
    """Leave out facts and prices that contradict each other, are taken back or made up."""
    unclear = _contradicted(claims)
    untold = {claim[1:] for claim in claims if claim.act == "untold"}
    return [
        claim
        for claim in claims
        if not (claim.act == "inform" and claim[1:] in untold)
        and _told_of(claim) not in unclear
        and not (made_up and claim.act in _TOLD)
    ]


def _told_of(claim: Claim) -> tuple[str, str, str]:
    return (claim.act, claim.slot, claim.object)


def _contradicted(claims: list[Claim]) -> set[tuple[str, str, str]]:
    """Facts and prices that are told with two values of one object, or everything at once."""
    values: dict[tuple[str, str, str], set[str]] = {}
    for claim in claims:
        if claim.act in ("inform", "quote"):
            values.setdefault(_told_of(claim), set()).add(claim.value)
    if len(values) > MOST_VALUES:
        return set(values)
    return {told for told, several in values.items() if len(several) > 1}


_PLACE: Callable[[tuple[int, Claim]], int] = itemgetter(0)
_CLAIM: Callable[[tuple[int, Claim]], Claim] = itemgetter(1)


def _made(act: str, line: Line, hit: Hit) -> list[tuple[int, Claim]]:
    """A deed that is done or promised, once for each object of it."""
    deed, figures = hit.name, _figures(line)
    return [
        (hit.start, Claim(act, deed, figures, named)) for named in line.objects_at(hit.start)
    ]


def _meant(where: Line, place: int, before: Sequence[Line]) -> list[str]:
    """What a yes would be to: all objects of the sentence, or the only one named before."""
    named = [hit for hit in where.named if not where.sentence.word_before(_OTHER, hit.start, 3)]
    if where.named:
        return list(dict.fromkeys(hit.value for hit in named)) or [where.object_at(place)]
    earlier = {hit.value for line in before for hit in line.named}
    return [where.obj if len(earlier) < 2 else ""]


_OTHER = frozenset("instead not rather than without".split())


def _figures(*lines: Line) -> str:
    """The figures of some sentences, in order, each once."""
    return "; ".join(dict.fromkeys(figure.value for line in lines for figure in line.figures))


# -- objects ---------------------------------------------------------------------------------------


def _kept(found: str, known: dict[str, str]) -> str:
    """An id as one word, remembered by it."""
    word = "".join(c for c in found.lower() if c.isalnum())
    if not word.isascii():
        return found
    known[word] = found.upper()
    return f" {word} "


@lru_cache(maxsize=512)
def _compiled(names: tuple[str, ...]) -> Spans:
    return Spans(naming(names))


def naming(names: Iterable[str]) -> list[tuple[Tag, str]]:
    """The names of objects, as the words of a reply come out."""
    entries = []
    for name in names:
        words = [token for part in split(name) for token in part.tokens]
        if words:
            entries.append((Tag("object", "", name), " ".join(words)))
    return entries


@cache
def _common() -> tuple[Lexicon, tuple[tuple[Tag, str], ...]]:
    """The grammar that all domains share: concepts and marks, and phrases with an end."""
    path = files("convgym.language").joinpath("common_cues.toml")
    cues = tomllib.loads(path.read_text(encoding="utf-8"))
    spans = [
        (Tag(kind, ""), phrase) for kind, phrases in cues["spans"].items() for phrase in phrases
    ]
    return Lexicon(cues["concepts"], cues["marks"]), tuple(spans)
