"""Products with lower triangular matrices, and their inverses, by blocks of rows.

A product that skips the zeros of a triangle takes half the operations, but LAPACK's routines for it run so slowly that
nothing is gained. By blocks, all but the diagonal blocks are plain matrix products of the nonzero parts: with ``k``
blocks, ``½ + 1/(2k)`` of the operations remain. Small matrices are one block.

Shapes: ``*q m m`` and ``*q m n``, where one of the two may lack the function axis and is then shared.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

CHUNK = 2**19  # entries of a matrix handled at once: about the size of a second-level cache
_BLOCK = 72
_LEAST_BLOCKS = 2


def lower_times(lower: Float[Tensor, "*ql m m"], x: Float[Tensor, "*qx m n"]) -> Float[Tensor, "*q m n"]:
    """``L x``; ``L`` must be zero above the diagonal.

    >>> lower_times(torch.tensor([[1.0, 0.0], [2.0, 3.0]]), torch.ones(2, 1))
    tensor([[1.],
            [5.]])
    """
    if _is_small(lower):
        return lower @ x
    left, right = _with_functions(lower, x)
    out = x.new_empty(*left.shape[:-1], x.shape[-1])
    for rows in _blocks(lower):
        torch.bmm(left[:, rows, : rows.stop], right[:, : rows.stop], out=out[:, rows])
    return out if max(lower.dim(), x.dim()) == 3 else out[0]


def transposed_times(lower: Float[Tensor, "*ql m m"], x: Float[Tensor, "*qx m n"]) -> Float[Tensor, "*q m n"]:
    """``Lᵀ x``; ``L`` must be zero above the diagonal.

    >>> transposed_times(torch.tensor([[1.0, 0.0], [2.0, 3.0]]), torch.ones(2, 1))
    tensor([[3.],
            [3.]])
    """
    if _is_small(lower):
        return lower.mT @ x
    left, right = _with_functions(lower, x)
    out = x.new_empty(*left.shape[:-1], x.shape[-1])
    for rows in _blocks(lower):
        torch.bmm(left[:, rows.start :, rows].mT, right[:, rows.start :], out=out[:, rows])
    return out if max(lower.dim(), x.dim()) == 3 else out[0]


def lower_product(x: Float[Tensor, "*qx m n"], y: Float[Tensor, "*qy m n"]) -> Float[Tensor, "*q m m"]:
    """The lower triangle of ``x yᵀ``, zero above it.

    >>> lower_product(torch.ones(2, 1), torch.tensor([[1.0], [2.0]]))
    tensor([[1., 0.],
            [1., 2.]])
    """
    if _is_small(x):
        return (x @ y.mT).tril_()
    left, right = _with_functions(x, y)
    out = x.new_empty(*left.shape[:-1], x.shape[-2])
    for rows in _blocks(x):
        torch.bmm(left[:, rows], right[:, : rows.stop].mT, out=out[:, rows, : rows.stop])
    out.tril_()
    return out if max(x.dim(), y.dim()) == 3 else out[0]


def lower_part(lower: Float[Tensor, "m m"], x: Float[Tensor, "m m"]) -> Float[Tensor, "m m"]:
    """The lower triangle of ``L x``, zero above it; ``L`` must be zero above the diagonal.

    >>> lower_part(torch.tensor([[1.0, 0.0], [2.0, 3.0]]), torch.ones(2, 2))
    tensor([[1., 0.],
            [5., 5.]])
    """
    if _is_small(lower):
        return (lower @ x).tril_()
    out = torch.empty_like(lower)
    for rows in _blocks(lower):
        stop = rows.stop
        torch.mm(lower[rows, :stop], x[:stop, :stop], out=out[rows, :stop])
    return out.tril_()


def mirror_(lower: Float[Tensor, "m m"]) -> Float[Tensor, "m m"]:
    """The symmetric matrix with this lower triangle, in place; it must be zero above the diagonal.

    >>> mirror_(torch.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([[1., 2.],
            [2., 3.]])
    """
    return lower.add_(lower.tril(-1).mT)


def lower_inverse(lower: Float[Tensor, "*q m m"]) -> Float[Tensor, "*q m m"]:
    """``L⁻¹`` by halves: ``[[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [−C⁻¹ B A⁻¹, C⁻¹]]``.

    >>> lower_inverse(torch.tensor([[1.0, 0.0], [2.0, 4.0]]))
    tensor([[ 1.0000,  0.0000],
            [-0.5000,  0.2500]])
    """
    m = lower.shape[-1]
    if m <= _BLOCK:
        eye = torch.eye(m, dtype=lower.dtype, device=lower.device)
        return torch.linalg.solve_triangular(lower, eye, upper=False)
    half = m // 2
    out = torch.zeros_like(lower)
    first, last = lower_inverse(lower[..., :half, :half]), lower_inverse(lower[..., half:, half:])
    out[..., :half, :half], out[..., half:, half:] = first, last
    below = transposed_times(first, lower[..., half:, :half].mT).mT
    out[..., half:, :half] = lower_times(last, below).neg_()
    return out


def each(matrices: Float[Tensor, "*q n m"]) -> Float[Tensor, "q n m"]:
    """With a function axis: a matrix that all functions share becomes the only one."""
    return matrices if matrices.dim() == 3 else matrices[None]


def chunks(k: Float[Tensor, "q n m"]) -> Iterator[slice]:
    """Slices of functions handled together."""
    step = max(1, CHUNK // max(1, k[0].numel()))
    for start in range(0, len(k), step):
        yield slice(start, start + step)


def _is_small(rows: Tensor) -> bool:
    return rows.shape[-2] < _LEAST_BLOCKS * _BLOCK


def _blocks(rows: Tensor) -> Iterator[slice]:
    m = rows.shape[-2]
    for start in range(0, m, _BLOCK):
        yield slice(start, min(start + _BLOCK, m))


def _with_functions(*matrices: Tensor) -> list[Tensor]:
    """Each with a function axis, shared ones repeated without a copy."""
    q = max(len(each) if each.dim() == 3 else 1 for each in matrices)
    return [each.expand(q, *each.shape[-2:]) for each in matrices]
