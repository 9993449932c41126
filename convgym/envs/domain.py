"""What a domain hands to the drivers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol

from convgym.engine.actions import ActionTable
from convgym.engine.acts import AgentTurn, UserTurn
from convgym.engine.belief import BeliefLayout
from convgym.engine.engine import Desk, User
from convgym.engine.episode import Episode
from convgym.engine.tasks import TaskTable
from convgym.language.phrases import PhraseBank
from convgym.language.tagging import ActTagger
from convgym.language.voice import Spoken, Voice
from convgym.users.decisions import DecisionModel
from convgym.users.persona import Levels


class Domain(Desk, Protocol):
    """What a domain hands to the driver beside what it does for the engine."""

    domain: str
    actions: ActionTable
    layout: BeliefLayout
    vocabulary: dict[str, int]
    scales: dict[str, float]
    reranker: Any
    """What is asked about replies in which nothing was read; None: nothing."""
    tools: str
    """JSON schemas of the tools."""

    @property
    def topics(self) -> tuple[str, ...]: ...
    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are tasks for."""

    @property
    def violations(self) -> tuple[str, ...]: ...
    @property
    def utterances(self) -> tuple[str, ...]:
        """What `action_space.sample()` says in text mode."""

    def make_user(self, model: DecisionModel) -> User:
        """The simulated user; it holds no episode's state and serves any number of them."""

    def table(self, split: str) -> TaskTable: ...
    def task(self, split: str, number: int) -> Any: ...
    def signature(self, task: Any) -> Hashable:
        """What distinguishes two tasks in substance, whatever they are called."""

    def scenario(self, task: Any) -> tuple[str, str]: ...
    def open(self, episode: Episode, persona: Levels) -> None: ...
    def policy_document(self, task: Any) -> str: ...
    def turn(self, episode: Episode, number: int) -> AgentTurn: ...
    def understand(self, episode: Episode, text: str) -> AgentTurn: ...
    def user_voices(self) -> dict[str, Voice]: ...
    def own_reranker(self) -> Any: ...
    def user_tagger(self) -> ActTagger: ...
    def spoken(self, episode: Episode, turn: UserTurn) -> list[Spoken]: ...
    def acts_json(self, episode: Episode, turn: UserTurn) -> str: ...
    def view(self, episode: Episode) -> dict[str, Any]: ...
    def agent_text(self, episode: Episode, number: int) -> str: ...
    def agent_banks(self) -> dict[str, PhraseBank]: ...
    def agent_reply(
        self, number: int, view: Mapping[str, Any], bank: PhraseBank, drawn: int
    ) -> str:
        """An act in words of `bank`, from nothing but the view."""

    def privileged(self, episode: Episode) -> dict[str, Any]: ...
