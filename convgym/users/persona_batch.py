"""Personas of many episodes at once: `convgym.users.persona` on rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.engine.batch import TRAITS as MOST_TRAITS
from convgym.engine.batch import Ints, below, draw
from convgym.engine.kernel import loop
from convgym.engine.keys import PERSONA
from convgym.users.persona import (
    _ACCURACY,
    _ASSERTIVENESS,
    _EXPERTISE,
    _THIRD,
    EASY_ENDS,
    HUNDRED,
    TRAITS,
)

AS_DRAWN, FAMILIAR, UNFAMILIAR = range(3)
"""Whether careless, stubborn experts are met like others, never, or alone."""

assert len(TRAITS) == MOST_TRAITS
_EASY = np.array([round(EASY_ENDS.get(name, -1.0) * HUNDRED) for name in TRAITS], dtype=np.int64)
_HIGH = HUNDRED - _THIRD


@loop
def draw_personas(
    rows: Ints, episodes: Any, low: Ints, high: Ints, difficulty: int, sort: int
) -> None:
    """Levels of each row's persona, uniform from `low` to `high` by its user's key.

    `difficulty` in hundredths moves them as `hardened` does; -1: it does not.
    """
    for place in range(len(rows)):
        e = episodes[rows[place]]
        for trait in range(MOST_TRAITS):
            width = high[trait] - low[trait] + 1
            level = low[trait] + below(draw(e.user_key, PERSONA, 0, trait), width)
            easy = _EASY[trait]
            if difficulty >= 0 and easy >= 0:
                end = easy if difficulty < 50 else HUNDRED - easy
                level += (end - level) * abs(difficulty - 50) * 4 // 250
            e.persona[trait] = level
        accuracy = e.persona[_ACCURACY]
        if sort == FAMILIAR:
            stubborn = e.persona[_EXPERTISE] > _HIGH and e.persona[_ASSERTIVENESS] > _HIGH
            if accuracy < _THIRD and stubborn:
                e.persona[_ACCURACY] = HUNDRED - accuracy
        elif sort == UNFAMILIAR:
            e.persona[_ACCURACY] = accuracy * (_THIRD - 1) // HUNDRED
            for trait in (_EXPERTISE, _ASSERTIVENESS):
                e.persona[trait] = HUNDRED - (HUNDRED - e.persona[trait]) * (_THIRD - 1) // HUNDRED
