"""The rollout engine that a policy optimiser learns with, and what it may believe of one.

    environment ─► TextEnvironment ─► RolloutEngine ◄─ ChatFormat ◄─ tokenizer
                                           ▲
                                   TransformersSampler ◄─ the model that learns

A sampler's log-probabilities are the learner's own where it is of the same weights, at the same
temperature and from the whole distribution. Knows nothing of what is learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.language_model import LanguageModel
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.rollout_collection import Collector
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.text_environment import RewardFunction, TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

Environment = Collector | TextEnvironment | str | Callable[..., Any]
"""What plays conversations, or what they are played in."""


def collector_of(
    environment: Environment,
    model: LanguageModel,
    config: PolicyOptimizerConfig,
    reward_fn: RewardFunction | None = None,
) -> Collector:
    """A collector as it is; an engine of anything else.

    Raises InvalidConfiguration for a reward function beside something that has its own rewards,
    and for a collector that samples at another temperature than the learner scores at.
    """
    if not hasattr(environment, "collect"):
        played = environment
        if not isinstance(played, TextEnvironment):
            played = TextEnvironment(played, reward_fn)  # type: ignore[arg-type]
        elif reward_fn is not None:
            raise InvalidConfiguration(
                "reward_fn comes beside a TextEnvironment; give it to TextEnvironment itself"
            )
        sampler, form = TransformersSampler(model.causal), ChatFormat(model.tokenizer)
        return RolloutEngine(
            played, sampler, form, config.sampling, slots=config.slots, max_turns=config.max_turns
        )
    if reward_fn is not None:
        raise InvalidConfiguration(
            "reward_fn comes beside a collector; give it to the collector's TextEnvironment"
        )
    sampling = getattr(environment, "sampling", None)
    if sampling is not None and sampling.temperature != config.sampling.temperature:
        raise InvalidConfiguration(
            f"the collector samples at temperature {sampling.temperature} and the learner scores "
            f"at {config.sampling.temperature}; give both the same Sampling"
        )
    return environment  # type: ignore[return-value]


def is_exact(collector: Collector, model: LanguageModel) -> bool:
    """Whether its log-probabilities are what the learner would score, but for rounding."""
    sampler, sampling = getattr(collector, "sampler", None), getattr(collector, "sampling", None)
    if isinstance(sampler, TransformersSampler) and sampling is not None:
        whole = sampling.top_p == 1 and sampling.top_k == 0
        return whole and sampler.model is model.causal
    return bool(getattr(collector, "exact", False))
