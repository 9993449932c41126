"""The loop on a Gymnasium environment of texts, with the engine that it makes for itself."""

import gymnasium as gym
import pytest
import torch
from gymnasium import spaces
from tiny_models import tiny_model, tiny_tokenizer
from toy_collector import ToyCollector, toy_model

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.language_model import LanguageModel, LoRA
from trainers.llm.objectives import KLPenalty, Objective
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_engine import collector_of, is_exact
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

TEXTS = ("Hello, how can I help you?", "Where is my order?", "red blue yes no")


class Echo(gym.Env):
    """Two turns: the second reply earns 1 if it holds an `e`; odd seeds crash where asked to."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)

    def __init__(self, crashes=False):
        self.crashes = crashes

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn, self.seed = 0, seed
        return "Where is my order?", {}

    def step(self, action):
        self.turn += 1
        if self.crashes and self.seed % 2:
            raise RuntimeError("the desk is on fire")
        over = self.turn == 2
        good = over and any(letter in action for letter in "eo")
        return "red?" if self.turn == 1 else "", float(good), over, False, {"success": good}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer(TEXTS, size=280)


def language_model(tokenizer, **options):
    return LanguageModel(tiny_model(vocabulary=len(tokenizer), seed=1), tokenizer, **options)


SMALL = {
    "sampling": Sampling(max_tokens=4, max_context=128), "seeds_per_iteration": 4, "group_size": 4,
    "learning_rate": 3e-3,
}  # fmt: skip


def test_it_learns_in_an_environment(tokenizer):
    options = SMALL | {"seeds_per_iteration": 8, "learning_rate": 6e-3}
    config = PolicyOptimizerConfig(iterations=20, minibatches=2, **options)
    rows = PolicyOptimizer(language_model(tokenizer), Echo, config).train()
    first, last = (sum(row["success"] for row in part) / 3 for part in (rows[:3], rows[-3:]))
    assert first < 0.35 and last > 0.75
    assert all(row["turns_mean"] == 2 for row in rows)
    gaps = [row["sampler_gap_max"] for row in rows if "sampler_gap_max" in row]  # not of flat ones
    assert len(gaps) > 10 and max(gaps) < 1e-4


def test_adapters_with_a_reference_and_rewards_of_ones_own(tokenizer):
    config = PolicyOptimizerConfig(objective=Objective(kl=KLPenalty()), iterations=3, **SMALL)
    model = language_model(tokenizer, lora=LoRA(rank=2))

    def lengthy(messages, info):
        return float(len(messages[-1]["content"]) % 3)

    rows = PolicyOptimizer(model, Echo, config, reward_fn=lengthy).train()
    assert rows[0]["kl"] < 1e-6 < rows[-1]["kl"] and rows[0]["reward_std"] > 0
    assert rows[-1]["sampler_gap_max"] < 1e-4  # the engine samples through the adapters


def test_crashes_cost_their_own_conversations(tokenizer):
    config = PolicyOptimizerConfig(iterations=2, minibatches=2, **SMALL)
    rows = PolicyOptimizer(language_model(tokenizer), lambda: Echo(crashes=True), config).train()
    assert [row["failed"] for row in rows] == [0.5, 0.5] and rows[0]["skipped"] == 0


def test_an_engine_of_the_same_weights_is_believed(tokenizer):
    model, config = language_model(tokenizer), PolicyOptimizerConfig(**SMALL)
    engine = collector_of(Echo, model, config)
    assert isinstance(engine, RolloutEngine) and is_exact(engine, model)
    assert collector_of(engine, model, config) is engine
    assert not is_exact(engine, language_model(tokenizer))
    form = ChatFormat(tokenizer)
    narrow = RolloutEngine(Echo, TransformersSampler(model.causal), form, Sampling(top_k=5))
    assert not is_exact(narrow, model)
    said = RolloutEngine(Echo, lambda requests: ["e"] * len(requests), form)
    assert not is_exact(said, model)
    assert is_exact(ToyCollector(toy_model()), model)


def test_what_does_not_go_together(tokenizer):
    model, config = language_model(tokenizer), PolicyOptimizerConfig(**SMALL)
    engine = RolloutEngine(Echo, model.causal, ChatFormat(tokenizer), Sampling(temperature=0.5))
    with pytest.raises(InvalidConfiguration, match=r"temperature 0\.5 and the learner scores at 1"):
        PolicyOptimizer(model, engine, config)
    with pytest.raises(InvalidConfiguration, match="give it to TextEnvironment itself"):
        PolicyOptimizer(model, TextEnvironment(Echo), config, reward_fn=lambda m, i: 0.0)
    with pytest.raises(InvalidConfiguration, match="an id or a callable"):
        PolicyOptimizer(model, 3, config)
