"""Intervals against numbers worked by hand; rollouts and evaluations that repeat."""

import json
import math

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from convgym.evaluation.evaluate import evaluate
from convgym.evaluation.intervals import mean_interval, wilson
from convgym.evaluation.rollout import play
from convgym.policies.customer_service import NULL_POLICIES
from convgym.policies.policy import RandomPolicy
from convgym.policies.scripted import KeywordPolicy, OraclePolicy

ID = "ConvGym/CustomerService-v0"
Z2 = 1.959963984540054**2


def acting(**keywords):
    return gym.make(ID, observation="features", action="act", **keywords)


# -- intervals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (8, 10, 0.4902, 0.9433),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_as_published(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_at_the_ends_by_hand():
    """With no success the upper end is z² / (n + z²); with nothing but, the mirror of it."""
    assert wilson(0, 10) == pytest.approx((0.0, Z2 / (10 + Z2)))
    assert wilson(10, 10) == pytest.approx((10 / (10 + Z2), 1.0))
    assert wilson(1, 1) == pytest.approx((1 / (1 + Z2), 1.0))


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_solves_its_equation(drawn):
    """Its ends are the p with (share − p)² = z² p (1 − p) / n."""
    successes, n = drawn
    low, high = wilson(successes, n)
    assert 0.0 <= low <= successes / n + 1e-12
    assert successes / n - 1e-12 <= high <= 1.0
    for end in (low, high):
        assert (successes / n - end) ** 2 == pytest.approx(Z2 * end * (1 - end) / n, abs=1e-9)


def test_wilson_holds_the_share_itself_at_the_ends():
    assert all(wilson(n, n)[1] == 1.0 and wilson(0, n)[0] == 0.0 for n in range(1, 500))


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_what_is_no_share(successes, n):
    with pytest.raises(ValueError, match=f"{successes} successes of {n}"):
        wilson(successes, n)


def test_mean_interval_by_hand():
    """1, 2, 3, 4: mean 2.5, variance 5/3, so half the width is 1.96 √(5/12)."""
    half = math.sqrt(Z2 * 5 / 12)
    assert mean_interval([1, 2, 3, 4]) == pytest.approx((2.5 - half, 2.5 + half))
    assert mean_interval([0.5] * 9) == (0.5, 0.5)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=50))
def test_mean_interval_is_numpys(values):
    half = 1.959963984540054 * np.std(values, ddof=1) / math.sqrt(len(values))
    low, high = mean_interval(values)
    assert (low + high) / 2 == pytest.approx(np.mean(values), abs=1e-9)
    assert high - low == pytest.approx(2 * half, abs=1e-6)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_mean_interval_takes_two_values(values):
    with pytest.raises(ValueError, match=f"{len(values)} values"):
        mean_interval(values)


# -- rollouts --------------------------------------------------------------------------------------


def flat(rollout):
    arrays = [np.asarray(observation).tobytes() for observation in rollout.observations]
    infos = [{k: str(v) for k, v in info.items()} for info in rollout.infos]
    return arrays, infos, rollout.actions, rollout.rewards, rollout.propensities, rollout.return_


def test_play_repeats():
    env = acting(reward="milestones")
    first = play(env, OraclePolicy(noise=0.4), seed=5)
    play(env, RandomPolicy(), seed=6)
    assert flat(play(acting(reward="milestones"), OraclePolicy(noise=0.4), seed=5)) == flat(first)
    assert flat(play(env, OraclePolicy(noise=0.4), seed=7)) != flat(first)


def test_a_rollout_holds_what_happened():
    """T + 1 observations and infos, T actions, rewards and propensities."""
    for seed in range(20):
        rollout = play(acting(), OraclePolicy(noise=0.4), seed=seed)
        length = rollout.length
        assert len(rollout.observations) == len(rollout.infos) == length + 1
        assert len(rollout.actions) == len(rollout.rewards) == len(rollout.propensities) == length
        assert rollout.terminated != rollout.truncated
        assert rollout.return_ == pytest.approx(sum(rollout.rewards))
        assert rollout.final_info is rollout.infos[-1]
        assert all(0.0 < p <= 1.0 for p in rollout.propensities)
        slim = play(acting(), OraclePolicy(noise=0.4), seed=seed, keep=False)
        assert (slim.return_, slim.length, slim.observations) == (rollout.return_, length, [])


def test_a_propensity_is_the_probability_of_the_act():
    rollout = play(acting(), RandomPolicy(), seed=2)
    legal = [info["action_mask"].sum() for info in rollout.infos[:-1]]
    assert rollout.propensities == pytest.approx([1 / n for n in legal])


def test_deterministic_takes_the_likeliest_act():
    noisy = play(acting(), OraclePolicy(noise=0.4), seed=3, deterministic=True)
    exact = play(acting(), OraclePolicy(), seed=3)
    assert noisy.actions == exact.actions


# -- evaluation ------------------------------------------------------------------------------------


def test_evaluate_repeats_and_hears_of_progress():
    heard = []
    first = evaluate(KeywordPolicy(0.1), acting(), episodes=40, seed=3, progress=heard.append)
    assert heard == list(range(1, 41))
    again = evaluate(KeywordPolicy(0.1), acting(), episodes=40, seed=3)
    assert again == first
    assert evaluate(KeywordPolicy(0.1), acting(), episodes=40, seed=4) != first


def test_evaluate_counts():
    scored = evaluate(RandomPolicy(), acting(reward="graded"), episodes=50, split="validation")
    assert scored.successes + sum(scored.failures.values()) == scored.episodes == 50
    assert scored.success == scored.successes / 50
    assert scored.success_interval == wilson(scored.successes, 50)
    low, high = scored.return_interval
    assert low <= scored.return_ <= high
    assert scored.split == "validation"
    assert json.loads(json.dumps(scored.to_dict()))["policy"] == "random"
    assert "random" in str(scored)


def test_the_same_customers_whatever_the_policy():
    seen = {}
    for policy in (NULL_POLICIES["done"](), NULL_POLICIES["silence"]()):

        class Watched(gym.Wrapper):
            def reset(self, **keywords):
                observation, info = super().reset(**keywords)
                seen.setdefault(policy.name, []).append((observation, info["task_id"]))  # noqa: B023
                return observation, info

        evaluate(policy, Watched(gym.make(ID)), episodes=20, seed=1)
    done, silence = seen.values()
    assert done == silence
    assert [task for _, task in done] == [f"test-{i}" for i in range(20)]


@pytest.mark.parametrize(
    "keywords",
    [{"episodes": 1}, {"episodes": 0}, {"episodes": 2001}, {"split": "gold"}],
    ids=str,
)
def test_evaluate_refuses_what_it_cannot_play(keywords):
    with pytest.raises(InvalidConfiguration) as refused:
        evaluate(RandomPolicy(), acting(), **keywords)
    assert all(str(value) in str(refused.value) for value in keywords.values())
