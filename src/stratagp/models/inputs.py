"""Data that models are given: checked and brought into the kernel's precision before any work starts."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor


def check_data(kernel: Kernel, x: Any, y: Any, name: str = "y") -> tuple[Any, Float[Tensor, " n"]]:
    """Points and targets in the kernel's precision; data that cannot be used are refused by argument and row."""
    x = check_points(kernel, x)
    y = as_tensor(y, name)
    if y.dim() != 1 or len(x) != len(y) or not len(y):
        size = tuple(x.shape) if isinstance(x, Tensor) else (len(x),)
        hint = f"; write {name}[:, 0]" if y.dim() == 2 and y.shape[1] == 1 else ""
        raise InputError(
            f"{name} must be (n,) with a value for each row of x, n ≥ 1; got x {size} and {name} {tuple(y.shape)}{hint}"
        )
    refuse_missing(y, name)
    own = next(kernel.parameters(), torch.zeros((), dtype=torch.float64))
    return x, y.to(own)


def check_points(kernel: Kernel, x: Any) -> Any:
    """Points in the kernel's precision (or a list of objects as it is), without missing values."""
    if not kernel.takes_tensors:
        return x
    points = kernel._points(x, "x")
    if points.dim() != 2:
        raise InputError(f"x must be points in rows, shape (n, d), got {tuple(points.shape)}")
    refuse_missing(points, "x")
    return points


def refuse_missing(values: Tensor, name: str) -> None:
    """An error that names the argument and the first row with NaN or infinity."""
    bad = ~values.detach().isfinite()
    if bad.any():
        row = int(bad.nonzero()[0, 0])
        raise InputError(f"{name} has NaN or infinite values, the first in row {row}: remove or fill such rows first")
