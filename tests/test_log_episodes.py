"""Logs as episodes: every one compared with a plain loop; which act a reply is; what is refused."""

import math
from itertools import groupby, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import corpus, talk

from convgym.conversation import Conversation, Message
from convgym.data.agent_acts import OTHER, AgentActs, act_label, fit_agent_acts, frequent_labels
from convgym.data.exchanges import exchanges, written
from convgym.data.log_episodes import LogEpisodes, LogForm
from convgym.data.logs import read_log
from convgym.data.reply_clusters import ReplyClusters
from convgym.errors import DatasetError, InvalidConfiguration, InvalidLog
from convgym.language.act_tagger import ActTagger
from convgym.language.encoders import HashedEncoder
from convgym.language.tool_calls import parse_reply
from convgym.spaces import sanitize

pytest.importorskip("minari")

ENCODER = HashedEncoder(64)
MESSAGES = st.lists(
    st.builds(
        Message,
        st.sampled_from(("user", "assistant", "tool", "system")),
        st.text(alphabet="ab \n\0é漢{<", max_size=6),
        reward=st.none() | st.sampled_from((-1.0, 0.5, 2.0)),
        acts=st.sampled_from(((), (("x", "ask", "y", "z"),), (("tell",),))),
        tool_call=st.sampled_from((None, None, {}, {"find": {"id": "3"}})),
    ),
    max_size=9,
)
CONVERSATIONS = st.builds(
    Conversation, st.just("made"), MESSAGES.map(tuple), st.sampled_from((None, 0.25))
)


def words(*kind) -> LogEpisodes:
    """Episodes of words, of one form."""
    return LogEpisodes(LogForm(observation=kind[0], default_reward=-3.0))


def acts_of(*conversations: Conversation, **keywords) -> AgentActs:
    return fit_agent_acts(conversations, ENCODER, **keywords)


def runs(conversation: Conversation) -> tuple[list[list[Message]], list[list[Message]]]:
    """(T + 1) runs of what was read, T runs of what was replied, the slow way."""
    grouped = [(agent, list(some)) for agent, some in groupby(
        conversation.messages, key=lambda message: message.role == "assistant"
    )]  # fmt: skip
    read = [some for agent, some in grouped if not agent]
    replies = [some for agent, some in grouped if agent]
    if grouped and grouped[0][0]:
        read.insert(0, [])
    if grouped and grouped[-1][0]:
        read.append([])
    return read, replies


def rewards_of(conversation: Conversation) -> list[float] | None:
    """Of each agent turn, label by label."""
    _, replies = runs(conversation)
    rewards, turn, labelled = [0.0] * len(replies), -1, False
    for before, message in zip((None, *conversation.messages), conversation.messages, strict=False):
        turn += message.role == "assistant" and (before is None or before.role != "assistant")
        if message.reward is not None:
            rewards[max(turn, 0)] += message.reward
            labelled = True
    if labelled:
        return rewards
    return None if conversation.reward is None else [*rewards[:-1], conversation.reward]


def same(buffer, conversation: Conversation) -> bool:
    """Whether what every form has in common is as it should be."""
    turns = len(runs(conversation)[1])
    rewards = rewards_of(conversation) or [0.0] * (turns - 1) + [-3.0]
    return (
        len(buffer.observations) == turns + 1
        and len(buffer.actions) == turns
        and list(buffer.rewards) == rewards
        and buffer.terminations.tolist() == [False] * (turns - 1) + [True]
        and not buffer.truncations.any()
        and {len(column) for column in buffer.infos.values()} == {turns + 1}
        and np.isnan(buffer.infos["propensity"]).all()
        and buffer.options == {"conversation_id": conversation.conversation_id}
    )


def read_words(messages: list[Message]) -> str:
    return sanitize("\n".join(written(m) for m in messages if m.content), 8192)


def reply_words(messages: list[Message]) -> str:
    calls = {name: call for m in messages for name, call in (m.tool_call or {}).items()}
    said = "\n".join(m.content for m in messages if m.content)
    return sanitize(written(Message("assistant", said, tool_call=calls)), 4096)


# Alignment


