"""The customer's side: the device in its hands, which the agent never sees.

    look_at          what a part of the device shows now
    do               a step that the agent has asked for; it changes the device for both sides
    read_messages    messages of the provider about what was ordered or booked

What was not looked at cannot be told, and what was looked at before the device changed has to be
looked at again. Who says that a step is done has done it, with this tool or by saying so; who only
claims it (`claim_it`) has not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import cells, records
from convgym.domains.technical_support.customer import mistaken_for
from convgym.domains.technical_support.dialogue import (
    CHECK_NAMES,
    SAW,
    STEP_NAMES,
    U,
)
from convgym.domains.technical_support.faults import State
from convgym.domains.technical_support.role import SEEN_HEAD
from convgym.domains.technical_support.vocabulary import (
    BOOKINGS,
    NOT_THERE,
    OPERATIONS,
    VALUE_NAMES,
    VALUES,
)
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall, check_arguments

if TYPE_CHECKING:
    from convgym.domains.technical_support.desk import SupportDesk


def _schema(**properties: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "enum": list(words)} for name, words in properties.items()
        },
        "required": list(properties),
        "additionalProperties": False,
    }


_TOOLS = {
    "look_at": ("Look at a part of your device, or try whether it works.", _schema(
        what=CHECK_NAMES
    )),
    "do": ("Do with your device what you were asked to do.", _schema(step=STEP_NAMES)),
    "read_messages": ("Read the provider's messages to you.", _schema()),
}  # fmt: skip
_STEP_ACTS = (U["did_it"], U["claim_it"], U["not_done"])
_WITH_TOOLS = (
    "You have the device before you. Look at it with your tools when you are asked what it shows, "
    "and do with them what you are asked to do."
)


class SupportRecord:
    """What a customer has seen of its device since it last changed, and its messages."""

    __slots__ = ("device", "messages", "seen")

    def __init__(self, device: State) -> None:
        self.device = device
        self.seen = 0  # bits of the checks
        self.messages: list[str] = []

    def copy(self) -> SupportRecord:
        """An independent copy."""
        copy = SupportRecord(self.device)
        copy.seen, copy.messages = self.seen, [*self.messages]
        return copy


class SupportSide:
    """The tools of `user_0` in `ConvGym/TechnicalSupport-v0`; see the module."""

    calls = (
        *(RawCall("look_at", {"what": name}) for name in CHECK_NAMES),
        *(RawCall("do", {"step": name}) for name in STEP_NAMES),
        RawCall("read_messages", {}),
    )
    tools = json.dumps(
        [
            {
                "type": "function",
                "function": {"name": name, "description": text, "parameters": schema},
            }
            for name, (text, schema) in _TOOLS.items()
        ]
    )
    utterances: tuple[str, ...] = (
        "Hello, something does not work.",
        "Yes, please.",
        "No, that is not what I want.",
        "I have done that.",
        "It still does not work.",
        "I cannot tell.",
        "How do I do that?",
        "I do not know.",
        "Why do you need that?",
        "That cannot be right.",
        '<tool_call>{"name": "look_at", "arguments": {"what": "service"}}</tool_call>',
    )
    """Nothing of it ends a conversation."""

    def __init__(self, desk: SupportDesk) -> None:
        self._desk = desk

    def open(self, episode: Episode) -> SupportRecord:
        """Nothing looked at yet."""
        return SupportRecord(episode.desk.device)

    def describe(self, episode: Episode, own: SupportRecord, role: str) -> str:
        """The role without what the device shows, which the tools tell."""
        return role.partition(SEEN_HEAD)[0] + _WITH_TOOLS

    # -- what is true ------------------------------------------------------------------------------

    def truthful(
        self, episode: Episode, own: SupportRecord, known: NDArray[np.int8]
    ) -> NDArray[np.int8]:
        """What was looked at and is still so; a word on a step only while one is asked for.

        Who looks may see wrong: what this customer takes the thing for is no lie either.
        """
        for act, (look, value) in SAW.items():
            looked = own.seen >> look & 1
            known[act] = bool(looked) and value in (
                records.shown(episode, look), mistaken_for(episode, look)
            )  # fmt: skip
        if episode.desk.step < 0:
            known[[*_STEP_ACTS]] = 0
        return known

    # -- tools -------------------------------------------------------------------------------------

    def call(self, episode: Episode, own: SupportRecord, call: RawCall) -> str:
        """Look, do, or read."""
        if call.name not in _TOOLS:
            there = ", ".join(_TOOLS)
            return _error(f"you have no tool {call.name[:40]!r}; you have {there}")
        problem = check_arguments(_TOOLS[call.name][1], call.arguments)
        if problem:
            return _error(f"{call.name}: {problem}")
        if call.name == "look_at":
            return self._look(episode, own, call.arguments["what"])
        if call.name == "do":
            return self._do(episode, own, call.arguments["step"])
        return json.dumps({"messages": own.messages})

    def _look(self, episode: Episode, own: SupportRecord, what: str) -> str:
        look = CHECK_NAMES.index(what)
        value = self._desk.look(episode, look)
        if value == NOT_THERE:
            return _error("your device has no such thing")
        own.seen |= 1 << look
        name = VALUE_NAMES[value]
        return json.dumps({"what": what, "shows": name, "that is": VALUES[name]})

    def _do(self, episode: Episode, own: SupportRecord, name: str) -> str:
        step = STEP_NAMES.index(name)
        if not episode.belief[cells.ASKED_STEP[step]]:
            return _error("nobody has asked you to do that")
        self._desk.act(episode, step)
        self.sync(episode, own)
        return json.dumps({"step": name, "done": True})

    def rests_on(
        self, episode: Episode, own: SupportRecord, acts: Sequence[int]
    ) -> tuple[int, ...]:
        """What is said to be done is done first; then everything that is told is looked at."""
        desk = episode.desk
        if U["did_it"] in acts and desk.step >= 0 and not desk.applied:
            return (len(CHECK_NAMES) + desk.step,)
        looks = {SAW[act][0] for act in acts if act in SAW}
        return tuple(sorted(look for look in looks if not own.seen >> look & 1))

    def sync(self, episode: Episode, own: SupportRecord) -> None:
        """What was seen of the device before it changed is old; a message for each booking."""
        if episode.desk.device != own.device:
            own.device, own.seen = episode.desk.device, 0
        booked = {OPERATIONS[booking].name for booking in BOOKINGS}
        for _, _, name in episode.diff:
            if name in booked:
                message = f"Your {name.partition('_')[2]} is on its way."
                if message not in own.messages:
                    own.messages.append(message)


def _error(sentence: str) -> str:
    return json.dumps({"error": sentence})
