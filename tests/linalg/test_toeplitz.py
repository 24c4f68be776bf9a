"""Toeplitz algebra against dense matrices, scipy and extended precision."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.linalg.toeplitz import (
    toeplitz,
    toeplitz_cholesky,
    toeplitz_logdet,
    toeplitz_matmul,
    toeplitz_solve,
)

COLUMNS: dict[str, Callable[[Tensor], Tensor]] = {
    "exponential": lambda t: torch.exp(-t / 4),
    "gaussian": lambda t: torch.exp(-0.5 * (t / 3).square()) + 1e-3 * (t == 0),
    "oscillating": lambda t: torch.exp(-t / 5) * torch.cos(1.3 * t) + 0.1 * (t == 0),
}
SIZES = [1, 2, 3, 17, 60]


def column_of(name: str, m: int) -> Tensor:
    return COLUMNS[name](torch.arange(m, dtype=torch.float64))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def two_columns(m: int) -> Tensor:
    return torch.stack([column_of("exponential", m), 2 * column_of("oscillating", m)])


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("name", COLUMNS)
def test_values(name: str, m: int) -> None:
    c, v = column_of(name, m), normal(m, 3)
    dense = scipy.linalg.toeplitz(c.numpy())
    np.testing.assert_array_equal(toeplitz(c), dense)
    np.testing.assert_allclose(toeplitz_matmul(c, v), dense @ v.numpy(), atol=1e-13)
    np.testing.assert_allclose(toeplitz_cholesky(c), np.linalg.cholesky(dense), atol=1e-12)
    np.testing.assert_allclose(toeplitz_logdet(c), np.linalg.slogdet(dense)[1], atol=1e-11)
    truth = scipy.linalg.solve_toeplitz(c.numpy(), v.numpy())
    np.testing.assert_allclose(toeplitz_solve(c, v), truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", COLUMNS)
def test_gradients(name: str) -> None:
    for m in (1, 2, 7):
        c, v = column_of(name, m).requires_grad_(), normal(m, 2).requires_grad_()
        assert gradcheck(toeplitz, (c,))
        assert gradcheck(toeplitz_matmul, (c, v))
        assert gradgradcheck(toeplitz_matmul, (c, v))
        assert gradcheck(toeplitz_cholesky, (c,))
        assert gradcheck(toeplitz_logdet, (c,))
        assert gradcheck(toeplitz_solve, (c, v))


def test_gradients_with_a_function_axis() -> None:
    c, v = two_columns(5).requires_grad_(), normal(2, 5, 2).requires_grad_()
    one_column, one_side = c.detach()[0].clone().requires_grad_(), v.detach()[0].clone().requires_grad_()
    for columns in (c, one_column):
        assert gradcheck(toeplitz_cholesky, (columns,))
        assert gradcheck(toeplitz_logdet, (columns,))
        for sides in (v, one_side):
            assert gradcheck(toeplitz_solve, (columns, sides))
            assert gradcheck(toeplitz_matmul, (columns, sides))


def test_function_axis_is_a_loop_over_functions() -> None:
    c, v = two_columns(9), normal(2, 9, 3)
    dense = toeplitz(c)
    torch.testing.assert_close(toeplitz_matmul(c, v), dense @ v, rtol=0, atol=1e-13)
    torch.testing.assert_close(toeplitz_matmul(c, v[0]), dense @ v[0], rtol=0, atol=1e-13)
    torch.testing.assert_close(toeplitz_matmul(c[0], v), dense[0] @ v, rtol=0, atol=1e-13)
    torch.testing.assert_close(toeplitz_solve(c, v), torch.linalg.solve(dense, v), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(toeplitz_solve(c[1], v), torch.linalg.solve(dense[1], v), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(toeplitz_logdet(c), torch.logdet(dense), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(toeplitz_cholesky(c), torch.linalg.cholesky(dense), rtol=1e-12, atol=1e-12)


def test_solve_leaves_a_small_residual_on_an_ill_conditioned_matrix() -> None:
    """Condition number 1e9: the residual is still that of a stable method, as the dense solver's is."""
    t = torch.arange(200, dtype=torch.float64)
    c = torch.exp(-0.5 * (t / 15).square()) + 1e-7 * (t == 0)
    b = normal(200, 1)
    x = toeplitz_solve(c, b)
    residual = (toeplitz(c) @ x - b).norm() / (torch.linalg.matrix_norm(toeplitz(c), 2) * x.norm())
    assert residual < 1e-14


