"""Spoiled files of every kind, and what longer searches have found, by name."""

import io
import json
import os
import random
import shutil
import subprocess
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from corruption import BOMB
from file_kinds import KINDS, Kind, kinds, quietly
from fuzz_files import good, try_file
from fuzzing import Tally

from convgym.data import hdf5_walk
from convgym.errors import ConvGymError, DatasetError, InvalidConfiguration, InvalidLog

KIND = {kind.name: kind for kind in KINDS}
SLOW_TO_MAKE = ("tuning database", "Stable-Baselines3 archive", "optimiser checkpoint",
                "domain folder", "calibration", "Minari dataset, checked")  # fmt: skip


def test_spoiled_files_are_refused_in_a_sentence_or_read_with_what_was_lost(tmp_path):
    there = [kind for kind in kinds() if kind.name not in SLOW_TO_MAKE]
    tally, rng = Tally(), random.Random(7)
    for number in range(240):
        folder = tmp_path / str(number)
        folder.mkdir()
        try_file(rng, there[number % len(there)], folder, tally)
    assert tally.done == 240 and not tally.faults, tally.examples
    assert min(tally.counts["read"], tally.counts["refused in a sentence"]) > 40


def test_what_should_not_come_is_noted(tmp_path):
    def wrong(path):
        raise KeyError("shape")

    raising = Kind("raising", "a.json", lambda path: path.write_text('{"a": 1}'), wrong)
    losing = Kind("losing", "a.json", raising.make, lambda path: "a row is gone")
    tally = Tally()
    with pytest.raises(KeyError):
        good(raising)
    with pytest.raises(AssertionError, match="loses something"):
        good(losing)
    spoilt = Kind("late", "a.json", raising.make, lambda path: json.loads(path.read_text()) and "")
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        try_file(random.Random(number), spoilt, folder, tally)
    assert any("JSONDecodeError" in fault for fault in tally.faults)


# -- found by longer searches ----------------------------------------------------------------------


def spoilt(kind, folder, change):
    """A good file of this kind, changed, or a folder with one of its files changed."""
    path = folder / KIND[kind].file
    for name, content in good(KIND[kind]).items():
        place = path / name if name else path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(change(content))
    return path


def refused(kind, path, error=ConvGymError):
    """The sentence of the reader."""
    with pytest.raises(error) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KIND[kind].read(path)
    said = str(caught.value)
    assert said and "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("kind", "error"),
    [("preferences", InvalidLog), ("stored episodes", DatasetError),
     ("recipe", InvalidConfiguration), ("phrases", InvalidConfiguration),
     ("log form", DatasetError)],
)  # fmt: skip
@pytest.mark.parametrize("inserted", [b"\xff", b"[" * 20_000, b"a = " + b"[" * 20_000], ids=len)
def test_bad_bytes_and_deep_nesting_are_a_sentence(tmp_path, kind, error, inserted):
    refused(kind, spoilt(kind, tmp_path, lambda content: inserted + content), error)


@pytest.mark.parametrize("kind", ["preferences", "stored episodes", "discrete policy", "user fit"])
def test_a_folder_or_nothing_in_place_of_a_file_is_a_sentence(tmp_path, kind):
    refused(kind, tmp_path / "nothing")
    refused(kind, tmp_path)


def test_metrics_without_the_lines_that_are_none(tmp_path):
    path = spoilt("metrics", tmp_path, lambda lines: b"\xff\n" + b"[" * 20_000 + b"\n" + lines)
    with path.open("ab") as file:
        file.write(b'{"step": []}\n{"step": 9, "lo')
    from convgym.cli.run_folder import read_metrics

    assert [row["step"] for row in read_metrics(path)] == list(range(6))


@pytest.mark.parametrize("kind", ["discrete policy", "fitted user", "policy of any learner"])
def test_a_bomb_is_not_unpacked(tmp_path, kind):
    def bomb(content):
        path = tmp_path / "packed"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("about.json", bytes(BOMB))
        return path.read_bytes()

    assert KIND[kind].file.endswith((".zip", ".npz"))
    refused(kind, spoilt(kind, tmp_path, bomb), InvalidConfiguration)


