"""`scripts/logs_to_policy.py`: a policy that found the better act; what teaches nothing."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recorded import talk

from convgym.conversation import Conversation, Message
from convgym.data.logs import write_log

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("minari")

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "logs_to_policy.py"
CURES = {"screen": "restart", "money": "refund"}
WORDS = {"restart": "please restart the device", "refund": "you get your money back",
         "stall": "let me see what can be done"}  # fmt: skip


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("d3rlpy", reason="d3rlpy is not installed")
    spec = importlib.util.spec_from_file_location("logs_to_policy", SCRIPT)
    module = sys.modules["logs_to_policy"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mostly_wrong(count: int, labelled: bool) -> list[Conversation]:
    """An agent that stalls mostly and cures a problem now and then; each cure earns 1."""
    rng, made = np.random.default_rng(0), []
    for number in range(count):
        messages, reward = [], 0.0
        for _ in range(int(rng.integers(2, 5))):
            problem = str(rng.choice(list(CURES)))
            act = str(rng.choice(list(WORDS), p=(0.2, 0.2, 0.6)))
            acts = (("desk", act),) if labelled else ()
            messages += [
                Message("user", f"the {problem} is gone, {rng.integers(99)} days now"),
                Message("assistant", WORDS[act], acts=acts),
            ]
            reward += act == CURES[problem]
        made.append(Conversation(f"talk {number}", tuple(messages), reward))
    return made


@pytest.mark.parametrize(
    "labelled",
    [pytest.param(True, id="labels", marks=pytest.mark.slow), pytest.param(False, id="clusters")],
)
def test_cql_finds_the_better_act_where_imitation_does_not(script, tmp_path, labelled):
    log, out = tmp_path / "log.jsonl", tmp_path / "policy"
    write_log(log, mostly_wrong(400, labelled))
    arguments = [str(log), "--out", str(out), "--acts", "3", "--dim", "64"]
    assert script.main([*arguments, "--messages", "1"]) == 0
    report = json.loads((out / "report.json").read_text())
    cured = 0
    for number, (problem, cure) in enumerate(list(CURES.items()) * 5):
        history = talk("now", f"the {problem} is gone, {number} days now")
        answered = script.answer(out, history)["act"]
        cured += (cure == answered) if labelled else WORDS[cure] in answered
    assert cured >= 9
    shares = report["held_out"]["shares"]
    stall = next(n for n, name in enumerate(report["acts"]) if "stall" in name or "let me" in name)
    assert shares["BC"][stall] > 0.9 and shares["CQL"][stall] < 0.1
    assert report["held_out"]["agreement"]["BC"] == pytest.approx(0.6, abs=0.06)
    assert report["answer"]["act"] in report["acts"]


def test_numbers_are_those_of_the_plain_loop(script):
    from convgym.data.transitions import EpisodeArrays
    from trainers.offline.discrete_policy import DiscretePolicy

    rng = np.random.default_rng(3)

    def episode(length):
        rewards = np.zeros(length)
        rows = rng.normal(size=(length + 1, 4)).astype(np.float32)
        return EpisodeArrays(rows, rng.integers(0, 3, length), rewards, True, False, rewards)

    training, held = ([episode(n % 4 + 1) for n in range(9)] for _ in range(2))
    layers = [(rng.normal(size=(4, 3)).astype(np.float32), np.zeros(3, np.float32))]
    policy = DiscretePolicy([layers])
    found = script.numbers({"CQL": policy, "BC": policy}, training, held, 3)
    logged = [int(act) for e in training for act in e.actions]
    odds = [(logged.count(act) + 1) / (len(logged) + 3) for act in range(3)]
    agreed, likely, plain, said = [], [], [], []
    for one in held:
        for row, act in zip(one.observations, one.actions, strict=False):
            scores = row.astype(float) @ layers[0][0].astype(float)
            said.append(int(np.argmax(scores)))
            agreed.append(said[-1] == act)
            likely.append(scores[act] - np.log(np.exp(scores).sum()))
            plain.append(np.log(odds[act]))
    assert found["turns"] == len(said)
    assert found["agreement"]["CQL"] == np.mean(agreed)
    assert found["log_likelihood"]["BC"] == pytest.approx(np.mean(likely), abs=1e-5)
    assert found["log_likelihood"]["shares"] == pytest.approx(np.mean(plain))
    assert found["shares"]["CQL"] == [said.count(act) / len(said) for act in range(3)]


def test_what_is_held_out_was_not_learnt_from(script, tmp_path):
    """A repaired bug: a conversation that was told twice stood on both sides."""
    log = []
    for number in range(200):
        said = ("hi", "a:yes?", f"about {number}", "a:so?", "well")
        log += [talk(f"{number}-{n}", *said, f"a:reply {n}") for n in range(3)]  # candidates
        log += [talk(f"{number}-twice", *said, "a:reply 0"), talk(f"{number}-begun", *said)]
        about = {"first_user": f"first {number}"}
        log += [talk(f"{number}-{end}", end, "a:yes?", f"{number}", metadata=about) for end in "xy"]
    write_log(tmp_path / "log.jsonl", log)
    held = script.held_out(tmp_path / "log.jsonl")
    sides = {number: set() for number in range(200)}
    for told in log:
        number, _, end = told.conversation_id.partition("-")
        sides[int(number)].add((end in "xy", told.conversation_id in held))
    assert all(len(side) == 2 for side in sides.values())
    assert len(held) / len(log) == pytest.approx(script.HELD_OUT, abs=0.01)


def test_what_is_asked_of_the_policy_is_said_by_a_user(script):
    """A repaired bug: an agent that only opened was asked for its opening."""
    opened = talk("1", "a:Hello?", "a:Anybody?", "bye")
    answered = talk("2", "a:Hello?", "hi", "a:How are you?", "a:Still there?", "no")
    assert script.last_question([opened]) is None
    assert [m.content for m in script.last_question([opened, answered]).messages] == [
        "Hello?", "hi", "How are you?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ([talk(str(n), "hi", "a:ho", "so", f"a:{n}") for n in range(60)], "it has no reward"),
        ([talk(str(n), "hi", reward=1.0) for n in range(60)], "no conversation has an agent turn"),
        (mostly_wrong(12, True), "are too few"),
        ([talk(str(n), "hi", "a:ho", f"so {n}", f"a:{n}", reward=1.0) for n in range(60)],
         "all 48 returns are 1, so no act is better"),
    ],
)  # fmt: skip
def test_a_log_that_teaches_nothing_is_one_sentence(script, tmp_path, capsys, log, said):
    path = tmp_path / "log.jsonl"
    write_log(path, log)
    assert script.main([str(path), "--out", str(tmp_path / "policy")]) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_arguments_that_contradict_each_other_are_refused():
    for arguments in ([], ["log.jsonl", "--load", "policy"], ["--load", "policy"]):
        done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                              cwd=ROOT, env={"PYTHONPATH": str(ROOT)})  # fmt: skip
        assert done.returncode == 2 and "give a log to learn from" in done.stderr
