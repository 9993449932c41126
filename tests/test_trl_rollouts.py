"""trl's trainer over our rollouts: columns by hand, and the real package where it is installed."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_models import tiny_model, tiny_tokenizer

from convgym.errors import InvalidConfiguration
from trainers.llm.adapters.trl_rollouts import RolloutFunction, _columns, episode_return
from trainers.llm.prompts import PromptEnvironment
from trainers.llm.rollouts import Rollout, Segment
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment


def rollout(turns, error=""):
    turns_ = np.array(turns)
    log_probs = np.where(turns_ >= 0, -0.5, 0).astype(np.float32)
    segment = Segment(np.arange(len(turns)) + 10, turns_, log_probs)
    return Rollout(segments=(segment,), rewards=np.array([1.0]), group=0, seed=0, error=error)


def test_columns_by_hand():
    found = _columns([rollout([-1, -1, 0, 0, -1, 1]), rollout([-1, 0], error="away")], end=2)
    assert found["prompt_ids"] == [[10, 11], [2]]
    assert found["completion_ids"] == [[12, 13, 14, 15], [2]]
    assert found["env_mask"] == [[1, 1, 0, 1], [0]]
    assert found["logprobs"] == [[-0.5, -0.5, 0, -0.5], [0]]
    assert episode_return([0, 0], found["episode_return"]) == [1.0, None]


def test_several_segments_are_refused():
    one = rollout([-1, 0])
    two = Rollout(segments=one.segments * 2, rewards=np.array([1.0]), group=0, seed=0)
    with pytest.raises(InvalidConfiguration, match="one sequence"):
        _columns([two], end=2)


def reward(messages, info):
    return float(len(messages[-1]["content"]) > 3)


def environment():
    return TextEnvironment(lambda: PromptEnvironment(["a", "b"]), reward)


def stand_in(model, temperature=1.0):
    return SimpleNamespace(
        args=SimpleNamespace(temperature=temperature), model=model,
        state=SimpleNamespace(global_step=4), processing_class=tiny_tokenizer(),
        accelerator=SimpleNamespace(unwrap_model=lambda m: m, process_index=0),
    )  # fmt: skip


def test_each_prompt_is_played_as_often_as_it_comes():
    play = RolloutFunction(environment(), Sampling(max_tokens=5))
    found = play(["seed 3"] * 3 + ["seed 4"] * 3, stand_in(tiny_model().train()))
    assert [r.seed for r in play.rollouts] == [3, 3, 3, 4, 4, 4]
    assert len({tuple(ids) for ids in found["completion_ids"][:3]}) > 1
    assert all(len(ids) == len(mask) for ids, mask in zip(
        found["completion_ids"], found["env_mask"], strict=True
    ))  # fmt: skip
    again = RolloutFunction(environment(), Sampling(max_tokens=5))
    assert again(["seed 3"] * 3 + ["seed 4"] * 3, stand_in(tiny_model().train())) == found


def test_other_prompts_and_other_temperatures_are_refused():
    play = RolloutFunction(environment())
    with pytest.raises(InvalidConfiguration, match="seed_prompts"):
        play(["hello"], stand_in(tiny_model()))
    with pytest.raises(InvalidConfiguration, match="temperature"):
        play(["seed 1"], stand_in(tiny_model(), temperature=0.7))


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="trl is not installed")
def test_trl_itself_trains_on_conversations(tmp_path):
    from trl import GRPOConfig, GRPOTrainer

    from trainers.llm.adapters.trl_rollouts import seed_prompts

    model = tiny_model()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    trainer = GRPOTrainer(
        model=model, processing_class=tiny_tokenizer(), train_dataset=seed_prompts(8),
        rollout_func=RolloutFunction(environment(), Sampling(max_tokens=5)),
        reward_funcs=episode_return,
        args=GRPOConfig(
            output_dir=str(tmp_path), per_device_train_batch_size=8, num_generations=4,
            max_steps=2, learning_rate=1e-2, report_to=[], bf16=False, use_cpu=True,
            gradient_checkpointing=False, max_completion_length=64, logging_steps=1,
        ),
    )  # fmt: skip
    trainer.train()
    assert any((before[n] != w).any() for n, w in model.named_parameters())
    assert any("reward" in row for row in trainer.state.log_history)
