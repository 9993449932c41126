"""A growing replay of turns, and batches of old and new ones."""

import numpy as np
import pytest

from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.errors import DatasetError, InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainers.offline.algorithms.cql import CQLConfig  # noqa: E402
from trainers.offline.batches import Transitions  # noqa: E402
from trainers.offline.config import Shapes  # noqa: E402
from trainers.offline.replay import Mixed, Replay  # noqa: E402
from trainers.offline.sampling import Prioritised, Stratified  # noqa: E402

ACTS, DISCOUNT = 3, 0.9


def conversation(length, seed, masked=True, cut=None):
    rng = np.random.default_rng(seed)
    rewards, cut = rng.normal(size=length), bool(seed % 2) if cut is None else cut
    masks = np.ones((length + 1, ACTS), np.int8)
    masks[:, seed % ACTS] = 0
    return EpisodeArrays(
        rng.normal(size=(length + 1, 2)).astype(np.float32),
        np.full(length, (seed + 1) % ACTS),
        rewards,
        not cut,
        cut,
        returns_to_go(rewards, DISCOUNT),
        masks if masked else None,
        rng.random(length),
    )


def step_through(replay, episode, row=0):
    for t in range(len(episode)):
        last = t + 1 == len(episode)
        replay.step(
            episode.observations[t],
            episode.actions[t],
            episode.rewards[t],
            episode.observations[t + 1],
            last and episode.terminated,
            last and episode.truncated,
            mask=episode.masks[t],
            next_mask=episode.masks[t + 1],
            propensity=episode.propensities[t],
            row=row,
        )


def same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].dtype == expected[name].dtype
        assert torch.equal(found[name], expected[name]), name


lengths = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(lengths, st.integers(1, 25), st.integers(1, 3), st.booleans())
def test_a_replay_holds_the_newest_transitions_as_transitions_has_them(
    lengths, capacity, n_step, by_step
):
    episodes = [conversation(length, seed) for seed, length in enumerate(lengths)]
    replay = Replay(capacity, discount=DISCOUNT, n_step=n_step)
    for episode in episodes:
        step_through(replay, episode) if by_step else replay.add(episode)
    every = Transitions(episodes, discount=DISCOUNT, n_step=n_step)
    newest = torch.arange(max(0, len(every) - capacity), len(every))
    assert len(replay) == len(newest) and replay.added == len(every)
    same(replay[torch.arange(len(replay))], every[newest])


def test_rows_of_a_vector_environment_do_not_mix():
    first, second = conversation(3, 0), conversation(3, 1)
    replay = Replay(10, discount=DISCOUNT)
    for t in range(3):
        for row, one in enumerate((first, second)):
            replay.step(
                one.observations[t], one.actions[t], one.rewards[t], one.observations[t + 1],
                t == 2 and one.terminated, t == 2 and one.truncated,
                mask=one.masks[t], next_mask=one.masks[t + 1], propensity=one.propensities[t],
                row=row,
            )  # fmt: skip
    same(replay[torch.arange(6)], Transitions([first, second], discount=DISCOUNT)[torch.arange(6)])


def test_a_conversation_comes_in_when_it_ends_and_only_the_ended_are_terminated():
    replay, here = Replay(10, discount=DISCOUNT), np.zeros(2, np.float32)
    replay.step(here, 0, 1.0, here, False, False)
    assert len(replay) == 0
    replay.step(here, 0, 1.0, here, False, True)  # cut off: the next state counts
    replay.step(here, 0, 1.0, here, True, True)  # both: it has ended by itself
    batch = replay[torch.arange(3)]
    assert batch["terminated"].tolist() == [0, 0, 1]
    assert batch["discounts"].tolist() == pytest.approx([0.9, 0.9, 0])
    assert batch["returns_to_go"].tolist() == pytest.approx([1.9, 1, 1])


def test_arrays_that_an_environment_writes_into_again_are_copied():
    replay, seen = Replay(10, discount=DISCOUNT), np.zeros(2, np.float32)
    replay.step(seen.copy(), 0, 0.0, seen, False, False)
    known = seen.copy()
    seen += 7
    replay.step(known, 0, 0.0, seen, True, False)
    seen += 7
    assert replay[torch.arange(2)]["observations"].max() == 0
    assert replay[torch.tensor([1])]["next_observations"].max() == 7


def test_what_does_not_fit_is_refused():
    replay, here = Replay(10, discount=DISCOUNT), np.zeros(2, np.float32)
    with pytest.raises(InvalidConfiguration, match="capacity"):
        Replay(0, discount=DISCOUNT)
    replay.add(conversation(2, 0))
    with pytest.raises(DatasetError, match=r"masks, next_masks"):
        replay.add(conversation(2, 0, masked=False))
    assert len(replay) == 2
    replay.step(here, 0, 1.0, here + 1, False, False)
    with pytest.raises(DatasetError, match="does not go on"):
        replay.step(here + 2, 0, 1.0, here, False, False)
    with pytest.raises(DatasetError, match="give both"):
        replay.step(here + 1, 0, 1.0, here, False, False, mask=np.ones(ACTS))


