"""How a language model learns from its conversations: every number of the one loop, as a value.

    seeds × group_size conversations ─► epochs × minibatches optimiser steps      one iteration
                                         └─ micro-batches of so many tokens, which change nothing

`to_dict` and `from_dict` go through plain JSON. Knows nothing of models or environments.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_args

from convgym.errors import InvalidConfiguration
from trainers.llm.credit import DiscountedReturns, GeneralizedAdvantage, GroupRelative
from trainers.llm.objectives import (
    PRESETS,
    Clip,
    KLPenalty,
    Objective,
    SamplerCorrection,
    ValueLoss,
    WeightCap,
)
from trainers.llm.sampling import Sampling
from trainers.option_kinds import check_kinds

Recompute = Literal["auto", "always", "never"]
Schedule = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, kw_only=True)
class Overlong:
    """Conversations of many tokens earn less (DAPO, arXiv:2503.14476, eq. 13)."""

    longest: int
    """Sampled tokens of a conversation from which on the whole penalty is due."""
    cache: int
    """Over so many tokens before that it grows from 0."""
    penalty: float = 1.0
    """What is taken from the last turn's reward, before rewards are compared within groups."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 0 < self.cache <= self.longest or self.penalty < 0:
            raise InvalidConfiguration(
                f"longest={self.longest}, cache={self.cache}, penalty={self.penalty}; cache is in "
                "[1, longest] and penalty is 0 or more"
            )


