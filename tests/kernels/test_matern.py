"""Matérn kernels of any smoothness: values, gradients to points, lengthscale and smoothness, peers."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import gamma, kv
from torch.autograd import grad, gradcheck, gradgradcheck

from stratagp.errors import InputError
from stratagp.kernels import RBF, Exponential, RationalQuadratic
from stratagp.kernels.stationary.matern import Matern, bessel_correlation
from stratagp.linalg import scaled_sqdist
from stratagp.parameters import positive
from tests.kernels.case import points

NUS = (0.2, 0.35, 0.5, 0.8, 1.0, 1.5, 2.0, 2.2, 3.7, 5.0, 7.3, 10.0)


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def bessel(nu, r):
    q = np.sqrt(2 * nu) * r
    return 2 ** (1 - nu) / gamma(nu) * q**nu * kv(nu, q)


@pytest.mark.parametrize("nu", NUS)
def test_any_smoothness_agrees_with_the_bessel_function(nu):
    r = torch.logspace(-6, math.log10(30), 300, dtype=torch.float64)
    actual = bessel_correlation(2 * nu * r.square()[None], number(nu))[0]
    np.testing.assert_allclose(actual.numpy(), bessel(nu, r.numpy()), rtol=0, atol=1e-12)


def test_the_value_does_not_depend_on_the_company():
    """The nodes follow the range of distances; each entry must come out the same whatever that range is."""
    r2 = torch.tensor([[1e-12, 1e-3, 1.0, 50.0, 1e6]], dtype=torch.float64)
    for nu in (0.3, 1.7, 12.0):
        together = bessel_correlation(2 * nu * r2, number(nu))
        alone = torch.cat([bessel_correlation(2 * nu * one, number(nu)) for one in r2.split(1, -1)], -1)
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-13)


def test_exactly_one_at_zero_with_no_slope_in_nu():
    nu = number(0.9).requires_grad_()
    value = bessel_correlation(torch.zeros(2, 3, dtype=torch.float64), nu)
    assert torch.equal(value, torch.ones_like(value))
    assert abs(grad(value.sum(), nu)[0].item()) < 1e-13


def test_missing_values_and_no_points():
    x = points()
    x[2, 0] = math.nan
    value = Matern(1.7)(x, points(5, seed=1))
    assert value[2].isnan().all()
    assert value[[0, 1, 3]].isfinite().all()
    assert Matern(1.7)(points(0), x).shape == (0, 9)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_closed_forms_and_the_general_path_are_one_kernel(nu):
    x, z = points(), points(5, seed=1)
    closed, general = Matern(nu, [0.7, 1.9]), Matern(positive(nu), [0.7, 1.9])
    torch.testing.assert_close(closed(x, z), general(x, z), rtol=0, atol=1e-13)


@pytest.mark.parametrize("make", [Exponential, *(partial(Matern, nu) for nu in (0.5, 1.5, 2.5))])
def test_the_fused_kernel_is_its_own_profile(make):
    x = torch.cat([points(), points(2)])  # two rows come twice
    kernel = make(lengthscale=[0.7, 1.9], variance=1.3)
    fused, weights = kernel(x), points(len(x), seed=2) @ points(len(x), seed=3).mT
    composed = kernel.variance * kernel.profile(scaled_sqdist(x, x, 1 / kernel.lengthscale))
    torch.testing.assert_close(fused, composed, rtol=1e-12, atol=1e-12)
    leaves = list(kernel.parameters())
    torch.testing.assert_close(grad(fused, leaves, weights), grad(composed, leaves, weights), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("nu", [0.3, 0.8, 1.3, 2.6, 6.0])
def test_gradients(nu):
    x, z = points(5).requires_grad_(), points(4, seed=1).requires_grad_()
    kernel = Matern(positive(nu), [0.7, 1.9], 1.3)
    assert gradcheck(lambda *_: kernel(x, z), [x, z, *kernel.parameters()])


@pytest.mark.parametrize("nu", [1.2, 1.5, 2.2, 2.5, 4.5])
@pytest.mark.parametrize("learnt", [False, True])
def test_second_derivatives(nu, learnt):
    x, z = points(4).requires_grad_(), points(3, seed=1).requires_grad_()
    kernel = Matern(positive(nu) if learnt else nu, [0.7, 1.9], 1.3)
    assert gradgradcheck(lambda *_: kernel(x, z), [x, z, *kernel.parameters()], atol=1e-6)


@pytest.mark.parametrize("nu", [1.2, 1.5, 2.0, 2.5, 3.3])
@pytest.mark.parametrize("learnt", [False, True])
def test_second_derivatives_where_points_coincide(nu, learnt):
    """``∂²k/∂x∂z`` at ``x = z`` is ``ν/((ν−1) ℓ²)``: 3/ℓ² for 3/2 and 5/(3ℓ²) for 5/2."""
    kernel = Matern(positive(nu) if learnt else nu, 0.7, 1.3)
    x, z = (torch.full((1, 1), 0.4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    (slope,) = grad(kernel(x, z).sum(), x, create_graph=True)
    cross, same = (grad(slope.sum(), point, retain_graph=True)[0].item() for point in (z, x))
    assert slope.item() == 0
    assert cross == pytest.approx(1.3 * nu / ((nu - 1) * 0.49), rel=1e-11)
    assert same == pytest.approx(-cross, rel=1e-11)


def test_fourth_derivative_of_the_5_2_kernel_where_points_coincide():
    """The variance of the second derivative of the process, ``25/ℓ⁴`` for 5/2."""
    x, z = (torch.zeros(1, 1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    value = Matern(2.5, 0.7)(x, z).sum()
    for point in (x, x, z, z):
        (value,) = grad(value.sum(), point, create_graph=True)
    assert value.item() == pytest.approx(25 / 0.7**4, rel=1e-11)


@pytest.mark.parametrize("nu", [0.55, 0.9, 1.0, 1.4])
def test_training_gradients_are_finite_with_repeated_points(nu):
    x = torch.cat([points(4), points(4), points(2) + 1e-9]).requires_grad_()
    kernel = Matern(positive(nu))
    kernel(x).sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in kernel.parameters())


def test_each_function_has_its_own_smoothness():
    x, z = points(), points(5, seed=1)
    kernel = Matern(positive(1.0), 0.7).replicate(3).set(nu=[0.4, 1.7, 3.0])
    separate = torch.stack([Matern(nu, 0.7)(x, z) for nu in (0.4, 1.7, 3.0)])
    torch.testing.assert_close(kernel(x, z), separate, rtol=0, atol=1e-13)
    value = kernel(x, z)[1].sum()
    slope = grad(value, kernel.parameter("nu").raw)[0]
    assert slope[0] == slope[2] == 0 != slope[1]


def test_large_nu_is_nearly_the_rbf():
    x = points()
    errors = [(Matern(float(nu), 0.7)(x) - RBF(0.7)(x)).abs().max().item() for nu in (100, 200, 400)]
    assert errors[0] < 3e-3
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)  # the difference is of order 1/ν
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(("nu", "times"), [(0.5, 0), (1.0, 0), (1.5, 1), (2.5, 2), (2.51, 2), (3.0, 2)])
def test_smoothness(nu, times):
    assert Matern(nu).differentiable == times
    assert Matern(positive(nu)).differentiable == times


def test_printing_and_bad_arguments():
    assert repr(Matern(1.7, 2.0)) == "Matern(nu=1.7, lengthscale=2, variance=1)"
    assert repr(Matern(positive(1.7))) == "Matern(lengthscale=1, variance=1, nu=1.7)"
    for nu in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="nu must be positive"):
            Matern(nu)
    with pytest.raises(InputError, match="nu must be one number"):
        Matern(positive([1.0, 2.0]))


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 0.8, 3.3])
def test_scikit_learn_agrees(nu):
    from sklearn.gaussian_process.kernels import Matern as Peer

    x, z = points(), points(5, seed=1)
    expected = Peer(length_scale=[0.7, 1.9], nu=nu)(x.numpy(), z.numpy())
    np.testing.assert_allclose(Matern(nu, [0.7, 1.9])(x, z).detach().numpy(), expected, atol=1e-12)


def test_scikit_learn_agrees_on_the_rational_quadratic():
    from sklearn.gaussian_process.kernels import RationalQuadratic as Peer

    x, z = points(), points(5, seed=1)
    expected = Peer(length_scale=0.7, alpha=0.6)(x.numpy(), z.numpy())
    np.testing.assert_allclose(RationalQuadratic(0.7, 0.6)(x, z).detach().numpy(), expected, atol=1e-13)


@pytest.mark.peer
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_gpytorch_agrees(nu):
    gpytorch = pytest.importorskip("gpytorch")
    x, z = points(), points(5, seed=1)
    peer = gpytorch.kernels.MaternKernel(nu, ard_num_dims=2).double()
    peer.lengthscale = torch.tensor([0.7, 1.9])
    torch.testing.assert_close(Matern(nu, [0.7, 1.9])(x, z), peer(x, z).to_dense(), rtol=0, atol=1e-7)
