"""Pieces of chat templates, put together, are what the template writes; sampled tokens stay."""

import numpy as np
import pytest
from chat_templates import FORGETFUL, TEMPLATES, tokenizer_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import CHATML, tiny_tokenizer

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.conversations import Chat
from trainers.llm.tokens import conversation_row


def said(role, content):
    return {"role": role, "content": content}


FORMATS = {name: ChatFormat(tokenizer_of(name)) for name in TEMPLATES}
words = st.text("abc xyz.?", min_size=1, max_size=12).map(str.strip).filter(bool)


@pytest.mark.parametrize("name", list(TEMPLATES))
@settings(max_examples=25, deadline=None)
@given(texts=st.lists(words, min_size=1, max_size=6))
def test_pieces_are_what_the_template_writes(name, texts):
    """Replies that the tokenizer itself encoded; then, and only then, the two must agree."""
    form = FORMATS[name]
    messages = [said("user", "Hello.")]
    ids = form.opening(messages)
    for number, text in enumerate(texts):
        ids += form.reply(text)
        answer = said("user", f"{text} {number}")
        ids += form.continuation([answer])
        messages += [said("assistant", text), answer]
    whole = form.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert form.tokenizer.decode(ids) == whole


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_pieces_are_those_of_supervised_rows(name):
    """What is sampled in rollouts and what SFT learns from are cut in the same places."""
    form = FORMATS[name]
    messages = [said("user", "Hello."), said("assistant", "Hi there"), said("user", "Where?")]
    messages += [said("assistant", "Here.")]
    chat = Chat(tuple(messages), np.zeros(2), np.zeros(2), True)
    row = conversation_row(chat, form.tokenizer, form.end)
    opening, first = form.opening(messages[:1]), form.reply("Hi there")
    middle, second = form.continuation(messages[2:3]), form.reply("Here.")
    upto = len(opening) + len(first) + len(middle) + len(second)
    assert row.input_ids[:upto].tolist() == opening + first + middle + second
    mask = [0] * len(opening) + [1] * len(first) + [0] * len(middle) + [1] * len(second)
    assert row.loss_mask[:upto].tolist() == mask


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_a_reply_is_read_as_it_was_written(name):
    form = FORMATS[name]
    for text in ("Hi there", "café, 12 €", "two\nlines"):
        assert form.decode(form.reply(text)) == text
        assert form.decode(form.reply(text)[:-1]) == text  # cut off before the end token


@pytest.mark.parametrize("name", [name for name, made in TEMPLATES.items() if made.system])
def test_a_system_message_stands_first(name):
    form = FORMATS[name]
    messages = [said("system", "Be brief."), said("user", "Hello.")]
    written = form.tokenizer.decode(form.opening(messages))
    assert written.index("Be brief.") < written.index("Hello.")
    assert "Be brief." not in form.tokenizer.decode(form.continuation(messages[1:]))


def test_tool_results_and_words_may_come_together():
    form = FORMATS["chatml"]
    ids = form.continuation([said("tool", "found: 12"), said("user", "And?")])
    assert form.tokenizer.decode(ids) == (
        "\n<|im_start|>tool\nfound: 12<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("name", list(FORGETFUL))
def test_a_template_that_rewrites_history_is_refused_in_one_sentence(name):
    with pytest.raises(InvalidConfiguration, match="one that only appends") as refusal:
        ChatFormat(tiny_tokenizer(template=FORGETFUL[name]))
    assert str(refusal.value).count(". ") == 0


@pytest.mark.parametrize("mark", ["loop.index", "loop.index0 // 2"])
def test_a_template_that_counts_messages_is_refused(mark):
    told = "{% if message['role'] == 'user' %}#{{ " + mark + " }} {% endif %}"
    counted = CHATML.replace("{{ message['content'] }}", told + "{{ message['content'] }}")
    assert counted != CHATML
    with pytest.raises(InvalidConfiguration, match="that counts no messages"):
        ChatFormat(tiny_tokenizer(template=counted))


def test_a_template_that_ends_replies_otherwise_names_what_it_writes():
    tokenizer = tiny_tokenizer(end="<|pad|>")
    with pytest.raises(InvalidConfiguration, match="token 0, is not in it"):
        ChatFormat(tokenizer)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert ChatFormat(tokenizer, end).end == end


def test_roles_that_a_template_does_not_know_are_named():
    with pytest.raises(InvalidConfiguration, match="roles tool: only user and assistant"):
        FORMATS["mistral"].opening([said("tool", "found")])


def test_a_tokenizer_that_adds_a_prefix_is_refused():
    from tokenizers import pre_tokenizers

    tokenizer = tiny_tokenizer()
    prefixed = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.backend_tokenizer.pre_tokenizer = prefixed
    with pytest.raises(InvalidConfiguration, match="adds something to every text"):
        ChatFormat(tokenizer)


def test_special_tokens_that_were_sampled_are_no_text():
    form = FORMATS["chatml"]
    start = form.tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert form.decode([*form.reply("Hi")[:-1], start, form.end]) == "Hi"


def test_a_tokenizer_without_end_or_template_is_refused():
    tokenizer = tiny_tokenizer(template=None)
    with pytest.raises(InvalidConfiguration, match="chat_template"):
        ChatFormat(tokenizer)
    tokenizer = tiny_tokenizer(template=CHATML)
    tokenizer.eos_token = None
    with pytest.raises(InvalidConfiguration, match="end_of_turn"):
        ChatFormat(tokenizer)
