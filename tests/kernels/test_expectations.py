"""psi statistics against Gauss-Hermite quadrature, Monte Carlo, the plain kernel and finite differences."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels import RBF, Constant, Exponential, Sum
from stratagp.kernels.algebra.convolution import Smoothed
from stratagp.kernels.nonstationary.linear import Linear
from stratagp.kernels.stationary.metric import MetricRBF
from stratagp.types import Gaussian
from tests.kernels.case import points, unit_points

N, M, D = 3, 4, 2
Q = Gaussian(points(N, D), 0.6 * unit_points(N, D))
Z = points(M, D, seed=1)
FACTOR = [[1.2, 0.0], [-0.5, 0.8]]

KERNELS = {
    "rbf": lambda: RBF(0.8, 1.3),
    "rbf ard": lambda: RBF([0.8, 1.4], 1.3),
    "metric": lambda: MetricRBF(FACTOR, 1.3),
    "linear": lambda: Linear(0.7),
    "linear ard": lambda: Linear([0.3, 2.0]),
    "constant": lambda: Constant(2.0),
    "smoothed": lambda: Smoothed(RBF(0.8) + Constant(0.3), 0.5),
    "columns": lambda: RBF(0.8).on(1),
    "metric on columns": lambda: MetricRBF(FACTOR).on([1, 0]),
    "rbf + rbf": lambda: RBF(0.8, 1.3) + RBF([1.5, 0.7], 0.4),
    "rbf + linear": lambda: RBF(0.8) + Linear(0.7),
    "rbf + constant": lambda: RBF(0.8) + 0.5,
    "linear + constant": lambda: Linear(0.7) + 0.5,
    "linear + linear": lambda: Linear(0.7) + Linear([0.1, 2.0]),
    "metric + rbf": lambda: MetricRBF(FACTOR) + RBF(0.8),
    "metric + linear + constant": lambda: MetricRBF(FACTOR) + Linear(0.7) + 0.5,
    "everything": lambda: RBF(0.8) + Linear(0.7) + 0.5 + MetricRBF(FACTOR) + RBF(1.1).on(0) + Linear().on(1),
    "metric on one + rbf on the other": lambda: MetricRBF(1).on(0) + RBF().on(1),
    "rbf * rbf": lambda: RBF(0.8) * RBF([1.5, 0.7], 0.4),
    "rbf * number": lambda: 3 * RBF(0.8),
    "rbf * linear": lambda: RBF(0.8) * Linear(0.7) + 0.3,
    "metric * linear": lambda: MetricRBF(FACTOR) * Linear(0.7),
    "metric * linear + linear": lambda: MetricRBF(FACTOR) * Linear(0.7) + Linear(0.2),
    "disjoint product": lambda: RBF(0.8).on(0) * MetricRBF(1).on(1),
    "disjoint linear product": lambda: Linear(0.8).on(0) * Linear(1.2).on(1),
    "product of sums": lambda: (RBF(0.8).on(0) + Linear(0.5).on(0)) * (Linear().on(1) + 2.0),
    "sum with a product": lambda: Linear().on(0) * Linear().on(1) + RBF(0.8) + Linear(0.3).on(1),
    "power": lambda: (RBF(0.8) + 0.5) ** 2,
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]()


def psi(kernel, q=Q, z=Z):
    return kernel.psi0(q), kernel.psi1(q, z), kernel.psi2(q, z)


def close(actual, expected, tolerance):
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)


def from_points(kernel, x, weight, z):
    """The same averages over points ``n s d`` with weights ``s``, from the plain kernel."""
    k = torch.stack([kernel(rows, z) for rows in x], -3)
    diag = torch.stack([kernel.diag(rows) for rows in x], -2)
    return diag @ weight, (k.mT @ weight), torch.einsum("s,...sa,...sb->...ab", weight, k, k)


def quadrature(kernel, q=Q, z=Z, nodes=60):
    a, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = torch.tensor(np.stack(np.meshgrid(a, a, indexing="ij"), -1).reshape(-1, 2))
    x = q.mean[:, None] + q.var.sqrt()[:, None] * grid
    return from_points(kernel, x, torch.tensor(np.outer(w, w).ravel() / w.sum() ** 2), z)


def at_the_mean(kernel, q=Q, z=Z):
    k = kernel(q.mean, z)
    return kernel.diag(q.mean), k, k.unsqueeze(-1) * k.unsqueeze(-2)


def test_quadrature(kernel):
    close(psi(kernel), quadrature(kernel), 1e-10)


def test_without_variance_the_plain_kernel(kernel):
    q = Gaussian(Q.mean, torch.zeros_like(Q.var))
    close(psi(kernel, q), at_the_mean(kernel), 1e-12)


def test_tiny_variance_is_stable(kernel):
    q = Gaussian(Q.mean, torch.full_like(Q.var, 1e-18))
    close(psi(kernel, q), at_the_mean(kernel), 1e-12)


def test_psi2_is_symmetric(kernel):
    psi2 = kernel.psi2(Q, Z)
    torch.testing.assert_close(psi2, psi2.mT, rtol=1e-13, atol=1e-13)


def test_gradients(kernel):
    """A random combination of all entries, along a random direction of all inputs and parameters at once."""
    generator = torch.Generator().manual_seed(0)
    like = lambda t: torch.randn(t.shape, generator=generator, dtype=t.dtype)  # noqa: E731
    mean, var, z = inputs = [t.clone().requires_grad_() for t in (*Q, Z)]
    leaves = inputs + [p for p in kernel.parameters() if p.requires_grad]
    weights, direction = [like(v) for v in psi(kernel)], [like(p) for p in leaves]

    def value(step):
        for p, v in zip(leaves, direction, strict=True):
            p.data += step * v
        return sum((w * v).sum() for w, v in zip(weights, psi(kernel, Gaussian(mean, var), z), strict=True))

    gradients = torch.autograd.grad(value(0.0), leaves)
    slope = sum((g * v).sum() for g, v in zip(gradients, direction, strict=True))
    up, down = value(1e-4), value(-2e-4)
    torch.testing.assert_close(slope, (up - down) / 2e-4, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["rbf ard", "metric", "rbf + linear"])
def test_gradcheck(name):
    kernel = KERNELS[name]()
    inputs = [t[:2].clone().requires_grad_() for t in (*Q, Z)]

    def function(mean, var, z, *_):
        return psi(kernel, Gaussian(mean, var), z)

    assert gradcheck(function, [*inputs, *kernel.parameters()], atol=1e-6, fast_mode=True)


def test_gradients_are_finite_without_variance(kernel):
    mean, var, z = (t.clone().requires_grad_() for t in (Q.mean, torch.zeros_like(Q.var), Z))
    sum(value.sum() for value in psi(kernel, Gaussian(mean, var), z)).backward()
    leaves = [mean, var, z, *(p for p in kernel.parameters() if p.requires_grad)]
    assert all(bool(leaf.grad.isfinite().all()) for leaf in leaves)


def spread_out(kernel, seed=0):
    """Move every parameter a little, each function its own way."""
    generator = torch.Generator().manual_seed(seed)
    for p in kernel.parameters():
        p.data += 0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    return kernel


@pytest.mark.parametrize("shared_points", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_function_axis(name, shared_points):
    joint = spread_out(KERNELS[name]().replicate(2))
    z = Z if shared_points else torch.stack([Z, points(M, D, seed=5)])
    apart = []
    for i in range(2):
        single = KERNELS[name]()
        for p, both in zip(single.parameters(), joint.parameters(), strict=True):
            p.data = both.data[i].clone()
        apart.append(psi(single, z=z if shared_points else z[i]))
    close(psi(joint, z=z), [torch.stack(parts) for parts in zip(*apart, strict=True)], 1e-12)


def test_points_of_each_function_with_one_kernel(kernel):
    z = torch.stack([Z, points(M, D, seed=5)])
    apart = zip(psi(kernel, z=z[0]), psi(kernel, z=z[1]), strict=True)
    close(psi(kernel, z=z)[1:], [torch.stack(parts) for parts in apart][1:], 1e-12)


@pytest.mark.parametrize("name", ["rbf ard", "metric", "everything"])
def test_monte_carlo_in_many_columns(name):
    d, samples = 6, 40_000
    ell = 2 + unit_points(1, d, seed=2)[0]
    factor = 0.2 * points(d, d, seed=3).tril(-1) + 0.4 * torch.eye(d)
    kernel = {
        "rbf ard": RBF(ell),
        "metric": MetricRBF(factor),
        "everything": RBF(ell) + Linear(0.1).on([0, 4]) + MetricRBF(factor) * 0.5 + RBF().on(2) * Linear(0.2).on(5),
    }[name]
    q, z = Gaussian(points(2, d), unit_points(2, d)), points(3, d, seed=1)
    noise = torch.randn(samples, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = q.mean[:, None] + q.var.sqrt()[:, None] * noise
    with torch.no_grad():
        weight = torch.full((samples,), 1 / samples, dtype=torch.float64)
        k = torch.stack([kernel(rows, z) for rows in x])
        draws = (torch.stack([kernel.diag(rows) for rows in x]), k, k.unsqueeze(-1) * k.unsqueeze(-2))
        for exact, estimate, draw in zip(psi(kernel, q, z), from_points(kernel, x, weight, z), draws, strict=True):
            standard_error = draw.std(1) / samples**0.5
            assert bool(((exact - estimate).abs() <= 5 * standard_error + 1e-12).all())


def test_points_far_from_the_origin_keep_their_digits():
    shift = 1e6
    kernel = RBF([0.8, 1.4])
    moved = psi(kernel, Gaussian(Q.mean + shift, Q.var), Z + shift)
    close(moved, psi(kernel), 1e-8)  # 1e6 + x itself keeps ten digits of x


def test_single_precision(kernel):
    expected = psi(kernel)
    q = Gaussian(Q.mean.float(), Q.var.float())
    actual = psi(kernel.float(), q, Z.float())
    assert all(a.dtype == torch.float32 for a in actual)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.double(), e, rtol=1e-4, atol=1e-4)


def test_a_wide_belief_forgets_the_points():
    """For ``σ → ∞`` psi1 of an RBF is ``v Π ℓ_d/σ_d`` everywhere, and psi2 sees only distances of points."""
    kernel, var = RBF(0.5, 1.3), 1e12
    q = Gaussian(Q.mean, torch.full_like(Q.var, var))
    torch.testing.assert_close(
        kernel.psi1(q, Z), torch.full((N, M), 1.3 * 0.25 / var, dtype=torch.float64), rtol=1e-9, atol=0
    )
    closeness = torch.exp(-torch.cdist(Z, Z).square() / (4 * 0.25))
    expected = 1.3**2 * closeness * 0.125 / var
    torch.testing.assert_close(kernel.psi2(q, Z), expected.expand(N, M, M), rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Exponential(), "Exponential has no closed-form expectation"),
        (RBF() + Exponential(), "Exponential has no closed-form expectation"),
        (Linear() * Linear(), "two linear kernels on the same column"),
        (Linear() ** 2, "two linear kernels on the same column"),
        (Sum(Linear().on(0) * Linear().on(1), Linear()), "more than two linear kernels"),
        (MetricRBF(2) * Linear().on(0) * Linear().on(1), "more than two linear kernels"),
        (RBF().on([0, 0]), "repeat"),
    ],
)
def test_what_has_no_closed_form_says_so(kernel, message):
    with pytest.raises(UnsupportedError, match=message):
        kernel.psi2(Q, Z)


def test_bad_inputs_are_named():
    with pytest.raises(InputError, match="variance for each mean"):
        RBF().psi0(Gaussian(Q.mean, Q.var[:1]))
    with pytest.raises(InputError, match=r"q\.mean has 2 columns but z has 1"):
        RBF().psi1(Q, Z[:, :1])
    with pytest.raises(InputError, match="bind"):
        RBF(ard=True).psi1(Q, Z)
    with pytest.raises(InputError, match="names columns"):
        RBF().on("age").psi2(Q, Z)