@dataclass(frozen=True, kw_only=True)
class Critic:
    """A network on the model's hidden states that says what a conversation will earn."""

    hidden: int = 64
    """Size of its own layer; 0: it is linear."""
    shared: bool = False
    """Whether its loss also teaches the model beneath; else hidden states come detached."""
    learning_rate: float = 1e-3
    """Of its own weights, without warmup or schedule."""
    pretraining: int = 0
    """Iterations before the first in which it alone learns, of a frozen policy (VAPO)."""
    pretraining_epochs: int = 8
    """Passes over each of them."""
    seed: int = 0
    """Of its weights."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.hidden < 0 or self.pretraining < 0 or self.pretraining_epochs < 1:
            raise InvalidConfiguration(
                f"hidden={self.hidden}, pretraining={self.pretraining}, pretraining_epochs="
                f"{self.pretraining_epochs}; the first two count from 0 and the third from 1"
            )
        if not self.learning_rate > 0:
            raise InvalidConfiguration(f"learning_rate={self.learning_rate}; it must be above 0")


@dataclass(frozen=True, kw_only=True)
class TrustRegion:
    """Steps of TRPO (arXiv:1502.05477) instead of AdamW's; one for each minibatch."""

    max_kl: float = 0.01
    """δ, most KL(old ‖ new) of a step, the mean over sampled tokens."""
    damping: float = 1e-2
    """Added to the Fisher matrix, so that directions that change nothing stay short."""
    iterations: int = 10
    """Of conjugate gradients."""
    curvature_share: float = 1.0
    """Share of a minibatch's rows, drawn at random, on which the Fisher matrix is met. The paper
    takes a tenth (appendix C), of batches that leave hundreds; gradient and line search take
    all rows."""
    shrink: float = 0.5
    """What a step that is too long or brings no gain is multiplied by."""
    attempts: int = 10
    """Steps tried; after the last the model stays as it was."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not (self.max_kl > 0 and self.damping >= 0 and 0 < self.shrink < 1):
            raise InvalidConfiguration(
                f"max_kl={self.max_kl}, damping={self.damping}, shrink={self.shrink}; max_kl is "
                "above 0, damping 0 or more, and shrink in (0, 1)"
            )
        if not 0 < self.curvature_share <= 1:
            raise InvalidConfiguration(
                f"curvature_share={self.curvature_share}; it is above 0 and at most 1"
            )
        if self.iterations < 1 or self.attempts < 1:
            raise InvalidConfiguration(
                f"iterations={self.iterations}, attempts={self.attempts}; both count from 1"
            )


@dataclass(frozen=True, kw_only=True)
class PolicyOptimizerConfig:
    """The loop rollout → credit → loss → step; what it minimises is the objective.

    Raises InvalidConfiguration for values that are not allowed, and for an objective that cannot
    learn with them.
    """

    objective: str | Objective = "grpo"
    """A name of `objectives.PRESETS`, or an objective of one's own."""
    iterations: int = 100
    """Of rollout and update."""
    seeds_per_iteration: int = 8
    """Different tasks, personas and users of an iteration."""
    group_size: int = 8
    """Conversations of each."""
    epochs: int = 1
    """Passes over an iteration's conversations."""
    minibatches: int = 1
    """Optimiser steps of a pass."""
    tokens_per_micro_batch: int | None = None
    """Tokens, padding included, that go through the model at once; the gradient is the same. None:
    16,384, and 4,096 on a CPU, whose caches that fits."""
    share_prompts: bool = True
    """Whether rows of one prompt go through the model behind it together, where that pays."""
    learning_rate: float = 1e-5
    """Of AdamW; models of a million weights want 5e-4."""
    warmup: int = 0
    """Optimiser steps over which the rate grows to that."""
    schedule: Schedule = "constant"
    """How it goes on: as it is, or down to 0 at the last step."""
    weight_decay: float = 0.0
    """Of AdamW."""
    max_grad_norm: float | None = 1.0
    """Longer gradients are shortened to it; None: none is."""
    sampling: Sampling = field(default_factory=Sampling)
    """How replies are drawn."""
    slots: int = 64
    """Conversations that are played at a time, where the learner makes its own engine."""
    max_turns: int | None = None
    """Replies after which they are cut off; None: the environment decides."""
    resample: int = 0
    """DAPO's dynamic sampling: how often new seeds may be drawn for groups of one reward only."""
    overlong: Overlong | None = None
    """Whether long conversations earn less."""
    skip_zero_advantages: bool = True
    """Whether rows that add nothing to the gradient are left out of the update."""
    recompute_old: Recompute = "auto"
    """Whether the learner scores what was sampled once more before it learns. "auto": only where
    the numbers of the sampler are not its own and one optimiser step does not do without."""
    sampler_gap_limit: float = 0.01
    """Mean |ℓ learner − ℓ sampler| above which there is an alert."""
    critic: Critic = field(default_factory=Critic)
    """Of objectives that have a value loss."""
    positive_return: float | None = None
    """Least return of a good row, for the likelihood of good rows; None: rows of success."""
    trust_region: TrustRegion | None = None
    """TRPO's step; None: AdamW's."""
    evaluate_every: int = 0
    """Iterations between evaluations; 0: there are none."""
    evaluation_episodes: int = 64
    """Held-out seeds of an evaluation, 0, 1, 2, …; training begins at 1,000,000."""
    distinct_seeds: int | None = None
    """Training goes through so many seeds again and again; None: each is new."""
    flat_patience: int | None = 20
    """Iterations in a row in which no group taught anything, after which the run ends, as when
    all is solved; None: it goes on."""
    failure_patience: int = 3
    """Iterations in a row whose rollouts all failed, after which the run ends with an error."""
    save_every: int = 10
    """Iterations between checkpoints, where a path is given."""
    seed: int = 0
    """Of tasks, samples and minibatches."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if isinstance(self.objective, str) and self.objective not in PRESETS:
            raise InvalidConfiguration(
                f"objective={self.objective!r}; it is one of {', '.join(PRESETS)}, or an Objective"
            )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise InvalidConfiguration(f"{name}={value}; it must be {least} or more")
        for name, allowed in (("recompute_old", Recompute), ("schedule", Schedule)):
            if getattr(self, name) not in get_args(allowed):
                raise InvalidConfiguration(
                    f"{name}={getattr(self, name)!r}; it is one of {', '.join(get_args(allowed))}"
                )
        if not self.learning_rate > 0:
            raise InvalidConfiguration(f"learning_rate={self.learning_rate}; it must be above 0")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise InvalidConfiguration(
                f"max_grad_norm={self.max_grad_norm}; it must be above 0, or None"
            )
        if not self.sampling.temperature > 0:
            raise InvalidConfiguration(
                "temperature=0 draws one reply only, and nothing can be learnt from it; take 1"
            )
        if self.evaluation_episodes > FIRST_TRAINING_SEED:
            raise InvalidConfiguration(
                f"evaluation_episodes={self.evaluation_episodes}; at most {FIRST_TRAINING_SEED}, "
                "where the seeds of training begin"
            )
        self._check_objective()

    def _check_objective(self) -> None:
        goal = self.goal
        if isinstance(goal.credit, GroupRelative) and self.group_size < 2:
            raise InvalidConfiguration(
                f"group_size={self.group_size}; this objective compares the rollouts of a group, "
                "so it must be 2 or more"
            )
        if self.resample and self.group_size < 2:
            raise InvalidConfiguration(
                f"resample={self.resample} looks for groups with spread; make group_size 2 or more"
            )
        if goal.ratio == "none" and self.epochs * self.minibatches > 1:
            raise InvalidConfiguration(
                f"epochs={self.epochs}, minibatches={self.minibatches}; an objective without "
                "ratios learns from fresh conversations only, so both must be 1"
            )
        if self.trust_region is not None and (goal.value or goal.ratio == "none"):
            raise InvalidConfiguration(
                "trust_region takes objectives with a ratio and without a critic; take grpo, "
                "rloo or reinforce++"
            )

    @property
    def goal(self) -> Objective:
        """The objective itself."""
        return PRESETS[self.objective] if isinstance(self.objective, str) else self.objective

    @property
    def steps_per_iteration(self) -> int:
        """Optimiser steps."""
        return self.epochs * self.minibatches

    def rate(self, step: int) -> float:
        """Learning rate of an optimiser step, counted from 0."""
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        done = min(1.0, step / max(1, self.iterations * self.steps_per_iteration))
        if self.schedule == "linear":
            warm *= 1 - done
        elif self.schedule == "cosine":
            warm *= 0.5 * (1 + math.cos(math.pi * done))
        return self.learning_rate * warm

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        found: dict[str, Any] = _plain(self)
        found.pop("kind")
        return found

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> PolicyOptimizerConfig:
        """What `to_dict` gave, or part of it.

        Raises InvalidConfiguration for names that there are not.
        """
        given = {
            name: {"kind": _INNER[name].__name__, **value}
            if name in _INNER and isinstance(value, Mapping)
            else value
            for name, value in stored.items()
        }
        found: PolicyOptimizerConfig = _made({"kind": cls.__name__, **given})
        return found

    def changed(self, **changes: Any) -> PolicyOptimizerConfig:
        """With other values; of an inner one, a mapping of what is other in it."""
        _known(type(self), changes)
        for name, value in changes.items():
            if name in _INNER and isinstance(value, Mapping):
                _known(_INNER[name], value)
                before = getattr(self, name)
                changes[name] = replace(before, **value) if before else _INNER[name](**value)
        return replace(self, **changes)


FIRST_TRAINING_SEED = 1_000_000
_LEAST = {
    "iterations": 0, "seeds_per_iteration": 1, "group_size": 1, "epochs": 1, "minibatches": 1,
    "tokens_per_micro_batch": 1, "warmup": 0, "weight_decay": 0, "resample": 0,
    "evaluate_every": 0, "evaluation_episodes": 1, "distinct_seeds": 1, "flat_patience": 1,
    "failure_patience": 1, "slots": 1, "max_turns": 1, "save_every": 1, "seed": 0,
    "sampler_gap_limit": 0,
}  # fmt: skip
_INNER: dict[str, Any] = {
    "sampling": Sampling, "overlong": Overlong, "critic": Critic, "trust_region": TrustRegion,
}  # fmt: skip
_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Clip, Critic, DiscountedReturns, GeneralizedAdvantage, GroupRelative, KLPenalty, Objective,
        Overlong, PolicyOptimizerConfig, Sampling, SamplerCorrection, TrustRegion, ValueLoss,
        WeightCap,
    )
}  # fmt: skip


def _plain(value: Any) -> Any:
    if not is_dataclass(value):
        return value
    content = {entry.name: _plain(getattr(value, entry.name)) for entry in fields(value)}
    return {"kind": type(value).__name__, **content}


def _made(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    content = {name: _made(entry) for name, entry in value.items() if name != "kind"}
    if value.get("kind") not in _KINDS:
        raise InvalidConfiguration(
            f"kind={value.get('kind')!r}; it is one of {', '.join(sorted(_KINDS))}"
        )
    kind = _KINDS[value["kind"]]
    _known(kind, content)
    return kind(**content)


def _known(kind: Any, content: Mapping[str, Any]) -> None:
    names = [entry.name for entry in fields(kind)]
    for name in content:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
            raise InvalidConfiguration(f"{kind.__name__} has no {name!r}{hint}")
