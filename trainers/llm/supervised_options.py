"""Options of supervised learners of language models, as a run's configuration says them.

SFTConfig ─► SFTOptions       which model, how it replies afterwards
DPOConfig ─► DPOOptions       the same, and how many pairs are made of its own conversations
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from convgym.errors import InvalidConfiguration
from trainers.llm.dpo import DPOConfig
from trainers.llm.run_options import ModelOptions
from trainers.llm.sampling import Sampling
from trainers.llm.sft import SFTConfig


@dataclass(frozen=True, kw_only=True)
class SFTOptions(SFTConfig, ModelOptions):
    """Maximum likelihood of the agent's tokens in recorded conversations."""

    sampling: Sampling = field(default_factory=Sampling)
    """How it replies afterwards; conversations longer than max_context are left out."""

    # The run's `best` stands for it.
    top_share: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        ModelOptions.__post_init__(self)
        SFTConfig.__post_init__(self)

    def config(self, best: float) -> SFTConfig:
        """The learner's configuration; `best` is the run's."""
        kept = {one.name: getattr(self, one.name) for one in fields(SFTConfig)}
        return SFTConfig(**{**kept, "top_share": best})


@dataclass(frozen=True, kw_only=True)
class DPOOptions(DPOConfig, ModelOptions):
    """Pairs of the model's own conversations, the one that earned more preferred."""

    tasks: int = 128
    """Seeds that are played for pairs, before the first update."""
    group_size: int = 8
    """Conversations of each."""
    pairs_per_task: int | None = 4
    """Widest margins first; null: every two conversations that did not earn the same."""
    least_margin: float = 0.0
    """Returns that differ by no more make no pair."""
    sampling: Sampling = field(default_factory=Sampling)
    """How replies are drawn."""
    slots: int = 64
    """Conversations that are played at a time."""
    max_turns: int | None = None
    """Replies after which they are cut off; null: the environment decides."""

    def __post_init__(self) -> None:
        ModelOptions.__post_init__(self)
        DPOConfig.__post_init__(self)
        if self.tasks < 1 or self.group_size < 2:
            raise InvalidConfiguration(
                f"tasks={self.tasks}, group_size={self.group_size}; there is one task or more, and "
                "a pair takes two conversations"
            )

    def config(self) -> DPOConfig:
        """The learner's configuration."""
        return DPOConfig(**{one.name: getattr(self, one.name) for one in fields(DPOConfig)})
