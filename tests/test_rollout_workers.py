"""Conversations of a model on many workers: the bytes that one worker has."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs the extra llm")

import torch
from test_rollout_engine import whole
from text_environments import Crashing, Echo
from tiny_models import tiny_model, tiny_tokenizer

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.language_model import LanguageModel, LoRA
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.rollout_workers import RolloutWorkers
from trainers.llm.sampling import Sampling
from trainers.llm.transformers_sampler import TransformersSampler

TESTS = Path(__file__).parent
SHORT = Sampling(max_tokens=6, max_context=300)
CONFIG = PolicyOptimizerConfig(
    sampling=SHORT, seeds_per_iteration=5, group_size=3, iterations=2, learning_rate=1e-2
)
SEEDS = [7, 3, 7, 11, 2]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def ray():
    """One Ray on two cores for the tests that need it."""
    found = pytest.importorskip("ray", reason="needs the extra ray")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    found.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )  # fmt: skip
    yield found
    found.shutdown()


def model(lora=None):
    return LanguageModel(tiny_model(initializer_range=0.3), tiny_tokenizer(), lora)


def every_byte(rollouts):
    """`whole`, and log-probabilities."""
    spoken = [b"".join(s.log_probs.tobytes() for s in r.segments) for r in rollouts]
    return list(zip(whole(rollouts), spoken, strict=True))


def test_one_worker_says_what_the_engine_says():
    """In shares of two seeds: the same tokens and rewards, log-probabilities but for rounding."""
    own = model()
    engine = RolloutEngine(Echo, TransformersSampler(own.causal), ChatFormat(own.tokenizer), SHORT)
    expected = engine.collect(SEEDS, 3, rng_seed=4, version=9)
    with RolloutWorkers(own, Echo, CONFIG) as collector:
        found = collector.collect(SEEDS, 3, rng_seed=4, version=9)
        assert collector.exact and collector.sampling == SHORT
    assert whole(found) == whole(expected)
    assert [(r.seed, r.version) for r in found] == [(r.seed, r.version) for r in expected]
    for one, other in zip(found, expected, strict=True):
        for mine, theirs in zip(one.segments, other.segments, strict=True):
            np.testing.assert_allclose(mine.log_probs, theirs.log_probs, atol=1e-5)


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)], ids=["whole", "adapters"])
def test_actors_have_the_bytes_of_one_worker_also_after_a_step(ray, lora):
    here, there = model(lora), model(lora)
    with (
        RolloutWorkers(here, Echo, CONFIG) as alone,
        RolloutWorkers(there, Echo, CONFIG, workers=2, backend="ray") as crew,
    ):
        one, many = (
            PolicyOptimizer(each, collector, CONFIG)
            for each, collector in ((here, alone), (there, crew))
        )
        first = every_byte(alone.collect(SEEDS, 2, rng_seed=1))
        assert first == every_byte(crew.collect(SEEDS, 2, rng_seed=1))
        one.train(), many.train()
        second = every_byte(alone.collect(SEEDS, 2, rng_seed=1))
        assert second == every_byte(crew.collect(SEEDS, 2, rng_seed=1)) != first
    for name, weight in here.trainable().items():
        assert torch.equal(weight, there.trainable()[name]), name
    sent = sum(len(value) for value in crew.message().values())
    assert sent == 4 * sum(weight.numel() for weight in here.trainable().values())


def test_half_precision_travels():
    own = LanguageModel(tiny_model().to(torch.bfloat16), tiny_tokenizer())
    with RolloutWorkers(own, Echo, CONFIG) as collector:
        message = pickle.loads(pickle.dumps(collector.message()))
    for name, weight in own.trainable().items():
        again = torch.from_numpy(message[name]).view(weight.dtype).view_as(weight)
        assert torch.equal(again, weight)


@pytest.mark.slow
def test_processes_have_the_bytes_too_and_failures_cost_their_own():
    own = model()
    with (
        RolloutWorkers(own, Crashing, CONFIG) as alone,
        RolloutWorkers(own, Crashing, CONFIG, workers=2) as crew,
    ):
        expected = alone.collect(range(6), 2, rng_seed=0)
        assert every_byte(crew.collect(range(6), 2, rng_seed=0)) == every_byte(expected)
    assert any(r.error for r in expected) and any(r.valid for r in expected)


def test_what_cannot_be():
    with pytest.raises(InvalidConfiguration, match="seeds_per_share=0"):
        RolloutWorkers(model(), Echo, CONFIG, seeds_per_share=0)
    refused = pytest.raises(InvalidConfiguration, match="group_size=0")
    with RolloutWorkers(model(), Echo, CONFIG) as collector, refused:
        collector.collect([1], 0, rng_seed=0)
    with pytest.raises(InvalidConfiguration, match="cannot be sent to other processes"):
        RolloutWorkers(model(), lambda: Echo(3), CONFIG, workers=2)
