"""The state machine: one agent turn in, a user turn or tool results out.

    turn.calls  ──► Desk.call   writes to diff and belief, returns text
    turn.said   ──► Desk.hear   truth-tags and weighs it ──► User.answer ──► Desk.note_user
    a call that ends the conversation comes last: what is said with it is heard

    apply = take (the agent's half) ─► User.answer ─► settle (the user's half and the end);
    who brings the user's turns from elsewhere uses the halves

No clock, no I/O, no generator: the same episode and the same turn give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from convgym.engine.acts import AgentTurn, Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.grading import Grade

ERROR_BUDGET = 5
"""Malformed and illegal calls that end an episode."""
USER_FAILED = "user_failed"
"""How the end of an episode begins whose user could not answer."""


class Desk(Protocol):
    """What a domain does for the engine."""

    def call(self, episode: Episode, call: Any) -> str:
        """Run a tool; returns what the agent reads."""

    def ends(self, call: Any) -> bool:
        """Whether a call leaves the conversation, and so has to wait for what is said."""

    def hear(self, episode: Episode, said: Sequence[Any]) -> list[Heard]:
        """Weigh what the agent said; notes claims, refusals and violations."""

    def note_user(self, episode: Episode, turn: UserTurn) -> None:
        """Put what the user said into the belief."""

    def grade(self, episode: Episode) -> Grade:
        """The verdict on the episode as it stands."""


class User(Protocol):
    """Who sits on the other side."""

    def open(self, episode: Episode) -> UserTurn:
        """The first turn."""

    def answer(self, episode: Episode, heard: Sequence[Heard]) -> UserTurn:
        """The turn after the agent has spoken."""


class Taken(NamedTuple):
    """An agent turn as far as it got before the user answers."""

    results: tuple[str, ...]
    """What the agent's calls returned."""
    heard: tuple[Heard, ...] | None
    """What the user hears, and answers; None where the agent keeps the floor."""
    last: tuple[Any, ...]
    """The call that leaves the conversation, which waits for the answer; empty or one."""


class Engine:
    """Runs episodes of one domain with one kind of user."""

    def __init__(self, desk: Desk, user: User, max_turns: int) -> None:
        self.desk = desk
        self.user = user
        self.max_turns = max_turns

    def open(self, episode: Episode) -> None:
        """Let the user speak first."""
        self.opened(episode, self.user.open(episode))

    def opened(self, episode: Episode, turn: UserTurn) -> None:
        """Take the user's first turn, whoever made it."""
        episode.user_turn = turn
        self.desk.note_user(episode, turn)

    def apply(self, episode: Episode, turn: AgentTurn) -> None:
        """Advance `episode` by one agent turn; it must not have ended."""
        results, heard, last = self._take(episode, turn)
        answer = None if heard is None else self.user.answer(episode, heard)
        self._settle(episode, results, last, answer)

    def take(self, episode: Episode, turn: AgentTurn) -> Taken:
        """The agent's half: its calls run, its speech is weighed; the user has not answered yet."""
        return Taken(*self._take(episode, turn))

    def settle(self, episode: Episode, taken: Taken, answer: UserTurn | None) -> None:
        """The rest: `answer` if the user had the floor, then what ends the conversation."""
        self._settle(episode, taken.results, taken.last, answer)

    def _take(
        self, episode: Episode, turn: AgentTurn
    ) -> tuple[tuple[str, ...], tuple[Heard, ...] | None, tuple[Any, ...]]:
        """The fields of `Taken`."""
        episode.turn += 1
        episode.user_turn = None
        results: list[str] = []
        last: tuple[Any, ...] = ()
        for error in turn.errors:
            episode.errors += 1
            episode.note("error", error)
            results.append(error)
        for call in turn.calls:
            if not self.desk.ends(call):
                results.append(self.desk.call(episode, call))
            elif not last:
                last = (call,)
        heard = None
        if turn.speaks:
            episode.reply = turn.text
            heard = tuple(self.desk.hear(episode, turn.said))
        return tuple(results), heard, last

    def _settle(
        self,
        episode: Episode,
        results: tuple[str, ...],
        last: tuple[Any, ...],
        answer: UserTurn | None,
    ) -> None:
        if answer is not None:
            episode.user_turn = answer
            self.desk.note_user(episode, answer)
            if answer.error:
                episode.end, episode.truncated = f"{USER_FAILED}: {answer.error}", True
            elif answer.closed:
                episode.end = "user_closed"
        if last and not episode.end:
            results = (*results, self.desk.call(episode, last[0]))
        episode.tool_results = results
        if not episode.end:
            if episode.errors >= ERROR_BUDGET:
                episode.end = "error_budget_spent"
            elif episode.turn >= self.max_turns:
                episode.end, episode.truncated = "turn_cap", True
        belief, turn, errors = episode.belief, episode.turn, episode.errors
        belief[1] = turn if turn < 255 else 255
        belief[2] = errors if errors < 255 else 255
