"""What was said in the running episode, in order, and its forms for reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence

AGENT, ACT, TOOL, CUSTOMER, UNWORDED = "Agent", "Act", "Tool", "Customer", ""
"""Who speaks in a line. `ACT`: the text is an action number; `UNWORDED`: the index of a user's
turn that nobody has read, so that it has no words yet."""
AGENT_LINE = 1024
"""An agent's message is clipped to this in a transcript; the customer read all of it."""

Line = tuple[str, str]


class Transcript:
    """Lines of (who, text); words of unread turns are made when somebody asks for them."""

    def __init__(self, words: Callable[[int], str], acts: Sequence[str]) -> None:
        """`words` makes those of a user's turn by its index; `acts` are the actions' names."""
        self._words, self._acts = words, acts
        self.lines: list[Line] = []

    def clear(self) -> None:
        """Begin an episode."""
        self.lines.clear()

    def add(self, who: str, text: str) -> None:
        """Append a line."""
        self.lines.append((who, text))

    @property
    def newest(self) -> str:
        """The text of the last line."""
        return self.lines[-1][1]

    def worded(self, since: int = 0) -> list[Line]:
        """The lines from the `since`-th on, those of unread turns in words."""
        return [
            (CUSTOMER, self._words(int(text))) if who == UNWORDED else (who, text)
            for who, text in self.lines[since:]
        ]

    def spoken(self) -> list[Line]:
        """What agent and customer have said to each other."""
        return [line for line in self.lines if line[0] in (AGENT, CUSTOMER)]

    def page(self, head: str, length: int) -> str:
        """`head` and as many of the newest lines as fit into `length` characters."""
        room = length - len(head) - 8
        kept: list[str] = []
        for who, text in reversed(self.lines):
            line = f"{who}: {text[:AGENT_LINE] if who == AGENT else text}"
            room -= len(line) + 1
            if room < 0:
                kept.append("[...]")
                break
            kept.append(line)
        return "\n".join((head, "", *reversed(kept)))

    def columns(self) -> list[str]:
        """Lines for people, acts by name."""
        return [
            f"{AGENT:>8}: ({self._acts[int(text)]})" if who == ACT else f"{who:>8}: {text}"
            for who, text in self.worded()
        ]
