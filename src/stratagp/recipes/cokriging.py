"""Several outputs that help one another, each observed at its own places (co-kriging)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel, Matern, Sum, linear_coregionalisation, stack_outputs
from stratagp.kernels.multi_output.labelled import append_label
from stratagp.models import ExactGP, ExactPosterior
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.exact import learnt_noise
from stratagp.recipes.processes import ProcessModel, TargetPosterior, fit_process, normal_draws, settled
from stratagp.recipes.search import Search
from stratagp.training.start import start_from_data, variance_carriers
from stratagp.types import Gaussian

_ROUGHER = 0.3  # the second of two default functions starts with lengthscales this much shorter


class CoKrigingModel(ProcessModel):
    """The exact process over all observed entries of the targets, with a noise variance for each output.

    Rows of ``data.x`` end with the number of their output, and ``data.y`` has one column.
    """

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """Evidence or leave-one-out density."""
        score = self.prior.log_leave_one_out if leave_one_out else self.prior.log_evidence
        return score(self.data.x, self.data.y[:, 0], self._noise())

    def condition(self) -> list[TargetPosterior]:
        """One posterior, asked about each output."""
        posterior = self.prior.condition(self.data.x, self.data.y[:, 0], self._noise())
        return [
            TargetPosterior(OneOutput(posterior, j), settled(level))
            for j, level in enumerate(self.prior.noise.reshape(-1))
        ]

    @property
    def points(self) -> Float[Tensor, "n d"]:
        """The rows without the number of their output."""
        return self.data.x[:, :-1]

    def _functions(
        self, targets: list[TargetPosterior], x: Any, n_samples: int, generator: torch.Generator
    ) -> Float[Tensor, "s n q"]:
        """All outputs are drawn together."""
        posterior, points = targets[0].process.posterior, stack_outputs([x] * len(targets))
        cov = posterior.covariance(points)
        drawn = normal_draws(posterior.mean(points), 0.5 * (cov + cov.mT), n_samples, None, generator)
        return drawn.unflatten(1, (len(targets), -1)).mT

    def _noise(self) -> Float[Tensor, " n"]:
        level = self.prior.noise.reshape(-1)[self.data.x[:, -1].long()]
        return level if self.data.weights is None else level / self.data.weights


@dataclass(frozen=True)
class OneOutput:
    """A process of several outputs, asked about one of them."""

    posterior: ExactPosterior
    index: int

    def mean(self, x: Any) -> Float[Tensor, " n"]:
        """The expected function at each row."""
        return self.posterior.mean(append_label(x, self.index))

    def marginals(self, x: Any) -> Gaussian:
        """Mean and variance at each row, as ``n 1``."""
        return self.posterior.marginals(append_label(x, self.index))

    def covariance(self, x: Any) -> Float[Tensor, "n n"]:
        """The joint covariance of the rows."""
        return self.posterior.covariance(append_label(x, self.index))


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
        for base in bases:
            start_from_data(base.bind(rows.columns), data.x, average)
            for carrier, _ in variance_carriers(base):  # the mixture tells the size of each function
                carrier.fix("variance")
        if rough:
            bases[1].lengthscale = _ROUGHER * bases[1].lengthscale.detach()
        n_outputs = data.y.shape[1]
        prior = ExactGP(linear_coregionalisation(bases, n_outputs), noise=learnt_noise(n_outputs))
        model = CoKrigingModel(prior, _stacked(data))
        fit_process(model, self.search, rows, context)
        return model


def _summands(kernel: Kernel) -> list[Kernel]:
    return [copy.deepcopy(part) for part in kernel.parts] if isinstance(kernel, Sum) else [copy.deepcopy(kernel)]


def _stacked(data: Data) -> Data:
    """One row for each observed entry, one output after another."""
    outputs, rows = (~data.y.isnan()).mT.nonzero(as_tuple=True)
    weights = None if data.weights is None else data.weights[rows]
    return Data(append_label(data.x[rows], outputs), data.y[rows, outputs][:, None], weights)