def test_a_restored_replay_goes_on_as_the_first_one():
    first, second = Replay(7, discount=DISCOUNT), Replay(7, discount=DISCOUNT)
    for seed in range(3):
        first.add(conversation(4, seed))
    second.restore({name: tensor.clone() for name, tensor in first.state().items()})
    for replay in (first, second):
        replay.add(conversation(2, 9))
    same(second[torch.arange(7)], first[torch.arange(7)])
    empty = Replay(7, discount=DISCOUNT)
    empty.restore(Replay(7, discount=DISCOUNT).state())
    assert len(empty) == 0


# -- mixed -----------------------------------------------------------------------------------------


def both(online=5):
    offline = Transitions([conversation(6, seed) for seed in range(4)], discount=DISCOUNT)
    replay = Replay(100, discount=DISCOUNT)
    for seed in range(online):
        replay.add(conversation(3, 50 + seed))
    return offline, replay


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 1), st.integers(1, 40), st.integers(0, 99))
def test_a_batch_has_its_share_of_online_turns_to_within_one(ratio, size, seed):
    offline, online = both()
    indices, weights = Mixed(offline, online, ratio).draw(size, torch.Generator().manual_seed(seed))
    new = int((indices >= len(offline)).sum())
    assert weights is None and len(indices) == size and abs(new - ratio * size) < 1
    assert int(indices.max()) < len(offline) + len(online)


def test_online_turns_have_their_share_on_the_average():
    offline, online = both()
    mixed, generator = Mixed(offline, online, 0.3), torch.Generator().manual_seed(0)
    counts = [int((mixed.draw(8, generator)[0] >= 24).sum()) for _ in range(4000)]
    assert set(counts) == {2, 3} and np.mean(counts) == pytest.approx(2.4, abs=0.03)


def test_a_mixed_batch_holds_the_rows_of_both_in_the_order_of_indices():
    offline, online = both()
    mixed, order = Mixed(offline, online, 0.5), torch.tensor([3, 24, 0, 38, 24])
    batch, ours = mixed[order], torch.tensor([0, 2])
    same({k: v[ours] for k, v in batch.items()}, offline[torch.tensor([3, 0])])
    same({k: v[[1, 3, 4]] for k, v in batch.items()}, online[torch.tensor([0, 14, 0])])
    same(mixed[torch.tensor([1])], offline[torch.tensor([1])])
    same(mixed[torch.tensor([25])], online[torch.tensor([1])])


def test_all_is_offline_while_nothing_is_online():
    offline, online = both(online=0)
    mixed = Mixed(offline, online, 0.9)
    indices, _ = mixed.draw(16, torch.Generator().manual_seed(0))
    assert int(indices.max()) < len(offline) == len(mixed)
    same(mixed[indices], offline[indices])


def test_sides_with_and_without_masks_do_not_mix():
    offline, online = both(online=0)
    online.add(conversation(3, 1, masked=False))
    with pytest.raises(DatasetError, match="masks, next_masks"):
        Mixed(offline, online, 0.5)[torch.tensor([0, 24])]
    with pytest.raises(InvalidConfiguration, match="ratio"):
        Mixed(offline, online, 1.5)


def test_offline_turns_can_have_priorities_and_online_ones_weigh_1():
    offline, online = both()
    mixed = Mixed(offline, online, 0.5, Prioritised(len(offline), alpha=1.0, beta=1.0))
    generator = torch.Generator().manual_seed(0)
    indices, weights = mixed.draw(10, generator)
    mixed.heard(indices, torch.where(indices == indices[0], 50.0, 1.0))
    indices, weights = mixed.draw(10, generator)
    ours = indices < len(offline)
    assert (weights[~ours] == 1).all() and int(ours.sum()) == 5
    assert (weights[ours] != 1).any()
    whole = Mixed(offline, online, 1.0, Prioritised(len(offline)))
    assert (whole.draw(4, generator)[0] >= len(offline)).all()
    balanced = Mixed(offline, online, 0.0, Stratified(np.arange(24) == 0))
    assert int((balanced.draw(10, generator)[0] == 0).sum()) == 5


def test_a_learner_takes_to_what_only_online_turns_show():
    """Offline, act 1 earns the most; online, act 2 was tried and earns more."""

    def one_turn(act, reward):
        rewards = np.array([reward])
        return EpisodeArrays(
            np.ones((2, 1), np.float32), np.array([act]), rewards, True, False, rewards
        )

    offline = Transitions([one_turn(i % 2, 0.2 * (i % 2)) for i in range(40)], discount=DISCOUNT)
    online = Replay(100, discount=DISCOUNT)
    for _ in range(10):
        online.add(one_turn(2, 1.0))

    def favourite(ratio):
        learner = CQLConfig(hidden=(8,), cql_alpha=0.05, learning_rate=0.01).create()
        learner.build(offline, Shapes(1, ACTS, True))
        mixed = Mixed(offline, online, ratio)
        for _ in range(200):
            indices, _ = mixed.draw(32, learner.generator)
            learner.update(mixed[indices])
        scores = learner.algorithm.policy().scores(np.ones(1, np.float32))
        return int(scores.argmax())

    assert favourite(0.0) == 1 and favourite(0.5) == 2
