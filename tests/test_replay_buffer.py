"""Replay: the sum tree, the shares of draws, their weights, eviction, and what a file keeps."""

import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import corpus, talk

from convgym.conversation import Conversation
from convgym.data.logs import LogReader
from convgym.data.replay_buffer import ConversationReplayBuffer
from convgym.data.sum_tree import SumTree
from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.errors import DatasetError, InvalidConfiguration

MODES = ("trajectory", "turn")


def episode(number, length, terminated=True, masks=False):
    """Turn t of it is told by its numbers: action `100 number + t`, observation the same twice."""
    turns = 100 * number + np.arange(length + 1)
    return EpisodeArrays(
        observations=np.stack([turns, turns], axis=1).astype(np.float32),
        actions=turns[:-1],
        rewards=turns[:-1] / 8,
        terminated=terminated,
        truncated=not terminated,
        returns=returns_to_go(turns[:-1] / 8, discount=0.9),
        masks=turns[:, None] % np.array([2, 3, 5]) == 0 if masks else None,
    )


def filled(capacity, lengths, **keywords):
    buffer = ConversationReplayBuffer(capacity, **keywords)
    buffer.extend(episode(number, length) for number, length in enumerate(lengths))
    return buffer


def arrays_of(batch):
    return {name: value for name, value in vars(batch).items() if value is not None}


def same(one, other):
    """Field by field the same bytes, or equal conversations."""
    first, second = arrays_of(one), arrays_of(other)
    assert type(one) is type(other) and first.keys() == second.keys()
    for name, value in first.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == second[name].dtype
            assert value.tobytes() == second[name].tobytes(), name
        else:
            assert value == second[name], name


# -- the sum tree ----------------------------------------------------------------------------------


WEIGHTS = st.floats(0.0, 1e6) | st.sampled_from([0.0, 1e-100, 0.1, 1e100])


@given(st.data(), st.integers(1, 40))
def test_the_tree_equals_a_list(data, capacity):
    tree, slow = SumTree(capacity), [0.0] * capacity
    for _ in range(data.draw(st.integers(1, 5))):
        written = data.draw(st.lists(st.tuples(st.integers(0, capacity - 1), WEIGHTS), min_size=1))
        places, weights = zip(*written, strict=True)
        tree[np.array(places)] = np.array(weights)
        for place, weight in written:
            slow[place] = weight
    assert tree[np.arange(capacity)].tolist() == slow
    assert tree.total == pytest.approx(sum(slow), rel=1e-12)
    if sum(slow) > 0:
        shares = data.draw(st.lists(st.floats(0.0, 1.0), min_size=1))
        found = tree.find(np.array(shares) * tree.total)
        ends = np.cumsum(slow)
        for share, place in zip(shares, found.tolist(), strict=True):
            assert slow[place] > 0
            near = 1e-12 * ends[-1]
            assert ends[place] - slow[place] - near <= share * ends[-1] <= ends[place] + near


def test_a_tree_of_whole_numbers_is_divided_exactly():
    tree = SumTree(4)
    tree[np.arange(4)] = np.array([3.0, 1.0, 0.0, 6.0])
    assert tree.find(np.arange(10.0)).tolist() == [0, 0, 0, 1, 3, 3, 3, 3, 3, 3]
    assert tree.find(np.array([9.999, 10.0, 11.0])).tolist() == [3, 3, 3]


def test_a_million_updates_leave_no_rounding_behind():
    rng = np.random.default_rng(0)
    tree, places = SumTree(1000), np.arange(1000)
    for _ in range(1000):
        tree[places] = 10.0 ** rng.uniform(-8, 8, size=1000)
    tree[places] = 1.0
    assert tree.total == 1000.0


# -- how often, and with which weight --------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_frequencies_match_priorities(mode, alpha):
    """Pearson's chi-square over 20 items; 50.8 is its 99.99 % point at 19 degrees of freedom.

    One draw a batch: draws of a larger one are stratified, and spread less than chance.
    """
    buffer = filled(100, [1] * 20, priority_alpha=alpha, seed=3)
    priorities = np.arange(1.0, 21.0)
    buffer.update_priorities(np.arange(20), priorities, mode)
    drawn = np.concatenate([buffer.sample(1, mode).indices for _ in range(20_000)])
    expected = 20_000 * priorities**alpha / (priorities**alpha).sum()
    found = np.bincount(drawn, minlength=20)
    assert ((found - expected) ** 2 / expected).sum() < 50.8


