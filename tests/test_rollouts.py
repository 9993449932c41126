"""Rollouts as tensors: nothing of a conversation is lost, however it was cut into segments."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from trainers.llm.credit import GeneralizedAdvantage, GroupRelative
from trainers.llm.rollouts import Rollout, RolloutBatch, Segment


def segment(turns: list[int]) -> Segment:
    turns_ = np.array(turns)
    sampled = turns_ >= 0
    return Segment(np.arange(len(turns)) + 1, turns_, np.where(sampled, -0.5, 0).astype(np.float32))


def rollout(*segments: list[int], rewards: list[float], group: int = 0, error: str = "") -> Rollout:
    return Rollout(
        segments=tuple(segment(turns) for turns in segments),
        rewards=np.array(rewards),
        group=group,
        seed=0,
        error=error,
    )


def test_a_batch_of_two_worked_by_hand():
    batch = RolloutBatch(
        [
            rollout([-1, 0, 0, -1, 1], rewards=[0, 1]),
            rollout([-1, 0], [-1, -1, 1], rewards=[0, 0]),
        ]
    )
    rows = batch.rows
    assert rows.tokens.tolist() == [[1, 2, 3, 4, 5], [1, 2, 0, 0, 0], [1, 2, 3, 0, 0]]
    assert rows.rollouts.tolist() == [0, 1, 1]
    assert rows.mask.sum(-1).tolist() == [3, 1, 1]
    episodes = batch.episodes()
    assert episodes.turns.tolist() == [[-1, 0, 0, -1, 1], [-1, 0, -1, -1, 1]]
    advantages = GroupRelative(scale="none").estimate(episodes).advantages
    assert batch.on_rows(advantages).tolist() == [
        [0, 0.5, 0.5, 0, 0.5],
        [0, -0.5, 0, 0, 0],
        [0, 0, -0.5, 0, 0],
    ]


def test_failed_rollouts_are_in_no_mean():
    batch = RolloutBatch(
        [
            rollout([-1, 0], rewards=[1.0]),
            rollout([-1, 0], rewards=[0.0]),
            rollout([-1, 0], rewards=[9.0], error="RuntimeError: the judge is away"),
            rollout([-1, -1], rewards=[5.0]),
        ]
    )
    assert batch.returns.tolist() == [1, 0]


def test_a_batch_of_failures_says_why():
    with pytest.raises(InvalidConfiguration, match="the judge is away"):
        RolloutBatch([rollout([-1, 0], rewards=[0.0], error="the judge is away")])


def test_rows_are_taken_without_padding_nobody_needs():
    rows = RolloutBatch(
        [rollout([-1, 0, 0, 0], rewards=[1.0]), rollout([-1, 0], rewards=[0.0])]
    ).rows
    assert rows.at(torch.tensor([1])).tokens.tolist() == [[1, 2]]


turn_lists = st.lists(st.integers(1, 3), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(turn_lists, min_size=1, max_size=4), cuts=st.data())
def test_credit_is_the_same_however_conversations_were_cut(lengths, cuts):
    """GAE and group baselines run over a conversation, not over its segments."""
    whole, pieces = [], []
    for group, turns in enumerate(lengths):
        parts = [[-1] + [n] * count for n, count in enumerate(turns)]
        rewards = [float(n % 2) for n in range(len(turns))]
        whole.append(rollout([*chain(*parts)], rewards=rewards, group=group // 2))
        cut = cuts.draw(st.integers(0, len(parts) - 1))
        both = [[*chain(*part)] for part in (parts[:cut], parts[cut:]) if part]
        pieces.append(rollout(*both, rewards=rewards, group=group // 2))
    one, other = RolloutBatch(whole), RolloutBatch(pieces)
    values = torch.arange(one.rows.tokens.numel(), dtype=torch.float32).reshape(
        one.rows.tokens.shape
    )
    for credit in (GeneralizedAdvantage(whitened=False), GroupRelative(credit="turn")):
        expected = credit.estimate(one.episodes(values)).advantages
        found = credit.estimate(other.episodes(other.on_rows(values))).advantages
        assert torch.allclose(found, expected)
        back = other.on_rows(found)[other.rows.attention]
        assert torch.allclose(back, one.on_rows(expected)[one.rows.attention])