def test_evidence_gradient_on_an_ill_conditioned_matrix() -> None:
    """``∂ log|T|/∂ log ℓ`` for condition number 1e7, against long double arithmetic."""
    m, jitter = 60, 1e-6
    t = torch.arange(m, dtype=torch.float64)
    log_scale = torch.tensor(5.0, dtype=torch.float64).log().requires_grad_()
    (gradient,) = torch.autograd.grad(
        toeplitz_logdet(torch.exp(-0.5 * (t / log_scale.exp()).square()) + jitter * (t == 0)), log_scale
    )
    lag = np.abs(np.subtract.outer(np.arange(m), np.arange(m))).astype(np.longdouble) / 5
    k = np.exp(-(lag**2) / 2)
    inverse = inverse_by_elimination(k + np.longdouble(jitter) * np.eye(m, dtype=np.longdouble))
    assert float(gradient) == pytest.approx(float((inverse * k * lag**2).sum()), rel=1e-8)


def inverse_by_elimination(a: np.ndarray) -> np.ndarray:
    """Gauss and Jordan's method, in whatever precision ``a`` has; ``a`` is positive definite."""
    work = np.concatenate([a, np.eye(len(a), dtype=a.dtype)], 1)
    for i in range(len(a)):
        work[i] /= work[i, i]
        others = np.arange(len(a)) != i
        work[others] -= np.outer(work[others, i], work[i])
    return work[:, len(a) :]


def test_float32() -> None:
    c, v = column_of("exponential", 40), normal(40, 2)
    single = c.float().requires_grad_()
    for function, arguments in ((toeplitz_matmul, (v,)), (toeplitz_solve, (v,)), (toeplitz_logdet, ())):
        ours = function(single, *(a.float() for a in arguments))
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), function(c, *arguments), rtol=1e-4, atol=1e-4)
    (ours,) = torch.autograd.grad(toeplitz_logdet(single), single)
    inverse = torch.linalg.inv(toeplitz(c))
    truth = torch.stack([(2 if k else 1) * inverse.diagonal(k).sum() for k in range(40)])
    torch.testing.assert_close(ours.double(), truth, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("column", "size"), [([-1.0, 0.0], 1), ([0.0, 0.0], 1), ([1.0, 1.0, 1.0], 2), ([1.0, 0.9, 0.2, 0.0], 3)]
)
def test_indefinite_matrices_are_refused(column: list[float], size: int) -> None:
    c = torch.tensor(column, dtype=torch.float64)
    smallest = torch.linalg.eigvalsh(toeplitz(c)[:size, :size])[0]
    assert smallest < 1e-15
    for function in (
        toeplitz_cholesky,
        toeplitz_logdet,
        lambda c: toeplitz_solve(c, torch.ones_like(c)[:, None]),
    ):
        with pytest.raises(NotPositiveDefiniteError, match=f"block of size {size} has no Cholesky factor. Add"):
            function(c)


def test_the_error_names_the_matrix_and_the_function() -> None:
    c = torch.tensor([[1.0, 0.5], [1.0, 2.0]])
    with pytest.raises(NotPositiveDefiniteError, match="the RBF kernel on its grid of function 1, 2 × 2"):
        toeplitz_logdet(c, "the RBF kernel on its grid")
    with pytest.raises(NotPositiveDefiniteError, match="NaN or infinite entries"):
        toeplitz_logdet(torch.tensor([1.0, float("nan"), 0.0]))


def test_sizes_must_agree() -> None:
    """Also without the check of shapes that this test session adds, which would refuse them first."""
    with pytest.raises(InputError, match="b has 4 rows, but column has 3 entries"):
        inspect.unwrap(toeplitz_solve)(torch.ones(3), torch.ones(4, 1))
    with pytest.raises(InputError, match="v has 4 rows, but column has 3 entries"):
        inspect.unwrap(toeplitz_matmul)(torch.ones(3), torch.ones(4, 1))
