"""A recorded conversation: who said what, and what it was worth.

    Conversation ── conversation_id, reward, metadata
       └── messages: (Message, Message, …)
              └── role, content, reward, acts, intents, slots, tool_call

These are plain, frozen values: what a log line becomes, what a transcript is made of.
They know nothing of environments, models or files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ROLES = ("user", "assistant", "tool", "system")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn as it was said."""

    role: str
    """One of `ROLES`."""
    content: str
    reward: float | None = None
    """Reward of this turn alone, where the log labels turns."""
    acts: tuple[tuple[str, ...], ...] = ()
    """Dialogue acts as the log wrote them, e.g. `("hotel", "inform", "area", "north")`."""
    intents: tuple[str, ...] = ()
    slots: tuple[tuple[str, str], ...] = ()
    """(slot, value) pairs."""
    tool_call: Mapping[str, Any] | None = None
    """Arguments by tool name, for an assistant turn that called a tool."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in order, with the return of the whole where it is known."""

    conversation_id: str
    messages: tuple[Message, ...]
    reward: float | None = None
    """Outcome of the whole conversation; None where nobody measured it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.messages)

    def said_by(self, role: str) -> Iterator[Message]:
        """The messages of one role, in order."""
        return (message for message in self.messages if message.role == role)
