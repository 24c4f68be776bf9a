"""Classes whose rows are Gaussian, with covariances between one for each class and one for all (Friedman 1989)."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from stratagp.errors import InputError
from stratagp.models.gaussian_scores import GaussianScores
from stratagp.recipes.fold_forests import Loss, Table, mean_losses, placed

_SHARED = (0.0, 0.03, 0.1, 0.3, 1.0)  # weights of the covariance of all classes, beside a class's own
_ROUND = (0.001, 0.01, 0.03, 0.1, 0.3)  # weights of independent columns


class FoldGaussians(NamedTuple):
    """Gaussian classes of each fold, the scores of rows that folds have not seen, and the mean loss of these."""

    model: GaussianScores
    held_out: Float[np.ndarray, "n k"]
    loss: float


def gaussian_classes(table: Table, loss: Loss) -> FoldGaussians:
    """Gaussian classes by folds, with the covariances that are best for rows that were held out.

    ``Σ_c = (1 − γ) ((1 − α) S_c + α S) / ((1 − α) n_c + α n) + γ I`` for columns of deviation 1, where ``S_c`` sums the
    squared deviations of the ``n_c`` rows of a class, and ``S = Σ_c S_c``.
    """
    moments = {fold: _Moments(*table.without(fold)) for fold in {*table.folds.numbers, *table.last}}
    held = [torch.from_numpy(table.x[table.folds.held(fold)]) for fold in table.folds.numbers]

    def learnt(shared: float, alone: float) -> FoldGaussians:
        each = {fold: own.scores(shared, alone) for fold, own in moments.items()}
        parts = [each[fold](x).numpy() for fold, x in zip(table.folds.numbers, held, strict=True)]
        found = mean_losses([part[None] for part in parts], table, loss)
        return FoldGaussians(_joined([each[fold] for fold in table.last]), placed(parts, table), float(found[0]))

    found = [learnt(*shares) for shares in product(_SHARED, _ROUND)]
    finite = [each for each in found if np.isfinite(each.loss)]
    if not finite:
        raise InputError("the columns of X are too large for covariances: scale them")
    return min(finite, key=lambda each: each.loss)


class _Moments:
    """Sizes, means and squared deviations of the rows of each class; columns are standardised."""

    def __init__(
        self, x: Float[np.ndarray, "n d"], codes: Int[np.ndarray, " n"], weights: Float[np.ndarray, " n"] | None
    ) -> None:
        weights = np.ones(len(x)) if weights is None else weights
        self.centre = np.average(x, axis=0, weights=weights)
        spread = np.sqrt(np.average((x - self.centre) ** 2, axis=0, weights=weights))
        self.spread = np.where(spread > 1e-12 * np.abs(x).max(0), spread, 1.0)
        z = (x - self.centre) / self.spread
        members = [(codes == code) * weights for code in np.unique(codes)]
        self.sizes = np.array([own.sum() for own in members])
        self.middles = np.stack([own @ z for own in members]) / self.sizes[:, None]
        apart = ((z[own > 0] - middle, own[own > 0]) for middle, own in zip(self.middles, members, strict=True))
        self.squares = np.stack([gap.T @ (own[:, None] * gap) for gap, own in apart])

    def scores(self, shared: float, alone: float) -> GaussianScores:
        """By these weights, for rows in their own units."""
        sizes = (1 - shared) * self.sizes + shared * self.sizes.sum()
        own = ((1 - shared) * self.squares + shared * self.squares.sum(0)) / sizes[:, None, None]
        roots = np.linalg.cholesky((1 - alone) * own + alone * np.eye(len(self.centre)))
        offset = np.log(self.sizes) - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
        parts = self.centre + self.spread * self.middles, np.linalg.inv(roots) / self.spread, offset
        return GaussianScores(*(torch.from_numpy(part)[None] for part in parts))


def _joined(folds: list[GaussianScores]) -> GaussianScores:
    return GaussianScores(*(torch.cat(parts) for parts in zip(*(vars(one).values() for one in folds), strict=True)))
