"""The changes that settle one of the six matters: asked a yes for, promised, reported as done.

    "Shall I swap it for size M?"          asked for: exchange, "size m"
    "I'll end the subscription."           promised
    "The claim is open." "Unlocked."       done
    "Shall I stop the exchange?"           nothing: it is averted

`convgym/domains/customer_service/reports.py` reads cancellations, returns and addresses.
"""

from __future__ import annotations

from convgym.domains.customer_service.matters import (
    MATTERS,
    about,
    is_about_any,
    is_vouched,
    runs_on,
)
from convgym.domains.customer_service.reports import is_past
from convgym.language.figures import dates
from convgym.language.moods import DOERS, announced, awaits, clause
from convgym.language.understanding import Sentence

ELSEWHERE = "elsewhere"
"""What is sent instead is no size and no colour: "for a toaster"; nobody wants it."""

# -- what is sent instead --------------------------------------------------------------------------

_COLOURS = frozenset(
    "black white blue red green grey gray yellow pink brown purple orange beige navy silver "
    "gold turquoise violet".split()
)
_SIZES = {
    **{name: name for name in "xxs xs s m l xl xxl".split()},
    "small": "s",
    "medium": "m",
    "large": "l",
}
_LEFT = frozenset("from of than not".split())
_LEFT_PAIRS = frozenset((("instead", "of"), ("rather", "than"), ("in", "place")))
_GOAL = frozenset(("for", "into"))
_A = frozenset(("a", "an", "another", "my", "some"))
_NEUTRAL = frozenset(
    "size variant colour color one new different other another exchange swap replacement refund "
    "second moment fee yes go clear bigger smaller larger return you it the that this version "
    "third larger free price".split()
)


def variants(s: Sentence) -> list[tuple[int, str]]:
    """(place, "size m" or "black") of each size and colour that is named."""
    found = []
    tokens = s.tokens
    for at, token in enumerate(tokens):
        if token in _COLOURS:
            found.append((at, token))
        elif token in _SIZES and (len(token) > 1 or _is_size(tokens, at)):
            found.append((at, f"size {_SIZES[token]}"))
    return found


def _is_size(tokens: list[str], at: int) -> bool:
    """The letter at `at` is a size: "size M", "an L", "M or L", not the "s" of "it s"."""
    before = tokens[at - 1] if at else ""
    return before in ("size", "sizes", "a", "an", "the", "to", "in", "for", "or", "and")


def variant_told(s: Sentence) -> str:
    """What is to be sent instead; of two the one that is not left behind, or the last."""
    named = variants(s)
    if not named:
        return ELSEWHERE if _is_elsewhere(s) else ""
    kept = [(at, name) for at, name in named if not _is_left(s, at)]
    if len({name for _, name in kept}) > 1 and "or" in s.words:
        return ELSEWHERE  # one of two
    goals = [(at, name) for at, name in kept if s.word_before(_GOALS, at, 4)]
    return (goals or kept or named)[-1][1]


_GOALS = frozenset("for to into size in".split())


def _is_left(s: Sentence, at: int) -> bool:
    """"From black to white", "instead of size S"."""
    for place in range(max(0, at - 4), at):
        pair = tuple(s.tokens[place : place + 2])
        if pair in _LEFT_PAIRS or (s.tokens[place] in _LEFT and at - place <= 3):
            return "," not in s.tokens[place:at] and "for" not in s.tokens[place:at]
    return s.tokens[at + 1 : at + 2] == ["one"] and "for" in s.tokens[at + 2 : at + 4]


def _is_elsewhere(s: Sentence) -> bool:
    """"Exchange it for a toaster"."""
    tokens = s.tokens
    deeds = s.at("do_exchange", "did_exchange", "noun_exchange")
    for at in range(min(deeds, default=len(tokens)), len(tokens) - 2):
        if tokens[at] in _GOAL and tokens[at + 1] in _A and tokens[at + 2] not in _NEUTRAL:
            return True
    return False


# -- asked a yes for -------------------------------------------------------------------------------


def changes_named(s: Sentence) -> list[str]:
    """The changes that a sentence names, none of them shunned, in the order of `MATTERS`."""
    if not is_about_any(s) or "averted" in s.places:
        return []
    return [matter for matter in MATTERS if about(s, matter) and _is_named(s, matter)]


def _is_named(s: Sentence, matter: str) -> bool:
    places = s.at(f"do_{matter}", f"did_{matter}")
    if matter in ("exchange", "warranty", "subscription", "access", "billing"):
        places += s.at(f"noun_{matter}")
    if matter == "refund" and "again" not in s.places and s.has("return", "original", "credit"):
        return False  # the refund of a return
    if matter == "subscription" and s.has("paid_month", "at_once") and runs_on(s):
        return True  # "Ends: with the paid month. OK?"
    if matter == "exchange" and "instead" in s.words and variants(s):
        return True  # "Size L instead. OK?"
    return any(not s.near("negation", at, 5) for at in places)


# -- done ------------------------------------------------------------------------------------------

_WAS = frozenset(("was", "were"))
_THINGS = frozenset("accounts claims orders charges items subscriptions customers refunds".split())
_LINK = 12
"""Words between what is done and the participle that says so."""


