"""Prices, totals, discounts and pieces in an agent's sentence.

    "With 5% off the Aster Slim is $1,186.55 each, $3,559.65 in total, instead of $1,249."
      discount=5            quote=1186.55          total=3559.65          list_price=1249

What a newcomer would get wrong: each sum has one role, told by the nearest word that gives one.
What is refused, guessed, wished for by the buyer, or asked elsewhere is no price of this shop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from convgym.domains.sales.world import RIVALS
from convgym.language.figures import Figure, as_sum
from convgym.language.lines import Line, is_denied_far, is_hedged
from convgym.language.moods import taken_back
from convgym.language.statements import is_denied_after

QUOTE, TOTAL, LIST_PRICE = "quote", "total", "list_price"
ADDON_PRICE, SAVING = "addon_price", "saving"
DISCOUNT, AUTHORITY = "discount", "authority"


class Price(NamedTuple):
    """One figure and what it is."""

    place: int
    role: str
    value: str
    """`1186.55`, `1249`, `7.5`."""
    product: str
    """As it is named; empty for the one spoken of."""


_ROUGH = frozenset(
    "about around roughly approximately nearly almost circa most least under over above below "
    "between beyond maximum minimum max min approx starts starting".split()
)
_SUM_AFTER = frozenset("total altogether all overall both".split())
_EACH = frozenset("each apiece per a piece".split())
_OFF = frozenset("off discount less cheaper lower reduction rebate below savings saving".split())
_OFFING = frozenset(
    "discount reduction reduced reduce lowered lower off by minus knock knocked take took taken "
    "shave deduct rebate".split()
)
_MOST = frozenset("most maximum highest largest biggest limit beyond exceed authority max".split())
_MOST_PAIRS = (("up", "to"), ("more", "than"), ("higher", "than"), ("at", "most"))
_WISHES = frozenset(
    "asked ask want wanted wish wished propose proposed suggested requested demanded hoped hoping "
    "mentioned offered said need budget spend afford".split()
)
_ELSEWHERE = frozenset(word.lower().split()[0] for word in RIVALS) | {
    "elsewhere", "they", "competitor", "competitors", "theirs",
}  # fmt: skip
_ROLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (TOTAL, ("total", "altogether", "sum")),
    (LIST_PRICE, ("list", "listed", "regular", "regularly", "normally", "usually", "originally",
                  "original", "was", "instead", "from", "before", "retail", "catalogue")),
    (SAVING, ("save", "saves", "saving", "savings")),
    ("shipping", ("shipping", "postage")),
)  # fmt: skip
_ROLE_OF = {word: role for role, words in _ROLES for word in words}
_ALL = re.compile(r"^for (?:both|all|the (?:two|three|four|five|lot)|(?:two|three|four|five) )")
_ALL_BEFORE = re.compile(
    r"\ball in all\b|\bin all\b"
    r"|\b(?:two|three|four|five|six|both|all)(?: of them| pieces)? (?:make|cost|come)"
)
_SUMMED = frozenset("all make cost come".split())
"""One of these stands in all that `_ALL_BEFORE` finds."""
_NEAR = 7
"""Words before a figure in which its role is looked for."""
_PRICED = 9
_PRICE_WORDS = frozenset(
    "price prices priced cost costs pay paid charge total quote quoted offer deal for at is its "
    "be comes come makes make thats that only just to do have get asking ask sell amounts offering "
    "of drops stays remains".split()
)
_NOT_MONEY = frozenset(
    "% percent pct per gb tb mb days day hours hour years year months month minutes reviews stars "
    "customers pieces piece units unit items pcs x working business weeks products models inch "
    "laptops phones cameras headphones chairs machines office coffee of left times features people"
    .split()
)  # fmt: skip
_COUNTED = frozenset("number order reference id no number".split())
_DECIMAL = re.compile(r"\d{1,3}\.\d{1,2}$")


def prices_told(line: Line, addon: bool = False) -> list[Price]:
    """The prices, totals and discounts that it tells, in order.

    `addon`: the sentence before speaks of the add-on, so that "it" may be that.
    """
    shares = percents(line)
    if not (line.figures or shares) or line.staged or line.carried:
        return []
    if "condition" in line.places or is_hedged(line):
        return []
    if line.question and not _suggests(line):
        return []
    told = [price for figure in line.figures if (price := _sum(line, figure))]
    if addon and not line.named and len(told) == 1 and told[0].role == QUOTE:
        told = [told[0]._replace(role=ADDON_PRICE)]
    told += [price for share in shares if (price := _share(line, *share))]
    return sorted(told)


def _suggests(line: Line) -> bool:
    """"How about $950?", "Would $950 work?" """
    tokens = line.tokens
    if tokens[:2] in (["how", "about"], ["what", "about"]):
        return True
    if tokens[:2] == ["what", "do"] or tokens[:2] == ["what", "would"]:
        return not {"say", "think"}.isdisjoint(tokens[:5])
    return tokens[0] in ("would", "does") and not _SUITS.isdisjoint(tokens)


_SUITS = frozenset("work suit sound ok okay liking help acceptable fine better do".split())


# -- sums ------------------------------------------------------------------------------------------


def _sum(line: Line, figure: Figure) -> Price | None:
    if not is_money(line, figure) or not _is_meant(line, figure.start, figure.end):
        return None
    role = role_of(line, figure)
    if not role or role == "shipping":
        return None
    if role != LIST_PRICE and taken_back(line.sentence, figure.start, "governor"):
        return None
    return Price(figure.start, role, as_sum(figure.value), line.object_at(figure.start))


def is_money(line: Line, figure: Figure) -> bool:
    """A sum with its currency, or a plain number where a price is due."""
    tokens = line.tokens
    if figure.kind == "money":
        return True
    if figure.kind != "number" or len(figure.value) < 2:
        return False
    if tokens[figure.end : figure.end + 1] and tokens[figure.end] in _NOT_MONEY:
        return tokens[figure.end : figure.end + 2] in (["per", "piece"], ["per", "unit"])
    before = tokens[max(0, figure.start - 2) : figure.start]
    if not _COUNTED.isdisjoint(before):
        return False
    named = any(hit.end == figure.start for hit in line.named)
    return float(figure.value) >= 15 and (named or not _PRICE_WORDS.isdisjoint(before))


def _is_meant(line: Line, start: int, end: int) -> bool:
    """Neither refused, nor rough, nor somebody else's."""
    tokens = line.tokens
    before = tokens[max(0, start - 2) : start]
    asked = tokens[:2] in (["how", "about"], ["what", "about"])
    if not (asked or _ROUGH.isdisjoint(before)) or tuple(before) in (("up", "to"), ("or", "so")):
        return False
    if tokens[start - 1 : start] == ["or"] or tokens[end : end + 1] == ["or"]:
        return False
    if is_denied_far(line, start) or _denied_after(line, end) or _than(tokens, start):
        return False
    clause = tokens[clause_start(tokens, start) : start]
    if not _WISHES.isdisjoint(clause) and not {"you", "your", "youd"}.isdisjoint(clause):
        return "can" in clause or "i" in clause
    if not {"budget", "spend", "afford"}.isdisjoint(clause):
        return False
    around = (*clause, *tokens[end : end + 4])
    return _ELSEWHERE.isdisjoint(around)


