"""Prompts that go through the model once: the same numbers and gradients as row by row."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_model

from trainers.llm.language_model import LanguageModel, LoRA
from trainers.llm.objectives import PRESETS
from trainers.llm.policy_batches import micro_packs, policy_batch
from trainers.llm.policy_config import Critic, PolicyOptimizerConfig
from trainers.llm.policy_update import PolicyUpdate
from trainers.llm.rollouts import Rollout, RolloutBatch, Segment
from trainers.llm.shared_prompts import pack, packs_of, prompt_lengths
from trainers.llm.value_head import ValueHead

VOCABULARY = 30


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows_of(prompts, replies, seed=0):
    return RolloutBatch(conversations(prompts, replies, seed)).rows


def conversations(prompts, replies, seed=0):
    """For each prompt's length, a row for each reply's length; some turns are read in between."""
    rng = np.random.default_rng(seed)
    rollouts = []
    for group, length in enumerate(prompts):
        prompt = rng.integers(VOCABULARY, size=length)
        for reply in replies:
            tokens = np.concatenate([prompt, rng.integers(VOCABULARY, size=reply)])
            own = np.where(rng.random(reply) < 0.3, -1, 0)
            own[0] = 0
            turns = np.concatenate([np.full(length, -1), own])
            segment = Segment(tokens, turns, np.zeros(len(tokens), np.float32))
            rewards = rng.random(1)
            rollouts.append(Rollout(segments=(segment,), rewards=rewards, group=group, seed=0))
    return rollouts


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_scores_and_gradients_are_those_of_single_rows(kind, attention):
    model = LanguageModel(tiny_model(kind, VOCABULARY).double(), None)
    model.causal.set_attn_implementation(attention)
    rows = rows_of((9, 3, 1), (4, 7, 1))
    packs = [
        torch.tensor([2, 0]),
        torch.tensor([1]),
        torch.tensor([3, 4, 5]),
        torch.tensor([8, 6, 7]),
    ]
    found = []
    for packed in (None, pack(rows, packs)):
        model.module.zero_grad()
        scored = model.score(rows, 0.8, entropies=True, hidden=True, packed=packed)
        there = rows.attention[..., None]
        ((scored.log_probs**2).sum() + (scored.hidden * there).square().sum()).backward()
        gradients = [p.grad.clone() for p in model.trainable().values()]
        found.append([scored.log_probs, scored.entropies, scored.hidden * there, *gradients])
    close = 1e-10 if kind == "gpt2" else 1e-5  # norms of the others are in single precision
    for one, other in zip(*found, strict=True):
        limit = close * max(1.0, float(one.detach().abs().max()))
        torch.testing.assert_close(one, other, atol=limit, rtol=0)
    assert model.shares_prompts


def test_a_token_sees_the_prompt_and_its_own_row_alone():
    rows = rows_of((2,), (2, 3))
    packed = pack(rows, [torch.tensor([0, 1])])
    assert packed.places.tolist() == [[0, 1, 2, 3, 2, 3, 4]]
    assert packed.owners.tolist() == [[-1, -1, 0, 0, 1, 1, 1]]
    assert packed.index.tolist() == [[0, 1, 2, 3, 0], [0, 1, 4, 5, 6]]
    assert packed.visible()[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 0, 0, 1, 0, 0],
        [1, 1, 0, 0, 1, 1, 0],
        [1, 1, 0, 0, 1, 1, 1],
    ]


@settings(max_examples=40, deadline=None)
@given(
    prompts=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    replies=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    width=st.integers(1, 500),
    tokens=st.integers(1, 400),
    data=st.data(),
)
def test_every_row_is_in_one_pack_with_rows_of_its_prompt(prompts, replies, width, tokens, data):
    rows = rows_of(prompts, replies)
    every = st.lists(st.sampled_from(range(len(rows.tokens))), min_size=1, unique=True)
    index = torch.tensor(data.draw(every))
    packs = packs_of(rows, index, width)
    assert sorted(torch.cat(packs).tolist()) == sorted(index.tolist())
    shared = prompt_lengths(rows)
    for part in packs:
        first = part[0]
        for row in part:
            assert shared[row] == shared[first]
            assert torch.equal(rows.tokens[row, : shared[row]], rows.tokens[first, : shared[row]])
    parts = micro_packs(rows, index, tokens, width)
    assert sorted(torch.cat([part for part, _ in parts]).tolist()) == sorted(index.tolist())
    for part, inside in parts:
        cut = rows.at(part)
        packed = pack(cut, inside)
        assert packed.tokens.numel() <= tokens or len(inside) == 1
        there = cut.attention
        assert torch.equal(packed.tokens.flatten()[packed.index][there], cut.tokens[there])
        counted = torch.arange(there.shape[1]).expand(there.shape)
        assert torch.equal(packed.places.flatten()[packed.index][there], counted[there])


def test_long_replies_are_not_packed_and_long_prompts_are():
    every = torch.arange(4)
    assert len(packs_of(rows_of((200,), (5,) * 4), every, 64)) == 1
    assert len(packs_of(rows_of((5,), (800,) * 4), every, 64)) == 4
    assert len(packs_of(rows_of((70,), (32,) * 4), every, 4096)) == 1


def test_windows_of_attention_share_nothing():
    window = tiny_model("mistral", VOCABULARY, sliding_window=4)
    assert not LanguageModel(window, None).shares_prompts
    whole = tiny_model("mistral", VOCABULARY, sliding_window=None)
    assert LanguageModel(whole, None).shares_prompts


def test_a_model_that_is_told_no_places_shares_nothing():
    model = tiny_model(vocabulary=VOCABULARY)
    forward = model.base_model.forward
    model.base_model.forward = lambda input_ids, position_ids=None, **more: forward(
        input_ids, **more
    )
    assert not LanguageModel(model, None).shares_prompts


@pytest.mark.parametrize("name", ["grpo", "ppo"])
@pytest.mark.parametrize("lora", [None, LoRA(rank=2)], ids=["whole", "adapters"])
def test_updates_are_the_same(name, lora, monkeypatch):
    found, tokens = [], []
    for shares in (True, False):
        model = LanguageModel(tiny_model(vocabulary=VOCABULARY), None, lora)
        assert model.shares_prompts
        rollouts = conversations((20, 9, 15), (4, 7, 1, 5))
        config = PolicyOptimizerConfig(
            objective=PRESETS[name], share_prompts=shares, max_grad_norm=None, learning_rate=1.0,
            critic=Critic(shared=True), skip_zero_advantages=False,
        )  # fmt: skip
        head = ValueHead(model.width, config.critic) if name == "ppo" else None
        batch = policy_batch(RolloutBatch(rollouts), model, head, config, "current")
        update = PolicyUpdate(model, head, config)
        update.optimizer = torch.optim.SGD(update.optimizer.param_groups, lr=1.0)
        forward, seen = model.causal.base_model.forward, []

        def counted(input_ids, forward=forward, seen=seen, **more):
            seen.append(input_ids.numel())
            return forward(input_ids=input_ids, **more)

        monkeypatch.setattr(model.causal.base_model, "forward", counted)
        row = update.run(batch, 0)
        weights = torch.cat([p.detach().flatten() for p in model.trainable().values()])
        found.append((weights, row))
        tokens.append(sum(seen))
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-6, rtol=1e-5)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-3, abs=1e-5)
    assert tokens[0] < 0.6 * tokens[1]
