"""Counts by a process for the log of their rate: rounds of sites and climbs of a variational bound."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import torch

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.likelihoods import Hurdle, Likelihood
from stratagp.means import Constant
from stratagp.models.fitted import Fitted, Learnt
from stratagp.models.fitted_counts import CountModel
from stratagp.models.latent_vecchia import VecchiaLatentGP
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.processes import check_device
from stratagp.recipes.search import Search
from stratagp.recipes.vecchia_classes import TOLERANCE, Stage, climb_in_rounds
from stratagp.training.criterion import Centres, Criterion
from stratagp.training.start import start_from_data

_STAGES = (Stage(1000, 30, 1000, 6), Stage(4000, 40, 2000, 4))  # of a fit; one that goes on takes the last alone
_LEAST = -5.0  # log rate that the mean starts from at least


@dataclass(frozen=True)
class CountRecipe(Recipe):
    """Learn counts by Vecchia's process for the log of their rate, from some thousand rows, and predict from all.

    Values of the kernel and of the likelihood climb the best Gaussian bound on the evidence: climbs with fixed sites
    and new sites take turns, and where neither moves, the gradient of the bound is zero (nearly so for ZeroInflated,
    whose density is not log-concave).

    Arguments:
        kernel: of the log rate, bound to its columns.
        likelihood: Poisson, NegativeBinomial, or one of these ZeroInflated.
        n_neighbours: how many rows a latent value is conditioned on, and a prediction comes from.
        search: how hyperparameters are learnt.

    >>> from stratagp import kernels as k, likelihoods
    >>> from stratagp.testing.recipe import toy_rows
    >>> rows = toy_rows()
    >>> rows.data.y = rows.data.y.exp().round()
    >>> model = CountRecipe(k.RBF(ard=2), likelihoods.Poisson(), 10).fit(rows, FitContext())
    >>> model.predictive(rows.data.x[:3]).discrete
    True
    """

    kernel: Kernel
    likelihood: Likelihood
    n_neighbours: int = 60
    search: Search = field(default_factory=lambda: Search(n_restarts=0))

    def fit(self, rows: Rows, context: FitContext) -> CountModel:
        """Start from the data, climb on few rows and on more, condition on all."""
        data, likelihood = rows.data, copy.deepcopy(self.likelihood)
        check_device(data.x, context)
        if not likelihood.discrete or isinstance(likelihood, Hurdle) or data.y.shape[1] > 1:
            raise InputError(
                f"likelihood must be Poisson, NegativeBinomial or ZeroInflated, for one target, got {likelihood}"
            )
        if data.weights is not None or data.noise is not None:
            raise InputError("processes of counts use neither weights nor known noise: leave them out")
        logs = torch.log1p(data.y[:, 0])
        kernel = start_from_data(self.kernel, data.x, (logs - logs.mean()) / logs.std().clamp_min(1e-6))
        mean = Constant(max(likelihood.start(data.y), _LEAST))
        prior = VecchiaLatentGP(kernel, likelihood, mean, "variational", self.n_neighbours, context.seed)
        return self._learnt(CountModel(prior.to(context.device), data), rows, _STAGES, {}, context)

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> CountModel:
        """The last climb, from the values that were learnt before."""
        if not isinstance(before, CountModel) or before.learnt is None:
            return self.fit(rows, context)
        model = before.on(rows.data)
        model.prior = copy.deepcopy(before.prior)
        return self._learnt(model, rows, _STAGES[-1:], before.learnt.centres_of(model.prior), context)

    def _learnt(
        self, model: CountModel, rows: Rows, stages: tuple[Stage, ...], centres: Centres, context: FitContext
    ) -> CountModel:
        for stage in stages:
            model = model.on(rows.data.some(stage.rows, context.seed).to(context.device))
            criterion = Criterion(self.search.criterion, model.module, model.score, centres)
            stage = stage._replace(neighbours=min(stage.neighbours, self.n_neighbours))
            climb_in_rounds(model, criterion, self.search, stage, context)
        model.learnt = Learnt(self.search.criterion, criterion.named_centres())
        model.posterior = model.on(rows.data.to(context.device)).condition(TOLERANCE)
        return model
