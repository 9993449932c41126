"""Which transitions a batch holds: shares of strata, priorities, weights that undo them."""

import math
from collections import Counter

import numpy as np
import pytest

from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.errors import InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainers.offline.algorithms.bc import BCConfig  # noqa: E402
from trainers.offline.algorithms.cql import CQLConfig  # noqa: E402
from trainers.offline.config import Shapes  # noqa: E402
from trainers.offline.sampling import (  # noqa: E402
    Prioritised,
    PrioritisedConversations,
    Stratified,
    Uniform,
    bands,
)


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def conversations(lengths, observations=3, acts=4, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for length in lengths:
        rewards = rng.normal(size=length)
        made.append(
            EpisodeArrays(
                rng.normal(size=(length + 1, observations)).astype(np.float32),
                rng.integers(acts, size=length), rewards, True, False,
                returns_to_go(rewards, 0.9),
            )
        )  # fmt: skip
    return made


# -- strata ----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    parts=st.lists(st.integers(0, 9), min_size=5, max_size=5),
    size=st.integers(1, 50),
    seed=st.integers(0, 1000),
)
def test_every_batch_has_each_stratums_share_to_within_one(labels, parts, size, seed):
    names = sorted(set(labels))
    total = sum(parts[name] + 0.25 for name in names)
    shares = {name: (parts[name] + 0.25) / total for name in names}
    indices, weights = Stratified(labels, shares).draw(size, chance(seed))
    drawn = Counter(labels[index] for index in indices.tolist())
    assert weights is None and len(indices) == size
    for name, share in shares.items():
        assert math.floor(size * share - 1e-9) <= drawn[name] <= math.ceil(size * share + 1e-9)


def test_strata_are_drawn_by_their_shares_and_alike_within():
    labels = np.array(["rare"] * 3 + ["common"] * 27)
    sampling, generator = Stratified(labels), chance()
    drawn = torch.cat([sampling.draw(7, generator)[0] for _ in range(6000)]).numpy()
    expected = np.where(labels == "rare", 0.5 / 3, 0.5 / 27) * len(drawn)
    found = np.bincount(drawn, minlength=30)
    assert ((found - expected) ** 2 / expected).sum() < 58.3  # χ² of 29 degrees, p = 0.001
    assert found[labels == "rare"].sum() == pytest.approx(len(drawn) / 2, rel=0.01)


@settings(max_examples=40, deadline=None)
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=30), seed=st.integers(0, 99))
def test_importance_weights_make_the_weighted_mean_that_of_the_data(labels, seed):
    values = np.random.default_rng(seed).normal(size=len(labels))
    sampling = Stratified(labels, importance=True)
    indices, weights = sampling.draw(400, chance(seed))
    counts, strata = Counter(labels), len(set(labels))
    by_label = {labels[i]: w for i, w in zip(indices.tolist(), weights.tolist(), strict=True)}
    assert set(by_label) == set(labels)
    odds = [1 / strata / counts[label] for label in labels]  # of each item, worked by hand
    mean = sum(p * by_label[k] * v for p, k, v in zip(odds, labels, values, strict=True))
    assert mean == pytest.approx(values.mean(), abs=1e-6)


def test_a_stratum_of_share_0_is_never_drawn():
    indices, _ = Stratified([0, 1, 1, 2], {0: 0.0, 1: 1.0, 2: 0.0}).draw(500, chance())
    assert set(indices.tolist()) == {1, 2}


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        ([], {}, "no labels"),
        ([1, 2], {"shares": {1: 1.0}}, "give a share"),
        ([1, 2], {"shares": {1: 0.5, 2: 0.6}}, "sum to 1"),
        ([1, 2], {"shares": {1: 1.0, 2: 0.0}, "importance": True}, "never drawn"),
    ],
)
def test_bad_strata_are_one_sentence(labels, options, said):
    with pytest.raises(InvalidConfiguration, match=said):
        Stratified(labels, **options)


