"""What may be fixed before an episode begins, and by whom.

    reset(options=…)  before  keywords of the environment  before  randomizer, drawn per episode

What none of them fixes is drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from convgym.engine import keys
from convgym.engine.tasks import SPLITS, TaskTable, check_split, parse_task_id
from convgym.errors import InvalidConfiguration
from convgym.language.style import Style, style_of
from convgym.randomization.personas import PersonaGenerator
from convgym.users.persona import Levels, Persona, drawn_levels, persona_of

OPTIONS = (
    "task_id",
    "split",
    "user_seed",
    "wording_seed",
    "topic",
    "difficulty",
    "persona",
    "style",
)
"""What `reset(options=)` takes."""


def choose(keyword: str, value: str, allowed: tuple[str, ...]) -> str:
    """`value` itself; raises InvalidConfiguration where it is not allowed."""
    if not (isinstance(value, str) and value in allowed):
        raise InvalidConfiguration(f"{keyword}={value!r} is not one of {', '.join(allowed)}")
    return value


def is_number(value: object) -> bool:
    """A real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """A whole number; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def hundredths(keyword: str, value: Any) -> int:
    """A number in [0, 1] in whole hundredths; raises InvalidConfiguration for another."""
    if not (is_number(value) and 0.0 <= value <= 1.0):
        raise InvalidConfiguration(f"{keyword}={value!r} is not a number from 0 to 1")
    return round(value * 100)


@dataclass(frozen=True, slots=True)
class EpisodeSetup:
    """What is fixed of the next episode; None is drawn."""

    task_id: str | None = None
    split: str | None = None
    topic: int | None = None
    difficulty: int | None = None
    """In hundredths."""
    persona: Persona | PersonaGenerator | None = None
    style: Style | None = None
    user_seed: int | None = None
    wording_seed: int | None = None

    def overridden(
        self, given: Mapping[str, Any], topics: tuple[str, ...], where: str
    ) -> EpisodeSetup:
        """This setup with what `given` fixes; raises InvalidConfiguration for what is not allowed.

        A value of None fixes nothing.
        """
        if not isinstance(given, Mapping):
            raise InvalidConfiguration(f"{where} are {given!r}; they must be a dict")
        unknown = set(given) - set(OPTIONS)
        if unknown:
            raise InvalidConfiguration(
                f"{where} have {min(unknown, key=str)!r}; they take {', '.join(OPTIONS)}"
            )
        fixed: dict[str, Any] = {}
        for name, value in given.items():
            if value is not None:
                fixed[name] = _READ[name](name, value, topics)
        return replace(self, **fixed) if fixed else self

    def completed(
        self, given: Mapping[str, Any], topics: tuple[str, ...], where: str
    ) -> EpisodeSetup:
        """This setup with what `given` fixes and it leaves open."""
        free = {name: value for name, value in given.items() if getattr(self, name, 0) is None}
        return self.overridden(free, topics, where)

    @property
    def fixed(self) -> frozenset[str]:
        """Names of what is fixed; the split never is."""
        names = (field for field in OPTIONS if field != "split")
        return frozenset(name for name in names if getattr(self, name) is not None)

    @property
    def draws_tasks(self) -> bool:
        """Whether a topic or a difficulty decides which tasks are drawn."""
        return self.topic is not None or self.difficulty is not None

    def task(self, key: int, table: Callable[[str], TaskTable]) -> tuple[str, int]:
        """Split and number of the task of the episode with this key."""
        if self.task_id is not None:
            return parse_task_id(self.task_id)
        assert self.split is not None
        drawn = keys.draw(key, keys.TASK, 0, 0)
        if not self.draws_tasks:
            return self.split, keys.below(drawn, SPLITS[self.split])
        topic = -1 if self.topic is None else self.topic
        difficulty = -1 if self.difficulty is None else self.difficulty
        return self.split, table(self.split).choose(drawn, topic, difficulty)

    def drawn_persona(self, user_key: int, split: str) -> Persona | Levels:
        """The persona of the episode: given, or drawn and moved towards the difficulty.

        A drawn one is its levels alone: nobody needs to name it.
        """
        if isinstance(self.persona, Persona):
            return self.persona
        if self.persona is not None:
            return self.persona.draw(user_key)
        return drawn_levels(user_key, split, -1 if self.difficulty is None else self.difficulty)


def persona_or_ranges(given: Any) -> Persona | PersonaGenerator:
    """A persona, or the generator of personas where a trait is given as a range [low, high]."""
    if isinstance(given, PersonaGenerator):
        return given
    if isinstance(given, Mapping) and any(isinstance(v, list | tuple) for k, v in given.items()
                                          if k != "traits"):
        return PersonaGenerator.of(given)
    return persona_of(given)


def _topic(name: str, value: Any, topics: tuple[str, ...]) -> int:
    return topics.index(choose(name, value, topics))


def _task_id(name: str, value: Any, topics: tuple[str, ...]) -> str:
    parse_task_id(value)
    return str(value)


def _seed(name: str, value: Any, topics: tuple[str, ...]) -> int:
    if not is_whole(value) or value < 0:
        raise InvalidConfiguration(f"{name}={value!r}; it must be a whole number from 0")
    return int(value)


_READ: dict[str, Any] = {
    "task_id": _task_id,
    "split": lambda name, value, topics: check_split(value),
    "user_seed": _seed,
    "wording_seed": _seed,
    "topic": _topic,
    "difficulty": lambda name, value, topics: hundredths(name, value),
    "persona": lambda name, value, topics: persona_or_ranges(value),
    "style": lambda name, value, topics: style_of(value),
}
