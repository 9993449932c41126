"""Many workers do what one does: the same results in the same order, errors and deaths included."""

import json
import os
import pickle
import threading
from functools import partial
from pathlib import Path

import gymnasium as gym
import pytest
from coins import CoinPolicy
from crew_work import Locked, Unwilling, a_keyword_policy, dying, missing, refusing, tenfold
from typer.testing import CliRunner

from convgym.cli.main import app
from convgym.crew.crew import crew_of
from convgym.errors import InvalidConfiguration, MissingExtra, WorkerLost
from convgym.evaluation.assessment import assess
from convgym.evaluation.evaluate import evaluate
from convgym.evaluation.repeated import Plan, evaluate_repeatedly
from convgym.evaluation.scores import score
from convgym.policies.scripted import KeywordPolicy, PlannerPolicy

ID = "ConvGym/CustomerService-v0"
TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def ray():
    """One Ray on two cores for the tests that need it."""
    found = pytest.importorskip("ray", reason="needs the extra ray")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    found.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": path, "RAY_CHDIR_TO_TRIAL_DIR": "0"}},
    )  # fmt: skip
    yield found
    found.shutdown()


@pytest.fixture(params=["local", "ray"])
def elsewhere(request):
    """Two workers that are other processes, of each kind."""
    if request.param == "ray":
        request.getfixturevalue("ray")
    return {"workers": 2, "backend": request.param}


def acting(**keywords):
    return gym.make(ID, observation="features", action="act", **keywords)


def as_bytes(found):
    return json.dumps(found.to_dict()).encode()


# -- shares ----------------------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_shares(elsewhere):
    with crew_of(partial(tenfold, 1), **elsewhere) as crew:
        assert crew.cut(range(40)) == [range(n, min(n + 3, 40)) for n in range(0, 40, 3)]
        found = list(crew.results(range(9), 100))
        again = list(crew.results(range(3)))
    assert [value for value, _ in found] == [10 * n + 101 for n in range(9)]
    assert [value for value, _ in again] == [1, 11, 21]
    assert os.getpid() not in {process for _, process in found}


def test_one_worker_is_this_process_and_goes_one_by_one():
    with crew_of(tenfold) as crew:
        assert crew.cut("abc") == [["a"], ["b"], ["c"]]
        assert list(crew.results([4])) == [(40, os.getpid())]


def test_what_a_share_raises_is_raised_here_and_the_first_of_them(elsewhere):
    with crew_of(refusing, **elsewhere) as crew:
        found = crew.results(range(8))
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(InvalidConfiguration, match="no share 3, please"):
            next(found)


def test_what_cannot_be_made_is_raised_as_it_is(elsewhere):
    needed = pytest.raises(MissingExtra, match="needs the package 'ray'")
    with crew_of(missing, **elsewhere) as crew, needed as caught:
        list(crew.results(range(2)))
    assert caught.value.extra == "ray"


def test_errors_travel():
    again = pickle.loads(pickle.dumps(MissingExtra("torch", "llm")))
    assert (again.package, again.extra, str(again)) == (
        "torch", "llm", str(MissingExtra("torch", "llm"))
    )  # fmt: skip


def test_what_cannot_be_sent_is_one_sentence(elsewhere):
    lock = threading.Lock()
    with pytest.raises(InvalidConfiguration, match=r"cannot be sent .*lock.*workers=1, or name"):
        crew_of(partial(tenfold, lock), **elsewhere)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [({"workers": 0}, "workers=0"), ({"workers": True}, "workers=True"),
     ({"backend": "slurm"}, "backend='slurm'; it is one of local, ray")],
)  # fmt: skip
def test_a_crew_there_is_not(given, sentence):
    with pytest.raises(InvalidConfiguration, match=sentence):
        crew_of(tenfold, **given)


# -- workers that die ------------------------------------------------------------------------------


def test_on_ray_the_share_of_a_worker_that_died_is_done_again(ray, tmp_path):
    with crew_of(partial(dying, tmp_path, 2), 2, "ray") as crew:
        assert list(crew.results(range(6))) == list(range(6))
    assert len(list(tmp_path.iterdir())) == 2, "two workers have died"


