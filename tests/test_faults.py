"""Spoiled copies of real logs: exactly the spoiled lines are lost, and each is named."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from recorded import SAMPLE, corpus

from convgym.data.conversations import ConversationDataset
from convgym.data.logs import read_log
from convgym.data.packed_files import read_blocks
from convgym.errors import InvalidLog

SCRIPT = Path(__file__).parents[1] / "scripts" / "inject_faults.py"
REASONS = {
    "broken JSON": "broken JSON at character",
    "missing field": "the field 'turns' is missing",
    "wrong type": "turn 1: content must be a text, not a number",
    "duplicate id": "duplicate conversation_id",
    "non-finite reward": "reward is not finite (nan)",
    "invalid UTF-8": "invalid UTF-8 at byte",
    "empty line": "empty line",
    "unknown role": "turn 1 has the role 'narrator'",
    "half a surrogate pair": "half of a surrogate pair",
    "deep nesting": "nested too deeply",
    "no turns": "turns is empty",
    "no user turn": "no turn has the role 'user'",
}


@pytest.fixture(scope="module")
def faults():
    """The script that spoils logs."""
    spec = importlib.util.spec_from_file_location("inject_faults", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_there_are_twelve_kinds_and_a_reason_for_each(faults):
    assert list(faults.KINDS) == list(REASONS) and len(REASONS) == 12


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("name", ["multidogo", "multiwoz", "persuasionforgood", "taskmaster_steps"])
def test_of_a_real_log_exactly_the_spoiled_lines_are_lost(faults, tmp_path, name, split):
    whole = list(read_log(corpus(name, split), strict=True))
    count = min(200, len(whole) - 1)  # persuasionforgood's dev has 107 lines
    target = tmp_path / "spoiled.jsonl.gz"
    injected = faults.inject(corpus(name, split), target, count, seed=1)
    spoiled = {line for line, _ in injected}
    assert len(spoiled) == count
    dataset = ConversationDataset.from_jsonl(target)
    (report,) = dataset.report.files
    assert (report.lines, report.loaded, report.skipped) == (len(whole), len(whole) - count, count)
    assert list(dataset) == [c for line, c in enumerate(whole, 1) if line not in spoiled]
    assert [fault.line for fault in report.faults] == [line for line, _ in injected]
    for fault, (_, kind) in zip(report.faults, injected, strict=True):
        assert REASONS[kind] in fault.reason


@pytest.mark.parametrize("kind", REASONS)
def test_strict_reading_stops_at_each_kind_with_file_and_line(faults, tmp_path, kind):
    lines = SAMPLE.read_bytes().splitlines()
    first_id = json.loads(lines[0])["conversation_id"]
    lines[2] = faults.KINDS[kind](lines[2], first_id)
    path = tmp_path / "spoiled.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(InvalidLog) as caught:
        ConversationDataset.from_jsonl(path, strict=True)
    assert f"{path}, line 3: " in str(caught.value) and REASONS[kind] in str(caught.value)


def test_the_kinds_are_equally_frequent_and_the_seed_decides_all(faults, tmp_path):
    first, again, other = (tmp_path / name for name in ("1.jsonl.gz", "2.jsonl.gz", "3.jsonl.gz"))
    injected = faults.inject(SAMPLE, first, 36, seed=5)
    assert Counter(kind for _, kind in injected) == dict.fromkeys(REASONS, 3)
    assert 1 not in dict(injected)
    assert faults.inject(SAMPLE, again, 36, seed=5) == injected
    assert faults.inject(SAMPLE, other, 36, seed=6) != injected
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


def test_the_command_writes_the_copy_and_its_list(faults, tmp_path, capsys):
    target = tmp_path / "spoiled.jsonl"
    assert faults.main([str(SAMPLE), str(target), "--faults", "0"]) == 0
    assert target.read_bytes() == SAMPLE.read_bytes()
    assert faults.main([str(SAMPLE), str(target), "--faults", "24"]) == 0
    told = json.loads((tmp_path / "spoiled.jsonl.faults.json").read_text())
    assert "24 faults of 12 kinds" in capsys.readouterr().out and len(told) == 24
    before, after = SAMPLE.read_bytes().split(b"\n"), target.read_bytes().split(b"\n")
    changed = [line for line, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b]
    assert changed == [fault["line"] for fault in told]
    assert faults.main([str(SAMPLE), str(target), "--faults", "60"]) == 2
    assert "has 60 lines and 60 faults are asked for" in capsys.readouterr().err


def test_packed_and_plain_copies_hold_the_same(faults, tmp_path):
    plain, packed = tmp_path / "log.jsonl", tmp_path / "log.jsonl.gz"
    faults.inject(SAMPLE, plain, 20, seed=0)
    faults.inject(SAMPLE, packed, 20, seed=0)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert b"".join(read_blocks(packed)) == plain.read_bytes()
