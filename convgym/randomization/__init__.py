"""Who calls, about what, how they write, how hard it gets: drawn, scheduled, or adapted."""

from convgym.randomization.adaptive import AdaptiveRanges
from convgym.randomization.personas import PersonaGenerator
from convgym.randomization.randomizer import DomainRandomizer
from convgym.randomization.scenarios import Scenario, ScenarioGenerator

__all__ = [
    "AdaptiveRanges",
    "DomainRandomizer",
    "PersonaGenerator",
    "Scenario",
    "ScenarioGenerator",
]
