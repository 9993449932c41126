"""What replies at this shop's desk claim, as numbers: `Forms` of its hooks.

    "5 Mill Lane"     codes of the addresses that begin so, which stand side by side
    "delivered"       the code of that stage
    "15"              a share, held against the fee
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk import grounding
from convgym.desk.batch_grounding import NEVER, OF_DETAIL, OF_SHARE
from convgym.desk.batch_reading import Check, Range
from convgym.desk.declaration import Workflow
from convgym.domains.customer_service.claims import LATE
from convgym.domains.customer_service.desk import (
    REFUSED_TOO_LATE,
    SHIPPED_TOLD,
    CustomerServiceDesk,
    place_in,
)
from convgym.domains.customer_service.world import (
    CUSTOMERS,
    DELIVERED,
    ORDERS_EACH,
    STAGES,
    plain,
    world,
)

_KEPT = 1 << 14
"""Values of each field that are kept as they were read."""
_ORDERS = CUSTOMERS * ORDERS_EACH
_FIELDS = ("status", "eta", "address", "variant")
"""Of orders: the facts in order, then what is wanted."""


class _Texts:
    """The texts of one field of the orders, by the words that they are made of.

    What agrees with an address has the same first word, so that no more than a few are looked at.
    """

    def __init__(self, field: str) -> None:
        texts = [world().text("order", row, field) for row in range(_ORDERS)]
        rows = {text: row for row, text in enumerate(texts)}
        every = sorted(rows, key=plain)
        code = {text: at for at, text in enumerate(every)}
        self.field, self.codes = field, np.array([code[text] for text in texts])
        self.rows = [rows[text] for text in every]
        """An order that has each of them."""
        self._first: dict[str, Range] = {}
        for at, text in enumerate(every):
            word = plain(text)[0]
            self._first[word] = (self._first.get(word, (at, at))[0], at + 1)
        self.agreeing = lru_cache(_KEPT)(self._agreeing)

    def among(self, said: str) -> range:
        """The codes that can agree with what was said."""
        if self.field != "address":
            return range(len(self.rows))
        return range(*self._first.get(next(iter(plain(said)), ""), (0, 0)))

    def _agreeing(self, said: str) -> Range:
        return side_by_side(
            [c for c in self.among(said) if world().agrees("order", self.rows[c], self.field, said)]
        )


def side_by_side(codes: Sequence[int]) -> Range:
    """Codes as a range."""
    if not codes:
        return 0, 0
    low, high = codes[0], codes[-1] + 1
    assert high - low == len(codes), f"{codes} do not stand side by side"
    return low, high


@cache
def _texts() -> dict[str, _Texts]:
    return {field: _Texts(field) for field in _FIELDS}


class ShopForms:
    """`convgym.desk.batch_reading.Forms` of the shop."""

    share = "fee"

    def __init__(self, desk: CustomerServiceDesk) -> None:
        self._desk, self._d = desk, desk.declaration
        assert tuple(self._d.facts) == _FIELDS[:2]
        self.reasons = (*self._d.reasons, LATE)
        self.wanted = {"address": 2, "exchange": 3}
        self.codes: NDArray[np.int64] = np.array([_texts()[field].codes for field in _FIELDS])
        stages = [world().text("order", row, "status") for row in _texts()["status"].rows]
        self._delivered = stages.index(STAGES[DELIVERED])
        self.given = lru_cache(_KEPT)(self._given)

    def fact(self, fact: str, value: str) -> Range:
        """What a fact as it was told agrees with."""
        return _texts()[fact].agreeing(value)

    def _given(self, workflow: Workflow, value: str) -> Range:
        """What a detail in a call agrees with, to its last word."""
        texts = _texts()[workflow.details[0]]
        found = []
        for code in texts.among(value):
            case: Any = SimpleNamespace(
                workflow=workflow, request=SimpleNamespace(row=texts.rows[code])
            )
            if grounding._detail(self._desk, case, workflow, texts.field, value):
                found.append(code)
        return side_by_side(found)

    def asked(self, workflow: str, value: str) -> Check:
        """What a question names: an address or a variant; a fee with a return."""
        if workflow in ("return", "cancel"):
            if value in ("", "0"):
                return Check()
            return Check(int(value), sort=OF_SHARE) if _is_share(value) else Check(sort=NEVER)
        if workflow == "address" and not value:
            return Check(sort=NEVER)
        return self._detail(workflow, value)

    def reported(self, workflow: str, value: str) -> Check:
        """What a report names; what follows the street may be anything but another town."""
        if workflow in ("return", "cancel"):
            return Check()
        return self._detail(workflow, place_in(value) if workflow == "address" else value)

    def _detail(self, workflow: str, value: str) -> Check:
        if not value:
            return Check()
        (detail,) = self._d.workflow[workflow].details
        return Check(*_texts()[detail].agreeing(value), OF_DETAIL)

    def term(self, term: str, value: str) -> Check:
        """A fee as the percent that it was said to be; any other term by the name of its value."""
        if term == "fee" and value.isdigit():
            percent = int(value)
            return Check(percent, 1, OF_SHARE) if percent else Check()
        return Check(high=self._d.terms[term].index(value))

    def explained(self, said: Sequence[Any]) -> list[int]:
        """"It has shipped" beside a refusal also holds of what was delivered."""
        if not any(one[:2] in REFUSED_TOO_LATE for one in said):
            return [-1] * len(said)
        return [self._delivered if one[:3] == SHIPPED_TOLD else -1 for one in said]


def _is_share(value: str) -> bool:
    """Whether it is a number as parameters are written."""
    return value.isdecimal() and value == str(int(value))
