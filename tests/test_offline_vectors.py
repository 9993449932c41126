"""Every learner over vectors: known values, tasks to be learnt, resuming, policies, options."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from vectored import EVERY, WITH_Q, PointMass, acted, config, episode, q, single_turns  # noqa: E402

from convgym.errors import DatasetError, InvalidConfiguration  # noqa: E402
from trainers.offline.algorithms.td3_bc import TD3BCConfig  # noqa: E402
from trainers.offline.algorithms.vector_bc import VectorBCConfig  # noqa: E402
from trainers.offline.algorithms.vector_bcq import VectorBCQConfig  # noqa: E402
from trainers.offline.algorithms.vector_bear import VectorBEARConfig  # noqa: E402
from trainers.offline.algorithms.vector_cql import VectorCQLConfig  # noqa: E402
from trainers.offline.algorithms.vector_iql import VectorIQLConfig  # noqa: E402
from trainers.offline.config import Shapes  # noqa: E402
from trainers.offline.registry import config_from_dict  # noqa: E402
from trainers.offline.vector_policy import VectorPolicy  # noqa: E402

torch.set_num_threads(1)


# Known values


def probes():
    """Small decision processes in one data set, each with states of its own (one-hot)."""
    rng, states, made = np.random.default_rng(0), np.eye(8), []
    for _ in range(40):
        a = rng.uniform(-0.8, 0.8, size=(6, 1))
        made += [
            episode([states[0], states[7]], a[:1], [1.0]),  # constant
            episode([states[1], states[7]], a[1:2], [-0.5]),  # depends on what is seen
            episode([states[2], states[3], states[7]], a[2:4], [0.0, 1.0]),  # two turns
            episode([states[4], states[4]], a[4:5], [1.0], cut=True),  # cut off: goes on for ever
            episode([states[5], states[7]], a[5:6], a[5]),  # depends on what is done
        ]
    return made


@pytest.mark.parametrize("name", WITH_Q)
def test_values_of_probes_are_the_known_ones(name):
    neutral = {"cql": {"cql_alpha": 0.0}, "bcq": {"num_samples": 5}, "bear": {"num_samples": 5}}
    learner = config(name, discount=0.5, target_rate=0.1, **neutral.get(name, {})).create()
    learner.fit(probes(), 650)
    states, done = np.eye(8), np.zeros((1, 1))
    found = {s: float(q(learner, states[s : s + 1], done)) for s in range(5)}
    known = {0: 1.0, 1: -0.5, 2: 0.5, 3: 1.0, 4: 2.0}
    assert found == {s: pytest.approx(v, abs=0.05) for s, v in known.items()}
    for a in (-0.6, 0.0, 0.6):
        assert float(q(learner, states[5:6], [[a]])) == pytest.approx(a, abs=0.05)


# Learning


LEARNS = {
    "bc": {"best": 0.1},
    "bcq": {"vae_kl_weight": 0.1, "perturbation_limit": 0.2},
    "bear": {"sigma": 1.0, "lagrange_threshold": 0.5},
    "cql": {"cql_alpha": 0.1},
    "iql": {"expectile": 0.9, "temperature": 10.0},
    "td3_bc": {"alpha": 10.0},
}


@pytest.mark.parametrize("name", EVERY)
def test_every_learner_learns_to_steer(name):
    """Best −0.45; who stands still earns −3.75."""
    task = PointMass()
    policy = config(name, discount=0.9, **LEARNS[name]).create().fit(task.record(), 450)
    assert task.score(policy) > {"bc": -2.2}.get(name, -1.5)


def test_bounds_of_the_space_are_those_of_the_policy():
    task = PointMass(low=-2.0, high=6.0)
    shapes = Shapes(1, 1, False, np.float32([-2.0]), np.float32([6.0]))
    learner = config("iql", discount=0.9, **LEARNS["iql"]).create()
    policy = learner.fit(task.record(), 450, shapes=shapes)
    assert task.score(policy) > -1.5
    with pytest.raises(DatasetError, match="reach from"):
        config("bc").create().build(task.record(20))
    endless = dataclasses.replace(shapes, high=np.float32([np.inf]))
    with pytest.raises(InvalidConfiguration, match="finite bounds"):
        config("bc").create().build(task.record(20), endless)


def test_a_gaussian_clone_learns_how_widely_actions_scatter():
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(2000, 1))
    done = np.stack([rng.normal(0.3, 0.1, 2000), rng.normal(-0.2, 0.3, 2000)], axis=1).clip(-1, 1)
    policy = config("bc", policy="gaussian").create()
    policy = policy.fit(single_turns(seen, done, np.zeros(2000)), 900)
    drawn = []
    for seed in range(400):
        policy.reset(seed)
        drawn.append(policy.predict(np.float32([0.0]))[0])
    assert np.mean(drawn, axis=0) == pytest.approx([0.3, -0.2], abs=0.06)
    assert np.std(drawn, axis=0) == pytest.approx([0.1, 0.3], abs=0.05)


# One run, again


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_weights_and_a_resumed_run_ends_alike(name, tmp_path):
    data = PointMass().record(20)
    made = config(name)
    first, second = made.create(), made.create()
    first.fit(data, 30, report_every=10)
    second.fit(data, 11, report_every=10, checkpoint=tmp_path / "run.zip")
    resumed = made.create()
    resumed.fit(data, 30, report_every=10, checkpoint=tmp_path / "run.zip")
    states = [x.algorithm.parts.state_dict() for x in (first, resumed)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert first.history[-1] == resumed.history[-1]
    other = dataclasses.replace(made, seed=1).create()
    other.fit(data, 30)
    assert not all(
        torch.equal(states[0][key], value)
        for key, value in other.algorithm.parts.state_dict().items()
    )


@pytest.mark.parametrize("name", [*EVERY, "gaussian"])
def test_a_policy_saved_loaded_and_batched_does_the_same(name, tmp_path):
    made = config("bc", policy="gaussian") if name == "gaussian" else config(name)
    policy = made.create().fit(PointMass().record(20), 60)
    policy.save(tmp_path / "policy.zip")
    loaded = VectorPolicy.load(tmp_path / "policy.zip")
    loaded.save(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "policy.zip").read_bytes()
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 3, 1)).astype(np.float32)  # four turns of three conversations
    for deterministic in (False, True):
        batched = loaded.batched()
        batched.begin(np.arange(3), [5, 6, 7])
        masks = np.ones((3, 1), dtype=np.int8)
        together = [batched.actions(r, masks, np.arange(3), deterministic) for r in rows]
        for place, seed in enumerate((5, 6, 7)):
            policy.reset(seed)
            loaded.reset(seed)
            for turn in range(4):
                action, _ = policy.predict(rows[turn, place], deterministic=deterministic)
                assert action.dtype == np.float32 and action.shape == (1,)
                again, _ = loaded.predict(rows[turn, place], deterministic=deterministic)
                assert np.array_equal(action, again)
                assert action == pytest.approx(together[turn][place], abs=1e-5)


def test_the_policy_in_numpy_is_the_network_in_torch():
    learner = config("td3_bc").create()
    policy = learner.fit(PointMass().record(20), 60)
    seen = np.random.default_rng(0).normal(size=(20, 1)).astype(np.float32)
    with torch.no_grad():
        theirs = learner.algorithm.actor(torch.as_tensor(seen))[0].tanh().numpy()
    assert np.allclose(acted(policy, seen), theirs, atol=1e-6)


def test_other_files_are_no_vector_policies(tmp_path):
    (tmp_path / "no.zip").write_bytes(b"nothing")
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        VectorPolicy.load(tmp_path / "no.zip")


# Options


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (VectorBCConfig, {"policy": "stochastic"}),
        (VectorBCConfig, {"best": 0.0}),
        (TD3BCConfig, {"policy_delay": 0}),
        (VectorIQLConfig, {"expectile": 1.0}),
        (VectorIQLConfig, {"expectile": 0.3}),
        (VectorBCQConfig, {"vae_latent_size": 0}),
        (VectorBCQConfig, {"minimum_weight": 1.5}),
        (VectorBEARConfig, {"kernel": "rbf"}),
        (VectorBEARConfig, {"sigma": 0.0}),
        (VectorBEARConfig, {"mmd_samples": 1}),
        (VectorCQLConfig, {"random_actions": 0}),
        (VectorCQLConfig, {"target_rate": 0.0}),
    ],
    ids=str,
)
def test_an_option_out_of_range_is_refused_by_name(made, wrong):
    name, value = next(iter(wrong.items()))
    with pytest.raises(InvalidConfiguration) as refused:
        made(**wrong)
    assert name in str(refused.value) and str(value) in str(refused.value)


@pytest.mark.parametrize("name", EVERY)
def test_options_go_to_plain_values_and_back(name):
    made = config(name, seed=3, discount=0.9)
    assert config_from_dict(made.to_dict()) == made


@pytest.mark.slow
def test_bfloat16_learns_alike():
    task = PointMass()
    made = config("td3_bc", discount=0.9, alpha=10.0, precision="bfloat16")
    assert task.score(made.create().fit(task.record(), 600)) > -1.5
