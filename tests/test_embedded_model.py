"""The model in the package: it loads, it is small, it acts, and it leaves something to learn."""

import importlib.util
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="language models need the extra llm")
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
    for kind, most in made.handles_of(made.USUAL).items():
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


@pytest.mark.parametrize("domain", ["technical-support", "sales"])
def test_so_it_is_in_the_other_domains_of_a_joint_model(made, domain):
    found = list(made.conversations(80, 7, domain))
    assert 0.2 <= np.mean([success for _, success in found]) <= 0.55
    said = [m["content"] for talk, _ in found for m in talk if m["role"] == "assistant"]
    assert not any("think>" in words or "tool_call>" in words for words in said)
    replies = [sum(m["role"] == "assistant" for m in talk) for talk, _ in found]
    assert np.mean(replies) <= 14


@pytest.mark.parametrize("domain", ["customer-service", "technical-support", "sales"])
def test_a_short_wording_is_understood_as_its_act(made, domain):
    """What the model can say suffices: the oracle in these words succeeds."""
    env = gym.make(
        made.ENVIRONMENT, domain=domain, split="test", phrases="held_out", disable_env_checker=True
    )
    oracle = made.FirmOraclePolicy() if domain == "sales" else made.ladder(domain)["oracle"]()
    player = made.RenderedPolicy(oracle, made.short_bank(domain), domain)
    successes, longest = [], 0
    for seed in range(60):
        observation, info = env.reset(seed=seed)
        player.reset(seed)
        ended = False
        while not ended:
            reply = made.BARE.sub("", player.predict(observation)[0])
            longest = max(longest, len(reply))
            reply = env.get_wrapper_attr("handles").shorten(reply)
            observation, _, terminated, truncated, info = env.step(reply)
            ended = terminated or truncated
        successes.append(info["success"])
    assert np.mean(successes) >= 0.95
    assert longest <= 200


def test_the_table_names_acts_and_agents_that_there_are(made):
    assert set(made.AGENTS) == set(made.TABLES)
    for domain, table in made.TABLES.items():
        actions = made.domain_called(domain).actions
        assert all(0 <= actions[name] < len(actions) for name in table["workflow"])
        bank = made.domain_called(domain).agent_banks()["train"]
        assert set(table["short"]) <= set(bank)
        for _, slips, share in made.AGENTS[domain]:
            assert 0 < slips < 1 and 0 < share <= 1
        assert sum(share for *_, share in made.AGENTS[domain]) == pytest.approx(1)
        assert len(made.players_of(domain)) == len(made.AGENTS[domain])


def test_a_joint_model_has_the_handles_of_all_its_domains(made):
    assert made.handles_of(["customer-service"]) == made.TABLES["customer-service"]["handles"]
    joint = made.handles_of(["customer-service", "sales"])
    assert joint["email"] == 3 and joint["number"] == 6 and joint["feature"] == 8
    talks = [talk for d in ("customer-service", "sales") for talk, _ in made.conversations(6, 1, d)]
    texts = [message["content"] for talk in talks for message in talk]
    tokenizer = made.tokenizer_of(texts, 400, joint)
    for kind, most in joint.items():
        assert len(tokenizer.encode(f"{kind}:{most}", add_special_tokens=False)) == 1
    words = len(tokenizer) - sum(joint.values())
    assert min(tokenizer.encode(f"{kind}:1")[0] for kind in joint) == words


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
    words = model.module.config.vocab_size - sum(made.handles_of(made.USUAL).values())
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


def test_values_may_be_copied_in_place_of_handles(made):
    """The order's number stands where the tool is called, and each of its digits is a token."""
    talks = list(made.conversations(12, seed=7, copied=True))
    calls = [
        message["content"] for said, _ in talks for message in said
        if message["role"] == "assistant" and "get_order" in message["content"]
    ]  # fmt: skip
    numbers = [found for call in calls if (found := re.search(r"W[0-9]{5}", call))]
    assert numbers and not any("number:" in call for call in calls)
    texts = [message["content"] for said, _ in talks for message in said]
    tokenizer = made.tokenizer_of(texts, 600, {}, made.COPIED_PIECES)
    for text in (*calls, *texts[:40]):
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids) == text
        assert not any(
            sum(c.isdigit() for c in piece) > 1 for piece in map(tokenizer.decode, ids)
        )
