"""Preferred pairs: from rollouts by return, from files, and as tokens that are never made again."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration, InvalidLog

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import tiny_tokenizer

from trainers.llm.chat_format import ChatFormat
from trainers.llm.conversations import Chat
from trainers.llm.preference_steps import batch_of
from trainers.llm.preferences import (
    Preference,
    candidate_pairs,
    in_tokens,
    preferences_of,
    read_preferences,
    write_preferences,
)
from trainers.llm.rollouts import Rollout, Segment
from trainers.llm.tokens import conversation_row


def user(text):
    return {"role": "user", "content": text}


def agent(text):
    return {"role": "assistant", "content": text}


def rollout(number, return_, group=0, error="", messages=()):
    tokens, turns = np.array([1, 10 + number, 2]), np.array([-1, 0, 0])
    segment = Segment(tokens, turns, np.array([0, -0.1, -0.7], dtype=np.float32))
    return Rollout(
        segments=(segment,), rewards=np.array([0.0, return_]), group=group, seed=0, error=error,
        messages=messages or (user("Well?"), agent(f"reply {number}")),
    )  # fmt: skip


def replies(pairs):
    return [(pair.chosen[0]["content"][-1], pair.rejected[0]["content"][-1]) for pair in pairs]


def test_the_best_is_preferred_to_the_worst_of_its_group():
    made = [rollout(0, 0.5), rollout(1, 1.0), rollout(2, 0.0), rollout(3, 0.2, 1), rollout(4, 9, 1)]
    pairs = preferences_of(made)
    assert replies(pairs) == [("1", "2"), ("4", "3")]
    assert [pair.margin for pair in pairs] == [1.0, 8.8]
    assert pairs[0].prompt == (user("Well?"),)
    assert pairs[0].chosen_segments is made[1].segments


def test_ties_failures_and_equal_replies_make_no_pair():
    assert not preferences_of([rollout(0, 1.0), rollout(1, 1.0), rollout(2, 2.0, group=1)])
    assert not preferences_of([rollout(0, 1.0), rollout(1, 0.0, error="the judge is away")])
    assert not preferences_of([rollout(0, 1.0), rollout(0, 0.0)])  # luck, not merit
    assert replies(preferences_of([rollout(0, 1.0), rollout(1, 0.9), rollout(2, 0.5)],
                                  most_per_group=None, least_margin=0.1 + 1e-9)) == [
        ("0", "2"), ("1", "2"),
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=9))
def test_all_pairs_are_those_of_the_plain_double_loop(drawn):
    made = [rollout(n, float(return_), group) for n, (group, return_) in enumerate(drawn)]
    found = {
        (pair.chosen[0]["content"], pair.rejected[0]["content"])
        for pair in preferences_of(made, most_per_group=None)
    }
    assert found == {
        (a.messages[1]["content"], b.messages[1]["content"])
        for a in made for b in made if a.group == b.group and a.return_ > b.return_
    }  # fmt: skip
    together = sum(a.group == b.group for n, a in enumerate(made) for b in made[:n])
    assert len(list(candidate_pairs(made))) == together


@pytest.mark.parametrize("keywords", [{"most_per_group": 0}, {"least_margin": -1.0}])
def test_bad_bounds_are_one_sentence(keywords):
    with pytest.raises(InvalidConfiguration, match=next(iter(keywords))):
        preferences_of([], **keywords)


def test_flipping_twice_is_the_same_pair():
    (pair,) = preferences_of([rollout(0, 1.0), rollout(1, 0.0)])
    assert pair.flipped.conversations == pair.conversations[::-1]
    assert pair.flipped.flipped.margin == pair.margin == 1.0
    assert pair.flipped.chosen_segments is pair.rejected_segments


def test_odd_pairs_are_refused():
    yes, no = (agent("Yes"),), (agent("No"),)
    segments = rollout(0, 0).segments
    silent = Segment(np.array([1, 2]), np.array([-1, -1]), np.zeros(2, dtype=np.float32))
    for keywords, sentence in (
        ({"chosen": yes, "rejected": yes}, "are the same"),
        ({"chosen": yes}, "rejected side of a preference says nothing"),
        ({"chosen": (user("Hm"),), "rejected": no}, "chosen side of a preference says nothing"),
        ({"chosen": yes, "rejected": no, "chosen_segments": segments}, "one side only"),
        ({"chosen_segments": (silent,), "rejected_segments": segments}, "no sampled token"),
    ):
        with pytest.raises(InvalidConfiguration, match=sentence):
            Preference(**keywords)


# -- tokens


def test_words_become_the_tokens_that_a_prompted_model_would_have_read_and_said():
    tokenizer = tiny_tokenizer()
    prompt = (user("Hello"), agent("How can I help?"), user("Where is my order?"))
    chosen = (agent("Sorry. The number?"), user("1234"), agent("Thank you!"), user("Bye"))
    (pair,) = in_tokens(
        [Preference(prompt=prompt, chosen=chosen, rejected=(agent("No."),))], ChatFormat(tokenizer)
    )
    segment = pair.chosen_segments[0]
    said = [tokenizer.decode(segment.tokens[segment.turns == turn]) for turn in (0, 1)]
    assert said == ["Sorry. The number?<|im_end|>", "Thank you!<|im_end|>"]
    assert set(segment.turns.tolist()) == {-1, 0, 1}  # the prompt's own reply is not learnt
    begun = tokenizer.apply_chat_template(list(prompt), tokenize=False, add_generation_prompt=True)
    first = int(np.argmax(segment.turns == 0))
    assert tokenizer.decode(segment.tokens[:first]) == begun
    whole = tokenizer.apply_chat_template([*prompt, *chosen[:-1]], tokenize=False)
    assert tokenizer.decode(segment.tokens) == whole.removesuffix("\n")
    rejected = pair.rejected_segments[0]
    assert rejected.tokens[:first].tolist() == segment.tokens[:first].tolist()


def test_they_are_those_that_supervised_learning_sees_too():
    """`tokens.conversation_row` puts a chat together its own way."""
    tokenizer = tiny_tokenizer()
    messages = (user("Hello"), agent("How can I help?"), user("My order"), agent("Thank you!"))
    (pair,) = in_tokens(
        [Preference(prompt=messages[:1], chosen=messages[1:], rejected=(agent("No."),))],
        ChatFormat(tokenizer),
    )
    nothing = np.zeros(2)
    row = conversation_row(Chat(messages, nothing, nothing, True), tokenizer)
    length = len(pair.chosen_segments[0].tokens)
    assert pair.chosen_segments[0].tokens.tolist() == row.input_ids[:length].tolist()
    assert pair.chosen_segments[0].turns.tolist() == row.turns[:length].tolist()
    assert (row.turns[length:] == -1).all()


def test_sampled_tokens_stay_as_they_are():
    """Not the way the tokenizer would write them."""
    pairs = preferences_of([rollout(0, 1.0), rollout(1, 0.0)])
    assert in_tokens(pairs, ChatFormat(tiny_tokenizer()))[0] is pairs[0]


# -- files


def test_pairs_come_back_from_their_file(tmp_path):
    pairs = preferences_of([rollout(0, 1.0), rollout(1, 0.0)])
    words = Preference(prompt=(user("ä?"),), chosen=(agent("ö"),), rejected=(agent(""),))
    write_preferences(tmp_path / "pairs.jsonl", [*pairs, words])
    first, second = read_preferences(tmp_path / "pairs.jsonl")
    assert first.conversations == pairs[0].conversations and first.margin == 1.0
    for side in ("chosen_segments", "rejected_segments"):
        (found,), (expected,) = getattr(first, side), getattr(pairs[0], side)
        assert found.tokens.tolist() == expected.tokens.tolist()
        assert found.turns.tolist() == expected.turns.tolist()
        assert found.log_probs.tolist() == expected.log_probs.tolist()  # to the last bit
        assert found.log_probs.dtype == np.float32
    assert (second.conversations, second.chosen_segments) == (words.conversations, ())
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl"]


def test_the_forms_of_others_are_read(tmp_path):
    whole = [user("Well?"), agent("Hm."), user("So?")]
    lines = [
        {"prompt": "Well?", "chosen": "Yes", "rejected": "No"},
        {"prompt": [user("Well?")], "chosen": [agent("Yes")], "rejected": "No", "margin": 2},
        {"chosen": [*whole, agent("Yes")], "rejected": [*whole, agent("No")]},
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n\n".join(map(json.dumps, lines)), encoding="utf-8")
    first, second, third = read_preferences(path)
    assert first.conversations == second.conversations == (
        (user("Well?"), agent("Yes")), (user("Well?"), agent("No")),
    )  # fmt: skip
    assert second.margin == 2.0
    assert third.prompt == tuple(whole) and third.chosen == (agent("Yes"),)


@pytest.mark.parametrize(
    "line",
    ["[]", "{}", '{"chosen": "a"}', '{"chosen": "a", "rejected": "a"}', "no json",
     '{"prompt": [{"role": 1, "content": 2}], "chosen": "a", "rejected": "b"}'],
)  # fmt: skip
def test_a_line_that_is_no_pair_is_named(line, tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"chosen": "a", "rejected": "b"}\n' + line, encoding="utf-8")
    with pytest.raises(InvalidLog, match="line 2, is no preference"):
        read_preferences(path)


# -- batches


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 20))
def test_batches_run_through_all_pairs_again_and_again(count, size, steps):
    drawn = np.concatenate([batch_of(count, size, 7, step) for step in range(steps + 1)])
    assert len(drawn) == size * (steps + 1)
    for first in range(0, len(drawn) - count + 1, count):
        assert sorted(drawn[first : first + count]) == list(range(count))
