"""What a service writes: events, conversations, outcomes; whole lines, read back without loss."""

import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra serve")

from hypothesis import given
from hypothesis import strategies as st

from convgym.conversation import Conversation, Message
from convgym.data.conversations import ConversationDataset
from convgym.data.growing_logs import GrowingLog, conversation_files
from convgym.data.logs import read_log
from convgym.errors import InvalidConfiguration
from convgym.language.tool_calls import RawCall
from convgym.service.chats import Chats
from convgym.service.conversation_log import ConversationLog
from convgym.service.dialogue import Answer
from convgym.service.json_log import JsonLog
from convgym.service.keys import KeyRing
from convgym.service.line_files import LineFiles
from convgym.service.plays import messages_of
from convgym.service.responders import Said

ROOT = Path(__file__).parents[1]
DAY = 86_400.0


# Events


def test_a_log_line_is_json_and_a_closed_stream_is_no_matter():
    stream = io.StringIO()
    log = JsonLog(stream)
    log("request", route="/v1/reply", odd=math.inf, thing=object)
    told = json.loads(stream.getvalue())
    assert told["event"] == "request" and told["route"] == "/v1/reply"
    stream.close()
    log("again")


# Chats


class Kept:
    """Chats and the log that they end up in, with a clock of the test's own."""

    def __init__(self, folder, most=100, idle_s=900.0, keys=()):
        self.now, self.path = 0.0, folder / "talk.jsonl"
        self.log = ConversationLog(self.path, JsonLog(io.StringIO()), KeyRing(keys))
        self.chats = Chats(most, idle_s, self.log.write_chat, clock=lambda: self.now)

    def say(self, history, reply, *, ended=False, owner="me", name=None):
        """One exchange; the chat."""
        answer = reply if isinstance(reply, Answer) else Answer(reply, ended=ended)
        history = said(*history)
        chat = self.chats.of(owner, name, history)
        chat.policy = "oracle"
        self.chats.replied(chat, history, messages_of(answer), answer)
        return chat

    def close(self):
        self.chats.close_all()
        self.log.close()

    @property
    def conversations(self):
        reader = read_log(self.path)
        found = list(reader)
        assert reader.report.skipped == 0
        return found

    @property
    def words(self):
        return [[(m.role, m.content) for m in one.messages] for one in self.conversations]


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path)


def said(*contents):
    roles = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
    return [Said(roles[content[0]], content[2:]) for content in contents]


def test_a_chat_becomes_one_line_with_all_that_was_said(kept):
    kept.say(["u:Hi"], "Yes?")
    kept.say(["u:Hi", "a:Yes?", "u:Bye"], "Good day")
    assert kept.path.read_bytes() == b"" and len(kept.chats) == 1
    kept.close()
    assert kept.words == [
        [("user", "Hi"), ("assistant", "Yes?"), ("user", "Bye"), ("assistant", "Good day")]
    ]


def test_what_tools_did_stays_in_the_line_though_the_client_never_sends_it(kept):
    kept.say(["u:Hi"], Answer("Yes?", (RawCall("find", {}),), ("{}",)))
    kept.say(["u:Hi", "a:Yes?", "u:Bye"], "", ended=True)
    assert [role for role, _ in kept.words[0]] == ["user", "assistant", "tool", "assistant", "user"]


def test_other_keys_and_other_words_are_other_chats(kept):
    kept.say(["u:Hi"], "Yes?")
    kept.say(["u:Hi"], "Yes?", owner="you")
    kept.say(["u:Hi", "a:No?", "u:Bye"], "Good day")
    kept.close()
    assert len(kept.words) == 3
    assert [one.metadata["resumed"] for one in kept.conversations] == [False, False, True]


def test_two_chats_that_stand_alike_are_two_lines_with_all_of_each(kept):
    """A repaired bug: the second pushed the first out, which then was in the log twice."""
    for _ in range(2):
        kept.say(["u:Hi"], "Yes?")
    kept.say(["u:Hi", "a:Yes?", "u:one"], "1")
    kept.say(["u:Hi", "a:Yes?", "u:two"], "2")
    kept.close()
    assert sorted(words[-1] for words in kept.words) == [("assistant", "1"), ("assistant", "2")]
    assert [len(words) for words in kept.words] == [4, 4]


