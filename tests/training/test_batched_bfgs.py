"""Many minimisations at once: known minima, and each row as if it were alone."""

import pytest
import torch

from stratagp.training.batched_bfgs import minimise_rows

GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def rosenbrock(x, i):
    """With the minimum ``(a, a²)`` in a valley that is steeper in each row."""
    a, b = 0.5 + 0.1 * i, 10.0 + 10 * i
    return (a - x[:, 0]).square() + b * (x[:, 1] - x[:, 0].square()).square()


def test_quadratics():
    root, target = normal(50, 4, 4), normal(50, 4)
    matrix = root @ root.mT + 0.1 * torch.eye(4)  # conditions up to a few hundred

    def f(x, i):
        gap = x - target[i]
        return 0.5 * torch.einsum("np,npq,nq->n", gap, matrix[i], gap) + i

    found = minimise_rows(f, 10 * normal(50, 4), size=7)
    torch.testing.assert_close(found.x, target, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.value, torch.arange(50.0, dtype=torch.float64), atol=1e-10, rtol=0)
    assert bool(found.converged.all())


def test_rosenbrock():
    found = minimise_rows(rosenbrock, torch.tensor([[-1.2, 1.0]], dtype=torch.float64).repeat(10, 1))
    a = 0.5 + 0.1 * torch.arange(10)
    torch.testing.assert_close(found.x, torch.stack([a, a.square()], 1).double(), atol=1e-6, rtol=0)
    assert bool(found.converged.all())


def test_rows_do_not_depend_on_one_another():
    start = normal(10, 2)
    together = minimise_rows(rosenbrock, start, max_sweeps=15)
    for row in range(10):
        alone = minimise_rows(lambda x, i, row=row: rosenbrock(x, i + row), start[row : row + 1], max_sweeps=15)
        torch.testing.assert_close(together.x[row], alone.x[0], atol=1e-9, rtol=0)


def test_steps_back_from_points_without_a_value():
    found = minimise_rows(lambda x, i: (x - 0.01 - x.log()).sum(1), torch.tensor([[1e-3], [30.0]]).double())
    torch.testing.assert_close(found.x, torch.ones(2, 1).double(), atol=1e-7, rtol=0)


def test_precise_where_rounding_hides_the_decrease():
    """Values with an error of 10⁻⁹ would by themselves give x to about 10⁻⁵."""

    def f(x, i):
        error = 1e-9 * (1e9 * x.detach()).sin().sum(1)
        return (x - 1).square().sum(1) + (x - 1).pow(4).sum(1) + error

    found = minimise_rows(f, 5 * normal(20, 3))
    torch.testing.assert_close(found.x, torch.ones(20, 3).double(), atol=1e-7, rtol=0)


def test_what_did_not_converge_is_said():
    start = torch.tensor([[-1.2, 1.0], [0.6, 0.36]], dtype=torch.float64)
    assert minimise_rows(rosenbrock, start, max_sweeps=3).converged.tolist() == [False, True]
    start[0] = torch.inf
    found = minimise_rows(rosenbrock, start)
    assert found.converged.tolist() == [False, True]


@pytest.mark.parametrize("rows", [1, 5])
def test_a_start_at_the_minimum_stays(rows):
    start = normal(rows, 2)
    found = minimise_rows(lambda x, i: (x - start[i]).square().sum(1), start)
    assert torch.equal(found.x, start)
