"""Six matters beside status, cancellation, return and address, and how a sentence is about one.

What is known of a sentence stands in it as concepts, beside those of its words:

    about_subscription    where a subscription is named, or pointed at: "it"
    about                 where any matter is
    do_subscription       verbs that would settle it: "end", "ending"      (`matter_deeds.py`)
    did_subscription      "ended"
    noun_subscription     "the termination"
    matters               in every sentence of a reply that may speak of any matter
    heap                  a sentence about so many matters that it says nothing

`matter_words.py` puts them there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from convgym.language.moods import taken_back
from convgym.language.understanding import Sentence

MATTERS = ("exchange", "refund", "subscription", "access", "warranty", "billing")
ABOUT = {matter: f"about_{matter}" for matter in MATTERS}
ABOUT_ANY = tuple(ABOUT.values())
ANY = "about"
IN_PLAY = "matters"
HEAP = "heap"
LETTERS = {"subscription": "s", "billing": "c"}
"""What the numbers of a matter's records begin with; those of orders begin with W."""
_AMOUNT = re.compile(r"\d+\.\d\d")

# -- noting ----------------------------------------------------------------------------------------


def note(s: Sentence, concept: str, places: Sequence[int]) -> None:
    """Add places of a concept."""
    if places:
        s.places[concept] = sorted({*s.places.get(concept, ()), *places})


def drop(s: Sentence, concept: str, places: Sequence[int]) -> None:
    """Take places of a concept away, and the concept with the last of them."""
    if places and concept in s.places:
        s.places[concept] = [place for place in s.places[concept] if place not in places]
        if not s.places[concept]:
            del s.places[concept]


# -- looking ---------------------------------------------------------------------------------------


def about(s: Sentence, matter: str) -> bool:
    """Whether the sentence is about a matter."""
    return ABOUT[matter] in s.places


def is_about_any(s: Sentence) -> bool:
    """Whether it is about any of the six matters."""
    return ANY in s.places


def in_play(s: Sentence) -> bool:
    """Whether the reply may speak of any of them: a quick look."""
    return IN_PLAY in s.places


def is_sum(token: str) -> bool:
    """An amount of money: "24.90"; its sign is no word."""
    return _AMOUNT.fullmatch(token) is not None


_RUNNING = frozenset(
    "ends end ending stops stop stopped runs run running stays stay remains remain continues "
    "continue carries keeps lasts last active until till over going served ended expires use goes "
    "terminates".split()
)


def runs_on(s: Sentence) -> bool:
    """It tells how long something runs, or when it ends."""
    return not _RUNNING.isdisjoint(s.words)


_HOPES = frozenset("hope hoping wish almost nearly".split())
_WAS = frozenset(("was", "were"))
_THEN = frozenset("last yesterday formerly earlier".split())


def is_vouched(s: Sentence, place: int) -> bool:
    """What is said at `place` is meant: not doubted, hoped, heard, taken back or long past."""
    if taken_back(s, place, "governor", "unsaid") or s.word_before(_HOPES, place, 8):
        return False
    return not (s.word_before(_WAS, place, 2) and not _THEN.isdisjoint(s.words))


# -- numbers of records ----------------------------------------------------------------------------


def numbers(s: Sentence, letter: str) -> list[tuple[int, str]]:
    """(place, number) of each record whose number begins with `letter`: "W48213"."""
    return [
        (place, token.upper())
        for place, token in enumerate(s.tokens)
        if len(token) == 6 and token[0] == letter and token[1:].isdigit()
    ]


def number_of(s: Sentence, matter: str, named: dict[str, str]) -> str:
    """The record of a matter that is named here, else one of another kind, else before.

    `named`: the numbers that were named last, by the letter they begin with. An account has none.
    """
    if matter == "access":
        return ""
    letter = LETTERS.get(matter, "w")
    for sign in (letter, *"wsc".replace(letter, "")):
        found = numbers(s, sign)
        if found:
            return found[0][1]
    return named.get(letter, "")
