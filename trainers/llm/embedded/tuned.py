"""What the embedded model learns well with, for the scripts and for the command line alike.

    TUNED       numbers of the loop, with which GRPO learns `ConvGym/OneRequest-v0`
    CHANGED     what other objectives have beside them
    HELD_OUT    whom an evaluation meets

Plain values, as a configuration says them: the names are fields of
`trainers.llm.run_options.LanguageOptions`. Knows nothing of torch.
"""

from __future__ import annotations

from typing import Any

MODEL = "embedded"
"""Stands for the embedded model wherever a model is named."""
ENVIRONMENT = "ConvGym/OneRequest-v0"
TUNED: dict[str, Any] = {
    "iterations": 140,
    "seeds_per_iteration": 8,
    "group_size": 8,
    "minibatches": 2,
    "learning_rate": 4e-4,
    "schedule": "linear",
    "warmup": 10,
}
"""What a model of half a million weights learns well with."""
SAMPLING: dict[str, Any] = {"max_tokens": 24, "max_context": 512}
MAX_TURNS = 16
_NEAR = {"clip_low": 0.05, "clip_high": 0.05}
"""Of ratios of whole conversations of 60 tokens; GSPO's 3e-4 is for thousands."""
CHANGED: dict[str, dict[str, Any]] = {
    "gspo": _NEAR,
    "gspo_token": _NEAR,
    "dapo": {"resample": 2},
    "a2c": {"minibatches": 1, "critic": {"pretraining": 3}},
    "ppo": {"critic": {"pretraining": 3}},
    "vapo": {"critic": {"pretraining": 3}},
    "trpo": {"minibatches": 1, "trust_region": {"curvature_share": 0.1}},
}
"""By preset."""
HELD_OUT: dict[str, Any] = {"split": "test", "phrases": "held_out"}
"""Keywords of ConvGym's environments in an evaluation: other people, in words nobody trained on."""


def tuned(algorithm: str) -> dict[str, Any]:
    """Options of one algorithm for the embedded model, which reads no system message."""
    loop = {name: value for name, value in TUNED.items() if name != "iterations"}
    own = {"system": "", "sampling": dict(SAMPLING), "max_turns": MAX_TURNS}
    return {**own, **loop, **CHANGED.get(algorithm, {})}
