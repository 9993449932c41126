"""Datasets from folders, web servers and Hugging Face's layout: whole and unchanged, or refused."""

import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from file_server import CERTIFICATE, serving

import convgym
from convgym.data.building import read_recipe
from convgym.data.episodes import content_hash
from convgym.data.loading import download_dataset, packaged_ids, remote_ids
from convgym.data.publishing import publish_dataset
from convgym.data.recipes import recipes_folder
from convgym.errors import DatasetError, InvalidConfiguration

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")

PACKAGED = recipes_folder() / "packaged"
ID = "convgym/customer-service-text/sample-v0"
DATA = f"{ID}/data/main_data.hdf5"


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "root"))
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("MINARI_REMOTE", raising=False)
    return tmp_path / "root"


@pytest.fixture
def published(tmp_path):
    """A remote of one's own, to spoil."""
    return shutil.copytree(PACKAGED, tmp_path / "published")


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def is_whole(dataset):
    return content_hash(dataset) == read_recipe(ID).sha256


def fetch(through, remote, monkeypatch):
    """Download by our function or by Minari's."""
    if through == "convgym":
        return download_dataset(ID, remote)
    monkeypatch.setenv("MINARI_REMOTE", remote)
    return minari.download_dataset(ID)


# Downloading


@pytest.mark.parametrize("scheme", ["file", "http", "https"])
def test_a_dataset_comes_through_our_function_and_through_minaris(scheme, monkeypatch, minari_root):
    with serving(PACKAGED, scheme.replace("file", "http")) as (address, asked):
        remote = f"file://{PACKAGED}" if scheme == "file" else address
        assert is_whole(convgym.load_dataset(ID, sources=["remote"], remote=remote))
        came = everything_in(minari_root)
        shutil.rmtree(minari_root)
        monkeypatch.setenv("MINARI_REMOTE", remote)
        minari.download_dataset(ID)
        assert is_whole(minari.load_dataset(ID))
        assert everything_in(minari_root) == came
        assert bool(asked) == (scheme != "file")
        assert minari.list_remote_datasets().keys() == set(packaged_ids())


def test_a_folder_may_be_written_in_several_ways(tmp_path, monkeypatch):
    shelf = shutil.copytree(PACKAGED, tmp_path / "my shelf")
    (shutil.copytree(PACKAGED, tmp_path / "50%20off"))
    addresses = [shelf.as_uri(), f"file://localhost{shelf}/", f"file://{tmp_path}/50%20off"]
    for address in (*addresses, "file://~/my shelf"):
        monkeypatch.setenv("HOME", str(tmp_path))
        assert remote_ids(address) == packaged_ids()
    with pytest.raises(InvalidConfiguration, match="is no address"):
        remote_ids("my shelf")


def test_a_root_that_cannot_be_written_to_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "file"))
    with pytest.raises(DatasetError, match="MINARI_DATASETS_PATH"):
        convgym.load_dataset(ID)


def test_somebody_elses_minari_root_is_a_remote_too(tmp_path, monkeypatch, minari_root):
    convgym.load_dataset(ID)
    shutil.copytree(minari_root / "convgym", minari_root / ".writing-x/convgym")
    shelf = minari_root.rename(tmp_path / "shelf")
    monkeypatch.setenv("MINARI_REMOTE", f"file://{shelf}")
    minari.download_dataset(ID)
    assert is_whole(minari.load_dataset(ID))
    assert remote_ids(f"file://{shelf}") == [ID]
    shutil.rmtree(minari_root)
    truncate(shelf)
    with pytest.raises(DatasetError, match="cannot be read"):
        minari.download_dataset(ID)
    assert everything_in(minari_root) == []


@pytest.mark.parametrize("order", ["import convgym, minari", "import minari, convgym"])
def test_a_fresh_interpreter_downloads_loads_and_plays(order, tmp_path):
    code = f"""{order}
minari.download_dataset({ID!r})
dataset = minari.load_dataset({ID!r})
for evaluating in (False, True):
    env = dataset.recover_environment(eval_env=evaluating)
    env.reset(seed=1)
    print(env.spec.kwargs["split"] if evaluating else env.unwrapped.observation_space.max_length)
"""
    with serving(PACKAGED) as (address, _):
        variables = {**os.environ, "MINARI_REMOTE": address}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path, env=variables, capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["4096", "test"]


def test_importing_convgym_brings_no_minari():
    code = "import sys, convgym; print('minari' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")


# What is refused, and leaves nothing behind


def truncate(folder):
    path = folder / DATA
    path.write_bytes(path.read_bytes()[:-1000])


def flip(folder):
    path = folder / DATA
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def edit(folder):
    """Another reward, with checksums that fit."""
    with h5py.File(folder / DATA, "r+") as file:
        file["episode_3/rewards"][0] = 0.5
    with_checksums(folder)


