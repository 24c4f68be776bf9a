"""Processes by inducing points and the collapsed bound."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.models import ExactGP, SparseGP
from stratagp.models.fitted_process import ExactModel, SparseModel
from stratagp.models.observations import some_rows
from stratagp.parameters import real
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.exact import noise_of
from stratagp.recipes.processes import fit_process
from stratagp.recipes.search import Known, Search, train
from stratagp.training.criterion import Centres, Criterion
from stratagp.training.inducing_points import greedy_points
from stratagp.training.start import start_from_data

_SMALL = 1000  # rows of the exact process from whose values inference by inducing points starts
_CANDIDATES = 10_000  # rows that compete for inducing points


@dataclass(frozen=True)
class SparseRecipe(Recipe):
    """Learn a process by inducing points, from the values of the exact process on some rows.

    Arguments:
        kernel: bound to its columns.
        n_inducing: how many inducing points.
        mean: the prior mean; zero if left out.
        search: how hyperparameters are learnt.
    """

    kernel: Kernel
    n_inducing: int
    mean: Any = None
    search: Search = field(default_factory=Search)

    def fit(self, rows: Rows, context: FitContext) -> SparseModel:
        """Values near the best, points that suit them, and the bound."""
        data, centres = rows.data, Centres()
        kernel = start_from_data(self.kernel, data.x, data.y.mean(1))
        mean, noise = copy.deepcopy(self.mean), noise_of(data, "sparse")
        learn_from_some(ExactGP(kernel, mean, noise), data, _SMALL, self.search, context, centres)
        points = inducing_points(kernel, data.x, self.n_inducing, context.seed)
        prior = SparseGP(kernel, real(points, trainable=False, name="z"), mean, noise)
        return fit_process(SparseModel(prior, data), self.search, rows, context, Known(centres, rows=len(data)))


def learn_from_some(
    prior: ExactGP, data: Data, most: int, search: Search, context: FitContext, centres: Centres
) -> None:
    """Values of a process near the best, by the exact process of at most ``most`` rows."""
    small = ExactModel(prior, data.some(most, context.seed))
    train(Criterion("map", small.module, small.score, centres), search, context)


def inducing_points(kernel: Kernel, x: Tensor, m: int, seed: int) -> Tensor:
    """The rows about which the others say least, under the kernel as it is."""
    return greedy_points(kernel, x[some_rows(len(x), _CANDIDATES, seed)], m)[0]