def check_alignment(conversation: Conversation, acts: AgentActs) -> None:
    """All three forms of an episode against the runs of the conversation."""
    read, replies = runs(conversation)
    told = [reply_words(some) for some in replies]

    buffer = words("message").buffer(conversation)
    assert same(buffer, conversation)
    assert buffer.observations == [read_words(some) for some in read] and buffer.actions == told

    buffer, page = words("transcript").buffer(conversation), ""
    assert same(buffer, conversation) and buffer.actions == told
    names = {"user": "Customer", "tool": "Tool", "system": "System"}
    for turn, observation in enumerate(buffer.observations):
        if turn:
            page += f"Agent: {told[turn - 1]}\n"
        for message in read[turn]:
            page += f"{names[message.role]}: {sanitize(written(message), 8192)}\n"
        assert observation == page[:-1][-8192:]

    episodes = LogEpisodes(LogForm(messages=3, default_reward=-3.0), acts, ENCODER)
    buffer = episodes.buffer(conversation)
    assert same(buffer, conversation)
    assert buffer.infos["text"] == [read_words(some) for some in read]
    assert buffer.infos["reply"] == ["", *told]
    for turn, observation in enumerate(buffer.observations):
        heard = [buffer.infos["text"][turn]]
        if turn:
            heard += [told[turn - 1], buffer.infos["text"][turn - 1]]
        vectors = np.zeros((3, 64), dtype=np.float32)
        vectors[: len(heard)] = ENCODER.encode(heard)
        expected = np.append(vectors.ravel(), np.float32(turn / (turn + 10)))
        assert (observation == expected).all() and observation.dtype == np.float32
    assert episodes.observation_space.contains(buffer.observations[-1])
    for turn, action in enumerate(buffer.actions):
        assert episodes.action_space.contains(action)
        label = act_label(replies[turn][0])
        if len(replies[turn]) == 1 and label in acts.names:
            assert acts.names[action] == label


@settings(deadline=None, max_examples=200)
@given(CONVERSATIONS)
def test_made_conversations_are_aligned(conversation):
    if not any(conversation.said_by("assistant")):
        with pytest.raises(InvalidLog, match="no turn has the role 'assistant'"):
            words("message").buffer(conversation)
        return
    labelled = [Message("assistant", text, acts=((act,),)) for text, act in product("abc", "uv")]
    acts = acts_of(talk("x", "hi"), Conversation("y", alternating(labelled)))
    check_alignment(conversation, acts)


def alternating(replies: list[Message]) -> tuple[Message, ...]:
    """Replies, each to a word of the user."""
    return tuple(message for reply in replies for message in (Message("user", "so?"), reply))


@pytest.mark.parametrize("name", ["multiwoz", "persuasionforgood", "taskmaster_steps"])
def test_real_conversations_are_aligned(name):
    log = list(read_log(corpus(name, "dev")))[:100]
    acts = fit_agent_acts(log, ENCODER)
    for conversation in log:
        check_alignment(conversation, acts)


@settings(deadline=None)
@given(CONVERSATIONS, st.sampled_from(("message", "transcript", "features")))
def test_what_is_observed_while_talking_is_what_was_learnt_from(conversation, form):
    if not any(conversation.said_by("assistant")):
        return
    acts = acts_of(talk("x", "a:hi", "so?", "a:bye")) if form == "features" else None
    episodes = LogEpisodes(LogForm(observation=form, default_reward=0.0), acts, ENCODER)
    observations, turn = episodes.buffer(conversation).observations, 0
    for place, message in enumerate(conversation.messages):
        before = conversation.messages[place - 1].role if place else None
        if message.role == "assistant" and before != "assistant":
            said = Conversation("now", conversation.messages[:place])
            assert np.array_equal(episodes.observe(said), observations[turn])
            turn += 1


# Turns and rewards


def test_messages_in_a_row_are_one_turn_and_tool_results_are_read():
    conversation = Conversation("c", (
        Message("assistant", "Hello."),
        Message("assistant", "How can I help?"),
        Message("user", "Where is my order?"),
        Message("assistant", "Let me see.", tool_call={"find_order": {"id": "7"}}),
        Message("tool", "shipped"),
        Message("assistant", "It is on its way."),
    ), 1.0)  # fmt: skip
    buffer = words("message").buffer(conversation)
    assert buffer.observations == ["", "Where is my order?", "shipped", ""]
    call = '<tool_call>{"name": "find_order", "arguments": {"id": "7"}}</tool_call>'
    assert buffer.actions == [
        "Hello.\nHow can I help?", f"Let me see.\n{call}", "It is on its way.",
    ]  # fmt: skip
    assert buffer.rewards.tolist() == [0.0, 0.0, 1.0]
    parsed = parse_reply(buffer.actions[1])
    assert parsed.speech == "Let me see." and parsed.calls == (("find_order", {"id": "7"}),)


