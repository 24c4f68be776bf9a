"""A fitted process of several outputs that help one another (co-kriging)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import stack_outputs
from stratagp.kernels.multi_output.labelled import append_label
from stratagp.models.exact import ExactPosterior
from stratagp.models.fitted_process import ProcessModel
from stratagp.models.target_posterior import TargetPosterior, normal_draws, settled
from stratagp.types import Gaussian, PointsLike


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

    def log_unit(self, log_scale: Float[np.ndarray, " q"]) -> float:
        """Each observed entry has the unit of its output."""
        return float(log_scale[self.data.x[:, -1].long().cpu().numpy()].sum())

    @property
    def points(self) -> Float[Tensor, "n d"]:
        """The rows without the number of their output."""
        return self.data.x[:, :-1]

    def _functions(
        self, targets: list[TargetPosterior], x: PointsLike, n_samples: int, generator: torch.Generator
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

    def mean(self, x: PointsLike) -> Float[Tensor, " n"]:
        """The expected function at each row."""
        return self.posterior.mean(append_label(x, self.index))

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance at each row, as ``n 1``."""
        return self.posterior.marginals(append_label(x, self.index))

    def covariance(self, x: PointsLike) -> Float[Tensor, "n n"]:
        """The joint covariance of the rows."""
        return self.posterior.covariance(append_label(x, self.index))
