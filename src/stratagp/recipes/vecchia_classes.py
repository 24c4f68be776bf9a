"""Classes of many rows by Vecchia's approximation: sites from expectation propagation, predictions from near rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch

from stratagp.errors import ConvergenceWarning
from stratagp.kernels import Kernel, Matern
from stratagp.likelihoods import Bernoulli
from stratagp.models.fitted import Learnt
from stratagp.models.fitted_classes import VecchiaClassModel
from stratagp.models.fitted_counts import BySites
from stratagp.models.latent_vecchia import BaseRate, VecchiaLatentGP
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.classes import LATENT_VARIANCE
from stratagp.recipes.processes import check_device
from stratagp.recipes.search import Search, train
from stratagp.recipes.smoothness import SMOOTHNESS
from stratagp.training.criterion import Centres, Criterion
from stratagp.training.lbfgs import Curvature
from stratagp.training.start import spreads, start_from_data


class Stage(NamedTuple):
    """How much a climb sees: rows, neighbours of each, rows whose conditionals count; and how often sites are found."""

    rows: int
    neighbours: int
    conditionals: int
    rounds: int


_SEARCH = Stage(1000, 30, 1000, 6)
_COMPARE = Stage(2000, 30, 1000, 2)
_POLISH = Stage(4000, 40, 2000, 5)
_STEPS = 8  # iterations of a climb between two rounds
_ENOUGH = 1e-3  # nats a row: a round that gains less is the last
TOLERANCE = 1e-3  # standard deviations by which sites may still move


@dataclass(frozen=True)
class VecchiaClassRecipe(Recipe):
    """Learn classes by Vecchia's process, from some thousand rows, and predict from all rows.

    Climbs with fixed sites and new sites take turns: where neither moves, the gradient of the evidence is zero.

    Arguments:
        kernel: of the latent functions, bound to its columns. Where it is left out, Matérn kernels compete whose
            smoothness is 1/2, 3/2 and 5/2.
        n_neighbours: how many rows a latent value is conditioned on, and a prediction comes from.
        link: "probit" or "logit"; left out, "probit".
        search: how hyperparameters are learnt.
        mean: what latent functions return to far from all rows: "base-rate", "linear" (with learnt slopes besides) or
            "zero".
    """

    kernel: Kernel | None = None
    n_neighbours: int = 60
    link: str | None = None
    search: Search = field(default_factory=lambda: Search(n_restarts=0))
    mean: str = "base-rate"

    def fit(self, rows: Rows, context: FitContext) -> VecchiaClassModel:
        """Search on few rows, choose the smoothness, polish on more, condition on all."""
        check_device(rows.data.x, context)
        if self.kernel is not None:
            model, centres = self._searched(self.kernel, rows, context)
        else:
            model, centres = self._smoothest(rows, context)
        model = model.on(rows.data.some(_POLISH.rows, context.seed).to(context.device))
        criterion = self._climb(model, _POLISH, centres, context)
        model.draws = [model.on(rows.data.to(context.device)).condition(TOLERANCE)]
        model.learnt = Learnt(self.search.criterion, criterion.named_centres())
        return model

    def _smoothest(self, rows: Rows, context: FitContext) -> tuple[VecchiaClassModel, Centres]:
        """The model of the smoothness that explains the rows best; all start from the values of one."""
        middle, found = self._searched(rows.bind(None, Matern(nu=SMOOTHNESS[1], ard=True)), rows, context)[0], []
        for nu in SMOOTHNESS:
            model, centres = self._start(rows.bind(None, Matern(nu=nu, ard=True)), rows, context)
            model.prior.kernel.load_state_dict(middle.prior.kernel.state_dict())
            model = model.on(rows.data.some(_COMPARE.rows, context.seed).to(context.device))
            self._climb(model, _COMPARE, centres, context)
            context.log(f"smoothness {nu:g}: {model.result.value / len(model.data):.4f} nats a row")
            found.append((model, centres))
        return max(found, key=lambda each: each[0].result.value)

    def _searched(self, kernel: Kernel, rows: Rows, context: FitContext) -> tuple[VecchiaClassModel, Centres]:
        """Values near the best, from the start."""
        model, centres = self._start(kernel, rows, context)
        self._climb(model, _SEARCH, centres, context)
        return model, centres

    def _start(self, kernel: Kernel, rows: Rows, context: FitContext) -> tuple[VecchiaClassModel, Centres]:
        """The model before it has learnt, on some of the rows, and where its values start."""
        data: Data = rows.data
        first = (data.codes == 0).double()
        kernel = start_from_data(kernel, data.x, first - first.mean(), variance=LATENT_VARIANCE)
        counts = torch.bincount(data.codes, minlength=rows.n_classes)[1 if rows.n_classes == 2 else 0 :]
        link, centres = self.link or "probit", Centres()
        middle = (data.x.mean(0), spreads(data.x)) if self.mean == "linear" else None
        mean = None if self.mean == "zero" else BaseRate(kernel, (counts / len(data)).tolist(), link, middle)
        prior = VecchiaLatentGP(kernel, Bernoulli(link), mean, "ep", self.n_neighbours, context.seed)
        model = VecchiaClassModel(prior, data.some(_SEARCH.rows, context.seed), rows.n_classes)
        model.to(context.device)
        Criterion(self.search.criterion, model.module, model.score, centres)
        return model, centres

    def _climb(self, model: VecchiaClassModel, stage: Stage, centres: Centres, context: FitContext) -> Criterion:
        criterion = Criterion(self.search.criterion, model.module, model.score, centres)
        conditionals = stage.conditionals // min(4, model.targets.shape[1])
        stage = stage._replace(neighbours=min(stage.neighbours, self.n_neighbours), conditionals=conditionals)
        climb_in_rounds(model, criterion, self.search, stage, context)
        return criterion


def climb_in_rounds(
    model: BySites, criterion: Criterion, search: Search, stage: Stage, context: FitContext
) -> Criterion:
    """Rounds of sites under the values of now, and a climb of the values under these sites."""
    search = replace(search, max_iterations=min(_STEPS, search.max_iterations))
    last, curvature = -torch.inf, Curvature()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a climb need not end: the next goes on from there
        for _ in range(stage.rounds):
            model.settle(stage.neighbours, stage.conditionals, TOLERANCE)
            model.result = train(criterion, search, context, curvature=curvature)
            search = replace(search, n_restarts=0)
            if not model.result.value - last > _ENOUGH * len(model.data):
                break
            last = model.result.value
    return criterion
