"""Proximal policy optimisation over dialogue acts, with illegal acts masked out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainers.online.on_policy import ClippedConfig


@dataclass(frozen=True, kw_only=True)
class MaskablePPOConfig(ClippedConfig):
    """PPO with clipped ratios (Schulman et al., 2017, arXiv:1707.06347) over legal acts only
    (Huang & Ontañón, 2020, arXiv:2006.14171).

    L = E[ min(r A, clip(r, 1-ε, 1+ε) A) ] − c_v (V − R)² + c_e H

    Give the environment `reward="graded"`: partial evidence pays at the end, so that the first
    steps of a long chain are learnt before the last is ever reached. With "success" or
    "milestones", whose shaping telescopes away, the first 200,000 turns earn nothing (tried).

    Tried at the desk with 800,000 turns (seed 0, 205 CPU-s with both evaluations): success of 500
    test tasks from 0.000 [0.000, 0.008] to 0.304 [0.265, 0.346].

    The environment must have `action_masks()`; the learner refuses one that has not.
    """

    algorithm: ClassVar[str] = "MaskablePPO"
