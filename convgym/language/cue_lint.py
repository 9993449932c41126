"""What is wrong with a domain's cues, one clear sentence each, by reading its own phrases back.

    [ask] card = ["card number"]   ─► "Card number?"              is it read as ask(card)?
    [deed.renew] do = ["renew"]    ─► "Shall I renew it?"         as confirm(renew)?
    [deny.limit] because = […]     ─► "I can't renew it because…" as deny(limit)?

It finds empty lists, phrases that stand for two things, phrases that a shorter one makes needless,
and phrases that the reader cannot hear in the plainest sentence that would hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration
from convgym.language.cues import Cues, Fact
from convgym.language.spans import Tag, spelled_out
from convgym.language.speech import SpeechReader

_FIGURES = {"money": "12 dollars", "percent": "12 percent", "date": "12 June", "number": "12"}
_READ = {"money": "12", "percent": "12", "date": "12 June", "number": "12"}
_WHERE = {
    "ask": "[ask] {0}", "check": "[check] {0}", "step": "[instruct] {0}", "offer": "[offer] {0}",
    "do": "[deed.{0}] do", "done": "[deed.{0}] done", "noun": "[deed.{0}] noun",
    "because": "[deny.{0}] because", "alone": "[deny.{0}] alone", "name": "[fact] {0} names",
    "value": "[fact] {0}", "term": "[jargon] terms",
}  # fmt: skip
_RIVALS = (
    ("ask", "check"),
    ("step",),
    ("do", "done", "noun"),
    ("because",),
    ("alone",),
    ("offer",),
    ("value",),
    ("name",),
)
"""Kinds among which a phrase may stand for one name only."""
_NEEDLESS = ("ask", "check", "offer", "because", "alone", "term")


def lint(source: Cues | str | Path | Mapping[str, Any]) -> list[str]:
    """Complaints about a cue file, in its order; none where all is well. Never raises for it."""
    try:
        cues = source if isinstance(source, Cues) else Cues.load(source)
        reader = SpeechReader(cues)
    except InvalidConfiguration as error:
        return [str(error)]
    return [*_empty(cues), *_ambiguous(cues), *_needless(cues), *_unheard(cues, reader)]


def _empty(cues: Cues) -> Iterator[str]:
    for section in ("ask", "check", "instruct", "offer"):
        for name, phrases in getattr(cues, section).items():
            if not phrases:
                yield f"[{section}] {name} lists no phrases; write some, or leave it out."
    for name, deed in cues.deeds.items():
        if not (deed.do or deed.noun):
            yield f"[deed.{name}] has no do and no noun; write what it is called: do = [\"renew\"]."
    for name, denial in cues.denials.items():
        if not (denial.because or denial.alone or denial.bare):
            yield (
                f"[deny.{name}] can never be heard; give it because = [...], alone = [...] "
                "or bare = true."
            )
    for name, fact in cues.facts.items():
        for value, phrases in fact.values.items():
            if not phrases:
                yield f"[fact] {name}.{value} lists no phrases; write some, or leave it out."


def _ambiguous(cues: Cues) -> Iterator[str]:
    """Phrases that stand for two names of the same kind, or for asking and looking."""
    for kinds in _RIVALS:
        first: dict[str, Tag] = {}
        told = set()
        for tag, phrase in cues.entries():
            if tag.kind not in kinds:
                continue
            for words in _all_of(phrase):
                other = first.setdefault(words, tag)
                rival = (other.name, other.value) != (tag.name, tag.value)
                rival = rival and not _shares_ground(cues, other, tag)
                if rival and (other, tag) not in told:
                    told.add((other, tag))
                    yield (
                        f"{words!r} stands for two things, {_place(other)} and {_place(tag)}; "
                        "take it out of one of them."
                    )


def _shares_ground(cues: Cues, one: Tag, other: Tag) -> bool:
    """One ground may refuse two deeds for two reasons, and one word belong to two kinds of fact."""
    if one.kind == other.kind == "because":
        of = (cues.denials[one.name].of, cues.denials[other.name].of)
        return bool(of[0] and of[1]) and set(of[0]).isdisjoint(of[1])
    if one.kind == other.kind == "name":
        return cues.facts[one.name].kind != cues.facts[other.name].kind
    return False


def _needless(cues: Cues) -> Iterator[str]:
    """Phrases of which each holds another one of the same name."""
    by_tag: dict[Tag, list[tuple[str, list[str]]]] = {}
    for tag, phrase in cues.entries():
        if tag.kind in _NEEDLESS and " .. " not in phrase:
            by_tag.setdefault(tag, []).append((phrase, spelled_out(phrase)))
    for tag, phrases in by_tag.items():
        for phrase, spelled in phrases:
            others = {words for other, all_ in phrases if other != phrase for words in all_}
            covering = [next((o for o in others if _holds(words, o)), "") for words in spelled]
            if covering and all(covering):
                yield (
                    f"{_place(tag)}: {_as_written(phrase)!r} adds nothing, "
                    f"as {sorted(covering)[0]!r} is in it; leave it out."
                )


def _holds(words: str, other: str) -> bool:
    return words != other and f" {other} " in f" {words} "


def _unheard(cues: Cues, reader: SpeechReader) -> Iterator[str]:
    """Phrases that are not read in the plainest sentence that holds them."""
    for tag, phrase in cues.entries():
        if tag.kind in ("stepping", "doing"):
            continue
        if tag.kind == "done" and not cues.deeds[tag.name].done:
            continue  # made from `do`
        for words in dict.fromkeys((_all_of(phrase)[0], _all_of(phrase)[-1])):
            tried = list(_sentences(cues, tag, words))
            if tried and not any(_is_read(reader, text, wanted) for text, wanted in tried):
                text, wanted = tried[0]
                read = ", ".join(map(str, reader.read(text))) or "nothing"
                yield (
                    f"{_place(tag)}: {text!r} is read as {read}, not as {wanted}; "
                    f"try other words than {words!r}."
                )
                break


def _is_read(reader: SpeechReader, text: str, wanted: str) -> bool:
    return wanted in map(str, reader.read(text))


def _sentences(cues: Cues, tag: Tag, words: str) -> Iterator[tuple[str, str]]:
    """Plain sentences with some words, each with the label that one of them should get."""
    kind, name = tag.kind, tag.name
    if kind == "ask":
        yield f"{words.capitalize()}?", f"ask({name})"
        yield f"Could you tell me the {words}, please?", f"ask({name})"
    elif kind == "check":
        yield f"Could you check the {words}?", f"check({name})"
        yield f"{words.capitalize()}?", f"check({name})"
    elif kind == "step":
        yield f"Please {words}.", f"instruct({name})"
    elif kind == "do":
        yield f"Shall I {words}?", f"confirm({name})"
    elif kind == "noun":
        yield f"Shall I go ahead with the {words}?", f"confirm({name})"
    elif kind == "done":
        yield f"I have {words}.", f"done({name})"
        yield f"The {words}.", f"done({name})"
        yield f"It has been {words}.", f"done({name})"
    elif kind == "because":
        yield from ((text, f"deny({name})") for text in _refusals(cues, name, words))
    elif kind == "alone":
        yield f"I'm sorry, {words}.", f"deny({name})"
        yield f"It {words}.", f"deny({name})"
    elif kind == "offer":
        yield f"I can offer you {words} instead.", f"offer({name})"
        yield f"I can {words} instead.", f"offer({name})"
    elif kind == "value":
        yield from _told(cues.facts[name], tag, words)
    elif kind == "name" and cues.facts[name].kind in _FIGURES:
        figure, value = (table[cues.facts[name].kind] for table in (_FIGURES, _READ))
        for text in (f"The {words} is {figure}.", f"It {words} {figure}.", f"{figure} {words}."):
            yield text, f"inform({name}={value})"
    elif kind == "term":
        yield f"It is about {words}.", "jargon"


def _refusals(cues: Cues, name: str, words: str) -> Iterator[str]:
    deeds = [cues.deeds[write] for write in cues.denials[name].of]
    called = [_all_of(phrase)[0] for deed in deeds for phrase in deed.do]
    named = [_all_of(phrase)[0] for deed in deeds for phrase in deed.noun]
    for verb in called[:1]:
        yield f"I can't {verb} it, because {words}."
        yield f"I can't {verb} it, because it is {words}."
    for noun in named[:1]:
        yield f"The {noun} isn't possible, because {words}."
    if not deeds:
        yield f"Sorry, I can't do that, because {words}."
        yield f"Sorry, I can't do that, because it is {words}."


def _told(fact: Fact, tag: Tag, words: str) -> Iterator[tuple[str, str]]:
    label = f"inform({tag.name}={tag.value})"
    if not fact.names:
        yield f"It is {words}.", label
        yield f"There is {words}.", label
    for phrase in fact.names[:1]:
        name = _all_of(phrase)[0]
        yield f"Your {name} is {words}.", label
        yield f"It {name} {words}.", label


def _all_of(phrase: str) -> list[str]:
    """Every way to say a pattern; a gap holds nothing."""
    return spelled_out(" ".join(phrase.split(" .. ")))


def _place(tag: Tag) -> str:
    where = _WHERE.get(tag.kind, f"[{tag.kind}] {{0}}").format(tag.name)
    return f"{where}.{tag.value}" if tag.value else where


def _as_written(phrase: str) -> str:
    return phrase.replace("the/your/that/this/my/our/a/an/-", "the")
