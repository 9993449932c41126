"""Recorded conversations as chats and as tokens: history, masks, rewards."""

import copy
import dataclasses
import json

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convgym  # noqa: F401  registers the environments
from convgym.data.episodes import collect, write_dataset
from convgym.data.transitions import returns_to_go
from convgym.errors import DatasetError
from convgym.evaluation.rollout import play
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import PlannerPolicy
from trainers.llm.conversations import Chat, read_chats
from trainers.llm.tokens import conversation_row, turn_rows

minari = pytest.importorskip("minari")

ID = "ConvGym/CustomerService-v0"


class Parrot:
    """Says again what a planner said in the same episode, whatever is observed."""

    name = "parrot"

    def __init__(self):
        self._said = {}

    def reset(self, seed):
        self._left = iter(self._said[seed])

    def predict(self, observation, state=None, episode_start=None, deterministic=False, **_):
        return next(self._left), state

    def hear(self, episodes):
        self._said = {episode.seed: episode.actions for episode in episodes}
        return self


def spoken(observation, **keywords):
    """A dataset of ten conversations between a planner and its customers, as seen so."""
    planner = RenderedPolicy(PlannerPolicy(0.2))
    made = {"reward": "milestones", "action": "text", **keywords}
    heard = collect(gym.make(ID, observation="dict", **made), [(planner, 1.0)], 10, seed=3)
    env = gym.make(ID, observation=observation, **made)
    return write_dataset(
        f"convgym/{observation}-v0",
        env,
        collect(env, [(Parrot().hear(heard), 1.0)], 10, seed=3),
        description="A few conversations.",
        ref_min_score=0.0,
        ref_max_score=1.0,
        algorithm_name="planner",
    )


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


# Chats


def test_messages_alternate_and_replies_alone_are_learnt():
    dataset = spoken("message", max_turns=12)
    chats = read_chats(dataset, discount=0.9)
    assert {chat.terminated for chat in chats} == {False, True}
    for chat, episode in zip(chats, dataset.iterate_episodes(), strict=True):
        turns = len(episode.rewards)
        roles = [message["role"] for message in chat.messages]
        assert roles[: 2 * turns] == ["user", "assistant"] * turns
        assert roles[2 * turns :] == ["user"] * bool(episode.observations[-1])
        contents = [message["content"] for message in chat.messages]
        assert contents[0 : 2 * turns : 2] == list(episode.observations[:-1])
        assert contents[1 : 2 * turns : 2] == list(episode.actions)
        assert chat.loss == [role == "assistant" for role in roles]
        assert np.array_equal(chat.returns, returns_to_go(episode.rewards, 0.9))
        for t, turn in enumerate(chat.turns()):
            assert turn.prompt == chat.messages[: 2 * t + 1]
            assert turn.completion == episode.actions[t]
            assert (turn.reward, turn.return_to_go) == (episode.rewards[t], chat.returns[t])
        assert t == turns - 1


def test_a_system_message_stands_first():
    dataset = spoken("message")
    plain, told = read_chats(dataset), read_chats(dataset, system="Be kind.")
    for before, after in zip(plain, told, strict=True):
        assert after.messages == ({"role": "system", "content": "Be kind."}, *before.messages)
        assert after.loss == [False, *before.loss]


def test_a_transcript_becomes_what_each_page_adds():
    """The pages joined from messages are the recorded ones; nothing is said twice."""
    dataset = spoken("transcript")
    news = read_chats(spoken("message"))
    for chat, episode, heard in zip(
        read_chats(dataset), dataset.iterate_episodes(), news, strict=True
    ):
        first, *rest = [message["content"] for message in chat.messages]
        assert first == episode.observations[0]
        page = first
        for t, reply in enumerate(episode.actions):
            assert rest[2 * t] == reply
            page += f"\nAgent: {reply}"
            if 2 * t + 1 < len(rest) and rest[2 * t + 1]:
                page += "\n" + rest[2 * t + 1]
            assert page == episode.observations[t + 1]
        for message, bare in zip(chat.messages[1:], heard.messages[1:], strict=True):
            content = message["content"].removeprefix("Tool: ").removeprefix("Customer: ")
            assert content.replace("\nCustomer: ", "\n") == bare["content"]


