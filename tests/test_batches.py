"""Torch batches: windows and their padding, masks, orders of epochs."""

import numpy as np
import pytest

from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.errors import DatasetError, InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from trainers.offline.batches import SeededBatches, Sequences, Transitions  # noqa: E402

ACTS = 3


def ragged(lengths):
    """Episodes whose observations and rewards count on, so that each occurs once."""
    made, counted = [], 0
    for number, length in enumerate(lengths):
        numbers = np.arange(counted, counted + length + 1, dtype=np.float64)
        counted += length + 1
        masks = np.ones((length + 1, ACTS), np.int8)
        masks[:, number % ACTS] = 0
        rewards, cut = numbers[:-1] + 0.5, number % 2 == 1
        made.append(
            EpisodeArrays(
                numbers[:, None].astype(np.float32),
                np.full(length, (number + 1) % ACTS),
                rewards,
                not cut,
                cut,
                returns_to_go(rewards, 0.9),
                masks,
                rewards / 100,
            )
        )
    return made


def everything(data):
    return {name: column.numpy() for name, column in data[torch.arange(len(data))].items()}


def test_transitions_by_hand():
    batch = everything(Transitions(ragged([2, 1])))
    assert batch["observations"].ravel().tolist() == [0, 1, 3]
    assert batch["next_observations"].ravel().tolist() == [1, 2, 4]
    assert batch["rewards"].tolist() == [0.5, 1.5, 3.5]
    assert batch["returns_to_go"].tolist() == pytest.approx([0.5 + 0.9 * 1.5, 1.5, 3.5])
    assert batch["terminated"].tolist() == [0, 1, 0]  # the second episode was cut off
    assert batch["actions"].tolist() == [1, 1, 2] and batch["actions"].dtype == np.int64
    assert batch["masks"].tolist() == [[False, True, True]] * 2 + [[True, False, True]]
    assert batch["propensities"].tolist() == pytest.approx([0.005, 0.015, 0.035])


def test_windows_by_hand():
    turns = Transitions(ragged([3, 1]))
    left = everything(Sequences(turns, 2))
    assert left["observations"][..., 0].tolist() == [[0, 0], [0, 1], [1, 2], [0, 4]]
    assert left["attention_mask"].tolist() == [[0, 1], [1, 1], [1, 1], [0, 1]]
    assert left["timesteps"].tolist() == [[0, 0], [0, 1], [1, 2], [0, 0]]
    right = everything(Sequences(turns, 2, padding="right"))
    assert right["observations"][..., 0].tolist() == [[0, 0], [0, 1], [1, 2], [4, 0]]
    assert right["attention_mask"].tolist() == [[1, 0], [1, 1], [1, 1], [1, 0]]
    whole = everything(Sequences(turns, 4, stride=4))
    assert whole["observations"][..., 0].tolist() == [[0, 0, 1, 2], [0, 0, 0, 4]]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=6),
    context=st.integers(1, 9),
    stride=st.integers(1, 9),
    left=st.booleans(),
)
def test_windows_match_a_plain_loop(lengths, context, stride, left):
    """Every window of every episode, written out turn by turn."""
    stride, episodes = min(stride, context), ragged(lengths)
    sequences = Sequences(
        Transitions(episodes), context, stride=stride, padding="left" if left else "right"
    )
    expected = []
    for episode in episodes:
        for end in range(len(episode)):
            if (len(episode) - 1 - end) % stride:
                continue
            turns = list(range(max(0, end + 1 - context), end + 1))
            padding = [None] * (context - len(turns))
            expected.append((episode, padding + turns if left else turns + padding))
    assert len(sequences) == len(expected)
    for number, (episode, turns) in enumerate(expected):
        came = {name: column.numpy() for name, column in sequences[number].items()}
        assert came["attention_mask"].tolist() == [t is not None for t in turns]
        for place, t in enumerate(turns):
            if t is None:
                assert came["masks"][place].all() and came["next_masks"][place].all()
                rest = came.keys() - {"masks", "next_masks"}
                assert not any(np.any(came[name][place]) for name in rest)
                continue
            assert came["observations"][place] == episode.observations[t]
            assert came["next_observations"][place] == episode.observations[t + 1]
            assert came["rewards"][place] == np.float32(episode.rewards[t])
            assert came["returns_to_go"][place] == np.float32(episode.returns[t])
            assert came["timesteps"][place] == t
            assert came["masks"][place].tolist() == episode.masks[t].astype(bool).tolist()
            ends = t == len(episode) - 1 and episode.terminated
            assert came["terminated"][place] == ends


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=6), context=st.integers(1, 9))
def test_with_the_context_as_stride_every_turn_is_in_one_window(lengths, context):
    batch = everything(Sequences(Transitions(ragged(lengths)), context, stride=context))
    shown = batch["rewards"][batch["attention_mask"]]
    assert sorted(shown) == sorted(r for e in ragged(lengths) for r in e.rewards.astype(np.float32))


def test_a_batch_is_its_items_stacked():
    sequences = Sequences(Transitions(ragged([4, 1, 2])), 3)
    order = [5, 0, 3]
    batch = sequences[order]
    for name, column in batch.items():
        assert torch.equal(column, torch.stack([sequences[index][name] for index in order]))


def test_vectors_as_actions_stay_vectors():
    (episode,) = ragged([3])
    vectors = np.random.default_rng(0).normal(size=(3, 4))
    changed = EpisodeArrays(**{**vars(episode), "actions": vectors, "propensities": None})
    batch = everything(Transitions([changed]))
    assert batch["actions"] == pytest.approx(vectors, rel=1e-6) and "propensities" not in batch


# Order


def test_every_epoch_holds_every_index_once_in_an_order_of_its_own():
    batches = SeededBatches(10, 4, seed=3)
    epochs = [[part.tolist() for part in batches] for _ in range(3)]
    assert all([len(part) for part in epoch] == [4, 4, 2] for epoch in epochs)
    assert all(sorted(i for part in epoch for i in part) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_a_seed_repeats_its_order_and_an_epoch_can_be_taken_up_again():
    first, again = SeededBatches(10, 4, seed=3), SeededBatches(10, 4, seed=3)
    orders = [[part.tolist() for part in first] for _ in range(3)]
    again.epoch = 2
    assert [part.tolist() for part in again] == orders[2]
    assert [part.tolist() for part in SeededBatches(10, 4, seed=4)] != orders[0]


def test_a_data_loader_takes_both():
    turns = Transitions(ragged([4, 1, 2]))
    loader = DataLoader(turns, sampler=SeededBatches(len(turns), 3), batch_size=None)
    seen = torch.cat([batch["rewards"] for batch in loader])
    assert sorted(seen.tolist()) == sorted(everything(turns)["rewards"].tolist())


# Errors


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"context": 0}, "1 or more"),
        ({"context": 2, "stride": 3}, "skip turns"),
        ({"context": 2, "padding": "both"}, "left"),
    ],
)
def test_windows_that_cannot_be_are_refused(keywords, message):
    with pytest.raises(InvalidConfiguration, match=message):
        Sequences(Transitions(ragged([2])), **keywords)


def test_texts_and_nothing_are_refused():
    (episode,) = ragged([2])
    texts = np.array(["a", "b", "c"], dtype=object)
    with pytest.raises(DatasetError, match="encode them"):
        Transitions([EpisodeArrays(**{**vars(episode), "observations": texts})])
    with pytest.raises(DatasetError, match="no episodes"):
        Transitions([])
    with pytest.raises(InvalidConfiguration, match="at least 1"):
        SeededBatches(0, 4)
