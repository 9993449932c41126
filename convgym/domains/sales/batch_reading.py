"""A reply as numbers: all that its text says, whatever the state it comes in.

    text ─► understand ─► errors, problems of calls  ─► sentences that answers may quote
                      ├─► RawCall …                  ─► rows of `calls`
                      └─► Claim …                    ─► rows of `claims`

Text is compared here for the last time. A product is its row, a handle its number, a sum its
cents; what they mean in an episode is found out by `batch_grounding`, when a row takes the reply.
What a newcomer would get wrong: whether a product is in view is not known here, so a call for one
comes with the sentence for the case that it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from convgym.domains.sales import calls
from convgym.domains.sales.grounding import _FEATURE, _PLAIN, _per_mille, cents
from convgym.domains.sales.records import error_json
from convgym.domains.sales.vocabulary import (
    DENIALS,
    NEAREST,
    OBJECTIONS,
    OFFERS,
    PRICE_DENIALS,
    PROMISES,
    SLOTS,
)
from convgym.domains.sales.world import (
    CATEGORIES,
    EACH,
    FEATURES_EACH,
    PRODUCTS,
    product_by_name,
)
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.engine.batch import MOST_CALLS, MOST_SAID, Fields, numbers
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall

MOST_SUMS = 5
"""Different sums that an order can name and be right."""
CLAIM_WIDTH = 4 + MOST_SUMS
KIND, SLOT, VALUE, NAMED, SUMS = range(5)
"""Columns of a claim; `SUMS` is the first of those of an order, 0 where there are no more."""
CALL_WIDTH = 6
TOOL, ARGUMENT, DETAIL, PRODUCT, ABSENT, PROBLEM = range(CALL_WIDTH)
"""Columns of a call; the last two are places among the sentences, -1 for none: of its answer where
the product is not in view, and of what is wrong with it in any case."""
READING_FIELDS: Fields = [
    *numbers("n_errors n_calls n_claims length holds quotes denies_price"),
    *numbers("last_mentioned mentions_other"),
    ("mentioned", np.int32, (len(CATEGORIES),)),
    ("claims", np.int32, (MOST_SAID, CLAIM_WIDTH)),
    ("calls", np.int32, (MOST_CALLS, CALL_WIDTH)),
]
"""`length` is that of the speech in characters; `holds`, `quotes` and `denies_price` say what
stands anywhere in it. `mentioned` are bit sets of the products of each category that stand beside
an offer of the nearest one; `mentions_other` is 1 where a name among them is no product's."""

# Kinds of claims. What their columns SLOT and VALUE hold is written beside them.
(
    VOID,  # nothing that is heard in this shop
    SPOKEN,  # kind and argument of an act of speech, as they are
    FEATURE,  # 1 if it is had; number among all features, or `ASKED_FOR`
    TOTAL,  # -; cents
    DISCOUNT,  # -; per mille
    SAVING,  # -; cents
    LIST_PRICE,  # -; cents
    ADDON_PRICE,  # -; cents
    AUTHORITY,  # -; per mille
    DELIVERY,  # -; days
    STOCK,  # -; pieces, or `SOME`
    PRICE,  # -; cents
    HOLD,
    RECOMMEND,  # 1 if a quote is held out
    FLOOR,
    DENY,  # reason
    OFFER,  # offer; 1 if products are mentioned
    CONFIRM,  # -; pieces, 0 if none are named
    DONE,  # number of the order, 0 if none is named; pieces
) = range(19)
NOTHING, OTHER, HANDLE = -1, PRODUCTS, 100
"""Instead of a product's row: none is named; a name that is none of ours; "product:0" and on."""
ASKED_FOR = -1
SOME = -2
"""Pieces of "it is in stock"."""
UNLIKE = -1
"""Instead of a number: what agrees with none."""
FAR = 2_000_000_000
"""Cents beyond any price: sums from here on are only told from each other."""

