"""Hostile agents, customers and reset options in every environment: what breaks, hangs or grows?

    python scripts/fuzz_environments.py [--steps 1000000] [--seed 0] [--workers 1] [--log FILE]

Every form of every registered id is played: single, vector in each autoreset mode, and two-sided
as AEC and parallel; every observation with every action. A chunk is a stretch of 250 steps of
one form; a row of a vector environment counts as a step. What may come back:

    an action of the space, any text, an illegal act    a step; an illegal act is an error in info
    another action                                      InvalidAction, and nothing has changed
    reset options that are not allowed                  InvalidConfiguration
    a seed that is none                                 gymnasium's Error
    a step when the episode is over                     gymnasium's ResetNeeded

Anything else is a fault: another exception, a step of more than 10 seconds, an observation outside
its space, a reward that is not finite, other keys in info, a refused action that has changed
something. Exit code 1 if there is one.
"""

from __future__ import annotations

import random
import sys

from fuzzed_forms import forms
from fuzzing import Tally, command
from hostile_players import player_of

STEPS = 250
"""Of a chunk."""


def stretch(seed: int, chunk: int, steps: int = STEPS) -> Tally:
    """The steps of a chunk: forms come in turn."""
    form = forms()[chunk % len(forms())]
    return player_of(form).play(random.Random(f"{seed}-{chunk}"), steps)


def main() -> int:
    """Search."""
    return command(__doc__, "steps", 1_000_000, STEPS, stretch)


if __name__ == "__main__":
    sys.exit(main())
