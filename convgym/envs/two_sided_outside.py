"""A user that somebody outside plays: what it does is weighed as a model's is.

    acts or words ─► only what this user can truthfully say ─► ModelUser's weighing ─► UserTurn

Facts outside the user's knowledge are not taken up, a yes to nothing confirms nothing, and a
refusal is accepted only where there was a right one; see `convgym.users.generative`. So nobody
can talk the agent into a success, and nothing that is said can make an episode fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from convgym.engine.acts import Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.envs.user_side import Known
from convgym.language.models import ChatMessage, Completion
from convgym.users.generative import ModelUser, Read, hear, message_of

SILENCE = "..."
"""What the agent reads where the user said nothing at all."""


class Offered(NamedTuple):
    """What somebody outside wants the user to do in a turn."""

    acts: tuple[int, ...] = ()
    words: str | None = None
    """Its own words, which are read as acts; None: words are made from the acts."""


class Nobody:
    """A model that is never asked: its user is played from outside."""

    def complete(
        self, prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]
    ) -> list[Completion]:
        """Nothing."""
        return [Completion("", "nobody")] * len(prompts)


def read_nothing(episode: Episode, text: str) -> tuple[Sequence[int], str]:
    """The reading of words where a domain cannot read any."""
    return (), "words of this user cannot be read"


class _Record:
    """A user's record of whatever kind, with what a played user keeps beside it."""

    __slots__ = ("asked_yes", "record")

    asked_yes: bool
    record: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__slots__:
            object.__setattr__(self, name, value)
        else:
            setattr(self.record, name, value)


class OutsideUser:
    """Takes the turns of one episode at a time from outside.

    `player` is the domain's user as a model plays it: it says what counts of a turn.
    """

    def __init__(self, player: ModelUser, read: Read) -> None:
        self._player, self._read = player, read
        self._names = {number: name for name, number in player.u.items()}
        self._kept: Any = _Record()
        self.proposed: tuple[int, ...] = ()
        """The acts of the newest turn before any was left out."""

    def begin(self) -> None:
        """A fresh episode."""
        self._kept.asked_yes, self.proposed = False, ()

    def turn(
        self,
        episode: Episode,
        heard: Sequence[Heard] | None,
        offered: Offered,
        truthful: Known,
    ) -> UserTurn:
        """The user's turn after `heard`, or its first where that is None."""
        words = None if offered.words is None else message_of(offered.words)
        self.proposed = offered.acts
        if words:
            read, problem = self._read(episode, words)
            self.proposed = tuple(dict.fromkeys(read))
            if problem:
                episode.note("user_text", problem)
        state = episode.user
        self._kept.record, about = state, state.at
        if heard is not None:
            hear(self._kept, heard)
        kept = self._player.weigh(episode, self._kept, self._true(episode, truthful))
        _remember(state, kept, about)
        if words is None:
            words = "" if kept else SILENCE
        return UserTurn(kept, 0.0, state.closing, text=words or SILENCE * (not kept), about=about)

    def _true(self, episode: Episode, truthful: Known) -> tuple[int, ...]:
        """The acts of the turn that are this user's to do."""
        for act in self.proposed:
            if not truthful[act]:
                episode.note("user_act_untrue", self._names[act])
        return tuple(act for act in self.proposed if truthful[act])


def _remember(state: Any, acts: Sequence[int], about: int) -> None:
    """Note in the record what the simulated user would know it has said, should it go on."""
    state.turn += 1
    state.about = state.at
    state.intent_said |= any(knowledge.request in acts for knowledge in state.requests)
    if state.at != about:
        return
    for slot, ladder in enumerate(state.knowledge.ladders):
        for rung, act in enumerate(ladder):
            if act in acts:
                state.asked[slot] = max(state.asked[slot], rung + 1)
