"""Processes of many rows by Vecchia's approximation: each row is predicted from its nearest rows."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stratagp.errors import ConvergenceWarning, NotPositiveDefiniteError, NumericalWarning
from stratagp.kernels import Kernel, Matern
from stratagp.models.fitted import Fitted, Learnt
from stratagp.models.fitted_process import ExactModel, ProcessModel, VecchiaModel
from stratagp.models.vecchia import VecchiaGP
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.exact import ExactRecipe, noise_of
from stratagp.recipes.processes import check_device, spread_of_filled
from stratagp.recipes.search import Search, lower, open_noise, train
from stratagp.recipes.smoothness import SMOOTHNESS
from stratagp.training.criterion import Centres, Criterion
from stratagp.training.lbfgs import Curvature
from stratagp.training.start import start_from_data

CONDITIONALS = 4000  # rows whose conditionals the last values come from
_SEARCH = ((500, 30), (500, 30))  # rows and neighbours that a search sees, twice: then in the metric that it found
_COMPARE = (2000, 50)  # those that the best searches go on with
_KEPT = 3  # searches that go on
_POLISH = ((CONDITIONALS, 60), (CONDITIONALS, 60))  # those that the last values come from
_EVIDENCE = 1500  # rows whose evidence competes with conditionals
_NOISE = (5 * CONDITIONALS, 60)  # those that the noise comes from: mistakes among twins are rare
_FEW, _MANY, _WORTH = 200, 400, 0.01  # neighbours of a prediction, and the nats that make more of them worth their time
_ENOUGH, _PATIENCE = 1e-3, 4  # nats a row: so many iterations that gain less end a climb


@dataclass(frozen=True)
class VecchiaRecipe(Recipe):
    """Learn Vecchia's process from the conditionals of a few thousand rows, and predict from all rows.

    The rows are those of the later half of a random order: the values are those under which half of the rows predict
    the others best, with neighbours about as near as those of new rows.

    Arguments:
        kernel: bound to its columns. Left out, kernels of several smoothnesses compete.
        n_neighbours: how many rows a prediction comes from. Left out: 200, or 400 where these foretell rows that are
            left out better by 0.01 nats each.
        mean: the prior mean; zero if left out.
        search: how hyperparameters are learnt.
    """

    kernel: Kernel | None = None
    n_neighbours: int | None = None
    mean: Any = None
    search: Search = field(default_factory=Search)

    def fit(self, rows: Rows, context: FitContext) -> VecchiaModel:
        """Search on few conditionals, keep the search that says most about others, and polish on more.

        What the evidence of few rows says competes at last, on rows that are left out.
        """
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
        other = self._by_evidence(model, rows, context)
        worth = [each.foretold() for each in (model, other)]
        context.log(f"rows left out: {worth[0]:.4f} nats each, with values by the evidence of few rows {worth[1]:.4f}")
        best = other if worth[1] > worth[0] else model
        return best if self.n_neighbours else _from_enough(best, max(worth), context)

    def _by_evidence(self, model: VecchiaModel, rows: Rows, context: FitContext) -> VecchiaModel:
        """All rows with the values that explain few of them best: of smooth functions, conditionals see too little."""
        extra = None if model.data.extra is None else model.data.extra.to(rows.data.y.device)
        some = replace(rows, data=replace(rows.data, extra=extra).some(_EVIDENCE, context.seed), filled=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # values compete as they are
            warnings.simplefilter("error", NumericalWarning)
            try:
                exact = ExactRecipe(self.kernel, self.mean, self.search).fit(some, context)
            except (NumericalWarning, NotPositiveDefiniteError):
                return model
        found = VecchiaModel(self._prior_of(exact, context), model.data, [], exact.learnt, exact.result, model.sets)
        found.draws = [found.condition()]
        return found

    def _prior_of(self, exact: ProcessModel, context: FitContext) -> VecchiaGP:
        """The process with the values of an exact one."""
        kernel, mean, noise = copy.deepcopy((exact.prior.kernel, exact.prior.mean, exact.prior.parameter("noise")))
        return VecchiaGP(kernel, mean, noise, self.n_neighbours or _FEW, context.seed)

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
        few = min(_POLISH[-1][1], before.prior.n_neighbours)
        sets = before.prior.conditionals(rows.data.x, CONDITIONALS, few, late=True)
        again = replace(before, data=rows.data, sets=sets)
        again.draws = [again.condition()]
        return again

    def _polished(self, before: ExactModel, learnt: Learnt, rows: Rows, context: FitContext) -> VecchiaModel:
        """From the values of an exact process of few rows."""
        prior = self._prior_of(before, context)
        search = replace(self.search, n_restarts=0)
        way = _Way(VecchiaModel(prior, rows.data), search, context, learnt.centres_of(prior))
        way.polish((_COMPARE, _POLISH[-1]))
        return way.model

    def _best(self, rows: Rows, context: FitContext) -> _Way:
        """The search that says most about rows it has not seen, of the given kernel or of all smoothnesses."""
        kernels = [self.kernel] if self.kernel is not None else self._of_all_smoothnesses(rows)
        ways = [way for kernel in kernels for way in self._searches(kernel, rows, context)]
        if len(ways) == 1:
            return ways[0]
        kept = sorted(ways, key=lambda way: way.model.judged(), reverse=True)[:_KEPT]
        found = []
        for way in kept:
            way.climb(_COMPARE)
            found.append(way.model.judged())
            context.log(f"{way.model.prior.kernel}: {found[-1]:.4f} nats a row")
        return kept[int(np.argmax(found))]

    def _of_all_smoothnesses(self, rows: Rows) -> list[Kernel]:
        return [rows.bind(None, Matern(nu=nu, ard=True)) for nu in SMOOTHNESS]

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
        prior = VecchiaGP(kernel, copy.deepcopy(self.mean), noise, self.n_neighbours or _FEW, context.seed)
        way = _Way(VecchiaModel(prior, data), self.search, context)
        way.model.to(context.device)
        return way


def _from_enough(model: VecchiaModel, foretold: float, context: FitContext) -> VecchiaModel:
    """The model with more neighbours for each prediction, where rows that are left out gain by them."""
    if len(model.data) <= _FEW:
        return model
    more = model.seen_from(_MANY)
    gain = more.foretold() - foretold
    context.log(f"rows left out: {gain:.4f} nats each gained by {_MANY} neighbours instead of {_FEW}")
    if not gain >= _WORTH:  # nor where it is not a number
        return model
    more.prior.n_neighbours = _MANY
    return more


@dataclass
class _Way:
    """A model on its way to the best values, with what its climbs have learnt so far."""

    model: VecchiaModel
    search: Search
    context: FitContext
    centres: Centres = field(default_factory=Centres)
    curvature: Curvature = field(default_factory=Curvature)

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
        model, (n_rows, n_neighbours) = self.model, size
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
