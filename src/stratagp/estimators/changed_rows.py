"""New rows without a fit, and rows that are forgotten: all that was learnt stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.estimators.inputs.base import Points, RowsLike
from stratagp.estimators.intake import Intake
from stratagp.estimators.regression import Regressor, taking_part
from stratagp.estimators.shell import COMPUTED
from stratagp.models.changed_rows import with_rows, without_rows
from stratagp.models.fitted_process import ProcessModel
from stratagp.models.observations import Data
from stratagp.recipes.processes import spread_of_filled

if TYPE_CHECKING:
    from stratagp.estimators.gp import GPRegressor as GPRegressor
else:  # which has these functions as methods
    GPRegressor = Any


def update(
    self: GPRegressor,
    X: RowsLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    noise: ArrayLike | None = None,
) -> Any:
    """Let this model see new rows: its predictions are those of a fit on all rows that learns no values.

    Kernel, noise, the scale of the targets and the ways in which columns are read stay as ``fit`` left them. A batch of
    b rows takes O(n²b) for "exact", O(m²b + m³) for "sparse" with m inducing points, and next to nothing for "vecchia".
    ``refit`` learns the values again, in a new estimator; ``copy.copy(gp).update(X, y)`` leaves this one as it is.

    Arguments:
        X, y: new rows and their targets, in the units of those in ``fit``.
        sample_weight: in the unit of those in ``fit``, where a row without a weight has 1.
        noise: known variances, one for each new row, if the model was made with those; a single number of the model
            serves new rows too.

    Returns:
        The estimator itself.

    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> from stratagp import GPRegressor
    >>> gp = GPRegressor().fit(X[:30], np.sin(X[:30, 0]))
    >>> mean, std = gp.update(X[30:], np.sin(X[30:, 0])).predict([[9.0]], return_std=True)
    >>> round(float(mean[0]), 2)  # sin 9 = 0.412
    0.41
    """
    check_is_fitted(self, "fitted_")
    points = self._points(X)
    targets = self._targets(y, len(points))
    if sample_weight is None and self.weight_unit_ != 1:
        sample_weight = 1.0
    given = taking_part(points, targets, sample_weight, _known_noise(self, noise))
    data = self._standard(*given)
    _set_fitted(self, with_rows(self.fitted_, _with_spread(self, given[0], data)))
    return self


def forget(self: GPRegressor, rows: Any) -> Any:
    """Let this model forget some of its rows: the others predict as if these had never been there.

    The values that it has learnt stay. r rows take O(n²r) for "exact", O(m²r + m³) for "sparse" with m inducing points,
    and next to nothing for "vecchia".

    Arguments:
        rows: which: their places, counted from 0 in the order in which ``fit`` and ``update`` saw them, a mask, or a
            slice: ``slice(100)`` are the oldest hundred. Rows of weight zero were never there, and forgotten ones
            leave no gaps.

    Returns:
        The estimator itself.

    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> from stratagp import GPRegressor
    >>> gp = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(gp.predict(X[:1], return_std=True)[1] < gp.forget(slice(10)).predict(X[:1], return_std=True)[1])
    True
    """
    check_is_fitted(self, "fitted_")
    n = len(self.fitted_.points)
    try:
        gone = np.unique(np.arange(n)[rows])
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"rows must be places from 0 to {n - 1}, a mask or a slice of {n} rows: {error}") from None
    if len(gone) == n:
        raise InputError(f"rows names all {n} rows, but a model needs one at least: keep some, or fit another model")
    _set_fitted(self, without_rows(self.fitted_, torch.from_numpy(gone)))
    return self


def _set_fitted(gp: Regressor, fitted: ProcessModel) -> None:
    """Put a model in the place of another; what was computed from that goes."""
    gp.fitted_ = fitted
    for name in COMPUTED:
        gp.__dict__.pop(name, None)


def _known_noise(gp: GPRegressor, noise: ArrayLike | None) -> ArrayLike | None:
    """The variances of new rows, where the model knows those of its own."""
    if not isinstance(gp.fitted_, ProcessModel) or gp.fitted_.data.noise is None:
        if noise is not None:
            raise InputError("noise is learnt here, not known: sample_weight tells how precise new rows are")
        return None
    known = gp.noise if noise is None else noise
    if noise is None and np.ndim(known):
        raise InputError("noise was given for each row in fit: give it for each of the new rows too, noise=…")
    return known


def _with_spread(gp: GPRegressor, points: Points, data: Data) -> Data:
    """Rows whose missing entries were filled have extra noise, as in ``fit``."""
    if points.incomplete is None or not isinstance(gp.fitted_, ProcessModel):
        return data
    return replace(data, extra=spread_of_filled(gp.fitted_, gp._made_rows(Intake((), None, 0), points, data, None)))