def test_a_batch_takes_one_from_each_equal_share():
    buffer = filled(100, [1] * 8, priority_alpha=0.0)
    for _ in range(20):
        assert buffer.sample(8, "turn").indices.tolist() == list(range(8))
        assert np.bincount(buffer.sample(20, "turn").indices).min() >= 1


@pytest.mark.parametrize("mode", MODES)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=30)
def test_weights_equal_the_plain_loop(mode, priorities, alpha, beta):
    buffer = filled(50, [1] * len(priorities), priority_alpha=alpha)
    buffer.priority_beta = beta
    buffer.update_priorities(np.arange(len(priorities)), priorities, mode)
    batch = buffer.sample(7, mode)
    total = sum(priority**alpha for priority in priorities)
    slow = []
    for index in batch.indices:
        probability = priorities[index] ** alpha / total
        slow.append((len(priorities) * probability) ** -beta)
    assert batch.weights == pytest.approx([weight / max(slow) for weight in slow])


def test_what_is_new_has_the_greatest_priority_so_far():
    buffer = filled(100, [1, 1], priority_alpha=1.0)
    buffer.update_priorities([0, 1], [6.0, 2.0], "turn")
    buffer.update_priorities([0], [1.0], "turn")
    buffer.add(episode(2, 1))
    drawn = buffer.sample(9, "turn").indices  # shares of 1, 2 and 6, of a mass of 9
    assert np.bincount(drawn).tolist() == [1, 2, 6]
    assert np.bincount(buffer.sample(9, "trajectory").indices).tolist() == [3, 3, 3]


def test_of_an_index_that_comes_twice_the_last_priority_stays():
    buffer = filled(100, [1, 1], priority_alpha=1.0)
    buffer.update_priorities([0, 1, 0], [5.0, 1.0, 3.0], "turn")
    assert np.bincount(buffer.sample(4, "turn").indices).tolist() == [3, 1]


# -- what a batch holds ----------------------------------------------------------------------------


def slow_turn(item, turn):
    """A turn's fields, read off its episode."""
    last = turn == len(item.actions) - 1
    total = 0.0
    for reward in reversed(item.rewards[turn:]):
        total = reward + 0.9 * total
    return {
        "observation": item.observations[turn].tolist(),
        "next_observation": item.observations[turn + 1].tolist(),
        "action": item.actions[turn],
        "reward": item.rewards[turn],
        "return_to_go": total,
        "terminated": last and item.terminated,
        "truncated": last and not item.terminated,
        "mask": item.masks[turn].tolist(),
        "next_mask": item.masks[turn + 1].tolist(),
    }


@pytest.mark.parametrize("mode", MODES)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.booleans(), st.integers(0, 99))
@settings(max_examples=40)
def test_a_batch_equals_the_turns_read_one_by_one(mode, lengths, at_once, seed):
    """Over a ring of 10 turns, filled once or several times, whole or one by one."""
    items = [episode(n, length, n % 3 > 0, masks=True) for n, length in enumerate(lengths)]
    buffer = ConversationReplayBuffer(10, seed=seed)
    if at_once:
        buffer.extend(items)
    else:
        for item in items:
            buffer.add(item)
    kept = len(lengths)
    while sum(lengths[len(lengths) - kept :]) > 10:
        kept -= 1
    first = len(lengths) - kept
    assert (len(buffer), buffer.conversations) == (sum(lengths[first:]), kept)
    batch = buffer.sample(30, mode)
    rows = arrays_of(batch)
    row = 0
    for draw, index in enumerate(batch.indices.tolist()):
        if mode == "trajectory":
            turns = [(index, turn) for turn in range(lengths[index])]
        else:
            talk_of = np.repeat(np.arange(len(lengths)), lengths)[index]
            turns = [(talk_of, index - sum(lengths[:talk_of]))]
        assert batch.lengths[draw] == len(turns)
        for number, turn in turns:
            assert first <= number
            assert (rows["conversation_index"][row], rows["turn_index"][row]) == (number, turn)
            slow = slow_turn(items[number], turn)
            assert {name: rows[name][row].tolist() for name in slow} == slow
            row += 1
    assert all(len(rows[name]) == row for name in slow)


