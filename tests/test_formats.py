"""Chat records of other tools: what they become, what comes back, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import corpus

from convgym.conversation import Conversation, Message
from convgym.data.conversations import ConversationDataset, ConversationStream
from convgym.data.formats import (
    from_openai,
    from_sharegpt,
    parse_any,
    to_openai,
    to_sharegpt,
)
from convgym.data.logs import read_log
from convgym.data.records import to_record
from convgym.errors import DatasetError, InvalidLog

# Laws

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "{}", "[1, 2]", '{"name": "find"}', '"quoted"', "null", "NaN", "7", "call-1-1"]
)
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
messages = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool", "system"]),
    content=texts,
    reward=st.none() | finite,
    acts=st.lists(st.lists(texts, max_size=3).map(tuple), max_size=2).map(tuple),
    intents=st.lists(texts, max_size=2).map(tuple),
    slots=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    tool_call=st.none() | st.dictionaries(texts, json_values, min_size=1, max_size=2),
)
conversations = st.builds(
    Conversation,
    conversation_id=words,
    messages=st.lists(messages, max_size=4).map(lambda said: (*said, Message("user", "bye"))),
    reward=st.none() | finite,
    metadata=st.dictionaries(texts, json_values, max_size=3),
)


@settings(deadline=None)
@given(conversations)
def test_from_openai_undoes_to_openai(conversation):
    assert from_openai(json.loads(json.dumps(to_openai(conversation)))) == conversation


@settings(deadline=None)
@given(conversations)
def test_from_sharegpt_undoes_to_sharegpt(conversation):
    assert from_sharegpt(json.loads(json.dumps(to_sharegpt(conversation)))) == conversation


calls = st.builds(
    lambda number, name, arguments: {
        "id": f"id{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    },
    st.integers(0, 99),
    st.sampled_from(["find", "book"]),
    st.dictionaries(words, json_values, max_size=2),
)
openai_turns = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"]), "content": texts},
        optional={"name": words, "weight": st.integers(0, 1), "refusal": words},
    ),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": st.none() | words,
            # One call of each tool, for a tool's calls come out side by side.
            "tool_calls": st.lists(
                calls, min_size=1, max_size=2, unique_by=lambda call: call["function"]["name"]
            ),
        }
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": texts, "tool_call_id": words}),
)


@settings(deadline=None)
@given(
    st.lists(openai_turns, max_size=4),
    st.dictionaries(st.sampled_from(["tools", "weight", "parallel_tool_calls"]), words | finite),
)
def test_nothing_of_an_openai_record_is_lost(turns, others):
    record = {"id": "7", "messages": [*turns, {"role": "user", "content": "bye"}], **others}
    back = to_openai(from_openai(record))
    assert back["messages"] == record["messages"]
    assert back.get("metadata", {}) == others and back["conversation_id"] == "7"


# By hand

TURN = {"role": "user", "content": ""}


def test_an_openai_record_by_hand():
    record = {
        "messages": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Is it "},
                                         {"type": "text", "text": "late?"}], "name": "ann"},
            {"role": "assistant", "content": None, "weight": 0, "tool_calls": [
                {"id": "a", "type": "function",
                 "function": {"name": "find", "arguments": '{"order": 5}'}},
                {"id": "b", "type": "function",
                 "function": {"name": "track", "arguments": "{broken"}},
                {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "b", "content": "no"},
            {"role": "function", "name": "find", "content": "late"},
            {"role": "assistant", "content": "Yes."},
        ],
        "reward": 1,
        "tools": [{"type": "function"}],
    }  # fmt: skip
    conversation = from_openai(record)
    assert [(m.role, m.content) for m in conversation.messages] == [
        ("system", "Be kind."), ("user", "Is it late?"), ("assistant", ""), ("tool", "no"),
        ("tool", "late"), ("assistant", "Yes."),
    ]  # fmt: skip
    called = {"find": [{"order": 5}, {}], "track": "{broken"}
    assert conversation.messages[2].tool_call == called and conversation.reward == 1.0
    assert conversation.metadata == {
        "tools": [{"type": "function"}],
        "turn_fields": {
            "2": {"name": "ann"},
            "3": {"weight": 0, "tool_call_ids": ["a", "c", "b"]},
            "4": {"tool_call_id": "b"},
            "5": {"name": "find"},
        },
    }
    back = to_openai(conversation)["messages"]
    named = [(call["id"], call["function"]["name"]) for call in back[2]["tool_calls"]]
    assert named == [("a", "find"), ("c", "find"), ("b", "track")]
    # The result that names no call answers the first one still open.
    assert [turn.get("tool_call_id") for turn in back[3:5]] == ["b", "a"]


def test_calls_without_ids_get_ids_that_leave_no_trace():
    conversation = Conversation(
        "1",
        (
            Message("user", "Two tables."),
            Message("assistant", "", tool_call={"find": {"n": 1}, "book": [{}, {"n": 2}]}),
            Message("tool", "one"),
            Message("tool", "two"),
        ),
    )
    _, first, second, third = to_openai(conversation)["messages"]
    assert [call["id"] for call in first["tool_calls"]] == ["call-2-1", "call-2-2", "call-2-3"]
    assert (second["tool_call_id"], third["tool_call_id"]) == ("call-2-1", "call-2-2")
    assert from_openai(to_openai(conversation)) == conversation


def test_half_a_character_in_a_call_stays_as_it_was_written():
    """A repaired bug: it could be loaded and not be written again."""
    text = '{"a": "\\ud800"}'
    call = {"type": "function", "function": {"name": "find", "arguments": text}}
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]}]
    conversation = from_openai({"messages": messages})
    assert conversation.messages[1].tool_call == {"find": text}
    assert from_openai(to_openai(conversation)) == conversation


def test_the_old_function_call_is_a_call():
    turn = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "1"}}
    conversation = from_openai({"messages": [turn]})
    assert conversation.messages == (Message("assistant", "", tool_call={"f": 1}),)


def test_a_sharegpt_record_by_hand():
    record = {
        "id": 17,
        "system": "Be kind.",
        "conversations": [
            {"from": "system", "value": "Be brief."},
            {"from": "human", "value": "Is it late?", "lang": "en"},
            {"from": "function_call", "value": '{"name": "find", "arguments": {"order": 5}}'},
            {"from": "observation", "value": "late"},
            {"from": "function_call", "value": '[{"name": "a", "arguments": {}}, {"name": "b"}]'},
            {"from": "function_call", "value": "find the order"},
            {"from": "gpt", "value": "Yes.", "reward": 0.5},
        ],
    }
    conversation = from_sharegpt(record)
    assert conversation == Conversation(
        "17",
        (
            Message("system", "Be brief."),
            Message("user", "Is it late?"),
            Message("assistant", "", tool_call={"find": {"order": 5}}),
            Message("tool", "late"),
            Message("assistant", "", tool_call={"a": {}, "b": {}}),
            Message("assistant", "find the order"),
            Message("assistant", "Yes.", 0.5),
        ),
        None,
        {"system": "Be kind.", "turn_fields": {"2": {"lang": "en"}}},
    )
    back = to_sharegpt(conversation)["conversations"]
    assert [turn["from"] for turn in back] == [
        "system", "human", "function_call", "observation", "function_call", "gpt", "gpt",
    ]  # fmt: skip
    assert json.loads(back[2]["value"]) == {"name": "find", "arguments": {"order": 5}}


@pytest.mark.parametrize(
    ("convert", "record", "reason"),
    [
        (from_openai, [], "a record is a JSON object, this one is a list"),
        (from_openai, {}, "the field 'messages' is missing"),
        (from_openai, {"messages": None}, "the field 'messages' is missing"),
        (from_openai, {"messages": {}}, "messages must be a list, not an object"),
        (from_openai, {"messages": []}, "turns is empty"),
        (from_openai, {"messages": ["hi"]}, "turn 1 must be an object"),
        (from_openai, {"messages": [{"role": "user"}]}, "turn 1 has no field 'content'"),
        (from_openai, {"messages": [{"role": "user", "content": 5}]}, "content must be a text"),
        (from_openai, {"messages": [{"role": "bot", "content": ""}]}, "has the role 'bot'"),
        (from_openai, {"messages": [{"role": ["x"], "content": ""}]}, "has the role"),
        (
            from_openai,
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "turn 1: a part of the content is no text (image_url)",
        ),
        (from_openai, {"messages": [{"role": "user", "content": [1]}]}, "no text (a number)"),
        (from_openai, {"messages": [{"role": "user", "tool_calls": "x"}]}, "must be a list"),
        (from_openai, {"messages": [{"role": "user", "tool_calls": [1]}]}, "no function with"),
        (from_openai, {"messages": [], "metadata": 3}, "metadata must be an object"),
        (from_openai, {"messages": [], "id": [1]}, "the id must be a text or a whole number"),
        (from_openai, {"messages": [TURN], "reward": math.inf}, "reward is not finite"),
        (from_sharegpt, {"messages": []}, "the field 'conversations' is missing"),
        (from_sharegpt, {"conversations": [{"value": ""}]}, "turn 1 has no field 'from'"),
        (from_sharegpt, {"conversations": [{"from": "gpt"}]}, "turn 1 has no field 'value'"),
        (from_sharegpt, {"conversations": [{"from": "me", "value": ""}]}, "turn 1 is from 'me'"),
        (from_sharegpt, {"conversations": [{"from": "gpt", "value": 1}]}, "must be a text"),
        (parse_any, {"text": ""}, "none of the fields 'turns', 'messages', 'conversations'"),
        (parse_any, 5, "none of the fields"),
    ],
)  # fmt: skip
def test_a_faulty_record_is_one_reason(convert, record, reason):
    with pytest.raises(InvalidLog) as caught:
        convert(record)
    assert reason in str(caught.value) and "\n" not in str(caught.value)


# Files


def openai_lines(count):
    return [
        {"messages": [{"role": "user", "content": f"hi {n}"}, {"role": "assistant", "content": ""}]}
        for n in range(count)
    ]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_faults_of_an_openai_file_are_named_by_their_lines(tmp_path, suffix):
    lines = [json.dumps(record) for record in openai_lines(6)]
    lines[2] = '{"messages": [{"role": "narrator", "content": "once"}]}'
    lines[4] = '{"messages": '
    path = tmp_path / f"chats.jsonl{suffix}"
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if suffix else content)
    dataset = ConversationDataset.from_openai(path)
    (report,) = dataset.report.files
    assert [c.messages[0].content for c in dataset] == ["hi 0", "hi 1", "hi 3", "hi 5"]
    assert [fault.line for fault in report.faults] == [3, 5]
    assert "has the role 'narrator'" in report.faults[0].reason
    with pytest.raises(InvalidLog, match=r"line 3: .*narrator"):
        ConversationDataset.from_openai(path, strict=True)


def sharegpt_array(count):
    return [{"conversations": [{"from": "human", "value": f"höi {n}"}]} for n in range(count)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_an_array_reads_as_its_lines_do(tmp_path, indent, ascii_only):
    records = sharegpt_array(3000)
    lines, array = tmp_path / "lines.jsonl", tmp_path / "array.json"
    lines.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    text = json.dumps(records, indent=indent, ensure_ascii=ascii_only)
    array.write_text(f"\ufeff \n{text}\n", encoding="utf-8")
    assert array.stat().st_size > 100_000  # more than one block
    stream = ConversationStream.from_sharegpt(array, strict=True)
    assert list(stream) == list(ConversationStream.from_sharegpt(lines, strict=True))
    assert stream.report.lines == stream.report.loaded == 3000


def test_faults_of_an_array_are_named_by_their_records(tmp_path):
    records = [json.dumps(record) for record in sharegpt_array(6)]
    records[1] = '{"conversations": "none"}'
    records[3] = records[3].replace("h\\u00f6i", "\\ud800")
    path = tmp_path / "array.json"
    path.write_bytes(f"[{', '.join(records)}]".encode().replace(b"i 4", b"\xff"))
    dataset = ConversationDataset.from_sharegpt(path)
    (report,) = dataset.report.files
    assert len(dataset) == 3 and (report.lines, report.skipped) == (6, 3)
    assert [(fault.line, fault.reason) for fault in report.faults] == [
        (2, "conversations must be a list, not a text"),
        (4, "a text holds half of a surrogate pair (\\ud800 to \\udfff)"),
        (5, "a text holds invalid UTF-8"),
    ]
    assert report.faults[0].excerpt == records[1]


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("", "the array has no end; what follows is lost"),
        (', {"conversations": [}', "broken JSON at character 20: Expecting value"),
        (", {'x': 1}]", "broken JSON at character 2: Expecting property name"),
        (', {"x": "unended', "Unterminated string"),
        (" {}]", "broken JSON: '{' instead of , or ]; what follows is lost"),
        (",]", "Expecting value"),
        ("] {}", "more text follows the end of the array"),
        (", " + "[" * 100_000, "nested too deeply"),
        (", " + "9" * 5000 + "]", "too many digits"),
    ],
)
def test_an_array_that_breaks_off_loses_only_what_follows(tmp_path, ending, reason):
    path = tmp_path / "array.json"
    path.write_text(json.dumps(sharegpt_array(5))[:-1] + ending, encoding="utf-8")
    dataset = ConversationDataset.from_sharegpt(path)
    (report,) = dataset.report.files
    assert [c.messages[0].content for c in dataset] == [f"höi {n}" for n in range(5)]
    assert [fault.line for fault in report.faults] == [6] and report.lines == 6
    assert reason in report.faults[0].reason


def test_a_packed_array_that_is_cut_keeps_all_before_the_cut(tmp_path):
    packed = gzip.compress(json.dumps(sharegpt_array(4000)).encode())
    path = tmp_path / "array.json.gz"
    for cut in (len(packed) // 3, len(packed) - 1):
        path.write_bytes(packed[:cut])
        stream = ConversationStream.from_sharegpt(path)
        said = [conversation.messages[0].content for conversation in stream]
        assert said == [f"höi {n}" for n in range(len(said))] and len(said) > 500
        (report,) = stream.report.files
        assert [fault.line for fault in report.faults] == [len(said) + 1]
        assert "gzip data ends too early" in report.faults[0].reason


@given(st.binary(max_size=60), st.integers(0, 200))
def test_whatever_follows_in_an_array_is_counted(tmp_path_factory, content, place):
    path = tmp_path_factory.getbasetemp() / "random_array.json"
    whole = json.dumps(sharegpt_array(3)).encode()
    path.write_bytes(b"[" + whole[1:place] + content + whole[place:])
    stream = ConversationStream.from_sharegpt(path)
    loaded = sum(1 for _ in stream)
    report = stream.report
    assert report.lines == report.loaded + report.skipped and report.loaded == loaded
    assert len(report.files[0].faults) == report.skipped


def test_an_empty_array_is_told(tmp_path):
    path = tmp_path / "array.json"
    path.write_text(" [ ] ")
    with pytest.raises(DatasetError, match="is empty"):
        ConversationDataset.from_sharegpt(path)


# Ids


def test_the_content_names_what_has_no_id(tmp_path):
    path = tmp_path / "chats.jsonl"
    first, second = openai_lines(2)
    rewarded = {**first, "reward": 1}
    path.write_text("\n".join(map(json.dumps, [first, second, first, rewarded, first])))
    ids = [conversation.conversation_id for conversation in ConversationStream.from_openai(path)]
    base = from_openai(first).conversation_id
    assert base.startswith("content-") and len(base) == 40
    assert ids == [
        base, from_openai(second).conversation_id, f"{base}-2",
        from_openai(rewarded).conversation_id, f"{base}-3",
    ]  # fmt: skip
    assert len(set(ids)) == 5
    path.write_text("\n".join(map(json.dumps, [{**first, "id": 0}, {**second, "id": 0}])))
    stream = ConversationStream.from_openai(path)
    assert [conversation.conversation_id for conversation in stream] == ["0"]
    assert "duplicate conversation_id '0'" in stream.report.files[0].faults[0].reason


# Real logs


@pytest.mark.parametrize("name", ["taskmaster_steps", "multiwoz"])
def test_real_logs_survive_both_formats(tmp_path, name):
    conversations = list(read_log(corpus(name, "dev"), strict=True))
    assert [from_openai(to_openai(c)) for c in conversations] == conversations
    assert [from_sharegpt(to_sharegpt(c)) for c in conversations] == conversations
    path = tmp_path / "array.json"
    path.write_text(json.dumps([to_sharegpt(c) for c in conversations]), encoding="utf-8")
    dataset = ConversationDataset.from_sharegpt(path, strict=True)
    assert list(map(to_record, dataset)) == list(map(to_record, conversations))
