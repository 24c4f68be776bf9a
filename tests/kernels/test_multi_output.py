"""Several outputs: against Kronecker products, a peer and the integrals behind process convolutions."""

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.kernels.multi_output.coregionalised import (
    Coregionalised,
    Independent,
    linear_coregionalisation,
    stack_outputs,
)
from stratagp.kernels.multi_output.process_convolution import ProcessConvolution
from stratagp.parameters import positive
from tests.kernels.case import points
from tests.kernels.cases_derivatives_outputs import AMPLITUDE, KAPPA, LATENT, WIDTH, B, W, labelled

ELL = np.array([0.7, 1.9])


def test_complete_designs_are_kronecker_products():
    x, z = points(6, 2), points(4, 2, seed=1)
    kernel = Coregionalised(k.RBF(ELL), 3, rank=2, weights=W, kappa=KAPPA)
    expected = torch.kron(torch.tensor(B), k.RBF(ELL)(x, z))
    torch.testing.assert_close(kernel(stack_outputs([x] * 3), stack_outputs([z] * 3)), expected, rtol=1e-12, atol=1e-12)

    bases = [k.RBF(ELL), k.Exponential(0.4)]
    model = linear_coregionalisation(bases, 3, rank=2)
    terms = [torch.kron(part.coregionalisation, part.base(x)) for part in model.parts]
    torch.testing.assert_close(model(stack_outputs([x] * 3)), terms[0] + terms[1], rtol=1e-12, atol=1e-12)


def test_independent_outputs_are_a_block_diagonal():
    inputs = [points(3, 2), points(1, 2, seed=1), points(4, 2, seed=2)]
    kernels = [k.RBF(0.7), k.RBF(ELL), k.Exponential(2.0)]
    expected = torch.block_diag(*(kernel(x) for kernel, x in zip(kernels, inputs, strict=True)))
    actual = Independent(kernels)(stack_outputs(inputs))
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
def test_gpytorch_agrees():
    gpytorch = pytest.importorskip("gpytorch")
    between = gpytorch.kernels.IndexKernel(num_tasks=3, rank=2).double()
    between.initialize(covar_factor=torch.tensor(W), var=torch.tensor(KAPPA))
    base = gpytorch.kernels.RBFKernel(ard_num_dims=2).double()
    base.lengthscale = torch.tensor(ELL)
    ours = Coregionalised(k.RBF(ELL), 3, rank=2, weights=W, kappa=KAPPA)
    torch.testing.assert_close(ours.coregionalisation, between.covar_matrix.to_dense(), rtol=0, atol=1e-10)
    x, z = labelled([2, 0, 1, 1, 0, 2]), labelled([1, 1, 0, 2], seed=1)
    for right in (z, x):
        tasks = between(x[:, -1:].long(), right[:, -1:].long()).to_dense()
        expected = tasks * base(x[:, :-1], right[:, :-1]).to_dense()
        torch.testing.assert_close(ours(x, right), expected, rtol=0, atol=1e-10)


def bell(t, width, height):
    return height * np.exp(-0.5 * (t / width) ** 2) / (np.sqrt(2 * np.pi) * width)


def test_process_convolution_of_an_rbf_process_is_the_double_integral():
    t = np.linspace(-12, 12, 1201)
    width, ell, amplitude = np.array([0.5, 1.3]), 0.8, np.array([1.2, -0.7])
    latent = np.exp(-0.5 * ((t[:, None] - t) / ell) ** 2)
    height = amplitude * ((2 * width**2 + ell**2) / ell**2) ** 0.25
    x = torch.tensor([[0.3, 0], [-0.9, 1], [1.4, 0], [0.3, 1]], dtype=torch.float64)
    smooth = np.array([bell(v - t, width[int(p)], height[int(p)]) for v, p in x.numpy()]) * (t[1] - t[0])
    kernel = ProcessConvolution(2, 1, amplitude[None], width[None, :, None], latent_lengthscale=ell)
    np.testing.assert_allclose(kernel(x).detach().numpy(), smooth @ latent @ smooth.T, rtol=0, atol=1e-12)


