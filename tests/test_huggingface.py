"""Hugging Face datasets: files on disk in every layout, names at the hub, and what is wrong."""

from __future__ import annotations

import datetime
import gzip
import json
import math
import sys

import pytest
from recorded import talk

from convgym.conversation import Conversation, Message
from convgym.data.conversations import ConversationDataset, ConversationStream
from convgym.data.formats import to_openai, to_sharegpt
from convgym.data.records import to_record
from convgym.errors import DatasetError, MissingExtra


@pytest.fixture
def pyarrow():
    return pytest.importorskip("pyarrow", reason="the extra [hf] is not installed")


def rows(count=30):
    """As a table holds them: every row has every field."""
    return [
        {
            "id": f"r{n}",
            "messages": [
                {"role": "user", "content": f"hi {n}", "name": None},
                {"role": "assistant", "content": "hello", "name": "bot" if n % 2 else None},
            ],
            "reward": None if n % 3 == 0 else n / 30,
            "lang": "en" if n % 2 else None,
        }
        for n in range(count)
    ]


def expected(count=30):
    return [
        Conversation(
            f"r{n}",
            (Message("user", f"hi {n}"), Message("assistant", "hello")),
            None if n % 3 == 0 else n / 30,
            {"lang": "en", "turn_fields": {"2": {"name": "bot"}}} if n % 2 else {},
        )
        for n in range(count)
    ]


