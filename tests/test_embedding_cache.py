"""Vectors kept in a file: computed once, right after any kill, whoever writes beside."""

import multiprocessing
import os
import random
import signal
import sys
import time

import numpy as np
import pytest

from convgym.data import embedding_cache
from convgym.data.embedding_cache import HEAD, EmbeddingCache
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.language.encoders import HashedEncoder

ENCODER = HashedEncoder(dim=64)
TEXTS = [f"text {number} of many, with {number % 7} words more" for number in range(300)]
can_fork = pytest.mark.skipif(sys.platform == "win32", reason="kills processes that it forks")


class Counting:
    """An encoder that counts the texts that it is asked for."""

    name, dim = ENCODER.name, ENCODER.dim

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked += texts
        return ENCODER.encode(texts)


def right(cache, texts):
    return cache.encode(texts).tobytes() == ENCODER.encode(texts).tobytes()


def record_size(cache):
    return cache._record.itemsize


# -- one process -----------------------------------------------------------------------------------


def test_a_text_is_computed_once(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_cache, "_AT_ONCE", 64)
    encoder = Counting()
    cache = EmbeddingCache(tmp_path / "new" / "folder", encoder)
    assert (cache.name, cache.dim, len(cache)) == ("hashed-64-0", 64, 0)
    assert right(cache, [*TEXTS, *TEXTS[:50], "", "\ud800"])
    assert right(cache, TEXTS[::-1])
    assert cache.encode([]).shape == (0, 64)
    assert sorted(encoder.asked) == sorted([*TEXTS, "", "\ud800"])
    again = Counting()
    other = EmbeddingCache(tmp_path / "new" / "folder", again)
    assert len(other) == len(TEXTS) + 2
    assert right(other, TEXTS)
    assert not again.asked


def test_what_others_append_is_found(tmp_path):
    one, encoder = EmbeddingCache(tmp_path, ENCODER), Counting()
    two = EmbeddingCache(tmp_path, encoder)
    one.encode(TEXTS)
    assert right(two, TEXTS)
    assert not encoder.asked


def test_encoders_have_files_of_their_own(tmp_path):
    EmbeddingCache(tmp_path, ENCODER).encode(TEXTS)
    other = EmbeddingCache(tmp_path, HashedEncoder(dim=64, seed=1))
    assert len(other) == 0
    os.replace(other.path, tmp_path / "hashed-64-0.vectors")
    with pytest.raises(DatasetError, match="not the cache of the encoder 'hashed-64-0'"):
        EmbeddingCache(tmp_path, ENCODER)


def test_one_text_is_no_list_of_texts(tmp_path):
    with pytest.raises(InvalidConfiguration, match="takes a list"):
        EmbeddingCache(tmp_path, ENCODER).encode("hello")


@pytest.mark.parametrize("lost", [1, 100, 5000])
def test_an_unfinished_record_is_written_again(tmp_path, lost):
    cache = EmbeddingCache(tmp_path, ENCODER)
    cache.encode(TEXTS)
    os.truncate(cache.path, cache.path.stat().st_size - lost)
    again = EmbeddingCache(tmp_path, ENCODER)
    assert len(again) == len(TEXTS) - (lost + record_size(cache) - 1) // record_size(cache)
    assert right(again, TEXTS)
    assert (again.path.stat().st_size - HEAD) == len(TEXTS) * record_size(cache)


def test_a_head_that_was_never_finished_begins_anew(tmp_path):
    path = EmbeddingCache(tmp_path, ENCODER).path
    os.truncate(path, 100)
    assert right(EmbeddingCache(tmp_path, ENCODER), TEXTS)


def test_a_short_file_of_somebody_else_stays(tmp_path):
    path = EmbeddingCache(tmp_path, ENCODER).path
    path.write_text("my precious notes")
    with pytest.raises(DatasetError, match="which is not the cache"):
        EmbeddingCache(tmp_path, ENCODER)
    assert path.read_text() == "my precious notes"


class Odd:
    """An encoder that gives something else than it says."""

    name, dim = "odd", 4

    def __init__(self, found):
        self.found = found

    def encode(self, texts):
        return self.found


@pytest.mark.parametrize(
    "found", [np.zeros(4), np.zeros((1, 4)), np.zeros((3, 1)), np.full((3, 4), np.nan)]
)
def test_what_an_encoder_must_not_give_is_refused(tmp_path, found):
    cache = EmbeddingCache(tmp_path, Odd(found))
    with pytest.raises(InvalidConfiguration, match="the encoder 'odd' gave"):
        cache.encode(["a", "b", "c"])
    assert cache.path.stat().st_size == HEAD


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_forked_process_goes_on_with_the_cache(tmp_path):
    """A repaired bug: the lock of the parent could not be used in the child."""
    cache = EmbeddingCache(tmp_path, ENCODER)
    cache.encode(TEXTS[:1])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply(cache.encode, (["said by the child"],))
    assert np.array_equal(found, ENCODER.encode(["said by the child"]))
    assert np.array_equal(cache.encode(["said by the child"]), found)


@pytest.mark.parametrize("byte", [0, 20, 200])
def test_a_damaged_record_is_computed_again(tmp_path, byte):
    cache = EmbeddingCache(tmp_path, ENCODER)
    cache.encode(TEXTS)
    with cache.path.open("r+b") as file:
        file.seek(HEAD + 17 * record_size(cache) + byte)
        (there,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([there ^ 1]))
    again = EmbeddingCache(tmp_path, ENCODER)
    assert len(again) == len(TEXTS) - 1
    assert right(again, TEXTS)
    assert right(EmbeddingCache(tmp_path, ENCODER), TEXTS)


# -- many processes --------------------------------------------------------------------------------


def write_forever(folder, seed):
    """New texts, a few at a time, until somebody ends it."""
    cache, rng = EmbeddingCache(folder, ENCODER), random.Random(seed)
    while True:
        texts = [f"text {rng.randrange(100_000)}" for _ in range(rng.randrange(1, 400))]
        assert right(cache, texts)


def write_some(folder, seed):
    cache = EmbeddingCache(folder, ENCODER)
    texts = random.Random(seed).sample([f"text {n}" for n in range(4000)], 3000)
    for first in range(0, len(texts), 100):
        assert right(cache, texts[first : first + 100])


@can_fork
@pytest.mark.parametrize("kills", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_leave_nothing_wrong(tmp_path, kills):
    fork, rng = multiprocessing.get_context("fork"), random.Random(0)
    grown = 0
    for kill in range(kills):
        writer = fork.Process(target=write_forever, args=(tmp_path, kill))
        writer.start()
        time.sleep(rng.uniform(0.005, 0.06))
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        if kill % 10 == 9:
            cache = EmbeddingCache(tmp_path, ENCODER)
            assert len(cache) >= grown
            grown = len(cache)
            assert right(cache, [f"text {n}" for n in rng.sample(range(100_000), 200)])
    assert grown > 1000
    # Every whole record is right, and of a text of its own.
    assert len(cache) == (cache.path.stat().st_size - HEAD) // record_size(cache)


@can_fork
def test_four_writers_at_once_write_each_text_once(tmp_path):
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_some, args=(tmp_path, seed)) for seed in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    cache = EmbeddingCache(tmp_path, ENCODER)
    assert len(cache) == (cache.path.stat().st_size - HEAD) // record_size(cache)
    texts = {t for s in range(4) for t in random.Random(s).sample(range(4000), 3000)}
    assert len(cache) == len(texts)
    assert np.isfinite(cache._records["vector"]).all()
