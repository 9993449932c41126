"""A memory beside the newest message: what was said earlier, here or in earlier conversations.

episode 1   "I am Ann, keep it short"  …  success          entries ─► recalled by likeness
episode 2   "Ann again: my order"  ─►  [Then: I am Ann, keep it short → worked]
                                       [Said: …values of this conversation…]
                                       Ann again: my order
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym

from convgym.envs.said import AGENT, USER, Line, SaidWrapper, values_in
from convgym.errors import InvalidConfiguration

_WORD = re.compile(r"[\w@.]+")


@dataclass(frozen=True)
class Remembered:
    """A conversation that ended."""

    opening: str
    """The user's first message, by which it is found again."""
    note: str
    """What is told of it."""
    return_: float
    """What it earned."""


Note = Callable[[Sequence[Line], float, dict[str, Any]], str]
"""Lines, return and last info of a conversation that ended → what to tell of it; "": nothing."""


def last_reply(lines: Sequence[Line], return_: float, info: dict[str, Any]) -> str:
    """How it was answered in the end, and whether that worked."""
    replies = [text for who, text in lines if who == AGENT]
    verdict = "worked" if info.get("success", return_ > 0) else "failed"
    return f"{replies[-1][:120]} ({verdict})" if replies else ""


class ConversationMemory(SaidWrapper):
    """Shows what is remembered before the newest message.

        env = ConversationMemory(gym.make(id), values=12, recalled=2)

    | argument | default | |
    |---|---|---|
    | `length` | 2048 | characters of an observation |
    | `values` | 12 | newest values said in this conversation that are shown; 0: none |
    | `recalled` | 0 | earlier conversations that are shown: those whose first messages share most \
words with this one's, of equal ones the newest; 0: nothing crosses an episode's end |
    | `capacity` | 1000 | earlier conversations that are kept, the newest |
    | `note` | `last_reply` | what to tell of a conversation that ended |

    A reset with a seed begins anew and forgets, so that the same seed gives the same episode; one
    without a seed keeps what was remembered, as `convgym.envs.trials.Trials` does from one
    conversation to the next. `entries` gives what is kept, `remember` puts it back (after a seeded
    reset too), `forget` drops it.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        length: int = 2048,
        values: int = 12,
        recalled: int = 0,
        capacity: int = 1000,
        note: Note = last_reply,
    ) -> None:
        if values < 0 or recalled < 0 or capacity < 1:
            raise InvalidConfiguration(
                f"values={values}, recalled={recalled}, capacity={capacity}; the first two count "
                "from 0 and the capacity from 1"
            )
        super().__init__(
            env, length, values=values, recalled=recalled, capacity=capacity, note=note
        )
        self.values, self.recalled, self.note = values, recalled, note
        self._kept: deque[Remembered] = deque(maxlen=capacity)
        self._words: deque[frozenset[str]] = deque(maxlen=capacity)
        self._return, self._recalled = 0.0, ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode; forget, if there is a seed."""
        if seed is not None:
            self.forget()
        return super().reset(seed=seed, options=options)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What is kept across episodes, the oldest first; plain values."""
        return [asdict(entry) for entry in self._kept]

    def remember(self, entries: Sequence[dict[str, Any]]) -> None:
        """Add what `entries` gave."""
        for entry in entries:
            self._keep(Remembered(**entry))

    def forget(self) -> None:
        """Drop what was kept across episodes."""
        self._kept.clear()
        self._words.clear()

    def read(self) -> str:
        """What is recalled, what was said, and the newest message."""
        who_said = [(who, value) for who, text in self.lines[:-1] for value in values_in(text)]
        newest = dict.fromkeys(value for _, value in reversed(who_said))
        shown = list(newest)[: self.values][::-1]
        head = [self._recalled, f"[Said: {', '.join(shown)}]" if shown else ""]
        message = self.lines[-1][1]
        room = max(self.length - len(message) - 1, 0)
        return "\n".join(part for part in ("\n".join(filter(None, head))[:room], message) if part)

    def noted(
        self, action: str | None, reward: float, info: dict[str, Any], ended: bool = False
    ) -> None:
        """Recall at a reset, keep at an end."""
        if action is None:
            self._return = 0.0
            self._recalled = self._alike(self.lines[0][1])
            return
        self._return += reward
        if ended and self.recalled:
            note = self.note(self.lines, self._return, info)
            if note:
                opening = next(text for who, text in self.lines if who == USER)
                self._keep(Remembered(opening, note, self._return))

    def _keep(self, entry: Remembered) -> None:
        self._kept.append(entry)
        self._words.append(_words(entry.opening))

    def _alike(self, opening: str) -> str:
        """Notes of the most similar earlier conversations (Jaccard), the most similar last."""
        if not self.recalled or not self._kept:
            return ""
        asked = _words(opening)
        likeness = [len(asked & words) / max(len(asked | words), 1) for words in self._words]
        best = sorted(range(len(likeness)), key=lambda k: (likeness[k], k))[-self.recalled :]
        found = [self._kept[k] for k in best if likeness[k] > 0]
        return "\n".join(f"[Then: {e.opening[:120]} -> {e.note}]" for e in found)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip(".") for word in _WORD.findall(text.lower()))
