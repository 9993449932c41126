"""No guide points at what is not there; scripts/check_links.py, which sees it."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("markdown_it", reason="needs the extra docs")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("check_links", ROOT / "scripts/check_links.py")
    module = sys.modules["check_links"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(folder, **files):
    """Files of a folder; __ in a name stands for the dot."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, "utf-8")
    return folder


def test_no_guide_has_a_dead_link(script):
    guides = script.guides()
    names = {path.relative_to(ROOT).as_posix() for path in guides}
    assert {"README.md", "datasets/README.md", "trainers/llm/README.md"} <= names
    assert [sentence for path in guides for sentence in script.dead(path)] == []


def test_every_guide_can_be_found_from_the_readme(script):
    """By links alone, and so that those of the package travel in the wheel."""
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        path = todo.pop()
        if path not in reached and path.suffix == ".md" and path.is_file():
            reached.add(path)
            links = (link.partition("#")[0] for link in script.document(path).links)
            todo += [(path.parent / link).resolve() for link in links if link and ":" not in link]
    cards = {path for path in script.guides() if path.parents[1] == ROOT / "datasets"}
    assert set(script.guides()) - cards - reached == {ROOT / "tests" / "data" / "replies.md"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x](there.md)", ""),
        ("[x](there.md#what-is-it)", ""),
        ("[x](#here)\n\n# Here", ""),
        ("![x](picture.svg)", ""),
        ("[x](https://example.org/nowhere) [y](mailto:a@b.c)", ""),
        ('<picture><img src="picture.svg"></picture>', ""),
        ("```\n[x](nowhere.md)\n```", ""),
        ("[x](gone.md)", "a file that is not there"),
        ("![x](gone.svg)", "a file that is not there"),
        ('<img src="gone.svg">', "a file that is not there"),
        ("[x](there.md#what)", "an anchor that is not there"),
        ("[x](#nowhere)", "an anchor that is not there"),
        ("[x](../../etc/passwd)", "out of the repository"),
        ("[x]()", "is empty"),
        ("run `scripts/gone.py --all`", "no such file"),
        ("```\npython scripts/gone.py\n```", "no such file"),
        ("run `scripts/here.py` or `scripts/*.py`", ""),
    ],
)
def test_what_is_dead_is_told(script, tmp_path, text, said):
    (tmp_path / "scripts").mkdir()
    written(tmp_path, there__md="# What *is* `it`?", picture__svg="<svg/>", page__md=text)
    written(tmp_path / "scripts", here__py="")
    found = list(script.dead(tmp_path / "page.md", tmp_path))
    assert len(found) == bool(said) and all(said in sentence for sentence in found)


def test_headings_that_are_alike_have_anchors_of_their_own(script, tmp_path):
    page = written(tmp_path, page__md="# A b\n\n# A b\n\n## `env.step(x)` & more") / "page.md"
    assert script.document(page).anchors == {"a-b", "a-b-1", "envstepx--more"}


def test_pages_are_checked_too(script, tmp_path, capsys):
    written(
        tmp_path,
        a__html='<a href="b.html#x">b</a><a href="b.html#y">b</a><h1 id="top"><a href="#top">',
        b__html='<p id="x">',
    )
    assert script.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "a.html: b.html#y leads to an anchor that is not there\n"
    assert script.main([str(tmp_path / "b.html")]) == 0
    assert script.main([str(tmp_path / "c.html")]) == 2
