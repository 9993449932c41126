"""`convgym train` with language models: whole runs of the embedded model, and what they leave."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("transformers", reason="language models need the extra llm")

import torch

from convgym.cli.learners import entries, learner_called
from convgym.cli.main import app
from convgym.cli.policies import saved_policy
from convgym.cli.run_config import get_config_for_task, resolved
from convgym.cli.run_folder import MetricsLog, read_metrics
from convgym.cli.yaml_text import read_yaml
from convgym.service.responders import Said
from convgym.service.settings import ServiceSettings
from convgym.service.start import responder_of
from trainers.llm.embedded.tuned import CHANGED, ENVIRONMENT, TUNED
from trainers.llm.objectives import PRESETS, Clip
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.run_options import OPTIONS, tuned_config

ROOT = Path(__file__).parents[1]
NAMES = {"reinforce++": "reinforce_pp", "ppo": "llm_ppo", "a2c": "llm_a2c", "trpo": "llm_trpo"}
TALKERS = sorted(name for name in entries() if learner_called(name).extra == "llm")
SALES = ("--env", "ConvGym/Sales-v0", "--set")
SMALL = {
    "steps": 2, "checkpoint_every": 1, "evaluation.episodes": 2, "evaluation.every": 2,
    "learner.seeds_per_iteration": 1, "learner.group_size": 4, "learner.max_turns": 6,
}  # fmt: skip


def convgym(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def train(folder, *arguments, algorithm="grpo", **settings):
    """A run of `SMALL` size; names of settings have __ for a dot."""
    given = SMALL | {name.replace("__", "."): value for name, value in settings.items()}
    changes = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
    return convgym("train", "--runs", folder, "--algorithm", algorithm, *changes, *arguments)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with one finished run, `it`."""
    folder = tmp_path_factory.mktemp("llm")
    done = train(folder, "--name", "it")
    assert done.exit_code == 0, done.output
    return folder


# -- one run ---------------------------------------------------------------------------------------


def test_a_run_is_whole(runs):
    place = runs / "it"
    files = sorted(path.name for path in place.iterdir() if not path.name.startswith("."))
    assert files == ["checkpoint.zip", "config.yaml", "metrics.jsonl", "policy.zip", "report.json"]
    report = json.loads((place / "report.json").read_text())
    assert report["steps"] == 2 and report["score"]["episodes"] == 2 and "random" not in report
    assert report["split"] == "test"
    config = read_yaml(place / "config.yaml")
    assert resolved(config).to_dict() == config
    assert config["env"] == ENVIRONMENT and config["evaluation"]["keywords"] == {
        "phrases": "held_out"
    }


