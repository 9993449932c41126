"""Who the user is: eleven traits in [0, 1], a name, and words for people and writers.

    Persona(patience=0.9, expertise=0.2, name="gentle beginner")
       └── levels: the traits in whole hundredths, the only form that decides anything

Traits act only through decision points (`convgym.users.decisions`), through the wording
(verbosity, formality, typo_rate) and nowhere else: a persona tilts probabilities, it never
adds a rule of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from convgym.engine.keys import PERSONA, draws
from convgym.errors import InvalidConfiguration
from convgym.language.style import Style

TRAITS = (
    "patience",
    "expertise",
    "verbosity",
    "formality",
    "cooperativeness",
    "accuracy",
    "compliance",
    "assertiveness",
    "typo_rate",
    "scepticism",
    "curiosity",
)
HUNDRED = 100
"""Levels run from 0 to this."""

Levels = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """Traits from 0 (least) to 1 (most); 0.5 is the customer the probabilities were given for.

    Raises InvalidConfiguration for a trait that is no number in [0, 1].
    """

    patience: float = 0.5
    """How much bother is borne before showing it, and before leaving."""
    expertise: float = 0.5
    """How seldom a term or a request needs explaining."""
    verbosity: float = 0.5
    """How many words are used."""
    formality: float = 0.5
    """How formal they are; formal people also thank and say goodbye."""
    cooperativeness: float = 0.5
    """How much is said unasked, and how many questions of one reply are answered."""
    accuracy: float = 0.5
    """How seldom an address, a code or an order number is misremembered."""
    compliance: float = 0.5
    """Whether one does what one is asked to do, skips it, or says falsely to have done it."""
    assertiveness: float = 0.5
    """How often a refusal is disputed."""
    typo_rate: float = 0.0
    """At 1 one word in eight is misspelt; values that matter never are."""
    scepticism: float = 0.5
    """How often one asks what something is needed for, and whether it is really true."""
    curiosity: float = 0.5
    """How often one wants to know how things go on."""
    name: str = "custom"
    traits: tuple[str, ...] = ()
    """What a person or a writing model should know beside the numbers: "in a hurry"."""

    def __post_init__(self) -> None:
        for trait in TRAITS:
            value = getattr(self, trait)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0.0 <= value <= 1.0):
                raise InvalidConfiguration(
                    f"the persona's {trait} is {value!r}; a trait is a number from 0 to 1"
                )
        if not isinstance(self.name, str):
            raise InvalidConfiguration(f"the persona's name is {self.name!r}; it must be a str")
        words: object = self.traits
        if not isinstance(words, tuple | list) or not all(isinstance(word, str) for word in words):
            raise InvalidConfiguration(f"the persona's traits are {words!r}; list some words")
        object.__setattr__(self, "traits", tuple(words))

    @property
    def levels(self) -> Levels:
        """The traits in whole hundredths, in the order of `TRAITS`."""
        return tuple(round(getattr(self, trait) * HUNDRED) for trait in TRAITS)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `persona_of` reads it back."""
        numbers = {trait: getattr(self, trait) for trait in TRAITS}
        return {**numbers, "name": self.name, "traits": list(self.traits)}


def _built_in(name: str, traits: str, *levels: float) -> Persona:
    return Persona(
        **dict(zip(TRAITS, levels, strict=True)), name=name, traits=tuple(traits.split(", "))
    )


BUILT_IN: dict[str, Persona] = {
    persona.name: persona
    for persona in (
        #   pat  exp   verb  form  coop  acc   comp  ass   typo  scep  cur
        _built_in(
            "patient_expert", "calm, knows the shop, exact",
            0.95, 0.95, 0.45, 0.60, 0.85, 0.95, 0.95, 0.20, 0.05, 0.15, 0.30,
        ),
        _built_in(
            "frustrated_novice", "annoyed before it began, new to online shops",
            0.10, 0.05, 0.60, 0.20, 0.30, 0.25, 0.35, 0.75, 0.55, 0.55, 0.40,
        ),
        _built_in(
            "busy_professional", "in a hurry, brief, says what is needed",
            0.25, 0.70, 0.05, 0.65, 0.90, 0.75, 0.60, 0.55, 0.20, 0.30, 0.05,
        ),
        _built_in(
            "curious_learner", "friendly, wants to understand",
            0.80, 0.25, 0.85, 0.45, 0.65, 0.60, 0.80, 0.25, 0.15, 0.20, 0.95,
        ),
        _built_in(
            "skeptical_critic", "trusts nobody, insists",
            0.40, 0.60, 0.65, 0.85, 0.20, 0.80, 0.50, 0.95, 0.05, 0.95, 0.55,
        ),
    )
}  # fmt: skip
ALIASES = {"sceptical_critic": "skeptical_critic"}


