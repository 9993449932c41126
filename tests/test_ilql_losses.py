"""The arithmetic of ILQL, and rows of tokens as steps between agent tokens: worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.data.transitions import returns_to_go
from convgym.errors import DatasetError

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from trainers.llm.ilql_losses import (  # noqa: E402
    conservative_loss,
    mean_of,
    perturbed,
    td_loss,
    td_targets,
)  # fmt: skip
from trainers.llm.token_batches import TokenBatches, token_steps  # noqa: E402
from trainers.llm.tokens import TokenRow  # noqa: E402

GIVEN = (-1, -1, -1, 0, 0, -1, -1, 1, 1)  # the drawing of token_batches


def row_of(turns, rewards, terminated=True):
    earned = np.array(rewards, dtype=float)
    ids = np.arange(100, 100 + len(turns))
    return TokenRow(ids, np.array(turns), earned, returns_to_go(earned, 1.0), terminated)


# -- steps


def test_the_steps_of_the_drawing():
    steps = token_steps(row_of(GIVEN, [5.0, 7.0]), discount=0.9)
    assert steps.before.tolist() == [2, 3, 6, 7]
    assert steps.token.tolist() == [103, 104, 107, 108]
    assert steps.after[:3].tolist() == [3, 6, 7]
    assert steps.reward.tolist() == [0.0, 5.0, 0.0, 7.0]
    assert steps.discount.tolist() == [1.0, 0.9, 1.0, 0.0]
    assert steps.known.all()


def test_the_token_that_ends_an_utterance_bootstraps_where_the_next_one_begins():
    """Never from the customer's tokens between, which are no choice of the agent's."""
    steps = token_steps(row_of(GIVEN, [5.0, 7.0]), discount=0.9)
    chosen = set(steps.before.tolist())
    assert set(steps.after[:-1].tolist()) <= chosen


def test_a_cut_off_conversation_bootstraps_from_what_the_customer_said_last():
    steps = token_steps(row_of((*GIVEN, -1, -1), [5.0, 7.0], terminated=False), discount=0.9)
    assert (steps.after[-1], steps.discount[-1], steps.known[-1]) == (10, 0.9, True)


def test_without_what_followed_there_is_no_target():
    steps = token_steps(row_of(GIVEN, [5.0, 7.0], terminated=False), discount=0.9)
    assert steps.known.tolist() == [True, True, True, False]


def test_tokens_after_the_end_are_not_bootstrapped_from():
    steps = token_steps(row_of((*GIVEN, -1), [5.0, 7.0], terminated=True), discount=0.9)
    assert steps.discount[-1] == 0.0 and steps.known[-1]


@given(
    lengths=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=5),
    discount=st.floats(0.0, 1.0),
)
def test_rewards_along_the_steps_are_the_return_to_go(lengths, discount):
    rewards = np.arange(1.0, len(lengths) + 1)
    parts = [[-1]] + [[n] * own + [-1] * other for n, (own, other) in enumerate(lengths)]
    steps = token_steps(row_of(np.concatenate(parts), rewards), discount)
    value, found = 0.0, []
    for reward, kept in zip(steps.reward[::-1], steps.discount[::-1], strict=True):
        value = reward + kept * value
        found.insert(0, value)
    firsts = np.cumsum([0, *(own for own, _ in lengths[:-1])])
    assert np.array(found)[firsts] == pytest.approx(returns_to_go(rewards, discount))


@pytest.mark.parametrize("turns", [(0, -1), (-1, -1)])
def test_a_row_needs_something_before_the_agents_first_token(turns):
    with pytest.raises(DatasetError, match="put the prompt or a start token first"):
        token_steps(row_of(turns, [1.0]), 0.9)


def test_a_turn_without_tokens_would_lose_its_reward():
    with pytest.raises(DatasetError, match="2 rewards and tokens of 1 agent turns"):
        token_steps(row_of((-1, 0), [1.0, 2.0]), 0.9)


def test_a_batch_points_into_its_own_rows():
    rows = [row_of(GIVEN, [5.0, 7.0]), row_of((-1, 0), [1.0])]
    batch = TokenBatches(rows, 0.9).batch([1, 0])
    assert batch.tokens.shape == (2, 9) and batch.attention.sum(dim=1).tolist() == [2, 9]
    assert batch.row.tolist() == [0, 1, 1, 1, 1]
    assert batch.tokens[batch.row, batch.before + 1].tolist() == batch.token.tolist()
    assert batch.reward.tolist() == [1.0, 0.0, 5.0, 0.0, 7.0]


def test_a_seed_decides_what_is_drawn():
    rows = [row_of((-1, 0), [float(n)]) for n in range(9)]
    drawn = [TokenBatches(rows).draw(20, seed, "cpu").reward for seed in ((0, 3), (0, 3), (0, 4))]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_no_conversations_are_refused():
    with pytest.raises(DatasetError, match="no conversations"):
        TokenBatches([])


# -- losses


def test_targets_by_hand_and_without_gradient():
    next_v = torch.tensor([10.0, 10.0, 10.0], requires_grad=True)
    found = td_targets(torch.tensor([0.0, 2.0, 2.0]), torch.tensor([1.0, 0.5, 0.0]), next_v)
    assert found.tolist() == [10.0, 7.0, 2.0] and not found.requires_grad


def test_both_value_functions_meet_the_target():
    q = torch.tensor([[1.0, 2.0], [4.0, 2.0]])
    assert td_loss(q, torch.tensor([2.0, 2.0])).tolist() == [1.0 + 4.0, 0.0]


def test_conservative_loss_by_hand():
    """exp(Q) of 1 : 3 and of 2 : 2, the token said being the second and then the first."""
    q = torch.tensor([[[1.0, 3.0]], [[2.0, 2.0]]]).log()
    expected = [-np.log(3 / 4) - np.log(2 / 4)]
    assert conservative_loss(q, torch.tensor([1])).tolist() == pytest.approx(expected)


def test_a_step_against_it_lowers_what_was_not_said():
    q = torch.zeros(2, 1, 3, requires_grad=True)
    conservative_loss(q, torch.tensor([1])).sum().backward()
    assert torch.equal(q.grad.sign(), torch.tensor([[[1.0, -1.0, 1.0]]] * 2))


def test_the_mean_leaves_out_what_has_no_target():
    losses = torch.tensor([1.0, 5.0, 100.0])
    assert float(mean_of(losses, torch.tensor([True, True, False]))) == 3.0
    assert float(mean_of(losses, torch.tensor([False] * 3))) == 0.0


def test_perturbed_logits_by_hand():
    logits = torch.tensor([[0.25, 0.75]]).log() + 3.0
    found = perturbed(logits, torch.tensor([[1.0, 0.5]]), torch.tensor([0.5]), beta=2.0)
    assert found[0].tolist() == pytest.approx([np.log(0.25) + 1.0, np.log(0.75)])


@given(st.floats(-3, 3))
def test_the_state_value_changes_no_probability(v):
    logits, q = torch.tensor([[0.3, -1.0, 2.0]]), torch.tensor([[0.1, 0.5, -0.4]])
    found, plain = (perturbed(logits, q, torch.tensor([x]), 4.0).softmax(-1) for x in (v, 0.0))
    assert torch.allclose(found, plain, atol=1e-5)
