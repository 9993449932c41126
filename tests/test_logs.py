"""Logs: every bad line is named, no other is lost, and a log written reads the same."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import SAMPLE, corpus, talk

from convgym.conversation import Conversation, Message
from convgym.data.logs import LogReport, read_log, write_log
from convgym.data.records import DEEPEST, from_record, to_record
from convgym.data.statistics import LogStatistics
from convgym.data.user_fit import fit_user
from convgym.errors import DatasetError, InvalidLog, MissingExtra

CORPORA = ("multidogo", "multiwoz", "persuasionforgood", "taskmaster_steps")


def generated_lines(count: int, seed: int) -> list[bytes]:
    chance, lines = random.Random(seed), []
    for number in range(count):
        turns = [
            {"role": chance.choice(("user", "assistant")), "content": f"wörd {chance.random()}"}
            for _ in range(chance.randint(1, 6))
        ]
        turns.append({"role": "user", "content": "bye", "turn_index": 9, "candidate": True})
        record = {
            "conversation_id": f"c{number}",
            "turns": turns,
            "reward": chance.choice((None, 1, 0.25)),
            "metadata": {"number": number},
        }
        lines.append(json.dumps(record, ensure_ascii=chance.random() < 0.5).encode())
    return lines


def save(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def changed(**fields: object) -> Callable[[bytes], bytes]:
    """The line with these fields instead; `...` removes one."""

    def change(line: bytes) -> bytes:
        record = json.loads(line) | fields
        return json.dumps({k: v for k, v in record.items() if v is not ...}).encode()

    return change


def in_turn(**fields: object) -> Callable[[bytes], bytes]:
    """The line with these fields in its last turn; `...` removes one."""

    def change(line: bytes) -> bytes:
        record = json.loads(line)
        turn = record["turns"][-1] | fields
        record["turns"][-1] = {k: v for k, v in turn.items() if v is not ...}
        return json.dumps(record).encode()

    return change


def nested(depth: int) -> dict[str, object]:
    """An object in an object, `depth` below the first."""
    found: dict[str, object] = {}
    for _ in range(depth):
        found = {"in": found}
    return found


def test_what_is_nested_two_hundred_deep_is_read():
    said = {"role": "user", "content": "hi", "tool_call": nested(DEEPEST - 2)}
    record = {"conversation_id": "1", "turns": [said], "metadata": nested(DEEPEST - 2)}
    assert from_record(record).metadata == nested(DEEPEST - 2)


DEEP = b'{"conversation_id":"deep","turns":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
FAULTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "broken json": (lambda line: line[:-3], "broken JSON at character"),
    "plain text": (lambda line: b"hello", "broken JSON"),
    "too many digits": (lambda line: b'{"reward":' + b"9" * 5000 + b"}", "too many digits"),
    "empty line": (lambda line: b"", "empty line"),
    "blanks": (lambda line: b" \t ", "empty line"),
    "list": (lambda line: b"[1, 2]", "JSON object"),
    "null": (lambda line: b"null", "JSON object"),
    "no id": (changed(conversation_id=...), "'conversation_id' is missing"),
    "id number": (changed(conversation_id=5), "conversation_id must be a text"),
    "id empty": (changed(conversation_id=""), "conversation_id must be a text"),
    "duplicate": (changed(conversation_id="c0"), "duplicate conversation_id 'c0'"),
    "no turns": (changed(turns=...), "'turns' is missing"),
    "turns object": (changed(turns={}), "turns must be a list"),
    "turns empty": (changed(turns=[]), "turns is empty"),
    "turn text": (changed(turns=["hi"]), "turn 1 must be an object"),
    "no speaker": (changed(turns=[{"role": "system", "content": "x"}]), "no turn has the role"),
    "no user": (changed(turns=[{"role": "assistant", "content": "x"}] * 2), "no turn has the role"),
    "no role": (in_turn(role=...), "no field 'role'"),
    "no content": (in_turn(content=...), "no field 'content'"),
    "content number": (in_turn(content=7), "content must be a text"),
    "content null": (in_turn(content=None), "content must be a text, not null"),
    "unknown role": (in_turn(role="agent"), "has the role 'agent'"),
    "role list": (in_turn(role=["user"]), "has the role"),
    "reward bool": (changed(reward=True), "reward must be a number or null, not true or false"),
    "reward text": (changed(reward="1"), "reward must be a number or null, not a text"),
    "reward nan": (changed(reward=math.nan), "reward is not finite (nan)"),
    "reward inf": (changed(reward=-math.inf), "reward is not finite (-inf)"),
    "reward huge": (changed(reward=10**400), "reward is not finite"),
    "turn reward nan": (in_turn(reward=math.nan), "reward is not finite"),
    "step reward text": (in_turn(step_reward="good"), "reward must be a number"),
    "acts": (in_turn(acts=[["a", 1]]), "each act must be a list of texts"),
    "intents": (in_turn(intents="greet"), "intents must be a list of texts"),
    "slots": (in_turn(slots=[["name"]]), "slots must be a list of [slot, value]"),
    "tool call": (in_turn(tool_call="find"), "tool_call must be an object"),
    "metadata list": (changed(metadata=[]), "metadata must be an object"),
    "not utf-8": (lambda line: line[:30] + b"\xff" + line[30:], "invalid UTF-8 at byte 31"),
    "raw surrogate": (lambda line: line[:-1] + b',"x":"\xed\xa0\x80"}', "invalid UTF-8"),
    "half surrogate": (in_turn(content="a\ud800b"), "half of a surrogate pair"),
    "half surrogate key": (changed(**{"x\udc00": 1}), "half of a surrogate pair"),
    "deep": (lambda line: DEEP, "nested too deeply"),
    "deep metadata": (changed(metadata=nested(200)), "nested too deeply"),
    "deep call": (in_turn(tool_call=nested(400)), "nested too deeply"),
    "huge": (lambda line: b'{"x":"' + b"y" * 400_000 + line, "longer than 300,000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_exactly_the_injected_faults_are_lost_and_each_is_named(tmp_path, seed, packed):
    chance = random.Random(seed)
    lines = generated_lines(120, seed)
    places = chance.sample(range(1, 120), len(FAULTS))
    broken = dict(zip(places, FAULTS, strict=True))
    for place, name in broken.items():
        lines[place] = FAULTS[name][0](lines[place])
    path = save(tmp_path / "log.jsonl", lines)
    if packed:
        path = tmp_path / "log.jsonl.gz"
        path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    reader = read_log(path, max_line_bytes=300_000)
    loaded = [conversation.metadata["number"] for conversation in reader]
    report = reader.report
    assert loaded == [place for place in range(120) if place not in broken]
    assert (report.lines, report.loaded, report.skipped) == (120, 120 - len(FAULTS), len(FAULTS))
    assert [fault.line for fault in report.faults] == [place + 1 for place in sorted(broken)]
    for fault in report.faults:
        expected = FAULTS[broken[fault.line - 1]][1]
        assert expected in fault.reason and "\n" not in fault.reason
        assert len(fault.excerpt) <= 80
    assert json.loads(json.dumps(report.to_dict()))["skipped"] == len(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_strict_raises_on_the_first_fault_with_file_and_line(tmp_path, name):
    lines = generated_lines(5, seed=1)
    lines[2] = FAULTS[name][0](lines[2])
    lines[3] = b"also broken"
    reader = read_log(save(tmp_path / "log.jsonl", lines), strict=True, max_line_bytes=300_000)
    with pytest.raises(InvalidLog) as caught:
        list(reader)
    assert f"{tmp_path / 'log.jsonl'}, line 3: " in str(caught.value)
    assert FAULTS[name][1] in str(caught.value)


def test_what_looks_odd_but_is_fine_is_loaded(tmp_path):
    user = '"turns":[{"role":"user","content":'
    fine = [
        f'\ufeff{{"conversation_id":"a",{user}""}}]}}\r',
        f'{{"conversation_id":"b",{user}"\u2028 \\ud83d\\ude00"}}],"x":1}}',
        f'  {{"conversation_id":"c",{user}"hi"}}],"reward":null,"metadata":null}}',
        f'{{"conversation_id":"d",{user}"\\\\ud800"}}],"reward":-3}}',
        f'{{"conversation_id":"e",{user}"x","slots":{{"size":"m"}},"acts":null}}]}}',
    ]
    fine = [line.encode() for line in fine]
    loaded = list(read_log(save(tmp_path / "log.jsonl", fine), strict=True))
    assert [conversation.conversation_id for conversation in loaded] == list("abcde")
    assert loaded[1].messages[0].content == "\u2028 😀"
    assert loaded[3].messages[0].content == "\\ud800" and loaded[3].reward == -3.0
    assert loaded[4].messages[0].slots == (("size", "m"),)


def test_blank_lines_count_but_the_newline_at_the_end_does_not(tmp_path):
    one, two = generated_lines(2, seed=0)
    path = tmp_path / "log.jsonl"
    for text, lines, loaded in [
        (one, 1, 1), (one + b"\n", 1, 1), (one + b"\n\n", 2, 1), (one + b"\n\n" + two, 3, 2),
        (b"\n", 1, 0),
    ]:  # fmt: skip
        path.write_bytes(text)
        reader = read_log(path)
        assert len(list(reader)) == loaded
        assert (reader.report.lines, reader.report.skipped) == (lines, lines - loaded)


def test_a_line_across_many_blocks_is_whole(tmp_path):
    long = talk("long", "ä" * 300_000)
    write_log(tmp_path / "log.jsonl", [long, talk("next", "hi")])
    assert list(read_log(tmp_path / "log.jsonl")) == [long, talk("next", "hi")]


def test_a_gzip_cut_anywhere_loses_only_its_tail_and_says_so(tmp_path):
    lines = generated_lines(200, seed=3)
    whole = gzip.compress(b"\n".join(lines) + b"\n")
    chance, path = random.Random(0), tmp_path / "log.jsonl.gz"
    cuts = [len(whole) - 1, len(whole) - 8, *(chance.randrange(20, len(whole)) for _ in range(40))]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        reader = read_log(path)
        loaded = [conversation.metadata["number"] for conversation in reader]
        assert loaded == list(range(len(loaded)))
        assert [fault.line for fault in reader.report.faults] == [len(loaded) + 1]
        assert "gzip data ends too early" in reader.report.faults[0].reason
        assert reader.report.lines == len(loaded) + 1
    assert reader.report.skipped == 1


def test_damaged_gzip_and_what_follows_the_end_are_named(tmp_path):
    lines = generated_lines(5000, seed=3)
    path = tmp_path / "log.jsonl.gz"
    packed = bytearray(gzip.compress(b"\n".join(lines)))
    packed[len(packed) // 2] ^= 0xFF
    for content in (bytes(packed), gzip.compress(b"\n".join(lines)) + b"rubbish"):
        path.write_bytes(content)
        reader = read_log(path)
        numbers = [conversation.metadata["number"] for conversation in reader]
        assert numbers[:1000] == list(range(1000))
        assert "gzip data is damaged" in reader.report.faults[-1].reason
        assert reader.report.loaded + reader.report.skipped == reader.report.lines


def test_several_gzip_members_read_as_one_file(tmp_path):
    lines = generated_lines(30, seed=2)
    path = tmp_path / "log.jsonl.gz"
    members = [gzip.compress(line + b"\n", mtime=0) for line in lines]
    path.write_bytes(b"".join(members) + b"\0" * 100)
    assert len(list(read_log(path, strict=True))) == 30


def test_zst_is_read_or_its_package_named(tmp_path):
    path = tmp_path / "log.jsonl.zst"
    try:
        import zstandard
    except ImportError:
        path.write_bytes(b"\x28\xb5\x2f\xfd....")
        with pytest.raises(MissingExtra, match=r"convgym\[zst\]"):
            read_log(path)
        return
    lines = generated_lines(500, seed=2)
    packed = zstandard.ZstdCompressor().compress(b"\n".join(lines[:250]) + b"\n")
    packed += zstandard.ZstdCompressor().compress(b"\n".join(lines[250:]) + b"\n")
    path.write_bytes(packed)
    assert len(list(read_log(path, strict=True))) == 500
    path.write_bytes(packed[:-20])
    reader = read_log(path)
    assert len(list(reader)) + 1 == reader.report.lines
    assert "zstandard data ends too early" in reader.report.faults[0].reason


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.jsonl", None, "there is no file"),
        ("empty.jsonl", b"", "is empty"),
        ("empty.jsonl.gz", b"", "is empty"),
        ("text.jsonl.gz", b'{"conversation_id": "a"}', "holds no gzip data"),
        ("text.jsonl.zst", b'{"conversation_id": "a"}', "holds no zstandard data"),
        ("packed.jsonl", gzip.compress(b"{}", mtime=0), "holds gzip data; name it packed.jsonl.gz"),
    ],
)
def test_a_file_that_cannot_be_a_log_is_refused_at_once(tmp_path, name, content, sentence):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError, match=re.escape(sentence)):
        read_log(tmp_path / name)


def test_a_folder_and_an_empty_gzip_are_refused(tmp_path):
    with pytest.raises(DatasetError, match="is a folder"):
        read_log(tmp_path)
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(b"", mtime=0))
    with pytest.raises(DatasetError, match="is empty"):
        list(read_log(tmp_path / "log.jsonl.gz"))


@given(st.binary(min_size=1, max_size=400), st.sampled_from(["", ".gz"]))
def test_loaded_and_skipped_make_all_lines_whatever_the_bytes(tmp_path_factory, content, suffix):
    path = tmp_path_factory.getbasetemp() / f"random.jsonl{suffix}"
    good = generated_lines(1, seed=5)[0]
    lines = good + b"\n" + content
    path.write_bytes(gzip.compress(lines, mtime=0) if suffix else lines)
    reader, count = read_log(path), 0
    for _ in reader:
        count += 1
        assert reader.report.loaded + reader.report.skipped == reader.report.lines
    report = reader.report
    assert report.loaded == count >= 1
    assert report.lines == 1 + content.count(b"\n") + (not content.endswith(b"\n"))
    assert report.loaded + report.skipped == report.lines
    assert len(report.faults) == report.skipped


@given(st.binary(min_size=1, max_size=200))
def test_random_bytes_after_a_gzip_head_never_escape_as_another_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "random_tail.jsonl.gz"
    path.write_bytes(b"\x1f\x8b" + content)
    reader = read_log(path)
    list(reader)
    assert reader.report.loaded + reader.report.skipped == reader.report.lines >= 1


def test_each_pass_starts_a_new_report_and_progress_sees_it(tmp_path):
    seen: list[int] = []
    path = save(tmp_path / "log.jsonl", [*generated_lines(2500, seed=0), b"x", b"y", b"z"])
    reader = read_log(path, progress=lambda report: seen.append(report.lines), max_faults=2)
    for _ in range(2):
        assert sum(1 for _ in reader) == 2500
        assert (reader.report.skipped, len(reader.report.faults)) == (3, 2)
    assert seen == [1000, 2000, 2503] * 2
    assert "and 1 more" in str(reader.report)
    assert isinstance(reader.report, LogReport)


def test_write_and_read_are_inverse(tmp_path):
    rich = Conversation(
        "ünï-1",
        (
            Message("system", "be kind\n\ttwice"),
            Message("user", "hi 😀", 0.1, (("hotel", "inform", "area", "north"), ("greet",))),
            Message("assistant", "", None, (), (), (), {"find": {"n": 1, "deep": [None, True]}}),
            Message("tool", '{"a": 1}', -1.5),
            Message("user", "no", None, (), ("rejection", "bye"), (("size", "m"), ("size", "l"))),
        ),
        1 / 3,
        {"domain": "shop", "nested": {"x": [1, 2.5, "ß"]}},
    )
    assert from_record(json.loads(json.dumps(to_record(rich)))) == rich
    others = list(read_log(SAMPLE, strict=True))
    path = tmp_path / "log.jsonl"
    assert write_log(path, [rich, *others]) == len(others) + 1
    assert list(read_log(path, strict=True)) == [rich, *others]
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "log.jsonl"
    write_log(path, [talk("old", "hi")])
    with pytest.raises(TypeError):
        write_log(path, [talk("new", "hi", metadata={"x": object()})])
    assert list(tmp_path.iterdir()) == [path]
    assert [c.conversation_id for c in read_log(path)] == ["old"]


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("name", CORPORA)
def test_every_line_of_the_real_logs_is_accounted_for(name, split):
    path = corpus(name, split)
    with gzip.open(path) as file:
        records = [json.loads(line) for line in file]
    reader = read_log(path)
    loaded = [conversation.conversation_id for conversation in reader]
    assert loaded == [record["conversation_id"] for record in records]
    assert (reader.report.lines, reader.report.skipped) == (len(records), 0)


def test_an_opening_that_nobody_answered_is_loaded():
    """Six of taskmaster_steps are a bot's opening and no more; each was judged."""
    opening = Conversation("1", (Message("assistant", "Hi, what can I get you?"),), 1.0)
    assert from_record(to_record(opening)) == opening
    statistics = LogStatistics.from_conversations([opening])
    assert (statistics.user_turns, statistics.assistant_turns) == (0, 1)
    assert statistics.turns.mean == 1.0 and statistics.first_turn_words is None
    fit = fit_user([opening])
    assert fit.conversations == 1 and fit.probabilities["bye"].n == 0


def test_the_sample_log_is_whole_and_varied():
    reader = read_log(SAMPLE, strict=True)
    conversations = list(reader)
    assert len(conversations) == 60 and SAMPLE.stat().st_size < 120_000
    assert all(4 <= len(conversation) <= 12 for conversation in conversations)
    assert all(0.0 <= conversation.reward <= 1.0 for conversation in conversations)
    assert len({c.messages[0].content for c in conversations}) > 30
    got = LogStatistics.from_conversations(conversations)
    assert 0.3 < got.reward.summary.mean < 0.9 and got.reward.summary.sd > 0.2