def test_words_come_as_histories_and_replies():
    first = talk("a", "hello", "a:hi", "my parcel", "a:which?", "a:or what?", "that")
    buffer = ConversationReplayBuffer(10)
    buffer.extend([first, talk("b", "a:good day", "bye")])
    assert (len(buffer), buffer.conversations) == (4, 2)
    batch = buffer.sample(4, "turn")
    assert batch.indices.tolist() == [0, 1, 2, 3]
    said = [[m.content for m in history] for history in batch.histories]
    assert said == [["hello"], ["hello", "hi", "my parcel"], [*said[1], "which?"], []]
    assert [reply.content for reply in batch.replies] == ["hi", "which?", "or what?", "good day"]
    assert [c.conversation_id for c in batch.conversations] == ["a", "a", "a", "b"]
    assert batch.turn_index.tolist() == [0, 1, 2, 0]
    whole = buffer.sample(2)
    assert whole.conversations == (first, talk("b", "a:good day", "bye"))
    assert whole.lengths.tolist() == [3, 1]
    assert (whole.histories, whole.replies) == (batch.histories, batch.replies)


# -- what leaves -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_what_has_left_is_never_drawn_and_its_priorities_are_passed_over(mode):
    buffer = filled(10, [4, 3, 2], priority_alpha=1.0)
    buffer.add(episode(3, 5))  # 14 turns: the first conversation leaves, and that is enough
    assert (len(buffer), buffer.conversations) == (10, 3)
    buffer.update_priorities([0], [1e6], mode)
    batch = buffer.sample(200, mode)
    assert sorted(set(batch.conversation_index.tolist())) == [1, 2, 3]
    # The index that left shares its slot with one that is here, whose priority did not change.
    counts = np.unique(batch.indices, return_counts=True)[1]
    assert counts.max() - counts.min() <= 2


def test_a_conversation_as_long_as_the_capacity_empties_the_rest():
    buffer = filled(5, [2, 2, 5])
    assert (len(buffer), buffer.conversations) == (5, 1)
    assert set(buffer.sample(9, "turn").conversation_index.tolist()) == {2}
    words = ConversationReplayBuffer(1)
    words.extend([talk("a", "a:one"), talk("b", "a:two")])
    assert words.sample(1).replies[0].content == "two"
    assert len(words._said) == 1


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"capacity": 0},
        {"capacity": 2.5},
        {"priority_alpha": -0.1},
        {"priority_beta": float("nan")},
        {"seed": -1},
    ],
)
def test_a_bad_keyword_is_named(given):
    with pytest.raises(InvalidConfiguration, match=f"{next(iter(given))}="):
        ConversationReplayBuffer(**{"capacity": 10, **given})


@pytest.mark.parametrize("priority", [0.0, -1.0, float("nan"), float("inf"), 1e-300])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_priority_that_is_none_is_refused_and_changes_nothing(priority, alpha):
    buffer, other = (filled(10, [2, 2], priority_alpha=alpha) for _ in range(2))
    with pytest.raises(InvalidConfiguration, match="priorities from"):
        buffer.update_priorities([0, 1], [5.0, priority], "turn")
    same(buffer.sample(50, "turn"), other.sample(50, "turn"))


@pytest.mark.parametrize("indices", [[4], [-1], [0.5], [[0]], [0, 1]])
def test_an_index_that_was_never_given_out_is_refused(indices):
    with pytest.raises(InvalidConfiguration, match="indices"):
        filled(10, [2, 2]).update_priorities(indices, [1.0], "turn")


def test_no_indices_are_no_fault():
    buffer = filled(10, [2])
    buffer.update_priorities([], [], "turn")
    buffer.extend([])
    assert len(buffer) == 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda e: replace(e, observations=e.observations[1:]), "takes 4"),
        (lambda e: replace(e, rewards=e.rewards[1:]), "takes 3"),
        (lambda e: replace(e, rewards=e.rewards / 0.0), "not finite"),
        (lambda e: episode(8, 0), "agent turn"),
        (lambda e: replace(e, observations=["a"] * 4), "turn texts into vectors"),
        (lambda e: replace(e, observations={"features": e.observations}), "takes numbers"),
        (lambda e: replace(e, observations=e.observations[:, :1]), "one kind"),
        (lambda e: episode(0, 3, masks=True), "one kind"),
        (lambda e: episode(0, 11), "room for 10"),
        (lambda e: talk("a", "hi", "a:hello"), "one kind"),
        (lambda e: talk("a", "hi"), "agent turn"),
        (lambda e: "hello", "a str came"),
    ],
)
def test_an_item_that_does_not_fit_is_refused_and_so_are_its_neighbours(fault, message):
    buffer, other = filled(10, [2, 2]), filled(10, [2, 2])
    with np.errstate(all="ignore"), pytest.raises(DatasetError, match=message):
        buffer.extend([episode(7, 3), fault(episode(8, 3))])
    assert len(buffer) == 4
    same(buffer.sample(9), other.sample(9))


