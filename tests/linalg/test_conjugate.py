"""Conjugate gradients, their preconditioner and what their coefficients tell, against dense factors."""

import math

import pytest
import torch

from stratagp.linalg.conjugate import LowRankPlusDiagonal, conjugate_gradients, log_quadratures
from stratagp.linalg.pivoted import pivoted_rows


def covariance(n=200, noise=0.01):
    x = torch.linspace(0, 10, n, dtype=torch.float64)
    return torch.exp(-0.5 * (x[:, None] - x) ** 2), noise * torch.linspace(0.5, 2, n, dtype=torch.float64)


def preconditioner(k, noise, rank):
    return LowRankPlusDiagonal(pivoted_rows(k.diagonal(), lambda i: k[i], rank)[0], noise)


def test_preconditioner_against_the_dense_matrix():
    k, noise = covariance()
    near = preconditioner(k, noise, 12)
    dense = near.rows.mT @ near.rows + noise.diag()
    b = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(near.solve(b), torch.linalg.solve(dense, b), rtol=1e-8, atol=1e-8)
    assert near.log_determinant().item() == pytest.approx(torch.logdet(dense).item(), rel=1e-12)
    drawn = near.draw(20_000, torch.Generator().manual_seed(1))
    torch.testing.assert_close(drawn @ drawn.mT / 20_000, dense, rtol=0, atol=0.05)


@pytest.mark.parametrize("rank", [0, 5, 20])
def test_columns_are_solved_for_to_the_tolerance(rank):
    """Columns that need more iterations, fewer, and none, together."""
    k, noise = covariance()
    c = k + noise.diag()
    b = torch.cat([torch.randn(200, 2, dtype=torch.float64), c[:, :1], torch.zeros(200, 1).double()], 1)
    near = preconditioner(k, noise, rank)
    found = conjugate_gradients(lambda v: c @ v, b, near.solve, tolerance=1e-8)
    assert (c @ found.x - b).norm(dim=0).le(1.1e-8 * b.norm(dim=0)).all()
    assert found.residual.le(1e-8).all()
    torch.testing.assert_close(found.x, torch.linalg.solve(c, b), rtol=1e-5, atol=1e-5)
    assert found.x[:, 3].abs().max() == 0


def test_quadratic_forms_err_by_the_square_and_to_one_side():
    k, noise = covariance()
    c = k + noise.diag()
    truth = (k * torch.linalg.solve(c, k)).sum(0)
    for tolerance in (1e-1, 1e-2, 1e-3):
        found = conjugate_gradients(lambda v: c @ v, k, preconditioner(k, noise, 3).solve, tolerance)
        gap = truth - found.quadratic()
        error = found.x - torch.linalg.solve(c, k)
        torch.testing.assert_close(gap, (error * (c @ error)).sum(0), rtol=1e-3, atol=1e-10)
        assert (gap > -1e-10).all()


def test_a_better_preconditioner_saves_iterations():
    k, noise = covariance()
    counts = [
        conjugate_gradients(
            lambda v: (k + noise.diag()) @ v, torch.ones(200, 1).double(), preconditioner(k, noise, rank).solve
        ).iterations
        for rank in (0, 10, 20)
    ]
    assert counts[0] > 2 * counts[1] > 2 * counts[2]


def test_iterations_are_bounded_and_the_residual_is_told():
    k, noise = covariance(noise=1e-6)
    found = conjugate_gradients(lambda v: (k + noise.diag()) @ v, torch.ones(200, 1).double(), lambda v: v, most=3)
    true = torch.ones(200, 1) - (k + noise.diag()) @ found.x
    assert found.iterations == 3
    assert found.residual.item() == pytest.approx(true.norm().item() / math.sqrt(200), rel=1e-6)
    assert found.residual.item() > 1e-6


def test_columns_without_iterations_have_no_logarithm():
    k, noise = covariance()
    b = torch.cat([torch.zeros(200, 1), torch.ones(200, 1)], 1).double()
    found = conjugate_gradients(lambda v: (k + noise.diag()) @ v, b, preconditioner(k, noise, 8).solve)
    both = log_quadratures(found)
    assert both[0] == 0
    assert both[1] == log_quadratures(found.columns(1))[0] != 0


def test_log_determinant_from_the_coefficients():
    """The mean of 400 estimates lies within four standard errors of the dense log determinant, which are small."""
    k, noise = covariance()
    near = preconditioner(k, noise, 8)
    z = near.draw(400, torch.Generator().manual_seed(0))
    found = conjugate_gradients(lambda v: (k + noise.diag()) @ v, z, near.solve, 1e-10)
    each = (z * near.solve(z)).sum(0) * log_quadratures(found) + near.log_determinant()
    error = float(each.std()) / 20
    assert abs(float(each.mean() - torch.logdet(k + noise.diag()))) < 4 * error
    assert error < 1.0
