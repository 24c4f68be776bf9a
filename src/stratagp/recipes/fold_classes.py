"""Classes by folds: boosting, extra trees or Gaussians, with probabilities that held-out rows agree with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import logsumexp
from torch import Tensor

from stratagp.errors import InputError
from stratagp.models.fitted_trees import Calibration, FoldClassesModel
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.fold_forests import FoldForests, Table, boosted, extra_trees, table_of
from stratagp.recipes.folds import folds_of
from stratagp.recipes.gaussian_classes import FoldGaussians, gaussian_classes

ClassKind = Literal["boosting", "extra trees", "Gaussians"]
_MANY = 2000  # rows from which trees have more leaves
_LEAVES = (1, 3)  # rows that a leaf of extra trees holds at least, of which held-out rows choose
_TEMPERATURES = np.exp(np.linspace(np.log(0.25), np.log(8), 41))
_PRIOR = 1.0  # standard deviation of the logarithm of a temperature
_DOUBTS = (0.0, 0.01, 0.03, 0.1, 0.3, 0.9)  # weights of base rates, beside that of a single row


@dataclass(frozen=True)
class FoldClassesRecipe(Recipe):
    """Learn scores by folds, and their temperature on the rows held out.

    Arguments:
        kind: gradient boosting of small trees, averages of extremely randomised ones, or a Gaussian for each class.

    >>> from stratagp.testing.recipe import toy_rows
    >>> model = FoldClassesRecipe("extra trees").fit(toy_rows(n_classes=3), FitContext())
    >>> model.predictive(toy_rows().data.x).probabilities.shape
    (40, 3)
    """

    kind: ClassKind = "boosting"

    def fit(self, rows: Rows, context: FitContext) -> FoldClassesModel:
        """Scores, then their temperature."""
        if rows.n_classes < 2:
            raise InputError("this recipe learns classes: use TreesRecipe for numbers")
        present, codes = rows.data.codes.cpu().unique(return_inverse=True)
        counts = np.bincount(rows.data.codes.cpu().numpy(), minlength=rows.n_classes) + 0.5
        base = torch.from_numpy(counts / counts.sum())
        start = Calibration(1.0, 1 / (len(codes) + 1), base, tuple(present.tolist()), self.kind == "extra trees")
        table = table_of(rows, codes, folds_of(rows.data, rows.n_classes, context.seed), context)
        if len(present) < 2 or not table.folds.numbers:  # nothing to tell apart, or nothing to hold out
            only_base = replace(start, present=(0,), shares=False, doubt=1.0)
            return FoldClassesModel(None, only_base, rows.data, torch.zeros(len(codes), 1, dtype=torch.float64))
        found = _scores(table, self.kind, start, context.seed)
        scores = start.scores(torch.from_numpy(found.held_out))
        scores[torch.from_numpy(~table.folds.told)] = base[present].log()
        calibration = _calibrated(start, scores, codes, torch.from_numpy(table.folds.told))
        context.log(f"{self.kind}: held-out log loss {found.loss:.3f}")
        scorer = found.model if isinstance(found, FoldGaussians) else found.forest
        return FoldClassesModel(scorer, calibration, rows.data, scores)


def _scores(table: Table, kind: ClassKind, calibration: Calibration, seed: int) -> FoldForests | FoldGaussians:
    def loss(scores: Float[np.ndarray, "n k"], codes: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        whole = calibration.scores(torch.from_numpy(scores)).numpy()
        return logsumexp(whole, axis=1) - whole[np.arange(len(codes)), codes]

    if kind == "Gaussians":
        return gaussian_classes(table, loss)
    if kind == "boosting":
        return boosted(table, lambda rounds: _classifier(seed, rounds, len(table.y) < _MANY), loss)
    from sklearn.ensemble import ExtraTreesClassifier  # slow to load, and only needed here

    def make(leaf: int) -> Any:
        return lambda trees, fold: ExtraTreesClassifier(trees, min_samples_leaf=leaf, random_state=seed % 2**31 + fold)

    return min((extra_trees(table, make(leaf), loss) for leaf in _LEAVES), key=lambda found: found.loss)


def _classifier(seed: int, rounds: int, few: bool) -> Any:
    """Gradient boosting that goes on where it was when asked for more iterations."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to load, and only needed here

    sizes = {"max_leaf_nodes": 8 if few else 31, "min_samples_leaf": 3 if few else 10, "max_features": 0.5}
    fixed = {"l2_regularization": 1.0, "early_stopping": False, "warm_start": True, "random_state": seed}
    return HistGradientBoostingClassifier(max_iter=rounds, **sizes, **fixed)


def _calibrated(
    start: Calibration, scores: Float[Tensor, "n p"], codes: Int[Tensor, " n"], held_out: Tensor
) -> Calibration:
    """Temperature and doubt under which held-out classes are most probable; weakly, the first is believed near 1."""
    scores, own = scores[held_out], torch.tensor(start.present)[codes[held_out]]

    def cost(one: Calibration) -> float:
        lost = float(-one.probabilities(scores).gather(1, own[:, None]).log().sum())
        return lost + 0.5 * (np.log(one.temperature) / _PRIOR) ** 2

    warm = [replace(start, temperature=float(t)) for t in _TEMPERATURES]
    doubtful = [replace(one, doubt=max(start.doubt, doubt)) for one in warm for doubt in _DOUBTS]
    return min(doubtful, key=cost)
