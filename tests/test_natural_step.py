"""Conjugate gradients and the natural step against dense solves."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from trainers.llm.natural_step import conjugate_gradient, natural_step  # noqa: E402


def positive(seed, size):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return root @ root.T + torch.eye(size), torch.randn(
        size, generator=generator, dtype=torch.float64
    )


@pytest.mark.parametrize("seed", range(5))
def test_conjugate_gradients_solve_as_many_equations_as_they_take_steps(seed):
    matrix, target = positive(seed, 6)
    found = conjugate_gradient(lambda v: matrix @ v, target, iterations=12)
    assert torch.allclose(found, torch.linalg.solve(matrix, target), rtol=1e-8)


def test_the_step_goes_as_far_as_the_divergence_allows():
    """Quadratic divergence ½ sᵀ(F + damping)s of the step s is exactly δ."""
    matrix, gradient = positive(7, 4)
    direction, length = natural_step(
        gradient, lambda v: matrix @ v, max_kl=0.03, damping=0.2, iterations=20
    )
    damped = matrix + 0.2 * torch.eye(4)
    assert torch.allclose(direction, torch.linalg.solve(damped, gradient))
    step = length * direction
    assert (step @ damped @ step / 2).item() == pytest.approx(0.03)


def test_by_hand_in_one_dimension():
    """F = 3, damping 1, g = 8: x = 2; √(2 · ½ / 16) = ¼."""
    direction, length = natural_step(torch.tensor([8.0]), lambda v: 3 * v, max_kl=0.5, damping=1.0)
    assert direction.item() == 2 and length.item() == pytest.approx(math.sqrt(1 / 16))


def test_no_gradient_is_no_step():
    direction, length = natural_step(torch.zeros(3), lambda v: v)
    assert (length * direction).tolist() == [0, 0, 0]
