"""Local cubic interpolation on regular grids: four gathered weights per value, never an ``n × m`` matrix.

Keys' cubic convolution with ``a = −½``. For a grid point at ``t`` spacings from ``x`` the weight is

    w(t) = 3/2 |t|³ − 5/2 |t|² + 1              |t| ≤ 1
         = −1/2 |t|³ + 5/2 |t|² − 4 |t| + 2     1 < |t| < 2,

and zero beyond. Weights sum to one, reproduce quadratics exactly and are continuously differentiable in ``x``;
the error falls with the cube of the spacing. All this needs grid points on either side of ``x``, so a grid
reaches two guard points beyond the range of its inputs.

In ``D`` dimensions the weights of a row are the Kronecker product of those of each dimension, ``4^D``
numbers, and grid points are numbered as in ``kron`` (the last dimension runs fastest).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from stratagp.errors import InputError
from stratagp.linalg.shapes import broadcast_shapes

GUARDS = 2  # grid points beyond the range of the inputs, on either side

# Rows: the grid points at −1, 0, 1 and 2 from the one below x. Columns: powers of the distance t to that one.
KEYS = ((0.0, -0.5, 1.0, -0.5), (1.0, 0.0, -2.5, 1.5), (0.0, 0.5, 2.0, -1.5), (0.0, 0.0, -0.5, 0.5))


@dataclass(frozen=True)
class RegularGrid:
    """``size`` equally spaced points for inputs in ``[low, high]``, including guard points.

    Two guard points on either side lie beyond that range: the spacing is ``h = (high − low)/(size − 5)``, and
    the points run from ``low − 2h`` to ``high + 2h``.

    >>> grid = RegularGrid(0.0, 1.0, size=7)
    >>> grid.spacing
    0.5
    >>> grid.points
    tensor([-1.0000, -0.5000,  0.0000,  0.5000,  1.0000,  1.5000,  2.0000], dtype=torch.float64)
    """

    low: float
    high: float
    size: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(f"a grid needs finite numbers low < high, got low={self.low}, high={self.high}")
        if self.size < 2 * GUARDS + 2:
            raise InputError(f"size must be at least 6, because four points are guards, got {self.size}")

    @property
    def spacing(self) -> float:
        """The distance ``h`` between neighbouring points."""
        return (self.high - self.low) / (self.size - 1 - 2 * GUARDS)

    @property
    def points(self) -> Float[Tensor, " m"]:
        """All points, including guards, in float64."""
        return self.low + self.spacing * (torch.arange(self.size, dtype=torch.float64) - GUARDS)

    def check(self, x: Float[Tensor, "..."], name: str = "x") -> None:
        """Refuse NaN and values outside ``[low, high]`` by more than rounding in the precision of ``x``."""
        x = x.detach()
        slack = 4 * torch.finfo(x.dtype).eps * max(abs(self.low), abs(self.high))
        bad = ~((x >= self.low - slack) & (x <= self.high + slack))
        if not bad.any():
            return
        if x.isnan().any():
            raise InputError(f"{name} has NaN entries ({int(x.isnan().sum())} of {x.numel()}): remove or impute them")
        raise InputError(
            f"{name} must lie in [{self.low:g}, {self.high:g}], the range of the grid, but {int(bad.sum())} "
            f"of {x.numel()} values do not: {name} spans [{float(x.min()):g}, {float(x.max()):g}]. Widen the "
            "grid, scale the inputs, or pass clamp=True to move them to the nearest end"
        )


def cubic_weights(
    x: Float[Tensor, "*s"], grid: RegularGrid, clamp: bool = False
) -> tuple[Int64[Tensor, "*s 4"], Float[Tensor, "*s 4"]]:
    """Which four grid points surround each value, and their weights, differentiable in ``x``.

    Values outside ``[low, high]`` are refused, or with ``clamp`` moved to the nearest end, and then
    have no gradient. NaN is refused too; with ``clamp`` it gives weights of NaN.

    >>> index, weight = cubic_weights(torch.tensor([0.25]), RegularGrid(0.0, 1.0, size=7))
    >>> index, weight
    (tensor([[1, 2, 3, 4]]), tensor([[-0.0625,  0.5625,  0.5625, -0.0625]]))
    """
    if clamp:
        x = x.clamp(grid.low, grid.high)
    else:
        grid.check(x)
    position = (x - grid.low) / grid.spacing + GUARDS
    below = position.detach().int().clamp_(GUARDS, grid.size - 2 - GUARDS)  # NaN became some whole number before this
    t = (position - below)[..., None]
    constant, linear, square, cube = torch.tensor(KEYS, dtype=x.dtype, device=x.device).T
    weight = constant + t * (linear + t * (square + t * cube))
    index = below.long()[..., None] + torch.arange(-1, 3, device=x.device)
    return index, weight


def product_weights(
    x: Float[Tensor, "*s d"], grids: Sequence[RegularGrid], clamp: bool = False
) -> tuple[Int64[Tensor, "*s k"], Float[Tensor, "*s k"]]:
    """The ``k = 4^D`` grid points of a product grid around each row of ``x``, and their weights.

    Grid points are numbered as in ``kron``: the last dimension runs fastest. ``clamp`` is that of
    :func:`cubic_weights`.

    >>> index, weight = product_weights(torch.tensor([[0.0, 0.5]]), [RegularGrid(0.0, 1.0, size=7)] * 2)
    >>> index[weight == 1], weight.sum()
    (tensor([17]), tensor(1.))
    """
    if not len(grids) or x.shape[-1] != len(grids):
        raise InputError(f"grids must have one grid for each of the {x.shape[-1]} columns of x, got {len(grids)}")
    parts = [cubic_weights(column, grid, clamp) for column, grid in zip(x.unbind(-1), grids, strict=True)]
    index = reduce(_outer_sum, [i * stride for (i, _), stride in zip(parts, _strides(grids), strict=True)])
    return index, reduce(_outer_product, [weight for _, weight in parts])


def interpolate(
    values: Float[Tensor, "*qv m"], index: Int64[Tensor, "*qi n k"], weight: Float[Tensor, "*qi n k"]
) -> Float[Tensor, "*q n"]:
    """``Mv``, row by row ``Σ_k w_nk v[index_nk]``; leading axes of the values and of the weights broadcast.

    >>> grid = RegularGrid(0.0, 1.0, size=7)
    >>> interpolate(grid.points**2, *cubic_weights(torch.tensor([0.3], dtype=torch.float64), grid))
    tensor([0.0900], dtype=torch.float64)
    """
    axes = broadcast_shapes(values.shape[:-1], index.shape[:-2])
    flat = index.flatten(-2).expand(*axes, -1)
    gathered = values.expand(*axes, -1).gather(-1, flat).unflatten(-1, index.shape[-2:])
    return (gathered * weight).sum(-1)


def interpolate_diag(
    covariance: Float[Tensor, "*qv m m"], index: Int64[Tensor, "*qi n k"], weight: Float[Tensor, "*qi n k"]
) -> Float[Tensor, "*q n"]:
    """The diagonal of ``M S Mᵀ``: the variances of values interpolated from a grid with covariance ``S``.

    Each row is an interpolation of ``S`` on the product of the grid with itself: ``k²`` gathered numbers.

    >>> grid = RegularGrid(0.0, 1.0, size=7)
    >>> interpolate_diag(torch.eye(7), *cubic_weights(torch.tensor([0.0, 0.25]), grid))
    tensor([1.0000, 0.6406])
    """
    pairs = _outer_sum(index * covariance.shape[-1], index)
    return interpolate(covariance.flatten(-2), pairs, _outer_product(weight, weight))


def interpolation_matrix(
    index: Int64[Tensor, "*q n k"], weight: Float[Tensor, "*q n k"], size: int
) -> Float[Tensor, "*q n m"]:
    """The dense ``M``, ``n × size``, for checking and for small sizes.

    >>> interpolation_matrix(*cubic_weights(torch.tensor([0.0, 0.25]), RegularGrid(0.0, 1.0, size=7)), size=7)
    tensor([[ 0.0000,  0.0000,  1.0000,  0.0000,  0.0000,  0.0000,  0.0000],
            [ 0.0000, -0.0625,  0.5625,  0.5625, -0.0625,  0.0000,  0.0000]])
    """
    return weight.new_zeros(*weight.shape[:-1], size).scatter_add(-1, index, weight)


def _strides(grids: Sequence[RegularGrid]) -> list[int]:
    sizes = [grid.size for grid in grids]
    return [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]


def _outer_sum(a: Tensor, b: Tensor) -> Tensor:
    return (a[..., :, None] + b[..., None, :]).flatten(-2)


def _outer_product(a: Tensor, b: Tensor) -> Tensor:
    return (a[..., :, None] * b[..., None, :]).flatten(-2)
