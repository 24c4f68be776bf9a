"""Checks the data given to models and converts them to the kernel's precision before any work starts."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.types import NumbersLike, PointsLike


def check_data(
    kernel: Kernel, x: Any, y: Any, name: str = "y", several: bool = False
) -> tuple[Any, Float[Tensor, " n *q"]]:
    """Points and targets in the kernel's precision; errors name the argument and the place of bad data.

    Targets are ``n``, or also ``n q`` if ``several`` are allowed.
    """
    x = check_points(kernel, x)
    targets = as_tensor(y, name)
    wanted = (1, 2) if several else (1,)
    if targets.dim() not in wanted or len(x) != len(targets) or not targets.numel():
        raise InputError(_shapes(x, targets, name, several))
    refuse_missing(targets, name, y)
    return x, targets.to(_own(kernel))


def check_points(kernel: Kernel, x: Any, columns: int | None = None) -> Any:
    """Points in the kernel's precision (or a list of objects as it is); refuses missing values.

    ``columns`` is the number of columns of the training data, if the model has any.
    """
    if not kernel.takes_tensors:
        return x
    points = kernel._points(x, "x")
    if points.dim() != 2:
        raise InputError(f"x must have shape (n, d), one point in each row, got {tuple(points.shape)}")
    if columns is not None and points.shape[1] != columns:
        raise InputError(
            f"x has {points.shape[1]} columns, but the training data had {columns}: "
            "give the same columns in the same order"
        )
    refuse_missing(points, "x", x)
    return points


def row_noise(model: Any, y: Float[Tensor, " n *q"], noise: NumbersLike | None = None) -> Tensor:
    """The noise variance of the model, or one for each row if ``noise`` is given."""
    if noise is None:
        return model.noise
    given = as_tensor(noise, "noise").to(y)
    if given.shape != y.shape[:1]:
        raise InputError(f"noise must be one variance ≥ 0 for each of {len(y)} rows, got shape {tuple(given.shape)}")
    refuse_missing(given, "noise")
    if (given < 0).any():
        row = int((given < 0).nonzero()[0, 0])
        raise InputError(
            f"noise must be one variance ≥ 0 for each of {len(y)} rows, got {given[row].item():g} in row {row}"
        )
    return given


def refuse_contradictions(x: PointsLike, y: Float[Tensor, " n *q"], noise: Tensor) -> None:
    """Refuse equal points with different targets and no noise: no function passes through both."""
    without = noise.detach() == 0
    if not isinstance(x, Tensor) or not without.any():
        return
    exact = without.expand(len(y)).nonzero()[:, 0]
    _, group = x.detach()[exact].unique(dim=0, return_inverse=True)
    first = torch.full_like(exact, len(y)).scatter_reduce(0, group, exact, "amin")[group]
    differ = (y[exact] != y[first]).reshape(len(exact), -1).any(1)
    if differ.any():
        at = int(differ.nonzero()[0, 0])
        raise InputError(
            f"rows {int(first[at])} and {int(exact[at])} of x are equal but differ in y, and have no noise: set noise "
            "above 0, or average such rows"
        )


def check_column(column: Any, columns: int | None = None) -> None:
    """Raise unless ``column`` is the number of a column of the points, counted from 0."""
    if isinstance(column, bool) or not isinstance(column, int) or column < 0:
        raise InputError(f"column must be the number of a column of x, counted from 0, got {column!r}")
    if columns is not None and column >= columns:
        raise InputError(f"column must be at most {columns - 1}, because x has {columns} columns; got {column}")


def refuse_missing(values: Tensor, name: str, source: Any = None) -> None:
    """Raise an error that names the argument and the first row (and column, if any) with NaN or infinity.

    ``source`` is the argument as given, whose column names the message uses if it is a data frame.
    """
    bad = ~values.detach().isfinite()
    if not bad.any():
        return
    row, *rest = bad.nonzero()[0].tolist()
    place = f"row {row}"
    if rest:
        names = getattr(source, "columns", None)
        place += f", column {rest[-1] if names is None else repr(names[rest[-1]])}"
    raise InputError(f"{name} has NaN or infinite values, the first in {place}: remove or fill those rows first")


def wants_gradient(*points: Any) -> bool:
    """Whether answers at these points need gradients with respect to the points."""
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in points)


def _own(kernel: Kernel) -> Tensor:
    return next(kernel.parameters(), torch.zeros((), dtype=torch.float64))


def _shapes(x: Any, y: Tensor, name: str, several: bool) -> str:
    size = tuple(x.shape) if isinstance(x, Tensor) else (len(x),)
    wanted = "(n,) or (n, q)" if several else "(n,)"
    hint = ""
    if y.dim() == 2 and not several:
        hint = f"; write {name}[:, 0]" if y.shape[1] == 1 else f"; pass one column at a time, {name}[:, j]"
    return (
        f"{name} must be {wanted} with a value for each row of x, n ≥ 1; got x {size} and {name} {tuple(y.shape)}{hint}"
    )