def test_requests_at_once_go_on_with_a_chat_each(kept):
    """A repaired bug: both went on with the same one, and one of them was in no log."""
    for _ in range(2):
        kept.say(["u:Hi"], "Yes?")
    histories = [said("u:Hi", "a:Yes?", f"u:{what}") for what in ("one", "two", "three")]
    chats = [kept.chats.of("me", None, history) for history in histories]
    assert len({chat.name for chat in chats}) == 3
    assert [chat.resumed for chat in chats] == [False, False, True]  # two stood there
    kept.chats.left(chats[1])
    assert kept.chats.of("me", None, histories[1]) is chats[1]
    for chat, history in zip(chats, histories, strict=True):
        answer = Answer("Well")
        kept.chats.replied(chat, history, messages_of(answer), answer)
    kept.close()
    assert sorted(words[2][1] for words in kept.words) == ["one", "three", "two"]


def test_a_name_tells_chats_apart_and_knows_an_edited_one_again(kept):
    kept.say(["u:Hi"], Answer("Yes?", (RawCall("find", {}),), ("{}",)), name="x")
    kept.say(["u:Hi"], "What?", name="y")
    edited = kept.say(["u:Hi", "a:Yes!", "u:Bye"], "Good day", name="x")
    assert edited.name == "x" and not edited.resumed
    kept.close()
    assert {one.metadata["conversation"] for one in kept.conversations} == {"x", "y"}
    assert kept.words[1] == [
        ("user", "Hi"), ("assistant", "Yes!"), ("user", "Bye"), ("assistant", "Good day"),
    ]  # fmt: skip


def test_a_request_sent_twice_is_in_the_line_once(kept):
    for _ in range(2):
        kept.say(["u:Hi"], "Yes?", name="x")
    kept.close()
    assert kept.words == [[("user", "Hi"), ("assistant", "Yes?")]]


def test_a_clients_greeting_is_no_sign_of_a_resumed_chat(kept):
    assert not kept.say(["a:Welcome", "u:Hi"], "Yes?").resumed
    assert kept.say(["u:Hi", "a:Yes?", "u:Bye"], "No").resumed


def test_chats_are_written_when_idle_crowded_out_or_ended(tmp_path):
    kept = Kept(tmp_path, most=2, idle_s=10.0)
    for number in range(3):
        kept.say([f"u:{number}"], "Yes?")
    assert [one[0][1] for one in kept.words] == ["0"]
    kept.say(["u:3"], "", ended=True)
    kept.now = 11.0
    kept.chats.expire()
    assert [one[0][1] for one in kept.words] == ["0", "3", "1", "2"] and len(kept.chats) == 0


def test_without_a_file_nothing_is_written():
    log = ConversationLog(None, JsonLog(io.StringIO()))
    log.write("me", Conversation("", (Message("user", "Hi"),)))
    log.write_outcome("me", "x", {"success": True})
    assert not log.on
    log.close()


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path):
    with pytest.raises(InvalidConfiguration, match="cannot be logged"):
        ConversationLog(tmp_path / "no" / "talk.jsonl", JsonLog(io.StringIO()))


# Outcomes


def test_an_outcome_closes_its_chat_and_stands_in_its_line(kept):
    kept.say(["u:Hi"], "Yes?", name="x")
    assert kept.chats.outcome("me", "x", {"reward": 0.5, "success": True})
    (line,) = kept.conversations
    assert line.reward == 0.5 and line.metadata["outcome"] == {"reward": 0.5, "success": True}
    assert not kept.chats.outcome("me", "x", {"reward": 1.0})


def test_a_success_alone_is_a_reward_of_one_or_nothing(kept):
    for name, success in (("x", True), ("y", False)):
        kept.say([f"u:{name}"], "Yes?", name=name)
        kept.chats.outcome("me", name, {"success": success})
    assert [one.reward for one in kept.conversations] == [1.0, 0.0]


def test_another_keys_chat_takes_no_outcome(kept):
    kept.say(["u:Hi"], "Yes?", name="x")
    assert not kept.chats.outcome("you", "x", {"success": True})
    assert len(kept.chats) == 1