def test_process_convolution_of_white_noise_is_the_single_integral():
    t = np.linspace(-10, 10, 401)
    width, amplitude = np.array([[0.5, 0.9], [1.3, 0.4]]), np.array([1.2, -0.7])
    height = amplitude * np.prod((4 * np.pi * width**2) ** 0.25, 1)
    x = torch.tensor([[0.3, 0.1, 0], [-0.9, 0.5, 1], [1.4, -0.2, 0], [0.3, 0.1, 1]], dtype=torch.float64)

    def plane(a, b, p):
        return np.outer(bell(a - t, width[p, 0], height[p]), bell(b - t, width[p, 1], 1.0)).ravel() * (t[1] - t[0])

    smooth = np.array([plane(a, b, int(p)) for a, b, p in x.numpy()])
    kernel = ProcessConvolution(2, 2, amplitude[None], width[None])
    np.testing.assert_allclose(kernel(x).detach().numpy(), smooth @ smooth.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("latent", [None, 0.3])
def test_process_convolution_is_positive_semidefinite_whatever_its_values(latent):
    generator = torch.Generator().manual_seed(0)
    x = stack_outputs([points(12, 2, seed=p) for p in range(4)])
    for _ in range(20):
        width = torch.empty(3, 4, 2, dtype=torch.float64).log_normal_(0, 1.5, generator=generator)
        amplitude = torch.randn(3, 4, dtype=torch.float64, generator=generator)
        kernel = ProcessConvolution(4, 2, amplitude, width, latent, n_latent=3)
        assert torch.linalg.eigvalsh(kernel(x))[0].item() > -1e-12


def test_hidden_processes_add_up():
    both = ProcessConvolution(3, 2, AMPLITUDE, WIDTH, LATENT, n_latent=2)
    parts = [ProcessConvolution(3, 2, AMPLITUDE[r][None], WIDTH[r][None], LATENT[r][None]) for r in range(2)]
    x = labelled([2, 0, 1, 1, 0, 2])
    torch.testing.assert_close(both(x), parts[0](x) + parts[1](x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(both.diag(x)[0].item(), float((AMPLITUDE[:, 2] ** 2).sum()))


def test_equal_widths_are_coregionalisation():
    amplitude = np.array([[1.0, -0.6, 0.4]])
    x = labelled([2, 0, 1, 1, 0, 2])
    same = ProcessConvolution(3, 2, amplitude, width=0.5, latent_lengthscale=0.7)
    between = torch.tensor(amplitude.T @ amplitude)[x[:, -1].long()][:, x[:, -1].long()]
    expected = between * k.RBF((2 * 0.5**2 + 0.7**2) ** 0.5)(x[:, :-1])
    torch.testing.assert_close(same(x), expected, rtol=1e-12, atol=1e-12)


def test_start_treats_no_two_columns_alike():
    x = stack_outputs([points(4, 1, seed=p) for p in range(3)])
    target = points(12, 12, seed=5)
    for kernel, name, axis in [
        (Coregionalised(k.RBF(), 3, rank=3), "weights", 1),
        (ProcessConvolution(3, 1, n_latent=3), "width", 0),
    ]:
        (kernel(x) - target).square().sum().backward()
        raw = kernel.parameter(name).raw
        columns = torch.cat([raw, raw.grad], 1 - axis).movedim(axis, 0).flatten(1)
        assert torch.pdist(columns).min().item() > 1e-3
    same = linear_coregionalisation([k.RBF(), k.RBF()], 3)
    assert torch.dist(*(part.coregionalisation for part in same.parts)).item() > 0.1


def test_points_without_order_and_outputs_without_rows():
    kernel = ProcessConvolution(3, 2, AMPLITUDE, WIDTH, LATENT, n_latent=2)
    x, z = labelled([2, 0, 2, 0, 2]), labelled([1, 0, 1], seed=1)
    whole = kernel(torch.cat([x, z]))
    torch.testing.assert_close(kernel(x, z), whole[:5, 5:], rtol=1e-12, atol=1e-12)
    assert kernel(x[:0], z).shape == (0, 3)
    assert Independent([k.RBF()])(z[:0]).shape == (0, 0)


def test_derivatives_of_several_outputs():
    kernel = k.Derivatives(Coregionalised(k.RBF(ELL), 3, rank=2, weights=W, kappa=KAPPA))
    x, p = points(4, 2), torch.tensor([0.0, 2.0, 1.0, 0.0])
    slopes = torch.cat([x, p[:, None], torch.tensor([[1.0], [2.0], [0.0], [1.0]])], -1)
    alone = k.Derivatives(k.RBF(ELL))(slopes[:, [0, 1, 3]])
    expected = torch.tensor(B)[p.long()][:, p.long()] * alone
    torch.testing.assert_close(kernel(slopes), expected, rtol=1e-10, atol=1e-12)


def test_rows_are_stacked_with_their_index():
    first, second = np.array([[1.0, 2.0]]), np.array([[3, 4], [5, 6]])
    stacked = stack_outputs([first, second])
    assert stacked.tolist() == [[1, 2, 0], [3, 4, 1], [5, 6, 1]]
    assert stack_outputs([torch.zeros(2, 1), torch.zeros(1, 1)]).dtype == torch.float32


def test_columns_are_bound_without_the_index():
    kernel = Coregionalised(k.RBF(ard=True), 2) + Independent([k.RBF().on("b"), k.RBF(ard=True)])
    kernel.bind(["a", "b", "output"])
    assert kernel.parameter("0.base.lengthscale").natural.shape == (2,)
    assert kernel(labelled([0, 1, 1])).shape == (3, 3)


def test_parameters_can_be_shared():
    kappa = positive([0.1, 0.2])
    first, second = (Coregionalised(k.RBF(), 2, kappa=kappa) for _ in range(2))
    first.kappa = [0.3, 0.4]
    assert torch.equal(first.coregionalisation, second.coregionalisation)
    with pytest.raises(InputError, match=r"kappa must have shape \(3,\)"):
        Coregionalised(k.RBF(), 3, kappa=kappa)


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: Coregionalised(k.RBF(), 2)(labelled([0, 2])), "whole numbers from 0 to 1, got 2"),
        (lambda: Independent([k.RBF()]).diag(labelled([0, 1])), "whole numbers from 0 to 0, got 1"),
        (lambda: ProcessConvolution(2, 2)(labelled([0, 0.5])), "whole numbers from 0 to 1, got 0.5"),
        (lambda: ProcessConvolution(2, 1)(labelled([0, 1])), "needs points with 2 columns"),
        (lambda: ProcessConvolution(2, 0), "dim must be at least 1"),
        (
            lambda: Coregionalised(k.RBF(), 2, rank=3),
            "rank must be between 1 and 2, the number of outputs, got 3",
        ),
        (lambda: Coregionalised(k.RBF(), 2, weights=np.ones((3, 1))), r"weights must have shape \(2, 1\)"),
        (lambda: ProcessConvolution(2, 1, width=[1.0, 2.0, 3.0]), r"width must have shape \(1, 2, 1\)"),
        (lambda: Independent([]), "a kernel for each output"),
        (lambda: linear_coregionalisation([], 2), "at least one kernel"),
        (lambda: Coregionalised(k.PairFunction(lambda a, b: 1.0), 2), "takes objects"),
        (lambda: stack_outputs([]), "for each output, got none"),
        (lambda: stack_outputs([torch.zeros(2, 1), torch.zeros(2, 2)]), "same columns for every output"),
        (lambda: stack_outputs([torch.zeros(2)]), r"shape \(n, d\)"),
    ],
)
def test_arguments_are_checked(ask, told):
    with pytest.raises(InputError, match=told):
        ask()
