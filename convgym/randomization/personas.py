"""Personas from ranges: each trait uniform between a low and a high end, in whole hundredths."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from convgym.engine.keys import MASK, PERSONA, below, child, draw, mix
from convgym.errors import InvalidConfiguration
from convgym.users.persona import TRAITS, Persona, named_persona, persona_of_levels

Range = tuple[int, int]


class PersonaGenerator:
    """Draws personas; the same seed gives the same personas in the same order.

        PersonaGenerator(seed=0, patience=(0.0, 0.3)).sample(expertise_range=(0.5, 1.0))

    Raises InvalidConfiguration for a trait there is not, or a range outside [0, 1].
    """

    def __init__(self, seed: int = 0, **ranges: Any) -> None:
        self._key, self._drawn = mix(seed), 0
        self.ranges: tuple[Range, ...] = _ranges(((0, 100),) * len(TRAITS), ranges)

    @classmethod
    def of(cls, given: Mapping[str, Any], seed: int = 0) -> PersonaGenerator:
        """A generator from a mapping: a number fixes a trait, a pair is its range.

        `base` may name a built-in persona, which fixes the traits that are not given.
        """
        words = ("name", "traits", "base")
        fields = {name: value for name, value in given.items() if name not in words}
        base = given.get("base")
        if base is not None:
            fixed = named_persona(base)
            fields = {trait: getattr(fixed, trait) for trait in TRAITS} | fields
        return cls(seed, **fields)

    def sample(self, key: int | None = None, **ranges: Any) -> Persona:
        """A persona; `patience_range=(low, high)`, … narrow it for this draw.

        `key` names the draw; without it each call makes the next one of the seed.
        """
        if key is None:
            key = child(self._key, self._drawn)
            self._drawn += 1
        short = {}
        for name, value in ranges.items():
            if not name.endswith("_range"):
                raise InvalidConfiguration(
                    f"sample() takes no {name!r}; write a trait and _range: patience_range=(0, 1)"
                )
            short[name.removesuffix("_range")] = value
        return _persona(key & MASK, _ranges(self.ranges, short))

    def draw(self, key: int) -> Persona:
        """The persona of the episode whose user has this key."""
        return _persona(key, self.ranges)


def _persona(key: int, ranges: tuple[Range, ...]) -> Persona:
    levels = [
        low + below(draw(key, PERSONA, 0, trait), high - low + 1)
        for trait, (low, high) in enumerate(ranges)
    ]
    return persona_of_levels(levels, "generated")


def _ranges(before: tuple[Range, ...], given: Mapping[str, Any]) -> tuple[Range, ...]:
    ranges = dict(zip(TRAITS, before, strict=True))
    for name, value in given.items():
        ends = value if isinstance(value, list | tuple) else (value, value)
        right = name in ranges and len(ends) == 2
        if not (right and all(isinstance(e, Real) and not isinstance(e, bool) for e in ends)):
            raise InvalidConfiguration(
                f"{name}={value!r} is no range of a trait; give two numbers from 0 to 1 for one of "
                f"{', '.join(TRAITS)}"
            )
        if not 0.0 <= ends[0] <= ends[1] <= 1.0:
            raise InvalidConfiguration(
                f"the range of {name} is {value!r}; it needs 0 <= low <= high <= 1"
            )
        ranges[name] = (round(ends[0] * 100), round(ends[1] * 100))
    return tuple(ranges.values())
