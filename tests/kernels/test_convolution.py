"""Smoothed processes against quadrature, against draws that are smoothed by hand, and against derivatives."""

import numpy as np
import pytest
import torch

from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels import RBF, Constant, Exponential
from stratagp.kernels.algebra.convolution import Convolved, Smoothed
from stratagp.kernels.nonstationary.linear import Linear
from stratagp.types import Gaussian
from tests.kernels.case import points

X, Z = points(6, 2), points(4, 2, seed=1)
WIDTH = np.array([0.4, 0.7])


def gauss_hermite(width, nodes=14):
    """Offsets and weights of ``E f(x + a)`` for ``a ~ N(0, diag width²)``."""
    a, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(*[a] * len(width), indexing="ij"), -1).reshape(-1, len(width))
    weights = np.stack(np.meshgrid(*[w / w.sum()] * len(width), indexing="ij"), -1).reshape(-1, len(width))
    return grid * width, weights.prod(-1)


@pytest.mark.parametrize("base", [RBF(1.2, 1.3), RBF([0.9, 2.0]) + Constant(0.5) + RBF(3.0)])
def test_closed_form_is_the_quadrature_of_gaussian_smoothing(base):
    smoothed, convolved = Smoothed(base, WIDTH), Convolved(base, *gauss_hermite(WIDTH))
    torch.testing.assert_close(smoothed(X, Z), convolved(X, Z), rtol=0, atol=1e-7)
    torch.testing.assert_close(smoothed.cross(X, Z), convolved.cross(X, Z), rtol=0, atol=1e-7)
    torch.testing.assert_close(smoothed.diag(X), convolved.diag(X), rtol=0, atol=1e-7)


def test_no_width_is_no_smoothing():
    base = RBF([0.9, 2.0], 1.3)
    torch.testing.assert_close(Smoothed(base, 1e-8)(X, Z), base(X, Z), rtol=0, atol=1e-14)
    torch.testing.assert_close(Smoothed(base, 1e-8).cross(X, Z), base(X, Z), rtol=0, atol=1e-14)


def test_a_moving_mean_of_draws_has_these_covariances():
    """Draws of a rough process on a lattice, averaged over three neighbours by hand."""
    base, step, n = Exponential(0.5), 0.1, 12
    lattice = step * torch.arange(n + 2, dtype=torch.float64)[:, None]
    kernel = Convolved(base, [[-step], [0.0], [step]], [0.25, 0.5, 0.25])
    noise = torch.randn(n + 2, 200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    f = torch.linalg.cholesky(base(lattice)).detach() @ noise
    g = 0.25 * f[:-2] + 0.5 * f[1:-1] + 0.25 * f[2:]
    inner = lattice[1:-1]
    standard_error = 2**0.5 / 200_000**0.5  # of a product of two values of variance at most 1
    torch.testing.assert_close(kernel(inner).detach(), g @ g.mT / 200_000, rtol=0, atol=5 * standard_error)
    torch.testing.assert_close(
        kernel.cross(inner, lattice).detach(), g @ f.mT / 200_000, rtol=0, atol=5 * standard_error
    )


def test_a_difference_quotient_is_the_derivative():
    """``cov(f'(x), f(z)) = −(x − z)/ℓ² k(x, z)`` and ``cov(f'(x), f'(z)) = (1/ℓ² − (x − z)²/ℓ⁴) k(x, z)``."""
    ell, h = 0.8, 1e-3
    base = RBF(ell)
    slope = Convolved(base, [[-h], [h]], [-0.5 / h, 0.5 / h])
    x, z = X[:, :1], Z[:, :1]
    r, k = x - z.mT, base(x, z)
    torch.testing.assert_close(slope.cross(x, z), -r / ell**2 * k, rtol=0, atol=1e-5)
    torch.testing.assert_close(slope(x, z), (1 / ell**2 - r**2 / ell**4) * k, rtol=0, atol=1e-5)


def width_at(x):
    return 0.3 + 0.2 * torch.sigmoid(x)


GRID = torch.linspace(-4, 4, 161, dtype=torch.float64)


class Bell(torch.nn.Module):
    """Weights of a Gaussian smoothing whose width is ``scale`` times that at the place, on ``GRID``."""

    def __init__(self, scale):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, x):
        s = self.scale * width_at(x)
        return torch.exp(-0.5 * (GRID / s) ** 2) / (s * (2 * np.pi) ** 0.5) * (GRID[1] - GRID[0])