def _denied_after(line: Line, end: int) -> bool:
    """"$900 is not possible"; a "would" behind a price is no denial of it."""
    s = line.sentence
    no = [at for at in s.at("negation", "unable") if end <= at <= end + 3]
    return bool(no) and is_denied_after(line, end)


def _than(tokens: Sequence[str], start: int) -> bool:
    return "than" in tokens[max(0, start - 3) : start]


def clause_start(tokens: Sequence[str], place: int) -> int:
    """Where the clause of a figure begins: behind the last comma that ends another one."""
    for at in range(place - 1, -1, -1):
        if tokens[at] in (",", "because", "while", "whereas", "so"):
            return at + 1
    return 0


def role_of(line: Line, figure: Figure) -> str:
    """What a sum is: of the words around it the nearest one that tells; empty for none."""
    tokens, start, end = line.tokens, figure.start, figure.end
    after = tokens[end : end + 4]
    if after and (after[0] in _OFF or after[:2] in (["of", "savings"], ["as", "savings"])):
        return SAVING
    while after and after[0] in ("in", "as", ","):
        del after[0]
    if after and (after[0] in _SUM_AFTER or _ALL.search(" ".join(after))):
        return TOTAL
    before = tokens[max(0, start - _NEAR) : start]
    if not _SUMMED.isdisjoint(before) and _ALL_BEFORE.search(" ".join(before)):
        return TOTAL
    if after[:2] == ["on", "top"]:
        return ADDON_PRICE
    if after[:1] in (["extra"], ["more"]) or after[:2] == ["per", "order"]:
        return ADDON_PRICE
    addons = [hit for hit in line.of("offer") if hit.name == "addon"]
    addon = max([hit.end for hit in addons if hit.end <= start], default=-1)
    last = max([f.end for f in line.figures if f.end <= start and f.kind == "money"], default=0)
    named = max([hit.end for hit in line.named if hit.end <= start], default=-1)
    if named < 0 and any(end <= hit.start <= end + _NEAR for hit in addons):
        return ADDON_PRICE  # "for another $59 you could have our floor mat"
    begin = max(last, start - _NEAR, 0)
    told = addon > begin or not _ROLE_OF.keys().isdisjoint(tokens[begin:start])
    for at in range(start - 1, begin - 1, -1) if told else ():
        if at < addon and addon > max(named, last):
            return ADDON_PRICE
        role = _ROLE_OF.get(tokens[at], "")
        if role == TOTAL and not _EACH.isdisjoint(after[:1]):
            continue  # "the sum for each is $649 per unit"
        if role and not (role == LIST_PRICE and _is_new(tokens, at)):
            return role
    if addon > max(named, last) and start - addon <= (_NEAR if line.named else 3 * _NEAR):
        return ADDON_PRICE
    return QUOTE if _is_priced(line, figure) else ""


