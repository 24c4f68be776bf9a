"""Trees of numbers: boosting or extra trees, and a density around them that held-out rows agree with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from stratagp.models.fitted_trees import TreesModel
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.fold_forests import FoldForests, Table, boosted, extra_trees, numbers_of, regressor, squared
from stratagp.recipes.spread import spread_of

Kind = Literal["boosting", "extra trees"]
_MANY = 2000  # rows from which trees have more leaves
_SMALLEST = 5000  # leaves that a tree may have, about
_TWICE = 5000  # rows up to which two sizes of leaves are tried
_LEAVES = (1, 4)  # rows that a leaf of extra trees holds at least, of which held-out rows choose


@dataclass(frozen=True)
class TreesRecipe(Recipe):
    """Learn forests by folds, and the variance and shape of their errors on the rows held out.

    Arguments:
        kind: gradient boosting of small trees, or averages of extremely randomised ones.
        leaves: of each tree of boosting; by the number of rows where it is left out.

    >>> from stratagp.testing.recipe import toy_rows
    >>> model = TreesRecipe("extra trees").fit(toy_rows(), FitContext())
    >>> model.predictive(toy_rows().data.x).mean.shape
    (40, 1)
    """

    kind: Kind = "boosting"
    leaves: int | None = None

    def fit(self, rows: Rows, context: FitContext) -> TreesModel:
        """Forests, then their errors."""
        table = numbers_of(rows, context, ahead=True)
        found = forests_of_numbers(table, self.kind, context.seed, self.leaves)
        mean, told = found.held_out[:, 0], table.folds.told
        var = 1 / (np.ones(len(mean)) if table.weights is None else table.weights)
        spread, var[told] = spread_of(table.told(context.seed), mean[told], var[told], context.seed)
        context.log(f"{self.kind}: {len(found.forest.roots)} trees a fold, held-out R² {1 - found.loss:.3f}")
        return TreesModel(found.forest, spread, rows.data, torch.from_numpy(mean), torch.from_numpy(var))


def forests_of_numbers(table: Table, kind: str, seed: int, leaves: int | None = None) -> FoldForests:
    """Boosting, or the better of extra trees with small and with larger leaves."""
    if kind == "boosting":
        return boosted(table, lambda rounds: regressor(seed, rounds, **sizes(len(table.y), leaves)), squared)
    from sklearn.ensemble import ExtraTreesRegressor  # slow to load, and only needed here

    def make(leaf: int) -> Any:
        return lambda trees, fold: ExtraTreesRegressor(trees, min_samples_leaf=leaf, random_state=seed % 2**31 + fold)

    leaf_rows = [max(leaf, len(table.y) // _SMALLEST) for leaf in _LEAVES]
    tried = leaf_rows if len(table.y) <= _TWICE else leaf_rows[1:]
    return min((extra_trees(table, make(leaf), squared) for leaf in tried), key=lambda found: found.loss)


def sizes(n: int, leaves: int | None = None) -> dict[str, Any]:
    """How large the trees of boosting are, by the number of rows."""
    few = n < _MANY
    return {"max_leaf_nodes": leaves or (8 if few else 31), "min_samples_leaf": 3 if few else 10}
