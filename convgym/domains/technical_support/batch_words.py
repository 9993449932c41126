"""What a step of the batched support engine brought, in words: results and customer acts.

    (code, integers) ─► the JSON that the tool of the single engine answers
    (act, device)    ─► the JSON, or the name and values, of one act

Each text is made once and kept while it is asked for often; a turn is put together of them.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.state import answer_json, error_json
from convgym.domains.technical_support import batch_tables as codes
from convgym.domains.technical_support.dialogue import ACTIONS, HEARD_AS, USER_ACTS, VIEW
from convgym.domains.technical_support.tools import described, record
from convgym.domains.technical_support.view import (
    FIRST,
    OPENING,
    VALUES,
    acts_json,
    spoken,
)
from convgym.domains.technical_support.vocabulary import KINDS, VALUE_NAMES
from convgym.domains.technical_support.world import DEVICES_EACH, PLANS, world
from convgym.engine.batch import ILLEGAL
from convgym.engine.turn_words import Numbers
from convgym.language.voice import Spoken

_KEPT = 1 << 15
"""Texts of one sort that are kept."""


# -- what tools answer -----------------------------------------------------------------------------


@lru_cache(maxsize=_KEPT)
def _result(code: int, first: int, second: int, third: int, *_: int) -> str:
    """What a tool answered."""
    if code == ILLEGAL:
        return error_json(f"{ACTIONS.names[first]} refers to nothing seen so far")
    if code in _ERRORS:
        return error_json(_ERRORS[code])
    if code in _PLAIN_ANSWERS:
        return answer_json(**_PLAIN_ANSWERS[code])
    return _MADE[code](first, second, third)


_ERRORS = {
    codes.NO_ACCOUNT: "no account is kept under this phone number",
    codes.NOT_OPEN: "no account is open; call find_customer first",
    codes.NO_DEVICE: "this account has no such device",
    codes.NO_SUCH_DEVICE: "this account has no such device; call list_devices to see them",
    codes.NOT_READ: "this device was not read yet; call get_device first",
    codes.DONE_BEFORE: "this was done before",
}
_PLAIN_ANSWERS: dict[int, dict[str, Any]] = {
    codes.ENDED: {"ended": True},
    codes.HANDED: {"transferred": True},
    codes.VERIFIED: {"verified": True},
    codes.NOT_VERIFIED: {"verified": False, "error": "this is not the PIN of the account"},
}


def _account(account: int, overdue: int, unverified: int) -> str:
    provider = world()
    return answer_json(
        customer=provider.name(account),
        phone=provider.phone(account),
        area=provider.area_name(account),
        plan=PLANS[provider.plan[account]],
        bill_overdue=bool(overdue),
        needs_verification=bool(unverified),
    )


def _listed(account: int, *_: int) -> str:
    desk = _in_view(account)
    return answer_json(devices=[described(desk, pointer) for pointer in VIEW])


def _device(row: int, replaced: int, *_: int) -> str:
    account, pointer = divmod(row, DEVICES_EACH)
    desk = _in_view(account, device=row, replaced=replaced)
    return answer_json(**described(desk, pointer), **record(desk, pointer))


def _in_view(account: int, **task: int) -> Any:
    """As much of an episode as records are told from."""
    return SimpleNamespace(desk=SimpleNamespace(account=account), task=SimpleNamespace(**task))


def _nothing(pointer: int, *_: int) -> str:
    return answer_json(device=f"device:{pointer + 1}", result="does not apply")


def _shown(pointer: int, value: int, raised: int) -> str:
    more = {} if raised < 0 else {"raised_this_month": raised}
    return answer_json(device=f"device:{pointer + 1}", result=VALUE_NAMES[value], **more)


def _area(account: int, out: int, *_: int) -> str:
    return answer_json(area=world().area_name(account), result="outage" if out else "ok")


def _written(pointer: int, ordered: int, *_: int) -> str:
    return answer_json(device=f"device:{pointer + 1}", **{"ordered" if ordered else "done": True})


_MADE: dict[int, Any] = {
    codes.ACCOUNT: _account,
    codes.LISTED: _listed,
    codes.DEVICE: _device,
    codes.NOTHING_SHOWN: _nothing,
    codes.SHOWN: _shown,
    codes.AREA: _area,
    codes.WRITTEN: _written,
}


# -- what customers say ----------------------------------------------------------------------------

_STATES = np.array([name in VALUES for name in USER_ACTS])
"""Acts whose value is one device's own; what was seen is worded alike for all of a kind."""
_OF_KIND = tuple(world().kind.index(kind) for kind in range(len(KINDS)))
"""Some device of each kind."""


@lru_cache(maxsize=_KEPT)
def _said(act: int, number: int) -> tuple[str, Spoken]:
    """An act as JSON, and by name with what it states, of this device or kind of device."""
    device = number if _STATES[act] else _OF_KIND[number]
    # As much of a task as a customer's values are told from.
    task: Any = SimpleNamespace(
        device=device, customer=device // DEVICES_EACH, kind=world().kind[device]
    )
    return acts_json(task, (act,))[1:-1], spoken(task, (act,))[0]


class SupportWords:
    """`TurnWords` of technical support."""

    names = HEARD_AS
    opening = np.isin(np.arange(len(USER_ACTS)), OPENING)
    informs = opening & ~np.isin(np.arange(len(USER_ACTS)), FIRST)

    result = staticmethod(_result)

    def stated(
        self, acts: Numbers, of: NDArray[np.int32], about: Numbers, tasks: NDArray[np.void]
    ) -> Numbers:
        """The device of an act that states something of its own, else its kind; 0.  (n, 2)"""
        made = np.zeros((len(acts), 2), dtype=np.int64)
        made[:, 0] = np.where(_STATES[acts], tasks["device"][of], tasks["kind"][of])
        return made

    def act_json(self, act: int, first: int, second: int) -> str:
        """An act as a JSON object."""
        return _said(act, first)[0]

    def act(self, act: int, first: int, second: int) -> Spoken:
        """An act by name, with the slot and the value of one that states something."""
        return _said(act, first)[1]
