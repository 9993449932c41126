"""`scripts/collect_expert.py` and `scripts/train_offline.py`, run on little data."""

import csv
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from convgym.data.episodes import write_dataset
from convgym.data.transitions import episode_buffers, read_episodes

minari = pytest.importorskip("minari")
pytest.importorskip("torch", reason="torch is not installed")

from trainers.offline.saved_policies import load_policy  # noqa: E402
from trainers.offline.tuned import tuned  # noqa: E402

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(autouse=True)
def own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "minari").mkdir()


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


collect_expert, train_offline = script("collect_expert"), script("train_offline")


def collected(
    player: str,
    *more: str,
    env: str = "ConvGym/CustomerService-v0",
    dataset: str = "mine/expert-v0",
) -> int:
    return collect_expert.main([env, player, dataset, "--episodes", "12", *more])


def test_a_scripted_agent_is_recorded_and_cloned(tmp_path, capsys):
    assert collected("planner", "--arguments", '{"noise": 0.1}') == 0
    printed = capsys.readouterr().out
    assert "12 episodes" in printed and "success" in printed
    out = tmp_path / "clone"
    arguments = ["mine/expert-v0", "--algorithm", "bc", "--steps", "40", "--out", str(out)]
    small = ["--option", "hidden=[16]", "--episodes", "4", "--evaluate-every", "20"]
    assert train_offline.main([*arguments, *small]) == 0
    report = json.loads((out / "report.json").read_text())
    assert report["config"] == "BCConfig" and report["hidden"] == [16]
    assert report["test"]["episodes"] == 4 and len(report["test"]["success_interval"]) == 2
    assert not (out / "critic.zip").exists(), "a clone has no values"
    rows = list(csv.DictReader((out / "log.csv").open()))
    assert [row["step"] for row in rows] == ["20.0", "40.0"] and rows[0]["validation"]

    assert collected(str(out / "policy.zip"), "--overwrite", "--deterministic") == 0
    played = read_episodes(minari.load_dataset("mine/expert-v0"))
    policy = load_policy(out / "policy.zip")
    for episode in played:
        best = policy.action_probs(episode.observations[:-1], episode.masks[:-1]).argmax(axis=1)
        assert np.array_equal(episode.actions, best)


def test_a_run_that_was_stopped_goes_on_to_the_same_policy_and_log(tmp_path):
    assert collected("keyword") == 0

    def trained(out: Path, steps: int) -> None:
        options = ["--option", "hidden=[16]", "--option", "batch_size=16", "--episodes", "2"]
        arguments = ["mine/expert-v0", "--steps", str(steps), "--out", str(out)]
        again = ["--checkpoint-every", "500"]
        assert train_offline.main([*arguments, *options, *again]) == 0

    trained(tmp_path / "whole", 1000)
    trained(tmp_path / "parts", 500)
    trained(tmp_path / "parts", 1000)
    for name in ("policy.zip", "critic.zip", "log.csv", "report.json"):
        whole, parts = (tmp_path / out / name for out in ("whole", "parts"))
        assert whole.read_bytes() == parts.read_bytes(), name


def test_convgyms_own_data_are_learnt_from_with_the_options_found_on_them(
    tmp_path, capsys, monkeypatch
):
    own = "convgym/customer-service/mixed-v0"
    assert collected("keyword", dataset=own) == 0  # stands in for the recipe's
    assert collected("keyword") == 0

    def report(dataset: str, *options: str) -> dict:
        arguments = [dataset, "--out", str(tmp_path), "--episodes", "2", *options]
        (tmp_path / "checkpoint.zip").unlink(missing_ok=True)
        capsys.readouterr()
        assert train_offline.main(arguments) == 0
        return json.loads((tmp_path / "report.json").read_text())

    monkeypatch.setattr(train_offline, "STEPS", 3)
    found = report(own, "--seed", "4")
    assert found["steps"] == 3
    said = capsys.readouterr().out
    assert "options found on such data (trainers.offline.tuned), 3 steps" in said
    assert found.items() >= json.loads(json.dumps(tuned("cql", seed=4).to_dict())).items()
    given = report(own, "--option", "hidden=[4]", "--steps", "2")
    assert (given["precision"], given["n_step"]) == ("float32", 1)
    assert "trainers.offline.tuned" not in capsys.readouterr().out
    assert report("mine/expert-v0", "--steps", "2")["n_step"] == 1


def test_data_without_an_environment_are_learnt_from_and_not_played(tmp_path, capsys):
    assert collected("random") == 0
    talks = minari.load_dataset("mine/expert-v0")
    write_dataset(
        "logs/mine-v0",
        (talks.observation_space, spaces.Discrete(talks.action_space.n)),
        episode_buffers(read_episodes(talks)),
        description="", ref_min_score=None, ref_max_score=None, algorithm_name="people",
    )  # fmt: skip
    out = tmp_path / "policy"
    arguments = ["logs/mine-v0", "--steps", "5", "--out", str(out), "--option", "hidden=[8]"]
    assert train_offline.main(arguments) == 0
    assert "off-policy evaluation" in capsys.readouterr().out
    assert "test" not in json.loads((out / "report.json").read_text())


def test_d3rlpys_algorithm_is_learnt_by_the_same_command(tmp_path):
    pytest.importorskip("d3rlpy")
    assert collected("planner") == 0
    out = tmp_path / "theirs"
    arguments = ["mine/expert-v0", "--d3rlpy", "--steps", "5", "--out", str(out)]
    options = ["--option", "alpha=0.2", "--option", "hidden=[8]", "--episodes", "2"]
    assert train_offline.main([*arguments, *options]) == 0
    report = json.loads((out / "report.json").read_text())
    assert (report["config"], report["options"]) == ("D3RLPyConfig", {"alpha": 0.2})
    assert load_policy(out / "policy.zip").name == "DiscreteCQL"


def test_a_model_of_stable_baselines_is_recorded(tmp_path, capsys):
    sb3 = pytest.importorskip("stable_baselines3")
    sb3.PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=0).save(tmp_path / "model.zip")
    assert collected(f"ppo:{tmp_path / 'model.zip'}", env="CartPole-v1") == 0
    episodes = read_episodes(minari.load_dataset("mine/expert-v0"))
    assert len(episodes) == 12 and all((e.propensities > 0).all() for e in episodes)


@pytest.mark.parametrize(
    ("player", "what"),
    [
        ("nobody", "nobody is called 'nobody'; there are random, keyword"),
        ("no_such_module:thing", "no player can be made"),
        ("ppo:nothing.zip", "no player can be made"),
    ],
)
def test_a_player_that_is_not_there_is_one_sentence(player, what, capsys):
    pytest.importorskip("stable_baselines3")
    assert collected(player) == 1
    assert what in capsys.readouterr().err


def test_what_cannot_be_learnt_is_one_sentence(tmp_path, capsys):
    assert train_offline.main(["no/such-v0", "--out", str(tmp_path)]) == 1
    assert "there is no dataset 'no/such-v0'" in capsys.readouterr().err
