"""Processes whose prior mean is a forest: trees take the steps, and the process what they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from stratagp.models.boosted_mean import BoostedMeanModel
from stratagp.models.fitted import Fitted
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.fold_forests import numbers_of
from stratagp.recipes.trees import forests_of_numbers

_LEAST = 1e-4  # of the scale of residuals, where forests explain all


@dataclass(frozen=True)
class BoostedMeanRecipe(Recipe):
    """Learn forests by folds, and a process from the residuals of the rows that each has not seen.

    Arguments:
        process: the recipe of the process, or what makes it from rows, whose targets are standardised residuals.
        leaves: of each tree: few, or trees take what a process does better.

    >>> from stratagp import kernels as k
    >>> from stratagp.recipes.exact import ExactRecipe
    >>> from stratagp.testing.recipe import toy_rows
    >>> model = BoostedMeanRecipe(ExactRecipe(k.RBF(ard=2))).fit(toy_rows(), FitContext())
    >>> model.predictive(toy_rows().data.x).mean.shape
    (40, 1)
    """

    process: Recipe | Callable[[Rows], Recipe]
    leaves: int = 4

    def fit(self, rows: Rows, context: FitContext) -> BoostedMeanModel:
        """Forests, residuals, the process."""
        return self._learnt(rows, context, None)

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> BoostedMeanModel:
        """New forests, and the process from where it ended."""
        return self._learnt(rows, context, before.model if isinstance(before, BoostedMeanModel) else None)

    def _learnt(self, rows: Rows, context: FitContext, before: Fitted | None) -> BoostedMeanModel:
        found = forests_of_numbers(numbers_of(rows, context), "boosting", context.seed, self.leaves)
        mean = torch.from_numpy(found.held_out)
        left = rows.data.y - mean.to(rows.data.y)
        scale = max(float(left.square().mean().sqrt()), _LEAST)
        residuals = replace(rows, data=replace(rows.data, y=left / scale))
        recipe = self.process if isinstance(self.process, Recipe) else self.process(residuals)
        model = recipe.fit(residuals, context) if before is None else recipe.again(before, residuals, context)
        return BoostedMeanModel(model, found.forest, scale, mean[:, 0])