def _is_new(tokens: Sequence[str], at: int) -> bool:
    """"From the order to your door", "before I book it" give no list price."""
    if tokens[at] in ("from", "before"):
        follows = tokens[at + 1 : at + 2]
        return not (follows and (follows[0][:1].isdigit() or follows[0] in ("the", "it")))
    return tokens[at] in ("normally", "usually") and "delivery" in tokens


def _is_priced(line: Line, figure: Figure) -> bool:
    """Something says that the sum is a price."""
    tokens, start = line.tokens, figure.start
    if any(hit.end == start for hit in line.named) or len(tokens) <= 6:
        return True
    if not _EACH.isdisjoint(tokens[figure.end : figure.end + 1]):
        return True
    if not _PRICE_WORDS.isdisjoint(tokens[max(0, start - _PRICED) : start]):
        return True
    if not {"price", "offer", "quote"}.isdisjoint(tokens[figure.end : figure.end + 6]):
        return True
    return any(0 <= start - cue.end <= _PRICED for cue in line.of("quoting"))


# -- percentages -----------------------------------------------------------------------------------


_PER = frozenset(("%", "percent", "pct", "per"))


def percents(line: Line) -> list[tuple[int, int, str]]:
    """(place, end, value) of every percentage, also one with decimals."""
    if _PER.isdisjoint(line.words):
        return []
    tokens = line.tokens
    found = [(f.start, f.end, f.value) for f in line.figures if f.kind == "percent"]
    for place in [at for at, token in enumerate(tokens) if token in _PER]:
        end = place + (2 if tokens[place] == "per" else 1)
        if place and _DECIMAL.match(tokens[place - 1]):
            if tokens[place + 1 : end] in ([], ["cent"]):
                found.append((place - 1, end, tokens[place - 1].rstrip("0").rstrip(".")))
    return found


def _share(line: Line, start: int, end: int, value: str) -> Price | None:
    tokens = line.tokens
    before = tokens[max(0, start - 7) : start]
    product = line.object_at(start)
    pairs = set(pairwise(before))
    off = not _OFF.isdisjoint(tokens[end : end + 4]) or not _OFFING.isdisjoint(before)
    if not _MOST.isdisjoint(before) or not pairs.isdisjoint(_MOST_PAIRS):
        theirs = not {"you", "your"}.isdisjoint(before) and not _WISHES.isdisjoint(before)
        return None if theirs else Price(start, AUTHORITY, value, product)
    if tokens[end : end + 1] == ["is"] and not _MOST.isdisjoint(tokens[end : end + 4]):
        return Price(start, AUTHORITY, value, product)
    if tokens[end : end + 3] == ["at", "most"] or tokens[end : end + 2] == ["at", "maximum"]:
        return Price(start, AUTHORITY, value, product)
    if not off or not _is_meant(line, start, end):
        return None
    if taken_back(line.sentence, start, "governor"):
        return None
    return Price(start, DISCOUNT, value, product)


# -- pieces ----------------------------------------------------------------------------------------

_COUNT = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), start=1
    )
}
_PIECES = frozenset(
    "piece pieces unit units pcs pc item items x laptop laptops phone phones camera cameras chair "
    "chairs machine machines headphones headphone pair pairs".split()
)
_QUANTITY = frozenset(("quantity", "qty"))
_COUNTING = _PIECES | _QUANTITY
_MOST_PIECES = 999


def pieces(line: Line) -> list[int]:
    """How many pieces it names: "3 pieces", "2 x Calm Curve", "quantity: 2"."""
    tokens, found = line.tokens, []
    if not line.named and _COUNTING.isdisjoint(line.words):
        return []
    starts = {hit.start for hit in line.named}
    numbers = [at for at, token in enumerate(tokens) if token.isdecimal() or token in _COUNT]
    for at in numbers:
        token = tokens[at]
        number = _COUNT.get(token) or (int(token) if len(token) < 4 else 0)
        if not 0 < number <= _MOST_PIECES:
            continue
        end = at + 1
        if tokens[end : end + 1] in (["office"], ["coffee"], ["of"]):
            end += 1
            if tokens[end : end + 1] in (["the"], ["these"], ["our"]):
                end += 1
        follows = tokens[end] if end < len(tokens) else ""
        counted = follows in _PIECES or end in starts
        named = not _QUANTITY.isdisjoint(tokens[max(0, at - 3) : at])
        if (counted or named) and "per" not in tokens[max(0, at - 1) : at]:
            found.append(number)
    return found


def named_sums(line: Line) -> list[str]:
    """The sums that a request for a yes or a report of an order names, whatever their role."""
    return [
        as_sum(figure.value)
        for figure in line.figures
        if is_money(line, figure) and role_of(line, figure) not in (SAVING, "shipping")
    ]
