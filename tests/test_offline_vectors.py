"""Learners over vectors: known values, known faults of others, small tasks that must be learnt."""

import dataclasses
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from convgym.data.transitions import EpisodeArrays, returns_to_go  # noqa: E402
from convgym.errors import DatasetError, InvalidConfiguration  # noqa: E402
from trainers.offline.algorithms.td3_bc import TD3BCConfig  # noqa: E402
from trainers.offline.algorithms.vector_bc import VectorBCConfig  # noqa: E402
from trainers.offline.algorithms.vector_bcq import VectorBCQConfig  # noqa: E402
from trainers.offline.algorithms.vector_bear import VectorBEARConfig  # noqa: E402
from trainers.offline.algorithms.vector_cql import VectorCQLConfig  # noqa: E402
from trainers.offline.algorithms.vector_iql import VectorIQLConfig  # noqa: E402
from trainers.offline.config import Shapes  # noqa: E402
from trainers.offline.registry import VECTORS, config_from_dict, config_of  # noqa: E402
from trainers.offline.vector_networks import VectorActions, normal, values  # noqa: E402
from trainers.offline.vector_policy import VectorPolicy  # noqa: E402

torch.set_num_threads(1)
SMALL = {"hidden": (32, 32), "batch_size": 64, "learning_rate": 3e-3}
EVERY = sorted(VECTORS)
WITH_Q = [name for name in EVERY if name != "bc"]


def episode(observations, actions, rewards, *, cut=False, discount=1.0):
    rewards = np.asarray(rewards, dtype=np.float64)
    return EpisodeArrays(
        np.asarray(observations, dtype=np.float32), np.asarray(actions, dtype=np.float32),
        rewards, not cut, cut, returns_to_go(rewards, discount),
    )  # fmt: skip


def single_turns(observations, actions, rewards):
    """An episode of one turn for each row."""
    return [
        episode([o, np.zeros_like(o)], [a], [r])
        for o, a, r in zip(observations, actions, rewards, strict=True)
    ]


def config(name, **options):
    options = {**SMALL, **options}
    if name != "bc":
        options.setdefault("target_rate", 0.05)
    return config_of(name, discrete=False)(**options)


def q(learner, observations, actions):
    """Mean of both critics.  (n,)"""
    algorithm = learner.algorithm
    with torch.no_grad():
        return values(
            algorithm.critic,
            torch.as_tensor(np.asarray(observations, dtype=np.float32)),
            algorithm.actions.unit(torch.as_tensor(np.asarray(actions, dtype=np.float32))),
        ).mean(0)


def acted(policy, observations, **keywords):
    """What it does at each observation, without chance.  (n, d)"""
    policy.reset(0)
    return np.array([policy.predict(o, deterministic=True, **keywords)[0] for o in observations])


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
    learner = config(name, discount=0.5, **neutral.get(name, {})).create()
    learner.fit(probes(), 1500)
    states, done = np.eye(8), np.zeros((1, 1))
    found = {s: float(q(learner, states[s : s + 1], done)) for s in range(5)}
    known = {0: 1.0, 1: -0.5, 2: 0.5, 3: 1.0, 4: 2.0}
    assert found == {s: pytest.approx(v, abs=0.05) for s, v in known.items()}
    for a in (-0.6, 0.0, 0.6):
        assert float(q(learner, states[5:6], [[a]])) == pytest.approx(a, abs=0.05)


# BEAR


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_bear_does_the_action_that_the_data_always_show(kernel):
    """d3rlpy's squashes it twice and does 0.61."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(300, 2))
    data = single_turns(seen, np.full((300, 1), 0.9), np.zeros(300))
    policy = config("bear", kernel=kernel, sigma=1.0).create().fit(data, 700)
    assert abs(acted(policy, seen[:50]).mean() - 0.9) < 0.03


@pytest.mark.parametrize(("kernel", "sigma"), [("gaussian", 1.0), ("laplacian", 1.0)])
def test_bear_stays_by_the_data_where_reward_pulls_away(kernel, sigma):
    """Data at −0.5, reward = a. d3rlpy's runs to +0.35 while α grows to no effect."""
    rng = np.random.default_rng(0)
    seen, done = rng.normal(size=(300, 2)), rng.normal(-0.5, 0.05, size=(300, 1))
    epsilon = 0.2
    learner = config(
        "bear", kernel=kernel, sigma=sigma, lagrange_threshold=epsilon, alpha_learning_rate=0.02,
        initial_alpha=0.01,
    ).create()  # fmt: skip
    policy = learner.fit(single_turns(seen, done, done[:, 0]), 1500, report_every=50)
    late = learner.history[-10:]
    assert np.mean([row["mmd"] for row in late]) <= 1.1 * epsilon
    assert late[-1]["alpha"] > 0.05, "it had to rise to hold"
    actions = acted(policy, seen[:50])
    assert -0.6 < actions.mean() < -0.1
    assert q(learner, seen[:50], np.full((50, 1), 0.5)).mean() > q(
        learner, seen[:50], np.full((50, 1), -0.5)
    ).mean(), "the critic itself would go up"


