"""Sampling from models of transformers: log-probabilities, what is read once, what is refused."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from text_environments import Echo, Messages, Summary
from tiny_models import tiny_model, tiny_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.draws import draw_key, uniforms
from trainers.llm.next_token import next_tokens
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampler import Request
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

FORMAT = ChatFormat(tiny_tokenizer())
END = FORMAT.end


def scores(model, tokens, temperature=1.0):
    """Log-probability of each token but the first, from one plain forward pass.  # (L − 1,)"""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(tokens)[None]).logits[0].float()
    log_probs = torch.log_softmax(logits / temperature, -1)
    return log_probs[:-1].gather(-1, torch.tensor(tokens[1:])[:, None])[:, 0].numpy()


def gap(model, rollouts, temperature=1.0):
    """The largest difference between log-probabilities as sampled and as scored."""
    worst = 0.0
    for segment in (segment for rollout in rollouts for segment in rollout.segments):
        sampled = segment.turns[1:] >= 0
        scored = scores(model, segment.tokens, temperature)
        worst = max(worst, np.abs(scored - segment.log_probs[1:])[sampled].max())
    return worst


# -- log-probabilities -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize("slots, wait", [(1, 0.0), (3, 1.0), (4, 0.0), (64, 0.25)])
def test_log_probs_are_those_of_one_plain_pass(kind, slots, wait):
    """Mixed lengths, shared prefill, histories that are edited, fewer slots than rollouts."""
    model = tiny_model(kind, initializer_range=0.3)
    sampling = Sampling(max_tokens=7, max_context=300)
    for environment in (lambda: Echo(3, mixed=True), Messages):
        sampler = TransformersSampler(model, wait=wait)
        engine = RolloutEngine(environment, sampler, FORMAT, sampling, slots=slots)
        assert gap(model, engine.collect(range(2), 3, rng_seed=slots)) <= 1e-4


@pytest.mark.parametrize("change", ["eager", "temperature", "float64", "reread", "one head"])
def test_log_probs_in_other_ways(change):
    options = {"num_key_value_heads": 4} if change == "one head" else {}
    model = tiny_model(initializer_range=0.3, **options)
    if change == "eager":
        model.set_attn_implementation("eager")
    if change == "float64":
        model.double()
    temperature = 0.6 if change == "temperature" else 1.0
    sampling = Sampling(max_tokens=12, max_context=300, temperature=temperature)
    sampler = TransformersSampler(model, keep=change != "reread")
    engine = RolloutEngine(lambda: Echo(3, mixed=True), sampler, FORMAT, sampling, slots=5)
    assert gap(model, engine.collect(range(3), 3, rng_seed=1), temperature) <= 1e-4


def test_bfloat16_works_within_its_precision():
    model = tiny_model(initializer_range=0.3).bfloat16()
    engine = RolloutEngine(Echo, model, FORMAT, Sampling(max_tokens=12, max_context=300))
    assert gap(model, engine.collect(range(3), 3, rng_seed=1)) <= 0.2


def test_lora_adapters_are_sampled_from():
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    plain = RolloutEngine(Echo, tiny_model(initializer_range=0.3), FORMAT)
    model = peft.get_peft_model(tiny_model(initializer_range=0.3), config)
    engine = RolloutEngine(Echo, model, FORMAT)
    rollouts = engine.collect(range(3), 3, rng_seed=1)
    assert gap(model.eval(), rollouts) <= 1e-4
    tokens = [r.segments[0].tokens.tolist() for r in rollouts]
    assert tokens != [r.segments[0].tokens.tolist() for r in plain.collect(range(3), 3, rng_seed=1)]


def test_new_weights_are_sampled_from_at_once():
    model = tiny_model(initializer_range=0.3)
    engine = RolloutEngine(Echo, model, FORMAT)
    engine.collect(range(2), 2, rng_seed=1)
    model.load_state_dict(tiny_model(initializer_range=0.3, seed=1).state_dict())
    assert gap(model, engine.collect(range(2), 2, rng_seed=1)) <= 1e-4


def test_a_model_in_training_is_sampled_without_dropout_and_goes_on_training():
    model = tiny_model("gpt2", initializer_range=0.3, resid_pdrop=0.5).train()
    engine = RolloutEngine(Echo, model, FORMAT, Sampling(max_tokens=12))
    rollouts = engine.collect(range(2), 2, rng_seed=1)
    assert model.training
    assert gap(model.eval(), rollouts) <= 1e-4


# -- what is read ----------------------------------------------------------------------------------


