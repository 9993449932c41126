"""Datasets of logs that grow: what was there stays, whole parts or none, whoever is killed when."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from recorded import talk

from convgym.data.episodes import content_hash
from convgym.data.log_datasets import PARTS, THERE, append_log, import_log, verify
from convgym.data.log_episodes import LogEpisodes, LogForm
from convgym.data.logs import read_log, write_log
from convgym.data.transitions import read_episodes
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.language.encoders import HashedEncoder

minari = pytest.importorskip("minari")

ROOT = Path(__file__).parents[1]
ID = "logs/days-v0"
REPLIES = ("what is your name?", "it costs nine euros", "goodbye", "the parcel is on its way")


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def conversation(number: int):
    said = [f"a:{REPLIES[(number + n) % 4]}" for n in range(1 + number % 3)]
    turns = [text for n, reply in enumerate(said) for text in (f"word {number} {n}", reply)]
    return talk(f"c{number}", *turns, reward=float(number % 2))


def log(folder: Path, name: str, numbers) -> Path:
    path = folder / f"{name}.jsonl.gz"
    write_log(path, map(conversation, numbers))
    return path


@pytest.fixture
def monday(tmp_path) -> Path:
    return log(tmp_path, "monday", range(20))


@pytest.fixture
def tuesday(tmp_path) -> Path:
    return log(tmp_path, "tuesday", range(20, 35))


def first_episodes(count: int) -> str:
    dataset = minari.load_dataset(ID)
    return content_hash(minari.MinariDataset(dataset.storage, episode_indices=np.arange(count)))


# Growing


@pytest.mark.parametrize("form", ["features", "message", "transcript"])
def test_what_is_on_the_disk_is_what_was_made(monday, form):
    imported = import_log(ID, monday, LogForm(observation=form))
    episodes = LogEpisodes.load(imported.dataset.storage.data_path)
    buffers = list(episodes.buffers(read_log(monday)))
    assert imported.part["content"] == content_hash(imported.dataset) == content_hash(buffers)
    assert imported.dataset.observation_space == episodes.observation_space
    assert imported.dataset.action_space == episodes.action_space
    assert imported.part | {"content": "", "sha256": ""} == {
        "source": "monday.jsonl.gz", "episodes": 20, "steps": sum(1 + n % 3 for n in range(20)),
        "content": "", "sha256": "",
    }  # fmt: skip
    assert imported.report.loaded == 20 and imported.skipped == {} and imported.shortened == 0


def test_an_append_leaves_what_was_there(monday, tuesday):
    before = import_log(ID, monday)
    appended = append_log(ID, tuesday)
    dataset = minari.load_dataset(ID)
    assert dataset.total_episodes == appended.dataset.total_episodes == 35
    assert dataset.total_steps == before.part["steps"] + appended.part["steps"]
    assert first_episodes(20) == before.part["content"]
    assert verify(ID) == [before.part, appended.part] == dataset.storage.metadata[PARTS]
    notes = dataset.storage.get_episode_metadata(range(35))
    assert [note["options"]["conversation_id"] for note in notes] == [f"c{n}" for n in range(35)]
    assert len(read_episodes(dataset)) == 35


def test_appended_logs_are_read_with_the_acts_of_the_first(monday, tuesday):
    import_log(ID, monday)
    place = Path(minari.load_dataset(ID).storage.data_path)
    acts = (place / "agent_acts.npz").read_bytes()
    append_log(ID, tuesday)
    assert (place / "agent_acts.npz").read_bytes() == acts
    episodes = LogEpisodes.load(place)
    alone = list(episodes.buffers(read_log(tuesday)))
    assert verify(ID)[1]["content"] == content_hash(alone)


def test_an_append_is_the_same_whether_others_came_before(monday, tuesday, tmp_path):
    import_log(ID, monday)
    append_log(ID, log(tmp_path, "wednesday", range(35, 40)))
    assert append_log(ID, tuesday).part["content"] == import_and_append(monday, tuesday)


def import_and_append(one: Path, other: Path) -> str:
    import_log("logs/else-v0", one)
    return append_log("logs/else-v0", other).part["content"]


# What is there already


def test_the_same_log_twice_is_refused(monday, tuesday, tmp_path):
    import_log(ID, monday)
    append_log(ID, tuesday)
    copied = tmp_path / "copied.jsonl.gz"
    copied.write_bytes(monday.read_bytes())
    for path, part in ((copied, 1), (tuesday, 2)):
        with pytest.raises(DatasetError, match=f"already, as part {part}"):
            append_log(ID, path)
    assert len(verify(ID)) == 2


def test_conversations_that_are_there_are_skipped_and_counted(monday, tmp_path):
    import_log(ID, monday)
    appended = append_log(ID, log(tmp_path, "longer", range(15, 30)))
    assert appended.skipped == {THERE: 5} and appended.part["episodes"] == 10
    with pytest.raises(DatasetError, match="10 because conversation is in the dataset already"):
        append_log(ID, log(tmp_path, "old", range(10)))
    assert len(verify(ID)) == 2


def test_a_taken_id_is_refused_and_can_be_overwritten(monday, tuesday):
    import_log(ID, monday)
    with pytest.raises(DatasetError, match="exists already"):
        import_log(ID, tuesday)
    import_log(ID, tuesday, overwrite=True)
    assert [part["source"] for part in verify(ID)] == ["tuesday.jsonl.gz"]


# Faults


def test_a_changed_episode_is_found(monday, tuesday):
    import_log(ID, monday)
    append_log(ID, tuesday)
    h5py = pytest.importorskip("h5py")
    path = Path(minari.load_dataset(ID).storage.data_path) / "main_data.hdf5"
    with h5py.File(path, "r+") as file:
        file["episode_29/observations"][0, 0] += 1.0
    with pytest.raises(DatasetError, match=r"episodes of 'tuesday.jsonl.gz' .* were changed"):
        verify(ID)


def test_episodes_from_elsewhere_are_found(monday):
    dataset = import_log(ID, monday).dataset
    dataset.storage.update_episodes(list(LogEpisodes.load(dataset.storage.data_path).buffers(
        [conversation(99)]
    )))  # fmt: skip
    with pytest.raises(DatasetError, match="has 21 episodes, but its logs brought 20"):
        verify(ID)


def test_only_datasets_of_logs_grow(monday, tuesday):
    with pytest.raises(DatasetError, match="there is no dataset 'logs/days-v0'"):
        append_log(ID, tuesday)
    dataset = import_log(ID, monday).dataset
    dataset.storage.update_metadata({PARTS: None})
    with pytest.raises(DatasetError, match="was not made of logs"):
        append_log(ID, tuesday)


def test_another_encoder_is_refused(monday, tuesday):
    class Capitals:
        name, dim = "capitals", 64

        def encode(self, texts):
            return HashedEncoder(64).encode([text.upper() for text in texts])

    import_log(ID, monday, encoder=Capitals())
    for encoder in (None, HashedEncoder(64)):
        with pytest.raises(InvalidConfiguration, match="with the encoder 'capitals'"):
            append_log(ID, tuesday, encoder=encoder)
    assert append_log(ID, tuesday, encoder=Capitals()).part["episodes"] == 15


# Kills and company


KILLED = """
import os, signal, sys
from convgym.data import log_datasets
point, calls, replace = int(sys.argv[3]), 0, os.replace
def killed(*paths):
    global calls
    calls += 1
    if calls > point:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)
