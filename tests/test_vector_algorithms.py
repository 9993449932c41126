"""What each learner over vectors must do by its paper, and what other libraries get wrong."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from vectored import acted, config, q, single_turns  # noqa: E402

from convgym.errors import InvalidConfiguration  # noqa: E402
from trainers.offline.config import Shapes  # noqa: E402
from trainers.offline.vector_networks import VectorActions, normal  # noqa: E402

torch.set_num_threads(1)


# BEAR


BOTH_KERNELS = pytest.mark.parametrize(
    "kernel",
    ["gaussian", pytest.param("laplacian", marks=pytest.mark.slow)],  # 5 s together
)


@BOTH_KERNELS
def test_bear_does_the_action_that_the_data_always_show(kernel):
    """d3rlpy's squashes it twice and does 0.61."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(300, 2))
    data = single_turns(seen, np.full((300, 1), 0.9), np.zeros(300))
    policy = config("bear", kernel=kernel, sigma=1.0).create().fit(data, 500)
    assert abs(acted(policy, seen[:50]).mean() - 0.9) < 0.03


@BOTH_KERNELS
def test_bear_stays_by_the_data_where_reward_pulls_away(kernel):
    """Data at −0.5, reward = a. d3rlpy's runs to +0.35 while α grows to no effect."""
    rng = np.random.default_rng(0)
    seen, done = rng.normal(size=(300, 2)), rng.normal(-0.5, 0.05, size=(300, 1))
    epsilon = 0.2
    learner = config(
        "bear", kernel=kernel, sigma=1.0, lagrange_threshold=epsilon, alpha_learning_rate=0.02,
        initial_alpha=0.01,
    ).create()  # fmt: skip
    steps = {"gaussian": 700, "laplacian": 1200}[kernel]
    policy = learner.fit(single_turns(seen, done, done[:, 0]), steps, report_every=50)
    late = learner.history[-6:]
    assert np.mean([row["mmd"] for row in late]) <= 1.1 * epsilon
    assert late[-1]["alpha"] > 0.05, "it had to rise to hold"
    actions = acted(policy, seen[:50])
    assert -0.6 < actions.mean() < -0.1
    assert (
        q(learner, seen[:50], np.full((50, 1), 0.5)).mean()
        > q(learner, seen[:50], np.full((50, 1), -0.5)).mean()
    ), "the critic itself would go up"


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
    assert float(algorithm.alpha.log.grad) == pytest.approx(
        epsilon - float(apart.detach()), abs=1e-6
    )
    assert len(algorithm.optimizers["alpha"].param_groups[0]["params"]) == 1


# TD3+BC, BCQ, CQL


def test_td3_bc_without_its_critic_is_the_clone():
    rng = np.random.default_rng(0)
    seen = rng.uniform(-1, 1, size=(400, 2))
    done = np.sin(2 * seen[:, :1]) * 0.8
    data = single_turns(seen, done, -done[:, 0])  # reward pulls away
    clone = config("bc").create().fit(data, 400)
    off = {}
    for alpha in (0.0, 0.001, 100.0):
        policy = config("td3_bc", alpha=alpha).create().fit(data, 600)
        off[alpha] = np.square(acted(policy, seen[:100]) - acted(clone, seen[:100])).mean()
    assert off[0.0] < 0.01 and off[0.001] < 0.01 and off[100.0] > 0.1


def two_modes(count=600):
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(count, 2))
    done = np.where(rng.random((count, 1)) < 0.5, -0.7, 0.7) + rng.normal(0, 0.02, (count, 1))
    return seen, done


def test_bcq_rebuilds_actions_keeps_both_modes_and_moves_them_no_further_than_its_limit():
    seen, done = two_modes()
    learner = config("bcq", vae_kl_weight=0.1, perturbation_limit=0.1).create()
    policy = learner.fit(single_turns(seen, done, done[:, 0]), 600)
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
    assert acted(policy, seen[:50]).mean() > 0.6, "of the two it takes the better one"
    clone = config("bc").create().fit(single_turns(seen, done, done[:, 0]), 400)
    assert np.abs(acted(clone, seen[:50])).mean() < 0.3, "a clone does what lies between"


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
    for alpha in (0.0, 10.0):
        learner = config("cql", cql_alpha=alpha).create()
        found[alpha] = acted(learner.fit(data, 400), seen[:50]).mean()
    assert found[0.0] > 0.5
    assert abs(found[10.0] + 0.4) < 0.2


def test_cqls_learnt_weight_rises_above_its_gap_and_falls_below():
    seen, done = narrow()
    for threshold, rises in ((-3.0, True), (5.0, False)):
        learner = config("cql", lagrange_threshold=threshold, cql_alpha=0.5).create()
        learner.fit(single_turns(seen, done, done[:, 0]), 60, report_every=20)
        alphas = [0.5, *(row["alpha"] for row in learner.history)]
        assert alphas == sorted(alphas, reverse=not rises) and len(set(alphas)) == 4


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
    with pytest.raises(InvalidConfiguration, match=r"65 entries.*candidate_cql"):
        config("cql").create().build(data)
    config("td3_bc").create().build(data)


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


SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in ("bcq", "bear", "cql")]  # 10 s


@pytest.mark.parametrize("name", ["td3_bc", "iql", *SLOWER])
def test_decoded_actions_are_learnt_from_and_done(name):
    """Reward of four candidates; the third is best, and a vector between two is worth nothing."""
    table, rng = candidates_of_four(), np.random.default_rng(0)
    worth = np.array([0.0, 0.2, 1.0, 0.4])
    acts = rng.integers(4, size=400)
    seen = rng.normal(size=(400, 2))
    data = single_turns(seen, table[acts], worth[acts])
    shapes = Shapes(2, 2, False, -np.ones(2), np.ones(2), table)
    more = {
        "td3_bc": {"alpha": 20.0},
        "iql": {"temperature": 10.0},
        "cql": {"cql_alpha": 0.1},
        "bcq": {"vae_kl_weight": 0.05},
        "bear": {"sigma": 1.0, "lagrange_threshold": 1.0},
    }
    policy = config(name, **more[name]).create().fit(data, 800, shapes=shapes)
    done = acted(policy, seen[:40])
    assert all(any(np.array_equal(row, candidate) for candidate in table) for row in done)
    assert np.mean([np.array_equal(row, table[2]) for row in done]) > 0.8
    masked = acted(policy, seen[:40], action_masks=np.array([1, 1, 0, 1]))
    assert not any(np.array_equal(row, table[2]) for row in masked)
