"""Scores of a language model beside a plain forward of transformers, adapters, files."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_model, tiny_tokenizer

from convgym.errors import InvalidConfiguration
from trainers.llm import language_model
from trainers.llm.language_model import LanguageModel, LoRA
from trainers.llm.rollouts import Rollout, RolloutBatch, Rows, Segment

VOCABULARY = 40


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def segments(seed=0, lengths=(9, 5, 14, 7)):
    """Rows of several turns; one begins with a sampled token, which nothing predicts."""
    rng = np.random.default_rng(seed)
    found = []
    for length in lengths:
        turns = np.where(rng.random(length) < 0.5, 0, -1)
        turns[0], turns[-1] = -1, 1
        found.append(
            Segment(rng.integers(VOCABULARY, size=length), turns, np.zeros(length, np.float32))
        )
    return found


def rows_of(found):
    rollouts = [Rollout(segments=(s,), rewards=np.zeros(2), group=0, seed=0) for s in found]
    return RolloutBatch(rollouts).rows


def plain(model, segment, temperature=1.0):
    """One row alone, the whole softmax: log-probabilities and entropies.  # (L,), (L,)"""
    tokens = torch.as_tensor(segment.tokens)
    table = (model(input_ids=tokens[None]).logits[0] / temperature).log_softmax(-1)
    log_probs = [torch.zeros((), dtype=table.dtype)] * len(tokens)
    entropies = list(log_probs)
    for t in range(1, len(tokens)):
        if segment.turns[t] >= 0:
            log_probs[t] = table[t - 1, tokens[t]]
            entropies[t] = -(table[t - 1].exp() * table[t - 1]).sum()
    return torch.stack(log_probs), torch.stack(entropies)


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
def test_scores_and_gradients_are_those_of_a_plain_forward(kind, double, tokenizer):
    model = tiny_model(kind, VOCABULARY)
    model = model.double() if double else model
    ours, found = LanguageModel(model, tokenizer), segments()
    scored = ours.score(rows_of(found), temperature=0.7, entropies=True)
    weights = torch.linspace(-1, 1, scored.log_probs.numel()).reshape(scored.log_probs.shape)
    ((scored.log_probs + 0.3 * scored.entropies) * weights).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    loss, close = 0.0, {"atol": 1e-10 if double else 1e-6, "rtol": 1e-10 if double else 1e-6}
    for row, segment in enumerate(found):
        log_probs, entropies = plain(model, segment, 0.7)
        length = len(segment.tokens)
        torch.testing.assert_close(scored.log_probs[row, :length], log_probs, **close)
        torch.testing.assert_close(scored.entropies[row, :length], entropies, **close)
        assert not scored.log_probs[row, length:].any()
        loss = loss + ((log_probs + 0.3 * entropies) * weights[row, :length]).sum()
    loss.backward()
    for name, p in model.named_parameters():
        limit = {"atol": 1e-10, "rtol": 1e-9} if double else {"atol": 2e-6, "rtol": 1e-4}
        torch.testing.assert_close(gradients[name], p.grad, **limit)


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(4)), more=st.integers(0, 6), garbage=st.integers(0, 39))
def test_neither_order_nor_padding_matters(order, more, garbage):
    ours, rows = LanguageModel(tiny_model("qwen2", VOCABULARY).double(), None), rows_of(segments())
    expected = ours.score(rows).log_probs
    order = torch.tensor(order)

    def wider(values, fill):
        return torch.nn.functional.pad(values[order], (0, more), value=fill)

    changed = Rows(
        wider(rows.tokens.masked_fill(~rows.attention, garbage), garbage),
        wider(rows.attention, False),
        wider(rows.turns, -1),
        wider(rows.log_probs, 0.0),
        rows.rollouts[order],
    )
    scored = ours.score(changed).log_probs
    width = expected.shape[1]
    torch.testing.assert_close(scored[:, :width], expected[order], atol=1e-12, rtol=0)
    assert not scored[:, width:].any()


@pytest.mark.parametrize("places", [1, 3])
def test_logits_in_pieces_change_nothing(places, monkeypatch):
    ours, rows = LanguageModel(tiny_model("llama", VOCABULARY).double(), None), rows_of(segments())

    def run():
        ours.module.zero_grad()
        scored = ours.score(rows, 1.3, entropies=True)
        (scored.log_probs.square() + scored.entropies).sum().backward()
        return scored, [p.grad.clone() for p in ours.trainable().values()]

    whole, gradients = run()
    monkeypatch.setattr(language_model, "LOGITS_AT_ONCE", places * VOCABULARY)
    pieces, again = run()
    torch.testing.assert_close(pieces.log_probs, whole.log_probs, atol=1e-12, rtol=0)
    torch.testing.assert_close(pieces.entropies, whole.entropies, atol=1e-12, rtol=0)
    torch.testing.assert_close(again, gradients, atol=1e-12, rtol=1e-10)