def test_bears_multiplier_rises_where_violated_and_falls_where_slack():
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(200, 2))
    data = single_turns(seen, np.full((200, 1), 0.9), np.zeros(200))
    violated = config("bear", sigma=1.0, lagrange_threshold=1e-4).create()
    violated.fit(data, 60, report_every=20)
    assert [row["alpha"] > 1.0 for row in violated.history] == [True] * 3
    slack = config("bear", sigma=1.0, lagrange_threshold=1.5).create()
    slack.fit(data, 60, report_every=20)
    assert [row["alpha"] < 1.0 for row in slack.history] == [True] * 3


def test_bears_actor_gradient_is_the_q_term_and_alpha_times_that_of_mmd():
    """d3rlpy's step of α leaves −∂MMD in the actor, which cancels the penalty."""
    rng = np.random.default_rng(0)
    seen, done = rng.normal(size=(64, 2)), rng.uniform(-0.5, 0.5, size=(64, 1))
    still = {"learning_rate": 1e-30, "vae_learning_rate": 1e-30, "alpha_learning_rate": 1e-30}
    learner = config("bear", initial_alpha=3.0, **still).create()
    turns = learner.build(single_turns(seen, done, done[:, 0]))
    algorithm, batch = learner.algorithm, turns[torch.arange(64)]
    algorithm.update(batch, torch.Generator().manual_seed(5), 1)

    again = torch.Generator().manual_seed(5)
    normal((64, algorithm.vae.latent), again)
    algorithm.targets(batch, again)
    liked, apart = algorithm.actor_terms(batch, again)
    weights = list(algorithm.actor.parameters())
    of_q = torch.autograd.grad(liked, weights, retain_graph=True)
    of_mmd = torch.autograd.grad(apart, weights)
    assert max(float(g.abs().max()) for g in of_mmd) > 1e-4
    for weight, up, away in zip(weights, of_q, of_mmd, strict=True):
        assert torch.allclose(weight.grad, -up + 3.0 * away, atol=1e-6)
    epsilon = learner.config.lagrange_threshold
    assert float(algorithm.alpha.log.grad) == pytest.approx(epsilon - float(apart.detach()), abs=1e-6)
    assert len(algorithm.optimizers["alpha"].param_groups[0]["params"]) == 1


# TD3+BC, BCQ, CQL


def test_td3_bc_without_its_critic_is_the_clone():
    rng = np.random.default_rng(0)
    seen = rng.uniform(-1, 1, size=(400, 2))
    done = np.sin(2 * seen[:, :1]) * 0.8
    data = single_turns(seen, done, -done[:, 0])  # reward pulls away
    clone = config("bc").create().fit(data, 800)
    for alpha, steps in ((0.0, 1600), (0.001, 1600)):
        policy = config("td3_bc", alpha=alpha).create().fit(data, steps)
        assert np.square(acted(policy, seen[:100]) - acted(clone, seen[:100])).mean() < 0.01
    pulled = config("td3_bc", alpha=100.0).create().fit(data, 1600)
    assert np.square(acted(pulled, seen[:100]) - acted(clone, seen[:100])).mean() > 0.1


def two_modes(count=600):
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(count, 2))
    done = np.where(rng.random((count, 1)) < 0.5, -0.7, 0.7) + rng.normal(0, 0.02, (count, 1))
    return seen, done


def test_bcq_rebuilds_actions_keeps_both_modes_and_moves_them_no_further_than_its_limit():
    seen, done = two_modes()
    learner = config("bcq", vae_kl_weight=0.1, perturbation_limit=0.1).create()
    learner.fit(single_turns(seen, done, done[:, 0]), 1500)
    algorithm, rows = learner.algorithm, torch.as_tensor(seen, dtype=torch.float32)
    known = torch.as_tensor(done, dtype=torch.float32)
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        heads = algorithm.vae.encoder(torch.cat([rows, known], dim=1))[0]
        rebuilt = algorithm.vae.decode(rows, heads.chunk(2, dim=1)[0][:, None])[:, 0]
        proposals = algorithm.vae.sample(rows, 20, chance)
        moved = algorithm.moved(algorithm.shift, rows, proposals)
    assert (rebuilt - known).abs().mean() < 0.1
    near = [(proposals - mode).abs().lt(0.2).float().mean().item() for mode in (-0.7, 0.7)]
    assert min(near) > 0.25
    assert ((moved - proposals).abs() <= 0.1 + 1e-6).all()
    assert (moved - proposals).mean() > 0.05, "and it moves them up, where reward is"
    clone = config("bc").create().fit(single_turns(seen, done, done[:, 0]), 600)
    assert np.abs(acted(clone, seen[:50])).mean() < 0.3, "a clone does what lies between"


