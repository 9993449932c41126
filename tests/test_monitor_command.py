"""The command `convgym monitor`: what it reads, says, writes, and how it ends."""

import json
from dataclasses import replace

import numpy as np
import pytest
from test_monitor import customers, shuffled
from typer.testing import CliRunner

from convgym.calibration.calibration import Calibration, calibrate
from convgym.cli import monitor as monitoring
from convgym.cli.main import app
from convgym.data.logs import write_log
from convgym.evaluation.ope.off_policy_report import EstimateRow, OffPolicyReport
from convgym.evaluation.ope.promise import read_promise


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A calibrated user, logs of two policies of whom B wins more often, and two estimates."""
    folder = tmp_path_factory.mktemp("monitor")
    calibrate(customers(120, 1), method="text").save(folder / "user.npz")
    chance, logged = np.random.default_rng(0), []
    for number, one in enumerate(customers(130, 2)):
        policy = "B" if number % 4 == 0 else "A"
        won = bool(chance.random() < (0.9 if policy == "B" else 0.5))
        about = {
            "policy": policy, "share": 0.25 if policy == "B" else 0.75, "key": "k",
            "conversation": f"c-{number}", "logged_at": 1e9 + 60.0 * number,
            "outcome": {"success": won},
        }  # fmt: skip
        logged.append(replace(one, reward=float(won), metadata=about))
    write_log(folder / "talk.jsonl", logged)
    with (folder / "talk.jsonl").open("a") as file:
        file.write('{"broken\n')
    for name, low in (("right", 0.4), ("wrong", 0.9)):
        told = report(EstimateRow("WDR", low + 0.05, low, low + 0.1))
        (folder / f"{name}.json").write_text(json.dumps(told.to_dict()))
    return folder


def report(*rows, **given):
    about = {
        "policy": "A", "conversations": 9, "turns": 99, "discount": 1.0, "after_cut": "nothing",
        "alpha": 0.05, "truncated": 0.0, "behavior_value": 0.5, "behavior_low": 0.4,
        "behavior_high": 0.6, "ess": 99.0, "verdict": "amber", "mean_weight": 1.0,
        "max_weight": 2.0, "max_share": 0.1, "unsupported_mass": 0.0, "disagreements": (),
        "conservative": None,
    }  # fmt: skip
    return OffPolicyReport(**{**about, **given}, rows=rows)


def convgym(folder, *arguments, logs="talk.jsonl"):
    given = ["--logs", folder / logs, "--user", folder / "user.npz", "--window", 40, *arguments]
    return CliRunner().invoke(app, ["monitor", *map(str, given)])


def test_it_says_how_it_stands(folder, tmp_path):
    pytest.importorskip("matplotlib", reason="pages need the extra report")
    page = tmp_path / "monitor.html"
    done = convgym(folder, "--report", page, "--fail-on-alert")
    assert done.exit_code == 0, done.output
    assert "No alerts." in done.stdout and "at most 0.05" in done.stdout
    assert "Bad lines: 1 (talk.jsonl line 131" in done.stdout
    assert "10 conversations wait" in done.stdout and "B − A" in done.stdout
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>") and "<svg" in text and "word_js" in text
    assert "<script" not in text and "src=" not in text and "@import" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["monitor.html"]


def test_json_holds_all_of_it_and_nothing_else(folder):
    done = convgym(folder, "--json", "--tell", 0.1)
    told = json.loads(done.stdout)
    assert len(told["windows"]) == 3 and told["pending"] == 10 and told["alerts"] == []
    assert told["false_alarms"] == {"probability": 0.05, "windows": 100}
    assert told["windows"][0]["first"] == 1e9
    assert {"value", "floor_p95", "p", "p_rise", "ratio"} <= set(told["windows"][1]["rows"][0])
    assert [arm["name"] for arm in told["policies"]] == ["A", "B"] and told["split_p"] > 0.001
    assert told["logs"][0]["skipped"] == 1
    success = told["differences"][0]
    assert (success["measure"], success["delta"]) == ("success", 0.1) and success["apart"]


def test_a_return_beside_its_estimate_is_an_alert_and_fails_where_asked(folder):
    kept = ("--policy", "A", "--estimate")
    right = convgym(folder, *kept, folder / "right.json", "--fail-on-alert")
    assert right.exit_code == 0, right.output
    for wanted, code in (((), 0), (("--fail-on-alert",), 1)):
        wrong = convgym(folder, *kept, folder / "wrong.json", *wanted)
        assert wrong.exit_code == code and "below the estimate" in " ".join(wrong.stdout.split())
    assert "WDR gave A 0.950 in [0.900, 1.000]" in wrong.stdout


def test_what_grows_is_read_on_until_it_is_interrupted(folder, tmp_path, monkeypatch):
    """Twice as many in disorder come while it watches; only they are read then."""
    log, rounds = tmp_path / "talk.jsonl", []
    write_log(log, customers(120, 2))
    later = tmp_path / "later.jsonl"
    write_log(later, shuffled(customers(120, 3), 0))

    def wait(seconds):
        rounds.append(seconds)
        if len(rounds) == 2:
            with log.open("ab") as file:
                file.write(later.read_bytes())
        elif len(rounds) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(monitoring.time, "sleep", wait)
    read = []
    monkeypatch.setattr(
        monitoring.GrowingLog, "read",
        lambda self, real=monitoring.GrowingLog.read: read.append(real(self)) or read[-1],
    )  # fmt: skip
    given = ["--logs", log, "--user", folder / "user.npz", "--window", 40, "--follow", 5, "--json"]
    done = CliRunner().invoke(app, ["monitor", *map(str, given), "--fail-on-alert"])
    assert done.exit_code == 1 and rounds == [5.0] * 4, done.output
    assert [len(some) for some in read] == [120, 0, 120, 0]
    first, second = (json.loads(line) for line in done.stdout.splitlines() if line)
    assert not first["alerts"] and first["windows"] == second["windows"][:3]
    assert {(one["kind"], one["metric"]) for one in second["alerts"]} >= {
        ("gap", "moments"), ("rise", "moments"),
    }  # fmt: skip


def test_the_logs_of_a_folder_are_one_log(folder, tmp_path):
    lines = (folder / "talk.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "2001-09-09-0001.jsonl").write_text("".join(lines[:50]))
    (tmp_path / "2001-09-09-0002.jsonl").write_text("".join(lines[50:]))
    whole, parts = convgym(folder, "--json"), convgym(folder, "--json", logs=tmp_path)
    told = [json.loads(done.stdout) for done in (whole, parts)]
    assert told[0]["windows"] == told[1]["windows"] and len(told[1]["logs"]) == 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--window", 10], "40 or more"), (["--patience", 1], "more windows in a row"),
        (["--return-range", "1"], "two numbers"), (["--return-range", "1,0"], "the lower first"),
        (["--return-range", "0,inf"], "the lower first"), (["--above", "nan"], "above=nan"),
        (["--return-range", "0,0.5"], "bounds"), (["--tell", 0], "above 0"),
        (["--policy", "C"], "there are A, B"),
        (["--estimate", "right.json"], "with --policy whose"),
        (["--policy", "A", "--estimate", "none.json"], "cannot be read"),
        (["--policy", "A", "--estimate", "talk.jsonl"], "no JSON"),
        (["--policy", "A", "--estimate", "right.json", "--estimator", "FQE"], "there are WDR"),
        (["--report", "no/page.html"], "cannot be written"), (["--follow", 0], "seconds above 0"),
        (["--logs", "none"], "no file"), (["--user", "talk.jsonl"], "talk.jsonl"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(folder, given, told, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("convgym.calibration.monitor.measured", lambda *_: ())
    done = convgym(folder, *given)
    assert done.exit_code == 2 and told in " ".join(done.output.split()), done.output
    assert "Traceback" not in done.output


# Estimates


def test_the_first_estimator_with_an_interval_is_taken(tmp_path):
    path = tmp_path / "report.json"
    rows = (EstimateRow("WIS", 0.5, 0.4, 0.6), EstimateRow("WDR", 0.7), EstimateRow("FQE", 0.9))
    path.write_text(json.dumps(report(*rows, discount=0.9).to_dict()))
    found = read_promise(path)
    assert (found.estimator, found.low, found.high, found.discount) == ("WIS", 0.4, 0.6, 0.9)


def test_of_several_reports_that_of_the_policy_is_taken(tmp_path):
    path = tmp_path / "report.json"
    rows = {"A": EstimateRow("WIS", 0.1, 0.1, 0.2), "B": EstimateRow("WIS", 0.2, 0.2, 0.3)}
    both = [report(row, policy=policy) for policy, row in rows.items()]
    path.write_text(json.dumps([one.to_dict() for one in both]))
    assert read_promise(path, "B").low == 0.2
    with pytest.raises(Exception, match="reports on A, B"):
        read_promise(path)


def test_logs_that_could_not_tell_promise_nothing(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report(EstimateRow("WIS", 0.5), verdict="no support").to_dict()))
    with pytest.raises(Exception, match="no support"):
        read_promise(path)


def test_the_calibrated_user_is_read_as_calibrate_saved_it(folder):
    assert Calibration.load(folder / "user.npz").simulator().log
