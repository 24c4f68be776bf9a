"""Forests of all rows but those of a fold, one for each fold, which say of each row what it was not told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

from stratagp.errors import InputError
from stratagp.models.forest import Forest, of_boosting, of_extra_trees
from stratagp.recipes.base import FitContext, Rows
from stratagp.recipes.processes import check_device

FOLDS = 5
_ONE_THREAD = 20_000  # rows below which threads cost more than they gain
_ROUNDS = (50, 100, 200, 400, 800)  # iterations of boosting that are tried, as long as the last third still gains
_MOST_TREES = 1000  # of one fold: each class has a tree in each iteration
_TREES = ((2000, 60), (torch.inf, 40))  # extra trees of a fold, up to so many rows

Loss = Callable[[Float[np.ndarray, "n k"], np.ndarray], Float[np.ndarray, " n"]]
"""What each row costs, from its scores and its target."""


@dataclass(frozen=True)
class FoldForests:
    """A sum of trees (or one for each class) for each fold.

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
    """What trees learn from: columns of numbers, a target, the weights of rows, and a fold for each."""

    x: Float[np.ndarray, "n d"]
    y: np.ndarray
    weights: Float[np.ndarray, " n"] | None
    fold: Int[np.ndarray, " n"]

    def without(self, fold: int) -> tuple[Any, ...]:
        """Arguments of scikit-learn's ``fit``: all rows but those of one fold."""
        kept = self.fold != fold
        return self.x[kept], self.y[kept], None if self.weights is None else self.weights[kept]

    @property
    def folds(self) -> range:
        """The numbers of the folds."""
        return range(int(self.fold.max()) + 1)


def table_of(rows: Rows, y: Tensor, fold: Int[np.ndarray, " n"], context: FitContext) -> Table:
    """Rows as scikit-learn takes them; refuses what trees cannot learn from."""
    check_device(rows.data.x, context)
    if not isinstance(rows.data.x, Tensor) or rows.data.x.ndim != 2:
        raise InputError("trees learn from columns of numbers: give a table, not objects or images")
    if rows.data.noise is not None:
        raise InputError("trees do not use known noise variances: leave noise out, or give weights")
    weights = None if rows.data.weights is None else rows.data.weights.cpu().numpy()
    return Table(rows.data.x.detach().cpu().double().numpy(), y.cpu().numpy(), weights, fold)


def numbers_of(rows: Rows, context: FitContext) -> Table:
    """Rows with one target of numbers, in random folds."""
    if rows.n_classes or rows.data.y.shape[1] != 1:
        raise InputError(f"these trees learn one target of numbers, got {rows.data.y.shape[1]}: fit one model for each")
    return table_of(rows, rows.data.y[:, 0], random_folds(len(rows.data), context.seed), context)


def random_folds(n: int, seed: int) -> Int[np.ndarray, " n"]:
    """A fold for each row at random, all of one size; refuses fewer than four rows.

    >>> np.bincount(random_folds(20, seed=0)).tolist()
    [4, 4, 4, 4, 4]
    """
    if n < 4:
        raise InputError(f"trees need at least 4 rows, got {n}: add rows, or use a process")
    return np.random.default_rng(seed).permutation(np.arange(n) % min(FOLDS, n // 2))


def even_folds(codes: Int[np.ndarray, " n"], seed: int) -> Int[np.ndarray, " n"]:
    """A fold for each row, so that classes are spread evenly; −1 of a class's only row, which no fold may miss.

    >>> even_folds(np.array([0, 0, 1, 1, 2]), seed=0).tolist()[-1]
    -1
    """
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    order = order[np.bincount(codes)[codes[order]] > 1]
    fold = np.full(len(codes), -1, dtype=np.int64)
    fold[order] = np.arange(len(order)) % max(2, min(FOLDS, len(order) // 2))
    return fold


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
    models = [make(0) for _ in table.folds]
    outputs = len(np.unique(table.y)) if hasattr(models[0], "predict_proba") else 1
    for rounds in (rounds for rounds in _ROUNDS if rounds == _ROUNDS[0] or rounds * outputs <= _MOST_TREES):
        for fold, model in zip(table.folds, models, strict=True):
            model.set_params(max_iter=rounds).fit(*table.without(fold))
        stages = [_stages(model, table.x[table.fold == fold]) for fold, model in zip(table.folds, models, strict=True)]
        losses = _mean_losses(stages, table, loss)
        best = int(losses.argmin())
        if best < 2 / 3 * rounds:
            break
    held_out = _placed([stage[best] for stage in stages], table)
    return FoldForests(of_boosting(models, best + 1), held_out, float(losses[best]))


def _stages(model: Any, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "t m k"]:
    """The raw scores after each iteration."""
    return np.stack([stage.reshape(len(x), -1).copy() for stage in model._staged_raw_predict(x)])


def _mean_losses(stages: Sequence[np.ndarray], table: Table, loss: Loss) -> Float[np.ndarray, " t"]:
    weights = np.ones(len(table.y)) if table.weights is None else table.weights
    total, whole = np.zeros(len(stages[0])), 0.0
    for fold, own in zip(table.folds, stages, strict=True):
        chosen = table.fold == fold
        total += [weights[chosen] @ loss(stage, table.y[chosen]) for stage in own]
        whole += weights[chosen].sum()
    return total / whole


def _placed(parts: Sequence[np.ndarray], table: Table) -> Float[np.ndarray, "n k"]:
    """What folds say of their rows, in the order of the rows; zero for rows of no fold."""
    found = np.zeros((len(table.y), parts[0].shape[1]))
    for fold, part in zip(table.folds, parts, strict=True):
        found[table.fold == fold] = part
    return found


def extra_trees(table: Table, make: Callable[[int, int], Any], loss: Loss) -> FoldForests:
    """Extra trees.

    Arguments:
        table: the rows.
        make: a model of scikit-learn with so many trees and a seed.
        loss: what held-out rows are judged by.
    """
    count = next(count for most, count in _TREES if len(table.y) <= most)
    models = [make(count, fold).fit(*table.without(fold)) for fold in table.folds]
    forest, parts = of_extra_trees(models), []
    for fold, model in zip(table.folds, models, strict=True):
        x = table.x[table.fold == fold]
        found = model.predict_proba(x) if hasattr(model, "predict_proba") else model.predict(x)
        parts.append(found.reshape(len(x), -1))
    losses = _mean_losses([part[None] for part in parts], table, loss)
    return FoldForests(forest, _placed(parts, table), float(losses[0]))


def regressor(seed: int, rounds: int, **options: Any) -> Any:
    """Gradient boosting that goes on where it was when asked for more iterations."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to load, and only needed here

    fixed = {"l2_regularization": 1.0, "max_features": 0.5, "early_stopping": False, "warm_start": True}
    return HistGradientBoostingRegressor(max_iter=rounds, random_state=seed, **fixed, **options)


def squared(scores: Float[np.ndarray, "n 1"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The squared error of each row."""
    return (scores[:, 0] - y) ** 2
