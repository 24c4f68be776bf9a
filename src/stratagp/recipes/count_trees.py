"""Trees of counts: boosting by the Poisson likelihood, and a law around it that held-out rows agree with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
import torch
from jaxtyping import Float
from scipy.special import expit
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods import Likelihood, NegativeBinomial, ZeroInflated
from stratagp.models.fitted_counts import log_share
from stratagp.models.fitted_trees import CountTreesModel
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.fold_forests import boosted, numbers_of, regressor
from stratagp.recipes.trees import sizes

_WORTH = 2.0  # nats that rows which are always zero must gain
_DISPERSION, _SHARE = (-12.0, 4.0), (-7.0, 7.0)  # between which the log, and the log odds, are sought


@dataclass(frozen=True)
class CountTreesRecipe(Recipe):
    """Learn forests of the log of the expected count by folds, and dispersion and extra zeros on the rows held out.

    >>> from stratagp.testing.recipe import toy_rows
    >>> rows = toy_rows()
    >>> rows.data.y = rows.data.y.exp().round()
    >>> model = CountTreesRecipe().fit(rows, FitContext())
    >>> model.predictive(rows.data.x).mean.shape
    (40, 1)
    """

    def fit(self, rows: Rows, context: FitContext) -> CountTreesModel:
        """Forests, then the law around them."""
        if rows.data.weights is not None:
            raise InputError("trees of counts use no weights: leave them out")
        table = numbers_of(rows, context, ahead=True)
        options = {"loss": "poisson", **sizes(len(table.y))}
        found = boosted(table, lambda rounds: regressor(context.seed, rounds, **options), poisson_loss)
        logs = torch.from_numpy(found.held_out)
        return CountTreesModel(
            found.forest, law_of(rows.data.y[table.folds.told], logs[table.folds.told]), rows.data, logs[:, 0]
        )


def poisson_loss(scores: Float[np.ndarray, "n 1"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """``e^s − y s``, for the log ``s`` of the expected count."""
    return np.exp(scores[:, 0]) - y * scores[:, 0]


def law_of(y: Float[Tensor, "n 1"], logs: Float[Tensor, "n 1"]) -> Likelihood:
    """The negative binomial that counts are most probable by, given the logs of their means; or one with more zeros.

    >>> y = torch.tensor([[1.0], [9.0], [2.0], [3.0], [4.0], [1.0]])
    >>> type(law_of(y, torch.full((6, 1), 1.3))).__name__
    'NegativeBinomial'
    """
    found = [_climbed(y, logs, start) for start in ([-1.0], [-1.0, -1.0])]
    return found[1][1] if found[1][0] + _WORTH < found[0][0] else found[0][1]


def _climbed(y: Float[Tensor, "n 1"], logs: Float[Tensor, "n 1"], start: list[float]) -> tuple[float, Likelihood]:
    """The least negative log probability, and the law that has it: of a log dispersion, and log odds of extra zeros."""

    def law(values: Float[np.ndarray, " k"]) -> Likelihood:
        clustered = NegativeBinomial(float(np.exp(values[0])))
        return ZeroInflated(clustered, float(expit(values[1]))) if len(values) > 1 else clustered

    def cost(values: Float[np.ndarray, " k"]) -> float:
        likelihood = law(values)
        with torch.no_grad():
            return -float(likelihood.log_prob(y, logs - log_share(likelihood)).sum())

    best = scipy.optimize.minimize(cost, start, method="L-BFGS-B", bounds=[_DISPERSION, _SHARE][: len(start)])
    return float(best.fun), law(best.x)
