"""Chat templates of well-known families, as Jinja, each with its special tokens."""

from typing import NamedTuple

from tiny_models import CHATML, SPECIALS, tiny_tokenizer


class Template(NamedTuple):
    text: str
    specials: tuple[str, ...]
    end: str
    system: bool = True


TEMPLATES = {
    "chatml": Template(CHATML, SPECIALS, "<|im_end|>"),
    # A system message is put in where there is none, as Qwen2.5's template does.
    "chatml_default_system": Template(
        "{% if messages[0]['role'] != 'system' %}"
        "<|im_start|>system\nYou help.<|im_end|>\n{% endif %}" + CHATML,
        SPECIALS,
        "<|im_end|>",
    ),
    "llama3": Template(
        "{% for message in messages %}{% if loop.first %}<|begin|>{% endif %}"
        "<|header|>{{ message['role'] }}<|header_end|>\n\n{{ message['content'] | trim }}<|eot|>"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|header|>assistant<|header_end|>\n\n{% endif %}",
        ("<|pad|>", "<|begin|>", "<|header|>", "<|header_end|>", "<|eot|>"),
        "<|eot|>",
    ),
    "mistral": Template(
        "{% for message in messages %}"
        "{% if message['role'] == 'user' %}"
        "{% if loop.first %}<s>{% endif %}[INST] {{ message['content'] }} [/INST]"
        "{% elif message['role'] == 'assistant' %} {{ message['content'] }}</s>"
        "{% else %}{{ raise_exception('only user and assistant roles') }}{% endif %}"
        "{% endfor %}",
        ("<pad>", "<s>", "</s>", "[INST]", "[/INST]"),
        "</s>",
        system=False,
    ),
    "zephyr": Template(
        "{% for message in messages %}"
        "<|{{ message['role'] }}|>\n{{ message['content'] }}{{ eos_token }}\n"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        ("<pad>", "</s>"),
        "</s>",
    ),
    "phi3": Template(
        "{% for message in messages %}"
        "<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        ("<pad>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
        "<|end|>",
    ),
}
"""By name."""

FORGETFUL = {
    "thoughts": "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] if loop.last else message['content'].split('</think>')[-1] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "window": "{% for message in messages[-3:] %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "empty thoughts": "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if loop.last and message['role'] == 'assistant' %}<think></think>{% endif %}"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "system moves": "{% for message in messages %}{% if message['role'] != 'system' %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if loop.last and messages[0]['role'] == 'system' %}{{ messages[0]['content'] }} {% endif %}"
    "{{ message['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
}
"""Templates that write history differently, by what they change."""


def tokenizer_of(name: str):
    """The tiny tokenizer with one of the templates."""
    template = TEMPLATES[name]
    return tiny_tokenizer(
        size=340, template=template.text, specials=template.specials, end=template.end
    )
