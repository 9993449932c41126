"""The texts of a desk's rows: what tools answered, and the customer's turns by name.

    (code, numbers) ─► the text of `convgym.desk.tools`      kept, so that none is made twice
    (act, place)    ─► a piece of `wording.acts_json`, a `Spoken`      the same

An act of the customer states nothing, one and the same word, or a value of its account or of the
record that it is about.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from convgym.desk import batch_tools, wording
from convgym.desk.declaration import ACCOUNT
from convgym.desk.state import answer_json, error_json
from convgym.desk.tasks import KNOWS_ID, Request, Task
from convgym.engine.batch import ILLEGAL
from convgym.engine.rules import ALLOW, Decision
from convgym.language.voice import Spoken

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk

_KEPT = 1 << 16
"""Texts of each sort that are kept."""
_NOTHING, _OF_ACCOUNT, _OF_RECORD = range(3)


class DeskWords:
    """Words of one desk; holds no episode's state."""

    def __init__(self, desk: ServiceDesk) -> None:
        self._desk, self._d, self._records = desk, desk.declaration, desk.records
        self._names = desk.v.user_acts
        plain = [name.removesuffix("_wrong") for name in self._names]
        self._owners = [self._owner(name) for name in plain]
        self._informs = [name.startswith("inform_") for name in plain]
        self._opening = [name.startswith(("greet", "request_", "inform_")) for name in plain]
        self._result = lru_cache(_KEPT)(self._made_result)
        self._piece = lru_cache(_KEPT)(self._made_piece)
        self._act = lru_cache(_KEPT)(self._made_act)

    def _owner(self, plain: str) -> int:
        slot = self._desk.value_slots.get(plain, "")
        if slot in (self._d.account.key, self._d.account.secret):
            return _OF_ACCOUNT
        return _OF_RECORD if slot else _NOTHING

    # -- what tools answered -----------------------------------------------------------------------

    def results_text(self, turn: np.void) -> tuple[str, ...]:
        """What the tools answered in a step."""
        count = turn["n_results"]
        if not count:
            return ()
        result = self._result
        return tuple([result(*row) for row in turn["results"][:count].tolist()])

    def _made_result(self, code: int, first: int, second: int, third: int, *_: int) -> str:
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

    def acts_json(self, turn: np.void, task: np.void) -> str:
        """A customer's turn as a JSON list of `{"act", "value"}`."""
        acts, piece = turn["acts"][: turn["n_acts"]].tolist(), self._piece
        return "[" + ", ".join([piece(*place) for place in self._places(acts, turn, task)]) + "]"

    def spoken(self, turn: np.void, task: np.void) -> list[Spoken]:
        """A customer's acts by name, with the slot and the value of those that state one."""
        acts: list[int] = turn["acts"][: turn["n_acts"]].tolist()
        if all([self._opening[act] for act in acts]):
            # Who answers first and then remembers why they came writes it the other way round.
            acts.sort(key=self._informs.__getitem__)
        act = self._act
        return [act(*place) for place in self._places(acts, turn, task)]

    def _places(
        self, acts: list[int], turn: np.void, task: np.void
    ) -> list[tuple[int, int, int]]:
        """(act, workflow, row) of each act; workflow and row are -1 where they say nothing."""
        owners = self._owners
        if not any([owners[act] for act in acts]):
            return [(act, -1, -1) for act in acts]
        about, account = int(turn["about"]), int(task["account"])
        workflow, row = int(task["workflow"][about]), int(task["row"][about])
        by_owner = ((-1, -1), (-1, account), (workflow, row))
        return [(act, *by_owner[owners[act]]) for act in acts]

    def _made_piece(self, act: int, workflow: int, row: int) -> str:
        name = self._names[act]
        value = self._value(name, workflow, row)
        plain = name.removesuffix("_wrong")
        return json.dumps({"act": plain, "value": value} if value else {"act": plain})

    def _made_act(self, act: int, workflow: int, row: int) -> Spoken:
        name = self._names[act]
        plain = name.removesuffix("_wrong")
        slot = self._desk.value_slots.get(plain, "")
        return Spoken(plain, slot, self._value(name, workflow, row)) if slot else Spoken(plain)

    def _value(self, name: str, workflow: int, row: int) -> str:
        """The value that an act states, of an account without a workflow, else of a record."""
        about = Request(max(workflow, 0), row, 0, KNOWS_ID, 0, Decision(ALLOW), ())
        task = Task("", "", row, (about,), (), False, -1, 0, 0)
        return wording.act_value(self._desk, task, about, name)