def test_no_row_of_the_vocabulary_is_made_for_a_place_that_predicts_nothing(monkeypatch):
    ours, rows, seen = (
        LanguageModel(tiny_model(vocabulary=VOCABULARY), None),
        rows_of(segments()),
        [],
    )
    ours.score(rows)
    head = ours.causal.get_output_embeddings()
    head.register_forward_hook(lambda _, given, made: seen.append(made.shape))
    ours.score(rows)
    assert seen == [(int(rows.mask[:, 1:].sum()), VOCABULARY)]


def test_detached_entropies_have_no_gradient():
    ours, rows = LanguageModel(tiny_model(vocabulary=VOCABULARY), None), rows_of(segments())
    assert not ours.score(rows, entropies="detached").entropies.requires_grad
    assert ours.score(rows, entropies=True).entropies.requires_grad
    assert ours.score(rows).entropies is None


def test_distributions_hold_the_scores():
    ours, rows = (
        LanguageModel(tiny_model(vocabulary=VOCABULARY).double(), None),
        rows_of(segments()),
    )
    table = ours.distributions(rows, 0.5)
    torch.testing.assert_close(table.exp().sum(-1), torch.ones(len(table)).double())
    own = table.gather(-1, rows.tokens[rows.mask][:, None])[:, 0]
    torch.testing.assert_close(own, ours.score(rows, 0.5).log_probs[rows.mask])


def test_soft_caps_of_logits_are_known(monkeypatch):
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, final_logit_softcapping=0.01,
    )  # fmt: skip
    model = Gemma2ForCausalLM(config).eval()
    found = segments()
    scored = LanguageModel(model, None).score(rows_of(found))
    expected, _ = plain(model, found[2])
    torch.testing.assert_close(scored.log_probs[2, : len(expected)], expected)


def test_a_model_with_more_than_a_head_is_refused():
    model = tiny_model(vocabulary=VOCABULARY)
    forward = model.forward

    def odd(**given):
        found = forward(**given)
        found.logits = found.logits * 1.5
        return found

    model.forward = odd
    with pytest.raises(InvalidConfiguration, match="does more with hidden states"):
        LanguageModel(model, None).score(rows_of(segments()))


# -- the reference ---------------------------------------------------------------------------------


def shaken(model):
    with torch.no_grad():
        for p in model.trainable().values():
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
def test_with_adapters_the_reference_is_the_model_beneath(kind):
    model = tiny_model(kind, VOCABULARY)
    rows = rows_of(segments())
    expected = LanguageModel(copy.deepcopy(model), None).score(rows).log_probs
    ours = LanguageModel(model, None, lora=LoRA(rank=2))
    assert ours.trainable() and all("lora" in name for name in ours.trainable())
    torch.testing.assert_close(ours.score(rows).log_probs, expected)
    shaken(ours)
    assert (ours.score(rows).log_probs - expected).abs().max() > 1e-3
    with ours.reference():
        assert torch.equal(ours.score(rows).log_probs, expected)
    assert (ours.score(rows).log_probs - expected).abs().max() > 1e-3
    assert all(p.requires_grad for p in ours.trainable().values())


def test_adapters_that_were_frozen_are_the_reference():
    """A repaired bug: the second task of a run was held to the model beneath all adapters."""
    ours = LanguageModel(tiny_model(vocabulary=VOCABULARY), None, lora=LoRA(rank=2))
    rows = rows_of(segments())
    shaken(ours)
    expected = ours.score(rows).log_probs.detach()
    ours.freeze_reference()
    shaken(ours)
    learnt = ours.score(rows).log_probs
    with ours.reference(), torch.no_grad():
        assert torch.equal(ours.score(rows).log_probs, expected)
    learnt.sum().backward()  # with the weights that it was computed with
    found = {name: p.grad.clone() for name, p in ours.trainable().items()}
    for p in ours.trainable().values():
        p.grad = None
    again = ours.score(rows).log_probs
    assert torch.equal(again, learnt) and not torch.equal(again, expected)
    again.sum().backward()
    assert all(torch.equal(p.grad, found[name]) for name, p in ours.trainable().items())


