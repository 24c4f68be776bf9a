"""Images as inputs of an estimator: checked, with a channel axis, standardised by channel."""

from __future__ import annotations

from typing import Any, TypeGuard, cast

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.inputs.base import Inputs, Points, RowsLike, forget_columns

_CHANNELS = 4  # at most, in images whose axes are in another order


def are_images(X: RowsLike) -> TypeGuard[np.ndarray | Tensor]:
    """Whether ``X`` is an array of images, ``n h w`` or ``n c h w``; refuses an array with more axes.

    >>> are_images(np.zeros((5, 28, 28))), are_images(np.zeros((5, 3)))
    (True, False)
    """
    if not isinstance(X, (np.ndarray, Tensor)):
        return False
    if X.ndim > 4:
        raise InputError(
            f"X must be a table (n, d) or images (n, h, w) or (n, c, h, w), got shape {tuple(X.shape)} with {X.ndim} "
            "axes: reshape it"
        )
    return X.ndim > 2


class ImageInputs(Inputs):
    """How images are read: of the shape that was learnt, in single precision.

    Arguments:
        standardise: whether channels are centred and scaled.
    """

    def __init__(self, standardise: bool) -> None:
        self.standardise = standardise
        self.columns = []
        self.source = []
        self.shape: tuple[int, ...] = ()
        self.centre: Tensor | None = None
        self.scale: Tensor | None = None

    def learn(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """Learn from the training images, and return them as points ``n c h w``."""
        forget_columns(estimator)
        assert are_images(X)
        if X.ndim == 4 and X.shape[1] > _CHANNELS >= X.shape[3]:
            raise InputError(
                f"X must have channels before rows, (n, c, h, w), got {tuple(X.shape)}: move its last axis"
            )
        self.shape = tuple(X.shape[1:])
        images = self._read(X)
        if self.standardise:
            self.centre = images.mean((0, 2, 3), keepdim=True)
            spread = images.std((0, 2, 3), correction=0, keepdim=True)
            self.scale = torch.where(spread > 0, spread, 1.0)
        return Points(self._scaled(images))

    def points(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """New images as points, the way the training images were."""
        if not are_images(X) or _with_channel(X.shape[1:]) != _with_channel(self.shape):
            wanted, rows = ", ".join(map(str, self.shape)), cast(Any, X)
            raise InputError(f"X must be images (n, {wanted}) as in fit, got {np.shape(rows)}")
        return Points(self._scaled(self._read(X)))

    def _read(self, X: np.ndarray | Tensor) -> Float[Tensor, "n c h w"]:
        array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
        if array.dtype.kind not in "biuf":
            raise InputError(f"X must be images of numbers, got {array.dtype}")
        if 0 in array.shape:
            raise InputError(f"X must hold at least one image of one pixel, got shape {array.shape}")
        images = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
        if not bool(images.isfinite().all()):
            row = int((~images.flatten(1).isfinite()).any(1).nonzero()[0])
            raise InputError(f"X has a missing or infinite value in image {row}: drop or repair it")
        return images if images.dim() == 4 else images[:, None]

    def _scaled(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        return images if self.centre is None or self.scale is None else (images - self.centre) / self.scale


def _with_channel(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an image, ``h w`` or ``c h w``, as ``c h w``."""
    return (1, *shape) if len(shape) == 2 else tuple(shape)
