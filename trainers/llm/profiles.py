"""Named sets of options for the one loop, from careful to daring.

    conservative    small steps, held near where it began
    balanced        what most runs want
    aggressive      larger steps, wider clips, more epochs
    experimental    sequence ratios, groups without spread drawn anew

They change numbers and never what is learnt from. Nothing is here but numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from convgym.errors import InvalidConfiguration
from trainers.llm.objectives import GRPO, GSPO, Clip, KLPenalty

PROFILES: dict[str, dict[str, Any]] = {
    "conservative": {
        "objective": replace(GRPO, clip=Clip(low=0.1, high=0.1), kl=KLPenalty()),
        "learning_rate": 2e-6,
        "warmup": 20,
        "max_grad_norm": 0.5,
    },
    "balanced": {"objective": "grpo", "learning_rate": 1e-5, "warmup": 10},
    "aggressive": {
        "objective": replace(GRPO, clip=Clip(low=0.2, high=0.28)),
        "learning_rate": 3e-5,
        "epochs": 2,
        "minibatches": 2,
    },
    "experimental": {
        "objective": replace(GSPO, clip=Clip(low=3e-3, high=4e-3)),
        "learning_rate": 1e-5,
        "minibatches": 2,
        "resample": 2,
    },
}

SMALL_MODEL: dict[str, Any] = {
    "iterations": 120,
    "seeds_per_iteration": 8,
    "group_size": 8,
    "minibatches": 2,
    "learning_rate": 5e-4,
    "schedule": "linear",
    "warmup": 10,
    "tokens_per_micro_batch": 4096,
}
"""What a model of half a million weights, such as the embedded one, learns well with."""


def profile(name: str) -> dict[str, Any]:
    """Options of a profile; raises InvalidConfiguration for one that there is not."""
    if name not in PROFILES:
        raise InvalidConfiguration(f"profile={name!r}; it is one of {', '.join(PROFILES)}")
    return dict(PROFILES[name])
