import pytest
import torch
from torch.autograd import gradcheck

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import Grid
from stratagp.linalg import cells
from stratagp.linalg.interpolation import RegularGrid, cubic_weights, interpolate, interpolate_diag
from stratagp.linalg.interpolation import interpolation_matrix as dense_weights
from stratagp.linalg.kronecker import kron
from stratagp.testing import check_layer

GRID = RegularGrid(-1.0, 1.0, size=12)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def points(n, columns, seed=1):
    return 2 * torch.rand(n, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1


def random_layer(axes, functions, own=True, **options):
    """A layer whose posterior is anything but its start."""
    kernels = [
        k.RBF(0.4, variance=1.7).replicate(functions) if own else k.Matern(nu=1.5, lengthscale=0.6) for _ in range(axes)
    ]
    layer = Grid(kernels, [RegularGrid(-1.0, 1.0, 8 + d) for d in range(axes)], functions, **options)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.posterior.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=seed))
    return layer


def dense(layer, x):
    """Mean and covariance of all rows for each function, by matrices of full size."""
    q, axes = layer.functions, len(layer.grids)
    rows = x.unflatten(-1, (q, axes))
    factors = [f.expand(q, *f.shape[-2:]) for f in layer.factors()]
    scales = [layer.posterior.scale] if axes == 1 else list(layer.posterior.scales)
    found = []
    for j in range(q):
        parts = [dense_weights(*cubic_weights(rows[:, j, d], grid), grid.size) for d, grid in enumerate(layer.grids)]
        w = torch.stack([kron([part[n][None] for part in parts])[0] for n in range(len(x))])
        factor, scale = kron([f[j] for f in factors]), kron([s[j].tril() for s in scales])
        half = w @ factor @ scale
        found.append((w @ factor @ layer.posterior.mean[j], half @ half.mT, w @ factor @ factor.mT @ w.mT))
    return found


def test_tables_are_the_interpolation_itself():
    x = points(30, 1)[:, 0]
    values, half = normal(12), normal(12, 12, seed=2)
    covariance = half @ half.mT
    cell, share = cells.cells_of(x, GRID)
    index, weight = cubic_weights(x, GRID)
    got = cells.at_cells(cells.value_table(values), cell[:, None], share[:, None])[:, 0]
    torch.testing.assert_close(got, interpolate(values, index, weight), rtol=1e-12, atol=1e-12)
    got = cells.at_cells(cells.variance_table(covariance), cell[:, None], share[:, None])[:, 0]
    torch.testing.assert_close(got, interpolate_diag(covariance, index, weight), rtol=1e-11, atol=1e-12)


def test_tables_differentiate():
    values, covariance = normal(3, 12).requires_grad_(), normal(3, 12, 12).requires_grad_()
    x = (0.98 * points(5, 3)).requires_grad_()

    def read(values, covariance, x):
        row = cells.cells_of(x, GRID)
        return cells.at_cells(cells.value_table(values), *row), cells.at_cells(cells.variance_table(covariance), *row)

    assert gradcheck(read, (values, covariance, x))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("axes", "functions"), [(1, 3), (2, 2), (3, 1)])
