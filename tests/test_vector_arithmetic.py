"""Arithmetic of the learners over vectors: against plain loops, integrals and sums by hand."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainers.offline import vector_losses as losses  # noqa: E402
from trainers.offline.divergences import KERNELS, mmd  # noqa: E402
from trainers.offline.multiplier import Multiplier  # noqa: E402
from trainers.offline.networks import MLP  # noqa: E402
from trainers.offline.vector_networks import (  # noqa: E402
    VAE,
    over_samples,
    values,
)
from trainers.offline.vector_policy import normals  # noqa: E402


def normal(*size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


# Maximum mean discrepancy


@pytest.mark.parametrize("kernel", KERNELS)
def test_mmd_is_what_the_plain_loops_give(kernel):
    x, y, sigma = normal(3, 4, 2).double(), normal(3, 5, 2, seed=1).double(), 0.7

    def k(a, b):
        d = (a - b).abs().sum() if kernel == "laplacian" else ((a - b) ** 2).sum()
        return math.exp(-float(d) / (2 * sigma))

    def mean(left, right):
        return sum(k(a, b) for a in left for b in right) / (len(left) * len(right))

    for row in range(3):
        square = mean(x[row], x[row]) + mean(y[row], y[row]) - 2 * mean(x[row], y[row])
        assert mmd(x, y, kernel, sigma)[row] == pytest.approx(math.sqrt(square + 1e-6))


@pytest.mark.parametrize(("kernel", "distance"), [("gaussian", 0.09), ("laplacian", 0.3)])
def test_mmd_of_two_points_by_hand(kernel, distance):
    x, y = torch.zeros(1, 1, 1), torch.full((1, 1, 1), 0.3)
    by_hand = math.sqrt(2 - 2 * math.exp(-distance / 4.0) + 1e-6)
    assert float(mmd(x, y, kernel, 2.0)) == pytest.approx(by_hand, rel=1e-4)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.sampled_from(KERNELS), st.floats(0.05, 30.0), st.integers(0, 1000))
def test_mmd_is_symmetric_and_zero_only_between_likes(kernel, sigma, seed):
    x, y = normal(2, 6, 3, seed=seed).double(), normal(2, 6, 3, seed=seed + 1).double()
    assert torch.allclose(mmd(x, y, kernel, sigma), mmd(y, x, kernel, sigma))
    shuffled = x[:, torch.randperm(6, generator=torch.Generator().manual_seed(seed))]
    assert (mmd(x, shuffled, kernel, sigma) < 1.1e-3).all()
    assert (mmd(x, y, kernel, sigma) > 2e-3).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_gradient_of_mmd_moves_one_set_onto_the_other(kernel):
    x, y = torch.zeros(1, 4, 2, requires_grad=True), torch.full((1, 4, 2), 0.5)
    x.data += 0.01 * normal(1, 4, 2)
    for _ in range(400):
        (slope,) = torch.autograd.grad(mmd(x, y, kernel, 1.0).sum(), x)
        x.data -= 0.01 * slope
    assert (x - y).abs().mean() < 0.12, "it was 0.5"


# Densities and integrals


def test_a_squashed_gaussian_has_the_density_of_its_actions():
    heads = torch.tensor([[0.4, -0.7]])
    grid = torch.linspace(-0.99999, 0.99999, 200_001, dtype=torch.float64)
    noise = (grid.atanh() - 0.4) / math.exp(-0.7)
    actions, log_probs = losses.squashed_gaussian(heads.double(), noise[None, :, None])
    assert torch.allclose(actions[0, :, 0], grid)
    assert float(torch.trapezoid(log_probs[0].exp(), grid)) == pytest.approx(1.0, abs=1e-3)


def test_densities_of_gaussians_agree_with_torch():
    actions, means, log_std = normal(5, 3), normal(5, 3, seed=1), normal(3, seed=2)
    theirs = torch.distributions.Normal(means, log_std.exp()).log_prob(actions).sum(-1)
    assert torch.allclose(losses.gaussian_log_prob(actions, means, log_std), theirs, atol=1e-5)
    torch_kl = torch.distributions.kl_divergence(
        torch.distributions.Normal(means, log_std.exp()), torch.distributions.Normal(0.0, 1.0)
    )
    ours = losses.normal_divergence(means, log_std.expand(5, 3))
    assert torch.allclose(ours, torch_kl.mean(-1), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_soft_maximum_is_the_integral_by_importance_sampling(temperature):
    """Of Q(a) = a over [−1, 1]: T log(T (e^(1/T) − e^(−1/T))), whatever is sampled from."""
    by_hand = temperature * math.log(
        temperature * (math.exp(1 / temperature) - math.exp(-1 / temperature))
    )
    heads = torch.tensor([[0.2, 0.0]])
    drawn, odds = losses.squashed_gaussian(heads, normal(1, 200_000, 1))
    found = losses.soft_maximum(drawn[..., 0], odds, temperature)
    assert float(found) == pytest.approx(by_hand, abs=0.02)
    anywhere = torch.rand(1, 200_000, generator=torch.Generator().manual_seed(0)) * 2 - 1
    odds = torch.full_like(anywhere, -math.log(2.0))
    assert float(losses.soft_maximum(anywhere, odds, temperature)) == pytest.approx(
        by_hand, abs=0.02
    )


def test_the_soft_maximum_of_equal_values_is_the_volume_of_the_space():
    values_, dims = torch.full((1, 30), 2.0), 384
    odds = torch.full((1, 30), -dims * math.log(2.0))
    assert float(losses.soft_maximum(values_, odds, 1.0)) == pytest.approx(2.0 + 266.2, abs=0.1)


def test_small_sums_by_hand():
    two = torch.tensor([[1.0, 5.0], [3.0, 2.0]])
    assert losses.soft_minimum(two, 0.75).tolist() == pytest.approx([1.5, 2.75])


# Networks


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
def test_a_network_over_samples_is_the_network_on_each_row(count, hidden):
    network, rows, samples = MLP([5, *hidden, 4], count), normal(6, 3), normal(6, 9, 2, seed=1)
    found = over_samples(network, rows, samples)
    assert found.shape == (count, 6, 9, 4)
    for place in range(9):
        plain = network(torch.cat([rows, samples[:, place]], dim=1))
        assert torch.allclose(found[:, :, place], plain, atol=1e-6)


def test_values_of_one_action_and_of_several_agree():
    critic, rows, actions = MLP([5, 8, 1], 2), normal(6, 3), normal(6, 4, 2, seed=1)
    several = values(critic, rows, actions)
    assert several.shape == (2, 6, 4)
    assert torch.allclose(several[..., 1], values(critic, rows, actions[:, 1]), atol=1e-6)


def test_latents_are_drawn_within_half_and_actions_within_the_space():
    torch.manual_seed(0)
    vae, rows = VAE(3, 2, 4, (8,)), normal(50, 3)
    drawn = vae.sample(rows, 7, torch.Generator().manual_seed(1))
    noise = torch.randn((50, 7, 4), generator=torch.Generator().manual_seed(1)).clamp(-0.5, 0.5)
    assert torch.equal(drawn, vae.decode(rows, noise))
    assert drawn.shape == (50, 7, 2) and drawn.abs().max() <= 1.0


def test_a_multiplier_rises_where_violated_falls_where_slack_and_touches_nothing_else():
    multiplier, violation = Multiplier(2.0, 0.01), torch.tensor(0.3, requires_grad=True)
    assert float(multiplier.value()) == pytest.approx(2.0)
    assert multiplier.update(violation * 1.0) > 2.0
    assert violation.grad is None
    before = multiplier.value()
    for _ in range(20):
        multiplier.update(torch.tensor(-0.3))
    assert 0.0 < multiplier.value() < before


def test_noise_of_a_key_and_turn_is_normal_and_always_the_same():
    keys, steps = np.arange(4000, dtype=np.uint64), np.zeros(4000, dtype=np.uint64)
    drawn = normals(keys, steps, 5)
    assert drawn.shape == (4000, 5)
    assert abs(drawn.mean()) < 0.03 and abs(drawn.std() - 1.0) < 0.03
    assert abs(np.corrcoef(drawn.T) - np.eye(5)).max() < 0.06
    assert np.array_equal(normals(keys[7:9], steps[7:9], 3), drawn[7:9, :3])
    assert not np.array_equal(normals(keys, steps + np.uint64(1), 5), drawn)
