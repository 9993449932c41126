"""Offline values in online credit: identities by hand, and a critic that tells good states."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convgym
from convgym.errors import DatasetError, InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from trainers.llm.credit import GroupRelative  # noqa: E402
from trainers.llm.rollouts import Rollout, RolloutBatch, Segment  # noqa: E402
from trainers.transfer.hybrid import (  # noqa: E402
    CriticShaping,
    HybridConfig,
    pretrain_critic,
    states_of,
)

MESSAGES = (
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "hi"},
    {"role": "tool", "content": "{}"},
    {"role": "user", "content": "bye"},
    {"role": "assistant", "content": "good bye"},
    {"role": "user", "content": ""},
)


def rollout(rewards: list[float], *, group: int = 0, terminated: bool = True) -> Rollout:
    turns = np.repeat(np.arange(len(rewards)), 2)
    segment = Segment(np.ones_like(turns), turns, np.zeros(len(turns), dtype=np.float32))
    return Rollout(
        segments=(segment,), rewards=np.array(rewards, dtype=np.float64), group=group, seed=0,
        messages=MESSAGES, terminated=terminated,
    )  # fmt: skip


def test_what_stands_between_two_replies_is_one_state():
    assert states_of(MESSAGES) == (["hello", "{}\nbye", ""], ["hi", "good bye"])


def test_shaped_rewards_by_hand():
    shape = CriticShaping(lambda messages: np.array([0.5, 0.7, 0.9]), discount=0.9)
    ended, cut = shape([rollout([0, 1]), rollout([0, 1], terminated=False)])
    assert ended.rewards.tolist() == pytest.approx([0.9 * 0.7 - 0.5, 1 - 0.7])
    assert cut.rewards.tolist() == pytest.approx([0.9 * 0.7 - 0.5, 1 + 0.9 * 0.9 - 0.7])


def test_a_critic_of_too_few_values_is_refused():
    with pytest.raises(InvalidConfiguration, match="2 replies"):
        CriticShaping(lambda messages: np.zeros(2))([rollout([0, 1])])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=6),
    st.lists(st.floats(-1, 1), min_size=7, max_size=7),
    st.floats(0.1, 1),
)
def test_at_lambda_one_a_critic_is_a_baseline(rewards, values, discount):
    """Σ γ^k δ_{t+k} = G_t − V(s_t), whatever V is."""
    one = rollout(rewards)
    (shaped,) = CriticShaping(lambda messages: np.array(values), discount=discount)([one])
    for turn in range(len(rewards)):
        weights = discount ** np.arange(len(rewards) - turn)
        expected = weights @ one.rewards[turn:] - values[turn]
        assert weights @ shaped.rewards[turn:] == pytest.approx(expected, abs=1e-9)


def test_a_true_critic_leaves_only_what_a_turn_decided():
    """Two turns; the first decides. Return-to-go blames both, the critic only the first."""
    good, bad = rollout([0, 1]), rollout([0, 0])
    values = {1.0: np.array([0.5, 1.0, 0]), 0.0: np.array([0.5, 0.0, 0])}
    shaped = [CriticShaping(lambda m, r=r: values[r.return_])([r])[0] for r in (good, bad)]
    credit = GroupRelative(credit="turn", scale="none")
    plain = credit.estimate(RolloutBatch([good, bad]).episodes()).advantages
    guided = credit.estimate(RolloutBatch(shaped).episodes()).advantages
    assert plain[0].tolist() == [0.5, 0.5, 0.5, 0.5]
    assert torch.equal(guided[0], torch.tensor([0.5, 0.5, 0.0, 0.0]))


def test_a_critic_of_recorded_conversations_tells_good_states_from_bad():
    """What comes after a conversation went well is worth more than its start, in held-out ones."""
    dataset = convgym.load_dataset("convgym/customer-service-text/sample-v0")
    config = HybridConfig(
        offline_algorithm="iql", offline_pretrain_steps=150, discount=0.98,
        offline_options={"hidden": (64,), "batch_size": 64},
    )  # fmt: skip
    critic = pretrain_critic(dataset, config)
    late, early = [], []
    for episode in dataset.iterate_episodes(range(20)):
        if not episode.rewards.sum() > 0.9:
            continue
        messages = [{"role": "user", "content": str(episode.observations[0])}]
        for reply, shown in zip(episode.actions, episode.observations[1:], strict=True):
            messages += [{"role": "assistant", "content": str(reply)}]
            messages += [{"role": "user", "content": str(shown)}]
        values = critic(messages)
        assert len(values) == len(episode.actions) + 1
        early.append(values[0])
        late.append(values[-2])
    assert len(late) >= 3
    assert np.mean(late) > np.mean(early)


@pytest.mark.parametrize(
    "wrong",
    [{"offline_algorithm": "bc"}, {"offline_pretrain_steps": 0}, {"lam": 1.5}, {"discount": -1}],
)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(InvalidConfiguration):
        HybridConfig(**wrong)


def test_acts_are_no_texts():
    dataset = convgym.load_dataset("convgym/customer-service/sample-v0")
    with pytest.raises(DatasetError):
        pretrain_critic(dataset, HybridConfig(offline_pretrain_steps=1))