os.replace = killed
log_datasets.append_log(sys.argv[1], sys.argv[2])
"""


@pytest.mark.parametrize("replaced", [0, 1], ids=["all is aside", "episodes are in place"])
def test_a_killed_append_leaves_whole_parts(monday, tuesday, tmp_path, replaced):
    part = import_log(ID, monday).part
    command = [sys.executable, "-c", KILLED, ID, str(tuesday), str(replaced)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == -9
    assert verify(ID) == [part] and minari.load_dataset(ID).total_episodes == 20
    assert list(minari.list_local_datasets()) == [ID]
    wednesday = log(tmp_path, "wednesday", range(35, 40))
    append_log(ID, wednesday)
    append_log(ID, tuesday)
    assert [one["episodes"] for one in verify(ID)] == [20, 5, 15]
    assert minari.load_dataset(ID).total_episodes == 40
    leftovers = Path(minari.load_dataset(ID).storage.data_path).parent.iterdir()
    assert [path.name for path in leftovers] == ["data"]


def test_a_failed_append_changes_nothing(monday, tuesday, monkeypatch):
    part = import_log(ID, monday).part
    buffer, made = LogEpisodes.buffer, []

    def failing(self, one):
        made.append(one)
        if len(made) == 9:
            raise OSError("no space left")
        return buffer(self, one)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space left"):
        patch.setattr(LogEpisodes, "buffer", failing)
        append_log(ID, tuesday)
    assert verify(ID) == [part]


def test_a_log_that_grows_while_it_is_read_is_refused(monday, tuesday, monkeypatch):
    part, buffer = import_log(ID, monday).part, LogEpisodes.buffer

    def growing(self, one):
        with tuesday.open("ab") as file:
            file.write(b"more")
        return buffer(self, one)

    with monkeypatch.context() as patch, pytest.raises(DatasetError, match="while it was read"):
        patch.setattr(LogEpisodes, "buffer", growing)
        append_log(ID, tuesday)
    assert verify(ID) == [part]


def test_appends_side_by_side_wait_for_each_other(monday, tmp_path):
    import_log(ID, monday)
    logs = [log(tmp_path, f"log {n}", range(20 + 5 * n, 25 + 5 * n)) for n in range(4)]
    threads = [threading.Thread(target=append_log, args=(ID, path)) for path in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(part["source"] for part in verify(ID)[1:]) == [path.name for path in logs]
    assert minari.load_dataset(ID).total_episodes == 40