def test_bands_are_quantiles_and_keep_equal_values_together():
    assert bands([5, 1, 2, 8], 2).tolist() == [1, 0, 0, 1]
    assert bands(np.arange(100), 4).tolist() == np.repeat(range(4), 25).tolist()
    assert len(set(bands([0.0] * 9 + [1.0], 5)[:9].tolist())) == 1
    with pytest.raises(InvalidConfiguration, match="at least one"):
        bands([1.0], 0)


def test_a_clone_of_balanced_acts_is_balanced_and_with_weights_it_is_not():
    """One observation, 90 % of one act: balance makes it 50 %, importance weights 90 % again."""
    acts = np.arange(200) % 10 == 0
    episodes = [
        EpisodeArrays(
            np.zeros((2, 1), np.float32), np.array([int(act)]), np.zeros(1), True, False,
            np.zeros(1), masks=np.ones((2, 2), np.int8),
        )
        for act in acts
    ]  # fmt: skip

    def cloned(sampling):
        config = BCConfig(hidden=(8,), temperature=1.0, learning_rate=0.02)
        policy = config.create().fit(episodes, 300, sampling=sampling)
        return policy.action_probs(np.zeros(1, np.float32), np.ones(2, np.int8))[1]

    assert cloned(Uniform(200)) == pytest.approx(0.1, abs=0.03)
    assert cloned(Stratified(acts)) == pytest.approx(0.5, abs=0.03)
    assert cloned(Stratified(acts, importance=True)) == pytest.approx(0.1, abs=0.03)


# -- priorities ------------------------------------------------------------------------------------


class Slow:
    """Priorities as the paper writes them, in plain loops."""

    def __init__(self, count, alpha, beta):
        self.priority, self.alpha, self.beta, self.greatest = [None] * count, alpha, beta, 1.0

    def heard(self, indices, errors):
        for index, error in zip(indices, errors, strict=True):
            self.priority[index] = abs(error) + 1e-3
        self.greatest = max(self.greatest, *(self.priority[index] for index in indices))

    def odds(self):
        shares = [(self.greatest if p is None else p) ** self.alpha for p in self.priority]
        return np.array(shares) / sum(shares)

    def weights(self):
        return (len(self.priority) * self.odds()) ** -self.beta


heard_of = st.lists(
    st.lists(st.tuples(st.integers(0, 11), st.floats(-5, 5)), min_size=1, max_size=6), max_size=5
)


@settings(max_examples=60, deadline=None)
@given(heard=heard_of, alpha=st.floats(0, 1), beta=st.floats(0, 1), seed=st.integers(0, 99))
def test_priorities_match_the_plain_loop(heard, alpha, beta, seed):
    slow, fast = Slow(12, alpha, beta), Prioritised(12, alpha, beta)
    for batch in heard:
        indices, errors = zip(*dict(batch).items(), strict=True)  # each index once
        slow.heard(indices, errors)
        fast.heard(torch.tensor(indices), torch.tensor(errors, dtype=torch.float64))
    size = 50
    indices, weights = fast.draw(size, chance(seed))
    found = np.bincount(indices.numpy(), minlength=12)
    assert (np.abs(found - size * slow.odds()) < 2).all()  # a draw from each of 50 equal shares
    assert weights.numpy() == pytest.approx(slow.weights()[indices.numpy()], rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=3, max_size=6), heard=heard_of,
    alpha=st.floats(0, 1), beta=st.floats(0, 1), seed=st.integers(0, 99),
)  # fmt: skip
def test_priorities_of_conversations_match_the_plain_loop(lengths, heard, alpha, beta, seed):
    turns = [(talk, place) for talk, n in enumerate(lengths) for place in range(n)]
    slow, fast = Slow(len(lengths), alpha, beta), PrioritisedConversations(lengths, alpha, beta)
    errors_of = {}
    for batch in heard:
        new = {index % len(turns): error for index, error in batch}
        errors_of |= new
        fast.heard(torch.tensor(list(new)), torch.tensor(list(new.values()), dtype=torch.float64))
        talks = sorted({turns[index][0] for index in new})
        known = [[abs(e) for i, e in errors_of.items() if turns[i][0] == talk] for talk in talks]
        slow.heard(talks, [sum(errors) / len(errors) for errors in known])
    odds = np.array([slow.odds()[talk] / lengths[talk] for talk, _ in turns])
    indices, weights = fast.draw(64, chance(seed))
    expected = (len(turns) * odds) ** -beta
    assert weights.numpy() == pytest.approx(expected[indices.numpy()], rel=1e-5)
    talks = np.bincount([turns[i][0] for i in indices.tolist()], minlength=len(lengths))
    assert (np.abs(talks - 64 * slow.odds()) < 2).all()


