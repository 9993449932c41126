"""Replay of rollouts and elastic weights, beside numbers worked by hand."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from trainers.llm.elastic_weights import ElasticWeights
from trainers.llm.replay import RolloutReplay
from trainers.llm.rollouts import Rollout, Rows, Segment


def rollout(group: int, reward: float, task: str = "a", error: str = "") -> Rollout:
    segment = Segment(
        np.array([1, 2, 3]), np.array([-1, 0, 0]), np.array([0, -1, -2], dtype=np.float32)
    )
    return Rollout(
        segments=(segment,), rewards=np.array([reward]), group=group, seed=group, task=task,
        error=error,
    )  # fmt: skip


def groups(number: int, task: str = "a") -> list[Rollout]:
    return [rollout(g, reward, task) for g in range(number) for reward in (0.0, 1.0)]


def test_groups_are_kept_whole_with_what_they_were_sampled_with():
    replay = RolloutReplay(8)
    replay.add("a", groups(3))
    drawn = replay.draw(2)
    assert Counter(r.group for r in drawn) == {-1: 2, -2: 2}
    assert drawn[0].seed != drawn[2].seed
    assert drawn[0].segments[0].log_probs.tolist() == [0, -1, -2]


def test_what_teaches_nothing_is_not_kept():
    replay = RolloutReplay(8)
    replay.add("a", [rollout(0, 1.0), rollout(0, 1.0), rollout(1, 0.0), rollout(1, 1.0, error="x")])
    assert len(replay) == 0 and replay.draw(3) == []


def test_a_balanced_replay_gives_a_short_task_its_share():
    balanced, pool = RolloutReplay(10, seed=1), RolloutReplay(10, balanced=False, seed=1)
    for replay in (balanced, pool):
        replay.add("a", groups(5, "a"))
        replay.add("b", groups(400, "b"))
    shares = [Counter(r.task for r in replay.draw(10))["a"] for replay in (balanced, pool)]
    assert [len(balanced.kept(task)) for task in ("a", "b")] == [5, 5]
    assert shares[0] == 10 and shares[1] <= 4  # of 10 groups of 2
    for task in "cd":
        balanced.add(task, groups(3, task))
    for _ in range(10):
        assert len({r.task for r in balanced.draw(4)}) == 4  # each its share of what is drawn


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 12)), max_size=6),
    st.integers(3, 9),
    st.integers(0, 5),
)
def test_a_replay_is_bounded_and_repeats_from_its_seed(given_, capacity, asked):
    def drawn():
        replay = RolloutReplay(capacity, seed=4)
        for task, number in given_:
            replay.add(task, groups(number, task))
        assert len(replay) <= capacity
        return [(r.task, r.seed, r.group) for r in replay.draw(asked)]

    assert drawn() == drawn()


def test_every_group_is_kept_with_the_same_chance():
    kept: Counter[int] = Counter()
    for seed in range(400):
        replay = RolloutReplay(5, seed=seed)
        replay.add("a", groups(20))
        kept.update(group[0].seed for group in replay.kept("a"))
    assert min(kept.values()) > 60 and max(kept.values()) < 145  # 100 expected, σ 8.7


class Line(torch.nn.Module):
    """log π of a token: w · token, so that its slope is known."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([2.0, -1.0]))

    def log_probs(self, rows: Rows) -> torch.Tensor:
        return torch.where(rows.mask, self.w[0] * rows.tokens + self.w[1], 0.0)


def line_rows() -> Rows:
    tokens = torch.tensor([[5, 1, 0], [5, 2, 3]])
    turns = torch.tensor([[-1, 0, -1], [-1, 0, 0]])
    attention = torch.tensor([[True, True, False], [True, True, True]])
    return Rows(tokens, attention, turns, torch.zeros(2, 3), torch.arange(2))


def test_the_information_is_the_mean_square_slope():
    model = Line()
    held = ElasticWeights(model, strength=3.0)
    assert held.loss() == 0
    held.consolidate(model.log_probs, line_rows())
    # slopes of the two conversations: (1, 1) and (2 + 3, 2)
    assert held.information["w"].tolist() == [(1 + 25) / 2, (1 + 4) / 2]
    with torch.no_grad():
        model.w += torch.tensor([0.1, 0.2])
    expected = 1.5 * (13 * 0.01 + 2.5 * 0.04)
    assert held.loss().item() == pytest.approx(expected, rel=1e-5)
    (slope,) = torch.autograd.grad(held.loss(), [model.w])
    assert slope.tolist() == pytest.approx([3 * 13 * 0.1, 3 * 2.5 * 0.2], rel=1e-5)


def test_a_second_task_adds_to_the_first():
    model = Line()
    held = ElasticWeights(model, decay=0.5)
    held.consolidate(model.log_probs, line_rows())
    held.consolidate(model.log_probs, line_rows())
    assert held.information["w"].tolist() == [19.5, 3.75]
    other = ElasticWeights(model, decay=0.5)
    other.restore(held.state())
    with torch.no_grad():
        model.w += 1
    assert other.loss() == held.loss() > 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RolloutReplay(0),
        lambda: ElasticWeights(Line(), strength=-1),
        lambda: ElasticWeights(Line(), decay=2),
    ],
)
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(InvalidConfiguration):
        wrong()
