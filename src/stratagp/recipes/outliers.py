"""Gross mistakes among targets: found by what others say of a row, and set apart."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float

from stratagp.errors import InputError
from stratagp.kernels import Matern
from stratagp.models.fitted import Fitted
from stratagp.models.observations import Data, some_rows
from stratagp.models.outliers import OutliersModel
from stratagp.models.warps import Asinh
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.search import Search

_FAR = 10.0  # robust deviations from the median: without such a target nothing is looked for
_ODD = 7.0  # robust deviations of an error, of bent targets: log-normal amounts reach 6
_MOST = 0.05  # of the rows: more of them are tails, not mistakes
_PILOT = 400  # rows that tell what is expected of the others
_NORMAL = 1.4826  # a deviation in units of the median of absolute errors, if errors are normal
_LEAST_WIDTH = 10.0  # deviations of the targets that were kept: how far mistakes go if nothing tells


@dataclass(frozen=True)
class OutliersRecipe(Recipe):
    """Learn from the rows whose targets are no gross mistakes, and expect such mistakes of new rows.

    Mean and deviation of the targets come from the rows that are kept: a value that is a thousand deviations away
    would squeeze all others together.

    Arguments:
        recipe: of the model of the rows that are kept.

    >>> from stratagp import kernels as k
    >>> from stratagp.testing.recipe import toy_rows
    >>> rows = toy_rows()
    >>> rows.data.y[3] = 1000.0
    >>> model = OutliersRecipe(ExactRecipe(k.RBF(ard=2))).fit(rows, FitContext())
    >>> (~model.kept).nonzero().tolist()
    [[3]]
    """

    recipe: Recipe

    def fit(self, rows: Rows, context: FitContext) -> OutliersModel:
        """Set rows apart, then learn from the others."""
        return self._learnt(None, rows, context)

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> OutliersModel:
        """The same from where the model ended."""
        return self._learnt(before.model if isinstance(before, OutliersModel) else None, rows, context)

    def _learnt(self, before: Fitted | None, rows: Rows, context: FitContext) -> OutliersModel:
        data = rows.data
        if data.y.shape[1] > 1:
            raise InputError("outliers are set apart for one target: fit one model for each")
        y, kept = data.y[:, 0].numpy(), ~found_outliers(data, context.seed)
        shift, scale = float(y[kept].mean()), float(y[kept].std()) or 1.0
        own = data.take(torch.from_numpy(kept).nonzero()[:, 0])
        seen = replace(rows, data=replace(own, y=(own.y - shift) / scale), filled=None)
        model = self.recipe.fit(seen, context) if before is None else self.recipe.again(before, seen, context)
        share = (np.sum(~kept) + 0.5) / (len(y) + 1)
        left = data.take(torch.from_numpy(~kept).nonzero()[:, 0])
        width = _LEAST_WIDTH * scale
        if len(left):
            errors = left.y[:, 0].numpy() - shift - scale * model.function(left.x)[:, 0]
            width = max(width, float(np.sqrt(np.mean(errors**2))))
        return OutliersModel(model, shift, scale, float(share), width, data.x, torch.from_numpy(kept))


def may_have_outliers(y: Float[np.ndarray, " n"]) -> bool:
    """Whether a target is far from all others, measured by the middle half of them."""
    low, centre, high = np.quantile(y, [0.25, 0.5, 0.75])
    return bool(high > low and np.abs(y - centre).max() > _FAR * _NORMAL * (high - low) / 2)


def found_outliers(data: Data, seed: int) -> Bool[np.ndarray, " n"]:
    """Which targets are far from what a process of other rows says, both of bent targets; none if they are many.

    Mistakes spoil what is said of rows near them, so a second process, of the other rows, has the last word.
    """
    y, none = data.y[:, 0].numpy(), np.zeros(len(data), dtype=bool)
    if not may_have_outliers(y):
        return none
    bent = Data(data.x, torch.from_numpy(Asinh.learnt(y).forward(y))[:, None])
    odd = _odd(_errors(bent, none, seed))
    if not 0 < odd.mean() <= _MOST:
        return none
    return odd & _odd(_errors(bent, odd, seed))


def _odd(errors: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Which errors are far from the others."""
    distances = np.abs(errors - np.median(errors))
    return distances > _ODD * _NORMAL * max(float(np.median(distances)), 1e-6)


def _errors(data: Data, unseen: Bool[np.ndarray, " n"], seed: int) -> Float[np.ndarray, " n"]:
    """Of each target, predicted from some of the other rows by a process that is quick to learn."""
    seen = torch.from_numpy(~unseen).nonzero()[:, 0]
    chosen = seen[some_rows(len(seen), _PILOT, seed)]
    recipe = ExactRecipe(Matern(nu=1.5, ard=data.x.shape[1]), search=Search(n_restarts=0))
    model = recipe.fit(Rows(data.take(chosen)), FitContext(seed))
    said = torch.from_numpy(model.function(data.x)[:, 0])
    said[chosen] = torch.from_numpy(model.leave_one_out()[0][:, 0])
    return (data.y[:, 0] - said).numpy()
