"""A language model of a few thousand weights with a tokenizer of characters, made on the spot."""

import copy

import pytest

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('no') }}{% endif %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tiny_model(positions=256):
    """A network of a few thousand weights and a tokenizer of characters, made here."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    specials = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    letters = [*specials, "?", *"\nABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz .,:'!"]
    core = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({letter: i for i, letter in enumerate(letters)}, "?")
    )
    core.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    core.decoder = tokenizers.decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|end|>", unk_token="?",
        additional_special_tokens=specials[1:],
    )  # fmt: skip
    config = transformers.LlamaConfig(
        vocab_size=len(letters), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=positions, bos_token_id=None, eos_token_id=0,
    )  # fmt: skip
    state = torch.get_rng_state()
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3.0)  # so that tokens differ in how likely they are
    torch.set_rng_state(state)
    return model, tokenizer


def templated_model(positions=256):
    """The same with a chat template."""
    model, tokenizer = tiny_model(positions)
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = TEMPLATE
    return model, tokenizer
