"""The same model again, learnt from other rows of the same table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from stratagp.estimators.inputs.base import RowsLike
from stratagp.estimators.intake import CheckpointLike
from stratagp.models.fitted import Fitted
from stratagp.models.stack import StackModel
from stratagp.recipes.base import FitContext, Recipe, Rows

if TYPE_CHECKING:
    from stratagp.estimators.shell import Estimator as Estimator
else:  # which has this function as a method
    Estimator = Any

EARLIER = "_earlier"  # where an estimator that learns again finds the one it goes on from


def refit(
    self: Estimator, X: RowsLike, y: ArrayLike | None = None, *, checkpoint: CheckpointLike = None, **options: Any
) -> Any:
    """A new estimator that has learnt from other rows of the same table, such as all of them after a test.

    The search of values begins where this model ended, where the model can do that. A stack keeps its members and
    their weights. This estimator stays as it is.

    Arguments:
        X, y, checkpoint: as of ``fit``.
        options: of the new estimator, where they differ: ``inference="vecchia", max_iterations=0`` keeps the values of
            an exact process of few rows, and predicts from all.

    >>> import numpy as np
    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> part = GPRegressor().fit(X[:30], np.sin(X[:30, 0]))
    >>> whole = part.refit(X, np.sin(X[:, 0]))
    >>> mean, std = whole.predict([[9.0]], return_std=True)
    >>> round(float(mean[0]), 2), bool(std[0] < part.predict([[9.0]], return_std=True)[1][0])  # sin 9 = 0.412
    (0.41, True)
    """
    check_is_fitted(self, "fitted_")
    made = clone(self).set_params(**options)
    vars(made)[EARLIER] = self
    return made.fit(X, y, **({} if checkpoint is None else {"checkpoint": checkpoint}))


def learn_from(recipe: Recipe, rows: Rows, context: FitContext, earlier: Estimator | None) -> Fitted:
    """What a recipe learns, from where an earlier estimator ended if that saw the same columns."""
    if earlier is None:
        return recipe.fit(rows, context)
    before: Fitted = earlier.fitted_
    goes_on = isinstance(before, StackModel) or earlier.inputs_.columns == rows.columns  # a stack looks for itself
    return recipe.again(before, rows, context) if goes_on else recipe.fit(rows, context)