def test_dict_observations_have_a_system_message_and_tool_results_of_their_own():
    dataset = spoken("dict")
    seen = read_chats(spoken("message"))
    roles = set()
    for chat, episode, heard in zip(
        read_chats(dataset), dataset.iterate_episodes(), seen, strict=True
    ):
        policy, tools = (episode.observations[name][0] for name in ("policy", "tools"))
        assert chat.messages[0] == {"role": "system", "content": f"{policy}\n\nTools:\n{tools}"}
        assert json.loads(chat.messages[0]["content"].rpartition("\n\nTools:\n")[2])
        said, joined = list(chat.messages[1:]), []
        while said:
            message = said.pop(0)
            roles.add(message["role"])
            if joined and message["role"] == "user" and joined[-1][0] == "tool":
                joined[-1] = ("user", f"{joined[-1][1]}\n{message['content']}")
            else:
                joined.append((message["role"], message["content"]))
        assert [("user" if role == "tool" else role, content) for role, content in joined] == [
            (message["role"], message["content"]) for message in heard.messages
        ]
    assert roles == {"user", "assistant", "tool"}
    assert read_chats(dataset, system="Short.")[0].messages[0]["content"] == "Short."


def test_a_prompt_of_a_dict_is_what_the_environment_says():
    """The system message is the environment's own prompt."""
    env = gym.make(ID, observation="dict", action="text")
    planner = RenderedPolicy(PlannerPolicy())
    buffers = collect(env, [(planner, 1.0)], 1, seed=3)
    settings_of = {"description": "One.", "ref_min_score": 0.0, "ref_max_score": 1.0}
    dataset = write_dataset("one-v0", env, buffers, algorithm_name="planner", **settings_of)
    play(env, planner, seed=buffers[0].seed, options=buffers[0].options)
    assert read_chats(dataset)[0].messages[0]["content"] == env.unwrapped.system_prompt


class Stored:
    """A dataset of one episode, described by hand."""

    env_spec = None

    def __init__(self, observations, actions, shown=None, acted=None):
        text = gym.spaces.Text(100)
        self.observation_space, self.action_space = shown or text, acted or text
        ends = np.arange(1, len(actions) + 1) == len(actions)
        self._episode = minari.dataset.minari_dataset.EpisodeData(
            0, observations, actions, np.ones(len(actions)), ends, ends & False, {}
        )

    def iterate_episodes(self):
        return iter([self._episode])


def test_an_empty_last_message_is_left_out_and_others_are_kept():
    chat = read_chats(Stored(["Hi", "", ""], ["a", "b"]))[0]
    assert [m["content"] for m in chat.messages] == ["Hi", "a", "", "b"]


def test_transcripts_that_were_clipped_are_refused():
    first = "Head\n\nCustomer: Hi"
    pages = [first, f"{first}\nAgent: Yes?\nCustomer: Go on", "Head\n\n[...]\nAgent: Where?"]
    with pytest.raises(DatasetError, match="clipped"):
        read_chats(Stored(pages, ["Yes?", "Where?"]))


@pytest.mark.parametrize("shortened", [True, False])
def test_a_long_reply_is_whole_in_the_chat(shortened):
    """Environments shorten it in their transcripts, logs do not."""
    reply = "a" * 2000
    told = reply[:1024] if shortened else reply
    pages = ["Head\n\nCustomer: Hi", f"Head\n\nCustomer: Hi\nAgent: {told}\nCustomer: Oh"]
    (chat,) = read_chats(Stored(pages, [reply]))
    assert [m["content"] for m in chat.messages] == [pages[0], reply, "Customer: Oh"]


def test_a_transcript_may_begin_with_the_agent():
    pages = ["", "Agent: Hello\nCustomer: Hi", "Agent: Hello\nCustomer: Hi\nAgent: Bye"]
    (chat,) = read_chats(Stored(pages, ["Hello", "Bye"]))
    assert [m["content"] for m in chat.messages] == ["", "Hello", "Customer: Hi", "Bye"]


def test_messages_that_only_look_alike_are_no_transcript():
    said = ["Hi", "Hi\nAgent: Hellos", "Hi"]
    (chat,) = read_chats(Stored(said, ["Hello", "Bye"]))
    assert [m["content"] for m in chat.messages] == ["Hi", "Hello", said[1], "Bye", "Hi"]


