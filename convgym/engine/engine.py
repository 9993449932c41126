"""The state machine: one agent turn in, a user turn or tool results out.

    turn.calls  ──► Desk.call   writes to diff and belief, returns text
    turn.said   ──► Desk.hear   truth-tags and weighs it ──► User.answer ──► Desk.note_user

No clock, no I/O, no generator: the same episode and the same turn give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from convgym.engine.acts import AgentTurn, Call, Heard, Said, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.grading import Grade

ERROR_BUDGET = 5
CALLS_PER_TURN = 4


class Desk(Protocol):
    """What a domain does for the engine."""

    def call(self, episode: Episode, call: Call) -> str:
        """Run a tool; returns what the agent reads."""

    def hear(self, episode: Episode, said: Sequence[Said]) -> list[Heard]:
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


class Engine:
    """Runs episodes of one domain with one kind of user."""

    def __init__(self, desk: Desk, user: User, max_turns: int) -> None:
        self.desk = desk
        self.user = user
        self.max_turns = max_turns

    def open(self, episode: Episode) -> None:
        """Let the user speak first."""
        episode.user_turn = self.user.open(episode)
        self.desk.note_user(episode, episode.user_turn)

    def apply(self, episode: Episode, turn: AgentTurn) -> None:
        """Advance `episode` by one agent turn; it must not have ended."""
        episode.turn += 1
        episode.user_turn = None
        results = []
        for error in turn.errors:
            episode.errors += 1
            episode.note("error", error)
            results.append(error)
        for call in turn.calls[:CALLS_PER_TURN]:
            results.append(self.desk.call(episode, call))
            if episode.end:
                break
        episode.tool_results = tuple(results)
        if not episode.end and turn.speaks:
            heard = self.desk.hear(episode, turn.said)
            episode.user_turn = answer = self.user.answer(episode, heard)
            self.desk.note_user(episode, answer)
            if answer.closed:
                episode.end = "user_closed"
        if not episode.end:
            if episode.errors >= ERROR_BUDGET:
                episode.end = "error_budget_spent"
            elif episode.turn >= self.max_turns:
                episode.end, episode.truncated = "turn_cap", True
        belief = episode.belief
        belief[1] = min(episode.turn, 255)
        belief[2] = min(episode.errors, 255)
