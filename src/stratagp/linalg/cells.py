"""Means and variances interpolated from a regular grid, as polynomials on each of its cells.

Between two grid points the four cubic weights are ``W(t) = C (1, t, t², t³)ᵀ`` in the fraction ``t`` of the cell below
``x``. So interpolated values are cubic in ``t``, and variances ``W(t)ᵀ S W(t)`` of degree six:

    Σₖ vₖ Wₖ(t) = Σ_p t^p (Cᵀv)_p,        W(t)ᵀ S W(t) = Σ_r t^r Σ_{p+p'=r} (Cᵀ S C)_pp'.

The coefficients of all cells are a small table, made once per step; a row then costs eleven gathered numbers, whatever
the size of the grid, and its derivative by ``x`` is that of the polynomial.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from stratagp.linalg.interpolation import GUARDS, KEYS, RegularGrid
from stratagp.linalg.once import first_derivative_only


def cells_of(x: Float[Tensor, "*s"], grid: RegularGrid) -> tuple[Int64[Tensor, "*s"], Float[Tensor, "*s"]]:
    """The number of each value's cell, from 0, and the fraction of the cell below the value.

    Values beyond the grid are moved to its ends. NaN falls into some cell with NaN as its fraction, so that
    interpolation gives NaN there.

    >>> cells_of(torch.tensor([0.0, 0.75]), RegularGrid(0.0, 1.0, size=7))
    (tensor([0, 1]), tensor([0.0000, 0.5000]))
    """
    position = (x.clamp(grid.low, grid.high) - grid.low) / grid.spacing
    cell = position.detach().int().clamp_(0, n_cells(grid) - 1)  # NaN became some whole number before the clamp
    return cell.long(), position - cell


def n_cells(grid: RegularGrid) -> int:
    """The number of cells between the bounds of a grid."""
    return grid.size - 1 - 2 * GUARDS


def value_table(values: Float[Tensor, "*q m"]) -> Float[Tensor, "*q c 4"]:
    """Coefficients of the interpolated values, from those at the grid points."""
    around = values.unfold(-1, 4, 1)[..., GUARDS - 1 : values.shape[-1] - 2 - GUARDS, :]
    return around @ _keys(values)


def variance_table(covariance: Float[Tensor, "*q m m"]) -> Float[Tensor, "*q c 7"]:
    """Coefficients of the variance of interpolated values, from the covariance of those at the grid points."""
    m = covariance.shape[-1]
    first = torch.arange(GUARDS - 1, m - 2 - GUARDS, device=covariance.device)
    near = first[:, None] + torch.arange(4, device=covariance.device)
    blocks = covariance[..., near[:, :, None], near[:, None, :]]  # the 4 × 4 neighbours of each cell
    keys = _keys(covariance)
    products = (keys.mT @ blocks @ keys).flatten(-2)
    power = (torch.arange(4)[:, None] + torch.arange(4)).flatten()
    return products @ torch.nn.functional.one_hot(power, 7).to(products)


def at_cells(
    table: Float[Tensor, "*q c p"], cell: Int64[Tensor, "n q"], share: Float[Tensor, "n q"]
) -> Float[Tensor, "n q"]:
    """The polynomials of a table at each row, for each function; the table may be shared between functions."""
    return _Polynomial.apply(table.reshape(-1, table.shape[-1]), _places(table, cell), share)


def polynomials_at(
    table: Float[Tensor, "*q c p"], cell: Int64[Tensor, "n q"], share: Float[Tensor, "n q"]
) -> Float[Tensor, "n q"]:
    """:func:`at_cells` in plain operations, for exported graphs."""
    return _horner(list(table.reshape(-1, table.shape[-1])[_places(table, cell)].unbind(-1)), share)


def _places(table: Float[Tensor, "*q c p"], cell: Int64[Tensor, "n q"]) -> Int64[Tensor, "n q"]:
    """The rows of cells in the tables of all functions, one below the other."""
    return cell + torch.arange(cell.shape[-1], device=cell.device) * table.shape[-2] if table.dim() == 3 else cell


class _Polynomial(torch.autograd.Function):
    """``Σ_p a[cell, p] t^p`` by Horner's rule."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, cell: Tensor, t: Tensor) -> Tensor:
        coefficients = table[cell]
        ctx.save_for_backward(cell, t, coefficients)
        ctx.rows = len(table)
        return _horner(list(coefficients.unbind(-1)), t)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        cell, t, coefficients = ctx.saved_tensors
        to_table = to_t = None
        if ctx.needs_input_grad[0]:
            powers = [grad]
            for _ in range(coefficients.shape[-1] - 1):
                powers.append(powers[-1] * t)
            to_table = grad.new_zeros(ctx.rows, coefficients.shape[-1])
            to_table.index_add_(0, cell.flatten(), torch.stack(powers, -1).flatten(0, -2))
        if ctx.needs_input_grad[2]:
            slopes = [p * part for p, part in enumerate(coefficients.unbind(-1))][1:]
            to_t = grad * _horner(slopes, t)
        return to_table, None, to_t


def _horner(coefficients: list[Tensor], t: Tensor) -> Tensor:
    value = coefficients[-1]
    for part in coefficients[-2::-1]:
        value = torch.addcmul(part, value, t)
    return value


def _keys(like: Tensor) -> Float[Tensor, "4 4"]:
    return torch.tensor(KEYS, dtype=like.dtype, device=like.device)