def read_by(environment, *, slots=64, group_size=4, seeds=3, **options):
    """Tokens read by prefill passes, padding not counted, and what a plain reading would need."""
    sampler = TransformersSampler(tiny_model(initializer_range=0.3), **options)
    sampling = Sampling(max_tokens=6, max_context=900)
    engine = RolloutEngine(environment, sampler, FORMAT, sampling, slots=slots)
    counts = Counter()
    sampler.begin(sampling, END, slots)
    read, submit = sampler._decoder_.read, sampler.submit

    def counted(lanes, contexts, starts):
        counts["read"] += sum(map(len, contexts)) - int(starts.sum())
        return read(lanes, contexts, starts)

    def wanted(requests):
        counts["wanted"] += sum(len(request.context) for request in requests)
        submit(requests)

    sampler._decoder_.read, sampler.submit = counted, wanted
    rollouts = engine.collect(range(seeds), group_size, rng_seed=1)
    return counts["read"], counts["wanted"], rollouts


def opening_of(rollout):
    return len(FORMAT.opening(rollout.messages[:1]))


def test_a_shared_prompt_is_read_once():
    read, wanted, rollouts = read_by(lambda: Echo(1), group_size=8)
    assert read == sum(opening_of(rollout) for rollout in rollouts[::8])
    assert wanted == sum(opening_of(rollout) for rollout in rollouts)


def test_fewer_slots_than_members_share_the_prompt_too():
    """Who comes later copies what a lane still holds; only the last token is read again."""
    read, _, rollouts = read_by(lambda: Echo(1), group_size=8, slots=2, seeds=1)
    assert read <= opening_of(rollouts[0]) + 6 + len(FORMAT.continuation(rollouts[0].messages[:1]))


def test_each_token_of_a_conversation_is_read_once():
    """Of a later turn: the reply's last token and what was not sampled since."""
    read, wanted, rollouts = read_by(lambda: Echo(4), group_size=1)
    expected = 0
    for rollout in rollouts:
        (segment,) = rollout.segments
        upto = np.flatnonzero(segment.turns < 3).max() + 1  # nothing is read after the last reply
        last = np.flatnonzero(segment.turns[:upto] >= 0).max()
        given_tokens = np.flatnonzero(segment.turns == 3)[0]
        expected += int((segment.turns[:given_tokens] < 0).sum()) + 3
        assert last < upto
    assert read == expected < 0.5 * wanted


def test_a_long_system_prompt_is_read_once_for_all_seeds():
    environment = TextEnvironment(lambda: Echo(1), system="Be kind to every customer. " * 20)
    read, _, rollouts = read_by(environment, group_size=2, seeds=6)
    openings = [FORMAT.opening(rollout.messages[:2]) for rollout in rollouts[::2]]
    shared = next(
        place for place, same in enumerate(zip(*openings, strict=False)) if len({*same}) > 1
    )
    assert shared > 150
    assert 0 < read <= shared + sum(len(opening) - shared for opening in openings)


def test_an_edited_history_keeps_what_it_begins_with():
    environment = TextEnvironment(Summary, history="replace", system="Be kind to customers. " * 20)
    read, wanted, rollouts = read_by(environment, group_size=1, seeds=1)
    assert read < 0.6 * wanted and len(rollouts[0].segments) == 3


def test_without_keeping_every_turn_is_read_anew():
    read, wanted, _ = read_by(lambda: Echo(3), group_size=1, keep=False)
    assert read == wanted


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_any_mixture_of_requests_is_answered_right(data):
    """Conversations that come, go on, are edited and go, in any order, on few lanes."""
    model = MIXED
    slots = data.draw(st.integers(1, 5))
    sampler = TransformersSampler(model, wait=data.draw(st.sampled_from([0.0, 0.5, 1.0])))
    sampler.begin(Sampling(max_tokens=5, max_context=200), END, slots)
    contexts, pending, number = {}, {}, 0
    prefix = list(range(3, 40))
    for _ in range(data.draw(st.integers(3, 8))):
        idle = [c for c in contexts if contexts[c] is not None]
        requests = []
        for conversation in idle:
            doing = data.draw(st.sampled_from(["go on", "edit", "end"]))
            known = contexts.pop(conversation)
            if doing == "end" or len(known) > 150:
                sampler.release(conversation)
                continue
            if doing == "edit":
                known = known[: data.draw(st.integers(1, len(known)))]
            known = [*known, *data.draw(st.lists(st.integers(0, 319), min_size=1, max_size=9))]
            requests.append((conversation, known))
        while len(contexts) + len(requests) < slots:
            shared = prefix[: data.draw(st.sampled_from([1, 5, 37]))]
            requests.append((number, [*shared, data.draw(st.integers(0, 319))]))
            number += 1
        for conversation, known in requests:
            contexts[conversation], pending[conversation] = None, known
        sampler.submit([Request(c, np.array(k), draw_key(c, len(k)), 5) for c, k in requests])
        for reply in sampler.replies():
            known = pending[reply.conversation]
            whole = [*known, *reply.tokens.tolist()]
            scored = scores(model, whole)[-len(reply.tokens) :]
            assert np.abs(scored - reply.log_probs).max() <= 1e-4
            assert len(reply.tokens) == 5 or reply.tokens[-1] == END
            contexts[reply.conversation] = whole
    sampler.finish()