_MEANINGS: dict[tuple[str, str], tuple[int, int, int]] = {
    ("ask", "more"): (SPOKEN, acts.ASK_MORE, 0),
    **{("ask", slot): (SPOKEN, acts.ASK, i) for i, slot in enumerate(SLOTS)},
    **{("answer", name): (SPOKEN, acts.EXPLAIN, 1 + i) for i, name in enumerate(OBJECTIONS)},
    **{("promise", what): (SPOKEN, acts.PROMISE, i) for i, what in enumerate(PROMISES)},
    ("inform", "has"): (FEATURE, 1, 0),
    ("inform", "lacks"): (FEATURE, 0, 0),
    ("inform", "total"): (TOTAL, 0, 0),
    ("inform", "discount"): (DISCOUNT, 0, 0),
    ("inform", "saving"): (SAVING, 0, 0),
    ("inform", "list_price"): (LIST_PRICE, 0, 0),
    ("inform", "addon_price"): (ADDON_PRICE, 0, 0),
    ("inform", "authority"): (AUTHORITY, 0, 0),
    ("inform", "delivery"): (DELIVERY, 0, 0),
    ("inform", "stock"): (STOCK, 0, 0),
    ("quote", ""): (PRICE, 0, 0),
    ("hold", ""): (HOLD, 0, 0),
    ("recommend", ""): (RECOMMEND, 0, 0),
    ("recommend", "quote"): (RECOMMEND, 1, 0),
    ("deny", "floor"): (FLOOR, 0, 0),
    **{("deny", reason): (DENY, i, 0) for i, reason in enumerate(DENIALS)},
    **{("offer", name): (OFFER, i, 0) for i, name in enumerate(OFFERS)},
    ("confirm", "book"): (CONFIRM, 0, 0),
    ("done", "book"): (DONE, 0, 0),
}
"""Kind, slot and value of claims by act and slot; what is not here says nothing."""
_MONEY = frozenset((TOTAL, SAVING, LIST_PRICE, ADDON_PRICE, PRICE))
_SHARES = frozenset((DISCOUNT, AUTHORITY))
_OF_PRICES = frozenset(DENIALS[:PRICE_DENIALS])
_NO_SUMS = (0,) * MOST_SUMS
_Row = tuple[int, ...]


def write_reading(turn: AgentTurn, into: np.void) -> tuple[str, ...]:
    """Write a reply as it was understood into a record of `READING_FIELDS`.

    Gives the sentences that its answers may quote: first its errors, each of which does, then what
    may be wrong with its calls.
    """
    into["n_errors"] = len(turn.errors)
    into["n_calls"] = len(turn.calls)
    into["n_claims"] = len(turn.said)
    into["length"] = len(turn.text)
    if turn.said:
        far: dict[int, int] = {}
        into["claims"][: len(turn.said)] = [_claim_row(claim, far) for claim in turn.said]
        _write_whole([claim for claim in turn.said if not isinstance(claim, Said)], into)
    if not turn.calls:
        return turn.errors
    quoted = list(turn.errors)
    into["calls"][: len(turn.calls)] = [_call_row(raw, quoted) for raw in turn.calls]
    return tuple(quoted)


def _write_whole(claims: Sequence[Any], into: np.void) -> None:
    """What claims have to do with others of the same reply."""
    spoken = {claim.act for claim in claims}
    into["holds"], into["quotes"] = "hold" in spoken, "quote" in spoken
    into["denies_price"] = any(c.act == "deny" and c.slot in _OF_PRICES for c in claims)
    if "offer" in spoken:
        # All offers of the nearest product name what the whole reply does.
        named = {c.value for c in claims if c[:2] == ("offer", OFFERS[NEAREST])} - {""}
        if named:
            _write_mentioned(named.pop().split("; "), into)