def test_a_later_outcome_is_joined_by_who_reads(kept):
    kept.say(["u:Hi"], "", ended=True, name="x")
    log = GrowingLog(kept.path)
    (before,) = log.read()
    kept.log.write_outcome("me", "x", {"reward": 0.25})
    kept.log.write_outcome("you", "x", {"reward": 0.75})
    assert before.reward is None and log.read() == []
    assert log.joined(before).reward == 0.25 and not log.skipped
    assert GrowingLog(kept.path).read()[0].reward == 0.25


def test_outcomes_that_are_none_are_counted_and_named(kept):
    kept.say(["u:Hi"], "", ended=True, name="x")
    kept.path.with_name("talk.outcomes.jsonl").write_text(
        '{"conversation": "x", "key": "me", "success": true}\n{"conversation": "x"}\n[]\n{\n'
        '{"conversation": "x", "reward": NaN}\n'
    )
    log = GrowingLog(kept.path)
    assert log.read()[0].reward == 1.0
    assert [fault.line for report in log.reports for fault in report.faults] == [2, 3, 4, 5]


# Read back


MESSAGES = st.lists(
    st.builds(
        Message, st.sampled_from(["user", "assistant", "tool", "system"]),
        st.text(st.characters(exclude_categories=["Cs"])),
        reward=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        tool_call=st.none() | st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    ), max_size=5,
).map(lambda some: (Message("user", "Hi"), *some))  # fmt: skip


@given(st.lists(MESSAGES, min_size=1, max_size=4))
def test_whatever_is_written_is_read_back_as_it_was(tmp_path_factory, conversations):
    path = tmp_path_factory.mktemp("log") / "talk.jsonl"
    log = ConversationLog(path, JsonLog(io.StringIO()))
    for messages in conversations:
        log.write("me", Conversation("", messages, 0.5, {"source": "test"}))
    log.close()
    dataset = ConversationDataset.from_jsonl(path)
    assert [one.messages for one in dataset] == conversations
    assert dataset.report.skipped == 0 and {one.reward for one in dataset} == {0.5}
    assert list(dataset) == GrowingLog(path).read()


@given(st.text(min_size=1))
def test_any_text_makes_a_line_that_can_be_read(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("log") / "talk.jsonl"
    log = ConversationLog(path, JsonLog(io.StringIO()))
    log.write("me", Conversation("", (Message("user", text),)))
    log.close()
    (found,) = read_log(path)
    assert found.messages[0].content == text.encode("utf-8", "replace").decode()


# Keys


KEY = "a-key-of-sixteen-or-more"
QUOTED = 'a"key\\with{odd}marks'


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from([KEY, QUOTED]))
def test_a_key_that_somebody_says_is_not_in_the_log(tmp_path_factory, before, after, key):
    kept = Kept(tmp_path_factory.mktemp("log"), keys=[("a", KEY), ("b", QUOTED)])
    kept.say([f"u:{before}{key}{after}"], key, name="x")
    kept.chats.outcome("me", "x", {"success": True})
    written = kept.path.read_bytes()
    assert key.encode() not in written and json.dumps(key)[1:-1].encode() not in written
    assert kept.words[0][1] == ("assistant", "[key]")


@given(st.binary(max_size=300))
def test_what_is_no_key_is_left_alone(line):
    ring = KeyRing([("a", KEY), ("b", QUOTED)])
    assert ring.blotted(line) == line and KeyRing().blotted(line) == line


# Files


def lines_of(path):
    return path.read_bytes().splitlines()


def test_a_folder_has_a_new_file_a_day_and_when_one_is_full(tmp_path):
    now = [0.0]
    files = LineFiles(tmp_path, 30, JsonLog(io.StringIO()), clock=lambda: now[0])
    for text in (b"one is long\n", b"two is long\n", b"three is long\n", b"x" * 99 + b"\n"):
        assert files.write(text)
    now[0] = DAY
    files.write(b"tomorrow\n")
    files.close()
    again = LineFiles(tmp_path, 30, JsonLog(io.StringIO()), clock=lambda: now[0])
    again.write(b"again\n")
    assert {path.name: len(lines_of(path)) for path in conversation_files(tmp_path)} == {
        "1970-01-01-0001.jsonl": 2, "1970-01-01-0002.jsonl": 1, "1970-01-01-0003.jsonl": 1,
        "1970-01-02-0001.jsonl": 2,
    }  # fmt: skip