def named_persona(name: str) -> Persona:
    """The built-in persona called `name`; raises InvalidConfiguration for another name."""
    if not isinstance(name, str) or ALIASES.get(name, name) not in BUILT_IN:
        raise InvalidConfiguration(
            f"no persona is called {name!r}; the built-in ones are {', '.join(BUILT_IN)}"
        )
    return BUILT_IN[ALIASES.get(name, name)]


def persona_of(given: Persona | str | Mapping[str, Any]) -> Persona:
    """A persona from itself, from the name of a built-in one, or from a mapping of traits.

    A mapping may name a built-in persona as `base`: the traits it lacks come from there.
    Raises InvalidConfiguration for anything else.
    """
    if isinstance(given, Persona):
        return given
    if isinstance(given, str):
        return named_persona(given)
    if not isinstance(given, Mapping):
        raise InvalidConfiguration(
            f"persona={given!r} is neither a Persona, a name nor a mapping of traits"
        )
    fields = dict(given)
    base = named_persona(fields.pop("base")).to_dict() if "base" in fields else {}
    unknown = set(fields) - {*TRAITS, "name", "traits"}
    if unknown:
        raise InvalidConfiguration(
            f"a persona has no {min(unknown, key=str)!r}; it has {', '.join(TRAITS)}, name and "
            "traits, and may begin from a built-in persona as base"
        )
    return Persona(**(base | fields))


def draw_levels(key: int) -> Levels:
    """Every trait drawn independently and uniformly from the episode's persona stream."""
    drawn = draws(key, PERSONA, 0, _TRAITS)
    return tuple([one * (HUNDRED + 1) >> 32 for one in drawn])  # `below`, written out


_TRAITS = range(len(TRAITS))


_EXPERTISE, _ACCURACY, _ASSERTIVENESS = (
    TRAITS.index(name) for name in ("expertise", "accuracy", "assertiveness")
)
_THIRD = 33


def drawn_levels(key: int, split: str, difficulty: int = -1) -> Levels:
    """The drawn persona of an episode of `split`, moved to a difficulty in hundredths (-1: not).

    Careless, stubborn experts (accuracy in the lowest third, expertise and assertiveness in the
    highest) are met in `test_persona` alone, and nobody else is met there.
    """
    levels = draw_levels(key)
    if difficulty >= 0:
        levels = hardened(levels, difficulty)
    return _unfamiliar(levels) if split == "test_persona" else _familiar(levels)


def is_unfamiliar(levels: Sequence[int]) -> bool:
    """Whether it is the sort of person that is met in `test_persona` alone."""
    high = HUNDRED - _THIRD
    return (
        levels[_ACCURACY] < _THIRD
        and levels[_EXPERTISE] > high
        and levels[_ASSERTIVENESS] > high
    )


def _familiar(levels: Levels) -> Levels:
    if not is_unfamiliar(levels):
        return levels
    return tuple(HUNDRED - v if i == _ACCURACY else v for i, v in enumerate(levels))


def _unfamiliar(levels: Levels) -> Levels:
    moved = list(levels)
    moved[_ACCURACY] = levels[_ACCURACY] * (_THIRD - 1) // HUNDRED
    for trait in (_EXPERTISE, _ASSERTIVENESS):
        moved[trait] = HUNDRED - (HUNDRED - levels[trait]) * (_THIRD - 1) // HUNDRED
    return tuple(moved)


def persona_of_levels(levels: Sequence[int], name: str) -> Persona:
    """The persona whose traits are these hundredths."""
    fields: dict[str, Any] = {t: v / HUNDRED for t, v in zip(TRAITS, levels, strict=True)}
    return Persona(**fields, name=name)


WRITING = tuple(TRAITS.index(name) for name in ("formality", "verbosity", "typo_rate"))


def own_style(levels: Levels, diversity: int = HUNDRED) -> Style:
    """How the persona with these levels writes by itself."""
    formality, verbosity, typo_rate = (levels[trait] for trait in WRITING)
    return Style(formality, verbosity, typo_rate, diversity)


EASY_ENDS = {
    "patience": 1.0,
    "expertise": 1.0,
    "cooperativeness": 1.0,
    "accuracy": 1.0,
    "compliance": 1.0,
    "assertiveness": 0.0,
    "scepticism": 0.0,
    "curiosity": 0.2,
}
"""The easy end of the traits that make an agent's work easy or hard; wording is left alone."""


def hardened(levels: Sequence[int], difficulty: int) -> Levels:
    """Trait levels moved towards the easy or the hard end; `difficulty` in hundredths.

    At 50 nothing moves; at 0 and 100 each trait goes four fifths of the way to its end.
    """
    moved = []
    for trait, level in zip(TRAITS, levels, strict=True):
        if trait in EASY_ENDS:
            easy = round(EASY_ENDS[trait] * HUNDRED)
            end = easy if difficulty < 50 else HUNDRED - easy
            level += (end - level) * abs(difficulty - 50) * 4 // 250
        moved.append(level)
    return tuple(moved)
