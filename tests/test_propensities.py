"""Propensities: what is stored is what the policies say, and what the mixture would say."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convgym  # noqa: F401  registers the environments
from convgym.data.collection import collect_episodes
from convgym.data.episodes import write_dataset
from convgym.data.mixture import BatchMixture
from convgym.data.propensities import (
    check_propensities,
    distributions,
    mixture_propensities,
    posterior_mean,
)
from convgym.data.transitions import read_episodes
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.policies.batched import BatchRandomPolicy, RowPolicies
from convgym.policies.null import FixedReplies
from convgym.policies.policy import RandomPolicy
from convgym.policies.roster import by_the_book, ladder

minari = pytest.importorskip("minari")

DOMAINS = {
    "customer-service": "ConvGym/CustomerService-v0",
    "technical-support": "ConvGym/TechnicalSupport-v0",
    "sales": "ConvGym/Sales-v0",
}
WEIGHTS = (0.3, 0.4, 0.2, 0.1)


def singles(domain):
    """A random one, a noisy script, one without noise, and one that counts its turns."""
    rungs, book = ladder(domain), by_the_book(domain)
    counting = next(iter(book.values())) if book else rungs["keyword"]
    return [RandomPolicy(), rungs["planner"](0.2), rungs["slot-filling"](0.0), counting()]


def batched(domain):
    rungs, book = ladder(domain), by_the_book(domain)
    return [
        BatchRandomPolicy(),
        RowPolicies(lambda: rungs["planner"](0.2)),
        RowPolicies(lambda: rungs["slot-filling"](0.0)),
        RowPolicies(next(iter(book.values())) if book else rungs["keyword"]),
    ]


def collected(domain, **keywords):
    settings = {"observation": "features", "action": "act", "max_turns": 8, **keywords}
    envs = gym.make_vec(DOMAINS[domain], num_envs=8, **settings)
    mixture = BatchMixture(list(zip(batched(domain), WEIGHTS, strict=True)))
    if settings["action"] == "text":
        mixture = RowPolicies(lambda: FixedReplies("talker", ("Hello.",)))
    return write_dataset(
        f"convgym/{domain}-{len(keywords)}-v0",
        gym.make(DOMAINS[domain], **settings),
        collect_episodes(envs, mixture, 30, seed=2),
        description="A few conversations.",
        ref_min_score=0.0,
        ref_max_score=1.0,
        algorithm_name=mixture.name,
    )


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


# What is stored


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_policies_that_played_say_what_is_stored(domain):
    dataset = collected(domain)
    played = {episode.policy for episode in read_episodes(dataset)}
    assert played == {0, 1, 2, 3}
    for policies in (singles(domain), batched(domain)):
        assert check_propensities(dataset, policies, tolerance=1e-12) == dataset.total_steps


def test_single_and_batched_policies_have_the_same_distributions():
    for episode in read_episodes(collected("customer-service", observation="dict")):
        for one, many in zip(
            singles("customer-service"), batched("customer-service"), strict=True
        ):
            expected = distributions(one, episode)
            assert expected.shape == (len(episode), episode.masks.shape[1])
            assert np.array_equal(distributions(many, episode), expected)


def test_other_policies_are_found_out():
    dataset = collected("customer-service")
    policies = singles("customer-service")
    policies[1].noise = 0.3
    with pytest.raises(DatasetError, match=r"turn \d+: .* gives the act taken what is stored"):
        check_propensities(dataset, policies)
    with pytest.raises(DatasetError, match="was played by policy"):
        check_propensities(dataset, singles("customer-service")[:2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda odds, legal: odds * 0.9, "sums to 1"),
        (lambda odds, legal: np.full(len(odds), 1 / len(odds)), "illegal acts nothing"),
        (lambda odds, legal: odds * np.nan, "sums to 1"),
    ],
)
def test_a_distribution_that_is_none_is_found_out(change, message):
    class Broken(RandomPolicy):
        def action_probs(self, observation, action_masks):
            return change(super().action_probs(observation, action_masks), action_masks)

    with pytest.raises(DatasetError, match=message):
        check_propensities(collected("sales"), [Broken()] * 4)


def test_texts_and_policies_that_cannot_say_are_refused():
    talk = collected("sales", action="text", observation="message")
    with pytest.raises(DatasetError, match="no acts with their masks"):
        check_propensities(talk, singles("sales"))
    episode = read_episodes(collected("sales"))[0]
    with pytest.raises(InvalidConfiguration, match="'talker' cannot say"):
        distributions(FixedReplies("talker", ("Hello.",)), episode)
    with pytest.raises(InvalidConfiguration, match="4 policies have 2 weights"):
        mixture_propensities(episode, singles("sales"), [0.5, 0.5])


# The mixture


def test_the_posterior_by_hand():
    """Two policies, equally likely; the first turn is four times as likely under the first."""
    means = posterior_mean(np.array([[0.8, 0.2], [0.5, 0.1], [0.0, 1.0]]), [0.5, 0.5])
    second = 0.8 * 0.5 + 0.2 * 0.1
    left = 0.2 * 0.1 / second
    assert means == pytest.approx([0.5, second, left * 1.0])


@given(data=st.data(), turns=st.integers(1, 30), policies=st.integers(1, 4))
def test_the_product_over_turns_is_the_probability_of_the_episode(data, turns, policies):
    odds = st.floats(0.01, 1.0)
    rows = st.lists(st.lists(odds, min_size=policies, max_size=policies), min_size=turns,
                    max_size=turns)  # fmt: skip
    likelihoods = np.array(data.draw(rows))
    weights = np.array(data.draw(st.lists(odds, min_size=policies, max_size=policies)))
    weights = weights / weights.sum()
    means = posterior_mean(likelihoods, weights)
    assert means.prod() == pytest.approx(weights @ likelihoods.prod(axis=0), rel=1e-9)
    assert (means >= likelihoods.min(axis=1) - 1e-12).all()
    assert (means <= likelihoods.max(axis=1) + 1e-12).all()


def test_long_episodes_do_not_underflow():
    means = posterior_mean(np.full((5000, 2), [0.1, 0.2]), [0.5, 0.5])
    assert means[0] == pytest.approx(0.15) and means[-1] == pytest.approx(0.2)


def test_the_mixture_of_recorded_episodes_matches_a_plain_sum():
    policies = singles("customer-service")
    for episode in read_episodes(collected("customer-service"))[:10]:
        came = mixture_propensities(episode, policies, WEIGHTS)
        whole = 0.0
        for policy, weight in zip(policies, WEIGHTS, strict=True):
            policy.reset(0)
            for t, action in enumerate(episode.actions):
                weight *= policy.action_probs(episode.observations[t], episode.masks[t])[action]
            whole += weight
        assert came.prod() == pytest.approx(whole, rel=1e-9) and came.shape == (len(episode),)


def test_acts_that_nobody_could_have_done_are_named():
    with pytest.raises(DatasetError, match="turn 1"):
        posterior_mean(np.array([[1.0, 0.0], [0.0, 1.0]]), [0.5, 0.5])
