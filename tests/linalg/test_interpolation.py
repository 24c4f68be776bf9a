"""Cubic interpolation against Keys' formula written as loops, and by its order of exactness."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from stratagp.errors import InputError
from stratagp.linalg.interpolation import (
    RegularGrid,
    cubic_weights,
    interpolate,
    interpolate_diag,
    interpolation_matrix,
    product_weights,
)

GRID = RegularGrid(-1.0, 2.0, size=13)


def inside(*shape: int, grid: RegularGrid = GRID, seed: int = 0) -> Tensor:
    """Random values in the range of the grid; the first two are its ends, the next two are on grid points."""
    unit = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = grid.low + (grid.high - grid.low) * unit
    x.view(-1)[:4] = torch.tensor([grid.low, grid.high, grid.points[3], grid.points[grid.size - 4]])
    return x


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def keys(t: float) -> float:
    t = abs(t)
    if t <= 1:
        return 1.5 * t**3 - 2.5 * t**2 + 1
    return -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2 if t < 2 else 0.0


def keys_matrix(x: Tensor, grid: RegularGrid) -> np.ndarray:
    h = (grid.high - grid.low) / (grid.size - 5)
    points = [grid.low + (g - 2) * h for g in range(grid.size)]
    return np.array([[keys((value - point) / h) for point in points] for value in x.tolist()])


def test_points_reach_two_spacings_beyond_the_range() -> None:
    truth = np.linspace(-1.0 - 2 * GRID.spacing, 2.0 + 2 * GRID.spacing, 13)
    np.testing.assert_allclose(GRID.points, truth, atol=1e-14)
    assert GRID.spacing == pytest.approx(3 / 8, abs=1e-15)


@pytest.mark.parametrize("grid", [GRID, RegularGrid(0.0, 0.1, size=6), RegularGrid(100.0, 140.0, size=40)])
def test_matrix_is_that_of_keys(grid: RegularGrid) -> None:
    x = inside(50, grid=grid)
    ours = interpolation_matrix(*cubic_weights(x, grid), grid.size)
    np.testing.assert_allclose(ours, keys_matrix(x, grid), atol=1e-12)


def test_rows_sum_to_one() -> None:
    index, weight = cubic_weights(inside(1000), GRID)
    torch.testing.assert_close(weight.sum(-1), torch.ones(1000, dtype=torch.float64), rtol=0, atol=1e-14)
    assert int(index.min()) >= 0
    assert int(index.max()) < GRID.size


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_exact_on_quadratics(degree: int) -> None:
    x = inside(200)
    ours = interpolate(GRID.points**degree, *cubic_weights(x, GRID))
    torch.testing.assert_close(ours, x**degree, rtol=0, atol=1e-12)


def test_error_falls_with_the_cube_of_the_spacing() -> None:
    x = torch.linspace(-1.0, 2.0, 4001, dtype=torch.float64)

    def largest_error(cells: int) -> float:
        grid = RegularGrid(-1.0, 2.0, size=cells + 5)
        ours = interpolate(torch.sin(3 * grid.points), *cubic_weights(x, grid))
        return float((ours - torch.sin(3 * x)).abs().max())

    errors = [largest_error(cells) for cells in (40, 80, 160)]
    assert errors[0] / errors[1] == pytest.approx(8, abs=0.6)
    assert errors[1] / errors[2] == pytest.approx(8, abs=0.3)


def test_value_and_slope_are_continuous_at_grid_points() -> None:
    """On either side of a grid point: the value of the grid, and the slope of its central difference."""
    values, inner = normal(GRID.size), GRID.points[3:-3]
    for side in (-1e-9, 1e-9):
        x = (inner + side).requires_grad_()
        y = interpolate(values, *cubic_weights(x, GRID))
        (slope,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(y.detach(), values[3:-3], rtol=0, atol=1e-7)
        torch.testing.assert_close(slope, (values[4:-2] - values[2:-4]) / (2 * GRID.spacing), rtol=0, atol=1e-6)


def test_covariance_of_an_interpolated_process() -> None:
    """``M K Mᵀ`` is close to the kernel itself: below 2e-3 for a lengthscale of three spacings."""
    grid = RegularGrid(0.0, 1.0, size=15)
    x = inside(40, grid=grid)

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-0.5 * ((a[:, None] - b) / 0.3).square())

    m = interpolation_matrix(*cubic_weights(x, grid), grid.size)
    error = (m @ kernel(grid.points, grid.points) @ m.mT - kernel(x, x)).abs().max()
    assert float(error) < 2e-3


def test_interpolate_is_the_dense_product() -> None:
    index, weight = cubic_weights(inside(3, 20), GRID)
    dense = interpolation_matrix(index, weight, GRID.size)
    own, shared, sampled = normal(3, GRID.size), normal(GRID.size), normal(5, 3, GRID.size)
    close = dict(rtol=0, atol=1e-13)
    torch.testing.assert_close(interpolate(own, index, weight), (dense @ own[..., None])[..., 0], **close)
    torch.testing.assert_close(interpolate(shared, index, weight), dense @ shared, **close)
    torch.testing.assert_close(interpolate(own, index[0], weight[0]), own @ dense[0].mT, **close)
    truth = torch.einsum("qnm,sqm->sqn", dense, sampled)
    torch.testing.assert_close(interpolate(sampled, index, weight), truth, **close)


def test_diagonal_is_that_of_the_dense_product() -> None:
    index, weight = cubic_weights(inside(3, 20), GRID)
    dense, factor = interpolation_matrix(index, weight, GRID.size), normal(3, GRID.size, GRID.size)
    s = factor @ factor.mT
    truth = (dense @ s @ dense.mT).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(interpolate_diag(s, index, weight), truth, rtol=1e-12, atol=1e-12)
    shared = (dense @ s[0] @ dense.mT).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(interpolate_diag(s[0], index, weight), shared, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_product_grid_is_the_rowwise_kronecker_product(dimensions: int) -> None:
    grids = [GRID, RegularGrid(0.0, 1.0, size=7), RegularGrid(5.0, 6.0, size=6)][:dimensions]
    x = torch.stack([inside(8, grid=grid, seed=d) for d, grid in enumerate(grids)], -1)
    index, weight = product_weights(x, grids)
    assert index.shape == weight.shape == (8, 4**dimensions)
    size = int(np.prod([grid.size for grid in grids]))
    for row, ours in zip(x, interpolation_matrix(index, weight, size), strict=True):
        truth = np.ones(1)
        for value, grid in zip(row, grids, strict=True):
            truth = np.kron(truth, keys_matrix(value[None], grid)[0])
        np.testing.assert_allclose(ours, truth, atol=1e-12)


def test_product_grid_is_exact_on_products_of_quadratics() -> None:
    grids = [GRID, RegularGrid(0.0, 1.0, size=7)]
    x = torch.stack([inside(50), inside(50, grid=grids[1], seed=1)], -1)
    z = torch.cartesian_prod(grids[0].points, grids[1].points)

    def f(p: Tensor) -> Tensor:
        return (1 + p[:, 0] - p[:, 0] ** 2) * (2 - 3 * p[:, 1] ** 2)

    torch.testing.assert_close(interpolate(f(z), *product_weights(x, grids)), f(x), rtol=0, atol=1e-12)


def test_gradients() -> None:
    x, values = (inside(2, 6)[..., 4:] + 0.01).requires_grad_(), normal(2, GRID.size).requires_grad_()
    s = normal(2, GRID.size, GRID.size).requires_grad_()
    assert gradcheck(lambda x, values: interpolate(values, *cubic_weights(x, GRID)), (x, values))
    assert gradgradcheck(lambda x, values: interpolate(values, *cubic_weights(x, GRID)), (x, values))
    assert gradcheck(lambda x, s: interpolate_diag(s, *cubic_weights(x, GRID)), (x, s))
    assert gradcheck(lambda x: interpolation_matrix(*cubic_weights(x, GRID), GRID.size), (x,))
    grids = [GRID, GRID]
    joint = normal(GRID.size**2).requires_grad_()
    assert gradcheck(lambda x, values: interpolate(values, *product_weights(x, grids)), (x, joint))


@pytest.mark.parametrize("grid", [GRID, RegularGrid(0.1, 0.3, size=70)])
def test_float32_serves_the_whole_range(grid: RegularGrid) -> None:
    """Ends of the range that round outwards in float32 are not refused."""
    x = inside(100, grid=grid)
    index, weight = cubic_weights(x.float(), grid)
    assert weight.dtype == torch.float32
    np.testing.assert_allclose(interpolation_matrix(index, weight, grid.size), keys_matrix(x, grid), atol=1e-4)
    np.testing.assert_allclose(weight.sum(-1), 1, atol=1e-6)


def test_outside_is_refused_with_its_range() -> None:
    x = torch.tensor([-1.5, 0.0, 2.25])
    with pytest.raises(InputError, match=r"x must lie in \[-1, 2\].* 2 of 3 values do not: x spans \[-1.5, 2.25\]"):
        cubic_weights(x, GRID)
    with pytest.raises(InputError, match="clamp=True"):
        product_weights(x[:, None], [GRID])
    with pytest.raises(InputError, match="x has NaN entries"):
        cubic_weights(torch.tensor([float("nan")]), GRID)


def test_clamp_lets_nan_through_to_the_weights() -> None:
    x = torch.tensor([[0.4, 0.7], [float("nan"), 0.7]], dtype=torch.float64)
    index, weight = product_weights(x, [GRID, GRID], clamp=True)
    assert int(index.min()) >= 0
    assert int(index.max()) < GRID.size**2
    values = (GRID.points[:, None] * GRID.points).flatten()
    found = interpolate(values, index, weight)
    torch.testing.assert_close(found, torch.tensor([0.28, float("nan")]).double(), rtol=0, atol=1e-7, equal_nan=True)


def test_clamp_moves_to_the_nearest_end() -> None:
    x = torch.tensor([-np.inf, -1.5, 0.4, 2.25], dtype=torch.float64, requires_grad=True)
    y = interpolate(GRID.points, *cubic_weights(x, GRID, clamp=True))
    torch.testing.assert_close(y.detach(), x.detach().clamp(-1.0, 2.0), rtol=0, atol=1e-13)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope, torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64), rtol=0, atol=1e-12)


def test_no_rows() -> None:
    index, weight = cubic_weights(torch.zeros(0), GRID)
    assert interpolate(torch.zeros(2, GRID.size), index, weight).shape == (2, 0)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)])
def test_bad_ranges_are_refused(low: float, high: float) -> None:
    with pytest.raises(InputError, match="low < high"):
        RegularGrid(low, high, size=10)


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="size must be at least 6"):
        RegularGrid(0.0, 1.0, size=5)
    with pytest.raises(InputError, match="one grid for each of the 2 columns of x, got 1"):
        product_weights(torch.zeros(3, 2), [GRID])
