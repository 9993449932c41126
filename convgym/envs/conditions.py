"""What the keywords of an environment make of every episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgym.envs.episode_setup import EpisodeSetup
from convgym.envs.user_words import UserWords
from convgym.users.decisions import DecisionModel


@dataclass(frozen=True, slots=True)
class Conditions:
    """Settings of a `ConversationEnv`, as a batched engine needs them."""

    setup: EpisodeSetup
    observation: str
    action: str
    reward: str
    discount: float
    max_turns: int
    scale: NDArray[np.float32]
    """What each cell is multiplied with.  (cells,)"""
    words: Mapping[str, UserWords]
    """The user's words by part: `train`, `held_out`."""
    model: DecisionModel | None
    """How the user decides; None where a model plays it."""
    privileged: bool
