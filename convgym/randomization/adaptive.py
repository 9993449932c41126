"""Automatic domain randomisation: ranges widen where the policy succeeds.

    each parameter k runs from its easy end to a bound b_k, b = 0 at first
    an episode:  one parameter stands at its bound, the others anywhere up to theirs
    50 such:     success ≥ 0.8 → b_k one step wider;  ≤ 0.5 → one step narrower

After OpenAI et al., "Solving Rubik's Cube with a Robot Hand" (2019), §5: boundary sampling, a
buffer per boundary, two thresholds. Here every range has one moving end, the hard one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from convgym.engine.keys import PERSONA, below, draw

UPPER, LOWER = 0.8, 0.5
STEP = 5
"""Hundredths by which a range moves."""
BUFFER = 50
"""Episodes at a boundary before it moves."""
_BOUNDARY = 64
"""Number of the draw that chooses the boundary; those after it place the other parameters."""


@dataclass
class AdaptiveRanges:
    """Bounds of named parameters in hundredths, moved by successes at the boundary."""

    names: Sequence[str]
    upper: float = UPPER
    lower: float = LOWER
    step: int = STEP
    buffer: int = BUFFER
    bounds: dict[str, int] = field(default_factory=dict)
    _successes: dict[str, list[bool]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in self.names:
            self.bounds.setdefault(name, 0)
            self._successes.setdefault(name, [])

    def boundary(self, key: int) -> str:
        """The parameter that stands at its bound in the episode with this key."""
        return self.names[below(draw(key, PERSONA, 0, _BOUNDARY), len(self.names))]

    def draw(self, key: int) -> dict[str, int]:
        """Hundredths of each parameter in the episode with this key."""
        values = {
            name: below(draw(key, PERSONA, 0, _BOUNDARY + 1 + k), self.bounds[name] + 1)
            for k, name in enumerate(self.names)
        }
        boundary = self.boundary(key)
        values[boundary] = self.bounds[boundary]
        return values

    def record(self, boundary: str, success: bool) -> None:
        """Note how an episode at this boundary ended; a full buffer may move the bound."""
        seen = self._successes[boundary]
        seen.append(bool(success))
        if len(seen) < self.buffer:
            return
        rate = sum(seen) / len(seen)
        seen.clear()
        if rate >= self.upper:
            self.bounds[boundary] = min(self.bounds[boundary] + self.step, 100)
        elif rate <= self.lower:
            self.bounds[boundary] = max(self.bounds[boundary] - self.step, 0)

    @property
    def width(self) -> float:
        """Mean bound, from 0 (all ranges closed) to 1."""
        return sum(self.bounds.values()) / (100 * len(self.bounds))