def changes_reported(s: Sentence) -> list[str]:
    """The changes that a sentence reports as done."""
    if not is_about_any(s) or "averted" in s.places or _is_first(s):
        return []
    found = [matter for matter in MATTERS if about(s, matter) and _is_reported(s, matter)]
    if found:
        s.places.pop("created", None)  # what was arranged is this
    return found


_FIRST = frozenset("once when whenever until if".split())
_FIRST_PAIRS = frozenset((("after", "you"), ("as", "soon"), ("after", "your")))


def _is_first(s: Sentence) -> bool:
    """"After you confirm, the account is unlocked": something has to come first."""
    return s.tokens[0] in _FIRST or tuple(s.tokens[:2]) in _FIRST_PAIRS


def _is_reported(s: Sentence, matter: str) -> bool:
    if matter == "access" and _said_past(s, "open_again"):
        return True
    if matter in ("subscription", "warranty", "exchange") and _said_past(s, "settled"):
        return not s.has("minimum_term", "at_once", "paid_month")
    if matter in ("warranty", "exchange") and _is_in(s, matter):
        return True
    if matter == "refund" and "again" in s.places and _said_past(s, "on_its_way"):
        return True
    done = [at for at in s.at(f"did_{matter}") if _is_done(s, at)]
    if matter == "refund":
        done = [at for at in done if "again" in s.places or _just(s, at)]
    if matter == "billing" and dates(s.tokens):
        done = [at for at in done if not s.word_before(_WAS, at, 2)]  # on that day, not now
    return bool(done) or (matter != "refund" and _arranged(s, matter))


def _is_in(s: Sentence, matter: str) -> bool:
    """"The claim for W48213 is open", "your claim is in"."""
    tokens = s.tokens
    for noun in s.at(f"noun_{matter}"):
        if tokens[noun].endswith("s") and tokens[noun + 1 :] in (["in"], ["open"], ["on"]):
            return _is_done(s, noun)  # "the claim's in"
        for at in range(noun + 1, min(noun + 7, len(tokens) - 1)):
            if tokens[at] == "stands" and tokens[at + 1] == "in" and _is_done(s, at):
                return True
            if tokens[at] in ("is", "now") and tokens[at + 1] in ("in", "open", "on", "active"):
                ends = at + 2 == len(tokens) or tokens[at + 2] in (",", "and", "now", "as")
                if ends and _is_done(s, at + 1):
                    return True
    return False


def _said_past(s: Sentence, mark: str) -> bool:
    return any(_is_done(s, at) and not awaits(s, at) for at in s.at(mark))


def _is_done(s: Sentence, at: int) -> bool:
    if not is_past(s, at) or s.near("negation", at, 6) or not is_vouched(s, at):
        return False
    return not _THINGS.intersection(s.tokens[at + 1 : at + 2])


_JUST = frozenset("just now ive weve have".split())


def _just(s: Sentence, at: int) -> bool:
    """A refund that was sent now, and not "on 3 March"."""
    return s.word_before(_JUST, at, 3) and not s.has("pending", "return", "original")


def _arranged(s: Sentence, matter: str) -> bool:
    """"The exchange is booked", "I've set up the exchange"."""
    nouns = s.at(f"noun_{matter}")
    for at in s.at("created"):
        near = [n for n in nouns if 0 < abs(at - n) <= _LINK]
        others = [
            n
            for m in MATTERS
            if m != matter
            for n in s.at(f"noun_{m}")
            if near and abs(n - at) < min(abs(x - at) for x in near)
        ]
        sure = len(s.tokens) <= 7 or at <= 2 or s.near("passive", at, 9)
        if near and not others and sure and _is_done(s, at):
            return True
    return False


def changes_undone(s: Sentence) -> list[str]:
    """The changes of which a sentence says that they are not done."""
    return [
        matter
        for matter in MATTERS
        if about(s, matter) and any(s.near("negation", at, 4) for at in s.at(f"did_{matter}"))
    ]


# -- promised --------------------------------------------------------------------------------------


_COSTING = frozenset("does is isnt costs will would cant cannot was comes".split())


def _is_subject(s: Sentence, at: int) -> bool:
    """"Swapping it does cost something" promises nothing."""
    ing = s.tokens[at].endswith("ing") and not at
    return ing and not _COSTING.isdisjoint(s.tokens[at + 1 : at + 4])


def changes_promised(s: Sentence) -> list[str]:
    """The changes that a sentence says it will make or is making."""
    if not is_about_any(s) or s.has("averted", "condition", "governor"):
        return []
    return [matter for matter in MATTERS if about(s, matter) and _is_promised(s, matter)]


def _is_promised(s: Sentence, matter: str) -> bool:
    if matter == "refund" and "again" not in s.places:
        return False
    places = s.at(f"do_{matter}", f"did_{matter}")
    if any(announced(s, at) and not _is_subject(s, at) for at in places):
        return True
    for at in s.at(f"noun_{matter}"):
        left, _ = clause(s, at)
        if announced(s, at) and not DOERS.isdisjoint(left):
            return True
        later = [p for p in s.at("created") if at < p <= at + _LINK and s.tokens[p - 1] != "being"]
        if any(announced(s, p) for p in later):
            return True  # "the exchange will be set up"
    return False