def test_bcq_takes_the_better_mode():
    seen, done = two_modes()
    policy = config("bcq", vae_kl_weight=0.1).create()
    best = policy.fit(single_turns(seen, done, done[:, 0]), 1000)
    assert abs(acted(best, seen[:50]).mean() - 0.75) < 0.1


def test_bcq_lets_its_vae_learn_first():
    seen, done = two_modes(128)
    learner = config("bcq", vae_epochs=3).create()
    learner.build(single_turns(seen, done, done[:, 0]))
    critic = [p.clone() for p in learner.algorithm.critic.parameters()]
    learner.fit(single_turns(seen, done, done[:, 0]), 6, report_every=6)  # 2 batches an epoch
    assert learner.history[0].keys() == {"step", "vae_loss"}
    assert all(map(torch.equal, critic, learner.algorithm.critic.parameters()))
    learner.fit(single_turns(seen, done, done[:, 0]), 7)
    assert not all(map(torch.equal, critic, learner.algorithm.critic.parameters()))


def narrow(count=300):
    """Actions about −0.4 with reward a: values beyond are never seen."""
    rng = np.random.default_rng(0)
    seen, done = rng.normal(size=(count, 2)), rng.normal(-0.4, 0.1, (count, 1)).clip(-1, 1)
    return seen, done


def test_cql_holds_actions_in_that_soft_actor_critic_lets_go():
    seen, done = narrow()
    data = single_turns(seen, done, done[:, 0])
    found = {}
    for alpha in (0.0, 1.0, 10.0):
        learner = config("cql", cql_alpha=alpha).create()
        found[alpha] = acted(learner.fit(data, 800), seen[:50]).mean()
    assert found[0.0] > 0.5
    assert abs(found[10.0] + 0.4) < 0.15
    assert found[10.0] <= found[1.0] <= found[0.0]


def test_cqls_learnt_weight_holds_the_gap():
    seen, done = narrow()
    learner = config(
        "cql", lagrange_threshold=0.2, alpha_learning_rate=0.02, cql_alpha=0.1
    ).create()
    learner.fit(single_turns(seen, done, done[:, 0]), 1500, report_every=100)
    assert learner.history[-1]["conservative_gap"] == pytest.approx(0.2, abs=0.15)
    assert learner.history[-1]["alpha"] != pytest.approx(0.1)


def test_cal_ql_holds_no_value_of_the_policy_below_what_the_data_earned():
    rng = np.random.default_rng(0)
    seen, done = rng.normal(size=(64, 2)), rng.uniform(-0.5, 0.5, size=(64, 1))
    data = single_turns(seen, done, np.full(64, 50.0))  # above every value of a new critic
    plain, calibrated = config("cql"), config("cql", calibrated=True)
    learners = [c.create() for c in (plain, calibrated)]
    batch = learners[0].build(data)[torch.arange(64)]
    learners[1].build(data)
    without, floored = (
        one.algorithm.integral(batch, torch.Generator().manual_seed(0)) for one in learners
    )
    assert learners[1].algorithm.policy().name == "Cal-QL"
    assert (without < 10.0).all() and (floored > 40.0).all()
    actor_free = torch.autograd.grad(floored.sum(), learners[1].algorithm.critic.weights[0])[0]
    assert actor_free.abs().max() < 1e-12, "what is above the floor's reach is not pushed down"
    # With returns far below, nothing is floored.
    batch["returns_to_go"] -= 1000.0
    assert torch.equal(
        learners[1].algorithm.integral(batch, torch.Generator().manual_seed(0)), without
    )


def test_cql_refuses_vectors_of_many_entries_with_the_reason():
    data = single_turns(np.zeros((4, 2)), np.zeros((4, 65)), np.zeros(4))
    with pytest.raises(InvalidConfiguration, match="65 entries.*candidate_cql"):
        config("cql").create().build(data)
    config("td3_bc").create().build(data)


# Learning


