"""The verbs that settle a matter, and what they do it to.

    "I've ended the subscription, and the exchange is booked"
          ended ── subscription             did_subscription
                                exchange    noun_exchange

A verb of several matters ("take the lock off", "take the charge off") belongs to the one whose
object is nearest; objects after it count as nearer than those before it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from convgym.domains.customer_service.matters import ABOUT, about, is_sum, note
from convgym.language.understanding import Sentence

_REACH = 7
"""Words between a verb and the object after it."""
_FAR = 14
"""Words between an object and the participle after it."""


@cache
def verbs() -> dict[str, list[tuple[str, str]]]:
    """(matter, "do" or "did") for each verb of `matter_cues.toml`."""
    path = files("convgym.domains.customer_service").joinpath("matter_cues.toml")
    cues = tomllib.loads(path.read_text(encoding="utf-8"))
    found: dict[str, list[tuple[str, str]]] = {}
    for form in ("do", "did"):
        for matter, words in cues[form].items():
            for word in words:
                found.setdefault(word, []).append((matter, form))
    return found


NOUNS = {
    "exchange": frozenset("exchange swap swop trade switch".split()),
    "refund": frozenset("refund money reimbursement payout repayment".split()),
    "subscription": frozenset("termination cancellation ending".split()),
    "access": frozenset("unlock unlocking reactivation access lock".split()),
    "warranty": frozenset("claim claims case paperwork".split()),
    "billing": frozenset("credit reversal refund dispute".split()),
}
_DETERMINERS = frozenset(
    "the a an your this that my our its no any such another of for in warranty new second ,".split()
)


def note_deeds(s: Sentence) -> None:
    """Note the nouns and verbs of the matters that a sentence is about."""
    known = verbs()
    for at, token in enumerate(s.tokens):
        for matter, words in NOUNS.items():
            if token in words and about(s, matter) and _is_noun(s, at, matter):
                note(s, f"noun_{matter}", [at])
        forms = known.get(token)
        if not forms:
            continue
        linked = [(_distance(s, at, matter, token), matter, form) for matter, form in forms]
        nearest = min((d for d, _, _ in linked if d >= 0), default=-1)
        for distance, matter, form in linked:
            if distance == nearest >= 0:
                note(s, f"{form}_{matter}", [at])


def is_deed(token: str, matter: str) -> bool:
    """Whether a word that carries some meaning by itself is a verb of a matter."""
    return token not in _LIGHT and any(name == matter for name, _ in verbs().get(token, ()))


_LIGHT = frozenset("get getting take make out".split())


def _is_noun(s: Sentence, at: int, matter: str) -> bool:
    """"The exchange", not "to exchange"."""
    if matter in ("warranty", "refund") or s.tokens[at] not in verbs():
        return True
    before = s.tokens[at - 1] if at else ","
    return before in _DETERMINERS or (not at and not s.question)


# -- what a verb is done to ------------------------------------------------------------------------

_OWN = frozenset(
    "exchange exchanging exchanged swap swapping swapped swop swopping swopped trade trading "
    "traded unlock unlocking unlocked unblock unblocking unblocked unsubscribe unsubscribing "
    "unsubscribed reissue reissuing reissued".split()
)
"""Verbs that need no object to say what they are about."""
_REFUNDING = frozenset("refund refunding refunded".split())
_LOCKS = frozenset(("lock", "block"))
_DOORS = frozenset("access account login profile accounts".split())
_LIFTING = frozenset(
    "lift lifting lifted remove removing removed take taking taken took gone free freed".split()
)
_SWAPPED = frozenset("size sizes black white blue red green colour color exchange variant".split())
_POINTING = frozenset(("it", "that", "this"))


def _distance(s: Sentence, at: int, matter: str, token: str) -> int:
    """How far the verb at `at` is from what it does that to; -1 where it is not."""
    if not about(s, matter) or not _is_whole(s, at, matter, token):
        return -1
    if token in _OWN:
        return 0
    if matter == "refund" and token in _REFUNDING:
        return 0 if token != "refund" or _is_verb(s, at) else -1
    if matter == "billing" and token == "credit" and _is_noun(s, at, matter):
        return -1
    return _to_nearest(s, at, _objects(s, matter, token))


def _objects(s: Sentence, matter: str, token: str) -> list[int]:
    """Places of what a verb of a matter can be done to."""
    needed = _SWAPPED
    if matter == "access":
        needed = _LOCKS if token in _LIFTING else _DOORS
        needed = frozenset(("access",)) if token in _GIVING else needed
    if matter in ("access", "exchange"):
        return [place for place, word in enumerate(s.tokens) if word in needed]
    places = list(s.places[ABOUT[matter]])
    if matter == "billing":
        places += [p for p, word in enumerate(s.tokens) if is_sum(word) or word == "amount"]
    return places


def _to_nearest(s: Sentence, at: int, places: Sequence[int]) -> int:
    """Words from `at` to the nearest of `places`, more to one before it; -1 where none is near."""
    after = [p - at for p in places if at < p <= at + _REACH and "," not in s.tokens[at:p]]
    before = [at - p + _REACH for p in places if at - _FAR <= p < at]
    if after or before:
        return min(after + before)
    pointing = not _POINTING.isdisjoint(s.tokens[at + 1 : at + 2])
    return 2 * _FAR if pointing and any(place != at for place in places) else -1


_TAKING = frozenset("take taking taken took".split())
_GIVING = frozenset("put give giving given gave pay paid return returning returned".split())
_OF_ITSELF = frozenset("will itll would itd".split())


def _is_whole(s: Sentence, at: int, matter: str, token: str) -> bool:
    """The verb stands with the word that it needs: "gone out", "take … off", "pay … back"."""
    before, after = s.tokens[max(0, at - 1) : at], s.tokens[at : at + 9]
    if matter == "refund" and token == "out":
        return before in (["gone"], ["went"], ["go"])
    if matter in ("billing", "subscription") and token in _TAKING:
        return "off" in after
    if matter == "billing" and token in _GIVING:
        return "back" in after
    if matter == "subscription" and token in ("end", "stop") and not _OF_ITSELF.isdisjoint(before):
        return any(place > at for place in s.places[ABOUT[matter]])  # not "it will end by itself"
    return True


_WILLED = frozenset("to i we ill well you and let me shall can now gladly id wed just".split())


def _is_verb(s: Sentence, at: int) -> bool:
    """"I'll refund it", not "the refund"."""
    return s.tokens[at - 1] in _WILLED if at else s.tokens[1:2] in (["it"], ["the"], ["this"])
