"""Repeated evaluation and the assessment: the same runs however they are played, known answers."""

import importlib.util
import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from coins import ID, OF_TASK, OF_USER, PARTS, CoinEnv, CoinPolicy
from driven import ENVIRONMENTS, NEEDED, every_id, player, splits_of

from convgym.engine.tasks import SPLITS
from convgym.errors import InvalidConfiguration
from convgym.evaluation.assessment import assess, assessment_of, play_personas
from convgym.evaluation.evaluate import evaluate
from convgym.evaluation.intervals import wilson
from convgym.evaluation.repeated import Plan, evaluate_repeatedly
from convgym.policies.policy import RandomPolicy
from convgym.randomization.scenarios import user_key_of
from convgym.users.persona import BUILT_IN, TRAITS, draw_levels

ROOT = Path(__file__).parents[1]
ACTING = {"observation": "features", "action": "act"}


def coins(**given):
    return Plan(**{"env_id": ID, "tasks": 20, "users": 4, "agents": 2, **given})


# -- runs ------------------------------------------------------------------------------------------


def test_the_table_holds_every_run_in_order():
    played = evaluate_repeatedly(CoinPolicy(), coins())
    assert played.shape == played.success.shape == played.returns.shape == (20, 4, 2)
    assert played.task_ids == tuple(f"test-{t}" for t in range(20))
    for number, run in enumerate(played.runs):
        assert (run.task, run.user, run.agent) == np.unravel_index(number, played.shape)
        assert run.persona == draw_levels(user_key_of(run.user_seed))
        assert run.success == played.success[run.task, run.user, run.agent]
        assert (run.return_, run.turns) == (float(run.success), 2)
        assert run.failure_reason == ("" if run.success else f"tails: {run.task}")
        assert json.loads(json.dumps(run.to_dict()))["user_seed"] == run.user_seed
    assert played.personas.shape == (20, 4, len(TRAITS))


def test_who_is_met_depends_on_the_place_alone():
    """A larger plan holds a smaller one; every seed is its own unless it is shared on purpose."""
    large = {
        (r.task, r.user, r.agent): r
        for r in evaluate_repeatedly(CoinPolicy(), coins(tasks=25, users=6, agents=3)).runs
    }
    for run in evaluate_repeatedly(CoinPolicy(), coins()).runs:
        assert large[run.task, run.user, run.agent] == run
    assert len({r.user_seed for r in large.values()}) == 25 * 6
    assert len({r.agent_seed for r in large.values()}) == len(large)
    assert len({r.wording_seed for r in large.values()}) == 25
    words = evaluate_repeatedly(CoinPolicy(), coins(vary_wording=True)).runs
    assert len({r.wording_seed for r in words}) == 20 * 4
    other = evaluate_repeatedly(CoinPolicy(), coins(seed=1)).runs
    assert not {r.user_seed for r in other} & {r.user_seed for r in large.values()}


def test_shared_users_are_the_same_for_all_tasks():
    runs = evaluate_repeatedly(CoinPolicy(), coins(shared_users=True)).runs
    assert len({r.user_seed for r in runs}) == 4 and len({r.agent_seed for r in runs}) == len(runs)
    assert all(len({r.user_seed for r in runs if r.user == u}) == 1 for u in range(4))


def test_processes_change_nothing():
    alone = evaluate_repeatedly(CoinPolicy(), coins())
    heard = []
    shared = evaluate_repeatedly(CoinPolicy(), coins(), workers=2, progress=heard.append)
    assert shared.runs == alone.runs and heard == list(range(1, 21))
    one, two = (json.dumps(assessment_of(p, resamples=50).to_dict()) for p in (alone, shared))
    assert one == two


def test_a_policy_that_cannot_be_sent_is_one_sentence():
    class Local(CoinPolicy):
        pass

    with pytest.raises(InvalidConfiguration, match="use workers=1"):
        evaluate_repeatedly(Local(), coins(), workers=2)


