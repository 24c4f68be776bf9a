"""Processes of many rows by Vecchia's approximation: each row is predicted from its nearest rows."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

from stratagp.errors import ConvergenceWarning
from stratagp.kernels import Kernel, Matern
from stratagp.models.fitted import Fitted, Learnt
from stratagp.models.fitted_process import VecchiaModel
from stratagp.models.vecchia import VecchiaGP
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.exact import noise_of
from stratagp.recipes.processes import check_device, spread_of_filled
from stratagp.recipes.search import Search, train
from stratagp.training.criterion import Centres, Criterion
from stratagp.training.start import start_from_data

SMOOTHNESS = (2.5, 1.5, 0.5)  # of the Matérn kernels that compete where nobody gave one
CONDITIONALS = 4000  # rows whose conditionals the last values come from
_SEARCH = ((500, 30), (500, 30))  # rows and neighbours that a search sees, twice: then in the metric that it found
_COMPARE = (2000, 50)  # those that smoothnesses are compared by
_POLISH = ((CONDITIONALS, 60), (CONDITIONALS, 60))  # those that the last values come from
_ENOUGH = 1e-3  # nats a row: ten iterations that gain less end a climb


@dataclass(frozen=True)
class VecchiaRecipe(Recipe):
    """Learn Vecchia's process from the conditionals of a few thousand rows, and predict from all rows.

    Arguments:
        kernel: bound to its columns. Where it is left out, Matérn kernels compete whose smoothness is 1/2, 3/2 and 5/2.
        n_neighbours: how many rows a prediction comes from.
        mean: the prior mean; zero if left out.
        search: how hyperparameters are learnt.
    """

    kernel: Kernel | None = None
    n_neighbours: int = 200
    mean: Any = None
    search: Search = field(default_factory=Search)

    def fit(self, rows: Rows, context: FitContext) -> VecchiaModel:
        """Search on few conditionals, choose the smoothness on more, and polish on yet more."""
        check_device(rows.data.x, context)
        model, centres = self._best(rows, context)
        for round_ in range(1 if rows.filled is None else 2):
            if round_:
                model.data = replace(model.data, extra=spread_of_filled(model, rows))
            for size in _POLISH:
                before = model.result.value
                criterion = self._climb(model, size, centres, context)
            model.draws = [model.condition()]
        model.learnt = Learnt(self.search.criterion, criterion.named_centres())
        if not model.result.converged and model.result.value - before > 10 * _ENOUGH * len(model.data):
            warnings.warn(
                f"the search ended while the score still rose: raise max_iterations above {self.search.max_iterations}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return model

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> VecchiaModel:
        """The values that were learnt before, with all of these rows to be neighbours."""
        if not isinstance(before, VecchiaModel) or rows.filled is not None:
            return self.fit(rows, context)
        few = min(_POLISH[-1][1], self.n_neighbours)
        again = replace(before, data=rows.data, sets=before.prior.conditionals(rows.data.x, CONDITIONALS, few))
        again.draws = [again.condition()]
        return again

    def _best(self, rows: Rows, context: FitContext) -> tuple[VecchiaModel, Centres]:
        """The model of the given kernel, or of the smoothness that explains the rows best."""
        if self.kernel is not None:
            return self._searched(self.kernel, rows, context)
        found = []
        for nu in SMOOTHNESS:
            model, centres = self._searched(rows.bind(None, Matern(nu=nu, ard=True)), rows, context)
            self._climb(model, _COMPARE, centres, context)
            found.append((model, centres))
            context.log(f"smoothness {nu:g}: {model.result.value / len(rows.data):.4f} nats a row")
        return max(found, key=lambda each: each[0].result.value)

    def _searched(self, kernel: Kernel, rows: Rows, context: FitContext) -> tuple[VecchiaModel, Centres]:
        """Values near the best, from all starts."""
        data, centres = rows.data, Centres()
        start_from_data(kernel, data.x, data.y.mean(1))
        noise = noise_of(data, "vecchia")
        prior = VecchiaGP(kernel, copy.deepcopy(self.mean), noise, self.n_neighbours, context.seed)
        model = VecchiaModel(prior, data)
        model.to(context.device)
        for size in _SEARCH:
            self._climb(model, size, centres, context)
        return model, centres

    def _climb(self, model: VecchiaModel, size: tuple[int, int], centres: Centres, context: FitContext) -> Criterion:
        """Move the values of a model to where they explain so many conditionals best, with neighbours of now.

        The first climb tries all starts; the others begin where the last one ended.
        """
        search = self.search if model.result is None else replace(self.search, n_restarts=0)
        n_rows, n_neighbours = size
        model.sets = model.prior.conditionals(model.data.x, n_rows, min(n_neighbours, self.n_neighbours))
        criterion = Criterion(self.search.criterion, model.module, model.score, centres)
        criterion.recall()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a climb need not end: the next goes on from there
            model.result = train(criterion, search, context, _ENOUGH * len(model.data))
        return criterion