def test_labels_of_turns_go_before_the_reward_of_the_whole():
    said = [Message("user", "hi", reward=1.0), Message("assistant", "a", reward=2.0),
            Message("user", "b", reward=4.0), Message("assistant", "c")]  # fmt: skip
    conversation = Conversation("c", tuple(said), 9.0, {"stars": 5, "yes": True, "odd": "5"})
    for reward, expected in (
        ("auto", [7, 0]), ("turns", [7, 0]), ("conversation", [0, 9]), ("metadata.stars", [0, 5]),
        ("metadata.none", None), ("metadata.yes", [0, 1]),
    ):  # fmt: skip
        found = exchanges(conversation, reward).rewards
        assert found is None if expected is None else found.tolist() == expected
    with pytest.raises(InvalidLog, match="is no finite number"):
        exchanges(conversation, "metadata.odd")


@given(CONVERSATIONS)
def test_rewards_sum_to_the_labels(conversation):
    labels = [m.reward for m in conversation.messages if m.reward is not None]
    if any(conversation.said_by("assistant")) and labels:
        assert exchanges(conversation).rewards.sum() == sum(labels)


def test_a_log_that_was_cut_off_is_truncated():
    cut = talk("c", "hi", "a:hello", reward=0.0, metadata={"truncated": True})
    buffer = words("message").buffer(cut)
    assert buffer.truncations.tolist() == [True] and buffer.terminations.tolist() == [False]


def test_long_and_foreign_texts_are_counted():
    episodes = LogEpisodes(LogForm(observation="message", action_length=5))
    buffer = episodes.buffer(talk("c", "hi\0", "a:123456", "漢字", "a:fine", reward=0.0))
    assert buffer.observations == ["hi", "", ""] and buffer.actions == ["12345", "fine"]
    assert episodes.shortened == 3


def test_a_long_transcript_keeps_its_newest_characters():
    episodes = LogEpisodes(LogForm(observation="transcript", observation_length=16))
    buffer = episodes.buffer(talk("c", "one two", "a:three", "four", "a:x", reward=0.0))
    assert buffer.observations[1] == "e\nCustomer: four"[-16:]


# What cannot be an episode


def test_what_cannot_be_an_episode_is_counted_by_reason():
    episodes = LogEpisodes(LogForm(observation="message"))
    log = [talk("1", "hi"), talk("2", "hi", "a:ho"), talk("3\0", "hi", "a:ho", reward=1.0)]
    assert [b.options["conversation_id"] for b in episodes.buffers(
        [*log, talk("4", "hi", "a:ho", reward=1.0)]
    )] == ["4"]  # fmt: skip
    assert sorted(episodes.skipped.values()) == [1, 1, 1]
    with pytest.raises(DatasetError, match="1 because it has no reward"):
        list(LogEpisodes(LogForm(observation="message")).buffers(log))


def test_rewards_beyond_all_floats_are_no_rewards():
    """A repaired bug: two labels of 1e308 made an episode of infinite return."""
    twice = (Message("user", "hi"), *(Message("assistant", "ho", 1e308),) * 2)
    with pytest.raises(InvalidLog, match="no finite number"):
        exchanges(Conversation("1", twice))
    for value in (10**400, math.inf, math.nan, "1"):
        with pytest.raises(InvalidLog, match=r"metadata\['score'\] is no finite number"):
            exchanges(talk("1", "hi", "a:ho", metadata={"score": value}), "metadata.score")


def test_a_log_without_agent_turns_is_refused():
    with pytest.raises(DatasetError, match="no conversation has an agent turn"):
        acts_of(talk("1", "hi"), talk("2", "ho"))
    with pytest.raises(DatasetError, match="1 because no turn has the role 'assistant'"):
        list(words("message").buffers([talk("1", "hi")]))


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"observation": "words"}, "must be one of features"),
        ({"reward": "stars"}, "metadata.NAME"),
        ({"messages": 0}, "1 or more"),
        ({"default_reward": math.nan}, "finite"),
    ],
)
def test_a_wrong_form_is_one_sentence(keywords, said):
    with pytest.raises(InvalidConfiguration, match=said):
        LogForm(**keywords)


def test_features_need_acts_and_words_take_none():
    with pytest.raises(InvalidConfiguration, match="came without acts"):
        LogEpisodes(LogForm())
    acts = acts_of(talk("x", "a:hi", "so?", "a:bye"))
    with pytest.raises(InvalidConfiguration, match="came with acts"):
        LogEpisodes(LogForm(observation="message"), acts)


# Acts


def reply(text: str, *kinds: str, **keywords) -> Message:
    return Message("assistant", text, acts=tuple(("desk", k, "", "") for k in kinds), **keywords)