def test_a_folder_is_made_and_its_outcomes_stand_apart(tmp_path):
    log = ConversationLog(tmp_path / "logs", JsonLog(io.StringIO()))
    log.write("me", Conversation("", (Message("user", "Hi"),), None, {"conversation": "x"}))
    log.write_outcome("me", "x", {"success": True})
    log.close()
    assert len(list((tmp_path / "logs").iterdir())) == 2
    assert len(conversation_files(tmp_path / "logs")) == 1
    assert GrowingLog(tmp_path / "logs").read()[0].reward == 1.0


def test_only_its_owner_may_read_a_log(tmp_path):
    LineFiles(tmp_path / "talk.jsonl", 99, JsonLog(io.StringIO())).close()
    assert (tmp_path / "talk.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("tail", "left"), [(b'{"a": 1', b""), (b'{"a": 1}', b'{"a": 1}\n'), (b"\xff" * 99, b"")]
)
def test_half_a_line_of_a_killed_writer_is_cut_off(tmp_path, tail, left):
    path, stream = tmp_path / "talk.jsonl", io.StringIO()
    path.write_bytes(b'{"whole": 1}\n' + tail)
    files = LineFiles(path, 99, JsonLog(stream))
    files.write(b"{}\n")
    assert path.read_bytes() == b'{"whole": 1}\n' + left + b"{}\n"
    assert ("half_a_line" in stream.getvalue()) == (not left)


def test_a_line_that_finds_no_room_is_taken_back(tmp_path, monkeypatch):
    path, stream = tmp_path / "talk.jsonl", io.StringIO()
    files = LineFiles(path, 99, JsonLog(stream))
    files.write(b"first\n")
    real, calls = os.write, []

    def full(file, line):
        calls.append(line)
        if len(calls) == 1:
            return real(file, line[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert not files.write(b"second\n")
    monkeypatch.undo()
    assert files.write(b"third\n") and lines_of(path) == [b"first", b"third"]
    assert "line_lost" in stream.getvalue()


def test_a_killed_writer_leaves_whole_lines(tmp_path):
    """Killed at any moment, and begun again: every line can be read."""
    path = tmp_path / "talk.jsonl"
    code = (
        "import io, sys\nfrom pathlib import Path\n"
        "from convgym.conversation import Conversation, Message\n"
        "from convgym.service.conversation_log import ConversationLog\n"
        "from convgym.service.json_log import JsonLog\n"
        f"log = ConversationLog(Path({str(path)!r}), JsonLog(io.StringIO()))\n"
        "said = tuple(Message('user', 'word ' * 40_000) for _ in range(3))\n"
        "print('begun', flush=True)\n"
        "while True: log.write('me', Conversation('', said))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for wait in (0.05, 0.11):
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, cwd=tmp_path
        )
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    LineFiles(path, 99, JsonLog(io.StringIO())).close()
    reader = read_log(path)
    assert sum(1 for _ in reader) > 2 and reader.report.skipped == 0


def test_a_growing_log_gives_each_line_once_and_none_before_it_is_whole(tmp_path):
    path = tmp_path / "talk.jsonl"
    line = '{"conversation_id": "%s", "turns": [{"role": "user", "content": "x"}]}'
    path.write_text(line % "a" + "\n" + line % "b")
    log = GrowingLog(path)
    assert [one.conversation_id for one in log.read()] == ["a"] and log.read() == []
    with path.open("a") as file:
        file.write("\n{broken\n" + line % "a" + "\n" + line % "c" + "\n")
    assert [one.conversation_id for one in log.read()] == ["b", "c"]
    (report,) = log.reports
    assert (report.lines, report.loaded, report.skipped) == (5, 3, 2)
    assert [fault.line for fault in report.faults] == [3, 4]


def test_files_of_a_folder_are_read_in_the_order_of_their_time(tmp_path):
    line = '{"conversation_id": "%s", "turns": [{"role": "user", "content": "x"}], "metadata": %s}'
    for name, rows in {"a": [("a1", 1), ("a3", 3)], "b": [("b2", 2), ("b0", None)]}.items():
        about = [line % (i, json.dumps({"logged_at": t} if t else {})) for i, t in rows]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(about) + "\n")
    assert [one.conversation_id for one in GrowingLog(tmp_path).read()] == ["a1", "b2", "b0", "a3"]
