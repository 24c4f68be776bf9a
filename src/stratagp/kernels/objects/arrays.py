"""Objects that are arrays of rows: sets of vectors, and sequences in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError

_POOLED = 1000  # rows that a median is taken over, at most


def array_objects(objects: Sequence[Any], owner: str, empty: bool = False) -> list[Tensor]:
    """Each object as a float64 tensor ``rows d``: finite numbers, as many columns in each.

    >>> array_objects([[[1, 2], [3, 4]]], "MeanMap")[0].shape
    torch.Size([2, 2])
    """
    found = [_array(item, owner) for item in objects]
    if not empty and any(len(item) == 0 for item in found):
        raise InputError(f"an object of {owner} has no rows; leave it out or give it one")
    columns = sorted({item.shape[1] for item in found})
    if len(columns) > 1:
        raise InputError(f"objects of {owner} must have equally many columns, got {columns[0]} and {columns[-1]}")
    return found


def _array(item: Any, owner: str) -> Tensor:
    try:
        values = np.array(item.detach().cpu().numpy() if isinstance(item, Tensor) else item, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"objects of {owner} must be arrays of numbers, got {type(item).__name__}") from None
    if values.ndim != 2:
        hint = "; a single column is x[:, None]" if values.ndim == 1 else ""
        raise InputError(f"objects of {owner} must be arrays of rows, got shape {values.shape}{hint}")
    if not np.isfinite(values).all():
        raise InputError(f"objects of {owner} must be finite, but one holds NaN or infinity; fill or drop those rows")
    return torch.from_numpy(values)


def both_arrays(
    x: Sequence[Any], z: Sequence[Any], owner: str, empty: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    """Two lists of objects, with as many columns in both; one list where both are the same."""
    found = array_objects(x if z is x else [*x, *z], owner, empty)
    return found[: len(x)], (found if z is x else found[len(x) :])


def scaled(arrays: Sequence[Tensor], bandwidth: Float[Tensor, " b"], owner: str) -> list[Tensor]:
    """Rows in units of a bandwidth, the same for all columns or one for each."""
    if len(bandwidth) > 1 and any(item.shape[1] != len(bandwidth) for item in arrays):
        raise InputError(
            f"{owner} has a bandwidth for each of {len(bandwidth)} columns, but its objects have {arrays[0].shape[1]}"
        )
    return [item / bandwidth for item in arrays]


def fixed_bandwidth(bandwidth: Any) -> Float[Tensor, " b"]:
    """A bandwidth that is not trained, as a tensor: one number, or one a column."""
    try:
        values = np.array(bandwidth, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if not values.size or not (np.isfinite(values) & (values > 0)).all():
        raise InputError(
            f"bandwidth must be a positive number, or one a column, got {bandwidth!r}; median_bandwidth(objects) "
            "proposes one"
        )
    return torch.from_numpy(values)


def median_bandwidth(objects: Sequence[Any]) -> float:
    """The median distance between rows of all objects, which is a usual start for a bandwidth.

    At most a thousand rows, evenly spaced among all, are compared, so that equal objects give an equal number.

    >>> median_bandwidth([[[0.0], [1.0]], [[3.0]]])
    2.0
    """
    arrays = array_objects(objects, "median_bandwidth", empty=True)
    rows = torch.cat(arrays) if arrays else torch.zeros(0, 1)
    chosen = rows[np.linspace(0, len(rows) - 1, min(len(rows), _POOLED)).round().astype(int)] if len(rows) else rows
    distances = torch.pdist(chosen)
    distances = distances[distances > 0]
    if not len(distances):
        raise InputError("median_bandwidth needs at least two different rows among the objects")
    return float(np.median(distances.numpy()))
