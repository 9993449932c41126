"""Conversations of a service as JSONL, a line each, in the format that `convgym.data.logs` reads.

    environment session ── closed, reset, expired ─────────────────────────► line
    chat: history + reply ─► kept ─► next history begins with it ─► kept ─► … ─► line
                              └── idle, crowded out, ended, shutdown ──────► line

A chat comes in again with each of its messages; only its newest state becomes a line. A line is
written with one call, so that a killed process leaves whole lines, but for what it still kept.
Whose key it was is noted by name; keys are not.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from convgym.conversation import Conversation, Message
from convgym.data.records import to_record
from convgym.errors import InvalidConfiguration
from convgym.service.json_log import JsonLog
from convgym.service.responders import Said


class ConversationLog:
    """Appends to a file; without one it does nothing. May be used from any thread."""

    def __init__(
        self,
        path: Path | None,
        log: JsonLog,
        most: int = 2048,
        idle_s: float = 900.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises InvalidConfiguration where the file cannot be written."""
        self._log, self._most, self._idle, self._clock = log, most, idle_s, clock
        self._lock = Lock()
        self._open: OrderedDict[bytes, tuple[float, str, Conversation]] = OrderedDict()
        self._file: int | None = None
        if path is not None:
            try:
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            except OSError as error:
                raise InvalidConfiguration(
                    f"conversations cannot be logged to {path}: {error.strerror}"
                ) from None

    @property
    def on(self) -> bool:
        """Whether there is a file."""
        return self._file is not None

    def __len__(self) -> int:
        return len(self._open)

    def write(self, owner: str, conversation: Conversation | None) -> None:
        """A conversation that is over; None is nothing to write."""
        if conversation is None or self._file is None:
            return
        named = replace(
            conversation,
            conversation_id=conversation.conversation_id or f"served-{secrets.token_hex(8)}",
            metadata={**conversation.metadata, "key": owner, "logged_at": round(time.time(), 3)},
        )
        line = json.dumps(to_record(named), ensure_ascii=False) + "\n"
        try:
            with self._lock:
                os.write(self._file, line.encode("utf-8", "replace"))
        except OSError as error:  # a full disk ends no conversation
            self._log("conversation_lost", error=type(error).__name__)

    def chatted(
        self,
        owner: str,
        policy: str,
        history: Sequence[Said],
        replied: Sequence[Message],
        ended: bool,
    ) -> None:
        """One exchange of a chat: what came, and what was replied."""
        if self._file is None:
            return
        messages = [Message(said.role, said.content) for said in history]
        answer = "".join(message.content for message in replied if message.role == "assistant")
        spoken = [said for said in history if said.role in ("user", "assistant")]
        last = max((i for i, said in enumerate(spoken) if said.role == "assistant"), default=-1)
        before = _digest(owner, spoken[: last + 1])
        with self._lock:
            known = self._open.pop(before, (0.0, "", None))[2] if last >= 0 else None
        name = "" if known is None else known.conversation_id
        if known is not None:
            new = spoken[last + 1 :]
            messages = [*known.messages, *(Message(s.role, s.content) for s in new)]
        about = {"source": "chat", "policy": policy, "finished": ended}
        found = Conversation(
            name or f"served-{secrets.token_hex(8)}", (*messages, *replied), None, about
        )
        if ended:
            self.write(owner, found)
            return
        after = _digest(owner, [*spoken, Said("assistant", answer)])
        with self._lock:
            twin = self._open.pop(after, None)
            self._open[after] = (self._clock(), owner, found)
            out = self._open.popitem(last=False)[1] if len(self._open) > self._most else None
        for one in (twin, out):
            if one is not None:
                self.write(one[1], one[2])

    def expire(self) -> None:
        """Write the chats that have been idle for too long."""
        now, old = self._clock(), []
        with self._lock:
            while self._open and now - next(iter(self._open.values()))[0] > self._idle:
                old.append(self._open.popitem(last=False)[1])
        for _, owner, conversation in old:
            self.write(owner, conversation)

    def close(self) -> None:
        """Write what is kept, and close the file."""
        with self._lock:
            kept = list(self._open.values())
            self._open.clear()
        for _, owner, conversation in kept:
            self.write(owner, conversation)
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _digest(owner: str, spoken: Sequence[Said]) -> bytes:
    """Of who said what, in order."""
    digest = hashlib.blake2b(owner.encode(), digest_size=16)
    for said in spoken:
        content = said.content.encode("utf-8", "replace")
        digest.update(b"%s%d:" % (said.role.encode(), len(content)) + content)
    return digest.digest()