def test_rows_have_the_names_of_all_learners_and_those_of_the_loop(runs):
    rows = read_metrics(runs / "it" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert set(rows[0]) == {"step", "validation", "validation_return"}  # before it learnt
    for row in rows[1:]:
        assert {"return", "return_std", "success", "length", "entropy", "clip_share"} <= set(row)
        assert {"reply_tokens", "repeated_replies", "tool_calls", "refusals"} <= set(row)
    assert "validation" in rows[2] and "validation" not in rows[1]
    assert rows[2]["optimizer_steps"] == 2 * TUNED["minibatches"]


def test_broken_off_and_resumed_it_is_the_run_that_went_through(runs, monkeypatch):
    heard = MetricsLog.__call__

    def breaks(log, row):
        if row["step"] == 2:
            raise KeyboardInterrupt
        heard(log, row)

    with monkeypatch.context() as patched:
        patched.setattr(MetricsLog, "__call__", breaks)
        done = train(runs, "--name", "broken")
    assert done.exit_code == 1 and "convgym train --resume --name broken" in done.stderr
    done = convgym("train", "--runs", runs, "--resume", "--name", "broken")
    assert done.exit_code == 0, done.output
    whole, broken = runs / "it", runs / "broken"
    assert (whole / "policy.zip").read_bytes() == (broken / "policy.zip").read_bytes()
    one, other = ([dict(row) for row in read_metrics(p / "metrics.jsonl")] for p in (whole, broken))
    for row in (*one, *other):
        for name in [name for name in row if "second" in name]:  # by the clock
            del row[name]
    assert one == other


def test_its_policy_is_scored_on_held_out_words_and_speaks(runs):
    judged = convgym("evaluate", "--runs", runs, "--policy", "it", "--episodes", 2, "--json")
    assert judged.exit_code == 0, judged.output
    again = json.loads((runs / "it" / "report.json").read_text())["score"]
    assert json.loads(judged.stdout)["episodes"] == again["episodes"] == 2
    said = convgym("evaluate", "--runs", runs, "--policy", "it", "--message", "Where is my order?")
    assert said.exit_code == 0 and len(said.stdout.split()) > 1, said.output
    acts = ("--set", "observation=features", "--set", "action=act")
    refused = convgym(
        "evaluate", "--runs", runs, "--policy", "it", "--env", "ConvGym/Sales-v0", *acts,
        "--episodes", 2,
    )  # fmt: skip
    assert refused.exit_code == 2 and "replies in texts" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_the_service_speaks_with_it(runs):
    settings = ServiceSettings(environments=(ENVIRONMENT,))
    responder = responder_of(str(runs / "it"), settings, saved_policy)
    history = [Said("user", "Where is my order?")]
    first, second = (responder.reply(history, 3, {}) for _ in range(2))
    assert first == second and first.text


def test_the_same_numbers_as_the_script_learn(runs):
    """The run is `PolicyOptimizer` with the tuned numbers: its rows are those of the loop."""
    from trainers.llm.embedded.folder import embedded_folder
    from trainers.llm.language_model import LanguageModel
    from trainers.llm.policy_optimizer import PolicyOptimizer
    from trainers.llm.text_environment import TextEnvironment

    torch.set_num_threads(1)
    config = tuned_config("grpo", iterations=2).changed(
        seeds_per_iteration=1, group_size=4, max_turns=6
    )
    environment = TextEnvironment(ENVIRONMENT, system="")
    loop = PolicyOptimizer(LanguageModel.load(embedded_folder()), environment, config)
    row = loop._iterate()
    told = read_metrics(runs / "it" / "metrics.jsonl")[1]
    for ours, theirs in (("return", "reward_mean"), ("loss", "loss"), ("grad_norm", "grad_norm")):
        assert told[ours] == row[theirs]


# -- configurations --------------------------------------------------------------------------------


def test_every_objective_has_a_learner_and_an_option_for_each_of_its_numbers():
    assert {NAMES.get(name, name) for name in (*PRESETS, "trpo")} <= set(TALKERS)
    assert set(CHANGED) <= set(OPTIONS) and set(TUNED) - {"iterations"} <= {
        one for one in dir(PolicyOptimizerConfig())
    }


@pytest.mark.parametrize("algorithm", [NAMES.get(name, name) for name in OPTIONS])
def test_every_learner_says_what_it_would_do(algorithm, tmp_path):
    done = convgym("train", "--runs", tmp_path, "--algorithm", algorithm, "--dry-run")
    assert done.exit_code == 0, done.output
    assert f"would let the model embedded talk in {ENVIRONMENT}" in done.stdout
    assert not list(tmp_path.iterdir())


def test_tuned_numbers_are_the_embedded_models_alone():
    own = resolved({"algorithm": "grpo"})
    other = resolved({"algorithm": "grpo", "learner": {"model": "somebody/else"}})
    assert own.steps == TUNED["iterations"]
    assert own.learner["learning_rate"] == TUNED["learning_rate"]
    assert own.learner["sampling"]["max_tokens"] == 24
    plain = PolicyOptimizerConfig()
    assert other.learner["learning_rate"] == plain.learning_rate
    assert other.learner["sampling"] == plain.sampling.to_dict()
    assert other.learner["system"] is None and own.learner["system"] == ""


def test_options_of_options_are_typed_and_change_what_they_say():
    config = resolved({
        "algorithm": "gspo", "profile": "conservative",
        "learner": {"sampling": {"max_tokens": 9}, "kl": 0.1, "lora": {"rank": 2}},
    })  # fmt: skip
    options = config.options()
    assert options.sampling.max_tokens == 9 and options.sampling.max_context == 512
    assert options.lora.rank == 2 and options.max_grad_norm == 0.5
    goal = options.config(iterations=3).goal
    assert goal.ratio == "sequence" and goal.kl.coefficient == 0.1
    assert goal.clip == Clip(low=0.05, high=0.05)
    trpo = resolved({"algorithm": "llm_trpo"}).options().config(iterations=1)
    assert trpo.trust_region.max_kl == 0.01 and trpo.objective == "grpo"


def test_domains_have_their_own_places():
    assert get_config_for_task("customer-service", "grpo").env == ENVIRONMENT
    sales = get_config_for_task("sales", "gspo", profile="aggressive")
    assert sales.env == "ConvGym/Sales-v0"
    assert sales.env_keywords == {
        "observation": "dict", "action": "text", "difficulty": 0.2, "reward": "graded",
    }  # fmt: skip


def test_the_starter_explains_what_stands_inside_of_options(tmp_path):
    path = tmp_path / "config.yaml"
    assert convgym("init", "--path", path, "--algorithm", "grpo").exit_code == 0
    lines = path.read_text("utf-8").splitlines()
    place = lines.index("    max_tokens: 24")
    assert lines[place - 1] == "    # Tokens of a reply, the one that ends it included."
    assert "longest, cache, penalty" in lines[lines.index("  overlong: null") - 1]
    shown = convgym("show", "grpo").stdout
    assert "learner.sampling.max_tokens: int = 24" in shown and "learner.lora.rank" in shown
    assert f"learner.learning_rate: float = {TUNED['learning_rate']}" in shown


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--env", "CartPole-v1"), "a model replies in texts"),
        (("--env", "Nope-v0"), "any environment of texts"),
        (("--set", "env_keywords.observation=features"), "handles need texts"),
        (
            ("--env", "ConvGym/Sales-v0", "--set", "env_keywords.observation=features"),
            "reads texts",
        ),
        (("--env", "ConvGym/Sales-v0", "--set", "env_keywords.action=act"), "replies in texts"),
        (("--set", "env_keywords.topic=weather"), "topic"),
        (("--dataset", "convgym/sales/mixed-v0"), "takes no dataset"),
        (("--set", "learner.seed=2"), "did you mean seed"),
        (("--seed", "-1"), ""),
        (("--set", "learner.objective=gspo"), "there is no 'learner.objective'"),
        (("--set", "learner.max_tokens=9"), "did you mean learner.sampling.max_tokens"),
        (("--set", "learner.sampling.max_tokns=9"), "did you mean learner.sampling.max_tokens"),
        (("--set", "learner.lora.rnk=9"), "did you mean learner.lora.rank"),
        (("--set", "learner.lora.rank=0"), "rank counts from 1"),
        (("--set", "learner.sampling.max_context=9000"), "reads"),
        (("--set", "learner.model=./nowhere"), "there is no model in ./nowhere"),
        (("--set", "learner.model="), "learner.model"),
        (("--set", "learner.dtype=int8"), "one of float32"),
        (("--set", "learner.group_size=1"), "must be 2 or more"),
        (("--set", "learner.kl=-1"), "0 or more"),
        (("--algorithm", "llm_a2c", "--set", "learner.clip_low=0.1"), "no clip of two ends"),
        (("--algorithm", "reinforce++"), "did you mean 'reinforce_pp'"),
        (("--device", "nowhere"), "take cpu"),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(given, says, tmp_path):
    algorithm = () if "--algorithm" in given else ("--algorithm", "grpo")
    done = convgym("train", "--runs", tmp_path / "runs", *algorithm, *given)
    assert done.exit_code == 2 and "Traceback" not in done.output, done.output
    if says:
        assert says in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


# -- without the extra -----------------------------------------------------------------------------


def shell(*arguments, block=(), after=""):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({list(block)!r}))\n"
        "from convgym.cli.main import app\n"
        f"try: app({list(arguments)!r})\n"
        f"finally: {after or 'pass'}"
    )
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_learners_are_listed_without_torch_and_say_what_they_need():
    heavy = "print(*{'torch', 'transformers'} & set(sys.modules), 'loaded')"
    done = shell("list", "learners", after=heavy)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].strip() == "loaded", done.stderr
    assert "group-relative policy optimisation of a language model [llm]" in done.stdout
    for block, command in ((("torch", "transformers"), "train"), (("transformers",), "init")):
        done = shell(command, "--algorithm", "grpo", block=block)
        assert done.returncode == 1 and 'pip install "convgym[llm]"' in done.stderr
        assert done.stderr.count("\n") == 1