class PointMass:
    """x goes to x + 0.4 a; reward −|x|; five turns from ±1."""

    def __init__(self, low=-1.0, high=1.0):
        self.low, self.high = low, high

    def play(self, choose, start, seed=0):
        x, seen, done, rewards = start, [[start]], [], []
        for _ in range(5):
            action = np.clip(choose(np.array([x], dtype=np.float32)), self.low, self.high)
            unit = (action[0] - self.low) / (self.high - self.low) * 2 - 1
            x = x + 0.4 * unit
            seen.append([x])
            done.append(action)
            rewards.append(-abs(x))
        return episode(seen, done, rewards, discount=0.9)

    def record(self, count=200):
        rng = np.random.default_rng(0)
        return [
            self.play(lambda o: rng.uniform(self.low, self.high, 1), rng.uniform(-1, 1))
            for _ in range(count)
        ]

    def score(self, policy):
        total = 0.0
        for start in (-1.0, -0.5, 0.5, 1.0):
            policy.reset(0)
            played = self.play(lambda o: policy.predict(o, deterministic=True)[0], start)
            total += played.rewards.sum() / 4
        return total


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
    """Best −0.95; uniformly random −3.2, from the same starts."""
    task = PointMass()
    policy = config(name, discount=0.9, **LEARNS[name]).create().fit(task.record(), 1200)
    assert task.score(policy) > {"bc": -2.2}.get(name, -1.5)


def test_bounds_of_the_space_are_those_of_the_policy():
    task = PointMass(low=-2.0, high=6.0)
    shapes = Shapes(1, 1, False, np.float32([-2.0]), np.float32([6.0]))
    for name in ("bc", "iql"):
        learner = config(name, discount=0.9, **LEARNS[name]).create()
        policy = learner.fit(task.record(), 1200, shapes=shapes)
        assert task.score(policy) > {"bc": -2.2, "iql": -1.5}[name]
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
    policy = policy.fit(single_turns(seen, done, np.zeros(2000)), 1200)
    drawn = []
    for seed in range(400):
        policy.reset(seed)
        drawn.append(policy.predict(np.float32([0.0]))[0])
    assert np.mean(drawn, axis=0) == pytest.approx([0.3, -0.2], abs=0.06)
    assert np.std(drawn, axis=0) == pytest.approx([0.1, 0.3], abs=0.05)


# Candidates


def candidates_of_four():
    return np.float32([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def test_an_action_is_decoded_to_the_nearest_legal_candidate():
    shapes = Shapes(2, 2, False, -np.ones(2), np.ones(2), candidates_of_four())
    data = config("bc").create().read(single_turns(np.zeros((2, 2)), np.zeros((2, 2)), [0, 0]))
    space = VectorActions(shapes, data)
    actions = torch.tensor([[0.2, 0.1], [-0.1, -0.9], [0.3, 0.29]], requires_grad=True)
    done = space.decoded(actions)
    assert done.tolist() == [[1.0, 0.0], [0.0, -1.0], [1.0, 0.0]]
    done.sum().backward()
    assert actions.grad.tolist() == [[1.0, 1.0]] * 3, "gradients go straight through"
    masks = torch.tensor([[False, True, True, True]] * 3)
    assert space.decoded(actions, masks).tolist() == [[0.0, 1.0], [0.0, -1.0], [0.0, 1.0]]
    numpy_twin = space.space().of(actions.detach().numpy()[:, None], masks.numpy())[:, 0]
    assert numpy_twin.tolist() == space.decoded(actions, masks).tolist()


@pytest.mark.parametrize("name", ["td3_bc", "bcq", "bear", "cql", "iql"])
def test_decoded_actions_are_learnt_from_and_done(name):
    """Reward of four candidates; the third is best, and a vector between two is worth nothing."""
    table, rng = candidates_of_four(), np.random.default_rng(0)
    worth = np.array([0.0, 0.2, 1.0, 0.4])
    acts = rng.integers(4, size=400)
    seen = rng.normal(size=(400, 2))
    data = single_turns(seen, table[acts], worth[acts])
    shapes = Shapes(2, 2, False, -np.ones(2), np.ones(2), table)
    more = {"td3_bc": {"alpha": 20.0}, "iql": {"temperature": 10.0}, "cql": {"cql_alpha": 0.1},
            "bcq": {"vae_kl_weight": 0.05}, "bear": {"sigma": 1.0, "lagrange_threshold": 1.0}}  # fmt: skip
    policy = config(name, **more[name]).create().fit(data, 1000, shapes=shapes)
    done = acted(policy, seen[:40])
    assert all(any(np.array_equal(row, candidate) for candidate in table) for row in done)
    assert np.mean([np.array_equal(row, table[2]) for row in done]) > 0.9
    masked = acted(policy, seen[:40], action_masks=np.array([1, 1, 0, 1]))
    assert not any(np.array_equal(row, table[2]) for row in masked)


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
    assert not math.isnan(made.learning_rate)


def test_bfloat16_learns_alike():
    task = PointMass()
    made = config("td3_bc", discount=0.9, alpha=10.0, precision="bfloat16")
    assert task.score(made.create().fit(task.record(), 1200)) > -1.5
