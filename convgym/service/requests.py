"""The bodies of the service's requests, as pydantic checks them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST = 2**63 - 1


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())


class ResetRequest(_Body):
    """Begin an episode, in a new session or in one's own."""

    session_id: str | None = Field(None, max_length=64)
    """One's own session, which keeps its environment; None opens one."""
    side: Literal["agent", "user"] = "agent"
    """Whom the client plays."""
    env_id: str | None = Field(None, max_length=200)
    keywords: dict[str, Any] = Field(default_factory=dict)
    """Of the environment, as `gymnasium.make` takes them; only with a new session as agent."""
    seed: int | None = Field(None, ge=0, le=MOST)
    options: dict[str, Any] = Field(default_factory=dict)
    """Of the reset: topic, difficulty, persona, …"""


class StepRequest(_Body):
    """One turn."""

    session_id: str = Field(max_length=64)
    action: Any
    """What the session takes: a text, an act's number, a vector."""
    turn: int | None = Field(None, ge=0, le=MOST)
    """How many steps there have been; a step that is sent twice is then refused, not done twice."""


class CloseRequest(_Body):
    """End a session."""

    session_id: str = Field(max_length=64)


class ReplyRequest(_Body):
    """A reply to a history."""

    history: list[Any]
    """`{"role", "content"}`, oldest first, the user's last."""
    seed: int | None = Field(None, ge=0, le=MOST)
    """Of the world that the policy acts in."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Reset options of that world."""


class ChatRequest(BaseModel):
    """OpenAI's; what is not named here is not looked at."""

    model_config = ConfigDict(extra="ignore", strict=True, protected_namespaces=())

    model: str | None = Field(None, max_length=200)
    messages: list[Any]
    stream: bool | None = None
    seed: int | None = Field(None, ge=0, le=MOST)
    n: int | None = None
