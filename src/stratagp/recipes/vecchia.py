"""Processes of many rows by Vecchia's approximation: each row is predicted from its nearest rows."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

from stratagp.errors import ConvergenceWarning
from stratagp.kernels import Kernel
from stratagp.models.fitted import Fitted, Learnt
from stratagp.models.fitted_process import ExactModel, VecchiaModel
from stratagp.models.vecchia import VecchiaGP
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.exact import noise_of
from stratagp.recipes.processes import check_device, spread_of_filled
from stratagp.recipes.search import Search, lower, open_noise, train
from stratagp.recipes.smoothness import kernels_of_all, tried_in_turn
from stratagp.training.criterion import Centres, Criterion
from stratagp.training.lbfgs import Curvature
from stratagp.training.start import start_from_data

CONDITIONALS = 4000  # rows whose conditionals the last values come from
_SEARCH = ((500, 30), (500, 30))  # rows and neighbours that a search sees, twice: then in the metric that it found
_COMPARE = (2000, 50)  # those that the best start goes on with, and kernels are compared by
_POLISH = ((CONDITIONALS, 60), (CONDITIONALS, 60))  # those that the last values come from
_NOISE = (5 * CONDITIONALS, 60)  # those that the noise comes from: mistakes among twins are rare
_ENOUGH, _PATIENCE = 1e-3, 4  # nats a row: so many iterations that gain less end a climb


@dataclass(frozen=True)
class VecchiaRecipe(Recipe):
    """Learn Vecchia's process from the conditionals of a few thousand rows, and predict from all rows.

    The rows are those of the later half of a random order: the values are those under which half of the rows predict
    the others best, with neighbours about as near as those of new rows.

    Arguments:
        kernel: bound to its columns. Left out, kernels of several smoothnesses compete.
        n_neighbours: how many rows a prediction comes from.
        mean: the prior mean; zero if left out.
        search: how hyperparameters are learnt.
    """

    kernel: Kernel | None = None
    n_neighbours: int = 200
    mean: Any = None
    search: Search = field(default_factory=Search)

    def fit(self, rows: Rows, context: FitContext) -> VecchiaModel:
        """Search on few conditionals, keep the search that says most about others, and polish on more."""
        check_device(rows.data.x, context)
        way = self._best(rows, context)
        model = way.model
        for round_ in range(1 if rows.filled is None else 2):
            if round_:
                model.data = replace(model.data, extra=spread_of_filled(model, rows))
            before = way.polish(_POLISH)
        if not model.result.converged and model.result.value - before > 10 * _ENOUGH * len(model.data):
            warnings.warn(
                f"the search ended while the score still rose: raise max_iterations above {self.search.max_iterations}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return model

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> VecchiaModel:
        """The values that were learnt before, with all of these rows to be neighbours; polished after few rows."""
        if rows.filled is not None:
            return self.fit(rows, context)
        if (
            isinstance(before, ExactModel)
            and before.learnt is not None
            and before.data.noise is rows.data.noise is None
        ):
            return self._polished(before, before.learnt, rows, context)
        if not isinstance(before, VecchiaModel):
            return self.fit(rows, context)
        few = min(_POLISH[-1][1], self.n_neighbours)
        sets = before.prior.conditionals(rows.data.x, CONDITIONALS, few, late=True)
        again = replace(before, data=rows.data, sets=sets)
        again.draws = [again.condition()]
        return again

    def _polished(self, before: ExactModel, learnt: Learnt, rows: Rows, context: FitContext) -> VecchiaModel:
        """From the values of an exact process of few rows."""
        kernel, mean, noise = copy.deepcopy((before.prior.kernel, before.prior.mean, before.prior.parameter("noise")))
        prior = VecchiaGP(kernel, mean, noise, self.n_neighbours, context.seed)
        search = replace(self.search, n_restarts=0)
        way = _Way(VecchiaModel(prior, rows.data), search, context, learnt.centres_of(prior))
        way.polish((_COMPARE, _POLISH[-1]))
        return way.model

    def _best(self, rows: Rows, context: FitContext) -> _Way:
        """The search that says most about rows it has not seen, of the given kernel or of all smoothnesses."""

        def learn(kernel: Kernel, before: _Way | None) -> _Way:
            if before is None:
                way = max(self._searches(kernel, rows, context), key=_Way.judged)
            else:
                way = before.under(self._start(kernel, rows, context))
            way.climb(_COMPARE)
            context.log(f"{way.model.prior.kernel}: {way.judged():.4f} nats a row")
            return way

        kernels = kernels_of_all(rows) if self.kernel is None else [self.kernel]
        return max(tried_in_turn(kernels, learn, _Way.judged), key=_Way.judged)

    def _searches(self, kernel: Kernel, rows: Rows, context: FitContext) -> list[_Way]:
        """Values near the best, from a start with much noise and, where it is learnt, from one with little."""
        ways = [self._start(kernel, rows, context)]
        if ways[0].may_begin_quietly():
            ways.append(self._start(kernel, rows, context))
            ways[0].search = replace(self.search, n_restarts=0)
            ways[1].begin_quietly()
        for way in ways:
            for size in _SEARCH:
                way.climb(size)
        return ways

    def _start(self, kernel: Kernel, rows: Rows, context: FitContext) -> _Way:
        data = rows.data
        kernel = start_from_data(kernel, data.x, data.y.mean(1))
        noise = noise_of(data, "vecchia")
        prior = VecchiaGP(kernel, copy.deepcopy(self.mean), noise, self.n_neighbours, context.seed)
        way = _Way(VecchiaModel(prior, data), self.search, context)
        way.model.to(context.device)
        return way


@dataclass
class _Way:
    """A model on its way to the best values, with what its climbs have learnt so far."""

    model: VecchiaModel
    search: Search
    context: FitContext
    centres: Centres = field(default_factory=Centres)
    curvature: Curvature = field(default_factory=Curvature)
    worth: float | None = None  # as judged, until the next climb

    def judged(self) -> float:
        """The density of rows that no climb has seen."""
        self.worth = self.model.judged() if self.worth is None else self.worth
        return self.worth

    def under(self, other: _Way) -> _Way:
        """Another kernel, from the values of this one."""
        Criterion(other.search.criterion, other.model.module, other.model.score, other.centres)
        other.model.module.load_state_dict(self.model.module.state_dict())
        other.search, other.curvature = replace(self.search, n_restarts=0), self.curvature.times(1)
        return other

    def may_begin_quietly(self) -> bool:
        """Whether there is a second start: noise that is learnt, and a search that may try it."""
        tries = self.search.n_restarts and self.search.max_iterations
        return bool(tries) and open_noise(self.model.module) is not None

    def begin_quietly(self) -> None:
        """Let the noise start low; its prior stays where it was."""
        noise = open_noise(self.model.module)
        assert noise is not None
        Criterion(self.search.criterion, self.model.module, self.model.score, self.centres)
        lower(noise)

    def polish(self, sizes: tuple[tuple[int, int], ...]) -> float:
        """Climb, settle the noise, condition; returns the score before the last climb."""
        for size in sizes:
            before = -math.inf if self.model.result is None else self.model.result.value
            criterion = self.climb(size)
        self.settle_noise()
        self.model.draws = [self.model.condition()]
        self.model.learnt = Learnt(self.search.criterion, criterion.named_centres())
        return before

    def settle_noise(self) -> None:
        """Move the noise alone to where it explains many more conditionals best."""
        noise, model = self.model.prior.noise_parameter, self.model
        few = len(model.data) < 2 * CONDITIONALS
        if few or noise is None or not noise.trainable or self.search.criterion == "loo":
            return
        kept = model.result, model.sets, self.curvature
        others = [value for value in model.module.parameters() if value is not noise.raw and value.requires_grad]
        for value in others:
            value.requires_grad_(False)
        self.curvature = Curvature()
        try:
            self.climb(_NOISE, patience=1)
        finally:
            for value in others:
                value.requires_grad_(True)
            model.result, model.sets, self.curvature = kept

    def climb(self, size: tuple[int, int], patience: int = _PATIENCE) -> Criterion:
        """Move the values to where they explain so many conditionals best, with neighbours of now.

        The first climb tries all starts; the others begin where the last one ended, with the curvature that it learnt.
        """
        model, (n_rows, n_neighbours), self.worth = self.model, size, None
        search = self.search if model.result is None else replace(self.search, n_restarts=0)
        few = min(n_neighbours, model.prior.n_neighbours)
        model.sets = model.prior.conditionals(model.data.x, n_rows, few, late=True)
        criterion = Criterion(self.search.criterion, model.module, model.score, self.centres)
        criterion.recall()
        enough = _ENOUGH * len(model.data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a climb need not end: the next goes on from there
            model.result = train(criterion, search, self.context, enough, patience, self.curvature)
        return criterion
