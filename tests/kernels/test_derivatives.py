"""Covariances with slopes: against finite differences of NumPy formulas, a peer and a textbook example."""

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels.multi_output.derivatives import (
    Derivatives,
    gradient_gradient,
    stack_values_and_slopes,
    value_gradient,
    with_derivatives,
)
from tests.kernels.case import points, unit_points
from tests.kernels.cases import CASES

STEP = 1e-4
ELL = np.array([0.7, 1.9])


def everything(x):
    """Each row as a value and all its slopes, one after the other."""
    n, d = x.shape
    return with_derivatives(x.repeat_interleave(d + 1, 0), torch.arange(d + 1).repeat(n))


def shifted(x, i, h):
    x = x.copy()
    x[:, i] += h
    return x


def by_differences(formula, x, z, i, j):
    """Central differences of ∂k/∂z_j (i None) and of ∂²k/∂x_i∂z_j."""

    def by_z(left):
        return (formula(left, shifted(z, j, STEP)) - formula(left, shifted(z, j, -STEP))) / (2 * STEP)

    return by_z(x) if i is None else (by_z(shifted(x, i, STEP)) - by_z(shifted(x, i, -STEP))) / (2 * STEP)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.gradients])
def test_slopes_of_every_kernel_agree_with_finite_differences_or_are_refused(name):
    case = CASES[name]
    kernel, (x, z) = case.make(), case.inputs()
    if kernel.differentiable < 1:
        with pytest.raises(UnsupportedError, match="not mean-square differentiable"):
            gradient_gradient(kernel, x, z)
        return
    z = torch.cat([x[:2], z[:2]])  # at equal places, where square roots have no derivative, and at others
    first, second = (
        value_gradient(kernel, x, z).detach().numpy(),
        gradient_gradient(kernel, x, z).detach().numpy(),
    )
    # At equal places the differences of a kernel of one derivative converge as slowly as it is rough.
    equal = (x[:, None] == z).all(-1).numpy()
    allowed = np.where(equal & (kernel.differentiable < 2), 0.05, 2e-5) * max(1.0, np.abs(second).max())
    for j in range(x.shape[1]):
        error = first[..., j] - by_differences(case.formula, x.numpy(), z.numpy(), None, j)
        assert (np.abs(error) < allowed).all()
        for i in range(x.shape[1]):
            error = second[..., i, :, j] - by_differences(case.formula, x.numpy(), z.numpy(), i, j)
            assert (np.abs(error) < allowed).all()


