"""Conservative Q-learning over candidate replies that are known by their vectors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from vectored import episode  # noqa: E402

from convgym.data.transitions import EpisodeArrays, returns_to_go  # noqa: E402
from convgym.errors import InvalidConfiguration  # noqa: E402
from trainers import toy_dialogue as toy  # noqa: E402
from trainers.offline.algorithms.candidate_cql import (  # noqa: E402
    CandidateCQLConfig,
    candidates_of,
)
from trainers.offline.candidate_policy import CandidatePolicy  # noqa: E402
from trainers.offline.config import Shapes  # noqa: E402
from trainers.offline.networks import MLP  # noqa: E402
from trainers.offline.registry import config_of  # noqa: E402
from trainers.offline.vector_networks import over_candidates  # noqa: E402

torch.set_num_threads(1)
SMALL = {"hidden": (32, 32), "batch_size": 64, "learning_rate": 3e-3, "target_rate": 0.05}


def turn(observation, act, reward, mask):
    """An episode of one turn; the mask is that of both observations."""
    made = episode([observation, np.zeros_like(observation)], [[0.0]], [reward])
    return EpisodeArrays(
        made.observations, np.array([act]), made.rewards, True, False, made.returns,
        np.array([mask, mask], dtype=np.int8),
    )  # fmt: skip


def test_candidates_of_a_row_are_those_of_its_mask():
    masks = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0]]).bool()
    numbers, there = candidates_of(masks, torch.zeros(3), 4)
    assert numbers.shape == (3, 2)
    found = [set(n[t].tolist()) for n, t in zip(numbers, there, strict=True)]
    assert found == [{1, 3}, {0}, {1, 2}]
    numbers, there = candidates_of(None, torch.zeros(2), 3)
    assert numbers.tolist() == [[0, 1, 2]] * 2 and there.all()


def test_a_network_over_a_table_is_the_network_on_each_pair():
    torch.manual_seed(0)
    network, rows, table = MLP([5, 7, 1], 2), torch.randn(4, 3), torch.randn(6, 2)
    numbers = torch.tensor([[0, 5], [1, 1], [2, 3], [4, 0]])
    found = over_candidates(network, rows, table, numbers)
    for place in range(2):
        plain = network(torch.cat([rows, table[numbers[:, place]]], dim=1))
        assert torch.allclose(found[:, :, place], plain, atol=1e-6)


def test_a_reply_that_was_never_given_has_the_value_of_what_it_says():
    """Rewards are linear in the vector; the best of the replies is not in the data."""
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, size=(30, 4)).astype(np.float32)
    worth = table @ np.array([1.0, -0.5, 0.3, 0.0])
    best = int(worth.argmax())
    given = [n for n in range(30) if n != best]
    seen = rng.normal(size=(600, 2))
    acts = rng.choice(given, size=600)
    data = [turn(o, a, worth[a], np.ones(30)) for o, a in zip(seen, acts, strict=True)]
    made = CandidateCQLConfig(**SMALL, cql_alpha=0.01)
    learner = made.create()
    policy = learner.fit(data, 900, shapes=Shapes(2, 30, True, candidates=table))
    found = policy.values(seen[:20], table).mean(axis=0)
    assert np.abs(found - worth).mean() < 0.1
    everywhere = policy.action_probs(seen[:20].astype(np.float32), np.ones((20, 30)))
    assert (everywhere.argmax(axis=1) == best).mean() > 0.9
    fresh = np.float32([[0.0, 0.0, 0.0, 0.0], [1.0, -1.0, 0.5, 0.0], [-1.0, 1.0, 0.0, 0.0]])
    assert policy.choose(seen[0], fresh) == 1, "of vectors that are in no table"


def test_a_reply_that_is_no_candidate_is_never_chosen_nor_bootstrapped():
    """Candidate 2 earns 9 in one state and is not there in the others."""
    states, table = np.eye(4, dtype=np.float32), np.eye(3, dtype=np.float32)
    few, all_ = [1, 1, 0], [1, 1, 1]
    data = [turn(states[2], 2, 9.0, all_), turn(states[2], 0, 0.0, all_)] * 10
    for act in (0, 1):  # two turns: state 0, then state 1, where candidate 1 earns 1
        seen = np.stack([states[0], states[1], states[3]])
        data += [
            EpisodeArrays(
                seen, np.array([act, last]), np.array([0.0, float(last)]), True, False,
                returns_to_go(np.array([0.0, float(last)]), 0.5), np.array([few] * 3, np.int8),
            )
            for last in (0, 1)
        ] * 10  # fmt: skip
    made = CandidateCQLConfig(**SMALL, cql_alpha=0.0, discount=0.5, critics=2)
    policy = made.create().fit(data, 900, shapes=Shapes(4, 3, True, candidates=table))
    found = policy.values(states, table)
    assert found[0, :2] == pytest.approx([0.5, 0.5], abs=0.05)
    assert found[1, :2] == pytest.approx([0.0, 1.0], abs=0.05)
    assert found[2, 2] == pytest.approx(9.0, abs=0.3)
    for seed in range(5):
        policy.reset(seed)
        assert policy.predict(states[1], action_masks=np.int8(few))[0] == 1


def test_more_conservatism_makes_the_gap_smaller():
    rng = np.random.default_rng(0)
    table = np.eye(4, dtype=np.float32)
    data = [turn(rng.normal(size=2), 0, 0.0, np.ones(4)) for _ in range(200)]
    gaps = []
    for alpha in (0.0, 0.1, 2.0):
        learner = CandidateCQLConfig(**SMALL, cql_alpha=alpha).create()
        learner.fit(data, 300, shapes=Shapes(2, 4, True, candidates=table), report_every=100)
        gaps.append(learner.history[-1]["conservative_gap"])
    assert gaps[0] > gaps[1] > gaps[2]


def test_a_policy_saved_loaded_and_batched_does_the_same(tmp_path):
    table = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    rng = np.random.default_rng(1)
    data = [turn(rng.normal(size=2), rng.integers(5), rng.normal(), np.ones(5)) for _ in range(80)]
    shapes = Shapes(2, 5, True, candidates=table)
    made = CandidateCQLConfig(**SMALL, critics=2)
    first, second = made.create(), made.create()
    policy = first.fit(data, 60, shapes=shapes)
    second.fit(data, 25, shapes=shapes, checkpoint=tmp_path / "run.zip")
    resumed = made.create()
    resumed.fit(data, 60, shapes=shapes, checkpoint=tmp_path / "run.zip")
    states = [x.algorithm.parts.state_dict() for x in (first, resumed)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])

    policy.temperature = 1.0
    policy.save(tmp_path / "policy.zip")
    loaded = CandidatePolicy.load(tmp_path / "policy.zip")
    seen, masks = rng.normal(size=(6, 2)).astype(np.float32), rng.integers(0, 2, (6, 5))
    masks[:, 0] = 1
    assert np.array_equal(loaded.action_probs(seen, masks), policy.action_probs(seen, masks))
    assert loaded.action_probs(seen, masks).sum(axis=1) == pytest.approx(1.0)
    assert (loaded.action_probs(seen, masks)[masks == 0] == 0).all()
    batched = loaded.batched()
    batched.begin(np.arange(6), range(6))
    together = batched.actions(seen, masks.astype(np.int8), np.arange(6))
    for row in range(6):
        policy.reset(row)
        assert policy.predict(seen[row], action_masks=masks[row])[0] == together[row]


def test_options_and_shapes_that_do_not_fit_are_refused():
    data = [turn(np.zeros(2), 0, 0.0, np.ones(4))]
    assert config_of("candidate_cql", discrete=True) is CandidateCQLConfig
    with pytest.raises(InvalidConfiguration, match="takes the vectors of the candidates"):
        CandidateCQLConfig().create().build(data)
    with pytest.raises(InvalidConfiguration, match="critics=0"):
        CandidateCQLConfig(critics=0)


@pytest.mark.slow
def test_candidates_by_vector_are_learnt_where_most_data_are_bad():
    """The toy conversation, its acts as random vectors; about 25 CPU-seconds."""
    env = toy.ToyDialogue(size=64)
    data = toy.record(
        toy.majority_bad(), 1500, env=env, shares=toy.MAJORITY_BAD, discount=0.95, seed=0
    )
    table = np.random.default_rng(0).normal(size=(toy.ACTS, 24)).astype(np.float32) / 5
    made = CandidateCQLConfig(discount=0.95, cql_alpha=0.05, hidden=(64, 64), target_rate=0.01)
    policy = made.create().fit(data, 2000, shapes=Shapes(64, toy.ACTS, True, candidates=table))
    shown = toy.policy_table(policy.action_probs, 64)
    assert env.model.values(shown)[toy.START] > 0.5
