"""What calibration buys: the order of agents, and a policy's value, on users nobody trained on."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from twin_agents import AGENTS, CHEAP, DEAR, KnobAgent, Knobs, cost, returns
from twin_env import RepliesEnv, TwinEnv

from convgym.data.statistics import spearman
from convgym.policies.scripted import OraclePolicy

SCRIPT = Path(__file__).parents[1] / "scripts" / "transfer_experiment.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("transfer_experiment", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- the agents ------------------------------------------------------------------------------------


def test_without_knobs_the_agent_is_the_oracle():
    env, agent, oracle = RepliesEnv(), KnobAgent(Knobs()), OraclePolicy()
    for seed in range(15):
        seen, _ = env.reset(seed=seed)
        agent.reset(seed)
        done = False
        while not done:
            (number,), _ = agent.predict(seen, action_masks=env.action_masks())
            assert number == oracle.predict(seen, action_masks=env.action_masks())[0]
            seen, _, terminated, truncated, _ = env.step((number,))
            done = terminated or truncated


def test_costs_are_of_replies_and_acts():
    agent = KnobAgent(Knobs())
    ask, explain, find = (agent.actions[n] for n in ("ask_email", "explain", "find_customer"))
    assert cost(agent, (ask,), DEAR) == pytest.approx(0.105)
    assert cost(agent, (ask, explain), CHEAP) == pytest.approx(0.09)
    assert cost(agent, (find,), DEAR) == pytest.approx(0.025)


@pytest.mark.slow
def test_no_agent_is_best_everywhere():
    """Users of two sorts prefer different agents: values trade off."""
    seeds = range(60)
    best = set()
    for env in (RepliesEnv(), TwinEnv(100), TwinEnv(102)):
        values = {n: returns(env, KnobAgent(k), seeds, CHEAP).mean() for n, k in AGENTS.items()}
        best.add(max(values, key=values.get))
    assert len(best) > 1


# -- the experiment --------------------------------------------------------------------------------


def test_all_arms_have_the_same_episodes_and_none_is_tested_on_them(script, monkeypatch):
    played = {}

    def returns_noted(env, agent, seeds, costs):
        played.setdefault(id(env), []).extend(int(seed) for seed in seeds)
        return np.zeros(len(seeds))

    monkeypatch.setattr(script, "returns", returns_noted)
    one, many = [object()], [object() for _ in range(4)]
    assert script.learn(one, 8, 1, 3) == script.learn(many, 8, 1, 3) == Knobs()
    together = sorted(seed for env in many for seed in played[id(env)])
    assert sorted(played[id(one[0])]) == together
    assert max(together) < script._TEST


def test_an_interval_is_students(script):
    mean, low, high = script.interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert high - mean == pytest.approx(4.303 / 3**0.5, abs=1e-3) == mean - low


@pytest.mark.slow
def test_a_calibrated_user_values_agents_more_like_real_users_do(script):
    """Small: one twin, few episodes; the figures are the slow test's."""
    twin, seeds = 5, range(60)
    logged = script.record(
        TwinEnv(twin, observation="message"), [m() for m in script.LOGGING], 200, twin
    )
    fit = script.fit_decisions(
        logged, script.ENV_ID, labelled=True, agents=script.LOGGING, simulated=150
    )
    values = [
        np.array([returns(env, KnobAgent(k), seeds, CHEAP).mean() for k in AGENTS.values()])
        for env in (TwinEnv(twin), RepliesEnv(), script.environments([fit.user()])[0])
    ]
    real, own, fitted = values
    assert np.abs(fitted - real).mean() < np.abs(own - real).mean() * 0.6
    assert spearman(fitted, real) > 0.7  # of 60 episodes each; what is left is their noise


@pytest.mark.slow
def test_ranks_of_agents_are_those_of_real_users(script, capsys):
    means = script.show_ranks(range(20, 24), logs=1000, test_episodes=900, simulated=600)
    # The goal is 0.95, and 0.94 was measured (0.98, 0.95, 0.88, 0.95). The twin's own bases reach
    # 0.96: what it does beyond bases (breaks, tilts, words) costs the rest.
    assert means["acts"]["spearman"] >= 0.92
    assert means["text"]["spearman"] >= 0.85
    assert means["uncalibrated"]["spearman"] < means["text"]["spearman"] - 0.05
    for measure in ("value_error", "regret_at_1"):
        assert means["acts"][measure] < means["uncalibrated"][measure]


@pytest.mark.slow
def test_a_policy_of_calibrated_and_randomised_users_loses_less_on_real_ones(script, capsys):
    found = script.show_arms(
        range(20, 25), logs=1000, episodes=100, test_episodes=600, sweeps=2, simulated=600
    )
    assert found["both"]["loss"][2] < found["uncalibrated"]["loss"][1]
