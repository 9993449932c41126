"""Named sets of changes to a learner's options: how far it may go from what is known to work.

    balanced       what was measured (`trainers.offline.tuned`, the online configurations)
    conservative   smaller steps, nearer to the data or to the last policy
    aggressive     larger steps, further from them
    experimental   more than one critic, wider networks: costs more, promises nothing

Only `balanced` was measured; the others say in which direction one would turn the knobs, so that
a search has somewhere to begin.
"""

from __future__ import annotations

from typing import Any

_WIDE = {"hidden": [512, 512]}
_BY_VALUES: dict[str, dict[str, dict[str, Any]]] = {
    "bc": {
        "conservative": {"learning_rate": 1e-3},
        "aggressive": {"learning_rate": 4e-3, "best": 0.3},
        "experimental": {**_WIDE, "best": 0.5},
    },
    "bcq": {
        "conservative": {"threshold": 0.5},
        "aggressive": {"threshold": 0.1, "learning_rate": 4e-3},
        "experimental": {**_WIDE, "critics": 3, "pessimism": 0.5},
    },
    "bear": {
        "conservative": {"mmd_threshold": 0.02, "learning_rate": 1e-3},
        "aggressive": {"mmd_threshold": 0.15, "learning_rate": 4e-3},
        "experimental": {**_WIDE, "critics": 3, "pessimism": 0.5},
    },
    "cql": {
        "conservative": {"cql_alpha": 1.0, "bc_weight": 0.6},
        "aggressive": {"cql_alpha": 0.2, "bc_weight": 0.1, "learning_rate": 4e-3},
        "experimental": {**_WIDE, "critics": 3, "pessimism": 0.5},
    },
    "candidate_cql": {
        "conservative": {"cql_alpha": 1.0},
        "aggressive": {"cql_alpha": 0.2, "learning_rate": 4e-3},
        "experimental": {**_WIDE, "critics": 3},
    },
    "decision_transformer": {
        "conservative": {"dropout": 0.2, "actor_learning_rate": 1e-3},
        "aggressive": {"dropout": 0.05, "actor_learning_rate": 6e-3},
        "experimental": {"layers": 3, "width": 128, "context_length": 30},
    },
    "dqn": {
        "conservative": {"bc_weight": 0.3, "learning_rate": 1e-3},
        "aggressive": {"learning_rate": 4e-3, "target_update": 200},
        "experimental": {**_WIDE, "critics": 3, "pessimism": 0.5},
    },
    "iql": {
        "conservative": {"temperature": 3.0, "expectile": 0.6},
        "aggressive": {"temperature": 10.0, "expectile": 0.8},
        "experimental": {**_WIDE, "critics": 3, "pessimism": 0.5},
    },
    "mc": {
        "conservative": {"threshold": 0.5},
        "aggressive": {"threshold": 0.1, "learning_rate": 4e-3},
        "experimental": _WIDE,
    },
}
_CLIPPED: dict[str, dict[str, Any]] = {
    "conservative": {"learning_rate": 3e-4, "clip_range": 0.1, "n_epochs": 4},
    "aggressive": {"learning_rate": 2e-3, "clip_range": 0.3},
    "experimental": {"hidden": [256, 256], "entropy_coefficient": 0.02},
}
_GREEDY: dict[str, dict[str, Any]] = {
    "conservative": {"learning_rate": 2e-4, "target_update": 2000},
    "aggressive": {"learning_rate": 1e-3, "exploration_fraction": 0.2},
    "experimental": {"hidden": [256, 256], "n_step_td": 20},
}
_BY_PLAY: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": _CLIPPED,
    "maskable_ppo": _CLIPPED,
    "recurrent_ppo": _CLIPPED,
    "dqn": _GREEDY,
    "qr_dqn": _GREEDY,
    "a2c": {
        "conservative": {"learning_rate": 3e-4, "n_steps": 16},
        "aggressive": {"learning_rate": 2e-3, "n_steps": 5},
        "experimental": {"hidden": [256, 256], "entropy_coefficient": 0.01},
    },
    "trpo": {
        "conservative": {"target_kl": 0.01},
        "aggressive": {"target_kl": 0.04},
        "experimental": {"hidden": [256, 256], "gae_lambda": 0.98},
    },
}
_NEAR = {"clip_low": 0.1, "clip_high": 0.1}
_LANGUAGE: dict[str, dict[str, dict[str, Any]]] = {
    "conservative": {
        "all": {"kl": 0.04, "max_grad_norm": 0.5, "warmup": 20},
        "clipped": _NEAR,
        "trusting": {"trust_region": {"max_kl": 0.003}},
    },
    "aggressive": {
        "all": {"max_grad_norm": 2.0},
        "clipped": {"clip_high": 0.28},
        "many_steps": {"epochs": 2},
        "trusting": {"trust_region": {"max_kl": 0.03}},
    },
    "experimental": {"all": {"seeds_per_iteration": 16}, "groups": {"resample": 2}},
}
"""Of language models; learning rates are left as they are, for they hang on the model's size."""
_ONE_STEP, _NO_GROUPS = {"a2c", "trpo"}, {"a2c", "ppo", "vapo", "reinforce++"}
_OWN_CLIP = {"a2c", "trpo", "cispo", "gspo", "gspo_token", "dapo", "vapo"}
"""Those without a clip at both ends, and those whose clip is on another scale, or the point."""
_TABULAR = {
    "conservative": {"learning_rate": 0.3},
    "aggressive": {"learning_rate": 2.0},
    "experimental": {"baseline_rate": 0.3},
}

Profiles = dict[str, dict[str, Any]]


def offline(algorithm: str) -> Profiles:
    """Of an offline algorithm over acts."""
    return _changes(_BY_VALUES[algorithm])


def online(algorithm: str) -> Profiles:
    """Of an online algorithm."""
    return _changes(_BY_PLAY[algorithm])


def language(algorithm: str) -> Profiles:
    """Of a learner that trains a language model by its conversations."""
    which = {
        "all": True,
        "clipped": algorithm not in _OWN_CLIP,
        "many_steps": algorithm not in _ONE_STEP,
        "groups": algorithm not in _NO_GROUPS,
        "trusting": algorithm == "trpo",
    }
    return _changes(
        {
            name: {key: v for part, own in parts.items() if which[part] for key, v in own.items()}
            for name, parts in _LANGUAGE.items()
        }
    )


def supervised() -> Profiles:
    """Of a language model that imitates."""
    return _changes(
        {
            "conservative": {"learning_rate": 5e-4},
            "aggressive": {"learning_rate": 4e-3},
            "experimental": {"batch_size": 128},
        }
    )


def preferring() -> Profiles:
    """Of a language model that learns from pairs."""
    return _changes(
        {
            "conservative": {"beta": 0.3, "imitation": 0.5},
            "aggressive": {"beta": 0.03},
            "experimental": {"label_smoothing": 0.1},
        }
    )


def tabular() -> Profiles:
    """Of the table."""
    return _changes(_TABULAR)


def _changes(changes: dict[str, dict[str, Any]]) -> Profiles:
    return {"balanced": {}, **{name: {"learner": options} for name, options in changes.items()}}
