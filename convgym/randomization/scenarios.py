"""Scenarios: a task with its customer as a record, for people, prompts and files.

    {"id": "train-4711/2a…", "topic": "cancel", "context": …, "user_messages": ["hi, …"],
     "expected_resolution": …, "difficulty": 0.6}

The record names the hidden goal, so it is not for the agent. Any environment of the domain
replays it: `env.reset(options=scenario.options())`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from convgym.domains.catalogue import domain_called
from convgym.engine import keys
from convgym.engine.engine import Desk, Engine, User
from convgym.engine.episode import Episode
from convgym.engine.tasks import SPLITS, TaskTable, check_split, parse_task_id
from convgym.errors import InvalidConfiguration
from convgym.language.voice import TEMPLATE
from convgym.users.decisions import DecisionModel
from convgym.users.persona import (
    Levels,
    Persona,
    drawn_levels,
    own_style,
    persona_of,
    persona_of_levels,
)


class Tasks(Desk, Protocol):
    """What a scenario needs of a domain."""

    domain: str
    vocabulary: dict[str, int]
    layout: Any

    @property
    def topics(self) -> tuple[str, ...]:
        """What a customer can want first."""

    def table(self, split: str) -> TaskTable:
        """All tasks of a split."""

    def task(self, split: str, number: int) -> Any:
        """One task, by its number in the split."""

    def scenario(self, task: Any) -> tuple[str, str]:
        """The situation, and what would be right, in words for people; names the hidden goal."""

    def open(self, episode: Episode, persona: Levels) -> None:
        """Give a fresh episode its private records, its customer and the public policy cells."""

    def make_user(self, model: DecisionModel) -> User:
        """The simulated user."""

    def user_voices(self) -> Any:
        """The customer's wordings: `train` and `held_out`."""

    def spoken(self, episode: Episode, turn: Any) -> Any:
        """The customer's turn as acts by name with their values."""


@dataclass(frozen=True)
class Scenario:
    """One situation, its customer, and what would be right."""

    id: str
    """`<task id>/<user seed>`: enough to replay it."""
    topic: str
    context: str
    user_messages: tuple[str, ...]
    """What the customer opens with; all else depends on the agent."""
    expected_resolution: str
    difficulty: float
    """What was asked for; without that the share of the split's tasks that are easier."""
    persona: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """Reset options that play this scenario."""
        task_id, _, seed = self.id.partition("/")
        return {
            "task_id": task_id,
            "user_seed": int(seed),
            "wording_seed": int(seed),
            "persona": dict(self.persona),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self) | {"user_messages": list(self.user_messages)}


class ScenarioGenerator:
    """Draws scenarios of a domain; the same seed gives the same ones in the same order."""

    def __init__(
        self,
        tasks: Tasks | None = None,
        *,
        domain: str = "customer-service",
        split: str = "train",
        seed: int = 0,
    ) -> None:
        self.tasks: Tasks = tasks or domain_called(domain)
        self.split = check_split(split)
        self._key, self._drawn = keys.mix(seed), 0

    def generate(
        self,
        topic: str | None = None,
        difficulty: float | None = None,
        persona: Persona | str | Mapping[str, Any] | None = None,
        key: int | None = None,
    ) -> Scenario:
        """A scenario; what is not given is drawn.

        Raises InvalidConfiguration for a topic the domain has not, or a difficulty outside [0, 1].
        """
        tasks = self.tasks
        if topic is not None and topic not in tasks.topics:
            raise InvalidConfiguration(f"topic={topic!r} is not one of {', '.join(tasks.topics)}")
        if difficulty is not None:
            if not (isinstance(difficulty, int | float) and 0.0 <= difficulty <= 1.0):
                raise InvalidConfiguration(f"difficulty={difficulty!r} is not a number from 0 to 1")
        if key is None:
            key = keys.child(self._key, self._drawn)
            self._drawn += 1
        table = tasks.table(self.split)
        level = -1 if difficulty is None else round(difficulty * 100)
        place = -1 if topic is None else tasks.topics.index(topic)
        number = table.choose(keys.draw(key, keys.TASK, 0, 0), place, level)
        seed = key >> 33
        user_key = user_key_of(seed)
        if persona is None:
            levels = drawn_levels(user_key, self.split, level)
            persona = persona_of_levels(levels, "drawn")
        return self._record(number, persona_of(persona), seed, table, difficulty)

    def record(self, task_id: str, persona: Any, seed: int = 0) -> Scenario:
        """The scenario of a task by name."""
        split, number = parse_task_id(task_id)
        generator = self if split == self.split else ScenarioGenerator(self.tasks, split=split)
        return generator._record(number, persona_of(persona), seed, self.tasks.table(split))

    def _record(
        self,
        number: int,
        persona: Persona,
        seed: int,
        table: TaskTable,
        difficulty: float | None = None,
    ) -> Scenario:
        tasks = self.tasks
        task = tasks.task(self.split, number)
        wording_key = wording_key_of(seed)
        episode = Episode(task, user_key_of(seed), wording_key, tasks.layout.row())
        tasks.open(episode, persona.levels)
        Engine(tasks, tasks.make_user(DecisionModel()), 2).open(episode)
        assert episode.user_turn is not None
        spoken = tasks.spoken(episode, episode.user_turn)
        style = own_style(persona.levels)
        voice = tasks.user_voices()["held_out" if self.split == "test_lexical" else "train"]
        words = voice.say(spoken, style, wording_key, 0, TEMPLATE)
        context, resolution = tasks.scenario(task)
        easier = float((table.hardness < table.hardness[number]).mean())
        return Scenario(
            id=f"{task.task_id}/{seed}",
            topic=tasks.topics[int(table.topic[number])],
            context=context,
            user_messages=(words,),
            expected_resolution=resolution,
            difficulty=round(easier, 4) if difficulty is None else difficulty,
            persona=persona.to_dict(),
            metadata={"domain": tasks.domain, "split": self.split, "tasks": SPLITS[self.split]},
        )


def user_key_of(seed: int) -> int:
    """The user's key that a `user_seed` stands for."""
    return keys.child(keys.mix(seed), 1)


def wording_key_of(seed: int) -> int:
    """The wording's key that a `wording_seed` stands for."""
    return keys.child(keys.mix(seed), 2)