@pytest.mark.parametrize("size", [0, 1000])
def test_weights_that_were_cut_off_are_a_sentence(size, tmp_path, tokenizer):
    LanguageModel(tiny_model(vocabulary=len(tokenizer)), tokenizer).save(tmp_path / "model")
    (weights,) = (tmp_path / "model").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:size])
    with pytest.raises(InvalidConfiguration, match="cannot be read as a language model"):
        LanguageModel.load(tmp_path / "model")


def test_without_adapters_the_reference_is_a_frozen_copy():
    ours, rows = LanguageModel(tiny_model(vocabulary=VOCABULARY), None), rows_of(segments())
    with pytest.raises(InvalidConfiguration, match="freeze_reference"), ours.reference():
        pass
    expected = ours.score(rows).log_probs.detach()
    ours.freeze_reference()
    shaken(ours)
    with ours.reference():
        found = ours.score(rows).log_probs
    assert torch.equal(found, expected) and not found.requires_grad
    assert not torch.equal(ours.score(rows).log_probs, expected)


def test_the_seed_of_adapters_is_their_own():
    def adapters(seed):
        torch.manual_seed(int(torch.randint(1000, ())))
        lora = LoRA(rank=2, seed=seed)
        made = LanguageModel(tiny_model(vocabulary=VOCABULARY), None, lora).trainable()
        return torch.cat([p.detach().flatten() for p in made.values()])

    assert torch.equal(adapters(3), adapters(3)) and not torch.equal(adapters(3), adapters(4))


@pytest.mark.parametrize("given", [{"rank": 0}, {"alpha": 0}, {"dropout": 1.0}], ids=str)
def test_adapters_that_there_cannot_be(given):
    with pytest.raises(InvalidConfiguration, match="rank counts from 1"):
        LoRA(**given)
    with pytest.raises(InvalidConfiguration, match="targets="):
        LanguageModel(tiny_model(vocabulary=VOCABULARY), None, LoRA(targets=("nowhere",)))


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)], ids=["whole", "adapters"])
def test_what_is_saved_scores_alike(lora, tmp_path, tokenizer):
    rows = rows_of(segments())
    ours = LanguageModel(tiny_model(vocabulary=VOCABULARY), tokenizer, lora)
    shaken(ours)
    ours.save(tmp_path / "run" / "model")
    shaken(ours)
    ours.save(tmp_path / "run" / "model")  # over the older one
    again = LanguageModel.load(tmp_path / "run" / "model")
    assert torch.equal(again.score(rows).log_probs, ours.score(rows).log_probs)
    assert again.tokenizer.get_vocab() == tokenizer.get_vocab()
    text = "Hello 1234 it's\n\n  so"  # AutoTokenizer would split digits, as Qwen2 does
    assert again.tokenizer(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert list(again.trainable()) == list(ours.trainable())
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["model"]
    if lora is not None:
        with again.reference(), ours.reference():
            assert torch.equal(again.score(rows).log_probs, ours.score(rows).log_probs)


def test_what_else_is_in_the_folder_stays(tmp_path, tokenizer):
    folder = tmp_path / "model"
    LanguageModel(tiny_model(vocabulary=VOCABULARY), tokenizer, LoRA(rank=2)).save(folder)
    (folder / "notes").mkdir()
    (folder / "notes" / "run.zip").write_text("hours of work")
    (folder / "model-00001-of-00002.safetensors").write_text("of another model")
    LanguageModel(tiny_model(vocabulary=VOCABULARY), tokenizer).save(folder)
    assert (folder / "notes" / "run.zip").read_text() == "hours of work"
    names = {entry.name for entry in folder.iterdir()}
    assert "model.safetensors" in names
    assert not names & {"adapter_config.json", "base", "model-00001-of-00002.safetensors"}
    assert not LanguageModel.load(folder).has_adapter and len(list(tmp_path.iterdir())) == 1


def test_a_failed_save_leaves_the_older_one(tmp_path, tokenizer, monkeypatch):
    ours = LanguageModel(tiny_model(vocabulary=VOCABULARY), tokenizer)
    ours.save(tmp_path / "model")
    monkeypatch.setattr(tokenizer, "save_pretrained", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ours.save(tmp_path / "model")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    LanguageModel.load(tmp_path / "model", dtype="bfloat16").score(rows_of(segments()))


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(InvalidConfiguration, match="dtype='half'"):
        LanguageModel.load(tmp_path, dtype="half")
    with pytest.raises(InvalidConfiguration, match="cannot be read as a language model"):
        LanguageModel.load(tmp_path)