MIXED = tiny_model(initializer_range=0.3)

# -- what cannot be sampled from -------------------------------------------------------------------


def refused(model, max_context=64):
    sampler = TransformersSampler(model)
    with pytest.raises(InvalidConfiguration) as refusal:
        sampler.begin(Sampling(max_context=max_context), END, 4)
    return str(refusal.value)


def test_models_that_cannot_work_so_are_refused():
    assert "reads 32 tokens at most" in refused(tiny_model(places=32))
    assert "reads 32 tokens at most" in refused(tiny_model("gpt2", places=32))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 50}
    state = AutoConfig.for_model("mamba", state_size=4, **sizes)
    assert "full attention" in refused(AutoModelForCausalLM.from_config(state))
    window = tiny_model("mistral", sliding_window=48)
    assert "see 48 tokens only" in refused(window)
    TransformersSampler(window).begin(Sampling(max_context=48), END, 4)
    model = tiny_model()
    model.config._attn_implementation = "flash_attention_2"
    assert 'attn_implementation="sdpa"' in refused(model)
    with pytest.raises(InvalidConfiguration, match="wait=2"):
        TransformersSampler(model, wait=2)


# -- draws -----------------------------------------------------------------------------------------


def test_draws_are_those_of_splitmix():
    """Against the generator as published, step by step."""
    word = (1 << 64) - 1

    def splitmix(state, count):
        for _ in range(count):
            state = (state + 0x9E3779B97F4A7C15) & word
            z = state
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
            yield (z ^ (z >> 31)) >> 11

    keys = [draw_key(5, seed, 2, 3) for seed in (0, 1, -1, 2**70)]
    found = uniforms(np.array(keys, dtype=np.uint64), 6)
    assert found.tolist() == [[z / 2**53 for z in splitmix(key, 6)] for key in keys]


def test_keys_differ_and_draws_are_uniform():
    addresses = [
        (a, b, c, d) for a in range(6) for b in range(12) for c in range(8) for d in range(6)
    ]
    keys = np.array([draw_key(*address) for address in addresses], dtype=np.uint64)
    assert len(np.unique(keys)) == len(addresses)
    drawn = uniforms(keys, 20)
    counts = np.histogram(drawn, bins=32, range=(0, 1))[0]
    expected = drawn.size / 32
    assert ((counts - expected) ** 2 / expected).sum() < 61.1  # χ² of 31 degrees, p = 0.001
    assert abs(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]) < 0.02


def test_tokens_come_with_their_probabilities():
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0, float("-inf")]]).expand(20_000, 5)
    chances = uniforms(np.arange(20_000, dtype=np.uint64), 1)[:, 0]
    for options in ({}, {"temperature": 2.0}, {"top_k": 2}, {"top_p": 0.8}, {"temperature": 0.0}):
        sampling = Sampling(**options)
        tokens, log_probs = next_tokens(logits, chances, sampling)
        temperature = options.get("temperature", 1.0) or 1.0
        scored = torch.log_softmax(logits[0] / temperature, -1).numpy()
        assert np.allclose(log_probs, scored[tokens])
        probs = np.exp(scored)
        if "top_k" in options or "top_p" in options:  # both leave the two likeliest, 0.64 and 0.24
            probs = np.where(np.isin(np.arange(5), [1, 3]), probs, 0)
        if sampling.greedy:
            probs = (np.arange(5) == 3).astype(float)
        shares = np.bincount(tokens, minlength=5) / len(tokens)
        assert np.abs(shares - probs / probs.sum()).max() < 0.012


@pytest.mark.parametrize("chance", [0.0, 1 - 2.0**-53])
def test_the_ends_of_the_unit_interval_draw_possible_tokens(chance):
    impossible = float("-inf")
    logits = torch.tensor([[impossible, 0.3, 0.1, impossible], [impossible] * 3 + [0.0]])
    tokens, log_probs = next_tokens(logits, np.full(2, chance), Sampling())
    assert tokens.tolist() == [1 if chance == 0 else 2, 3] and np.isfinite(log_probs).all()


def test_greedy_takes_the_likeliest_token():
    model = tiny_model(initializer_range=0.3)
    sampling = Sampling(temperature=0, max_tokens=12)
    (rollout,) = RolloutEngine(Echo, model, FORMAT, sampling).collect([3], 1, rng_seed=1)
    (segment,) = rollout.segments
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(segment.tokens)[None]).logits[0]
    best = logits[:-1].argmax(-1).numpy()
    sampled = segment.turns[1:] >= 0
    assert best[sampled].tolist() == segment.tokens[1:][sampled].tolist()
    assert gap(model, [rollout]) <= 1e-4
