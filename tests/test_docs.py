"""`make docs`: a page for everything, which needs nothing beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("markdown_it", reason="needs the extra docs")

from convgym.data.recipes import recipe_ids
from convgym.envs.registration import ENVIRONMENTS, WRAPPED_ENVIRONMENTS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """What the command writes, and its text by place."""
    out = tmp_path_factory.mktemp("docs") / "pages"
    command = [sys.executable, str(ROOT / "scripts/build_docs.py"), "--out", str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]  # no dead link either
    return {p.relative_to(out).as_posix(): p.read_text("utf-8") for p in out.rglob("*.html")}


def test_there_is_a_page_for_everything(pages):
    ids = [name.partition("/")[2] for name in (*ENVIRONMENTS, *WRAPPED_ENVIRONMENTS)]
    assert {f"environments/{name}.html" for name in ids} <= set(pages)
    cards = {f"datasets/{name.partition('/')[2]}.html" for name in recipe_ids()}
    assert cards <= set(pages)
    modules = [*ROOT.glob("convgym/**/*.py"), *ROOT.glob("trainers/**/*.py")]
    assert sum(place.startswith("reference/") for place in pages) == len(modules)
    assert all(f'href="{place}"' in pages["index.html"] for place in pages if place != "index.html")


def test_pages_load_nothing(pages):
    for place, text in pages.items():
        assert "<script" not in text and "<link" not in text, place
        assert 'src="http' not in text and "@import" not in text, place


def test_docstrings_are_rendered_and_drawings_kept(pages):
    desk = pages["environments/CustomerService-v0.html"]
    assert '<h2 id="action-space">Action Space</h2>' in desk
    assert "<td><code>difficulty</code>" in desk
    cql = pages["reference/trainers.offline.algorithms.cql.html"]
    assert "CQLConfig(" in cql and "<code>cql_alpha: float" in cql
    home = pages["reference/convgym.html"]
    assert "Task drawn ─► reset ─► observation ─► policy" in home and "<pre>" in home
    assert "fitted_values" in pages["reference/convgym.evaluation.ope.fitted_q.html"]