def test_turns_of_a_conversation_are_drawn_alike():
    sampling, generator = PrioritisedConversations([4, 1]), chance()
    drawn = torch.cat([sampling.draw(8, generator)[0] for _ in range(2000)])
    found = np.bincount(drawn.numpy(), minlength=5)
    assert found[4] == 8000 and found[:4] == pytest.approx(np.full(4, 2000), rel=0.1)


def test_what_was_never_drawn_comes_first_and_the_last_error_counts():
    sampling = Prioritised(4, alpha=1.0, beta=1.0, epsilon=0.5)
    sampling.heard(torch.tensor([0, 1, 1]), torch.tensor([9.5, 100.0, 0.0]))
    # The greatest priority given was 100.5; 0 has 10, 1 has 0.5, and 2 and 3 have the greatest.
    indices, weights = sampling.draw(211, chance())
    found = np.bincount(indices.numpy(), minlength=4)
    assert found == pytest.approx([10 * 211 / 211.5, 0.5, 100.3, 100.3], abs=1.0)
    assert weights[indices == 2][0] == pytest.approx(211.5 / 4 / 100.5)


def test_beta_rises_to_1():
    sampling, seen = Prioritised(3, beta=0.4, anneal=3), []
    for _ in range(5):
        seen.append(sampling.beta)
        sampling.draw(2, chance())
    assert seen == pytest.approx([0.4, 0.6, 0.8, 1.0, 1.0])


@pytest.mark.parametrize(
    "options", [{"count": 0}, {"alpha": 1.5}, {"beta": -0.1}, {"epsilon": 0.0}, {"anneal": -1}]
)
def test_bad_priorities_are_one_sentence(options):
    with pytest.raises(InvalidConfiguration):
        Prioritised(**{"count": 3, **options})


def test_an_error_that_is_not_finite_is_refused():
    with pytest.raises(InvalidConfiguration, match="diverged"):
        Prioritised(3).heard(torch.tensor([1]), torch.tensor([torch.nan]))


# -- the fixed point (row 18 of the checks) --------------------------------------------------------

DISCOUNT = 0.9
_LUCK = np.random.default_rng(5)
# A state a turn, three turns; what the act in it earns is luck: mostly −1, sometimes 1 or 3.
REWARDS = _LUCK.choice([-1.0, 1.0, 3.0], p=[0.7, 0.2, 0.1], size=(40, 3))
# Every third conversation ends after one turn.
LENGTHS = np.where(np.arange(40) % 3 == 0, 1, 3)


def chain():
    """(state, reward, whether another turn follows) of every turn."""
    return [
        (turn, REWARDS[talk, turn], turn + 1 < LENGTHS[talk])
        for talk in range(40)
        for turn in range(LENGTHS[talk])
    ]


def solved():
    """v = mean of r + γ v(next) over the data, exactly."""
    value = np.zeros(4)
    for state in (2, 1, 0):
        targets = [r + DISCOUNT * go * value[state + 1] for s, r, go in chain() if s == state]
        value[state] = np.mean(targets)
    return value[:3]


