"""How many of a batch are simulated, and from where they come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import talk

from convgym.data.replay_buffer import ConversationReplayBuffer
from convgym.errors import InvalidConfiguration
from trainers.transfer.mixing import MixedSampler, Shares
from trainers.transfer.schedules import RatioSchedule

requests = st.lists(st.tuples(st.integers(0, 300), st.floats(0, 1)), min_size=1, max_size=50)


@given(requests, st.integers(0, 10_000))
def test_shares_are_never_a_whole_draw_off_at_once_or_in_sum(asked, seed):
    shares, due, drawn = Shares(seed), 0.0, 0
    for count, ratio in asked:
        simulated, real = shares.split(count, ratio)
        assert simulated + real == count and simulated >= 0 and real >= 0
        assert abs(simulated - ratio * count) < 1 + 1e-9
        due, drawn = due + ratio * count, drawn + simulated
        assert abs(drawn - due) < 1 + 1e-9


def test_shares_are_the_ratio_on_the_average():
    """The third batch of 10 at 0.33, over seeds: 3.3 within four standard errors."""
    found = []
    for seed in range(4_000):
        shares = Shares(seed)
        found.append([shares.split(10, 0.33)[0] for _ in range(3)][-1])
    assert set(found) == {3, 4}
    assert np.mean(found) == pytest.approx(3.3, abs=4 * np.sqrt(0.3 * 0.7 / 4_000))


def test_shares_by_hand():
    shares = Shares()
    shares._over = 0.5
    assert [shares.split(1, 0.4)[0] for _ in range(6)] == [0, 1, 0, 1, 0, 0]
    assert shares.split(7, 1.0) == (7, 0) and shares.split(7, 0.0) == (0, 7)


def test_all_are_simulated_at_one_though_the_sum_is_rounded_up():
    shares = Shares()
    shares._over = np.nextafter(1.0, 0.0)
    assert shares.split(10, 1.0) == (10, 0)


@pytest.mark.parametrize(("count", "ratio"), [(-1, 0.5), (4, 1.01), (4, -0.1), (4, np.nan)])
def test_a_count_or_ratio_that_is_not_allowed_is_refused(count, ratio):
    with pytest.raises(InvalidConfiguration, match="ratio lies in"):
        Shares().split(count, ratio)


class Numbers:
    """Consecutive numbers from a first one on; notes what else it was asked."""

    def __init__(self, first):
        self.next, self.asked = first, []

    def sample(self, batch_size, **how):
        self.next += batch_size
        self.asked.append(how)
        return list(range(self.next - batch_size, self.next))


def test_a_batch_has_what_each_source_gave_and_nothing_from_a_source_of_no_share():
    ratio = {0: 1.0, 1: 0.5, 2: 0.0}.get
    sampler = MixedSampler(Numbers(0), Numbers(100), ratio)
    batches = [sampler.sample(4, step) for step in range(3)]
    assert [batch.counts for batch in batches] == [(4, 0), (2, 2), (0, 4)]
    assert [batch.simulated for batch in batches] == [[0, 1, 2, 3], [4, 5], None]
    assert [batch.real for batch in batches] == [None, [100, 101], [102, 103, 104, 105]]


def test_what_else_is_asked_goes_to_both_sources():
    sampler = MixedSampler(Numbers(0), Numbers(0), lambda step: 0.5)
    sampler.sample(2, 0, mode="turn")
    assert sampler.simulated.asked == sampler.real.asked == [{"mode": "turn"}]


def buffers():
    made = []
    for side, seed in (("simulated", 1), ("real", 2)):
        buffer = ConversationReplayBuffer(capacity=100, seed=seed)
        buffer.extend(talk(f"{side} {n}", "Hi", "a:Hello", "Bye", "a:Bye") for n in range(20))
        made.append(buffer)
    return made


def test_replay_buffers_are_mixed_along_a_schedule_and_the_same_each_time():
    schedule = RatioSchedule(total_steps=10)

    def drawn():
        sampler = MixedSampler(*buffers(), schedule.ratio, seed=3)
        return [sampler.sample(8, step, mode="turn") for step in range(11)]

    def ids(batch):
        return [
            talk.conversation_id
            for part in (batch.simulated, batch.real)
            if part is not None
            for talk in part.conversations
        ]

    first, second = drawn(), drawn()
    assert [ids(batch) for batch in first] == [ids(batch) for batch in second]
    for step, batch in enumerate(first):
        names = [name.split()[0] for name in ids(batch)]
        assert names == ["simulated"] * batch.counts[0] + ["real"] * batch.counts[1]
        assert abs(batch.counts[0] - 8 * (1 - step / 10)) < 1
