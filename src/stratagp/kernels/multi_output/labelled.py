"""Points whose last column is a whole number, the label: which output or which derivative a row is about.

Kernels over such points sort the rows by label, compute a block for each pair of labels, and restore the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.linalg.shapes import broadcast_shapes


def append_label(x: Any, label: Any) -> Float[Tensor, "n columns"]:
    """Points with ``label``, one number or one for each row, as an extra column."""
    points = torch.as_tensor(x)
    if points.dim() != 2:
        raise InputError(f"points must have shape (n, d), got {tuple(points.shape)}")
    points = points if points.is_floating_point() else points.to(torch.float64)
    label = torch.as_tensor(label).to(points)
    if label.dim() > 0 and label.shape != points.shape[:1]:
        raise InputError(f"label must be one number, or one for each of {len(points)} rows, got {tuple(label.shape)}")
    return torch.cat([points, label.expand(len(points))[:, None]], -1)


def split_label(
    x: Float[Tensor, "*q n columns"], size: int, meaning: str
) -> tuple[Float[Tensor, "*q n d"], Int[Tensor, " n"]]:
    """The points, and the whole numbers ``0 … size − 1`` in their last column, the same for all functions."""
    if x.shape[-1] < 2:
        raise InputError(f"points need at least two columns, the last of which is {meaning}; got {x.shape[-1]}")
    column = x[..., -1].detach()
    index = column if column.dim() == 1 else column[0]
    if column.dim() == 2 and not bool((column == index).all()):
        raise InputError(f"the last column, {meaning}, must be the same for all functions")
    wrong = index[~((index >= 0) & (index < size) & (index == index.round()))]
    if len(wrong):
        raise InputError(
            f"the last column, {meaning}, must hold whole numbers from 0 to {size - 1}, got {wrong[0].item():g}"
        )
    return x[..., :-1], index.long()


class Grouped(NamedTuple):
    """Points sorted by label. ``back`` restores the order of rows; None if they never moved."""

    labels: list[int]
    points: list[Tensor]
    back: Tensor | None


def group(x: Float[Tensor, "*q n columns"], size: int, meaning: str) -> Grouped:
    """Group points by the whole number in their last column."""
    points, index = split_label(x, size, meaning)
    order = index.argsort(stable=True)
    moved = bool((index[1:] < index[:-1]).any())
    labels, counts = index.unique(return_counts=True)
    if not len(labels):
        return Grouped([0], [points], None)
    ordered = points.index_select(-2, order) if moved else points
    return Grouped(labels.tolist(), list(ordered.split(counts.tolist(), -2)), order.argsort() if moved else None)


def assemble(
    left: Grouped, right: Grouped, block: Callable[[int, Tensor, int, Tensor], Tensor]
) -> Float[Tensor, "*q n m"]:
    """The matrix of a kernel from its blocks ``block(label, points, label, points)``, in the original order of rows.

    If ``left is right``, the blocks below the diagonal are transposes of those above it.
    """
    table: dict[tuple[int, int], Tensor] = {}
    for i, (a, x) in enumerate(zip(left.labels, left.points, strict=True)):
        for j, (b, z) in enumerate(zip(right.labels, right.points, strict=True)):
            table[i, j] = table[j, i].mT if left is right and j < i else block(a, x, b, z)
    batch = broadcast_shapes(*(part.shape[:-2] for part in table.values()))
    columns = range(len(right.labels))
    rows = [torch.cat([table[i, j].expand(*batch, -1, -1) for j in columns], -1) for i in range(len(left.labels))]
    matrix = torch.cat(rows, -2)
    if left.back is not None:
        matrix = matrix.index_select(-2, left.back)
    return matrix if right.back is None else matrix.index_select(-1, right.back)


def assemble_diag(points: Grouped, part: Callable[[int, Tensor], Tensor]) -> Float[Tensor, "*q n"]:
    """The diagonal of a kernel from the diagonals ``part(label, points)`` of its blocks."""
    parts = [part(label, x) for label, x in zip(points.labels, points.points, strict=True)]
    batch = broadcast_shapes(*(p.shape[:-1] for p in parts))
    diagonal = torch.cat([p.expand(*batch, -1) for p in parts], -1)
    return diagonal if points.back is None else diagonal.index_select(-1, points.back)


def on_points(kernel: Kernel, owner: str) -> Kernel:
    """The kernel itself; raises unless its inputs are numeric columns, to which a label can be added."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"{owner} needs kernels, got {type(kernel).__name__}")
    if not kernel.takes_tensors:
        raise InputError(f"{owner} needs a kernel over numeric columns, but {kernel.describe()} takes objects")
    return kernel
