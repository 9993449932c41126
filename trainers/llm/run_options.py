"""Options of language-model learners as a run's configuration says them, one class an algorithm.

    PolicyOptimizerConfig ─► LanguageOptions ─► OPTIONS["grpo"], OPTIONS["gspo"], …
    numbers of the loop      which model,        nothing but the objective's name
                             clips, KL

What a run says elsewhere (its steps, checkpoints, evaluations) is no option, and neither is the
objective: the algorithm's name stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from convgym.errors import InvalidConfiguration
from trainers.llm.embedded.tuned import MODEL, tuned
from trainers.llm.language_model import DTYPES, LoRA
from trainers.llm.objectives import PRESETS, Clip, KLPenalty, Objective
from trainers.llm.policy_config import Critic, PolicyOptimizerConfig, TrustRegion
from trainers.llm.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which language model learns, and how a conversation begins."""

    model: str = MODEL
    """A folder of transformers, a name of its hub, or "embedded": the one that comes with ConvGym,
    which speaks for the agent of ConvGym/OneRequest-v0."""
    dtype: str = "float32"
    """Of its weights: float32, bfloat16, float16 or float64."""
    lora: LoRA | None = None
    """Adapters that learn in place of all weights."""
    system: str | None = None
    """Said first in every conversation; null: the environment's own rules; an empty text: none."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InvalidConfiguration(f"dtype={self.dtype!r}; it is one of {', '.join(DTYPES)}")
        if not self.model:
            raise InvalidConfiguration(
                'model="" names nothing; give a folder, a name of the hub, or embedded'
            )


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(PolicyOptimizerConfig, ModelOptions):
    """The one loop of `trainers.llm.policy_optimizer`: conversations, credit, steps."""

    clip_low: float | None = None
    """ε below 1, of ratios; null: the objective's own, which stands here then."""
    clip_high: float | None = None
    """ε above 1."""
    kl: float = 0.0
    """β of a penalty on leaving the model that it began as; 0: there is none."""

    # Said by the run, or by the name of the algorithm.
    objective: str | Objective = field(init=False, default="grpo")
    iterations: int = field(init=False, default=100)
    save_every: int = field(init=False, default=10)
    evaluate_every: int = field(init=False, default=0)
    evaluation_episodes: int = field(init=False, default=64)

    def __post_init__(self) -> None:
        ModelOptions.__post_init__(self)
        PolicyOptimizerConfig.__post_init__(self)
        if isinstance(clip := self.goal.clip, Clip):
            object.__setattr__(self, "clip_low", clip.low)
            object.__setattr__(self, "clip_high", clip.high)

    @property
    def goal(self) -> Objective:
        """The objective with these clips and this penalty."""
        assert isinstance(self.objective, str)
        found = PRESETS[self.objective]
        ends = {"low": self.clip_low, "high": self.clip_high}
        given = {name: value for name, value in ends.items() if value is not None}
        if given:
            if not isinstance(found.clip, Clip):
                raise InvalidConfiguration(
                    f"{self.objective} has no clip of two ends; leave clip_low and clip_high away"
                )
            found = replace(found, clip=replace(found.clip, **given))
        if self.kl < 0:
            raise InvalidConfiguration(f"kl={self.kl}; it must be 0 or more")
        return replace(found, kl=KLPenalty(coefficient=self.kl)) if self.kl else found

    def config(self, **said: Any) -> PolicyOptimizerConfig:
        """The loop's configuration; `said` is what the run says elsewhere."""
        names = [one.name for one in fields(PolicyOptimizerConfig)]
        kept = {name: getattr(self, name) for name in names}
        if self.goal != PRESETS[str(self.objective)]:
            kept["objective"] = self.goal
        return PolicyOptimizerConfig(**{**kept, **said})


def _options(algorithm: str, objective: str) -> type[LanguageOptions]:
    said = f"The loop of trainers.llm.policy_optimizer with the objective {objective!r}."
    own = {"objective": objective, "__doc__": said}
    return type(f"Options_{algorithm}", (LanguageOptions,), own)


OPTIONS: Mapping[str, type[LanguageOptions]] = {
    **{name: _options(name, name) for name in PRESETS},
    "trpo": _options("trpo", "grpo"),
}
"""By algorithm: the presets, and TRPO's step on GRPO's objective."""


def tuned_config(algorithm: str, **said: Any) -> PolicyOptimizerConfig:
    """The loop's configuration for the embedded model; `said` is what a run says beside it."""
    made = {"sampling": Sampling, "critic": Critic, "trust_region": TrustRegion}
    options = {
        name: made[name](**value) if name in made else value
        for name, value in tuned(algorithm).items()
    }
    return OPTIONS[algorithm](**options).config(**said)
