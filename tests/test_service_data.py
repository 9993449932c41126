"""Recorded conversations and reports over HTTP, and nothing else of the disk."""

import os
import shutil

import minari
import numpy as np
import pytest
from served import refused, service

from convgym.data.recipes import recipes_folder

TEXT, ACTS = "convgym/customer-service-text/sample-v0", "convgym/customer-service/sample-v0"


@pytest.fixture(scope="module", autouse=True)
def packaged():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(recipes_folder() / "packaged"))
        yield


def test_local_datasets_are_listed():
    with service() as served:
        found = served.get("/v1/datasets").json()["datasets"]
        assert [one["id"] for one in found] == [TEXT, ACTS]
        dataset = minari.load_dataset(TEXT)
        assert found[0]["episodes"] == dataset.total_episodes
        assert found[0]["steps"] == dataset.total_steps and found[0]["description"]


def test_what_is_no_dataset_does_not_hide_the_others(tmp_path, monkeypatch):
    """A repaired bug: one such folder made all of them unreadable."""
    shutil.copytree(recipes_folder() / "packaged" / TEXT, tmp_path / TEXT)
    for name in ("<img src=x>-v0", "no-version", os.fsdecode(b"b\xff-v0")):
        shutil.copytree(tmp_path / TEXT, tmp_path / "odd" / name)
    shutil.copytree(tmp_path / TEXT, tmp_path / "bad-v0")
    (tmp_path / "bad-v0" / "data" / "metadata.json").write_text('{"total_episodes": "x"}')
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with service() as served:
        bad, good = served.get("/v1/datasets").json()["datasets"]
        assert (bad["id"], bad["description"]) == ("bad-v0", "its metadata cannot be read")
        assert good["id"] == TEXT and good["episodes"]
        assert served.get("/v1/episodes", params={"dataset": TEXT}).status_code == 200
        assert served.get("/v1/episodes", params={"dataset": "bad-v0"}).status_code < 500


def test_an_episode_of_texts_is_shown_as_it_was_recorded():
    (recorded,) = minari.load_dataset(TEXT).iterate_episodes([3])
    with service() as served:
        shown = served.get("/v1/episode", params={"dataset": TEXT, "index": 3}).json()
    steps = shown["steps"]
    assert len(steps) == len(recorded.rewards) + 1 and "action" not in steps[0]
    assert [step["action"] for step in steps[1:]] == list(recorded.actions)
    assert [step["seen"]["message"] for step in steps] == list(recorded.observations)
    assert [step["reward"] for step in steps[1:]] == pytest.approx(list(recorded.rewards))
    assert steps[-1]["terminated"] or steps[-1]["truncated"]
    assert shown["return"] == pytest.approx(float(np.sum(recorded.rewards)))


def test_acts_are_shown_by_their_names():
    import gymnasium as gym

    import convgym  # noqa: F401

    env = gym.make("ConvGym/CustomerService-v0", observation="features", action="act")
    names = env.unwrapped.domain.actions.names
    (recorded,) = minari.load_dataset(ACTS).iterate_episodes([0])
    with service() as served:
        steps = served.get("/v1/episode", params={"dataset": ACTS, "index": 0}).json()["steps"]
    assert [step["action"] for step in steps[1:]] == [names[act] for act in recorded.actions]
    assert steps[0]["seen"] == {"numbers": recorded.observations.shape[1]}


def test_episodes_come_in_pages():
    with service() as served:
        pages = [
            served.get("/v1/episodes", params={"dataset": TEXT, "start": start, "count": 40}).json()
            for start in (0, 40, 80, 120)
        ]
    assert [len(page["episodes"]) for page in pages] == [40, 40, 20, 0]
    rows = [row for page in pages for row in page["episodes"]]
    assert [row["index"] for row in rows] == list(range(100)) and pages[0]["total"] == 100
    recorded = list(minari.load_dataset(TEXT).iterate_episodes())
    assert [row["return"] for row in rows] == pytest.approx(
        [float(sum(e.rewards)) for e in recorded]
    )
    assert [row["success"] for row in rows] == [bool(e.infos["success"][-1]) for e in recorded]
    assert all(row["task_id"].startswith("train-") for row in rows)


@pytest.mark.parametrize("name", ["", "..", "../../etc", "convgym/none-v0", "/etc/passwd", "\x00"])
def test_no_other_path_is_a_dataset(name):
    with service() as served:
        for path, more in (("/v1/episodes", {}), ("/v1/episode", {"index": 0})):
            refused(served.get(path, params={"dataset": name, **more}), 404, "no_dataset")


@pytest.mark.parametrize(
    ("given", "status"),
    [({"index": 100}, 404), ({"index": -1}, 422), ({"index": "x"}, 422), ({"index": 2**40}, 422),
     ({}, 422)],
)  # fmt: skip
def test_an_episode_that_is_not_there(given, status):
    with service() as served:
        answer = served.get("/v1/episode", params={"dataset": TEXT, **given})
        assert answer.status_code == status and answer.json()["error"]["message"]


def test_datasets_are_shown_to_this_machine_or_where_it_is_wanted():
    for settings, status in (
        ({}, 200), ({"browse": False}, 403), ({"host": "0.0.0.0"}, 403),
        ({"host": "0.0.0.0", "browse": True}, 200),
    ):  # fmt: skip
        with service(keyed=True, **settings) as served:
            for path in ("/v1/datasets", f"/v1/episodes?dataset={TEXT}",
                         f"/v1/episode?dataset={TEXT}&index=0"):  # fmt: skip
                assert served.get(path).status_code == status
            assert served.get("/v1/service").json()["browse"] is (status == 200)


# Reports


def test_reports_are_listed_and_opened_without_their_scripts(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "gap.html").write_text("<h1>Gäp</h1>", encoding="utf-8")
    (folder / ".hidden.html").write_text("no", encoding="utf-8")
    (folder / "notes.txt").write_text("no", encoding="utf-8")
    (tmp_path / "secret.html").write_text("no", encoding="utf-8")
    (folder / "link.html").symlink_to(tmp_path / "secret.html")
    with service(reports=folder) as served:
        assert [one["name"] for one in served.get("/v1/reports").json()["reports"]] == ["gap.html"]
        answer = served.get("/v1/report", params={"name": "gap.html"})
        assert answer.text == "<h1>Gäp</h1>"
        assert answer.headers["content-security-policy"].startswith("sandbox;")
        for name in ("../secret.html", "link.html", ".hidden.html", "notes.txt", "", "gap.html/.",
                     str(tmp_path / "secret.html")):  # fmt: skip
            refused(served.get("/v1/report", params={"name": name}), 404, "no_report")


def test_without_a_folder_there_are_no_reports():
    with service() as served:
        assert served.get("/v1/reports").json() == {"reports": []}
        refused(served.get("/v1/report", params={"name": "gap.html"}), 404, "no_report")
