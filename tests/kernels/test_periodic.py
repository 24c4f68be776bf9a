"""Periodic kernels and spectral mixtures: exact repetition, many columns, peers."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradgradcheck

from stratagp.errors import InputError
from stratagp.kernels import RBF
from stratagp.kernels.stationary.periodic import Cosine, Periodic, locally_periodic
from stratagp.kernels.stationary.spectral_mixture import SpectralMixture
from tests.kernels.case import points


def test_functions_repeat_after_one_period_of_each_column():
    x, z = points(), points(5, seed=1)
    kernel = Periodic(0.7, [1.5, 0.4])
    shifted = kernel(x + torch.tensor([3.0, -2.0], dtype=torch.float64), z)
    torch.testing.assert_close(shifted, kernel(x, z), rtol=0, atol=1e-13)


def test_positive_definite_in_two_columns():
    """With the Euclidean distance inside the sine the smallest eigenvalue would be far below zero."""
    x = 3 * points(80, 2)
    assert torch.linalg.eigvalsh(Periodic(0.5, 1.0)(x)).min() > -1e-12
    euclidean = torch.exp(-2 * torch.sin(math.pi * torch.cdist(x, x)).square() / 0.25)
    assert torch.linalg.eigvalsh(euclidean).min() < -1


def test_second_derivatives():
    x, z = points(4).requires_grad_(), points(3, seed=1).requires_grad_()
    for kernel in (Periodic([0.7, 0.9], 1.5), Cosine(1.5), SpectralMixture(2, 2)):
        assert gradgradcheck(lambda *_, k=kernel: k(x, z), [x, z, *kernel.parameters()], atol=1e-6)


def test_a_derivative_where_points_coincide():
    """``∂²k/∂x∂z`` at ``x = z`` is ``4π²/(p² ℓ²)``."""
    x, z = (torch.full((1, 1), 0.3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    (slope,) = torch.autograd.grad(Periodic(0.7, 1.5)(x, z).sum(), x, create_graph=True)
    (cross,) = torch.autograd.grad(slope.sum(), z)
    assert cross.item() == pytest.approx(4 * math.pi**2 / (1.5 * 0.7) ** 2, rel=1e-12)


def test_locally_periodic_is_a_product_with_one_variance():
    kernel = locally_periodic(period=1.5, lengthscale=0.7, decay=4.0, variance=1.3)
    x = points()
    expected = RBF(4.0)(x) * Periodic(0.7, 1.5, 1.3)(x)
    torch.testing.assert_close(kernel(x), expected, rtol=0, atol=1e-14)
    assert kernel.differentiable == math.inf
    assert not kernel.parameter("0.variance").trainable


def test_spectral_mixture_of_one_is_a_wave_under_a_bell():
    """One component is ``RBF · Cosine``, with lengthscale ``1/(2π√v)`` and period ``1/μ``."""
    x = points()
    mixture = SpectralMixture(1, 2, [1.3], [[0.4, 0.9]], [[0.1, 0.3]])
    ell = 1 / (2 * math.pi * torch.tensor([0.1, 0.3], dtype=torch.float64).sqrt())
    other = RBF(ell, 1.3) * Cosine([1 / 0.4, 1 / 0.9])
    torch.testing.assert_close(mixture(x), other(x), rtol=0, atol=1e-13)


def test_spectral_mixture_is_positive_definite_in_many_columns():
    generator = torch.Generator().manual_seed(3)
    means = torch.randn(4, 3, generator=generator)
    kernel = SpectralMixture(4, 3, means=means)
    assert torch.linalg.eigvalsh(kernel(points(60, 3))).min() > -1e-12


def test_bad_arguments():
    with pytest.raises(InputError, match="n_components and dim"):
        SpectralMixture(0)
    with pytest.raises(InputError, match="means must have the shape"):
        SpectralMixture(2, 1, means=[[0.1, 0.2], [0.3, 0.4]])
    with pytest.raises(InputError, match="3 columns"):
        SpectralMixture(2, 2)(points(4, 3))
    with pytest.raises(InputError, match="period for each of 3 columns"):
        Periodic(period=[1.0, 2.0, 3.0])(points())


def test_scikit_learn_agrees():
    from sklearn.gaussian_process.kernels import ExpSineSquared

    x, z = points(9, 1), points(5, 1, seed=1)
    expected = ExpSineSquared(length_scale=0.7, periodicity=1.5)(x.numpy(), z.numpy())
    np.testing.assert_allclose(Periodic(0.7, 1.5)(x, z).detach().numpy(), expected, atol=1e-13)


@pytest.mark.peer
def test_gpytorch_agrees():
    """Its periodic kernel has ``exp(−2 Σ sin²/λ)``, so its lengthscale is the square of ours."""
    gpytorch = pytest.importorskip("gpytorch")
    x, z = points(), points(5, seed=1)
    peer = gpytorch.kernels.PeriodicKernel(ard_num_dims=2).double()
    peer.lengthscale, peer.period_length = torch.tensor([0.49, 3.61]), torch.tensor([1.5, 0.8])
    ours = Periodic([0.7, 1.9], [1.5, 0.8])
    torch.testing.assert_close(ours(x, z), peer(x, z).to_dense(), rtol=0, atol=1e-6)

    x, z = points(9, 1), points(5, 1, seed=1)
    peer = gpytorch.kernels.CosineKernel().double()
    peer.period_length = 0.75  # its cosine is of π τ/p
    torch.testing.assert_close(Cosine(1.5)(x, z), peer(x, z).to_dense(), rtol=0, atol=1e-6)

    peer = gpytorch.kernels.SpectralMixtureKernel(num_mixtures=2).double()
    peer.mixture_weights = torch.tensor([0.5, 1.2])
    peer.mixture_means = torch.tensor([0.3, 0.9]).reshape(2, 1, 1)
    peer.mixture_scales = torch.tensor([0.2, 0.4]).reshape(2, 1, 1)
    ours = SpectralMixture(2, 1, [0.5, 1.2], [[0.3], [0.9]], [[0.04], [0.16]])
    torch.testing.assert_close(ours(x, z), peer(x, z).to_dense(), rtol=0, atol=1e-6)
