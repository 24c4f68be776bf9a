"""The fused Matérn kernels against their formulas written out for every pair of points."""

import pytest
import torch
from torch.autograd import grad, gradcheck, gradgradcheck

from stratagp.linalg import matern_correlation, matern_kernel
from tests.linalg.test_distances import SHAPES, dense

G = torch.Generator().manual_seed(0)
ORDERS = (0, 1, 2)


def randn(*shape):
    return torch.randn(shape, generator=G, dtype=torch.float64)


def inputs(xs=(7, 3), zs=(5, 3), ws=(3,), needs=(1, 1, 1, 1)):
    variance = (4, 1, 1) if len(ws) == 3 else ()
    made = [randn(*xs), randn(*zs), randn(*ws).exp(), randn(*variance).exp()]
    return [value.requires_grad_(bool(need)) for value, need in zip(made, needs, strict=True)]


def composed(x, z, w, v, order):
    r = dense(x, z, w).sqrt()
    return v * (1 + (order > 0) * r + (order > 1) * r.square() / 3) * torch.exp(-r)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("xs", "zs", "ws"), SHAPES)
def test_values_and_gradients(xs, zs, ws, order):
    given = inputs(xs, zs, ws)
    actual, expected = matern_kernel(*given, order), composed(*given, order)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    incoming = randn(*expected.shape)
    torch.testing.assert_close(grad(actual, given, incoming), grad(expected, given, incoming), rtol=1e-12, atol=1e-12)
    assert gradcheck(lambda *values: matern_kernel(*values, order), given, fast_mode=True)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("xs", "zs", "ws"), [SHAPES[1], SHAPES[4]])
def test_second_derivatives(xs, zs, ws, order):
    assert gradgradcheck(lambda *values: matern_kernel(*values, order), inputs(xs, zs, ws), fast_mode=True)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ws", [(), (2,), (4, 1, 2)])
@pytest.mark.parametrize("needs", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 1, 1)])
def test_each_input_alone_gets_its_gradient(needs, ws, order):
    assert gradcheck(lambda *values: matern_kernel(*values, order), inputs((4, 2), (3, 2), ws, needs))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("ws", [(3,), (4, 1, 3)])
def test_points_with_themselves(ws, points, order):
    """One tensor on both sides, with a repeated row: its own distance and that of the pair are exactly zero."""
    x, _, w, v = inputs((9, 3), (5, 3), ws)
    x = torch.cat([x, x[:1]]).detach().requires_grad_(points)
    leaves = [w, v, *([x] if points else [])]
    actual = matern_kernel(x, x, w, v, order)
    assert torch.equal(actual.diagonal(dim1=-2, dim2=-1), v.expand(*actual.shape[:-2], 10, 1).squeeze(-1))
    torch.testing.assert_close(actual, composed(x, x, w, v, order), rtol=1e-12, atol=1e-12)
    apart = v * matern_correlation(dense(x, x, w), order)  # its gradient is zero, not infinite, at coincident points
    incoming = randn(*actual.shape)
    torch.testing.assert_close(grad(actual, leaves, incoming), grad(apart, leaves, incoming), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("needs", [(0, 0, 1, 1), (0, 1, 1, 1)])
@pytest.mark.parametrize("ws", [(3,), (4, 1, 3)])
@pytest.mark.parametrize("same", [False, True])
def test_rows_are_chunked_without_a_change(monkeypatch, same, ws, needs, order):
    x, z, w, v = inputs((40, 3), (40, 3), ws, needs)
    x = z if same else x
    leaves = [value for value in (z, w, v) if value.requires_grad]
    whole = matern_kernel(x, z, w, v, order)
    incoming = randn(*whole.shape)
    gradients = grad(whole, leaves, incoming)
    monkeypatch.setattr("stratagp.linalg.radial._BLOCK", 7 * 40)
    pieces = matern_kernel(x, z, w, v, order)
    torch.testing.assert_close(pieces, whole, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(grad(pieces, leaves, incoming), gradients, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("points", [False, True])
def test_first_gradients_do_not_depend_on_create_graph_and_can_be_asked_for_twice(points, order):
    given = inputs(needs=(points, points, 1, 1))
    leaves = [value for value in given if value.requires_grad]
    value, incoming = matern_kernel(*given, order), randn(7, 5)
    first, again = (grad(value, leaves, incoming, retain_graph=True) for _ in range(2))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    torch.testing.assert_close(first, grad(value, leaves, incoming, create_graph=True), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("lengthscale", "tolerance"), [(1.0, 2e-5), (0.01, 1e-6)])
def test_single_precision(order, lengthscale, tolerance):
    """Against the same numbers in double precision; short lengthscales are differenced in it."""
    x, z, w, v = (value.detach().float() for value in inputs((60, 3), (50, 3)))
    w = (w / lengthscale).requires_grad_()
    z[:20] = x[:20] + 1e-3 * lengthscale
    value = matern_kernel(x, z, w, v.requires_grad_(), order)
    wide = [value.detach().double().requires_grad_(value.requires_grad) for value in (x, z, w, v)]
    truth = composed(*wide, order)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), truth, rtol=0, atol=tolerance * v.item())
    if lengthscale < 1:  # the gradient vanishes, all but for rounding
        return
    for ours, exact in zip(grad(value.sum(), [w, v]), grad(truth.sum(), wide[2:]), strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_a_bad_row_spoils_itself_alone_and_no_rows_are_no_fault(order):
    one = torch.tensor(1.0).double()
    x = randn(5, 2)
    x[3, 0] = torch.nan
    assert matern_kernel(randn(4, 2), x, one, one, order).isnan().any(0).tolist() == [False, False, False, True, False]
    assert matern_kernel(randn(0, 2), x, one, one, order).shape == (0, 5)
    w = one.clone().requires_grad_()
    assert grad(matern_kernel(randn(4, 2), randn(0, 2), w, one, order).sum(), w)[0] == 0