def test_beliefs_agree_with_dense_algebra(axes, functions, own):
    layer, x = random_layer(axes, functions, own), points(6, axes * functions)
    belief = layer(x)
    for j, (mean, covariance, _) in enumerate(dense(layer, x)):
        torch.testing.assert_close(belief.mean[:, j], mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(belief.var[:, j], covariance.diagonal(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("axes", "functions"), [(1, 3), (2, 2)])
def test_conditional_variance_is_what_the_grid_does_not_tell(axes, functions):
    layer, x = random_layer(axes, functions, conditional=True), points(6, axes * functions)
    belief = layer(x)
    for j, (_, covariance, told) in enumerate(dense(layer, x)):
        rest = (1.7**axes - told.diagonal()).clamp_min(0)
        torch.testing.assert_close(belief.var[:, j], covariance.diagonal() + rest, rtol=1e-9, atol=1e-9)


def widening(functions=None):
    """A kernel whose variance is ``1.3 (0.2 + x²)``."""
    kernel = k.RBF(0.2, variance=1.3) * (k.Constant(0.2) + k.Linear(1.0))
    return kernel if functions is None else kernel.replicate(functions)


def test_conditional_variance_of_a_kernel_that_is_not_stationary():
    layer = Grid(k.RBF(0.2) * k.Linear(1.0), RegularGrid(-2.0, 2.0, 12), conditional=True)
    found = layer(torch.tensor([[1.7], [-0.6], [-1.1]]).double()).var[:, 0]
    torch.testing.assert_close(found, torch.tensor([2.89, 0.36, 1.21]).double(), rtol=0, atol=2e-3)


@pytest.mark.parametrize("own", [True, False])
def test_conditional_variance_takes_each_functions_own_columns(own):
    kernels = [widening(2 if own else None), k.RBF(0.3, variance=1.7)]
    layer = Grid(kernels, [RegularGrid(-1.0, 1.0, 9)] * 2, functions=2, conditional=True)
    x = points(7, 4)
    told = [part[2].diagonal() for part in dense(layer, x)]
    for j in range(2):  # the belief is the prior, so its variance is k(x, x), or wᵀKw where that is overstated
        expected = torch.maximum(1.7 * 1.3 * (0.2 + x[:, 2 * j].square()), told[j])
        torch.testing.assert_close(layer(x).var[:, j], expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(layer(x[None].expand(3, 7, 4)).var[1], layer(x).var)


def test_gradients_through_a_variance_that_differs_between_rows():
    layer, x = Grid(widening(), GRID, 2, conditional=True), (0.9 * points(4, 2)).requires_grad_()
    assert gradcheck(lambda x: layer(x).var, (x,))


def test_drawn_functions_have_the_variance_of_the_rows():
    layer = Grid(widening(), RegularGrid(-1.0, 1.0, 8), functions=1000, conditional=True)
    x = torch.tensor([[0.66], [-0.66]]).double().expand(2, 1000)
    drawn = layer.draw(torch.Generator().manual_seed(0), n_features=50)(x)
    expected = torch.full((2,), 1.3 * (0.2 + 0.66**2), dtype=torch.float64)
    torch.testing.assert_close(drawn.var(1), expected, rtol=4 * (2 / 1000) ** 0.5, atol=0)


@pytest.mark.parametrize("axes", [1, 2])
def test_nan_features_give_nan_beliefs(axes):
    layer = random_layer(axes, 2, conditional=True)
    x = points(5, 2 * axes)
    x[3, 0] = float("nan")
    belief, drawn = layer(x), layer.draw()(x)
    for found in (belief.mean, belief.var, drawn):
        assert found.isnan().nonzero().tolist() == [[3, 0]]
    belief.mean.sum().backward()
    assert layer.posterior.mean.grad[0].isnan().any()


def test_cells_of_nan_are_cells():
    x = torch.tensor([float("nan"), -5.0, 0.0, float("inf")])
    cell, share = cells.cells_of(x, RegularGrid(-1.0, 1.0, size=13))
    assert 0 <= cell[0] < 8
    assert cell[1:].tolist() == [0, 4, 7]
    torch.testing.assert_close(share, torch.tensor([float("nan"), 0.0, 0.0, 1.0]), equal_nan=True)


@pytest.mark.parametrize(("axes", "functions"), [(1, 2), (2, 1)])
def test_divergence_is_that_of_the_grid_values(axes, functions):
    layer = random_layer(axes, functions)
    factors = layer.factors()
    scales = [layer.posterior.scale] if axes == 1 else list(layer.posterior.scales)
    total = 0.0
    for j in range(functions):
        factor, scale = kron([f[j] for f in factors]), kron([s[j].tril() for s in scales])
        prior = torch.distributions.MultivariateNormal(torch.zeros(len(factor)).double(), scale_tril=factor)
        signs = scale.diagonal().sign()
        mean, spread = factor @ layer.posterior.mean[j], factor @ (scale * signs)
        q = torch.distributions.MultivariateNormal(mean, covariance_matrix=spread @ spread.mT)
        total += torch.distributions.kl_divergence(q, prior)
    torch.testing.assert_close(layer.kl(), total, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("axes", "conditional"), [(1, False), (1, True), (2, False)])
def test_gradients(axes, conditional):
    layer, x = random_layer(axes, 2, conditional=conditional), (0.9 * points(4, 2 * axes)).requires_grad_()
    leaves = [p for p in layer.parameters() if p.requires_grad]

    def belief(x, *_):
        return layer(x)

    assert gradcheck(belief, (x, *leaves))


@pytest.mark.parametrize(("axes", "conditional"), [(1, False), (1, True), (2, False), (2, True)])
def test_drawn_functions_follow_the_belief(axes, conditional):
    draws = 400 if conditional else 1000  # each with a thousand random features, or without
    check_layer(random_layer(axes, 2, conditional=conditional), points(4, 2 * axes), n_draws=draws)


def test_functions_start_as_the_identity():
    layer = Grid(k.RBF(0.5).replicate(2), RegularGrid(-3.0, 3.0, 30), functions=2)
    layer.start_at_planes(torch.ones(layer.functions, 1), 0.01)
    x = 3 * points(20, 2)
    torch.testing.assert_close(layer(x).mean, x, rtol=0, atol=1e-6)


def test_values_beyond_the_bounds_are_moved_to_them():
    layer = random_layer(1, 1)
    torch.testing.assert_close(layer(torch.tensor([[5.0]]).double()), layer(torch.tensor([[1.0]]).double()))


def test_drawn_functions_and_variances_are_constant_beyond_the_bounds():
    layer = Grid(widening(), RegularGrid(-1.0, 1.0, 8), conditional=True)
    x = torch.tensor([[-9.0], [-1.0], [1.0], [5.0]]).double()
    for found in (layer(x).var, layer.draw()(x)):
        torch.testing.assert_close(found[[0, 3]], found[[1, 2]])


def test_single_precision():
    layer, x = random_layer(1, 3), points(20, 3)
    exact, got = layer(x), layer(x.float())
    assert got.mean.dtype == torch.float32
    torch.testing.assert_close(got.mean.double(), exact.mean, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got.var.double(), exact.var, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grid(k.RBF(), [GRID, GRID]), "one entry for each"),
        (lambda: Grid(k.RBF().replicate(2), GRID, functions=3), "functions=3"),
        (lambda: Grid(k.RBF(), GRID, jitter=-1.0), "jitter"),
        (lambda: Grid(k.RBF(), GRID, 2)(torch.zeros(3, 5)), "one column for each of 2 functions"),
        (lambda: Grid([k.RBF()] * 2, [GRID] * 2, posterior=random_layer(1, 1).posterior), "KroneckerGaussian"),
        (lambda: Grid(k.RBF(), GRID, posterior=random_layer(1, 1).posterior), "the grid has 1 on"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
