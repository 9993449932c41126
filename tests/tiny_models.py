"""Tokenizers and transformers models small enough to be made anew in a test.

The tokenizer is a byte-level BPE, so that every text has tokens and every token has bytes; the
models have random weights, and the same arguments give the same weights.
"""

from collections.abc import Sequence

import pytest

pytest.importorskip("transformers", reason="language models need the extra llm")

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

CHATML = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIALS = ("<|pad|>", "<|im_start|>", "<|im_end|>")
TEXTS = (
    "Hello, how can I help you?",
    "Where is my order? I have waited for a week.",
    "I am sorry to hear that. Please tell me the number of your order.",
    "The number is 1234. Thank you! Good bye.",
    "system user assistant tool policy",
)


def tiny_tokenizer(
    texts: Sequence[str] = TEXTS,
    size: int = 320,
    template: str = CHATML,
    specials: Sequence[str] = SPECIALS,
    end: str = "<|im_end|>",
):
    """At most `size` tokens, at least the 256 bytes and the specials; the first special pads."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(specials),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token=end,
        pad_token=specials[0],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_model(
    kind: str = "qwen2",
    vocabulary: int = 320,
    width: int = 32,
    layers: int = 2,
    seed: int = 0,
    places: int = 1024,
    **changes,
):
    """A causal language model of transformers, in single precision and ready to be scored.

    `kind`: qwen2 and llama (two query heads share keys and values), or gpt2; `places` is the
    longest context; `changes` go to the configuration.
    """
    common = {"vocab_size": vocabulary, "bos_token_id": None, "eos_token_id": None}
    if kind == "gpt2":
        sizes = {"n_embd": width, "n_layer": layers, "n_head": 4, "n_positions": places}
        quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        config = AutoConfig.for_model(kind, **common | sizes | quiet | changes)
    else:
        sizes = {
            "hidden_size": width,
            "intermediate_size": 2 * width,
            "num_hidden_layers": layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": places,
            "tie_word_embeddings": True,
        }
        config = AutoConfig.for_model(kind, **common | sizes | changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config).float().eval()
