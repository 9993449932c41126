"""The model in the package: it loads, it is small, it acts, and it leaves something to learn."""

import importlib.util
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from convgym.errors import DatasetError
from trainers.llm.chat_format import ChatFormat
from trainers.llm.embedded import embedded_folder
from trainers.llm.embedded import folder as its_place
from trainers.llm.language_model import LanguageModel
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

ROOT = Path(__file__).parents[1]
MIB = 2**20


@pytest.fixture(scope="module")
def made():
    """The script that makes it, as a module."""
    spec = importlib.util.spec_from_file_location(
        "make_embedded_model", ROOT / "scripts" / "make_embedded_model.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return LanguageModel.load(embedded_folder())


@pytest.fixture(scope="module")
def played(made):
    """Conversations of the scripted agents, and whether they were good."""
    return list(made.conversations(80, seed=7))


def test_it_is_small_and_half_precise():
    folder = embedded_folder()
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 4 * MIB
    plain = AutoModelForCausalLM.from_pretrained(folder)
    assert plain.dtype == torch.float16
    assert 0.5e6 <= sum(p.numel() for p in plain.parameters()) <= 1.5e6


def test_the_package_carries_every_file():
    """Each kind of file in the folder is named in pyproject's package data."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for file in embedded_folder().iterdir():
        assert f'"**/*{file.suffix}"' in project, file.name


def test_transformers_reads_it_as_we_do(model):
    folder = embedded_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = [{"role": "user", "content": "where's my parcel? number:1, email:1 – I’m “Zoë”"}]
    ids = tokenizer.apply_chat_template(said, add_generation_prompt=True)["input_ids"]
    assert list(ids) == ChatFormat(model.tokenizer).opening(said)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = torch.tensor([ids])
    with torch.no_grad():
        assert torch.equal(plain(tokens).logits, model.module(tokens).logits)


def test_handles_are_one_token_and_texts_come_back(model, made):
    for kind, most in made.HANDLES.items():
        for number in range(1, most + 1):
            ids = model.tokenizer.encode(f"{kind}:{number}", add_special_tokens=False)
            assert len(ids) == 1
    for text in ("Grüße – 3 × “ok”?\n\tno", '{"name": "x", "arguments": {"a": "email:2"}}'):
        assert model.tokenizer.decode(model.tokenizer.encode(text)) == text


def test_a_missing_model_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(its_place, "__file__", str(tmp_path / "folder.py"))
    with pytest.raises(DatasetError, match=r"make_embedded_model\.py"):
        embedded_folder()


def test_a_third_of_the_conversations_it_learnt_from_is_good(played):
    good = np.mean([success for _, success in played])
    assert 0.2 <= good <= 0.45


def test_a_short_wording_is_understood_as_its_act(made):
    """What the model can say suffices: the oracle in these words succeeds."""
    env = gym.make(made.ENVIRONMENT, split="test", phrases="held_out", disable_env_checker=True)
    player = made.RenderedPolicy(made.ladder(made.DOMAIN)["oracle"](), made.short_bank())
    successes = []
    for seed in range(60):
        observation, info = env.reset(seed=seed)
        player.reset(seed)
        ended = False
        while not ended:
            reply = env.get_wrapper_attr("handles").shorten(player.predict(observation)[0])
            observation, _, terminated, truncated, info = env.step(reply)
            ended = terminated or truncated
        successes.append(info["success"])
    assert np.mean(successes) >= 0.95


def test_rows_are_what_is_prompted_and_sampled(made, model, played):
    form = ChatFormat(model.tokenizer)
    for said, _ in played[:20]:
        ids, own = made.row_of(said, form)
        text = model.tokenizer.apply_chat_template(said, tokenize=False)
        assert text.startswith(model.tokenizer.decode(ids))
        replies = sum(message["role"] == "assistant" for message in said)
        if len(ids) < made.LONGEST:
            assert (ids[own] == form.end).sum() == replies


def test_every_said_token_counts_alike_whatever_the_batches(made, model, played):
    """Named after a mistake: a mean over each batch of like lengths made agents end too early."""
    form = ChatFormat(model.tokenizer)
    rows = [made.row_of(said, form) for said, _ in played[:24]]

    def loss(batch):
        tokens, own = made.padded(batch)
        return made.losses(model.module, tokens, tokens, own, 0.25)[0]

    whole = float(loss(rows).detach())
    rng = np.random.default_rng(0)
    parts = [loss(batch) for batch in made.batches(rows, 5, rng)]
    assert float(sum(parts).detach()) == pytest.approx(whole, rel=1e-4)
    ids, own = rows[0]
    with torch.no_grad():
        chances = model.module(torch.tensor(ids)[None]).logits[0].log_softmax(-1)
    each = [-float(chances[t - 1, ids[t]]) * (1.0 if own[t] else 0.25) for t in range(1, len(ids))]
    assert float(loss(rows[:1]).detach()) == pytest.approx(sum(each), rel=1e-4)


def test_only_words_of_the_user_are_misread(made, model, played):
    form = ChatFormat(model.tokenizer)
    tokens, own = made.padded([made.row_of(said, form) for said, _ in played[:40]])
    words = model.module.config.vocab_size - sum(made.HANDLES.values())
    assert torch.equal(made.misread(tokens, words, 0.0, np.random.default_rng(0)), tokens)
    seen = made.misread(tokens, words, 0.5, np.random.default_rng(0))
    changed = seen != tokens
    assert not (changed & own).any() and 0.1 < changed.float().mean() < 0.4
    speaker = ""
    for was, now in zip(tokens[0].tolist(), seen[0].tolist(), strict=True):
        piece = model.tokenizer.decode([was])
        speaker = piece if piece in made.SPECIALS[2:] else speaker
        assert was == now or (speaker == "<|user|>" and was < words)


@pytest.mark.slow
def test_it_succeeds_now_and_then_and_leaves_something_to_learn(made, model):
    found = made.measured(model, 300, split="test", phrases="held_out")
    assert 0.12 <= found["success"] <= 0.3


def test_it_plays_conversations(model, made):
    engine = RolloutEngine(
        TextEnvironment(made.ENVIRONMENT, system=""),
        TransformersSampler(model.module),
        ChatFormat(model.tokenizer),
        Sampling(max_tokens=24, max_context=512),
        max_turns=24,
    )
    rollouts = engine.collect(range(16), 2, rng_seed=0)
    engine.close()
    assert all(rollout.valid for rollout in rollouts)
    assert np.mean([rollout.return_ for rollout in rollouts]) > 0.02
    assert len({rollout.return_ for rollout in rollouts}) > 1
