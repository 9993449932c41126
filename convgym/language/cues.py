"""A domain's cue phrases, declared in TOML and checked.

    [ask]       slot = […]                          what the agent can ask for
    [check]     component = […]                     what it can have the user look at
    [instruct]  step = […]                          what it can have the user do, as commands
    [deed.W]    do = […], done = […], noun = […]    what it can do itself
    [deny.R]    because = […], of = "W", alone = […], bare = true     why it may refuse
    [offer]     offer = […]
    [fact]      fact = {kind = "money", names = […]}  or  fact.value = […]
    [recommend] cues = […]   [quote] cues = […]     that it recommends an object, names its price
    [jargon]    terms = […]
    [object]    id = ["[a-z]\\\\d{5}"], handles = ["order"]

A phrase is a few words in small letters without apostrophes; "can/may i -/please" stands for all
ways to choose, "-" for nothing, " .. " for up to four words, "the" for any article or none. Forms
of verbs are made where they are not given. All sections are optional; nothing else is allowed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration, told
from convgym.language.inflection import inflected, turned
from convgym.language.spans import Tag

PLAIN = ("ask", "check", "instruct", "offer")
"""Sections that list phrases by name."""
SECTIONS = (*PLAIN, "deed", "deny", "fact", "recommend", "quote", "jargon", "object")
KINDS = ("money", "percent", "date", "number", "text")
"""Kinds of facts that are told by a figure, or by the words that follow the name."""
RESERVED = {"ask": ("more",)}
"""Names that every domain has already."""
_KEYS: dict[str, tuple[str, ...]] = {
    "deed": ("do", "done", "noun"),
    "deny": ("because", "of", "alone", "bare"),
    "recommend": ("cues",),
    "quote": ("cues",),
    "jargon": ("terms",),
    "object": ("id", "handles"),
}
_THE = "the/your/that/this/my/our/a/an/-"
_APOSTROPHES = str.maketrans("", "", "'’‘`")
_ALLOWED = re.compile(r"[a-z0-9@._%/ -]+")


@dataclass(frozen=True)
class Deed:
    """A change that the agent can make."""

    do: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    """Past and participle; made from `do` where not given."""
    noun: tuple[str, ...] = ()


@dataclass(frozen=True)
class Denial:
    """A ground to refuse something."""

    because: tuple[str, ...] = ()
    """Refuses only beside an inability to do what it is a denial of."""
    alone: tuple[str, ...] = ()
    """Refuses by itself."""
    of: tuple[str, ...] = ()
    """Deeds; empty for any."""
    bare: bool = False
    """That it cannot be done is enough: the deed is refused for no other reason."""


@dataclass(frozen=True)
class Fact:
    """Something that can be told."""

    kind: str
    """One of `KINDS`, or "word"."""
    names: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Phrases by value, of the kind "word"; without `names` they speak for themselves."""


