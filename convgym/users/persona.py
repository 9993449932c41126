"""Who the user is: a few traits, each in five levels.

Traits act only through decision points (`convgym.users.decisions`): a persona tilts
probabilities, it never adds a rule of its own.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from convgym.engine.keys import PERSONA, below, draw
from convgym.errors import InvalidConfiguration

LEVELS = 5


@dataclass(frozen=True, slots=True)
class Persona:
    """Trait levels 0 (least) to 4 (most)."""

    patience: int = 2
    """How much bother is borne before leaving."""
    openness: int = 2
    """How much is said unasked: front-loading, volunteering."""
    accuracy: int = 2
    """How seldom an address, a code or an order number is misremembered."""
    assertiveness: int = 2
    """How often a refusal is disputed."""
    politeness: int = 2
    """Greetings, thanks and farewells."""

    def __post_init__(self) -> None:
        for name, level in zip(self.__slots__, astuple(self), strict=True):
            if not (isinstance(level, int) and 0 <= level < LEVELS):
                raise InvalidConfiguration(
                    f"the persona's {name} is {level!r}; a trait is a whole number from 0 to "
                    f"{LEVELS - 1}"
                )


BUILT_IN: dict[str, Persona] = {
    "patient_expert": Persona(4, 3, 4, 1, 3),
    "frustrated_novice": Persona(1, 1, 1, 3, 1),
    "busy_professional": Persona(1, 4, 3, 2, 1),
    "curious_learner": Persona(3, 2, 2, 1, 4),
    "skeptical_critic": Persona(2, 1, 3, 4, 0),
}


def named_persona(name: str) -> Persona:
    """The built-in persona called `name`; raises InvalidConfiguration for another name."""
    if not isinstance(name, str) or name not in BUILT_IN:
        raise InvalidConfiguration(
            f"no persona is called {name!r}; the built-in ones are {', '.join(BUILT_IN)}"
        )
    return BUILT_IN[name]


def draw_persona(key: int) -> Persona:
    """Every trait drawn independently and uniformly from the episode's persona stream."""
    return Persona(*(below(draw(key, PERSONA, 0, trait), LEVELS) for trait in range(5)))
