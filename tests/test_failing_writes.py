"""Writes that fail in the middle: what was there stays, and nothing half-written is left.

The limit on the size of files makes a real write fail, as a full disk does, after some bytes.
"""

import errno
import os
import re
import resource
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from file_kinds import KINDS, TALKS, make_stored

from convgym.cli.run_config import resolved
from convgym.cli.run_folder import RunFolder
from convgym.data.embedding_cache import EmbeddingCache
from convgym.data.log_episodes import LogEpisodes, LogForm
from convgym.data.logs import write_log
from convgym.data.packed_files import whole_file
from convgym.errors import InvalidConfiguration
from convgym.language.archive import write_archive
from convgym.language.encoders import HashedEncoder

ROOT = Path(__file__).parents[1]
KIND = {kind.name: kind for kind in KINDS}


@contextmanager
def little_room(size):
    """No file may grow beyond `size` bytes in this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_the_limit_fails_writes_in_the_middle(tmp_path):
    with pytest.raises(OSError) as failed, little_room(100):
        (tmp_path / "file").write_bytes(bytes(1000))
    assert failed.value.errno == errno.EFBIG and (tmp_path / "file").stat().st_size == 100


WRITERS = {
    "log": ("log.jsonl", lambda path: write_log(path, TALKS)),
    "packed log": ("log.jsonl.gz", lambda path: write_log(path, TALKS)),
    "arrays": (
        "words.npz",
        lambda path: write_archive(path, {"format": "a"}, {"a": np.sqrt(np.arange(999.0))}),
    ),
    "stored episodes": ("episodes.jsonl", make_stored),
    "user fit": ("fit.json", KIND["user fit"].make),
    "replay buffer": ("buffer.npz", KIND["replay buffer"].make),
    "discrete policy": ("policy.zip", KIND["discrete policy"].make),
    "tabular policy": ("policy.zip", KIND["tabular policy"].make),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_fails_leaves_what_was_there(tmp_path, name):
    file, write = WRITERS[name]
    path = tmp_path / file
    write(path)
    good = path.read_bytes()
    assert len(good) > 300
    with pytest.raises(OSError), little_room(200):
        write(path)
    assert path.read_bytes() == good
    assert [one.name for one in tmp_path.iterdir()] == [file], "something half-written is left"
    path.unlink()
    with pytest.raises(OSError), little_room(200):
        write(path)
    assert not list(tmp_path.iterdir())


def test_a_form_that_cannot_be_written_is_not_there(tmp_path):
    with pytest.raises(OSError), little_room(20):
        LogEpisodes(LogForm(observation="message"), None, HashedEncoder(64)).save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_grow_still_has_what_it_had(tmp_path):
    texts = [f"text {n}" for n in range(40)]
    encoder = HashedEncoder(64)
    cache = EmbeddingCache(tmp_path, encoder)
    cache.encode(texts[:5])
    with pytest.raises(OSError), little_room(cache.path.stat().st_size + 500):
        cache.encode(texts)
    for one in (cache, EmbeddingCache(tmp_path, encoder)):
        assert np.array_equal(one.encode(texts), encoder.encode(texts))


def begun(root, config):
    """A new run's folder."""
    return RunFolder.begin(root, "it", lambda new: new.write_config(config))


def test_a_run_that_cannot_be_kept_is_a_sentence_and_leaves_nothing(tmp_path):
    config = resolved({"algorithm": "stub"})
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidConfiguration, match="cannot be kept"):
        begun(tmp_path / "file" / "runs", config)
    with pytest.raises(InvalidConfiguration, match="cannot be kept"), little_room(100):
        begun(tmp_path / "runs", config)
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_a_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidConfiguration, match="cannot be kept"):
        begun(tmp_path / "runs", resolved({"algorithm": "stub"}))


def test_what_is_no_file_is_not_replaced_and_a_link_leads_to_its_file(tmp_path):
    """A repaired bug: with --force, /dev/null became a file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        refused = pytest.raises(FileExistsError, match="is no file, so it stays")
        with refused as raised, whole_file(tmp_path / name) as file:
            file.write(b"x")
        assert raised.value.filename == str(tmp_path / name)
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    with whole_file(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "pipe").is_fifo() and len(list(tmp_path.iterdir())) == 4
    with pytest.raises(FileNotFoundError) as raised, whole_file(tmp_path / "none" / "x"):
        pass
    assert raised.value.filename == str(tmp_path / "none" / "x")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
def test_who_is_killed_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    write_log(path, TALKS)
    good = path.read_bytes()
    child = os.fork()
    if child == 0:
        with whole_file(path) as file:
            file.write(os.urandom(1 << 20))
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert path.read_bytes() == good
    write_log(path, TALKS[:2])
    assert path.read_bytes() != good


ON_THE_WALL = {
    "convgym/data/local_root.py", "convgym/service/chat.py", "convgym/service/conversation_log.py",
    "convgym/service/line_files.py",
}  # fmt: skip
"""What asks what time it is, to note it, or to hold it against a file's."""


def test_nothing_is_timed_by_a_clock_that_may_jump_back():
    """Waiting, limits and idle times go by a clock that only goes forwards."""
    asking = {
        path.relative_to(ROOT).as_posix()
        for part in ("convgym", "trainers")
        for path in (ROOT / part).rglob("*.py")
        if re.search(r"\btime\.time\b|from time import .*\btime\b", path.read_text("utf-8"))
    }
    assert asking == ON_THE_WALL


def test_a_clock_that_jumps_back_removes_nobodys_folder(tmp_path, monkeypatch):
    pytest.importorskip("minari", reason="the root is Minari's")
    from convgym.data import local_root

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with local_root.hidden_root() as first:
        monkeypatch.setattr(local_root.time, "time", lambda: 0.0)
        local_root._sweep(tmp_path)
        assert first.is_dir()
        monkeypatch.setattr(local_root.time, "time", lambda: 1e12)  # and forwards again
        local_root._sweep(tmp_path)
        assert first.is_dir(), "its lock is held"
