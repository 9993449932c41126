"""Credit of turns and tokens: worked by hand, and unbiased where it must be."""

import itertools

import pytest

from convgym.errors import InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")

from trainers.llm.credit import (  # noqa: E402
    DiscountedReturns,
    Episodes,
    GeneralizedAdvantage,
    GroupRelative,
)

NAN = float("nan")


def episodes(**changed):
    """Three rollouts of one task and one that failed; two turns of two tokens and of one."""
    rewards = [[1.0, 2.0], [0.0, 1.0], [0.5, NAN], [NAN, 99.0]]
    turns = [[0, 0, -1, 1], [0, 0, -1, 1], [0, 0, -1, -1], [0, 0, -1, 1]]
    given = {
        "rewards": torch.tensor(rewards, dtype=torch.float64),
        "played": torch.tensor([[1, 1], [1, 1], [1, 0], [1, 1]]),
        "turns": torch.tensor(turns),
        "groups": torch.zeros(4, dtype=torch.long),
        "valid": torch.tensor([1, 1, 1, 0]),
    }
    return Episodes(**{**given, **changed})


def rows(found):
    return [pytest.approx(row) for row in found.tolist()]


def test_every_token_of_an_episode_gets_its_return_less_the_groups():
    """Returns 3, 1, ½: mean 1½. The failed row is not in it."""
    found = GroupRelative(scale="none").estimate(episodes()).advantages
    assert rows(found) == [[1.5, 1.5, 0, 1.5], [-0.5, -0.5, 0, -0.5], [-1, -1, 0, 0], [0] * 4]


def test_discounts_count_turns():
    """γ = ½: returns 2, ½, ½, whose mean is 1; from turn 2 on 2, 1 and, ended, 0."""
    halves = GroupRelative(scale="none", discount=0.5)
    assert rows(halves.estimate(episodes()).advantages)[:2] == [[1, 1, 0, 1], [-0.5, -0.5, 0, -0.5]]
    found = GroupRelative(scale="none", discount=0.5, credit="turn").estimate(episodes())
    assert rows(found.advantages)[:2] == [[1, 1, 0, 1], [-0.5, -0.5, 0, 0]]


def test_a_turn_gets_what_came_after_it_less_the_whole_groups_ended_rows_at_zero():
    """From turn 2 on: 2, 1 and 0, mean 1, though only two rows played it."""
    found = GroupRelative(scale="none", credit="turn").estimate(episodes()).advantages
    assert rows(found) == [[1.5, 1.5, 0, 1], [-0.5, -0.5, 0, 0], [-1, -1, 0, 0], [0] * 4]


def test_by_its_index_a_turn_is_compared_with_those_who_played_it():
    """Turn 1: 1, 0, ½. Turn 2: 2 and 1."""
    found = GroupRelative(scale="none", credit="turn_index").estimate(episodes()).advantages
    assert rows(found) == [[0.5, 0.5, 0, 0.5], [-0.5, -0.5, 0, -0.5], [0] * 4, [0] * 4]


GO, GOOD = 0.3, -0.4  # logits of going on at turn 1, and of the good reply at turn 2


def policy_gradient(credit):
    """What a group's expected gradient is, over all groups of two rollouts of this conversation:

    turn 1   stop: 0.2, the end      go: −0.1, then turn 2   good: 1      bad: 0
    """
    outcomes = [((0, None), (0.2, 0.0)), ((1, 1), (-0.1, 1.0)), ((1, 0), (-0.1, 0.0))]
    logits = torch.tensor([GO, GOOD], dtype=torch.float64, requires_grad=True)
    logs = torch.nn.functional.logsigmoid(torch.stack([-logits, logits]))  # (choice, turn)
    total = torch.zeros(2, dtype=torch.float64)
    for pair in itertools.product(outcomes, repeat=2):
        choices = torch.tensor([[-1 if c is None else c for c in played] for played, _ in pair])
        acted = choices >= 0
        own = logs.gather(0, choices.clamp(min=0)).masked_fill(~acted, 0.0)  # (2, 2)
        found = credit.estimate(
            Episodes(
                rewards=torch.tensor([earned for _, earned in pair], dtype=torch.float64),
                played=acted,
                turns=torch.where(acted, torch.arange(2), -1),
                groups=torch.zeros(2),
                valid=torch.ones(2),
            )
        ).advantages
        (pulled,) = torch.autograd.grad((found * own).sum() / 2, logits, retain_graph=True)
        total += own.sum().exp().detach() * pulled
    return total.tolist()


def true_gradient():
    logits = torch.tensor([GO, GOOD], dtype=torch.float64, requires_grad=True)
    go, good = logits.sigmoid()
    (gradient,) = torch.autograd.grad((1 - go) * 0.2 + go * (-0.1 + good), logits)
    return gradient.tolist()


@pytest.mark.parametrize("credit", ["episode", "turn"])
def test_credit_is_unbiased_where_the_agent_decides_when_to_stop(credit):
    unbiased = GroupRelative(credit=credit, baseline="leave_one_out", scale="none")
    assert policy_gradient(unbiased) == pytest.approx(true_gradient())


