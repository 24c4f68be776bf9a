"""Forests of all rows but those of a fold, one for each fold, which say of each row what it was not told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from threadpoolctl import threadpool_limits
from torch import Tensor

from stratagp.errors import InputError
from stratagp.models.forest import Forest, of_boosting, of_extra_trees
from stratagp.recipes.base import FitContext, Rows
from stratagp.recipes.folds import Folds, folds_of, random_folds
from stratagp.recipes.processes import check_device

_ONE_THREAD = 20_000  # rows below which threads cost more than they gain
_ROUNDS = (50, 100, 200, 400, 800)  # iterations of boosting that are tried, as long as the last third still gains
_MOST_TREES = 1000  # of one fold: each class has a tree in each iteration
_TREES = ((2000, 60), (torch.inf, 40))  # extra trees of a fold, up to so many rows

Loss = Callable[[Float[np.ndarray, "n k"], np.ndarray], Float[np.ndarray, " n"]]
"""What each row costs, from its scores and its target."""


@dataclass(frozen=True)
class FoldForests:
    """A sum of trees (or one for each class) for each fold; one of all rows where folds are later rows.

    Arguments:
        forest: its columns are those of the first fold, then those of the second.
        held_out: what each row gets from the forest that has not seen it.
        loss: the mean loss of the rows.
    """

    forest: Forest
    held_out: Float[np.ndarray, "n k"]
    loss: float


@dataclass(frozen=True)
class Table:
    """What trees learn from: columns of numbers, a target, the weights of rows, and their folds."""

    x: Float[np.ndarray, "n d"]
    y: np.ndarray
    weights: Float[np.ndarray, " n"] | None
    folds: Folds

    def without(self, fold: int) -> tuple[Any, ...]:
        """Arguments of scikit-learn's ``fit``: the rows that a fold is predicted from."""
        return self._some(self.folds.seen(fold))

    def told(self, seed: int) -> Table:
        """The rows that are held out once; where folds are later rows, in random folds instead."""
        if not self.folds.ahead:
            return self
        x, y, weights = self._some(self.folds.told)
        return Table(x, y, weights, random_folds(len(y), seed))

    @property
    def last(self) -> list[int]:
        """The folds whose forests predict new rows: all, or where folds are later rows the one that comes next."""
        numbers = self.folds.numbers
        return [len(numbers)] if self.folds.ahead else list(numbers)

    def _some(self, kept: Bool[np.ndarray, " n"]) -> tuple[Any, ...]:
        return self.x[kept], self.y[kept], None if self.weights is None else self.weights[kept]


def table_of(rows: Rows, y: Tensor, folds: Folds, context: FitContext) -> Table:
    """Rows as scikit-learn takes them; refuses what trees cannot learn from."""
    check_device(rows.data.x, context)
    if not isinstance(rows.data.x, Tensor) or rows.data.x.ndim != 2:
        raise InputError("trees learn from columns of numbers: give a table, not objects or images")
    if rows.data.noise is not None:
        raise InputError("trees do not use known noise variances: leave noise out, or give weights")
    weights = None if rows.data.weights is None else rows.data.weights.cpu().numpy()
    return Table(rows.data.x.detach().cpu().double().numpy(), y.cpu().numpy(), weights, folds)


def numbers_of(rows: Rows, context: FitContext, ahead: bool = False) -> Table:
    """Rows with one target of numbers; each is held out once, unless folds are to be later rows where there are any."""
    if rows.n_classes or rows.data.y.shape[1] != 1:
        raise InputError(f"these trees learn one target of numbers, got {rows.data.y.shape[1]}: fit one model for each")
    data = rows.data if ahead else replace(rows.data, order=None)
    return table_of(rows, rows.data.y[:, 0], folds_of(data, 0, context.seed), context)


def boosted(table: Table, make: Callable[[int], Any], loss: Loss) -> FoldForests:
    """Boosting with the number of iterations that is best for rows that were held out.

    Arguments:
        table: the rows.
        make: a model of scikit-learn with so many iterations that has not been fitted, and that goes on where it was.
        loss: what iterations are judged by.
    """
    with _threads(len(table.y)):
        return _boosted(table, make, loss)