def save_to_disk(pyarrow, folder, table, shards):
    """The files of `datasets.Dataset.save_to_disk`, version 5.2: streams of record batches."""
    folder.mkdir(parents=True)
    names = [f"data-{n:05}-of-{shards:05}.arrow" for n in range(shards)]
    size = -(-len(table) // shards)
    for n, name in enumerate(names):
        with pyarrow.ipc.new_stream(folder / name, table.schema) as stream:
            stream.write_table(table.slice(n * size, size), max_chunksize=7)
    files = [{"filename": name} for name in names]
    state = {"_data_files": files, "_fingerprint": "0", "_format_type": None, "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")


@pytest.mark.parametrize("kind", [ConversationDataset, ConversationStream])
def test_a_saved_dataset_reads_shard_after_shard(kind, tmp_path, pyarrow):
    save_to_disk(pyarrow, tmp_path / "saved", pyarrow.Table.from_pylist(rows()), shards=3)
    conversations = kind.from_huggingface(tmp_path / "saved", strict=True)
    assert list(conversations) == expected()
    assert [file.loaded for file in conversations.report.files] == [10, 10, 10]


def test_a_saved_dataset_dict_reads_the_split_asked_for(tmp_path, pyarrow):
    table = pyarrow.Table.from_pylist(rows())
    save_to_disk(pyarrow, tmp_path / "saved" / "train", table, shards=1)
    save_to_disk(pyarrow, tmp_path / "saved" / "test", table.slice(0, 5), shards=1)
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    read = ConversationDataset.from_huggingface
    assert list(read(tmp_path / "saved")) == expected()
    assert list(read(str(tmp_path / "saved"), split="test")) == expected(5)
    with pytest.raises(DatasetError, match="has no split 'dev'; it has train, test"):
        read(tmp_path / "saved", split="dev")


@pytest.mark.parametrize("form", ["parquet", "arrow", "indexed arrow", "jsonl", "json", "jsonl.gz"])
def test_a_file_or_a_folder_of_such_files_reads_the_same(tmp_path, pyarrow, form):
    from pyarrow import parquet

    def save(path, part):
        table = pyarrow.Table.from_pylist(part)
        if form == "parquet":
            parquet.write_table(table, path, row_group_size=4)
        elif form.endswith("arrow"):
            begin = pyarrow.ipc.new_file if form == "indexed arrow" else pyarrow.ipc.new_stream
            with begin(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=4)
        elif form == "json":
            path.write_text(json.dumps(part))
        else:
            text = "\n".join(map(json.dumps, part)).encode()
            path.write_bytes(gzip.compress(text) if form == "jsonl.gz" else text)

    suffix = form.split()[-1]
    data = tmp_path / "named" / "data"
    data.mkdir(parents=True)
    save(data / f"train-00000-of-00002.{suffix}", rows()[:20])
    save(data / f"train-00001-of-00002.{suffix}", rows()[20:])
    save(data / f"test-00000-of-00001.{suffix}", rows()[:3])
    (tmp_path / "named" / "README.md").write_text("a card")
    read = ConversationDataset.from_huggingface
    assert list(read(tmp_path / "named", strict=True)) == expected()
    assert list(read(tmp_path / "named", "test", strict=True)) == expected(3)
    assert list(read(data / f"test-00000-of-00001.{suffix}", strict=True)) == expected(3)
    with pytest.raises(DatasetError, match=r"no data file of .* names the split 'dev'; there are"):
        read(tmp_path / "named", "dev")
    (tmp_path / "nameless").mkdir()
    save(tmp_path / "nameless" / f"chats.{suffix}", rows())
    assert list(read(tmp_path / "nameless", strict=True)) == expected()
    with pytest.raises(DatasetError, match="names the split 'test'"):
        read(tmp_path / "nameless", "test")


def test_a_split_is_a_whole_word_of_the_path(tmp_path):
    for name in ("train_sft-0.jsonl", "train_gen-0.jsonl", "my_test.jsonl", "retrain.jsonl"):
        (tmp_path / name).write_text(json.dumps({**rows(1)[0], "id": name}))

    def ids(split):
        read = ConversationDataset.from_huggingface(tmp_path, split, strict=True)
        return [conversation.conversation_id for conversation in read]

    assert ids("train_sft") == ["train_sft-0.jsonl"] and ids("test") == ["my_test.jsonl"]
    assert ids("train") == ["train_gen-0.jsonl", "train_sft-0.jsonl"]


def test_faults_of_a_table_are_named_by_their_rows(tmp_path, pyarrow):
    from pyarrow import parquet

    table = rows(10)
    table[3]["messages"][0]["role"] = "narrator"
    table[6]["id"] = "r0"
    table[7]["messages"] = None
    table[8]["reward"] = math.nan
    path = tmp_path / "chats.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(table), path)
    dataset = ConversationDataset.from_huggingface(path)
    (report,) = dataset.report.files
    assert [c.conversation_id for c in dataset] == ["r0", "r1", "r2", "r4", "r5", "r9"]
    assert [(fault.line, fault.reason) for fault in report.faults] == [
        (4, "turn 1 has the role 'narrator'; allowed: user, assistant, tool, system"),
        (7, "duplicate conversation_id 'r0'; the first one is kept"),
        (8, "the record has none of the fields 'turns', 'messages', 'conversations'"),
        (9, "reward is not finite (nan)"),
    ]
    assert report.faults[0].excerpt.startswith("{'id': 'r3', 'messages': [")


def test_a_table_may_hold_any_of_the_three_formats_and_dates(tmp_path, pyarrow):
    from pyarrow import parquet

    log = [talk("1", "hi", "a:hello", reward=1.0, metadata={"shop": "x"}), talk("2", "ho")]
    for name, convert in {"own": to_record, "openai": to_openai, "sharegpt": to_sharegpt}.items():
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(pyarrow.Table.from_pylist([convert(c) for c in log]), path)
        assert list(ConversationDataset.from_huggingface(path, strict=True)) == log
    dated = {**to_openai(log[0]), "day": datetime.date(2026, 11, 2), "scores": [0.5, None]}
    parquet.write_table(pyarrow.Table.from_pylist([dated]), tmp_path / "dated.parquet")
    dataset = ConversationDataset.from_huggingface(tmp_path / "dated.parquet", strict=True)
    assert dataset[0].metadata == {"day": "2026-11-02", "scores": [0.5, None], "shop": "x"}
    dataset.to_jsonl(tmp_path / "dated.jsonl")
    assert list(ConversationDataset.from_jsonl(tmp_path / "dated.jsonl")) == list(dataset)


def test_what_is_no_table_is_refused_at_once_and_a_cut_one_keeps_its_beginning(tmp_path, pyarrow):
    for name in ("chats.parquet", "chats.arrow"):
        (tmp_path / name).write_bytes(b"no table at all")
        with pytest.raises(DatasetError, match="cannot be read as a table"):
            ConversationStream.from_huggingface(tmp_path / name)
    save_to_disk(pyarrow, tmp_path / "saved", pyarrow.Table.from_pylist(rows()), shards=1)
    (shard,) = (tmp_path / "saved").glob("*.arrow")
    shard.write_bytes(shard.read_bytes()[:-600])
    dataset = ConversationDataset.from_huggingface(tmp_path / "saved")
    (report,) = dataset.report.files
    assert list(dataset) == expected(len(dataset)) and 0 < len(dataset) < 30
    assert [fault.line for fault in report.faults] == [len(dataset) + 1]
    assert "no row can be read from here on" in report.faults[0].reason


def test_a_folder_without_data_and_a_broken_state_are_one_sentence(tmp_path):
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(DatasetError, match="holds no data file"):
        ConversationDataset.from_huggingface(tmp_path)
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(DatasetError, match=r"state\.json is not what save_to_disk writes"):
        ConversationDataset.from_huggingface(tmp_path)
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "gone.arrow"}]}')
    with pytest.raises(DatasetError, match="there is no file"):
        ConversationDataset.from_huggingface(tmp_path)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "chats.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"convgym\[hf\]"):
        ConversationDataset.from_huggingface(tmp_path / "chats.parquet")


def test_a_name_that_is_no_path_is_asked_for_at_the_hub(monkeypatch):
    """A stand-in for the package `datasets`."""

    class Hub:
        @staticmethod
        def load_dataset(name, split, streaming):
            if name != "somebody/chats":
                raise ConnectionError(f"Couldn't reach '{name}'\non the Hub")
            assert streaming
            return [row for row in rows(6) if (split == "train") == (row["id"] < "r4")]

    monkeypatch.setitem(sys.modules, "datasets", Hub)
    stream = ConversationStream.from_huggingface("somebody/chats", "test", strict=True)
    assert list(stream) == list(stream) == expected(6)[4:]
    assert str(stream.report).startswith("somebody/chats: 2 lines, 2 loaded")
    with pytest.raises(DatasetError, match=r"'nobody/chats', and the hub gives .* Couldn't"):
        ConversationDataset.from_huggingface("nobody/chats")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DatasetError, match=r"folder 'gone', .* pip install .convgym\[hf\]"):
        ConversationDataset.from_huggingface("gone")