def test_a_label_is_all_kinds_sorted():
    assert act_label(reply("x", "request", "inform", "inform")) == "inform+request"
    assert act_label(Message("user", "x", acts=(("bye",),))) == "bye"
    assert act_label(Message("user", "x", intents=("thanks", "bye"))) == "bye+thanks"
    assert act_label(reply("x", "inform", tool_call={"find": {}})) == "call find"
    assert act_label(Message("user", "x", tool_call={})) is None


def test_rare_labels_are_other():
    labels = ["a"] * 3 + ["c"] * 2 + ["b"] * 2 + ["d"]
    assert frequent_labels(labels, 4) == ["a", "b", "c", "d"]
    assert frequent_labels(labels, 3) == ["a", "b", OTHER]
    assert frequent_labels([OTHER, OTHER, "a", "b"], 2) == [OTHER]


def test_labels_count_and_unlabelled_replies_are_tagged_like_them():
    spoken = [reply("your name please", "ask"), reply("it costs nine euros", "tell")] * 10
    acts = acts_of(Conversation("c", alternating([*spoken, reply("hm")])))
    assert acts.names == ("ask", "tell") and isinstance(acts.speech, ActTagger)
    told = [reply("your name please", "tell"), reply("your name please"), reply("nine euros")]
    assert acts.numbers([*told, reply("it costs nine", "sing")]).tolist() == [1, 0, 1, 1]


def test_replies_without_labels_fall_into_clusters_and_calls_do_not():
    texts = ["what is your name", "what is your name please", "that costs nine euros",
             "it costs nine euros"] * 5  # fmt: skip
    call = Message("assistant", "", tool_call={"find": {}})
    acts = acts_of(Conversation("c", alternating([*map(reply, texts), call])), most=2)
    assert acts.names[0] == "call find" and len(acts.names) == 3
    found = acts.numbers([*map(reply, texts), call])
    assert found[0] == found[1] != found[2] == found[3] and found[-1] == 0
    said = acts.names[found[2]].partition(": ")[2]
    assert said in texts and "nine euros" in said


def test_a_tagger_of_somebody_decides_what_speech_is():
    tagger = ActTagger.fit(["yes sure", "no never"] * 9, ["agree", "refuse"] * 9)
    log = Conversation("c", alternating([reply("yes sure", "inform"), reply("no never", "inform")]))
    acts = acts_of(log, tagger=tagger)
    assert acts.names == ("agree", "refuse")
    assert acts.numbers(list(log.said_by("assistant"))).tolist() == [0, 1]


def test_clusters_are_those_of_the_nearest_centre():
    texts = [f"{word} {n}" for word in ("order", "refund", "hello there") for n in range(20)]
    clusters = ReplyClusters.fit(texts, ENCODER, 3, seed=1)
    vectors = ENCODER.encode(texts)
    apart = [[float(((v - centre) ** 2).sum()) for centre in clusters.centres] for v in vectors]
    slow = [distances.index(min(distances)) for distances in apart]
    assert clusters.predict(texts).tolist() == slow
    assert [len(set(slow[n : n + 20])) for n in (0, 20, 40)] == [1, 1, 1] and len(set(slow)) == 3
    for number, centre in enumerate(clusters.centres):
        members = vectors[np.array(slow) == number]
        assert centre == pytest.approx(members.mean(axis=0), abs=1e-6)


def test_the_same_replies_make_the_same_acts():
    log = [talk(str(n), "hi", f"a:reply {n % 7} of {n}", "so", "a:bye") for n in range(40)]
    assert acts_of(*log).identity == acts_of(*log).identity
    assert acts_of(*log).identity != acts_of(*log, seed=1).identity


def test_replies_that_are_all_alike_make_no_acts():
    with pytest.raises(DatasetError, match="all of the agent's replies are alike"):
        acts_of(talk("c", "hi", "a:hello", "ho", "a:Hello"))


def test_saved_acts_are_the_same_ones(tmp_path):
    unlabelled = acts_of(*(talk(str(n), "hi", f"a:reply {n}") for n in range(9)))
    learnt = acts_of(Conversation("c", alternating([reply("x", "ask"), reply("y", "tell")])))
    said = [reply("reply 3"), reply("x"), reply("z", "ask"), reply("", tool_call={"q": {}})]
    for acts in (unlabelled, learnt):
        acts.save(tmp_path / "acts.npz")
        again = AgentActs.load(tmp_path / "acts.npz", ENCODER)
        assert again.identity == acts.identity and again.names == acts.names
        assert again.numbers(said).tolist() == acts.numbers(said).tolist()
    unlabelled.save(tmp_path / "acts.npz")
    with pytest.raises(InvalidConfiguration, match="clusters by the encoder 'hashed-64-0'"):
        AgentActs.load(tmp_path / "acts.npz", HashedEncoder(128))
