"""Chats under way: which conversation a request goes on with, and what was said in it so far.

    request ─► named by the client? its chat │ goes on where a chat stands? that │ a new one
                         │                                  │                          │
    history ─► merged into what is known: tools' results stay, what the client says otherwise holds
    reply ─► kept ─► … ─► idle, crowded out, ended, outcome reported, shutdown ─► on_close hears

A client that names no conversation sends all of it again each time; it is known by who said what.
Of chats that stand alike one is as good as another. One that comes in with replies that nobody
here remembers is `resumed`: it may have been another variant's, or be in the log already.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from convgym.conversation import Message
from convgym.service.dialogue import Answer
from convgym.service.responders import Said

SPOKEN = ("user", "assistant")
Entry = tuple[Said, tuple[Message, ...]]
"""What a client reads of a turn, and the messages that it was."""


@dataclass(eq=False)
class Chat:
    """One conversation under way."""

    owner: str
    name: str
    """What client and service call it."""
    drawn: bool
    """Whether the service has named it, so that no other is called so."""
    resumed: bool
    policy: str = ""
    share: float = 1.0
    entries: list[Entry] = field(default_factory=list)
    ended: bool = False
    success: bool | None = None
    """Of the world that the policy acts in; None where it has not ended."""
    reason: str = ""
    outcome: dict[str, float | bool] = field(default_factory=dict)
    """What the client has reported: `reward`, `success`, or both."""
    answering: bool = False
    """Whether a request goes on with it now; another one that stands there takes another chat."""
    used: float = 0.0
    place: bytes = b""
    """Digest of who said what."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """All of it."""
        return tuple(message for _, messages in self.entries for message in messages)

    def heard(self, history: Sequence[Said]) -> None:
        """Go on with what a client has sent."""
        if not self.entries:
            self.entries = [_entry(said) for said in history]
            return
        spoken = [said for said in history if said.role in SPOKEN]
        kept: list[Entry] = []
        alike = 0
        for said, messages in self.entries:
            if said.role in SPOKEN:
                if alike == len(spoken) or spoken[alike] != said:
                    break
                alike += 1
            kept.append((said, messages))
        self.entries = kept + [_entry(said) for said in spoken[alike:]]


class Chats:
    """All chats of a service, bounded in number and idle time; may be used from any thread."""

    def __init__(
        self,
        most: int,
        idle_s: float,
        on_close: Callable[[Chat], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._idle, self._on_close, self._clock = most, idle_s, on_close, clock
        self._lock = Lock()
        self._open: OrderedDict[tuple[str, str], Chat] = OrderedDict()
        self._places: dict[bytes, list[Chat]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def of(self, owner: str, name: str | None, history: Sequence[Said]) -> Chat:
        """The chat that a request goes on with, or a new one, which is kept once it is replied to.

        name: what the client calls it; None where it does not, and then nobody else goes on with
        the chat until `replied` or `left`.
        """
        replied = [i for i, said in enumerate(history) if said.role == "assistant"]
        with self._lock:
            if name is not None:
                known = self._open.get((owner, name))
            else:
                before = history[: replied[-1] + 1] if replied else ()
                standing = self._places.get(_digest(owner, before), ()) if replied else ()
                known = next((chat for chat in standing if not chat.answering), None)
                if known is not None:
                    known.answering = True
        if known is not None:
            return known
        asked = [i for i, said in enumerate(history) if said.role == "user"]
        resumed = bool(replied and asked) and replied[-1] > asked[0]  # no mere greeting
        return Chat(owner, name or f"served-{secrets.token_hex(8)}", name is None, resumed)

    def replied(
        self, chat: Chat, history: Sequence[Said], said: Sequence[Message], answer: Answer
    ) -> None:
        """One exchange: what came, and what was replied."""
        text = "".join(message.content for message in said if message.role == "assistant")
        out: list[Chat] = []
        with self._lock:
            self._forget(chat)
            chat.answering = False
            chat.heard(history)
            chat.entries.append((Said("assistant", text), tuple(said)))
            if answer.ended:
                chat.ended, chat.success, chat.reason = True, answer.success, answer.reason
                out.append(chat)
            else:
                self._keep(chat)
                if len(self._open) > self._most:
                    out.append(next(iter(self._open.values())))
                    self._forget(out[-1])
        for one in out:
            self._on_close(one)

    def left(self, chat: Chat) -> None:
        """The request came to nothing; the chat stands where it stood."""
        with self._lock:
            chat.answering = False

    def outcome(self, owner: str, name: str, outcome: dict[str, float | bool]) -> bool:
        """Close a chat with what it came to; False where it is not under way."""
        with self._lock:
            chat = self._open.get((owner, name))
            if chat is None:
                return False
            self._forget(chat)
            chat.outcome = outcome
        self._on_close(chat)
        return True

    def expire(self) -> None:
        """Close the chats that have been idle for too long."""
        now = self._clock()
        self._close_while(lambda chat: now - chat.used > self._idle)

    def close_all(self) -> None:
        """At shutdown."""
        self._close_while(lambda chat: True)

    def _close_while(self, old: Callable[[Chat], bool]) -> None:
        while True:
            with self._lock:
                chat = next(iter(self._open.values()), None)
                if chat is None or not old(chat):
                    return
                self._forget(chat)
            self._on_close(chat)

    def _keep(self, chat: Chat) -> None:
        twin = self._open.get((chat.owner, chat.name))
        if twin is not None:  # two requests began it at once
            self._forget(twin)
        chat.used = self._clock()
        chat.place = _digest(chat.owner, [said for said, _ in chat.entries])
        self._open[chat.owner, chat.name] = chat
        self._places.setdefault(chat.place, []).append(chat)

    def _forget(self, chat: Chat) -> None:
        if self._open.get((chat.owner, chat.name)) is not chat:
            return
        del self._open[chat.owner, chat.name]
        standing = self._places[chat.place]
        standing.remove(chat)
        if not standing:
            del self._places[chat.place]


def _entry(said: Said) -> Entry:
    return said, (Message(said.role, said.content),)


def _digest(owner: str, history: Sequence[Said]) -> bytes:
    """Of who said what, in order."""
    digest = hashlib.blake2b(owner.encode(), digest_size=16)
    for said in history:
        if said.role in SPOKEN:
            content = said.content.encode("utf-8", "replace")
            digest.update(b"%s%d:" % (said.role.encode(), len(content)) + content)
    return digest.digest()
