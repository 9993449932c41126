"""The texts of a desk's rows: what tools answered, and the customer's turns by name.

    (code, numbers) ─► the text of `convgym.desk.tools`      kept, so that none is made twice
    (act, place)    ─► a piece of `wording.acts_json`, a `Spoken`      the same

An act of the customer states nothing, one and the same word, or a value of its account or of the
record that it is about. `TurnWords` of a desk.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from convgym.desk import batch_tools, wording
from convgym.desk.declaration import ACCOUNT
from convgym.desk.state import answer_json, error_json
from convgym.desk.tasks import KNOWS_ID, Request, Task
from convgym.engine.batch import ILLEGAL
from convgym.engine.rules import ALLOW, Decision
from convgym.engine.turn_words import Numbers
from convgym.language.voice import Spoken

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk

_KEPT = 1 << 14
"""Texts of each sort that are kept."""
_NOTHING, _OF_ACCOUNT, _OF_RECORD = range(3)


class DeskWords:
    """Words of one desk; holds no episode's state."""

    def __init__(self, desk: ServiceDesk) -> None:
        self._desk, self._d, self._records = desk, desk.declaration, desk.records
        self._names = desk.v.user_acts
        self.names = plain = tuple(name.removesuffix("_wrong") for name in self._names)
        self._owners = np.array([self._owner(name) for name in plain])
        self.opening = np.array(
            [name.startswith(("greet", "request_", "inform_")) for name in plain]
        )
        self.informs = np.array([name.startswith("inform_") for name in plain])
        self.result = lru_cache(_KEPT)(self._result)
        self.act_json = lru_cache(_KEPT)(self._act_json)
        self.act = lru_cache(_KEPT)(self._act)

    def _owner(self, plain: str) -> int:
        slot = self._desk.value_slots.get(plain, "")
        if slot in (self._d.account.key, self._d.account.secret):
            return _OF_ACCOUNT
        return _OF_RECORD if slot else _NOTHING

    # -- what tools answered -----------------------------------------------------------------------

    def _result(self, code: int, first: int, second: int, third: int, *_: int) -> str:
        d, records = self._d, self._records
        if code == ILLEGAL:
            name = self._desk.actions.names[first]
            return error_json(f"{name} refers to nothing seen so far")
        if code == batch_tools.NOT_AVAILABLE:
            name = self._desk._tasks.tools[first]
            return error_json(f"{name} is not available at the moment; try again")
        if code == batch_tools.NO_ACCOUNT:
            return error_json(f"no account is kept under this {d.account.key}")
        if code == batch_tools.NOT_OPEN:
            return error_json(f"no account is open; call {d.account.find} first")
        if code == batch_tools.OPENED:
            return self._opened(first, bool(second))
        if code == batch_tools.VERIFIED:
            return answer_json(verified=True)
        if code == batch_tools.NOT_VERIFIED:
            error = f"this is not the {d.account.secret} of the account"
            return answer_json(verified=False, error=error)
        if code == batch_tools.LISTED:
            return self._listed(first, second)
        if code == batch_tools.NO_RECORD:
            return error_json(f"this account has no such {d.kinds[first].name}")
        if code == batch_tools.READ:
            return self._read(first, second, third)
        if code == batch_tools.MADE_BEFORE:
            return error_json("this change was made before")
        if code == batch_tools.MADE:
            change = d.writes[first]
            number = records.text(change.kind, second, change.kind or d.account.key)
            return answer_json(
                **{change.kind or d.account.name: number, change.says or "done": True}
            )
        if code == batch_tools.HANDED_OVER:
            return answer_json(transferred=True)
        assert code == batch_tools.HUNG_UP, f"{code} is no code of a result"
        return answer_json(ended=True)

    def _opened(self, account: int, needs_verification: bool) -> str:
        records = self._records
        shown = {
            field: records.text(ACCOUNT, account, field) for field in records.columns[ACCOUNT]
        }
        return answer_json(
            **{self._d.account.name: records.text(ACCOUNT, account, "name")},
            **shown,
            needs_verification=needs_verification,
        )

    def _listed(self, number: int, account: int) -> str:
        kind, text = self._d.kinds[number], self._records.text
        rows = [
            {
                "handle": f"{kind.name}:{k + 1}",
                kind.name: text(kind.name, account * kind.each + k, kind.name),
                **{f: text(kind.name, account * kind.each + k, f) for f in kind.listed},
            }
            for k in range(kind.each)
        ]
        return answer_json(**{kind.many: rows})

    def _read(self, number: int, row: int, pointer: int) -> str:
        kind, text = self._d.kinds[number], self._records.text
        return answer_json(
            handle=f"{kind.name}:{pointer + 1}",
            **{kind.name: text(kind.name, row, kind.name)},
            **{field: text(kind.name, row, field) for field in kind.shown},
        )

    # -- the customer's turns ----------------------------------------------------------------------

    def stated(
        self, acts: Numbers, of: NDArray[np.int32], about: Numbers, tasks: NDArray[np.void]
    ) -> Numbers:
        """(workflow, row) that the value of each act is of; -1 where there is none.  (n, 2)

        A value of the account has its row alone.
        """
        owners, made = self._owners[acts], np.full((len(acts), 2), -1)
        own = np.flatnonzero(owners == _OF_ACCOUNT)
        made[own, 1] = tasks["account"][of[own]]
        own = np.flatnonzero(owners == _OF_RECORD)
        made[own, 0] = tasks["workflow"][of[own], about[own]]
        made[own, 1] = tasks["row"][of[own], about[own]]
        return made

    def _act_json(self, act: int, workflow: int, row: int) -> str:
        name = self._names[act]
        value = self._value(name, workflow, row)
        plain = name.removesuffix("_wrong")
        return json.dumps({"act": plain, "value": value} if value else {"act": plain})

    def _act(self, act: int, workflow: int, row: int) -> Spoken:
        name = self._names[act]
        plain = name.removesuffix("_wrong")
        slot = self._desk.value_slots.get(plain, "")
        return Spoken(plain, slot, self._value(name, workflow, row)) if slot else Spoken(plain)

    def _value(self, name: str, workflow: int, row: int) -> str:
        """The value that an act states, of an account without a workflow, else of a record."""
        about = Request(max(workflow, 0), row, 0, KNOWS_ID, 0, Decision(ALLOW), ())
        task = Task("", "", row, (about,), (), False, -1, 0, 0)
        return wording.act_value(self._desk, task, about, name)
