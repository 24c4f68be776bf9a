"""Width and shape of predictions, from what was predicted of rows that a model has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
import torch
from jaxtyping import Float
from scipy.special import gammaln

from stratagp.models.fitted import Fitted
from stratagp.models.spread import LEAST_VARIANCE, Spread, SpreadModel
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.fold_forests import Table, boosted, numbers_of, regressor

_DOF = (2.1, 100.0)  # between which degrees of freedom are sought
_WORTH = 2.0  # nats that a further parameter of the density must gain


@dataclass(frozen=True)
class SpreadRecipe(Recipe):
    """Learn a model, and correct width and shape of its predictions by what it says of each row from all others.

    Noise may vary with the columns and have heavy tails, whatever the model thinks of it.

    Arguments:
        recipe: of a model that answers ``leave_one_out``.

    >>> from stratagp import kernels as k
    >>> from stratagp.recipes.exact import ExactRecipe
    >>> from stratagp.testing.recipe import toy_rows
    >>> model = SpreadRecipe(ExactRecipe(k.RBF(ard=2))).fit(toy_rows(), FitContext())
    >>> type(model.model).__name__
    'ExactModel'
    """

    recipe: Recipe

    def fit(self, rows: Rows, context: FitContext) -> SpreadModel:
        """The model, then its errors."""
        return self._spread(self.recipe.fit(rows, context), rows, context)

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> SpreadModel:
        """The model from where it ended, then its errors."""
        if not isinstance(before, SpreadModel):
            return self.fit(rows, context)
        return self._spread(self.recipe.again(before.model, rows, context), rows, context)

    def _spread(self, model: Fitted, rows: Rows, context: FitContext) -> SpreadModel:
        table = numbers_of(rows, context)
        mean, var = (each[:, 0] for each in model.leave_one_out())
        spread, wide = spread_of(table, mean, var, context.seed, sees_mean=False)
        return SpreadModel(model, spread, rows.data.y, torch.from_numpy(mean.copy()), torch.from_numpy(wide))


def gamma_loss(scores: Float[np.ndarray, "n 1"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """``s + y exp(−s)``, for the log ``s`` of what is expected."""
    return scores[:, 0] + y * np.exp(-scores[:, 0])


def spread_of(
    table: Table, mean: Float[np.ndarray, " n"], var: Float[np.ndarray, " n"], seed: int, sees_mean: bool = True
) -> tuple[Spread, Float[np.ndarray, " n"]]:
    """What multiplies the variances of held-out rows, the shape of their errors, and the product for each of the rows.

    A forest learns the logarithm of the mean size of errors from rows of other folds; how much of it is believed, and
    the degrees of freedom, maximise the likelihood of the errors.

    Arguments:
        table: columns, targets and folds.
        mean, var: what is predicted of each row from others.
        seed: of the forest.
        sees_mean: whether the forest sees the mean beside the columns. One from leave-one-out tells the target of its
            own row: among equal rows it is the lower, the higher that target is.
    """
    squares = np.maximum((table.y - mean) ** 2 / var, LEAST_VARIANCE)
    size = np.sqrt(squares / squares.mean())
    own = Table(np.column_stack([table.x, mean]) if sees_mean else table.x, size, None, table.folds)
    few = max(2, min(20, len(mean) // 10))
    options = {"loss": "gamma", "max_leaf_nodes": 4, "min_samples_leaf": few, "learning_rate": 0.05}
    found = boosted(own, lambda rounds: regressor(seed, rounds, **options), gamma_loss)
    level, slope, dof = density_of(squares, found.held_out[:, 0])
    spread = Spread(level, slope, dof, found.forest if slope else None, sees_mean)
    return spread, var * spread.of_scores(torch.from_numpy(found.held_out[:, 0])).numpy()


def density_of(squares: Float[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> tuple[float, float, float | None]:
    """Level, slope and degrees of freedom of ``t_ν(0, exp(level + slope · score))`` for squared errors.

    A slope, and a shape that is not Gaussian, must each gain two nats.
    """
    best: float = np.inf
    values: tuple[float, float, float | None] = (0.0, 0.0, None)
    for sloped in (False, True):
        for heavy in (False, True):
            value, found = _climbed(squares, scores, sloped, heavy)
            value += _WORTH * (sloped + heavy)
            if value < best:
                best, values = value, found
    return values


def _climbed(
    squares: np.ndarray, scores: np.ndarray, sloped: bool, heavy: bool
) -> tuple[float, tuple[float, float, float | None]]:
    """The least negative log likelihood, and where it is."""
    start = np.array([np.log(squares.mean()), 1.0 * sloped, np.log(8.0)])
    free = np.array([True, sloped, heavy])
    bounds = np.array([(-30.0, 30.0), (0.0, 3.0), tuple(np.log(_DOF))])

    def values(given: np.ndarray) -> np.ndarray:
        whole = start.copy()
        whole[free] = given
        return whole

    def cost(given: np.ndarray) -> float:
        level, slope, log_dof = values(given)
        return _negative_log_density(squares, level + slope * scores, np.exp(log_dof) if heavy else None)

    start[0] -= start[1] * scores.mean()
    found = scipy.optimize.minimize(cost, start[free], method="L-BFGS-B", bounds=bounds[free])
    level, slope, log_dof = values(found.x)
    return float(found.fun), (float(level), float(slope), float(np.exp(log_dof)) if heavy else None)


def _negative_log_density(squares: np.ndarray, log_var: np.ndarray, dof: float | None) -> float:
    """Of errors with zero mean, with a weak prior (Gamma(2, 0.1)) of the degrees of freedom."""
    standard = squares * np.exp(-log_var)
    if dof is None:
        return float(0.5 * (standard + log_var + np.log(2 * np.pi)).sum())
    constant = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * np.log((dof - 2) * np.pi)
    each = constant - 0.5 * log_var - (dof + 1) / 2 * np.log1p(standard / (dof - 2))
    return float(-each.sum() - np.log(dof) + 0.1 * dof)
