"""A reply to the support desk as numbers: all that its text says, whatever the state it comes in.

    text ─► understand ─► errors, problems of calls  ─► sentences that answers may quote
                      ├─► RawCall …                  ─► rows of `calls`
                      └─► Claim …                    ─► rows of `claims`

Text is compared here for the last time. A device is its row or the number of its handle, a PIN its
four digits, what a look has shown the cell of the belief that says so; what depends on the state is
left to `batch_grounding`.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from convgym.desk.state import error_json
from convgym.domains.technical_support import calls, cells
from convgym.domains.technical_support.batch_grounding import (
    FIRST_HANDLE,
    MALFORMED,
    MALFORMED_LAST,
    NOBODYS,
    UNLIKE,
    UNNAMED,
    UNTOLD,
)
from convgym.domains.technical_support.dialogue import TELLS, VERIFY_PIN, VIEW, WARRANTY
from convgym.domains.technical_support.facts import TOLD
from convgym.domains.technical_support.grounding import _NUMBERED, ground_speech
from convgym.domains.technical_support.vocabulary import LOOK, VALUE
from convgym.domains.technical_support.world import world
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.language.tool_calls import RawCall

_KEPT = 1 << 15
"""Claims that are kept as they were read."""
_FAR = 1_000_000_000
"""More than any term comes to: numbers from here on are all alike."""
_HANDLES = {str(k + 1): k for k in VIEW}
NO_EPISODE: Any = SimpleNamespace(
    desk=SimpleNamespace(account=-1, in_hand=-1, heard=(0, 0, 0)), task=SimpleNamespace(customer=0)
)
"""As much of an episode as is asked for where no account is open, and nothing was said."""
_Row = tuple[int, ...]


def write_reading(turn: AgentTurn, into: np.void) -> tuple[str, ...]:
    """Write a reply as it was understood into a record of `READING`.

    Returns the sentences that it is answered with and that quote it, those for calls last.
    """
    lines = list(turn.errors)
    into["n_errors"], into["reply_length"] = len(lines), len(turn.text)
    into["n_calls"] = len(turn.calls)
    if turn.calls:
        into["calls"][: len(turn.calls)] = [_call(raw, lines) for raw in turn.calls]
    claims = [row for row in map(_numbers, turn.said) if row]
    if turn.said and not claims:
        claims = [_numbers(Said(acts.UNCLEAR))]
    into["n_claims"] = len(claims)
    if claims:
        into["claims"][: len(claims)] = claims
    return tuple(lines)


# -- calls -----------------------------------------------------------------------------------------


def _call(raw: RawCall, lines: list[str]) -> _Row:
    """A call as columns; a sentence of what is wrong with it is added to `lines`."""
    call: Call | str = calls.ground_call(NO_EPISODE, raw)
    if isinstance(call, str):
        lines.append(error_json(call))
        tool = MALFORMED_LAST if raw.name in calls.ENDING else MALFORMED
        return (tool, len(lines) - 1, UNNAMED, -1)
    named, detail = UNNAMED, call.detail
    if call.tool == VERIFY_PIN:
        detail = _pin(raw.arguments["pin"].strip())
    elif "device" in raw.arguments:
        named = _device(raw.arguments["device"])
    return (call.tool, call.argument, named, detail)


def _pin(tried: str) -> int:
    """Four digits as a number, -1 for whatever is no PIN."""
    return int(tried) if len(tried) == 4 and tried.isascii() and tried.isdecimal() else -1


def _device(named: str) -> int:
    """The device that a serial or a handle names."""
    named = named.strip()
    before, _, number = named.lower().partition(":")
    if before == "device":
        pointer = _HANDLES.get(number.strip(), -1)
        return FIRST_HANDLE - pointer if pointer >= 0 else NOBODYS
    row = world().device_by_serial(named)
    return row if row >= 0 else NOBODYS


# -- claims ----------------------------------------------------------------------------------------


@lru_cache(_KEPT)
def _numbers(claim: Any) -> _Row:
    """A claim as columns; empty where it comes to nothing in any state."""
    if isinstance(claim, Said):
        return (claim.kind, claim.argument, UNNAMED, claim.value)
    act, slot, value, named = claim
    device = _device(named) if named else UNNAMED
    if act == "inform":
        return (acts.TELL, TELLS.index(slot), device, _told(slot, value)) if slot in TELLS else ()
    # Of the others it depends on the state only whether they are about the device in hand.
    said = ground_speech(NO_EPISODE, (claim,))[0]
    return () if said.kind == acts.UNCLEAR else (said.kind, said.argument, device, said.value)


def _told(slot: str, value: str) -> int:
    """What is told of a term or a fact, as it is held against the state."""
    if slot == WARRANTY:
        return {"yes": 1, "no": 0}.get(value, UNLIKE)
    if not value or (slot in TOLD and slot not in _NUMBERED):
        return UNTOLD
    if slot in TOLD:
        return min(int(value), _FAR) if value.isdecimal() else UNLIKE
    return cells.SEES.get((LOOK[slot], VALUE.get(value, -1)), UNLIKE)