def with_page(content, change):
    """An archive with another page: what `change` makes of it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            raw = old.read(name)
            if name == "about.json":
                raw = json.dumps(change(json.loads(raw))).encode()
            new.writestr(name, raw)
    return packed.getvalue()


def without_about(content):
    """An archive whose page lacks all but its format."""
    return with_page(content, lambda about: {"format": about["format"]})


@pytest.mark.parametrize(
    "kind", ["value function", "discrete policy", "vector policy", "candidate policy"]
)
def test_an_archive_without_its_page_is_a_sentence(tmp_path, kind):
    said = refused(kind, spoilt(kind, tmp_path, without_about), InvalidConfiguration)
    assert "is no whole" in said


def test_a_state_that_names_no_files_is_a_sentence(tmp_path):
    pytest.importorskip("pyarrow", reason="the files are Arrow's")
    path = tmp_path / "saved"
    KIND["Hugging Face folder"].make(path)
    (path / "state.json").write_text('{"_data_files": [{"name": 3}]}')
    assert "state.json" in refused("Hugging Face folder", path, DatasetError)


def test_damaged_arrow_buffers_are_not_followed(tmp_path):
    """Offsets beyond the buffer made pyarrow read outside of memory."""
    pyarrow = pytest.importorskip("pyarrow", reason="the files are Arrow's")
    from convgym.data.huggingface import _Table

    offsets = pyarrow.py_buffer(np.array([0, 2**30, 1], dtype=np.int32).tobytes())
    parts = [None, offsets, pyarrow.py_buffer(b"x")]
    texts = pyarrow.Array.from_buffers(pyarrow.string(), 2, parts)
    path = tmp_path / "rows.arrow"
    batch = pyarrow.RecordBatch.from_arrays([texts], ["text"])
    table = _Table(path)
    table._arrow = lambda: iter([batch])
    with pytest.raises(ValueError):
        list(table)


@pytest.mark.parametrize("damage", ["hdf5", "json", "counts", "many"])
def test_a_damaged_minari_folder_is_a_sentence(tmp_path, damage):
    pytest.importorskip("minari", reason="the files are Minari's")
    path = tmp_path / "few-v0"
    KIND["Minari folder"].make(path)
    if damage == "hdf5":
        whole = (path / "data" / "main_data.hdf5").read_bytes()
        (path / "data" / "main_data.hdf5").write_bytes(whole[: len(whole) // 2])
    elif damage == "json":
        (path / "data" / "metadata.json").write_text('{"total_episodes": ')
    else:
        about = json.loads((path / "data" / "metadata.json").read_text())
        count = 40 if damage == "counts" else 2**40
        (path / "data" / "metadata.json").write_text(json.dumps(about | {"total_episodes": count}))
    refused("Minari folder", path, DatasetError)


def test_a_file_whose_reading_never_ends_is_a_sentence(tmp_path, monkeypatch):
    """As libhdf5 loops over some damaged files; here a pipe that nobody writes to."""
    pytest.importorskip("minari", reason="the files are Minari's")
    monkeypatch.setattr(hdf5_walk, "SILENCE", 1.0)
    path = tmp_path / "few-v0"
    KIND["Minari folder"].make(path)
    assert hdf5_walk.ends(path / "data" / "main_data.hdf5")
    (path / "data" / "main_data.hdf5").unlink()
    os.mkfifo(path / "data" / "main_data.hdf5")
    assert "cannot be read to its end" in refused("Minari folder", path, DatasetError)


def test_an_array_of_far_more_than_its_file_is_a_sentence(tmp_path):
    """As a flipped bit makes libhdf5 ask for gigabytes; here nothing but a promise of zeros."""
    pytest.importorskip("minari", reason="the files are Minari's")
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "few-v0"
    KIND["Minari folder"].make(path)
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        file.create_dataset("more", (1 << 29,), np.uint8, chunks=(1 << 20,))
    assert "times its bytes of memory" in refused("Minari folder", path, DatasetError)


@pytest.mark.parametrize(
    ("number", "value", "reason"),
    [("layers", 2**31, "promises 2147483648 layers and holds 1"), ("width", 50_000, "mismatch")],
)
def test_a_decision_transformer_of_more_than_its_weights(tmp_path, number, value, reason):
    pytest.importorskip("torch")

    def change(about):
        return about | {"architecture": about["architecture"] | {number: value}}

    path = spoilt("Decision Transformer", tmp_path, lambda whole: with_page(whole, change))
    assert reason in refused("Decision Transformer", path)


def test_a_copy_of_what_was_read_to_its_end_is_not_read_again(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    files = [tmp_path / name for name in ("one.hdf5", "two.hdf5", "other.hdf5")]
    with h5py.File(files[0], "w") as file:
        file["rows"] = np.arange(5)
    with h5py.File(files[2], "w") as file:
        file["rows"] = np.arange(6)
    shutil.copy(files[0], files[1])
    started = []
    run = subprocess.run

    def counted(command, **keywords):
        started.append(Path(command[3]).name)
        return run(command, **keywords)

    monkeypatch.setattr(hdf5_walk.subprocess, "run", counted)
    assert all(hdf5_walk.ends(path) for path in files * 2)
    assert started == ["one.hdf5", "other.hdf5"]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("word table as text", lambda whole: whole.replace(b"0.2", b"0.2" + b"[" * 30_000)),
        ("log form", lambda whole: whole.replace(b'"reward": "', b'"reward": "' + b"[" * 30_000)),
        ("log form", lambda whole: whole.replace(b'"hashed', b'"' + b"[" * 30_000)),
    ],
)
def test_what_is_wrong_is_not_told_at_full_length(tmp_path, kind, change):
    assert len(refused(kind, spoilt(kind, tmp_path, change))) < 1000


@pytest.mark.parametrize("reward", ["1" + "0" * 400, "NaN", "true", '"1"'])
def test_rewards_that_are_no_numbers_are_a_sentence(tmp_path, reward):
    def change(content):
        whole = json.loads(content.splitlines()[0]) | {"rewards": ["here"]}
        return json.dumps(whole).replace('"here"', reward).encode()

    path = spoilt("stored episodes", tmp_path, change)
    assert "finite numbers" in refused("stored episodes", path, DatasetError)


def test_numbers_beyond_all_floats_are_a_sentence(tmp_path):
    def change(whole):
        about = json.loads(whole)
        about["words"]["log_mean"] = 10**400
        return json.dumps(about).encode()

    assert "finite number" in refused("user fit", spoilt("user fit", tmp_path, change))


def test_a_name_too_long_for_a_file_is_a_sentence(tmp_path):
    said = refused("log .jsonl", tmp_path / ("x" * 5000))
    assert "File name too long" in said and len(said) < 1000


def test_a_folder_in_place_of_a_cache_is_a_sentence(tmp_path):
    KIND["embedding cache"].make(tmp_path / "cache")
    (file,) = (tmp_path / "cache").glob("*.vectors")
    file.unlink()
    file.mkdir()
    assert "Is a directory" in refused("embedding cache", tmp_path / "cache", DatasetError)


def test_a_damaged_cache_of_replies_is_a_sentence(tmp_path):
    pytest.importorskip("torch", reason="the judge needs the extra llm")
    path = spoilt("judge's replies", tmp_path, lambda content: content[:5000] + b"x" * 7000)
    refused("judge's replies", path, InvalidConfiguration)


def test_a_good_file_of_every_kind_is_read_whole():
    for kind in kinds():
        if kind.name not in SLOW_TO_MAKE:
            good(kind)
    assert quietly(len)("abc") == ""