@pytest.mark.parametrize(
    "spaces",
    [
        {"acted": gym.spaces.Discrete(3)},
        {"shown": gym.spaces.Box(0, 1, (2,))},
    ],
)
def test_what_is_no_text_is_refused(spaces):
    with pytest.raises(DatasetError, match="made of texts"):
        read_chats(Stored(["Hi", "Bye"], ["a"], **spaces))


# Tokens

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BARE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
FORGETFUL = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content if loop.last or m.role != 'assistant' else m.content.split(';')[-1] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = ["Hello there", "hello", "a b  c", "Yes; no", "", "\nwell\n", " spaced ", "the the the"]


@pytest.fixture(scope="module")
def tokenizer():
    """A byte-level BPE with merges over spaces and line breaks, as large models have it."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    core.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    core.train_from_iterator(["assistant: the hello\nthe user: well\n\nassistant\n"] * 20, trainer)
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    made.chat_template = CHATML
    return made


def templated(tokenizer, template):
    made = copy.deepcopy(tokenizer)
    made.chat_template = template
    return made


def chat_of(*said, system=""):
    """A chat of alternating messages that begins with the user's; rewards count on."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)]
    rewards = np.arange(1.0, len(said) // 2 + 1)
    head = [{"role": "system", "content": system}] if system else []
    return Chat((*head, *messages), rewards, returns_to_go(rewards, 1.0), True)


def check_row(row, tokenizer, messages, replies):
    """The row is the template's text, and its masked tokens are the replies and their ends."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False)
    assert tokenizer.decode(row.input_ids) == text
    for number, reply in enumerate(replies):
        own = tokenizer.decode(row.input_ids[row.turns == number])
        assert own == f"{reply}<|im_end|>"
    assert set(row.turns.tolist()) == {-1, *range(len(replies))}
    assert row.loss_mask.tolist() == [int(turn >= 0) for turn in row.turns]


@settings(deadline=None)
@given(said=st.lists(st.sampled_from(WORDS), min_size=2, max_size=9), told=st.booleans())
def test_masked_tokens_are_the_replies_and_nothing_else(tokenizer, said, told):
    chat = chat_of(*said, system="Be kind." * told)
    row, replies = conversation_row(chat, tokenizer), said[1::2]
    end = chat.replies[-1] + 1
    check_row(row, tokenizer, chat.messages[:end], replies)
    assert np.array_equal(row.rewards, chat.rewards)
    assert np.array_equal(row.returns, chat.returns)
    each = turn_rows(chat, tokenizer)
    assert len(each) == len(replies)
    for turn, (row, place) in enumerate(zip(each, chat.replies, strict=True)):
        check_row(row, tokenizer, chat.messages[: place + 1], [replies[turn]])
        assert (row.rewards, row.returns) == ([chat.rewards[turn]], [chat.returns[turn]])


def test_a_conversation_without_a_reply_has_nothing_to_learn_from(tokenizer):
    with pytest.raises(DatasetError, match="no reply"):
        conversation_row(chat_of("Hello there"), tokenizer)
    assert turn_rows(chat_of("Hello there"), tokenizer) == []


def test_ids_are_those_of_the_template_where_nothing_merges_across_the_border(tokenizer):
    chat = chat_of("Hello there", "hello", "well", "the the the")
    row = conversation_row(chat, tokenizer)
    whole = tokenizer.apply_chat_template(list(chat.messages), return_dict=False)
    assert row.input_ids.tolist() == whole[: len(row.input_ids)]
    assert tokenizer.decode(whole[len(row.input_ids) :]) == ""


def test_a_token_that_would_merge_across_the_border_is_split_at_it(tokenizer):
    """Two line breaks are one token; here the first is the template's, the second the reply's."""
    merged = tokenizer("\n\n", add_special_tokens=False)["input_ids"]
    chat = chat_of("hello", "\n\nwell")
    row = conversation_row(chat, tokenizer)
    whole = tokenizer.apply_chat_template(list(chat.messages), return_dict=False)
    assert len(merged) == 1 and row.input_ids.tolist() != whole
    check_row(row, tokenizer, chat.messages, ["\n\nwell"])


def test_a_template_without_a_token_that_ends_turns(tokenizer):
    bare = templated(tokenizer, BARE)
    row = conversation_row(chat_of("hello", "the the", "well", "Yes"), bare)
    said = "user: hello\nassistant: the the\nuser: well\nassistant: Yes\n"
    assert bare.decode(row.input_ids) == said
    assert bare.decode(row.input_ids[row.turns == 0]) == " the the\n"
    assert bare.decode(row.input_ids[row.turns == 1]) == " Yes\n"


def test_the_token_that_ends_turns_may_be_another_than_the_one_that_ends_texts(tokenizer):
    other, chat = copy.deepcopy(tokenizer), chat_of("hello", "the")
    other.eos_token = "<|im_start|>"
    row = conversation_row(chat, other)
    assert other.decode(row.input_ids[row.turns == 0]) == "the<|im_end|>\n"
    row = conversation_row(chat, other, end_of_turn=tokenizer.eos_token_id)
    check_row(row, other, chat.messages, ["the"])


def test_a_conversation_that_was_cut_off_ends_with_the_prompt_of_the_next_reply(tokenizer):
    chat = dataclasses.replace(chat_of("hello", "the", "well"), terminated=False)
    row = conversation_row(chat, tokenizer)
    ended = conversation_row(chat_of("hello", "the"), tokenizer)
    text = tokenizer.apply_chat_template(
        list(chat.messages), tokenize=False, add_generation_prompt=True
    )
    assert tokenizer.decode(row.input_ids) == text
    assert (row.terminated, ended.terminated) == (False, True)
    assert row.turns[len(ended.turns) :].max() == -1


def test_without_an_answer_it_ends_with_the_agents_last_token(tokenizer):
    """What the template writes after a reply is no place from which the agent would speak."""
    chat = dataclasses.replace(chat_of("hello", "the"), terminated=False)
    row = conversation_row(chat, tokenizer)
    assert row.turns[-1] == 0 and row.input_ids[-1] == tokenizer.eos_token_id
    assert conversation_row(chat_of("hello", "the"), tokenizer).turns[-1] == -1


def test_only_the_last_turn_of_a_conversation_terminates(tokenizer):
    chat = chat_of("hello", "the", "well", "Yes")
    assert [row.terminated for row in turn_rows(chat, tokenizer)] == [False, True]
    chat = dataclasses.replace(chat, terminated=False)
    assert [row.terminated for row in turn_rows(chat, tokenizer)] == [False, False]


def test_a_template_that_rewrites_earlier_replies_needs_a_row_for_each_turn(tokenizer):
    forgetful = templated(tokenizer, FORGETFUL)
    chat = chat_of("hello", "Yes; no", "well", "think; the")
    with pytest.raises(DatasetError, match="before agent turn 2 differently"):
        conversation_row(chat, forgetful)
    first, second = turn_rows(chat, forgetful)
    check_row(first, forgetful, chat.messages[:2], ["Yes; no"])
    check_row(second, forgetful, chat.messages, ["think; the"])
    assert "Yes" not in forgetful.decode(second.input_ids)


def test_a_tokenizer_that_begins_every_text_with_a_space_is_refused(tokenizer):
    spaced = copy.deepcopy(tokenizer)
    byte_level = pytest.importorskip("tokenizers").pre_tokenizers.ByteLevel
    spaced.backend_tokenizer.pre_tokenizer = byte_level(add_prefix_space=True, use_regex=False)
    with pytest.raises(DatasetError, match="adds something to every text"):
        conversation_row(chat_of("hello", "the", "well", "the"), templated(spaced, BARE))


def test_the_embedded_tokenizer_of_characters():
    from tiny_model import templated_model

    _, letters = templated_model()
    chat = chat_of("Hello there", "Yes.", "bye", "Bye!")
    row = conversation_row(chat, letters)
    assert row.input_ids.tolist() == letters.apply_chat_template(
        list(chat.messages), return_dict=False
    )
    assert [letters.decode(row.input_ids[row.turns == turn]) for turn in (0, 1)] == [
        "Yes.<|end|>", "Bye!<|end|>"
    ]  # fmt: skip
