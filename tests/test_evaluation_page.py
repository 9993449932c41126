"""Assessments, learning curves and ladders as pages: what is drawn is what was measured."""

import re

import pytest
from coins import ID, CoinPolicy
from typer.testing import CliRunner

pytest.importorskip("matplotlib", reason="pictures need the extra report")

from convgym.cli.evaluation import _learning
from convgym.cli.main import app
from convgym.cli.run_folder import RunFolder
from convgym.evaluation.assessment import assess
from convgym.evaluation.assessment_page import (
    pass_figure,
    personas_figure,
    traits_figure,
    write_assessment,
)
from convgym.evaluation.assessment_tables import tables
from convgym.evaluation.evaluate import Evaluation
from convgym.evaluation.intervals import wilson
from convgym.evaluation.repeated import Plan
from convgym.evaluation.report import curves_svg, ladder_svg

EVALUATE = ("evaluate", "--policy", "keyword", "--users", "2", "--personas", "busy_professional")


@pytest.fixture(scope="module")
def found():
    plan = Plan(env_id=ID, tasks=40, users=3, agents=2)
    return assess(CoinPolicy(), plan, personas=("patient_expert", "frustrated_novice"))


def dots(figure):
    """(x, y) of every dot, as drawn."""
    lines = figure.axes[0].lines
    return [(x, y) for line in lines if line.get_marker() == "o"
            for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]  # fmt: skip


def test_the_page_is_whole_and_loads_nothing(found, tmp_path):
    path = write_assessment(found, tmp_path / "page.html", [(10, 0.2), (20, 0.6)], 50)
    page = path.read_text("utf-8")
    assert page.count("<svg") == 4 and "<script" not in page
    assert not re.search(r'(src|href)="http', page)
    heads = re.findall("<h2>(.*?)</h2>", page)
    assert heads[:2] == ["Success", "While it learnt"]
    assert heads[2:] == [table.title for table in tables(found)]
    assert str(found.personas["patient_expert"]) in page
    again = write_assessment(found, tmp_path / "again.html", [(10, 0.2), (20, 0.6)], 50)
    assert again.read_bytes() == path.read_bytes()
    short = write_assessment(found, tmp_path / "short.html").read_text("utf-8")
    assert "While it learnt" not in short and short.count("<svg") == 3


def test_dots_are_where_the_numbers_are(found):
    assert dots(personas_figure(found)) == [
        (estimate.value, place) for place, estimate in enumerate(found.personas.values())
    ]
    drawn = [x for x, _ in dots(traits_figure(found))]
    told = [piece.success.value for trait in found.traits for piece in trait.slices]
    assert sorted(drawn) == sorted(told)
    passed = dots(pass_figure(found))
    assert passed == [
        *((k, e.value) for k, e in enumerate(found.pass_k, 1)),
        *((k, e.value) for k, e in enumerate(found.agent_pass_k, 1)),
    ]


def test_tables_and_markdown_say_the_same(found):
    text = found.to_markdown()
    for table in tables(found):
        assert f"## {table.title}\n\n| {' | '.join(table.header)} |\n" in text
        assert all(f"| {' | '.join(row)} |" in text for row in table.rows)
        assert all(len(row) == len(table.header) for row in table.rows)
        assert table.note in text


def test_a_band_is_drawn_where_the_episodes_are_known():
    curves = {"it": [(0, 0.1), (100, 0.5)]}
    plain, banded = (curves_svg(curves, {"other": 0.4}, "success", n) for n in (0, 100))
    assert "FillBetween" in banded and "FillBetween" not in plain
    assert curves_svg(curves, {}, "success", 400) != banded  # narrower


def test_the_ladder_has_a_line_for_each_policy():
    def scored(name, won):
        span = wilson(won, 100)
        return Evaluation(name, "test", 100, won / 100, span, 0.0, (0.0, 0.0), 5.0, {}, won)

    scores = {level: {"good": scored("good", 90), "bad": scored("bad", 5)} for level in (0.0, 1.0)}
    drawn = ladder_svg(scores)
    assert drawn.count('<g id="FillBetween') == 2 and "<!-- good -->" in drawn


# -- the command -----------------------------------------------------------------------------------


def test_evaluate_writes_a_page_beside_what_it_says(tmp_path):
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, [*EVALUATE, "--episodes", "4", "--report", str(page)])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("# keyword") and "written: " in done.stderr
    assert "busy_professional" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--report", "nowhere/page.html"), "name a file in a folder that there is"),
        (("--report", "."), "name a file"),
        (("--report", "p.html", "--message", "hi"), "score nothing"),
        (("--report", "p.html", "--env", "CartPole-v1"), "tells of none"),
    ],
)
def test_what_cannot_be_a_page_is_refused_before_anything_is_played(more, said, monkeypatch):
    def never(*_, **__):
        raise AssertionError("played")

    monkeypatch.setattr("convgym.cli.evaluation.evaluate_repeatedly", never)
    done = CliRunner().invoke(app, [*EVALUATE, *more])
    assert done.exit_code == 2 and said in done.stderr and len(done.stderr.splitlines()) <= 3


def test_the_curve_is_that_of_the_run(tmp_path):
    from types import SimpleNamespace

    run = RunFolder(tmp_path / "mine")
    run.path.mkdir()
    run.config.write_text("evaluation: {episodes: 30}\n", "utf-8")
    run.metrics.write_text('{"step": 1, "loss": 2}\n{"step": 2, "validation": 0.5}\n', "utf-8")
    asked = SimpleNamespace(policy="mine", root=tmp_path)
    assert _learning(asked) == ([(2, 0.5)], 30)
    assert _learning(SimpleNamespace(policy="planner", root=tmp_path)) == ([], 0)
