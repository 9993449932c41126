"""The bodies of the service's requests, as pydantic checks them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST = 2**63 - 1
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._:-]+$")]
"""What a client calls a conversation."""


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
    conversation_id: Name | None = None
    """The client's own, or that of the reply before; None lets the history tell."""


class OutcomeRequest(_Body):
    """What a conversation came to, said once, when it is over."""

    conversation_id: Name
    reward: float | None = Field(None, allow_inf_nan=False)
    success: bool | None = None


class ChatRequest(BaseModel):
    """OpenAI's; what is not named here is not looked at."""

    model_config = ConfigDict(extra="ignore", strict=True, protected_namespaces=())

    model: str | None = Field(None, max_length=200)
    messages: list[Any]
    stream: bool | None = None
    seed: int | None = Field(None, ge=0, le=MOST)
    n: int | None = None
    conversation_id: Name | None = None
    """As in `ReplyRequest`; OpenAI's clients send it as `extra_body`."""
