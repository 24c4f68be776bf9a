"""Linear, polynomial and full-metric kernels against other libraries, and their limits."""

import numpy as np
import pytest
import torch

from stratagp.errors import InputError
from stratagp.kernels import RBF
from stratagp.kernels.nonstationary.linear import Linear, Polynomial
from stratagp.kernels.stationary.metric import MetricRBF
from stratagp.parameters import positive
from tests.kernels.case import points

X, Z = points(7, 3), points(5, 3, seed=1)


def close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(actual, torch.as_tensor(expected).to(actual), rtol=tolerance, atol=tolerance)


def test_linear_and_a_constant_are_scikit_learns_dot_product():
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    close((Linear() + 1.7**2)(X, Z), kernels.DotProduct(sigma_0=1.7)(X.numpy(), Z.numpy()))
    close((Linear() + 1.7**2).diag(X), kernels.DotProduct(sigma_0=1.7).diag(X.numpy()))


def test_polynomial_is_a_power_of_scikit_learns_dot_product():
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    peer = kernels.Exponentiation(kernels.DotProduct(sigma_0=0.8), 3)
    close(Polynomial(3, offset=0.8**2)(X, Z), peer(X.numpy(), Z.numpy()))


@pytest.mark.peer
def test_linear_and_polynomial_are_gpytorchs():
    kernels = pytest.importorskip("gpytorch.kernels")
    linear = kernels.LinearKernel(ard_num_dims=3).double()
    linear.variance = torch.tensor([[0.5, 1.0, 2.0]], dtype=torch.float64)
    close(Linear([0.5, 1.0, 2.0])(X, Z), linear(X, Z).to_dense())
    polynomial = kernels.PolynomialKernel(power=3).double()
    polynomial.offset = torch.tensor(0.6, dtype=torch.float64)
    close(Polynomial(3, offset=0.6)(X, Z), polynomial(X, Z).to_dense())
    close(Polynomial(3, offset=0.6).diag(X), polynomial(X, X, diag=True))


def test_polynomial_of_degree_one_is_linear_and_a_constant():
    close(Polynomial(1, offset=0.6, variance=0.3)(X, Z), (Linear(0.3) + 0.6)(X, Z))


def test_metric_rbf_with_a_diagonal_factor_is_the_rbf():
    ell = np.array([0.5, 1.0, 3.0])
    close(MetricRBF(np.diag(1 / ell), 1.4)(X, Z), RBF(ell, 1.4)(X, Z))


def test_metric_is_the_inverse_of_the_precision():
    factor = np.tril(points(3, 3, seed=2).numpy(), -1) + np.diag([0.7, 1.2, 2.0])
    kernel = MetricRBF(factor)
    close(kernel.metric, np.linalg.inv(factor @ factor.T))
    close(kernel.replicate(2).metric, np.stack([np.linalg.inv(factor @ factor.T)] * 2))


def test_metric_rbf_learns_a_rotated_metric():
    """Gradients reach every entry of the factor: the kernel of a rotated metric can be fitted exactly."""
    J = np.array([[1.0, 0.8], [0.8, 1.5]])
    x = points(12, 2)
    difference = x[:, None] - x
    target = torch.exp(-0.5 * torch.einsum("abi,ij,abj->ab", difference, torch.tensor(np.linalg.inv(J)), difference))
    kernel = MetricRBF(2)
    optimiser = torch.optim.LBFGS(kernel.parameters(), max_iter=200, line_search_fn="strong_wolfe", tolerance_change=0)

    def loss():
        optimiser.zero_grad()
        value = (kernel(x) - target).square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    close(kernel.metric, J, 1e-4)


def test_each_function_has_its_own_values():
    q = Linear([0.5, 1.0, 2.0]).replicate(2).set(variance=[[0.5, 1.0, 2.0], [3.0, 0.1, 1.0]])
    close(q(X, Z), torch.stack([Linear([0.5, 1.0, 2.0])(X, Z), Linear([3.0, 0.1, 1.0])(X, Z)]))
    p = Polynomial().replicate(2).set(offset=[0.5, 2.0])
    close(p.diag(X), torch.stack([Polynomial(offset=0.5).diag(X), Polynomial(offset=2.0).diag(X)]))
    factors = torch.stack([torch.eye(3), 2 * torch.eye(3)]).double()
    m = MetricRBF(3).replicate(2).set(factor=factors)
    close(m(X, Z), torch.stack([MetricRBF(f)(X, Z) for f in factors]))


def test_printing():
    assert repr(Linear()) == "Linear(variance=1)"
    assert repr(Polynomial(3, 0.5)) == "Polynomial(degree=3, offset=0.5, variance=1)"
    assert repr(MetricRBF(2)) == "MetricRBF(factor=[[1, 0], [0, 1]], variance=1)"


def test_ard_waits_for_the_columns():
    kernel = Linear(0.5, ard=True)
    with pytest.raises(InputError, match="bind"):
        kernel(X)
    close(kernel.bind(3)(X, Z), 0.5 * X @ Z.T)


@pytest.mark.parametrize("degree", [0, -1, 1.5, True])
def test_degree_must_be_a_positive_whole_number(degree):
    with pytest.raises((InputError, TypeError)):
        Polynomial(degree)


def test_a_metric_must_be_square_triangular_and_fit_the_points():
    with pytest.raises(InputError, match="square"):
        MetricRBF(np.ones(3))
    with pytest.raises(InputError, match="lower triangular"):
        MetricRBF(np.ones((2, 2)))
    with pytest.raises(InputError, match="2 columns"):
        MetricRBF(2)(X)


def test_parameters_can_be_shared():
    shared = positive(0.7)
    assert Linear(shared).parameter("variance") is Polynomial(variance=shared).parameter("variance")
