"""Several outputs that help one another, each observed at its own places (co-kriging)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from stratagp.kernels import Kernel, Matern, Sum, linear_coregionalisation
from stratagp.kernels.multi_output.labelled import append_label
from stratagp.models import ExactGP
from stratagp.models.cokriging import CoKrigingModel
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.exact import learnt_noise
from stratagp.recipes.processes import fit_process
from stratagp.recipes.search import Search
from stratagp.training.start import start_from_data, variance_carriers

_ROUGHER = 0.3  # the second of two default functions starts with lengthscales this much shorter


@dataclass(frozen=True)
class CoKrigingRecipe(Recipe):
    """A linear model of coregionalisation of targets in which NaN says what was not observed.

    Each summand of ``kernel`` is a function that the outputs share, in a mixture of their own; its variance is theirs.
    Left out, there are two, a smoother and a rougher one.
    """

    kernel: Kernel | None = None
    search: Search = field(default_factory=Search)

    def fit(self, rows: Rows, context: FitContext) -> CoKrigingModel:
        """Start each function from the data, climb, condition."""
        data = rows.data
        rough = self.kernel is None
        bases = [Matern(nu=2.5, ard=True), Matern(nu=2.5, ard=True)] if self.kernel is None else _summands(self.kernel)
        average = data.y.nanmean(1)
        bases = [start_from_data(base.bind(rows.columns), data.x, average) for base in bases]
        for base in bases:
            for carrier, _ in variance_carriers(base):  # the mixture tells the size of each function
                carrier.fix("variance")
        if rough:
            bases[1].lengthscale = _ROUGHER * bases[1].lengthscale.detach()
        n_outputs = data.y.shape[1]
        prior = ExactGP(linear_coregionalisation(bases, n_outputs), noise=learnt_noise(n_outputs))
        return fit_process(CoKrigingModel(prior, _stacked(data)), self.search, rows, context)


def _summands(kernel: Kernel) -> list[Kernel]:
    return [copy.deepcopy(part) for part in kernel.parts] if isinstance(kernel, Sum) else [copy.deepcopy(kernel)]


def _stacked(data: Data) -> Data:
    """One row for each observed entry, one output after another."""
    outputs, rows = (~data.y.isnan()).mT.nonzero(as_tuple=True)
    weights = None if data.weights is None else data.weights[rows]
    return Data(append_label(data.x[rows], outputs), data.y[rows, outputs][:, None], weights)