def _write_mentioned(names: list[str], into: np.void) -> None:
    products = {product_by_name(name) for name in names}
    into["last_mentioned"] = _product_named(names[-1])
    into["mentions_other"] = -1 in products
    into["mentioned"] = [
        sum(1 << product % EACH for product in products if product // EACH == category)
        for category in range(len(CATEGORIES))
    ]


# -- claims ----------------------------------------------------------------------------------------


def _claim_row(claim: Any, far: dict[int, int]) -> _Row:
    """A claim as numbers; `far` numbers the sums from `FAR` on."""
    if isinstance(claim, Said):
        return (SPOKEN, claim.kind, claim.argument, NOTHING, *_NO_SUMS)
    act, slot, value, named = claim
    if act in _PLAIN:
        return (SPOKEN, _PLAIN[act], 0, NOTHING, *_NO_SUMS)
    kind, part, number = _MEANINGS.get((act, slot), (VOID, 0, 0))
    product, sums = _product_named(named), _NO_SUMS
    if kind in _MONEY:
        number = _sum(value, far)
    elif kind in _SHARES:
        number = _per_mille(value)
    elif kind == FEATURE:
        number = ASKED_FOR if value == "asked" else _feature(value)
    elif kind == DELIVERY:
        number = _whole(value)
    elif kind == STOCK:
        number = SOME if value == "yes" else _whole(value)
    elif kind == OFFER:
        number = value != ""
    elif kind in (CONFIRM, DONE) and value:
        part, number, sums = _terms(value.split("; "))
    return (kind, part, number, product, *sums)


def _product_named(named: str) -> int:
    """A product by name or handle, as the column NAMED holds it."""
    if not named:
        return NOTHING
    if named.startswith("product:"):
        return HANDLE + int(named[8:])
    product = product_by_name(named)
    return product if product >= 0 else OTHER


def _sum(value: str, far: dict[int, int]) -> int:
    found = cents(value)
    return found if found < FAR else FAR + far.setdefault(found, len(far))


def _whole(value: str) -> int:
    """A number that is written as numbers of the shop are; `UNLIKE` for another."""
    fits = value.isascii() and value.isdecimal() and len(value) < 9
    return int(value) if fits and value == str(int(value)) else UNLIKE


def _feature(name: str) -> int:
    category, place = _FEATURE[name]
    return category * FEATURES_EACH + place


def _terms(terms: list[str]) -> tuple[int, int, _Row]:
    """(number of the order, pieces, sums) that a yes or a report names; `UNLIKE` for several."""
    parts: dict[str, set[str]] = {"pieces": set(), "sum": set(), "order": set()}
    for term in terms:
        kind, _, value = term.partition(" ")
        parts[kind].add(value)
    pieces = {int(value) for value in parts["pieces"]}
    sums = {cents(value) for value in parts["sum"]}
    # Two numbers of pieces, or more sums than an order has, agree as little as what is none.
    wrong = len(pieces) > 1 or len(sums) > MOST_SUMS or 0 in pieces
    wrong = wrong or any(not 0 < found < FAR for found in sums)
    orders = [_order(number) for number in parts["order"]]
    return (
        (orders[0] if len(orders) == 1 else UNLIKE) if orders else 0,
        UNLIKE if wrong else sum(pieces),
        _NO_SUMS if wrong else (*sums, *_NO_SUMS[len(sums) :]),
    )


def _order(number: str) -> int:
    """`S15012` as 15012; `UNLIKE` for what is no number of this shop's orders."""
    found = _whole(number[1:])
    return found if number.startswith("S") and found > 0 else UNLIKE


# -- calls -----------------------------------------------------------------------------------------


def _seeing(view: Sequence[int]) -> Episode:
    """All that the grounding of a call asks of an episode."""
    return cast(Episode, SimpleNamespace(desk=SimpleNamespace(view=view)))


_SEES_ALL, _SEES_NOTHING = _seeing(range(PRODUCTS)), _seeing(())


def _call_row(raw: RawCall, quoted: list[str]) -> _Row:
    """A call as numbers; the sentences that it may be answered with are added to `quoted`."""
    tool = calls._NUMBER.get(raw.name, UNLIKE)
    seen = calls.ground_call(_SEES_ALL, raw)
    if isinstance(seen, Call) and seen.pointer < 0:
        return (tool, seen.argument, seen.detail, NOTHING, -1, -1)
    unseen = calls.ground_call(_SEES_NOTHING, raw)
    assert isinstance(unseen, str), "what points at a product needs one in view"
    place = len(quoted)
    quoted.append(error_json(unseen))
    if seen == unseen:
        return (tool, 0, 0, NOTHING, -1, place)
    product = _product_called(raw.arguments["product"])
    if isinstance(seen, str):
        quoted.append(error_json(seen))
        return (tool, 0, 0, product, place, place + 1)
    return (tool, seen.argument, seen.detail, product, place, -1)


def _product_called(named: str) -> int:
    """A product that a call names, as the column PRODUCT holds it."""
    pointer = calls.pointer_of(_SEES_ALL, named)
    return HANDLE + pointer + 1 if named.strip().lower().startswith("product:") else pointer
