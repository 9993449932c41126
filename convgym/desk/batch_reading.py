"""A reply to a desk as numbers: read once for each text, whatever the state of the row it goes to.

    text ─► understand ─► errors, calls, claims ─► records ─► rows, numbers of names   ─┐
                                              └──► Forms   ─► ranges of codes, checks  ─┴─► Reading

What a value agrees with is a range of codes: the texts that a field of the records may have are
numbered so that those which agree with one and the same value stand side by side, "5 Mill Lane,
Camden" beside "5 Mill Lane, Derby". What depends on the state is left to `batch_grounding`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.desk import grounding
from convgym.desk.batch_grounding import (
    ANYTHING,
    FIRST_HANDLE,
    MALFORMED,
    MALFORMED_LAST,
    NOBODYS,
    UNNAMED,
)
from convgym.desk.batch_tables import filled
from convgym.desk.declaration import ACCOUNT, Workflow
from convgym.desk.state import Case, error_json
from convgym.desk.vocabulary import GET, VERIFY, WRITE
from convgym.engine import acts
from convgym.engine.acts import Call, Said
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall
from convgym.users.persona import TRAITS

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk
    from convgym.desk.world import Records

_KEPT = 1 << 15
"""Claims that are kept as they were read."""
Range = tuple[int, int]
"""Codes from the first to before the last."""


class Check(NamedTuple):
    """How what is said with a claim is held against the state; see `ANYTHING` and its like."""

    low: int = 0
    high: int = 0
    sort: int = ANYTHING


class Forms(Protocol):
    """What the hooks of a desk (`reason_meant` and those after it) make of a claim, as numbers.

    The hooks that ask for nothing but the customer's workflow are called themselves instead.
    """

    reasons: tuple[str, ...]
    """All that a refusal in words may state: the declared reasons, and more that stand for one."""
    share: str
    """The parameter of the policy that shares are held against; empty without any."""
    codes: NDArray[np.int64]
    """The code of each text: the facts in order, then those of `wanted`.  (texts, rows)"""
    wanted: dict[str, int]
    """Which of them the customer wants for a workflow whose detail is a text."""

    def fact(self, fact: str, value: str) -> Range:
        """What a fact as it was told agrees with."""

    def given(self, workflow: Workflow, value: str) -> Range:
        """What a detail in a call agrees with, to its last word."""

    def asked(self, workflow: str, value: str) -> Check:
        """`agrees_on`, where the workflow has not been taken for another."""

    def reported(self, workflow: str, value: str) -> Check:
        """`agrees_with_report`, likewise."""

    def term(self, term: str, value: str) -> Check:
        """`term_told`: `high` is which value was told, `low` the share, where it is one."""

    def explained(self, said: Sequence[Any]) -> Sequence[int]:
        """`left_standing`: on which code of its fact a claim is left out, -1 for none."""


class DeskReader:
    """Reads replies to one desk; holds no episode's state. `base` is where each kind's rows begin.

    A record is named by its number in speech, by its number or a handle in calls; numbers of two
    kinds differ.
    """

    def __init__(self, desk: ServiceDesk, forms: Forms, base: Sequence[int]) -> None:
        self._desk, self._d, self._forms = desk, desk.declaration, forms
        self._base = dict(zip(self._d.kind, base, strict=False))
        self._blank = _blank_episode(desk)
        self._secrets = _secret_codes(desk)
        self._numbers = lru_cache(_KEPT)(self._numbers_of)
        v = desk.v
        self._held: dict[str, tuple[int, tuple[str, ...]]] = {
            "inform": (acts.TELL, v.told),
            "confirm": (acts.CONFIRM, v.promises),
            "deny": (acts.DENY, forms.reasons),
            "offer": (acts.OFFER, self._d.offers),
            "done": (acts.REPORT_DONE, v.promises),
            "promise": (acts.PROMISE, v.promises),
        }
        """Acts that are held against the state, and what they may be about."""

    def read(self, text: str, into: np.void) -> tuple[str, ...]:
        """Write a sanitised reply into a record of `READING`.

        Returns the lines that it is answered with and that quote it, those for calls last.
        """
        turn = self._desk.understand(self._blank, text)
        lines = list(turn.errors)
        into["n_errors"], into["reply_length"] = len(lines), len(turn.text)
        into["n_calls"] = len(turn.calls)
        if turn.calls:
            into["calls"][: len(turn.calls)] = [self._call(raw, lines) for raw in turn.calls]
        claims = self._claims(turn.said)
        into["n_claims"] = len(claims)
        if claims:
            into["claims"][: len(claims)] = claims
        return tuple(lines)

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, raw: RawCall, lines: list[str]) -> tuple[int, ...]:
        call: Call | str = grounding.ground_call(self._desk, self._blank, raw)
        if isinstance(call, str):
            lines.append(error_json(call))
            tool = MALFORMED_LAST if self._desk.ends(raw) else MALFORMED
            return (tool, len(lines) - 1, 0, 0, 0, 0)
        d, given = self._d, raw.arguments
        named, between, detail = NOBODYS, (0, 0), call.detail
        if call.tool == VERIFY:
            detail = self._secrets.get(given[d.account.secret].strip(), -1)
        elif call.tool == GET:
            kind = d.kinds[call.argument].name
            named = self._named(kind, given[kind])
        elif call.tool == WRITE:
            workflow = d.writes[call.argument]
            if workflow.kind:
                named = self._named(workflow.kind, given[workflow.kind])
            if workflow.name in self._forms.wanted:
                between = self._forms.given(workflow, given[workflow.details[0]])
        return (call.tool, call.argument, named, *between, detail)

    def _named(self, kind: str, named: str) -> int:
        """The record of a kind that is named by its number or by a handle."""
        named = named.strip()
        before, _, number = named.lower().partition(":")
        if number and before == kind:
            number = number.strip()
            if len(number) == 1 and number.isdecimal():
                if 1 <= int(number) <= self._d.kind[kind].each:
                    return FIRST_HANDLE - (int(number) - 1)
            return NOBODYS
        row = self._desk.records.find(kind, named)
        return self._base[kind] + row if row >= 0 else NOBODYS

    # -- claims ------------------------------------------------------------------------------------

    def _claims(self, said: Sequence[Any]) -> list[tuple[int, ...]]:
        if not said:
            return []
        explained = self._forms.explained(said)
        found = [self._numbers(one) for one in said]
        kept = [(*one, at) for one, at in zip(found, explained, strict=True) if one]
        return kept or [(acts.UNCLEAR, 0, UNNAMED, *Check(), -1)]

    def _numbers_of(self, claim: Any) -> tuple[int, ...]:
        """A claim as columns, all but the last; empty where it comes to nothing in any state."""
        if isinstance(claim, Said):
            return (claim.kind, claim.argument, UNNAMED, *Check())
        act, slot, value, number = claim
        if act in self._held:
            kind, names = self._held[act]
            if slot not in names:
                return ()
            check = self._check(act, slot, value)
            return (kind, names.index(slot), self._number(number), *check)
        only = grounding.ground_speech(self._desk, Case(self._desk.v, self._blank), (claim,))[0]
        if only.kind == acts.UNCLEAR:
            return ()
        return (only.kind, only.argument, UNNAMED, *Check())

    def _check(self, act: str, slot: str, value: str) -> Check:
        forms = self._forms
        if act == "inform":
            in_words = slot in self._d.terms
            return forms.term(slot, value) if in_words else Check(*forms.fact(slot, value))
        if act == "confirm":
            return forms.asked(slot, value)
        return forms.reported(slot, value) if act == "done" else Check()

    def _number(self, number: str) -> int:
        """The record that bears a number."""
        if not number:
            return UNNAMED
        named = (self._named(kind, number) for kind in self._base)
        return next((row for row in named if row >= 0), NOBODYS)


def _blank_episode(desk: ServiceDesk) -> Episode:
    """One in which nothing has happened: what comes out of it does so in every state."""
    task = desk.task("train", 0)
    episode = Episode(task, 0, 0, desk.layout.row())
    desk.open(episode, (0,) * len(TRAITS))
    return episode


# -- what the kernels look up ----------------------------------------------------------------------


def grounding_tables(desk: ServiceDesk, forms: Forms | None) -> dict[str, Any]:
    """What `batch_grounding` looks up; of a desk whose replies are not read nothing but shapes.

    The tables of hooks are by what is said, then by the customer's workflow; `write_meant` by the
    workflow, whether a record is named, and the change that is said.
    """
    d, v = desk.declaration, desk.v
    wanted = forms.wanted if forms else {}
    reasons = forms.reasons if forms else d.reasons
    cases: list[Any] = [SimpleNamespace(workflow=workflow) for workflow in d.workflows]
    return {
        "codes": forms.codes if forms else np.zeros((1, 1), dtype=np.int64),
        "wanted": [wanted.get(name, -1) for name in d.names],
        "share": list(d.parameters).index(forms.share) if forms and forms.share else 0,
        "secrets": _secrets(desk) if forms else np.zeros((1, 2), dtype=np.int64),
        "reason_meant": filled(
            [[_at(d.reasons, desk.reason_meant(case, one)) for case in cases] for one in reasons]
        ),
        "sounds_done": filled(
            [[int(desk.sounds_done(case, one)) for case in cases] for one in d.reasons]
        ),
        "write_meant": filled(
            [
                [
                    [_at(v.promises, desk.write_meant(case, one, named)) for one in v.promises]
                    for named in ("", "a number")
                ]
                for case in cases
            ],
            3,
        ),
    }


def _at(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -1


def _secret_codes(desk: ServiceDesk) -> Mapping[str, int]:
    """A number for every secret that anybody has, or takes for theirs."""
    return _coded_secrets(desk.records, desk.declaration.account.secret)[0]


def _secrets(desk: ServiceDesk) -> NDArray[np.int64]:
    """The codes of each account's secret, and of what a poor memory makes of it.  (accounts, 2)"""
    return _coded_secrets(desk.records, desk.declaration.account.secret)[1]


@lru_cache(maxsize=8)
def _coded_secrets(records: Records, field: str) -> tuple[Mapping[str, int], NDArray[np.int64]]:
    """A code by secret, and by account; thousands of texts, so once for all batches of a desk."""
    pairs = [
        (records.text(ACCOUNT, row, field), records.wrong(ACCOUNT, row, field))
        for row in range(records.accounts)
    ]
    every = dict.fromkeys(text for pair in pairs for text in pair)
    code = {text: number for number, text in enumerate(every)}
    coded = np.array([[code[text] for text in pair] for pair in pairs])
    coded.flags.writeable = False
    return code, coded