def _threads(rows: int) -> Any:
    """One thread for few rows: several would wait for one another longer than they work."""
    return threadpool_limits(1 if rows < _ONE_THREAD else None, "openmp")


def _boosted(table: Table, make: Callable[[int], Any], loss: Loss) -> FoldForests:
    numbers = table.folds.numbers
    models = [make(0) for _ in numbers]
    outputs = len(np.unique(table.y)) if hasattr(models[0], "predict_proba") else 1
    for rounds in (rounds for rounds in _ROUNDS if rounds == _ROUNDS[0] or rounds * outputs <= _MOST_TREES):
        for fold, model in zip(numbers, models, strict=True):
            model.set_params(max_iter=rounds).fit(*table.without(fold))
        stages = [_stages(model, table.x[table.folds.held(fold)]) for fold, model in zip(numbers, models, strict=True)]
        losses = mean_losses(stages, table, loss)
        best = int(losses.argmin())
        if best < 2 / 3 * rounds:
            break
    held_out = placed([stage[best] for stage in stages], table)
    last = [models[i] if i in numbers else make(best + 1).fit(*table.without(i)) for i in table.last]
    return FoldForests(of_boosting(last, best + 1), held_out, float(losses[best]))


def _stages(model: Any, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "t m k"]:
    """The raw scores after each iteration."""
    return np.stack([stage.reshape(len(x), -1).copy() for stage in model._staged_raw_predict(x)])


def mean_losses(stages: Sequence[np.ndarray], table: Table, loss: Loss) -> Float[np.ndarray, " t"]:
    """The mean loss after each stage, of the rows of all folds."""
    weights = np.ones(len(table.y)) if table.weights is None else table.weights
    total, whole = np.zeros(len(stages[0])), 0.0
    for fold, own in zip(table.folds.numbers, stages, strict=True):
        chosen = table.folds.held(fold)
        total += [weights[chosen] @ loss(stage, table.y[chosen]) for stage in own]
        whole += weights[chosen].sum()
    return total / whole


def placed(parts: Sequence[np.ndarray], table: Table) -> Float[np.ndarray, "n k"]:
    """What folds say of their rows, in the order of the rows; zero for rows of no fold."""
    found = np.zeros((len(table.y), parts[0].shape[1]))
    for fold, part in zip(table.folds.numbers, parts, strict=True):
        found[table.folds.held(fold)] = part
    return found


def extra_trees(table: Table, make: Callable[[int, int], Any], loss: Loss) -> FoldForests:
    """Extra trees.

    Arguments:
        table: the rows.
        make: a model of scikit-learn with so many trees and a seed.
        loss: what held-out rows are judged by.
    """
    count = next(count for most, count in _TREES if len(table.y) <= most)
    numbers, parts = table.folds.numbers, []
    models = {fold: make(count, fold).fit(*table.without(fold)) for fold in {*numbers, *table.last}}
    forest = of_extra_trees([models[fold] for fold in table.last])
    for fold in numbers:
        x, model = table.x[table.folds.held(fold)], models[fold]
        found = model.predict_proba(x) if hasattr(model, "predict_proba") else model.predict(x)
        parts.append(found.reshape(len(x), -1))
    losses = mean_losses([part[None] for part in parts], table, loss)
    return FoldForests(forest, placed(parts, table), float(losses[0]))


def regressor(seed: int, rounds: int, **options: Any) -> Any:
    """Gradient boosting that goes on where it was when asked for more iterations."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to load, and only needed here

    fixed = {"l2_regularization": 1.0, "max_features": 0.5, "early_stopping": False, "warm_start": True}
    return HistGradientBoostingRegressor(max_iter=rounds, random_state=seed, **fixed, **options)


def squared(scores: Float[np.ndarray, "n 1"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The squared error of each row."""
    return (scores[:, 0] - y) ** 2
