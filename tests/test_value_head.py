"""The critic: where its values stand, what it teaches, and how well it explains returns."""

import numpy as np
import pytest
import torch
from toy_collector import ToyCollector, toy_model

from trainers.llm.objectives import PRESETS
from trainers.llm.policy_batches import policy_batch
from trainers.llm.policy_config import Critic, PolicyOptimizerConfig
from trainers.llm.rollouts import Rollout, RolloutBatch, Segment
from trainers.llm.value_head import ValueHead, after_rows, before_tokens, explained_variance


def ready(width, **changes):
    head = ValueHead(width, Critic(**changes))
    torch.nn.init.normal_(head.last.weight, generator=torch.Generator().manual_seed(0))
    return head


def test_values_stand_before_and_after_as_they_should():
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]])
    assert before_tokens(values).tolist() == [[0, 1, 2], [0, 4, 5]]
    assert after_rows(values, torch.tensor([3, 2])).tolist() == [3, 5]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("hidden", [0, 8])
def test_its_loss_reaches_the_model_only_if_shared(shared, hidden):
    states = torch.randn(2, 3, 16, requires_grad=True)
    head = ready(16, shared=shared, hidden=hidden)
    head(states).square().sum().backward()
    assert (states.grad is not None) is shared
    assert all(p.grad is not None for p in head.parameters())


def test_it_begins_at_nothing_and_with_its_own_seed():
    states = torch.randn(2, 3, 16)
    assert not ValueHead(16)(states).any()
    torch.manual_seed(1)
    one = ValueHead(16).body[1].weight
    torch.manual_seed(2)
    assert torch.equal(one, ValueHead(16).body[1].weight)
    assert not torch.equal(one, ValueHead(16, Critic(seed=3)).body[1].weight)


def test_values_of_a_batch_are_those_of_each_row_alone():
    model = toy_model()
    head = ready(model.width)
    rollouts = ToyCollector(model, "asks").collect(range(4), 3, 0)
    config = PolicyOptimizerConfig(objective="ppo", tokens_per_micro_batch=20)
    batch = policy_batch(RolloutBatch(rollouts), model, head, config, "current")
    for row, rollout in enumerate(rollouts):
        tokens = torch.as_tensor(rollout.segments[0].tokens)
        with torch.no_grad():
            states = model.causal.base_model(input_ids=tokens[None]).last_hidden_state
            expected = head(states)[0]
        own = batch.old_values[row, : len(tokens)]
        torch.testing.assert_close(own[1:], expected[:-1], atol=1e-5, rtol=1e-5)


def test_a_conversation_cut_off_is_worth_what_was_still_to_come():
    """Two segments: the value after the last one is the bootstrap, that of the first is not."""
    model = toy_model()
    head = ready(model.width)
    rng = np.random.default_rng(0)

    def segment(length, turn):
        turns = np.array([-1] + [turn] * (length - 1))
        return Segment(rng.integers(12, size=length), turns, np.zeros(length, np.float32))

    parts = (segment(6, 0), segment(4, 1))
    config = PolicyOptimizerConfig(objective=PRESETS["vapo"], iterations=1)
    found = {}
    for terminated in (True, False):
        rollout = Rollout(
            segments=parts, rewards=np.array([0.0, 1.0]), group=0, seed=0, terminated=terminated
        )
        batch = policy_batch(RolloutBatch([rollout]), model, head, config, "current")
        found[terminated] = batch.returns[batch.rows.mask]
    with torch.no_grad():
        tokens = torch.as_tensor(parts[1].tokens)[None]
        after = head(model.causal.base_model(input_ids=tokens).last_hidden_state)[0, -1]
    assert found[True].tolist() == pytest.approx([1.0] * 8)  # plain returns: λ of the critic is 1
    assert found[False].tolist() == pytest.approx([1.0 + float(after)] * 8, abs=1e-5)


def test_explained_variance_by_hand():
    returns = torch.tensor([[0.0, 2.0, 4.0, 100.0]])
    values = torch.tensor([[0.0, 2.0, 2.0, 0.0]])
    mask = torch.tensor([[1, 1, 1, 0]])
    # returns: mean 2, variance 8/3; errors 0, 0, 2: mean 2/3, variance 8/9
    assert explained_variance(values, returns, mask) == pytest.approx(1 - (8 / 9) / (8 / 3))
    assert explained_variance(values, torch.ones(1, 4), mask) == 0
