"""Callbacks of learners: when to stop, a line on the screen, rows in a file."""

import csv
import io

import pytest

from convgym.errors import InvalidConfiguration
from trainers.callbacks import CSVLog, EarlyStopping, ProgressBar


def test_early_stopping_counts_evaluations_without_a_rise():
    stops = EarlyStopping("wins", patience=2, least_gain=0.1)
    rows = [
        {"wins": 0.5},
        {"return": 9.0},
        {"wins": 0.55},
        {"wins": 0.7},
        {"wins": 0.7},
        {"wins": 0.1},
    ]
    assert [stops(row) for row in rows] == [False] * 5 + [True]
    assert stops.best == 0.7
    with pytest.raises(InvalidConfiguration, match="patience=0"):
        EarlyStopping("wins", 0)


def test_the_progress_bar_is_written_over_and_ends():
    page = io.StringIO()
    line = ProgressBar(2_000, page)
    line({"step": 1_000.0, "wins": 0.25})
    line({"step": 2_000.0, "wins": 0.5})
    first, second = page.getvalue().split("\r")[1:]
    assert "1,000 steps" in first and "wins 0.25" in first and first.count("█") == 12
    assert "2,000 steps" in second and second.endswith("\n") and second.count("█") == 24


def paces(monkeypatch, rows):
    """What a bar that is made at 100 s shows for rows of (seconds since, steps)."""
    now = [100.0]
    monkeypatch.setattr("trainers.callbacks.time.perf_counter", lambda: now[0])
    page = io.StringIO()
    line = ProgressBar(10_000, page)
    for seconds, steps in rows:
        now[0] = 100.0 + seconds
        line({"step": float(steps)})
    lines = page.getvalue().split("\r")[1:]
    return [shown.split("steps")[1].strip().rstrip("/s") for shown in lines]


def test_a_single_row_has_a_pace_since_the_bar_was_made(monkeypatch):
    assert paces(monkeypatch, [(2.0, 1_000)]) == ["500"]
    assert paces(monkeypatch, [(0.0, 0)]) == ["0"]
    # Later rows leave out what lay between: 3,000 steps in 2 seconds, 9,000 in 4.
    assert paces(monkeypatch, [(2.0, 1_000), (4.0, 4_000), (6.0, 10_000)]) == [
        "500", "1,500", "2,250",
    ]  # fmt: skip


def test_steps_of_a_history_are_not_this_runs(monkeypatch):
    told = [(2.0, 1_000), (2.001, 2_000), (2.002, 3_000)]
    assert paces(monkeypatch, [*told, (4.0, 4_000)])[-1] == "500"


def test_a_column_that_comes_late_is_empty_in_earlier_rows(tmp_path):
    log = CSVLog(tmp_path / "new" / "log.csv")
    for row in ({"step": 1.0}, {"step": 2.0, "success": 0.5}, {"step": 3.0}):
        log(row)
    with (tmp_path / "new" / "log.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [["step", "success"], ["1.0", ""], ["2.0", "0.5"], ["3.0", ""]]
