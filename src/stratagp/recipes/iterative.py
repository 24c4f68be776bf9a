"""Exact processes that are too large to be factored, by conjugate gradients."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from stratagp.kernels import Kernel
from stratagp.models import ExactGP, IterativeGP
from stratagp.models.fitted_process import IterativeModel
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.exact import noise_of
from stratagp.recipes.processes import check_device, spread_of_filled
from stratagp.recipes.search import Search
from stratagp.recipes.sparse import learn_from_some
from stratagp.training.checkpoint import all_tensors
from stratagp.training.criterion import Centres, Criterion
from stratagp.training.start import start_from_data
from stratagp.training.world import World, join

_SOME = 2000  # rows of the exact process from whose values conjugate gradients start
_STEPS = 10


@dataclass(frozen=True)
class IterativeRecipe(Recipe):
    """Learn an exact process by conjugate gradients, from the values of the exact process on some rows.

    Arguments:
        kernel: bound to its columns, or over objects.
        mean: the prior mean; zero if left out.
        search: how the exact process on some rows learns.
        max_epochs: steps up the evidence of all rows; None for 10.
    """

    kernel: Kernel
    mean: Any = None
    search: Search = field(default_factory=Search)
    max_epochs: int | None = None

    def fit(self, rows: Rows, context: FitContext) -> IterativeModel:
        """Start values, steps, and a solve."""
        context = replace(context, seed=int(join().from_first(context.seed)))  # processes of torchrun share the work
        data, centres = rows.data, Centres()
        start_from_data(self.kernel, data.x, data.y.mean(1))
        mean, noise = copy.deepcopy(self.mean), noise_of(data, "cg")
        learn_from_some(ExactGP(self.kernel, mean, noise), data, _SOME, self.search, context, centres)
        model = IterativeModel(IterativeGP(self.kernel, mean, noise), data)
        check_device(data.x, context)
        model.to(context.device)
        for round_ in range(1 if rows.filled is None else 2):
            if round_:
                model.data = replace(model.data, extra=spread_of_filled(model, rows))
            self._climb(model, context, centres)
            model.draws = [model.condition()]
        return model

    def _climb(self, model: IterativeModel, context: FitContext, centres: Centres) -> None:
        World().copy_first(all_tensors(model.prior))
        criterion = Criterion(self.search.criterion, model.module, model.score, centres)
        model.result = model.prior.fit(
            model.data.x,
            model.data.y,
            model.levels,
            steps=_STEPS if self.max_epochs is None else self.max_epochs,
            penalty=criterion.log_prior if self.search.criterion == "map" else None,
            generator=context.generator(),
            progress=context.progress,
        )
