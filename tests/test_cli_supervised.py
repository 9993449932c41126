"""`convgym train` with SFT and DPO: whole runs, gone on with, and refused in a sentence."""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("transformers", reason="language models need the extra llm")

from tiny_models import tiny_model, tiny_tokenizer

from convgym.cli.main import app
from convgym.cli.run_config import resolved
from convgym.cli.run_folder import MetricsLog, read_metrics
from convgym.cli.yaml_text import read_yaml
from trainers.llm.language_model import LanguageModel

SAMPLE = ("--dataset", "convgym/customer-service-text/sample-v0")
ACTS = ("--dataset", "convgym/customer-service/sample-v0")


def convgym(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def settings(**given):
    return [part for n, v in given.items() for part in ("--set", f"{n.replace('__', '.')}={v}")]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny model with random weights, in a folder."""
    place = tmp_path_factory.mktemp("model") / "tiny"
    tokenizer = tiny_tokenizer()
    LanguageModel(tiny_model("llama", vocabulary=len(tokenizer), places=4096), tokenizer).save(
        place
    )
    return place


@pytest.fixture(scope="module")
def given(model):
    """Small runs of each learner."""
    few = {"steps": 2, "checkpoint_every": 1, "evaluation__episodes": 0}
    return {
        "sft": [*SAMPLE, *settings(
            **few, best=0.04, learner__model=model, learner__batch_size=2,
            learner__sampling__max_context=4096,
        )],
        "dpo": settings(
            **few, learner__tasks=4, learner__group_size=4, learner__batch_size=2,
            learner__max_turns=10,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("algorithm", ["sft", "dpo"])
def test_broken_off_and_resumed_it_is_the_run_that_went_through(
    algorithm, given, tmp_path, monkeypatch
):
    def train(*more):
        return convgym("train", "--runs", tmp_path, *more)

    done = train("--algorithm", algorithm, "--name", "whole", *given[algorithm])
    assert done.exit_code == 0, done.output
    heard = MetricsLog.__call__

    def breaks(log, row):
        if row["step"] == 2:
            raise KeyboardInterrupt
        heard(log, row)

    with monkeypatch.context() as patched:
        patched.setattr(MetricsLog, "__call__", breaks)
        assert train("--algorithm", algorithm, "--name", "broken", *given[algorithm]).exit_code == 1
    done = train("--resume", "--name", "broken")
    assert done.exit_code == 0, done.output
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert (whole / "policy.zip").read_bytes() == (broken / "policy.zip").read_bytes()
    assert read_metrics(whole / "metrics.jsonl") == read_metrics(broken / "metrics.jsonl")
    rows = read_metrics(whole / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2] and "loss" in rows[-1]
    assert json.loads((whole / "report.json").read_text())["steps"] == 2
    config = read_yaml(whole / "config.yaml")
    assert resolved(config).to_dict() == config


@pytest.mark.slow
def test_longer_imitation_lowers_the_loss(given, tmp_path):
    longer = settings(steps=30, learner__learning_rate=0.01, learner__batch_size=4)
    done = convgym("train", "--runs", tmp_path, "--algorithm", "sft", "--name", "it",
                   *given["sft"], *longer)  # fmt: skip
    assert done.exit_code == 0, done.output
    losses = [row["loss"] for row in read_metrics(tmp_path / "it" / "metrics.jsonl")]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    ("algorithm", "more", "says"),
    [
        ("sft", ACTS, "learns from texts"),
        ("sft", ("--dataset", "convgym/nothing-v0"), "convgym/nothing-v0"),
        ("sft", (*SAMPLE, "--set", "learner.top_share=0.5"), "there is no 'learner.top_share'"),
        ("sft", (*SAMPLE, "--set", "learner.model=./nowhere"), "there is no model"),
        ("dpo", SAMPLE, "takes no dataset"),
        ("dpo", ("--set", "learner.group_size=1"), "a pair takes two"),
        ("dpo", ("--env", "CartPole-v1"), "a model replies in texts"),
        ("dpo", ("--set", "learner.beta=0"), "beta"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(algorithm, more, says, tmp_path):
    done = convgym("train", "--runs", tmp_path / "runs", "--algorithm", algorithm, *more)
    assert done.exit_code == 2 and says in done.stderr, done.output
    assert done.stderr.count("\n") == 1 and not (tmp_path / "runs").exists()


def test_a_dataset_that_had_to_be_fetched_and_does_not_fit_leaves_no_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    runs = tmp_path / "runs"
    done = convgym("train", "--runs", runs, "--algorithm", "sft", "--name", "it", *ACTS)
    assert done.exit_code == 2 and "learns from texts" in done.stderr, done.output
    assert not runs.exists()
    runs.mkdir()
    (runs / "another").mkdir()
    convgym("train", "--runs", runs, "--algorithm", "sft", "--name", "it", *ACTS)
    assert [place.name for place in runs.iterdir()] == ["another"]


def test_what_does_not_fit_is_said_before_anything_is_learnt(given, tmp_path):
    short = settings(learner__sampling__max_context=20)
    done = convgym("train", "--runs", tmp_path, "--algorithm", "sft", *given["sft"], *short)
    assert done.exit_code == 2 and "raise learner.sampling.max_context" in done.stderr
