"""Several outputs that help one another, each observed at its own places (co-kriging)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.engines import Belief, Data, Engine, constant, learnt_noise
from stratagp.kernels import Kernel, Matern, Sum, linear_coregionalisation, stack_outputs
from stratagp.kernels.multi_output.labelled import append_label
from stratagp.models import ExactGP, ExactPosterior
from stratagp.training.start import start_from_data, variance_carriers
from stratagp.types import Gaussian

_ROUGHER = 0.3  # the second of two default functions starts with lengthscales this much shorter


class CoKriging(Engine):
    """The exact process over all observed entries of the targets, with a noise variance for each output.

    Rows of ``data.x`` end with the number of their output, and ``data.y`` has one column.
    """

    model: ExactGP
    data: Data

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """Evidence or leave-one-out density."""
        score = self.model.log_leave_one_out if leave_one_out else self.model.log_evidence
        return score(self.data.x, self.data.y[:, 0], self._noise())

    def condition(self) -> list[Belief]:
        """One posterior, asked about each output."""
        posterior = self.model.condition(self.data.x, self.data.y[:, 0], self._noise())
        return [Belief(OneOutput(posterior, j), constant(level)) for j, level in enumerate(self.model.noise)]

    @property
    def points(self) -> Float[Tensor, "n d"]:
        """The rows without the number of their output."""
        return self.data.x[:, :-1]

    def _noise(self) -> Float[Tensor, " n"]:
        level = self.model.noise[self.data.x[:, -1].long()]
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


def joint_of_outputs(
    posterior: ExactPosterior, x: Any, n_outputs: int
) -> tuple[Float[Tensor, " nq"], Float[Tensor, "nq nq"]]:
    """Mean and joint covariance of all outputs at the rows, one output after another."""
    points = stack_outputs([x] * n_outputs)
    cov = posterior.covariance(points)
    return posterior.mean(points), 0.5 * (cov + cov.mT)


def co_kriging(kernel: Kernel | None, columns: list[str], data: Data) -> CoKriging:
    """A linear model of coregionalisation of standardised targets ``n q``, in which NaN says what was not observed.

    Each summand of ``kernel`` is a function that the outputs share, in a mixture of their own; its variance is theirs.
    Left out, there are two, a smoother and a rougher one.
    """
    n_outputs = data.y.shape[1]
    bases = [Matern(nu=2.5, ard=True), Matern(nu=2.5, ard=True)] if kernel is None else _summands(kernel)
    average = data.y.nanmean(1)
    for base in bases:
        start_from_data(base.bind(columns), data.x, average)
        _fix_variance(base)
    if kernel is None:
        bases[1].lengthscale = _ROUGHER * bases[1].lengthscale.detach()
    full = linear_coregionalisation(bases, n_outputs)
    return CoKriging(ExactGP(full, noise=learnt_noise(n_outputs)), _stacked(data))


def check_correlated(estimator: Any) -> None:
    """Refuse options that co-kriging does not know."""
    plain = isinstance(estimator.noise, str) and estimator.noise == "learn" and estimator.mean is None
    if not plain or estimator.missing != "raise" or estimator.inference not in ("auto", "exact"):
        raise InputError(
            "outputs='correlated' is exact, with zero mean, complete inputs and learnt noise: leave mean, missing, "
            "noise and inference as they are"
        )


def _summands(kernel: Kernel) -> list[Kernel]:
    return [copy.deepcopy(part) for part in kernel.parts] if isinstance(kernel, Sum) else [copy.deepcopy(kernel)]


def _fix_variance(base: Kernel) -> None:
    """The mixture tells the size of each function; a second factor could not be told from it."""
    for carrier, _ in variance_carriers(base):
        carrier.fix("variance")


def _stacked(data: Data) -> Data:
    """One row for each observed entry."""
    seen = ~data.y.isnan()
    rows, outputs = _places(seen)
    weights = None if data.weights is None else data.weights[rows]
    return Data(append_label(data.x[rows], outputs), data.y[rows, outputs][:, None], weights)


def _places(seen: Tensor) -> tuple[Int[Tensor, " m"], Int[Tensor, " m"]]:
    outputs, rows = seen.mT.nonzero(as_tuple=True)
    return rows, outputs