def cut_and_sign(folder):
    truncate(folder)
    with_checksums(folder)


def another(folder):
    """The files of another dataset under this one's name."""
    shutil.rmtree(folder / ID)
    shutil.copytree(folder / "convgym/customer-service/sample-v0", folder / ID)


def climb(folder):
    path = folder / ID / "checksums.json"
    listed = json.loads(path.read_text())
    path.write_text(json.dumps({"../../../climbed": listed.popitem()[1], **listed}))


def half_a_list(folder):
    path = folder / ID / "checksums.json"
    path.write_text(path.read_text()[:40])


def without_data(folder):
    (folder / DATA).unlink()


def with_checksums(folder):
    import hashlib

    path = folder / ID / "checksums.json"
    listed = json.loads(path.read_text())
    for name in listed:
        content = (folder / ID / name).read_bytes()
        listed[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(listed))


FAULTS = {
    truncate: "cut short or changed",
    flip: "cut short or changed",
    edit: "its recipe promises",
    cut_and_sign: "cannot be read",
    another: "called",
    climb: "lists the file",
    half_a_list: "no JSON object",
    without_data: "cannot be had",
}


@pytest.mark.parametrize("through", ["convgym", "minari"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_what_was_changed_is_refused(fault, through, published, monkeypatch, minari_root):
    fault(published)
    with serving(published) as (address, _), pytest.raises(DatasetError, match=FAULTS[fault]):
        fetch(through, address, monkeypatch)
    assert everything_in(minari_root) == []
    assert not (minari_root.parent / "climbed").exists()


@pytest.mark.parametrize("through", ["convgym", "minari"])
@pytest.mark.parametrize("cut", ["main_data.hdf5", "metadata.json", "index.json"])
def test_a_connection_that_breaks_off_is_noticed(cut, through, monkeypatch, minari_root):
    with serving(PACKAGED, cut=cut) as (address, _), pytest.raises(DatasetError):
        fetch(through, address, monkeypatch)
    assert everything_in(minari_root) == []


def test_what_was_there_before_stays_where_the_new_one_is_refused(published, monkeypatch):
    assert is_whole(download_dataset(ID, f"file://{PACKAGED}"))
    flip(published)
    monkeypatch.setenv("MINARI_REMOTE", f"file://{published}")
    with pytest.raises(DatasetError, match="cut short"):
        minari.download_dataset(ID, force_download=True)
    with pytest.raises(DatasetError, match="cut short"):
        download_dataset(ID, overwrite=True)
    with pytest.raises(DatasetError, match="exists already"):
        download_dataset(ID)
    assert is_whole(minari.load_dataset(ID))


def test_a_certificate_that_nobody_knows_is_refused(monkeypatch, tmp_path, minari_root):
    empty = tmp_path / "none.pem"
    empty.write_text("")
    monkeypatch.delenv("SSL_CERT_FILE")
    refused = pytest.raises(DatasetError, match="CERTIFICATE_VERIFY_FAILED")
    with serving(PACKAGED, "https") as (address, _), refused:
        download_dataset(ID, address)
    assert everything_in(minari_root) == []


def test_nobody_there_is_one_sentence():
    with serving(PACKAGED) as (address, _):
        pass
    with pytest.raises(DatasetError, match=r"index.json cannot be had from .*refused"):
        convgym.load_dataset(ID, sources=["remote"], remote=address)
    with pytest.raises(InvalidConfiguration, match="say where to download from"):
        download_dataset(ID)


# The sources of load_dataset


def test_the_first_source_that_has_it_decides(minari_root, published):
    with pytest.raises(DatasetError, match="in: local, remote; the ids"):
        convgym.load_dataset(ID, sources=["local", "remote"])
    assert is_whole(convgym.load_dataset(ID))  # packaged
    elsewhere = f"file://{published}"
    flip(published)
    assert is_whole(convgym.load_dataset(ID, remote=elsewhere))  # local by now
    shutil.rmtree(minari_root)
    with pytest.raises(DatasetError, match="cut short"):  # and no other source is tried
        convgym.load_dataset(ID, sources=["remote", "recipe"], remote=elsewhere)
    assert is_whole(convgym.load_dataset(ID, sources=["recipe"]))
    with pytest.raises(InvalidConfiguration, match="'magic'"):
        convgym.load_dataset(ID, sources=["magic"])
    for nonsense in ["convgym/nothing-v0", "convgym/nothing", "", "../x-v0"]:
        with pytest.raises(DatasetError, match=r"there is no dataset|is no id"):
            convgym.load_dataset(nonsense)


def test_what_is_packaged_is_what_the_recipe_makes():
    assert packaged_ids() == sorted(packaged_ids()) != []
    for dataset_id in packaged_ids():
        built = content_hash(convgym.load_dataset(dataset_id, sources=["recipe"]))
        assert built == read_recipe(dataset_id).sha256
        shutil.rmtree(Path(os.environ["MINARI_DATASETS_PATH"]))
        dataset = convgym.load_dataset(dataset_id, sources=["packaged"])
        assert content_hash(dataset) == built


# Publishing


def test_what_is_published_can_be_downloaded_and_nothing_else_is_written(tmp_path, minari_root):
    convgym.load_dataset(ID)
    remote = tmp_path / "shelf"
    publish_dataset(ID, remote)
    first = {path: path.read_bytes() for path in remote.rglob("*") if path.is_file()}
    publish_dataset(ID, f"file://{remote}")
    assert {path: path.read_bytes() for path in remote.rglob("*") if path.is_file()} == first
    assert remote_ids(f"file://{remote}") == [ID]
    shutil.rmtree(minari_root)
    assert is_whole(download_dataset(ID, f"file://{remote}"))


def test_minaris_own_upload_publishes_too(tmp_path, monkeypatch):
    convgym.load_dataset(ID)
    publish_dataset(ID, tmp_path / "shelf")
    other = "convgym/customer-service/sample-v0"
    convgym.load_dataset(other)
    monkeypatch.setenv("MINARI_REMOTE", f"file://{tmp_path / 'shelf'}")
    minari.upload_dataset(other, token=None)
    assert remote_ids(f"file://{tmp_path / 'shelf'}") == sorted([ID, other])


def test_a_published_dataset_is_not_replaced_unasked(tmp_path, published):
    convgym.load_dataset(ID)
    remote = tmp_path / "shelf"
    publish_dataset(ID, remote)
    about = remote / ID / "checksums.json"
    good = about.read_text()
    about.write_text("{}")
    with pytest.raises(DatasetError, match="other bytes; raise the version"):
        publish_dataset(ID, remote)
    publish_dataset(ID, remote, overwrite=True)
    assert about.read_text() == good
    assert not [path for path in remote.iterdir() if path.name.startswith(".publishing")]


def test_what_cannot_be_published_is_told(tmp_path, minari_root):
    with pytest.raises(DatasetError, match="build it first"):
        publish_dataset(ID, tmp_path / "shelf")
    convgym.load_dataset(ID)
    with pytest.raises(InvalidConfiguration, match="copy that onto the server"):
        publish_dataset(ID, "https://example.org/data")
    edit_local = minari_root / DATA
    with h5py.File(edit_local, "r+") as file:
        file["episode_0/rewards"][0] = 7.0
    with pytest.raises(DatasetError, match="its recipe promises"):
        publish_dataset(ID, tmp_path / "shelf")
    assert not (tmp_path / "shelf").exists()


# Hugging Face's layout


class Hub:
    """What Minari asks of `HfApi`, of a folder for each repository."""

    def __init__(self, folder):
        self.folder = folder

    def list_datasets(self, author, dataset_name=None):
        from types import SimpleNamespace

        folders = [path.name for path in self.folder.iterdir() if path.is_dir()]
        names = [dataset_name] if dataset_name else folders
        return [SimpleNamespace(id=f"{author}/{name}") for name in names]

    def hf_hub_download(self, repo_id, filename, repo_type, local_dir=None, **_):
        source = self.folder / repo_id.split("/")[1] / filename
        if local_dir is None:
            return str(source)
        target = Path(local_dir) / filename
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        return str(target)

    def snapshot_download(self, repo_id, allow_patterns, repo_type, local_dir):
        source = self.folder / repo_id.split("/")[1]
        for path in source.rglob("*"):
            if path.is_file() and fnmatch(str(path.relative_to(source)), allow_patterns):
                target = Path(local_dir) / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        return local_dir


REASONS = {None: "", edit: "its recipe promises", truncate: "cannot be", without_data: "cannot be"}


@pytest.mark.parametrize("fault", REASONS)
def test_the_folder_is_a_hugging_face_repository(fault, published, monkeypatch, minari_root):
    hub = pytest.importorskip("minari.storage.remotes.huggingface", exc_type=ImportError)
    shutil.rmtree(published / "convgym/customer-service")  # what is left has to be enough
    monkeypatch.setattr(hub, "HfApi", lambda token=None: Hub(published))
    if fault is None:
        assert is_whole(convgym.load_dataset(ID, sources=["remote"], remote="hf://convgym"))
    else:
        fault(published)
        with pytest.raises(DatasetError, match=REASONS[fault]):
            download_dataset(ID, "hf://convgym")
        assert everything_in(minari_root) == []
