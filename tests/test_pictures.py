"""The pictures in documents are what the present engine says; scripts/draw_pictures.py."""

import importlib.util
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "scripts/pictures/conversation.svg"
MOST_BYTES = 100_000


@pytest.fixture(scope="module")
def script():
    path = ROOT / "scripts/draw_pictures.py"
    spec = importlib.util.spec_from_file_location("draw_pictures", path)
    module = sys.modules["draw_pictures"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rollout(script):
    return script.episode()


def test_the_committed_picture_is_the_episode_as_it_is_played_now(script, rollout):
    """Where this fails, words or rewards moved: draw it again, and see what raises -vN."""
    assert PICTURE.read_text("utf-8") == script.conversation_svg(rollout)


def test_all_that_was_said_and_earned_is_on_it(script, rollout):
    drawn = list(script.rows(rollout))
    words = " ".join(" ".join(row.lines) for row in drawn if row.speaker == "customer")
    said = [observation["message"] for observation in rollout.observations]
    assert words == " ".join(filter(None, said))
    assert sum(row.reward or 0 for row in drawn) == pytest.approx(rollout.return_) == 1.0
    assert sum(row.reward is not None for row in drawn) == rollout.length
    calls = [row.lines[0].partition("(")[0] for row in drawn if row.speaker == "tool"]
    assert calls == ["find_customer", "get_order", "create_return"]


def test_it_is_small_whole_and_for_light_and_dark(script):
    text = PICTURE.read_text("utf-8")
    tree = ElementTree.fromstring(text)
    assert len(text.encode()) < MOST_BYTES and "http" not in text.partition(">")[2]
    assert "prefers-color-scheme:dark" in text and tree.get("aria-label")
    width, height = map(int, tree.get("viewBox").split()[2:])
    for line in tree.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 < float(line.get("x")) < width and 0 < float(line.get("y")) < height
    assert script._COLOURS["light"].keys() == script._COLOURS["dark"].keys()


def test_it_is_the_first_thing_in_the_readme():
    head = (ROOT / "README.md").read_text("utf-8").partition("## ")[0]
    assert "(scripts/pictures/conversation.svg)" in head
