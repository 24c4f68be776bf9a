"""Random compositions of kernels on random points stay covariance functions, at tiny and huge scales too."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagp import kernels as k

LENGTH = st.floats(1e-2, 1e2)


@st.composite
def leaves(draw):
    """A kernel to be made later: hypothesis wants no work with random numbers inside its strategies."""
    ell, v, other = draw(LENGTH), draw(st.floats(1e-3, 1e3)), draw(LENGTH)
    order, column = draw(st.sampled_from([0, 1, 2])), draw(st.sampled_from([None, 0, 1]))
    makers = [
        lambda: k.RBF(ell, v),
        lambda: k.Matern([0.5, 1.5, 2.5][order], ell, v),
        lambda: k.RationalQuadratic(ell, other, v),
        lambda: k.Periodic(ell, other, v),
        lambda: k.Linear(v),
        lambda: k.ArcCosine(min(order, 1), 1 + order, ell, v),
        lambda: k.PiecewisePolynomial(order, 2, ell, v),
        lambda: k.Constant(v),
        lambda: k.White(v),
    ]
    make = draw(st.sampled_from(makers))
    return make if column is None else lambda: make().on(column)


KERNELS = st.recursive(
    leaves(),
    lambda part: st.one_of(
        st.tuples(part, part).map(lambda pair: lambda: pair[0]() + pair[1]()),
        st.tuples(part, part).map(lambda pair: lambda: pair[0]() * pair[1]()),
        part.map(lambda make: lambda: make() ** 2),
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(make=KERNELS, seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 1.0, 1e3]), repeat=st.booleans())
def test_a_composition_is_a_covariance_function(make, seed, scale, repeat):
    kernel = make()
    x = scale * torch.randn(7, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if repeat:
        x[3] = x[0]
    x.requires_grad_()
    matrix = kernel(x)
    size = float(matrix.detach().abs().max()) + 1e-300
    assert float((matrix - matrix.mT).detach().abs().max()) <= 1e-12 * size
    assert float((kernel.diag(x) - matrix.diagonal()).detach().abs().max()) <= 1e-12 * size
    assert float(torch.linalg.eigvalsh(matrix.detach()).min()) >= -1e-9 * size
    order = torch.tensor([3, 0, 6, 1, 2, 5, 4])
    torch.testing.assert_close(kernel(x[order]), matrix[order][:, order], rtol=1e-9, atol=1e-9 * size)
    (matrix / size).sum().backward()
    leaves = [x, *kernel.parameters()]
    assert all(leaf.grad is None or bool(leaf.grad.isfinite().all()) for leaf in leaves)
