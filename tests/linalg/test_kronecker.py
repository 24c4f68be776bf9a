"""Kronecker algebra against the dense product."""

from functools import reduce

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import MultivariateNormal, kl_divergence

from stratagp.errors import InputError
from stratagp.linalg.kronecker import (
    kron,
    kron_diag,
    kron_gaussian_kl,
    kron_logdet,
    kron_matmul,
    kron_solve,
    kron_trace,
    kron_trace_solve,
    kron_triangular_solve,
)

SIZES = [(5,), (2, 3), (3, 2, 4), (2, 1, 3, 2)]
RECTANGLES = [[(2, 3)], [(4, 2), (1, 3)], [(2, 3), (3, 2), (1, 4)]]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def triangular(m: int, *batch: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """A lower factor with a diagonal between one and two, and noise above it that nothing may read."""
    strict = 0.4 * normal(*batch, m, m, seed=seed)
    return (strict - torch.diag_embed(strict.diagonal(dim1=-2, dim2=-1)) + torch.eye(m) * 1.5).to(dtype)


def factors_of(sizes: tuple[int, ...], *batch: int, seed: int = 0) -> list[Tensor]:
    return [triangular(m, *batch, seed=seed + d) for d, m in enumerate(sizes)]


def dense(factors: list[Tensor]) -> Tensor:
    """``torch.kron`` of the factors of one function."""
    return reduce(torch.kron, factors)


def covariance(factors: list[Tensor]) -> Tensor:
    factor = dense([a.tril() for a in factors])
    return factor @ factor.mT


@pytest.mark.parametrize("shapes", RECTANGLES)
def test_dense_product_is_that_of_torch(shapes: list[tuple[int, int]]) -> None:
    factors = [normal(*shape, seed=d) for d, shape in enumerate(shapes)]
    torch.testing.assert_close(kron(factors), dense(factors), rtol=0, atol=0)


@pytest.mark.parametrize("shapes", RECTANGLES)
@pytest.mark.parametrize("columns", [0, 1, 3])
def test_matmul_with_rectangular_factors(shapes: list[tuple[int, int]], columns: int) -> None:
    factors = [normal(*shape, seed=d) for d, shape in enumerate(shapes)]
    truth = dense(factors)
    v = normal(truth.shape[1], columns, seed=9)
    torch.testing.assert_close(kron_matmul(factors, v), truth @ v, rtol=0, atol=1e-13)


def test_matmul_is_the_sandwich_of_a_matrix() -> None:
    a, b, e = normal(3, 2), normal(5, 4, seed=1), normal(2, 4, seed=2)
    truth = (a.numpy() @ e.numpy() @ b.numpy().T).reshape(-1)
    np.testing.assert_allclose(kron_matmul([a, b], e.reshape(-1, 1))[:, 0], truth, atol=1e-13)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("upper", [False, True])
def test_triangular_solve(sizes: tuple[int, ...], upper: bool) -> None:
    factors = factors_of(sizes)
    truth = dense([a.triu() if upper else a.tril() for a in factors])
    v = normal(len(truth), 2, seed=9)
    torch.testing.assert_close(
        kron_triangular_solve(factors, v, upper), torch.linalg.solve(truth, v), rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("sizes", SIZES)
def test_solve_and_logdet(sizes: tuple[int, ...]) -> None:
    factors = factors_of(sizes)
    truth = covariance(factors)
    v = normal(len(truth), 2, seed=9)
    torch.testing.assert_close(kron_solve(factors, v), torch.linalg.solve(truth, v), rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(kron_logdet(factors), torch.linalg.slogdet(truth)[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_traces_and_diagonal(sizes: tuple[int, ...]) -> None:
    prior, scale = factors_of(sizes), factors_of(sizes, seed=20)
    torch.testing.assert_close(kron_diag(prior), dense(prior).diagonal(), rtol=1e-14, atol=0)
    torch.testing.assert_close(kron_trace(prior), dense(prior).trace(), rtol=1e-13, atol=0)
    truth = torch.linalg.solve(covariance(prior), covariance(scale)).trace()
    torch.testing.assert_close(kron_trace_solve(prior, scale), truth, rtol=1e-11, atol=0)


@pytest.mark.parametrize("sizes", SIZES)
def test_kl_is_that_of_the_dense_gaussians(sizes: tuple[int, ...]) -> None:
    prior, scale = factors_of(sizes), factors_of(sizes, seed=20)
    mean = normal(int(np.prod(sizes)), seed=9)
    truth = kl_divergence(
        MultivariateNormal(mean, covariance(scale)),
        MultivariateNormal(torch.zeros_like(mean), covariance(prior)),
    )
    torch.testing.assert_close(kron_gaussian_kl(mean, scale, prior), truth, rtol=1e-11, atol=1e-11)


def test_kl_of_the_prior_itself_is_zero() -> None:
    prior = factors_of((3, 2, 4), 2)
    kl = kron_gaussian_kl(torch.zeros(2, 24, dtype=torch.float64), prior, prior)
    torch.testing.assert_close(kl, torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-13)


def test_kl_gradient_is_the_written_formula() -> None:
    """``∂KL/∂T_d = −(m/m_d) diag(1/T_d,pp) + Π_{d'≠d} tr(K_d'⁻¹S_d') tril(K_d⁻¹T_d)``."""
    prior, scale = factors_of((3, 4)), [a.requires_grad_() for a in factors_of((3, 4), seed=20)]
    kron_gaussian_kl(normal(12, seed=9), scale, prior).backward()
    with torch.no_grad():
        ratios = [torch.linalg.solve(covariance([a]), t.tril()) for a, t in zip(prior, scale, strict=True)]
        traces = [(ratio * t.tril()).sum() for ratio, t in zip(ratios, scale, strict=True)]
        first = traces[1] * ratios[0].tril() - 4 * torch.diag(1 / scale[0].diagonal())
        second = traces[0] * ratios[1].tril() - 3 * torch.diag(1 / scale[1].diagonal())
    torch.testing.assert_close(scale[0].grad, first, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(scale[1].grad, second, rtol=1e-11, atol=1e-11)


def test_function_axis_is_a_loop_over_functions() -> None:
    own, shared, v = triangular(3, 2), triangular(4, seed=1), normal(2, 12, 5, seed=2)
    factors, scale = [own, shared], [triangular(3, 2, seed=3), triangular(4, 2, seed=4)]
    for i in range(2):
        each, each_scale = [own[i], shared], [a[i] for a in scale]
        pairs = [
            (kron(factors)[i], dense(each)),
            (kron_diag(factors)[i], dense(each).diagonal()),
            (kron_matmul(factors, v)[i], dense(each) @ v[i]),
            (
                kron_matmul([shared, shared], normal(2, 16, 1))[i],
                dense([shared, shared]) @ normal(2, 16, 1)[i],
            ),
            (kron_matmul(factors, v[0])[i], dense(each) @ v[0]),
            (kron_triangular_solve(factors, v)[i], kron_triangular_solve(each, v[i])),
            (kron_solve(factors, v)[i], torch.linalg.solve(covariance(each), v[i])),
            (kron_logdet(factors)[i], torch.logdet(covariance(each))),
            (kron_trace(factors)[i], dense(each).trace()),
            (kron_trace_solve(factors, scale)[i], kron_trace_solve(each, each_scale)),
            (kron_gaussian_kl(v[..., 0], scale, factors)[i], kron_gaussian_kl(v[i, :, 0], each_scale, each)),
        ]
        for ours, truth in pairs:
            torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-11)


def test_gradients() -> None:
    a, b, v = (x.requires_grad_() for x in (triangular(2, 2), triangular(3, seed=1), normal(2, 6, 2, seed=2)))
    s, t = triangular(2, 2, seed=3).requires_grad_(), triangular(3, seed=4).requires_grad_()
    assert gradcheck(lambda a, b, v: kron_matmul([a, b], v), (a, b, v))
    assert gradcheck(lambda a, b, v: kron_triangular_solve([a, b], v), (a, b, v))
    assert gradcheck(lambda a, b, v: kron_triangular_solve([a, b], v, upper=True), (a, b, v))
    assert gradcheck(lambda a, b, v: kron_solve([a, b], v), (a, b, v))
    assert gradcheck(lambda a, b: kron([a, b]), (a, b))
    assert gradcheck(lambda a, b: kron_diag([a, b]), (a, b))
    assert gradcheck(lambda a, b: kron_trace([a, b]), (a, b))
    assert gradcheck(lambda a, b: kron_logdet([a, b]), (a, b))
    assert gradcheck(lambda a, b, s, t: kron_trace_solve([a, b], [s, t]), (a, b, s, t))
    assert gradcheck(lambda v, a, b, s, t: kron_gaussian_kl(v[..., 0], [s, t], [a, b]), (v, a, b, s, t))
    assert gradgradcheck(lambda v, s: kron_gaussian_kl(v[..., 0], [s, t], [a, b]), (v, s))


def test_float32() -> None:
    factors = factors_of((3, 4))
    v = normal(12, 2, seed=9)
    single = [a.float() for a in factors]
    ours = kron_solve(single, v.float())
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), kron_solve(factors, v), rtol=1e-4, atol=1e-5)
    kl = kron_gaussian_kl(v[:, 0].float(), single, single)
    torch.testing.assert_close(kl.double(), kron_gaussian_kl(v[:, 0], factors, factors), rtol=1e-5, atol=1e-5)


def test_large_product_is_not_formed() -> None:
    """66 GB if dense: ``(A ⊗ B ⊗ C)(a ⊗ b ⊗ c) = Aa ⊗ Bb ⊗ Cc``."""
    factors = [normal(45, 45, seed=d) for d in range(3)]
    vectors = [normal(45, 1, seed=10 + d) for d in range(3)]
    truth = kron([a @ v for a, v in zip(factors, vectors, strict=True)])
    torch.testing.assert_close(kron_matmul(factors, kron(vectors)), truth, rtol=1e-9, atol=1e-9)


def test_bad_arguments_are_refused() -> None:
    square = torch.eye(3)
    with pytest.raises(InputError, match="factors is empty"):
        kron_matmul([], torch.ones(1, 1))
    with pytest.raises(InputError, match=r"v has 8 rows, but the factors have 3 × 3 = 9 columns"):
        kron_matmul([square, square], torch.ones(8, 1))
    with pytest.raises(InputError, match=r"factors\[1\] must be a square matrix .* shape \(3, 2\)"):
        kron_trace([square, torch.ones(3, 2)])
    with pytest.raises(InputError, match=r"prior_factors have sizes \[3, 3\] but scale_factors \[3\]"):
        kron_gaussian_kl(torch.ones(9), [square], [square, square])
