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
    def topics(self) -> tuple[str, ...]:
        """What a customer can want first."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are tasks for."""

    @property
    def violations(self) -> tuple[str, ...]:
        """Names of the rules that can be broken, in the order of their bits."""

    @property
    def utterances(self) -> tuple[str, ...]:
        """What `action_space.sample()` says in text mode."""

    def make_user(self, model: DecisionModel) -> User:
        """The simulated user; it holds no episode's state and serves any number of them."""

    def table(self, split: str) -> TaskTable:
        """All tasks of a split."""

    def task(self, split: str, number: int) -> Any:
        """One task, by its number in the split."""

    def signature(self, task: Any) -> Hashable:
        """What distinguishes two tasks in substance, whatever they are called."""

    def scenario(self, task: Any) -> tuple[str, str]:
        """The situation, and what would be right, in words for people; names the hidden goal."""

    def open(self, episode: Episode, persona: Levels) -> None:
        """Give a fresh episode its private records, its customer and the public policy cells."""

    def policy_document(self, task: Any) -> str:
        """The rules of a task's episode, as the agent reads them."""

    def turn(self, episode: Episode, number: int) -> AgentTurn:
        """What a numbered act stands for in an episode."""

    def understand(self, episode: Episode, text: str) -> AgentTurn:
        """What a reply in words says and calls."""

    def user_voices(self) -> dict[str, Voice]:
        """The customer's wordings: `train` and `held_out`."""

    def own_reranker(self) -> Any:
        """A reranker over the domain's own wordings."""

    def user_tagger(self) -> ActTagger:
        """What reads a customer's words, of a person or a model, as acts."""

    def spoken(self, episode: Episode, turn: UserTurn) -> list[Spoken]:
        """The customer's turn as acts by name with their values."""

    def acts_json(self, episode: Episode, turn: UserTurn) -> str:
        """The customer's turn as JSON."""

    def view(self, episode: Episode) -> dict[str, Any]:
        """All that the agent has in sight, by name."""

    def agent_text(self, episode: Episode, number: int) -> str:
        """An act of the agent in words, for transcripts of episodes played in acts."""

    def agent_banks(self) -> dict[str, PhraseBank]:
        """The agent's wordings: `train` and `held_out`."""

    def agent_reply(
        self, number: int, view: Mapping[str, Any], bank: PhraseBank, drawn: int
    ) -> str:
        """An act in words of `bank`, from nothing but the view."""

    def privileged(self, episode: Episode) -> dict[str, Any]:
        """The hidden goal and how far the diff is from it; for `privileged=True` only."""