def test_a_share_that_kills_whoever_does_it_is_given_up(ray, tmp_path):
    with crew_of(partial(dying, tmp_path, 99), 2, "ray") as crew:
        found = crew.results(range(6))
        assert [next(found), next(found)] == [0, 1]
        with pytest.raises(WorkerLost, match="died 4 times over the same share"):
            next(found)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_process_that_dies_is_one_sentence(tmp_path):
    with crew_of(partial(dying, tmp_path, 99), 2) as crew, pytest.raises(WorkerLost, match="died"):
        list(crew.results(range(6)))


# -- evaluations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [PlannerPolicy(), KeywordPolicy()], ids=lambda p: p.name)
def test_the_evaluation_is_the_same_bytes(policy, elsewhere):
    given = {"episodes": 25, "seed": 3}
    heard = []
    one = evaluate(policy, acting(), **given)
    many = evaluate(policy, acting(), **given, **elsewhere, progress=heard.append)
    assert as_bytes(one) == as_bytes(many)
    assert heard == sorted(heard) and heard[-1] == 25
    assert 0 < one.success < 1, "it must be able to differ"


def test_more_workers_than_cores_and_fewer_are_the_same_too(ray):
    """A worker that the cluster has no core for is not waited for."""
    env = acting(topic="status")
    alone = as_bytes(evaluate(KeywordPolicy(), env, episodes=8))
    for workers in (1, 3):
        many = evaluate(KeywordPolicy(), env, episodes=8, backend="ray", workers=workers)
        assert as_bytes(many) == alone


def test_tables_scores_and_pages_are_the_same(elsewhere):
    plan = Plan(env_id="coins:Coins-v0", tasks=20, users=2, agents=2)
    here, there = (
        assess(CoinPolicy(), plan, personas=["busy_professional"], resamples=50, **how)
        for how in ({}, elsewhere)
    )
    assert as_bytes(here) == as_bytes(there) and here.to_markdown() == there.to_markdown()
    env = gym.make("coins:Coins-v0")
    assert score(CoinPolicy(), env, 9) == score(CoinPolicy(), env, 9, **elsewhere)


def test_a_policy_that_raises_says_the_same_everywhere(elsewhere):
    said = []
    for how in ({}, elsewhere):
        with pytest.raises(InvalidConfiguration) as caught:
            evaluate(Unwilling(), acting(), episodes=6, **how)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1] and said[0][1].startswith("no more")


def test_a_policy_that_cannot_be_sent_is_made_by_its_source(elsewhere):
    with pytest.raises(InvalidConfiguration, match="cannot be sent"):
        evaluate(Locked(), acting(), episodes=6, **elsewhere)
    found = evaluate(Locked(), acting(), episodes=6, source=a_keyword_policy, **elsewhere)
    assert as_bytes(found) == as_bytes(evaluate(KeywordPolicy(), acting(), episodes=6))
    plan = Plan(env_id=ID, keywords={"observation": "features", "action": "act"}, tasks=3, users=1)
    runs = evaluate_repeatedly(Locked(), plan, source=a_keyword_policy, **elsewhere).runs
    assert runs == evaluate_repeatedly(KeywordPolicy(), plan).runs


def test_environments_that_no_other_process_can_make():
    bare = acting().unwrapped
    bare.spec = None
    with pytest.raises(InvalidConfiguration, match="it has no spec; make it with"):
        evaluate(KeywordPolicy(), bare, episodes=4, workers=2)
    grown = acting(randomizer={"curriculum": "adr"})
    with pytest.raises(InvalidConfiguration, match="a curriculum goes by what was played before"):
        evaluate(KeywordPolicy(), grown, episodes=4, workers=2)


# -- the command -----------------------------------------------------------------------------------


def test_the_command_prints_the_same_bytes_on_ray(ray, tmp_path):
    """A scripted policy goes by its name, a saved one by its path."""
    runs = str(tmp_path / "runs")
    done = CliRunner().invoke(app, [
        "train", "--stub", "--steps", "500", "--name", "small", "--runs", runs,
        "--set", "evaluation.episodes=0",
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    for policy in ("planner", "small"):
        given = ["evaluate", "--policy", policy, "--runs", runs, "--episodes", "6", "--users", "1",
                 "--personas", "none", "--json"]  # fmt: skip
        here = CliRunner().invoke(app, given)
        there = CliRunner().invoke(app, [*given, "--backend", "ray", "--workers", "2"])
        assert here.exit_code == there.exit_code == 0, there.output
        assert here.stdout == there.stdout and json.loads(here.stdout)["shape"] == [6, 1, 1]