def test_with_its_own_row_in_the_mean_credit_is_smaller_and_points_the_same_way():
    """By (G − 1) / G."""
    half = policy_gradient(GroupRelative(scale="none"))
    assert half == pytest.approx([g / 2 for g in true_gradient()])


def test_credit_by_index_is_biased_there_as_its_docstring_warns():
    """Stopping costs 0.3 at turn 1, and what going on brings at turn 2 is not seen there."""
    by_index = GroupRelative(credit="turn_index", baseline="leave_one_out", scale="none")
    assert policy_gradient(by_index)[0] < 0 < true_gradient()[0]


def test_returns_are_whitened_over_the_tokens_of_valid_rows():
    """3, 3, 2, 1, 1, 1, ½, ½: mean 1½, squares 7½ by seven."""
    found = DiscountedReturns().estimate(episodes()).advantages
    std = (7.5 / 7) ** 0.5
    expected = [[1.5, 1.5, 0, 0.5], [-0.5, -0.5, 0, -0.5], [-1, -1, 0, 0], [0, 0, 0, 0]]
    assert torch.allclose(found * std, torch.tensor(expected, dtype=torch.float64), atol=1e-7)


VALUES = torch.tensor([[0.0, 0.5, NAN, 1.0]] * 4, dtype=torch.float64)


def test_a_critics_discount_counts_turns_and_its_lambda_tokens():
    """γ = ½, λ = ½, one row: errors 0.5, 1 + ½·1 − 0.5 = 1, 2 − 1 = 1."""
    plain = GeneralizedAdvantage(discount=0.5, lam=0.5, whitened=False)
    found = plain.estimate(episodes(values=VALUES))
    second = 1 + 0.5 * 0.5 * 1
    assert rows(found.advantages)[0] == [0.5 + 0.5 * second, second, 0, 1]
    assert rows(found.returns)[0] == [0.5 + 0.5 * second, 0.5 + second, 0, 2]
    assert not found.advantages[3].any()


def test_what_was_cut_off_counts_with_the_critics_value():
    """One turn that earned ½, then the value 4 at the cut; γ = ½ between turns."""
    cut = torch.tensor([0.0, 0.0, 4.0, 0.0], dtype=torch.float64)
    plain = GeneralizedAdvantage(discount=0.5, lam=1.0, whitened=False)
    found = plain.estimate(episodes(values=VALUES, bootstrap=cut))
    assert rows(found.returns)[2] == [2.5, 2.5, 0, 0]


def test_lambda_by_length_leaves_the_critic_its_plain_returns():
    """Row 1 has 3 tokens: α = 1 makes λ = ⅔; row 3 has 2: ½."""
    adaptive = GeneralizedAdvantage(alpha=1.0, critic_lam=1.0, whitened=False)
    found = adaptive.estimate(episodes(values=VALUES))
    assert rows(found.advantages)[0] == [0.5 + 2 / 3 * (1.5 + 2 / 3), 1.5 + 2 / 3, 0, 1]
    assert rows(found.advantages)[2] == [0.5, 0, 0, 0]
    assert rows(found.returns)[0] == [3, 3, 0, 2]


def test_advantages_of_a_critic_are_whitened_if_asked():
    found = GeneralizedAdvantage().estimate(episodes(values=VALUES)).advantages
    inside = found[episodes().mask]
    assert inside.mean().item() == pytest.approx(0) and inside.std().item() == pytest.approx(1)


def test_no_gradient_reaches_the_critic_through_advantages():
    values = VALUES.nan_to_num().requires_grad_()
    found = GeneralizedAdvantage().estimate(episodes(values=values))
    assert not found.advantages.requires_grad and not found.returns.requires_grad


def test_a_critics_credit_without_values_is_one_sentence():
    with pytest.raises(InvalidConfiguration, match="need the critic's values"):
        GeneralizedAdvantage().estimate(episodes())


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (GroupRelative, {"credit": "token"}, "credit='token'; it is one of episode, turn"),
        (GroupRelative, {"baseline": "median"}, "baseline='median'; it is one of"),
        (GroupRelative, {"scale": "std"}, "scale='std'; it is one of"),
        (GroupRelative, {"epsilon": NAN}, "epsilon=nan is outside"),
        (DiscountedReturns, {"discount": 1.1}, r"discount=1.1 is outside \[0, 1\]"),
        (GeneralizedAdvantage, {"lam": -0.1}, "lam=-0.1 is outside"),
        (GeneralizedAdvantage, {"alpha": 0.0}, "alpha=0.0; it must be above 0, or None"),
        (GeneralizedAdvantage, {"critic_lam": 2.0}, "critic_lam=2.0 is outside"),
    ],
)
def test_bad_options_are_one_sentence(kind, options, message):
    with pytest.raises(InvalidConfiguration, match=message):
        kind(**options)