@dataclass(frozen=True)
class Cues:
    """All that a domain declares; make one with `Cues.load`."""

    ask: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    instruct: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    offer: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    deeds: Mapping[str, Deed] = field(default_factory=dict)
    denials: Mapping[str, Denial] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
    recommend: tuple[str, ...] | None = None
    """Phrases beside the common ones; None where nothing is recommended."""
    quote: tuple[str, ...] | None = None
    jargon: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Regular expressions of what names an object, tried on the text in any case."""
    handles: tuple[str, ...] = ()
    """Words that name an object with a number behind them: "order 2"."""

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any]) -> Cues:
        """Cues from a TOML file, its text, or what it says.

        Raises InvalidConfiguration, in one sentence, at the first thing that is not allowed.
        """
        data = _parsed(source)
        for section in data:
            if section not in SECTIONS:
                raise InvalidConfiguration(
                    f"there is no section [{section}] in a cue file; "
                    f"{_instead(section, SECTIONS)}"
                )
        plain = {
            section: {
                name: _phrases(phrases, f"[{section}] {name}")
                for name, phrases in _names(data, section).items()
            }
            for section in PLAIN
        }
        tables = {section: _tables(data, section) for section in ("deed", "deny")}
        single = {section: _single(data, section) for section in _KEYS if section not in tables}
        deeds = {name: Deed(**table) for name, table in tables["deed"].items()}
        for name, table in tables["deny"].items():
            if table.get("bare") and not table.get("of"):
                raise InvalidConfiguration(
                    f'[deny.{name}] is bare, so it must say of which deed: of = "…".'
                )
            for write in table.get("of", ()):
                if write not in deeds:
                    raise InvalidConfiguration(
                        f"[deny.{name}] is a denial of {write!r}, which is no deed; "
                        f"{_instead(write, tuple(deeds))}"
                    )
        object_ = single["object"]
        return cls(
            **plain,
            deeds=deeds,
            denials={name: Denial(**table) for name, table in tables["deny"].items()},
            facts={name: _fact(name, table) for name, table in _names(data, "fact").items()},
            recommend=single["recommend"].get("cues", ()) if "recommend" in data else None,
            quote=single["quote"].get("cues", ()) if "quote" in data else None,
            jargon=single["jargon"].get("terms", ()),
            ids=object_.get("id", ()),
            handles=object_.get("handles", ()),
        )

    def entries(self) -> Iterator[tuple[Tag, str]]:
        """Every phrase with what it stands for, forms of verbs and articles filled in."""
        for tag, phrase in self._declared():
            words = [_THE if word == "the" else word for word in phrase.split()]
            yield tag, " ".join(words)

    def _declared(self) -> Iterator[tuple[Tag, str]]:
        for kind in ("ask", "check", "offer"):
            for name, phrases in getattr(self, kind).items():
                yield from ((Tag(kind, name), phrase) for phrase in phrases)
        for name, phrases in self.instruct.items():
            for phrase in phrases:
                yield Tag("step", name), phrase
                yield Tag("stepping", name), inflected(phrase, "doing")
        for name, deed in self.deeds.items():
            for phrase in deed.do:
                yield Tag("do", name), phrase
                yield Tag("doing", name), inflected(phrase, "doing")
                if not deed.done:
                    yield Tag("done", name), inflected(phrase, "done")
                    if passive := turned(phrase):
                        yield Tag("done", name), passive
            yield from ((Tag("done", name), phrase) for phrase in deed.done)
            yield from ((Tag("noun", name), phrase) for phrase in deed.noun)
        for name, denial in self.denials.items():
            yield from ((Tag("because", name), phrase) for phrase in denial.because)
            yield from ((Tag("alone", name), phrase) for phrase in denial.alone)
        for name, fact in self.facts.items():
            yield from ((Tag("name", name), phrase) for phrase in fact.names)
            for value, phrases in fact.values.items():
                yield from ((Tag("value", name, value), phrase) for phrase in phrases)
        yield from ((Tag("recommending", ""), phrase) for phrase in self.recommend or ())
        yield from ((Tag("quoting", ""), phrase) for phrase in self.quote or ())
        yield from ((Tag("term", ""), phrase) for phrase in self.jargon)


# -- reading what is declared ----------------------------------------------------------------------


def _parsed(source: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        return tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(
            f"the cue file {source} cannot be read: {told(error)}."
        ) from None
    except tomllib.TOMLDecodeError as error:
        where = f" {source.name}" if isinstance(source, Path) else ""
        raise InvalidConfiguration(f"the cue file{where} is no TOML: {told(error)}.") from None


def _instead(word: str, allowed: Sequence[str]) -> str:
    near = get_close_matches(word, allowed, 1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(allowed) or 'none'}."


def _names(data: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    table = data.get(section, {})
    if not isinstance(table, Mapping):
        raise InvalidConfiguration(
            f"[{section}] must be a table of names; got {table!r}. Write [{section}] above them."
        )
    for name in table:
        if name in RESERVED.get(section, ()):
            raise InvalidConfiguration(
                f"[{section}] {name} is there in every domain; leave it out or rename it."
            )
    return table


def _tables(data: Mapping[str, Any], section: str) -> dict[str, dict[str, Any]]:
    found = {}
    for name, table in _names(data, section).items():
        if not isinstance(table, Mapping):
            raise InvalidConfiguration(
                f"[{section}] {name} must be a table with {', '.join(_KEYS[section])}; "
                f"got {table!r}."
            )
        found[name] = _keyed(table, f"[{section}.{name}]", _KEYS[section])
    return found


def _single(data: Mapping[str, Any], section: str) -> dict[str, Any]:
    table = data.get(section, {})
    if not isinstance(table, Mapping):
        raise InvalidConfiguration(f"[{section}] must be a table; got {table!r}.")
    return _keyed(table, f"[{section}]", _KEYS[section])


def _keyed(table: Mapping[str, Any], where: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, phrases in table.items():
        if key not in allowed:
            raise InvalidConfiguration(f"{where} has no key {key!r}; {_instead(key, allowed)}")
        if key == "id":
            found["id"] = _patterns(phrases)
        elif key == "bare":
            if not isinstance(phrases, bool):
                raise InvalidConfiguration(f"{where} bare must be true or false; got {phrases!r}.")
            found["bare"] = phrases
        elif key == "of":
            found["of"] = _listed(phrases, f"{where} of")
        else:
            found[key] = _phrases(phrases, f"{where} {key}")
    return found


def _patterns(patterns: Any) -> tuple[str, ...]:
    found = _listed(patterns, "[object] id")
    for pattern in found:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidConfiguration(
                f"[object] id {pattern!r} is no regular expression: {told(error)}."
            ) from None
    return found


def _phrases(phrases: Any, where: str) -> tuple[str, ...]:
    return tuple(_phrase(phrase, where) for phrase in _listed(phrases, where))


def _listed(texts: Any, where: str) -> tuple[str, ...]:
    """One text or a list of them."""
    if isinstance(texts, str):
        texts = (texts,)
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise InvalidConfiguration(f"{where} must be a list of texts; got {texts!r}.")
    return tuple(texts)


def _phrase(phrase: str, where: str) -> str:
    """As the words come out of a reply: small, "can't" as "cant", "e-mail" as "e mail"."""
    plain = " ".join(phrase.lower().translate(_APOSTROPHES).split())
    plain = re.sub(r"(?<=[a-z0-9])-(?=[a-z0-9])", " ", plain)
    plain = re.sub(r"([a-z])\1\1+", r"\1", plain)  # as a reply's "sooo" comes out
    parts = plain.split(" .. ")
    dotted = any(not word.strip(".") for part in parts for word in part.split())
    if dotted or not all(map(str.strip, parts)) or not _ALLOWED.fullmatch(plain):
        raise InvalidConfiguration(
            f"{where}: {phrase!r} is no phrase; write words in small letters, "
            f'"a/b" for a choice, "-" for nothing, " .. " between words for a gap.'
        )
    return plain


def _fact(name: str, table: Any) -> Fact:
    where = f"[fact] {name}"
    if not isinstance(table, Mapping):
        raise InvalidConfiguration(
            f"{where} must be a table: {{ kind = {'|'.join(KINDS)}, names = [...] }}, or values "
            f"with their phrases; got {table!r}."
        )
    names = _phrases(table.get("names", ()), f"{where} names")
    kind = table.get("kind", "word")
    values = {
        value: _phrases(phrases, f"{where} {value}")
        for value, phrases in table.items()
        if value not in ("names", "kind")
    }
    if kind != "word" and kind not in KINDS:
        raise InvalidConfiguration(
            f"{where} is of the kind {kind!r}; {_instead(str(kind), (*KINDS, 'word'))}"
        )
    if (kind == "word") == (not values):
        raise InvalidConfiguration(
            f"{where} needs a kind ({', '.join(KINDS)}), or values with their phrases, not both."
        )
    if kind != "word" and not names:
        raise InvalidConfiguration(f"{where} needs names: what its {kind} is told with.")
    return Fact(kind, names, values)
