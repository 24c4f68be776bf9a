"""Shapes that tensors have together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape of tensors of these shapes, side by side.

    ``torch.broadcast_shapes`` loads half a second of symbolic algebra, which only symbolic sizes of a trace need.

    >>> broadcast_shapes((3, 1), (4,)), broadcast_shapes()
    ((3, 4), ())
    """
    if all(type(size) is int for shape in shapes for size in shape):
        return np.broadcast_shapes(*(tuple(shape) for shape in shapes))
    return tuple(torch.broadcast_shapes(*shapes))
