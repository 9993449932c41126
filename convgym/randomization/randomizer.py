"""Domain randomisation: who calls, about what and in which style, and how hard it gets.

    draw(key, step) ─► {persona, style, topic, difficulty}     one episode's options
         │                 └─ variation × (drawn − centre) around a centre
         └─ difficulty: fixed, a linear curriculum over steps, or ranges that adapt

Randomise what is uncertain: people, topics, wording, difficulty. Rules of the shop, the meaning
of acts and the definition of success are never touched here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from convgym.engine.keys import MASK, PERSONA, TASK, WORDING, below, child, draw, mix
from convgym.errors import InvalidConfiguration
from convgym.language.style import Style
from convgym.randomization.adaptive import AdaptiveRanges
from convgym.randomization.scenarios import Scenario, ScenarioGenerator, Tasks
from convgym.users.persona import (
    EASY_ENDS,
    TRAITS,
    Persona,
    draw_levels,
    hardened,
    own_style,
    persona_of,
    persona_of_levels,
)

CURRICULA = ("none", "linear", "adr")
_TOPIC, _STYLE, _PICK = 20, 30, 40
"""Numbers of the draws beside those of the traits."""


@dataclass(kw_only=True)
class DomainRandomizer:
    """Draws the options of each episode; seeded, and the same for the same key and step.

    Raises InvalidConfiguration for values outside their ranges.
    """

    persona_variation: float = 1.0
    """0: every customer is the centre; 1: the full range of every trait."""
    topic_variation: float = 1.0
    """Probability of an episode on any topic instead of the first of `topics`."""
    style_variation: float = 0.0
    """0: everybody writes as their persona does; 1: any style, whoever writes."""
    personas: Sequence[Persona | str | Mapping[str, Any]] = ()
    """Centres, one drawn per episode; none: the middle of every trait."""
    topics: Sequence[str] = ()
    """The topics that occur; empty: all, as often as the tasks have them."""
    curriculum: str = "none"
    """none, linear or adr (automatic domain randomisation)."""
    initial_difficulty: float = 0.1
    final_difficulty: float = 0.9
    curriculum_steps: int = 10_000
    """Agent steps over which the linear curriculum goes from the first to the last difficulty."""
    use_curriculum: bool = False
    """The same as `curriculum="linear"`."""
    difficulty: float | None = None
    """The difficulty without a curriculum; None leaves it to the tasks and personas drawn."""
    seed: int = 0
    ranges: AdaptiveRanges = field(
        default_factory=lambda: AdaptiveRanges(("task", *EASY_ENDS)), repr=False
    )
    """What the adaptive curriculum has opened so far."""

    def __post_init__(self) -> None:
        for name in (
            "persona_variation",
            "topic_variation",
            "style_variation",
            "initial_difficulty",
            "final_difficulty",
            "difficulty",
        ):
            value = getattr(self, name)
            if name == "difficulty" and value is None:
                continue
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0.0 <= value <= 1.0):
                raise InvalidConfiguration(f"{name} is {value!r}; it takes a number from 0 to 1")
        if not isinstance(self.use_curriculum, bool):
            raise InvalidConfiguration(f"use_curriculum is {self.use_curriculum!r}, not a bool")
        if self.use_curriculum and self.curriculum == "none":
            self.curriculum = "linear"
        if not (isinstance(self.curriculum, str) and self.curriculum in CURRICULA):
            raise InvalidConfiguration(
                f"curriculum={self.curriculum!r} is not one of {', '.join(CURRICULA)}"
            )
        if not (isinstance(self.curriculum_steps, int) and self.curriculum_steps >= 1):
            raise InvalidConfiguration(
                f"curriculum_steps is {self.curriculum_steps!r}; it takes a whole number from 1"
            )
        for name in ("personas", "topics"):
            if not isinstance(getattr(self, name), list | tuple):
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}; give a list")
        if not all(isinstance(topic, str) for topic in self.topics):
            raise InvalidConfiguration(f"topics are {self.topics!r}; each must be a str")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise InvalidConfiguration(f"seed is {self.seed!r}; it takes a whole number from 0")
        self._centres = tuple(persona_of(given) for given in self.personas)
        self._key, self._sampled = mix(self.seed), 0

    @classmethod
    def of(cls, given: DomainRandomizer | Mapping[str, Any]) -> DomainRandomizer:
        """A randomizer from itself or from a mapping of its fields."""
        if isinstance(given, DomainRandomizer):
            return given
        if not isinstance(given, Mapping):
            raise InvalidConfiguration(
                f"randomizer={given!r} is neither a DomainRandomizer nor a mapping of its fields"
            )
        fields = set(cls.__dataclass_fields__) - {"ranges"}
        unknown = set(given) - fields
        if unknown:
            raise InvalidConfiguration(
                f"a randomizer has no {min(unknown, key=str)!r}; it has {', '.join(sorted(fields))}"
            )
        return cls(**given)

    # -- one episode -----------------------------------------------------------------------------

    def draw(self, key: int, step: int = 0) -> dict[str, Any]:
        """The reset options of the episode with this key, after `step` agent steps of training."""
        key &= MASK
        if self.curriculum == "adr":
            return self._adaptive(key)
        options: dict[str, Any] = {}
        difficulty = self.get_current_difficulty(step)
        levels: Sequence[int] = self._levels(key)
        if difficulty is not None:
            options["difficulty"] = difficulty
            levels = hardened(levels, round(difficulty * 100))
        return options | self._people(key, levels)

    def record(self, success: bool, key: int) -> None:
        """How the episode with this key ended; only the adaptive curriculum listens.

        One randomizer may serve any number of environments: the key tells which range stood at
        its bound.
        """
        if self.curriculum == "adr":
            self.ranges.record(self.ranges.boundary(key & MASK), success)

    def get_current_difficulty(self, step: int = 0) -> float | None:
        """Difficulty after `step` agent steps:

        d(step) = initial + (final − initial) · min(step / curriculum_steps, 1)

        for the linear curriculum; the mean width of the ranges for the adaptive one; else
        `difficulty`, which may be None.
        """
        if self.curriculum == "linear":
            share = min(max(step, 0) / self.curriculum_steps, 1.0)
            first, last = self.initial_difficulty, self.final_difficulty
            return first + (last - first) * share
        return self.ranges.width if self.curriculum == "adr" else self.difficulty

    def _people(self, key: int, levels: Sequence[int]) -> dict[str, Any]:
        levels = tuple(levels)
        options: dict[str, Any] = {"persona": persona_of_levels(levels, "randomized")}
        if self.style_variation:
            options["style"] = self._style(key, levels)
        topic = self._topic(key)
        if topic is not None:
            options["topic"] = topic
        return options

    def _levels(self, key: int) -> list[int]:
        centre = self._centre(key)
        width = round(self.persona_variation * 100)
        drawn = draw_levels(key)
        return [c + (d - c) * width // 100 for c, d in zip(centre, drawn, strict=True)]

    def _centre(self, key: int) -> Sequence[int]:
        if not self._centres:
            return Persona().levels
        return self._centres[below(draw(key, PERSONA, 0, _PICK), len(self._centres))].levels

    def _style(self, key: int, levels: Sequence[int]) -> Style:
        own, width = own_style(tuple(levels)), round(self.style_variation * 100)

        def moved(level: int, number: int) -> int:
            drawn = below(draw(key, WORDING, 0, _STYLE + number), 101)
            return level + (drawn - level) * width // 100

        return Style(moved(own.formality, 0), moved(own.verbosity, 1), moved(own.typo_rate, 2))

    def _topic(self, key: int) -> str | None:
        varied = below(draw(key, TASK, 0, _TOPIC), 100) < round(self.topic_variation * 100)
        if not self.topics:
            return None
        count = len(self.topics) if varied else 1
        return self.topics[below(draw(key, TASK, 0, _TOPIC + 1), count)]

    def _adaptive(self, key: int) -> dict[str, Any]:
        """Each range runs from its easy end; how far is what the policy has earned."""
        values = self.ranges.draw(key)
        levels = list(draw_levels(key))
        for trait, easy in EASY_ENDS.items():
            end = round(easy * 100)
            levels[TRAITS.index(trait)] = end + (100 - 2 * end) * values[trait] // 100
        options = self._people(key, levels)
        options["difficulty"] = values["task"] / 100
        return options

    # -- by hand -----------------------------------------------------------------------------------

    def sample_persona(self) -> Persona:
        """The next persona of the seed, at the first difficulty of a curriculum."""
        persona: Persona = self.draw(self._next())["persona"]
        return persona

    def sample_scenario(
        self,
        topic: str | None = None,
        difficulty: float | None = None,
        tasks: Tasks | None = None,
    ) -> Scenario:
        """The next scenario of the seed; `tasks` is the domain, customer service by default."""
        key = self._next()
        options = self.draw(key)
        return ScenarioGenerator(tasks).generate(
            topic=topic or options.get("topic"),
            difficulty=difficulty if difficulty is not None else options.get("difficulty"),
            persona=options["persona"],
            key=key,
        )

    def _next(self) -> int:
        self._sampled += 1
        return child(self._key, self._sampled)
