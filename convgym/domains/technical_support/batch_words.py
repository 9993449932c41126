"""What a step of the batched support engine brought, in words: results and customer acts.

    (code, integers) ─► the JSON that the tool of the single engine answers
    (act, device)    ─► the JSON, or the name and values, of one act

Each text is made once and kept while it is asked for often; a turn is put together of them.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from convgym.desk.state import answer_json, error_json
from convgym.domains.technical_support import batch_tables as codes
from convgym.domains.technical_support.dialogue import ACTIONS, USER_ACTS, VIEW
from convgym.domains.technical_support.tools import described, record
from convgym.domains.technical_support.view import _FIRST, _PLAIN, _VALUES, acts_json, spoken
from convgym.domains.technical_support.vocabulary import KINDS, VALUE_NAMES
from convgym.domains.technical_support.world import DEVICES_EACH, PLANS, world
from convgym.engine.batch import ILLEGAL
from convgym.language.voice import Spoken

_KEPT = 1 << 15
"""Texts of one sort that are kept."""


# -- what tools answer -----------------------------------------------------------------------------


@lru_cache(maxsize=_KEPT)
def result_text(code: int, first: int, second: int, third: int) -> str:
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


def turn_json(acts: list[int], device: int) -> str:
    """Acts of the customer with this device, as JSON."""
    return f"[{', '.join([_JSON[act] or _stated_json(act, device) for act in acts])}]"


def turn_spoken(acts: list[int], kind: int, device: int) -> list[Spoken]:
    """Acts of the customer with this device by name, with what each states."""
    plain = _SPOKEN[kind]
    return [plain[act] or _stated(act, device) for act in in_order(acts)]


@lru_cache(maxsize=_KEPT)
def _stated_json(act: int, device: int) -> str:
    return acts_json(_caller(device), (act,))[1:-1]


@lru_cache(maxsize=_KEPT)
def _stated(act: int, device: int) -> Spoken:
    return spoken(_caller(device), (act,))[0]


def in_order(acts: list[int]) -> list[int]:
    """Acts as `spoken` of the single engine puts them."""
    if len(acts) > 1 and _PLAIN_ACTS.issuperset(acts):
        acts.sort(key=_AFTER_FIRST)
    return acts


_PLAIN_ACTS = frozenset(_PLAIN)
_AFTER_FIRST = {act: act not in _FIRST for act in _PLAIN}.__getitem__


def _caller(device: int) -> Any:
    """As much of a task as a customer's values are told from."""
    return SimpleNamespace(
        device=device, customer=device // DEVICES_EACH, kind=world().kind[device]
    )


_OF_KIND = tuple(world().kind.index(kind) for kind in range(len(KINDS)))
"""Some device of each kind."""
_JSON = tuple(
    "" if name in _VALUES else _stated_json(act, 0) for act, name in enumerate(USER_ACTS)
)
"""Acts that state nothing of their own as JSON; empty for the others."""
_SPOKEN = tuple(
    tuple(None if name in _VALUES else _stated(act, some) for act, name in enumerate(USER_ACTS))
    for some in _OF_KIND
)
"""The same by name, for each kind of device."""