def learnt(sampling, steps=6000):
    """TD(0) on batches, the iterates of the last half averaged."""
    states, rewards, follows = (np.array(column) for column in zip(*chain(), strict=True))
    value, mean, generator = np.zeros(4), np.zeros(4), chance(1)
    for step in range(steps):
        indices, weights = sampling.draw(32, generator)
        at = indices.numpy()
        errors = rewards[at] + DISCOUNT * follows[at] * value[states[at] + 1] - value[states[at]]
        weighed = errors if weights is None else errors * weights.numpy()
        np.add.at(value, states[at], 0.05 * weighed / 32)
        sampling.heard(indices, torch.as_tensor(errors))
        mean += value * (step >= steps // 2) / (steps - steps // 2)
    return mean[:3]


@pytest.mark.parametrize("kind", ["turns", "conversations"])
def test_prioritised_replay_with_weights_keeps_the_fixed_point(kind):
    def prioritised(beta):
        if kind == "turns":
            return Prioritised(len(chain()), alpha=1.0, beta=beta, epsilon=0.05)
        return PrioritisedConversations(LENGTHS, alpha=1.0, beta=beta, epsilon=0.05)

    assert learnt(Uniform(len(chain()))) == pytest.approx(solved(), abs=0.05)
    assert learnt(prioritised(1.0)) == pytest.approx(solved(), abs=0.05)
    assert np.abs(learnt(prioritised(0.0)) - solved()).max() > 0.15  # what is being corrected


def test_stratified_sampling_with_weights_keeps_the_fixed_point():
    lucky = [reward > 0 for _, reward, _ in chain()]
    assert learnt(Stratified(lucky, importance=True)) == pytest.approx(solved(), abs=0.05)
    assert np.abs(learnt(Stratified(lucky)) - solved()).max() > 0.15


# -- going on --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(30),
        lambda: Stratified(np.arange(30) % 4),
        lambda: Prioritised(30, anneal=20),
        lambda: PrioritisedConversations([5, 10, 15], anneal=20),
    ],
    ids=["uniform", "stratified", "prioritised", "conversations"],
)
def test_a_restored_sampling_draws_what_the_first_one_draws(make):
    def draws(sampling, generator, count):
        found = []
        for _ in range(count):
            indices, weights = sampling.draw(6, generator)
            sampling.heard(indices, torch.sin(indices.double()))
            found.append((indices.tolist(), None if weights is None else weights.tolist()))
        return found

    first, generator = make(), chance(3)
    draws(first, generator, 5)
    saved = {name: tensor.clone() for name, tensor in first.state().items()}
    resumed = torch.Generator()
    resumed.set_state(generator.get_state())
    expected = draws(first, generator, 8)
    second = make()
    second.restore(saved)
    assert draws(second, resumed, 8) == expected


def test_priorities_of_other_data_are_refused():
    with pytest.raises(InvalidConfiguration, match="4 items"):
        Prioritised(5).restore(Prioritised(4).state())


@pytest.mark.parametrize("by", ["turns", "conversations"])
def test_a_learner_that_was_stopped_ends_with_the_same_weights(tmp_path, by):
    lengths, shapes = [3, 5, 2, 4] * 5, Shapes(3, 4, True)
    data = conversations(lengths)

    def fitted(steps, checkpoint=None):
        learner = CQLConfig(hidden=(8,), batch_size=16).create()
        sampling = (
            Prioritised(sum(lengths), anneal=30)
            if by == "turns"
            else PrioritisedConversations(lengths, anneal=30)
        )
        learner.fit(data, steps, shapes=shapes, sampling=sampling, checkpoint=checkpoint)
        return learner.algorithm.parts.state_dict()

    fitted(17, tmp_path / "stopped.zip")
    resumed, whole = fitted(40, tmp_path / "stopped.zip"), fitted(40)
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