def test_smoothing_that_differs_from_place_to_place():
    """cov(g(x), g(z)) = ℓ/√S exp(−(x − z)²/2S) with S = ℓ² + s(x)² + s(z)², for widths s of a Gaussian filter."""
    ell, x, z = 0.8, X[:, :1], Z[:, :1]
    kernel = Convolved(RBF(ell), GRID[:, None], Bell(1.5))

    def truth(left, right):
        S = ell**2 + left + right
        return ell / S.sqrt() * torch.exp(-0.5 * (x - z.mT) ** 2 / S)

    own, other = ((1.5 * width_at(p)) ** 2 for p in (x, z))
    torch.testing.assert_close(kernel(x, z).detach(), truth(own, other.mT), rtol=0, atol=1e-7)
    torch.testing.assert_close(kernel.cross(x, z).detach(), truth(own, 0 * other.mT), rtol=0, atol=1e-7)
    torch.testing.assert_close(kernel.diag(x), kernel(x).diagonal(), rtol=0, atol=1e-12)
    kernel(x).sum().backward()
    assert kernel.weights.module.scale.grad is not None


def test_weights_of_places_have_features_and_are_checked():
    fading = Convolved(RBF(0.8), [[0.0], [0.5]], lambda x: torch.cat([x, 1 - x], -1))
    x = X[:, :1]
    features = fading.random_features(20_000, 1, torch.Generator().manual_seed(0))(x)
    torch.testing.assert_close(features @ features.mT, fading(x), rtol=0, atol=0.1)
    with pytest.raises(InputError, match=r"weights\(points\) must have the shape \(6, 2\)"):
        Convolved(RBF(), [[0.0], [0.5]], lambda x: x)(x)


def test_the_joint_covariance_is_positive_definite():
    kernel = Smoothed(RBF(0.8) + Constant(0.1), WIDTH)
    cross = kernel.cross(X, X)
    joint = torch.cat([torch.cat([kernel(X), cross], 1), torch.cat([cross.mT, kernel.base(X)], 1)])
    assert torch.linalg.eigvalsh(joint).min() > -1e-12


def test_smoothing_is_the_expectation_under_noisy_inputs():
    """One truth for both: ``E k(x + a, z)`` with ``a ~ N(0, width²)`` is the covariance of g(x) and f(z)."""
    base = RBF([0.9, 2.0], 1.3)
    noisy = Gaussian(X, torch.as_tensor(WIDTH**2).expand(6, 2))
    torch.testing.assert_close(Smoothed(base, WIDTH).cross(X, Z), base.psi1(noisy, Z), rtol=1e-13, atol=0)


def test_each_function_has_its_own_width():
    kernel = Smoothed(RBF(0.8)).replicate(2).set(width=[0.3, 1.1])
    apart = [Smoothed(RBF(0.8), width) for width in (0.3, 1.1)]
    torch.testing.assert_close(kernel(X, Z), torch.stack([k(X, Z) for k in apart]))
    torch.testing.assert_close(kernel.cross(X, Z), torch.stack([k.cross(X, Z) for k in apart]))
    torch.testing.assert_close(kernel.diag(X), torch.stack([k.diag(X) for k in apart]))


def test_the_width_is_learnt():
    kernel = Smoothed(RBF(0.8) + Constant(0.2), WIDTH)
    leaves = list(kernel.parameters())
    assert torch.autograd.gradcheck(lambda *_: (kernel(X), kernel.cross(X, Z), kernel.diag(X)), leaves)


def test_printing():
    assert repr(Smoothed(RBF(), 0.5)) == "Smoothed(RBF(lengthscale=1, variance=1), width=0.5)"
    assert repr(Convolved(RBF(), [[0.0], [1.0]], [0.5, 0.5])) == "Convolved(RBF(lengthscale=1, variance=1), 2 offsets)"


def test_bad_arguments_are_named():
    with pytest.raises(UnsupportedError, match=r"Linear.*Convolved"):
        Smoothed(RBF() + Linear(), 0.5)
    with pytest.raises(InputError, match="one row for each weight"):
        Convolved(RBF(), [[0.0], [1.0]], [1.0])
    with pytest.raises(InputError, match="1 columns"):
        Convolved(RBF(), [[0.0], [1.0]], [0.5, 0.5])(X)
    with pytest.raises(InputError, match="2 columns"):
        Smoothed(RBF(), WIDTH).cross(X[:, :1], Z[:, :1])
    with pytest.raises(InputError, match="bind"):
        Smoothed(RBF(ard=True), 0.5)(X)