def test_a_likeliest_action_leaves_no_chance_to_the_agent():
    success = evaluate_repeatedly(CoinPolicy(), coins(deterministic=True)).success
    assert (success == np.arange(20)[:, None, None] % 2).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tasks": 1}, "tasks=1"),
        ({"tasks": 2001}, "has 2000"),
        ({"tasks": ("test-1",)}, "two or more different names"),
        ({"tasks": ("test-1", "test-1")}, "two or more different names"),
        ({"users": 0}, "users=0"),
        ({"agents": True}, "agents=True"),
        ({"seed": -1}, "seed=-1"),
        ({"split": "gold"}, "gold"),
        ({"options": {"user_seed": 3}}, "'user_seed' is decided"),
        ({"keywords": {"split": "train"}}, "'split' is decided"),
    ],
    ids=str,
)
def test_a_plan_refuses_what_cannot_be_played(given, said):
    with pytest.raises(InvalidConfiguration, match=said):
        coins(**given)


def test_workers_are_whole():
    with pytest.raises(InvalidConfiguration, match="workers=0"):
        evaluate_repeatedly(CoinPolicy(), coins(), workers=0)


def test_a_task_under_two_names_is_refused(monkeypatch):
    """As where names are taken modulo the number of scenarios."""
    reset = CoinEnv.reset

    def modulo(self, *, seed=None, options=None):
        number = int(options["task_id"].split("-")[1]) % 15
        return reset(self, seed=seed, options={**options, "task_id": f"test-{number}"})

    monkeypatch.setattr(CoinEnv, "reset", modulo)
    with pytest.raises(InvalidConfiguration, match="'test-15' is the task 'test-0' again"):
        evaluate_repeatedly(CoinPolicy(), coins())
    assert len(evaluate_repeatedly(CoinPolicy(), coins(tasks=15)).runs) == 15 * 4 * 2


# -- every environment -----------------------------------------------------------------------------


@every_id
@pytest.mark.parametrize("split", SPLITS)
def test_every_split_is_played(environment_id, split):
    """And a run is the episode that its seeds and options give."""
    if split not in splits_of(environment_id):
        pytest.skip("nothing is held out here for this split")
    keywords = ACTING | NEEDED.get(environment_id, {})
    plan = Plan(
        env_id=environment_id, keywords=keywords, split=split, tasks=4, users=2, agents=2
    )
    played = evaluate_repeatedly(player(environment_id, 0.3), plan)
    assert played.task_ids == tuple(f"{split}-{t}" for t in range(4))
    assert played.personas is not None and len(np.unique(played.personas[:, :, 0])) > 2
    run = played.runs[5]
    env = gym.make(
        environment_id, split=split, privileged=True, **ACTING, **NEEDED.get(environment_id, {})
    )
    policy = player(environment_id, 0.3)
    options = {name: getattr(run, name) for name in ("task_id", "user_seed", "wording_seed")}
    observation, info = env.reset(seed=1, options=options)
    policy.reset(run.agent_seed)
    turns, ended = 0, False
    while not ended:
        action, _ = policy.predict(observation, action_masks=info["action_mask"])
        observation, _, terminated, truncated, info = env.step(action)
        turns, ended = turns + 1, terminated or truncated
    assert (turns, info["success"]) == (run.turns, run.success)
    assert tuple(json.loads(info["privileged"])["persona"].values()) == run.persona


@every_id
def test_a_difficulty_draws_tasks_that_all_differ(environment_id):
    plan = Plan(
        env_id=environment_id,
        keywords=ACTING | NEEDED.get(environment_id, {}),
        tasks=30,
        users=1,
        options={"difficulty": 1.0},
    )
    played = evaluate_repeatedly(RandomPolicy(), plan)
    assert len(set(played.task_ids)) == 30 and all(t.startswith("test-") for t in played.task_ids)
    assert played.task_ids != tuple(f"test-{t}" for t in range(30))
    assert evaluate_repeatedly(RandomPolicy(), plan).runs == played.runs


def test_what_does_not_stay_the_same_is_refused():
    first = next(iter(ENVIRONMENTS))
    randomized = {**ACTING, "randomizer": {"curriculum": "linear", "curriculum_steps": 100}}
    with pytest.raises(InvalidConfiguration, match="randomizer"):
        evaluate_repeatedly(RandomPolicy(), Plan(env_id=first, keywords=randomized, tasks=2))


