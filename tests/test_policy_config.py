"""Configurations: through JSON and back, what is refused, learning rates by hand."""

import json

import pytest

from convgym.errors import InvalidConfiguration
from trainers.llm.credit import GroupRelative
from trainers.llm.objectives import PRESETS, Clip, KLPenalty, Objective, SamplerCorrection
from trainers.llm.policy_config import Critic, Overlong, PolicyOptimizerConfig, TrustRegion
from trainers.llm.sampling import Sampling

FULL = PolicyOptimizerConfig(
    objective=Objective(kl=KLPenalty(estimator="k2"), correction=SamplerCorrection()),
    sampling=Sampling(temperature=0.8),
    overlong=Overlong(longest=9, cache=3),
    critic=Critic(hidden=0),
    trust_region=TrustRegion(max_kl=0.2),
    max_grad_norm=None,
)


@pytest.mark.parametrize("objective", [*PRESETS, *PRESETS.values()], ids=lambda o: str(o)[:12])
def test_configurations_go_through_json(objective):
    config = PolicyOptimizerConfig(objective=objective, seed=3)
    stored = json.loads(json.dumps(config.to_dict()))
    assert PolicyOptimizerConfig.from_dict(stored) == config


def test_every_part_goes_through_json():
    assert PolicyOptimizerConfig.from_dict(json.loads(json.dumps(FULL.to_dict()))) == FULL
    assert PolicyOptimizerConfig.from_dict({}) == PolicyOptimizerConfig()


def test_inner_options_are_known_by_their_place():
    config = PolicyOptimizerConfig().changed(sampling={"max_tokens": 5}, trust_region={})
    assert config.sampling == Sampling(max_tokens=5) and config.trust_region == TrustRegion()
    again = config.changed(sampling={"temperature": 0.5}, overlong={"longest": 9, "cache": 3})
    assert again.sampling == Sampling(max_tokens=5, temperature=0.5)
    assert again.overlong == Overlong(longest=9, cache=3)
    assert PolicyOptimizerConfig.from_dict({"sampling": {"max_tokens": 5}}).sampling.max_tokens == 5


def test_names_that_there_are_not_get_a_hint():
    with pytest.raises(InvalidConfiguration, match="did you mean group_size"):
        PolicyOptimizerConfig.from_dict({"group_sice": 3})
    with pytest.raises(InvalidConfiguration, match="did you mean epochs"):
        FULL.changed(epoch=2)
    with pytest.raises(InvalidConfiguration, match="kind='Clap'"):
        PolicyOptimizerConfig.from_dict(
            {"objective": {"kind": "Objective", "clip": {"kind": "Clap"}}}
        )
    assert FULL.changed(epochs=2).epochs == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objective": "grop"}, "grpo"),
        ({"iterations": -1}, "iterations=-1; it must be 0 or more"),
        ({"group_size": 1}, "compares the rollouts of a group"),
        ({"group_size": 1, "resample": 2, "objective": "ppo"}, "looks for groups with spread"),
        ({"objective": "a2c", "epochs": 2}, "both must be 1"),
        ({"schedule": "step"}, "constant, linear, cosine"),
        ({"recompute_old": "maybe"}, "auto, always, never"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"learning_rate": "x"}, "learning_rate='x'; it takes a finite number"),
        ({"learning_rate": float("inf")}, "a finite number"),
        ({"group_size": 2.5}, "group_size='2.5'; it takes a whole number"),
        ({"skip_zero_advantages": 1}, "True or False"),
        ({"overlong": 3}, "it takes an Overlong"),
        ({"max_turns": True}, "a whole number"),
        ({"max_grad_norm": 0.0}, "or None"),
        ({"sampling": Sampling(temperature=0.0)}, "nothing can be learnt"),
        ({"evaluation_episodes": 2_000_000}, "where the seeds of training begin"),
    ],
    ids=str,
)
def test_values_that_are_not_allowed(given, said):
    with pytest.raises(InvalidConfiguration, match=said):
        PolicyOptimizerConfig(**given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Overlong, {"longest": 3, "cache": 4}),
        (Overlong, {"longest": 3, "cache": 0}),
        (Critic, {"hidden": -1}),
        (Critic, {"learning_rate": 0}),
    ],
    ids=str,
)
def test_parts_that_are_not_allowed(kind, given):
    with pytest.raises(InvalidConfiguration):
        kind(**given)


def test_learning_rates_by_hand():
    linear = PolicyOptimizerConfig(
        learning_rate=1.0, warmup=4, schedule="linear", iterations=5, minibatches=2
    )
    rates = [linear.rate(step) for step in (0, 1, 3, 5, 10, 12)]
    assert rates == pytest.approx([0.25, 0.5 * 0.9, 0.7, 0.5, 0, 0])
    cosine = PolicyOptimizerConfig(learning_rate=2.0, schedule="cosine", iterations=8)
    assert [cosine.rate(s) for s in (0, 4, 8)] == pytest.approx([2.0, 1.0, 0.0])
    assert PolicyOptimizerConfig(learning_rate=3.0).rate(10**6) == 3.0


def test_the_objective_may_be_a_name_or_a_value():
    assert PolicyOptimizerConfig(objective="gspo").goal is PRESETS["gspo"]
    own = Objective(credit=GroupRelative(scale="none"), clip=Clip(low=0.1))
    assert PolicyOptimizerConfig(objective=own).goal is own
