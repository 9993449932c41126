"""Conversations of a service as JSONL, a line each, in the format that `convgym.data.logs` reads.

    environment session ── closed, reset, expired ────────────────────────► line
    chat ── ended, idle, crowded out, outcome reported, shutdown (`chats`) ─► line
    outcome of a conversation that is a line already ────────► talk.outcomes.jsonl, a line

    metadata   source, policy and its share, conversation (what the client calls it), key (its
               name), logged_at (s, Unix), finished, success, resumed, outcome (as reported)
    reward     what the client has reported, else the session's return

A line is on the disk, whole, before another begins; a killed process loses what was still under
way, so a client that reports an outcome has its conversation written. Whose key it was is noted by
name; a key of the service that somebody says is blotted out, wherever it stands.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from convgym.conversation import Conversation
from convgym.data.growing_logs import OUTCOMES, outcomes_beside
from convgym.data.records import to_record
from convgym.service.chats import Chat
from convgym.service.json_log import JsonLog
from convgym.service.keys import KeyRing
from convgym.service.line_files import LineFiles


class ConversationLog:
    """Appends to a file or a folder; without one it does nothing. For any thread."""

    def __init__(
        self,
        path: Path | None,
        log: JsonLog,
        keys: KeyRing | None = None,
        most_bytes: int = 64_000_000,
    ) -> None:
        """`most_bytes`: of a file in a folder.

        Raises InvalidConfiguration where nothing can be written.
        """
        self._log, self._keys, self._most = log, keys or KeyRing(), most_bytes
        self._path = path
        self._lines = None if path is None else LineFiles(path, most_bytes, log)
        self._outcomes: LineFiles | None = None

    @property
    def on(self) -> bool:
        """Whether there is a file."""
        return self._lines is not None

    def write(self, owner: str, conversation: Conversation | None) -> None:
        """A conversation that is over; None is nothing to write."""
        if conversation is None or self._lines is None:
            return
        about = {**conversation.metadata, "key": owner, "logged_at": round(time.time(), 3)}
        name = conversation.conversation_id or f"served-{secrets.token_hex(8)}"
        named = replace(conversation, conversation_id=name, metadata=about)
        if not self._lines.write(self._line(to_record(named))):
            self._log("conversation_lost")

    def write_chat(self, chat: Chat) -> None:
        """A chat that is over."""
        about: dict[str, Any] = {
            "source": "chat", "policy": chat.policy, "share": chat.share,
            "conversation": chat.name, "finished": chat.ended, "resumed": chat.resumed,
        }  # fmt: skip
        if chat.success is not None:
            about |= {"success": chat.success, "failure_reason": chat.reason}
        reward = None
        if chat.outcome:
            about["outcome"] = dict(chat.outcome)
            reward = reward_of(chat.outcome)
        name = chat.name if chat.drawn else ""  # clients may use a name twice
        self.write(chat.owner, Conversation(name, chat.messages, reward, about))

    def write_outcome(self, owner: str, name: str, outcome: Mapping[str, float | bool]) -> None:
        """What a conversation came to that is not under way any more."""
        if self._path is None:
            return
        if self._outcomes is None:
            folder = self._path.is_dir()
            path = self._path if folder else outcomes_beside(self._path)
            self._outcomes = LineFiles(path, self._most, self._log, OUTCOMES)
        about = {"conversation": name, "key": owner, "logged_at": round(time.time(), 3)}
        if not self._outcomes.write(self._line({**about, **outcome})):
            self._log("outcome_lost")

    def close(self) -> None:
        """Close the files."""
        for lines in (self._lines, self._outcomes):
            if lines is not None:
                lines.close()
        self._lines = self._outcomes = self._path = None

    def _line(self, record: Mapping[str, Any]) -> bytes:
        line = json.dumps(record, ensure_ascii=False) + "\n"
        return self._keys.blotted(line.encode("utf-8", "replace"))


def reward_of(outcome: Mapping[str, float | bool]) -> float | None:
    """The reward that was reported, else 1 or 0 for a success or none."""
    if "reward" in outcome:
        return float(outcome["reward"])
    return float(outcome["success"]) if "success" in outcome else None