# -- the assessment --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known():
    return assess(CoinPolicy(), coins(tasks=600), resamples=400)


def test_an_assessment_finds_what_made_the_runs(known):
    """Chances of `coins`: intervals hold them, and traits but patience have no effect."""
    assert known.success.low <= 0.5 <= known.success.high
    for name, truth in PARTS.items():
        low, high = known.variance[name].interval
        assert low <= truth <= high and high - low < 0.04
    assert known.variance["user"].interval[0] > 0
    effects = {trait.trait: trait.effect for trait in known.traits}
    patience = effects.pop("patience")
    assert patience.low <= 2 * OF_USER <= patience.high
    assert sum(not effect.low <= 0 <= effect.high for effect in effects.values()) <= 2
    assert known.worst_slice.name == "low patience"
    # Half of the tasks are as bad as any, so the worst tenth has their chance, 0.2.
    worst = known.worst_decile
    assert worst.same_runs < 0.5 - OF_TASK < worst.success.high
    assert worst.success.value < 0.3
    for k, estimate in enumerate(known.pass_k, 1):
        truth = (0.8**k + 0.2**k) / 2
        assert estimate.low - 0.01 <= truth <= estimate.high + 0.01
    for name, estimate in known.personas.items():
        sign = 1 if BUILT_IN[name].patience > 0.5 else -1
        assert estimate.low <= 0.5 + OF_USER * sign <= estimate.high
        assert estimate.method == "wilson"
    assert sum(known.failures.values()) == round((1 - known.success.value) * 600 * 8)
    assert list(known.failures) == ["tails"]


def test_an_assessment_repeats_and_is_json(known):
    again = assess(CoinPolicy(), coins(tasks=600), resamples=400)
    text = json.dumps(known.to_dict(), allow_nan=False)
    assert json.dumps(again.to_dict(), allow_nan=False) == text
    told = json.loads(text)
    assert told["shape"] == [600, 4, 2] and len(told["pass_k"]) == 4 and len(told["traits"]) == 11
    assert told["plan"]["env_id"] == ID and told["variance"]["parts"][2]["name"] == "agent"


def test_the_page_has_a_table_for_each_part(known):
    page = known.to_markdown()
    titles = [line for line in page.splitlines() if line.startswith("#")]
    assert titles == [
        "# coin",
        "## pass^k",
        "## Variance of success",
        "## Where it is worst",
        "## Success by trait",
        "## Success by persona",
        "## Failures",
    ]
    assert f"standard error {100 * known.standard_error:.2f} points" in page
    rows = {line.split(" | ")[0]: line for line in page.splitlines() if line.startswith("| ")}
    assert str(known.pass_k[3]) in rows["| 4"]
    assert str(known.personas["patient_expert"]) in rows["| patient_expert"]
    columns = {line.count("|") for line in page.splitlines() if "typo_rate" in line}
    assert columns == {6}


def test_one_run_a_task_says_what_it_cannot_say():
    """And its interval is that of `evaluate`."""
    plan = coins(tasks=60, users=1, agents=1)
    found = assess(CoinPolicy(), plan, personas=())
    won = round(found.success.value * 60)
    assert (found.success.low, found.success.high) == wilson(won, 60)
    assert len(found.pass_k) == 1 and found.worst_decile is None and found.personas == {}
    assert [part.name for part in found.variance.parts] == ["task + user + agent"]
    assert any("no pass^k above 1" in note for note in found.notes)
    scored = evaluate(CoinPolicy(), gym.make(ID), episodes=60)
    assert scored.standard_error == pytest.approx(
        np.sqrt(scored.success * (1 - scored.success) / 59)
    )


def test_a_full_split_has_a_standard_error_of_at_most_a_point_and_a_half():
    found = assess(CoinPolicy(), coins(tasks=2000, users=1, agents=1), personas=(), resamples=100)
    assert 0.4 < found.success.value < 0.6
    assert 0.0105 < found.standard_error <= 0.015
    assert f"{100 * found.standard_error:.2f} points" in found.summary()