def test_sampling_says_what_it_takes():
    with pytest.raises(InvalidConfiguration, match="is empty"):
        ConversationReplayBuffer(5).sample(1)
    with pytest.raises(InvalidConfiguration, match="mode='turns'"):
        filled(5, [1]).sample(1, "turns")
    with pytest.raises(InvalidConfiguration, match="batch_size=0"):
        filled(5, [1]).sample(0)
    buffer = filled(5, [1])
    with pytest.raises(InvalidConfiguration, match="priority_beta=2"):
        buffer.priority_beta = 2


# -- the file --------------------------------------------------------------------------------------


def used(items):
    """A buffer that has seen draws, priorities and evictions."""
    buffer = ConversationReplayBuffer(20, seed=5)
    buffer.extend(items)
    for mode in MODES:
        drawn = buffer.sample(6, mode).indices
        buffer.update_priorities(drawn, 1.0 + drawn / 7, mode)
    buffer.priority_beta = 0.7
    return buffer


NUMBERS = [episode(n, 1 + n % 4, n % 2 > 0, masks=True) for n in range(12)]
WORDS = [
    talk(f"é{n}", "hi \ud800", *["a:hello", "so"] * (1 + n % 3), reward=n / 3, metadata={"n": [n]})
    for n in range(12)
]


@pytest.mark.parametrize("items", [NUMBERS, WORDS, NUMBERS[:2]])
def test_a_saved_buffer_goes_on_the_same(items, tmp_path):
    buffer = used(items)
    buffer.save(tmp_path / "one")
    loaded = ConversationReplayBuffer.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (len(loaded), loaded.priority_beta) == (len(buffer), 0.7)
    for mode in MODES * 3:
        one, other = buffer.sample(8, mode), loaded.sample(8, mode)
        same(one, other)
        for each in (buffer, loaded):
            each.update_priorities(one.indices, 0.1 + one.weights, mode)
            each.extend(items[:3])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_an_empty_buffer_can_be_saved(tmp_path):
    ConversationReplayBuffer(4, seed=1).save(tmp_path / "empty")
    loaded = ConversationReplayBuffer.load(tmp_path / "empty")
    loaded.add(episode(0, 3))
    other = filled(4, [3], seed=1)
    same(loaded.sample(9, "turn"), other.sample(9, "turn"))


def test_same_seed_same_bytes_and_another_seed_other_ones():
    one, two, other = (filled(40, [3] * 10, seed=seed).sample(12, "turn") for seed in (1, 1, 2))
    same(one, two)
    assert one.indices.tolist() != other.indices.tolist()


def test_what_json_would_change_is_not_written(tmp_path):
    buffer = ConversationReplayBuffer(4)
    buffer.add(talk("a", "hi", "a:hello", metadata={"pair": (1, 2)}))
    (tmp_path / "file").write_text("as it was")
    with pytest.raises(DatasetError, match="'a' does not come back the same"):
        buffer.save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "as it was"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_that_is_none_is_one_sentence(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(DatasetError, match="No such file"):
        ConversationReplayBuffer.load(path)
    used(NUMBERS).save(path)
    whole = path.read_bytes()
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    for text in (b"hello", whole[: len(whole) // 2], (tmp_path / "other.npz").read_bytes()):
        path.write_bytes(text)
        with pytest.raises(DatasetError, match="no replay buffer"):
            ConversationReplayBuffer.load(path)


def test_a_file_holds_no_pickle(tmp_path):
    used(WORDS).save(tmp_path / "file")
    with zipfile.ZipFile(tmp_path / "file") as file:
        for name in file.namelist():
            with file.open(name) as array:
                np.lib.format.read_magic(array)
                assert not np.lib.format.read_array_header_1_0(array)[2].hasobject


def test_a_real_log_goes_in_and_comes_back(tmp_path):
    talks = [c for c in LogReader(corpus("multiwoz", "dev")) if any(c.said_by("assistant"))][:200]
    buffer = ConversationReplayBuffer(1000)
    buffer.extend(talks)
    assert 900 < len(buffer) <= 1000
    batch = buffer.sample(64, "turn")
    for source, history, reply in zip(
        batch.conversations, batch.histories, batch.replies, strict=True
    ):
        assert isinstance(source, Conversation) and reply.role == "assistant"
        assert source.messages[: len(history) + 1] == (*history, reply)
    buffer.save(tmp_path / "file")
    same(buffer.sample(9), ConversationReplayBuffer.load(tmp_path / "file").sample(9))