def test_slopes_of_sigmoidal_units_at_equal_places_do_not_hang_on_rounding():
    kernel = k.ArcSine([0.5, 2.0], 0.3)
    x = 3 * torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at, near = (gradient_gradient(kernel, x, z).diagonal(dim1=0, dim2=2) for z in (x.clone(), x + 1e-6))
    torch.testing.assert_close(at, near, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nu", [1.5, 2.5, 3.5])
def test_variance_of_a_matern_slope(nu):
    x = points(3, 2)
    lengthscale = torch.tensor([0.7, 1.9], dtype=torch.float64)
    for kernel in (k.Matern(nu=nu, lengthscale=ELL), k.Matern(nu=nu, lengthscale=ELL).on([0, 1])):
        expected = nu / (nu - 1) / lengthscale.square()  # −2ρ'(0) = ν/(ν − 1)
        slopes = gradient_gradient(kernel, x, x.clone())
        for n in range(3):
            torch.testing.assert_close(slopes[n, :, n], expected.diag(), rtol=1e-10, atol=1e-10)
        for j in (1, 2):
            variances = Derivatives(kernel).diag(with_derivatives(x, j))
            torch.testing.assert_close(variances, expected[j - 1].expand(3), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("make", [lambda: k.RBF(ELL, 1.3), lambda: k.Matern(nu=2.5, lengthscale=ELL, variance=1.3)])
@pytest.mark.parametrize("functions", [None, 3])
def test_closed_forms_equal_autograd(make, functions):
    kernel = make()
    if functions is not None:
        kernel.replicate(functions)
        for item in kernel.named_values():
            item.parameter.raw.data += 0.1 * torch.arange(functions).reshape(-1, *[1] * (item.parameter.raw.dim() - 1))
    x, z = points(6, 2), torch.cat([points(6, 2)[:2], points(3, 2, seed=1)])
    by_autograd = kernel.on([0, 1])
    for function in (value_gradient, gradient_gradient):
        torch.testing.assert_close(function(kernel, x, z), function(by_autograd, x, z), rtol=1e-10, atol=1e-11)
    rows = everything(x)
    torch.testing.assert_close(Derivatives(kernel)(rows), Derivatives(by_autograd)(rows), rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(
        Derivatives(kernel).diag(rows), Derivatives(by_autograd).diag(rows), rtol=1e-10, atol=1e-11
    )


def test_layout_of_the_gradients():
    x, z, kernel = points(4, 2), points(3, 2, seed=1), k.RBF(ELL)
    matrix = Derivatives(kernel)(everything(x), everything(z)).unflatten(0, (4, 3)).unflatten(-1, (3, 3))
    torch.testing.assert_close(matrix[:, 0, :, 1:], value_gradient(kernel, x, z))
    torch.testing.assert_close(matrix[:, 1:, :, 1:], gradient_gradient(kernel, x, z))
    torch.testing.assert_close(matrix[:, 1:, :, 0], value_gradient(kernel, z, x).permute(1, 2, 0))


@pytest.mark.peer
@pytest.mark.parametrize("kind", ["RBFKernelGrad", "Matern52KernelGrad"])
def test_gpytorch_agrees(kind):
    gpytorch = pytest.importorskip("gpytorch")
    peer = getattr(gpytorch.kernels, kind)(ard_num_dims=2).double()
    peer.lengthscale = torch.tensor([0.7, 1.9])
    ours = k.RBF(ELL) if kind == "RBFKernelGrad" else k.Matern(nu=2.5, lengthscale=ELL)
    x, z = points(5, 2), points(4, 2, seed=1)
    for right in (z, x):
        expected = peer(x, right).to_dense()  # value and slopes of a point follow one another there
        actual = Derivatives(ours)(everything(x), everything(right))
        torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-8)


def test_sine_from_one_value_and_nine_slopes():
    slopes_at = torch.linspace(0, 2 * torch.pi, 9, dtype=torch.float64)[:, None]
    x = stack_values_and_slopes(torch.zeros(1, 1, dtype=torch.float64), slopes_at)
    y = torch.cat([torch.zeros(1, dtype=torch.float64), slopes_at[:, 0].cos()])
    where = torch.linspace(0, 6.28, 50, dtype=torch.float64)[:, None]
    kernel = Derivatives(k.RBF(lengthscale=1.2))
    with torch.no_grad():
        weights = torch.linalg.solve(kernel(x) + 1e-8 * torch.eye(10), y)
        mean = kernel(with_derivatives(where, 0), x) @ weights
        slope = kernel(with_derivatives(where, 1), x) @ weights
    error = (mean - where[:, 0].sin()).abs().max().item()
    assert 0.010 < error < 0.012
    # The predicted slope is the slope of the prediction.
    middle = torch.gradient(mean, spacing=(where[:, 0],))[0][1:-1]
    torch.testing.assert_close(slope[1:-1], middle, rtol=0, atol=5e-3)


def test_gradients_reach_points_through_autograd_slopes():
    kernel = k.RBF(ELL) * k.Linear() + k.RationalQuadratic(0.8)
    x, z = points(3, 2).requires_grad_(), points(2, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: gradient_gradient(kernel, a, b), (x, z), atol=1e-6)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_slopes_without_a_graph(mode):
    kernel = k.RBF(ELL) + k.RationalQuadratic(0.8)
    expected = gradient_gradient(kernel, points(4, 2))
    with mode():
        actual = gradient_gradient(kernel, points(4, 2))
    assert expected.requires_grad
    assert not actual.requires_grad
    torch.testing.assert_close(actual.clone(), expected.detach(), rtol=0, atol=0)


def test_a_constant_has_slope_zero():
    x = everything(points(3, 2))
    values = (x[:, -1] == 0).double()
    for kernel in (k.Constant(2.0), k.Constant(2.0).fix()):
        torch.testing.assert_close(Derivatives(kernel)(x).detach(), 2 * torch.outer(values, values))
        torch.testing.assert_close(Derivatives(kernel).diag(x).detach(), 2 * values)


def test_a_kernel_of_ones_own():
    class CosineOfOnes(k.Kernel):
        differentiable = float("inf")

        def forward(self, x, z):
            return torch.cos(x.sum(-1)[:, None] - z.sum(-1)[None, :])

    x = points(4, 2)
    gap = x.sum(-1)[:, None] - x.sum(-1)[None, :]
    expected = gap.cos()[:, None, :, None].expand(4, 2, 4, 2)  # −cos'' for every pair of components
    torch.testing.assert_close(gradient_gradient(CosineOfOnes(), x), expected)


def test_process_is_one_derivative_rougher():
    assert Derivatives(k.Matern(nu=2.5)).differentiable == 1
    assert Derivatives(k.RBF()).differentiable == float("inf")


@pytest.mark.parametrize(
    ("kernel", "culprit"),
    [
        (k.Exponential(), r"Exponential\(lengthscale=1, variance=1\) is not"),
        (
            k.RBF() + k.RBF() * k.Exponential(2.0).on(0),
            r"because Exponential\(lengthscale=2, variance=1\) is not",
        ),
        (k.White().warp(torch.sinh), r"White"),
    ],
)
def test_rough_kernels_are_refused(kernel, culprit):
    for ask in (lambda: value_gradient(kernel, points()), lambda: Derivatives(kernel)):
        with pytest.raises(UnsupportedError, match=culprit) as error:
            ask()
        assert "Matern(nu=2.5)" in str(error.value)
        assert "because RBF" not in str(error.value)


@pytest.mark.parametrize(
    ("label", "told"), [(3.0, "got 3"), (-1.0, "got -1"), (0.5, "got 0.5"), (float("nan"), "got nan")]
)
def test_labels_are_checked(label, told):
    x = points(3, 3)
    x[:, -1] = torch.tensor([0.0, 1.0, label])
    kernel = Derivatives(k.RBF())
    for ask in (lambda: kernel(x), lambda: kernel.diag(x), lambda: with_derivatives(x[:, :2], x[:, 2])):
        with pytest.raises(InputError, match=f"whole numbers from 0 to 2, {told}"):
            ask()


def test_arguments_are_checked():
    with pytest.raises(InputError, match="at least two columns"):
        Derivatives(k.RBF())(torch.zeros(2, 1))
    with pytest.raises(InputError, match="same for all functions"):
        Derivatives(k.RBF())(torch.tensor([[[0.0, 0.0]], [[0.0, 1.0]]]))
    with pytest.raises(InputError, match="x has 2 columns but z has 3"):
        gradient_gradient(k.RBF(), points(2, 2), points(2, 3))
    with pytest.raises(InputError, match="does not know its number of columns"):
        gradient_gradient(k.RBF(ard=True), points(2, 2))
    with pytest.raises(InputError, match="x_values has 2 columns but x_slopes has 1"):
        stack_values_and_slopes(points(2, 2), points(2, 1))
    with pytest.raises(InputError, match="one for each of 2 rows"):
        with_derivatives(points(2, 2), [0, 1, 2])


def test_helpers_write_the_labels():
    values, slopes = unit_points(2, 2), unit_points(3, 2, seed=1)
    both = stack_values_and_slopes(values, slopes)
    assert both[:, -1].tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert torch.equal(both[:, :2], torch.cat([values, slopes, slopes]))
    assert stack_values_and_slopes(values, slopes, components=2)[:, -1].tolist() == [0, 0, 2, 2, 2]
    assert stack_values_and_slopes(values, slopes, [2, 1])[:, -1].tolist() == [0, 0, 2, 2, 2, 1, 1, 1]


def test_columns_are_bound_without_the_label():
    kernel = Derivatives(k.RBF(ard=True) + k.RBF().on("b")).bind(["a", "b", "what"])
    assert kernel.parameter("base.0.lengthscale").natural.shape == (2,)
    assert kernel(everything(points(3, 2))).shape == (9, 9)


def test_no_rows():
    kernel = Derivatives(k.RBF())
    assert kernel(torch.zeros(0, 3), everything(points(2, 2))).shape == (0, 6)
    assert kernel.diag(torch.zeros(0, 3)).shape == (0,)


def hermite(order, t):
    """(−1)^n dⁿ/dtⁿ exp(−t²/2) / exp(−t²/2)."""
    return np.polynomial.hermite_e.hermeval(t, [0] * order + [1])


def test_derivatives_of_any_order_are_hermite_polynomials():
    """cov(f⁽ᵃ⁾(x), f⁽ᵇ⁾(z)) = (−1)ᵃ He_{a+b}(t) exp(−t²/2) v/ℓ^{a+b} for an RBF, t = (x − z)/ℓ."""
    x, ell, v = points(6, 1), 0.7, 1.3
    kernel = Derivatives(k.RBF(ell, v), of=[(1,) * order for order in (1, 2, 3)])
    rows = with_derivatives(x.repeat_interleave(4, 0), torch.arange(4).repeat(6), kinds=3)
    t = ((x - x.mT) / ell).numpy()
    found = kernel(rows).detach().numpy().reshape(6, 4, 6, 4)
    for a in range(4):
        for b in range(4):
            truth = (-1) ** a * hermite(a + b, t) * np.exp(-(t**2) / 2) * v / ell ** (a + b)
            np.testing.assert_allclose(found[:, a, :, b], truth, rtol=1e-9, atol=1e-9 * np.abs(truth).max())
    np.testing.assert_allclose(kernel.diag(rows).detach(), np.diag(kernel(rows).detach()), rtol=1e-12)
    assert np.linalg.eigvalsh(kernel(rows).detach()).min() > -1e-8


def test_mixed_derivatives_are_the_product_over_columns():
    x = points(4, 2)
    kernel = Derivatives(k.RBF(0.8), of=[(1, 2), (2, 2)])
    t = ((x[:, None] - x) / 0.8).numpy()
    bell = np.exp(-(t**2).sum(-1) / 2) / 0.8**4
    both = kernel(with_derivatives(x, 1, kinds=2)).detach().numpy()
    np.testing.assert_allclose(both, hermite(2, t[..., 0]) * hermite(2, t[..., 1]) * bell, rtol=1e-9, atol=1e-11)
    cross = kernel(with_derivatives(x, 1, kinds=2), with_derivatives(x, 2, kinds=2)).detach().numpy()
    truth = hermite(1, t[..., 0]) * hermite(3, t[..., 1]) * bell
    np.testing.assert_allclose(cross, truth, rtol=1e-9, atol=1e-11)


def test_curvatures_of_rough_kernels_at_equal_points():
    """Matérn 5/2 has two derivatives, and Var f″ = 25 v/ℓ⁴: the fourth derivative of 1 − 5t²/6 + 25t⁴/24 + … at 0."""
    kernel = Derivatives(k.Matern(nu=2.5, lengthscale=0.7), of=[(1, 1)])
    assert kernel.differentiable == 0
    assert kernel.diag(torch.tensor([[0.3, 1.0]])).item() == pytest.approx(25 / 0.7**4, rel=1e-9)
    with pytest.raises(UnsupportedError, match=r"no derivatives of order 3 because Matern\(nu=2.5.*Matern\(nu=3.5\)"):
        Derivatives(k.Matern(nu=2.5), of=[(1, 1, 1)])


def test_an_equation_is_solved_from_its_right_side():
    """A process that is told f″ = −sin at 12 points, f(0) = 0 and f′(0) = 1 is the sine."""
    kernel = Derivatives(k.RBF(lengthscale=1.5), of=[(1,), (1, 1)])
    where = torch.linspace(0, 5, 12, dtype=torch.float64)[:, None]
    parts = [(torch.zeros(1, 1), 0), (torch.zeros(1, 1), 1), (where, 2)]
    x = torch.cat([with_derivatives(part.double(), label, kinds=2) for part, label in parts])
    y = torch.cat([torch.tensor([0.0, 1.0], dtype=torch.float64), -where[:, 0].sin()])
    weights = torch.linalg.solve(kernel(x) + 1e-9 * torch.eye(14, dtype=torch.float64), y)
    new = torch.linspace(0, 5, 30, dtype=torch.float64)[:, None]
    torch.testing.assert_close(kernel(with_derivatives(new, 0), x) @ weights, new[:, 0].sin(), atol=2e-3, rtol=0)


def test_orders_are_checked():
    for wrong in ([], [()], [(0,)], [(1,), (-1, 2)]):
        with pytest.raises(InputError, match="of must"):
            Derivatives(k.RBF(), of=wrong)
    with pytest.raises(InputError, match="names column 2, but the points have 1"):
        Derivatives(k.RBF(), of=[(2,)])(torch.tensor([[0.0, 1.0]]))