def test_shared_users_are_split_as_crossed():
    found = assess(CoinPolicy(), coins(shared_users=True), personas=(), resamples=50)
    assert [part.name for part in found.variance.parts] == ["task", "user", "task × user", "agent"]
    assert any("share these customers" in note for note in found.notes)


def test_hidden_or_equal_personas_have_no_slices():
    hidden = assess(CoinPolicy(), coins(keywords={"privileged": False}), personas=(), resamples=50)
    alike = assess(CoinPolicy(), coins(options={"persona": "patient_expert"}), resamples=50)
    for found, note in ((hidden, "does not show personas"), (alike, "one persona")):
        assert found.traits == () and found.worst_slice is None
        assert any(note in told for told in found.notes)
    assert alike.personas == {}


def test_an_unknown_persona_is_one_sentence():
    with pytest.raises(InvalidConfiguration, match="no built-in persona is called 'nobody'"):
        play_personas(CoinPolicy(), coins(), ["nobody"])


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def command():
    path = ROOT / "scripts/evaluate_policy.py"
    spec = importlib.util.spec_from_file_location("evaluate_policy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_the_command_prints_and_writes(command, tmp_path, capsys):
    asked = ["coins:CoinPolicy", "--env", ID, "--keywords", "{}", "--tasks", "10"]
    asked += ["--personas", "patient_expert", "--json", str(tmp_path / "found.json")]
    assert command([*asked, "--runs", str(tmp_path / "runs.jsonl")]) == 0
    assert "| patient_expert |" in capsys.readouterr().out
    assert json.loads((tmp_path / "found.json").read_text())["shape"] == [10, 8, 2]
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert len(lines) == 160 and json.loads(lines[-1])["task_id"] == "test-9"
    assert command([*asked, "--summary"]) == 0
    assert "standard error" in capsys.readouterr().out


@pytest.mark.parametrize("policy", ["coins:Nobody", "nowhere:Policy", "coins"])
def test_the_command_refuses_in_one_sentence(command, policy, capsys):
    assert command([policy, "--env", ID, "--keywords", "{}"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("evaluate_policy: ") and told.count("\n") == 1


FEW = ["--tasks", "3", "--users", "2", "--agents", "1", "--personas", "none", "--summary"]


@pytest.mark.parametrize(
    ("policy", "given"),
    [
        ("planner", ["--env", "ConvGym/Sales-v0"]),
        ("oracle", ["--env", "ConvGym/TechnicalSupport-v0"]),
        ("keyword", ["--env", "ConvGym/OwnDomain-v0", "--keywords", "FOLDER"]),
        ("convgym.policies.sales:PlannerPolicy", ["--env", "ConvGym/Sales-v0"]),
    ],
)
def test_the_command_knows_the_scripted_agents_by_name(command, policy, given, capsys):
    folder = json.dumps({"folder": str(ROOT / "tests/data/library_domain")})
    assert command([policy, *(folder if one == "FOLDER" else one for one in given), *FEW]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{policy.rpartition(':')[2].replace('PlannerPolicy', 'planner')} in ")
    assert given[1] in told


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["nobody"], "no scripted agent is called 'nobody'; there are random, keyword"),
        (["planner", "--env", "ConvGym/Nowhere-v0"], "'ConvGym/Nowhere-v0' cannot be made"),
        (["planner", "--env", "ConvGym/Scenarios-v0"], "has no scripted agents"),
        (["planner", "--keywords", '{"folder": "x"}'], "unexpected keyword argument 'folder'"),
        (["planner", "--keywords", '{"observation": "message"}'], "act numbers by features"),
        (
            ["convgym.policies.scripted:PlannerPolicy", "--env", "ConvGym/Sales-v0"],
            "belongs to another domain: it reads",
        ),
    ],
)
def test_the_command_says_what_does_not_go_together(command, given, sentence, capsys):
    assert command([*given, *FEW]) == 2
    told = capsys.readouterr().err
    assert sentence in told and told.startswith("evaluate_policy: ") and told.count("\n") == 1
