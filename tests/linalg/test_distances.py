import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from stratagp.linalg import gaussian_kernel, scaled_sqdist

G = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(shape, generator=G, dtype=torch.float64)


def dense(x, z, w):
    w = w.unsqueeze(-2) if w.dim() == 3 else w
    return ((x.unsqueeze(-2) - z.unsqueeze(-3)) * w).square().sum(-1)


SHAPES = [  # points x, points z, weights
    ((7, 3), (5, 3), ()),
    ((7, 3), (5, 3), (3,)),
    ((7, 3), (5, 3), (4, 1, 3)),
    ((7, 3), (5, 3), (4, 1, 1)),
    ((7, 3), (4, 5, 3), (4, 1, 3)),
    ((4, 7, 3), (5, 3), (4, 1, 3)),
    ((4, 7, 3), (4, 5, 3), (3,)),
    ((4, 7, 3), (4, 5, 3), (4, 1, 1)),
]


@pytest.mark.parametrize(("xs", "zs", "ws"), SHAPES)
def test_values_and_two_derivatives(xs, zs, ws):
    x, z, w = randn(*xs).requires_grad_(), randn(*zs).requires_grad_(), randn(*ws).exp().requires_grad_()
    v = randn(4, 1, 1).exp().requires_grad_() if w.dim() == 3 else randn().exp().requires_grad_()
    torch.testing.assert_close(scaled_sqdist(x, z, w), dense(x, z, w), rtol=1e-12, atol=1e-12)
    expected = v * torch.exp(-0.5 * dense(x, z, w))
    torch.testing.assert_close(gaussian_kernel(x, z, w, v), expected, rtol=1e-12, atol=1e-12)
    assert gradcheck(scaled_sqdist, (x, z, w))
    assert gradgradcheck(scaled_sqdist, (x, z, w))
    assert gradcheck(gaussian_kernel, (x, z, w, v))
    assert gradgradcheck(gaussian_kernel, (x, z, w, v))


@pytest.mark.parametrize("needs", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 1, 1)])
def test_each_input_alone_gets_its_gradient(needs):
    inputs = [randn(6, 2), randn(5, 2), randn(2).exp(), randn().exp()]
    for tensor, need in zip(inputs, needs, strict=True):
        tensor.requires_grad_(bool(need))
    assert gradcheck(gaussian_kernel, inputs)
    if any(needs[:3]):
        assert gradcheck(scaled_sqdist, inputs[:3])


def test_rows_are_chunked_without_a_change(monkeypatch):
    x, z, w, v = randn(40, 3), randn(30, 3), randn(3).exp().requires_grad_(), randn().exp().requires_grad_()
    grad = randn(40, 30)
    whole = torch.autograd.grad(gaussian_kernel(x, z, w, v), (w, v), grad)
    monkeypatch.setattr("stratagp.linalg.squared_exponential.CHUNK", 90)
    pieces = torch.autograd.grad(gaussian_kernel(x, z, w, v), (w, v), grad)
    torch.testing.assert_close(whole, pieces, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shared", ["points", "weights", "nothing"])
@pytest.mark.parametrize("chunk", [1, 2**19])
def test_several_functions_a_few_at_a_time(monkeypatch, shared, chunk):
    """Values and gradients are those of each function alone; the gradient of what is shared is their sum."""
    monkeypatch.setattr("stratagp.linalg.lower.CHUNK", chunk)
    x, z = randn(6, 2), randn(5, 2) if shared == "points" else randn(3, 5, 2)
    w = randn(2).exp() if shared == "weights" else randn(3, 1, 2).exp()
    v = randn(3, 1, 1).exp()
    for tensor in (z, w, v):
        tensor.requires_grad_()
    for inputs in ((x, z), (z, z)):
        k = gaussian_kernel(*inputs, w, v)
        points = [each.expand(3, -1, -1) for each in inputs]
        difference = w.expand(3, 1, 2)[:, :, None] * (points[0][:, :, None] - points[1][:, None])
        expected = v * torch.exp(-0.5 * difference.square().sum(-1))
        torch.testing.assert_close(k, expected, rtol=1e-12, atol=1e-12)
        weights = randn(*k.shape)
        got, wanted = (torch.autograd.grad(value, (z, w, v), weights) for value in (k, expected))
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-5)])
@pytest.mark.parametrize("batch", [(), (2, 1)])
def test_near_duplicates_far_from_the_origin_keep_their_distance(dtype, tolerance, batch):
    x = (randn(50, 3) + 100.0).to(dtype)
    z = x + 1e-3 * torch.randn(50, 3, generator=G).to(dtype)
    w = torch.ones(*batch, 3, dtype=dtype)
    difference = (x - z).double()
    truth = difference.norm(dim=-1)
    distance = scaled_sqdist(x, z, w).double().diagonal(dim1=-2, dim2=-1).sqrt()
    assert (distance - truth).abs().max() < tolerance
    assert torch.equal(scaled_sqdist(x, x, w).diagonal(dim1=-2, dim2=-1), torch.zeros(*batch[:1], 50, dtype=dtype))


def test_empty_sides():
    assert scaled_sqdist(randn(0, 2), randn(3, 2), torch.tensor(1.0).double()).shape == (0, 3)


def test_first_gradients_do_not_depend_on_create_graph():
    inputs = [randn(6, 2), randn(5, 2), randn(2).exp(), randn().exp()]
    for tensor in inputs:
        tensor.requires_grad_()
    weights = randn(6, 5)
    plain, graph = (
        torch.autograd.grad(gaussian_kernel(*inputs), inputs, weights, create_graph=flag) for flag in (False, True)
    )
    torch.testing.assert_close(plain, graph, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-8)])
@pytest.mark.parametrize("lengthscale", [0.01, 0.0003])
def test_short_lengthscales_and_outliers_do_not_show_rounding(dtype, tolerance, lengthscale):
    x = torch.rand(60, 1, generator=G, dtype=torch.float64)
    x[0] = 1e4
    x = x.to(dtype)
    w, v = torch.tensor(1 / lengthscale, dtype=dtype), torch.ones((), dtype=dtype)
    exact = torch.exp(-0.5 * ((x.double() - x.double().mT) * w.double()).square())
    for z in (x, x.clone()):
        torch.testing.assert_close(gaussian_kernel(x, z, w, v).double(), exact, rtol=0, atol=tolerance)


def test_a_bad_row_spoils_itself_alone():
    x = randn(5, 2)
    x[3, 0] = torch.nan
    one = torch.tensor(1.0).double()
    for function in (lambda x, z: scaled_sqdist(x, z, one), lambda x, z: gaussian_kernel(x, z, one, one)):
        assert function(randn(4, 2), x).isnan().any(0).tolist() == [False, False, False, True, False]
