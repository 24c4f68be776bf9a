"""How large errors are and how they are distributed, learnt from rows that a model has not seen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import UnsupportedError
from stratagp.models.fitted import Around
from stratagp.models.forest import Forest
from stratagp.predictive import LocationScale
from stratagp.types import PointsLike

LEAST_VARIANCE = 1e-8  # of standardised targets, as that of the noise of processes


@dataclass(frozen=True)
class Spread:
    """The variance and shape of errors, ``log v(x) = level + slope · s(x, m(x))``.

    >>> one = Spread(level=0.0)
    >>> one.variances(torch.zeros(2, 1).double(), torch.zeros(2).double()).tolist()
    [1.0, 1.0]

    Arguments:
        level: the log variance where ``s`` is zero.
        slope: how much of what the forest says is believed.
        dof: degrees of freedom of a t distribution; None for a Gaussian.
        forest: ``s``, with a column for each fold; None for one variance.
        sees_mean: whether ``s`` sees the predicted mean beside the columns.
    """

    level: float
    slope: float = 0.0
    dof: float | None = None
    forest: Forest | None = None
    sees_mean: bool = True

    def variances(self, x: Float[Tensor, "n d"], mean: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The variance at each row."""
        if self.forest is None:
            return self.of_scores(torch.zeros_like(mean))
        seen = torch.cat([x, mean[:, None]], 1) if self.sees_mean else x
        return self.of_scores(self.forest(seen).mean(1))

    def of_scores(self, scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The variance from what the forest says."""
        return (self.level + self.slope * scores).exp().clamp_min(LEAST_VARIANCE)


@dataclass
class SpreadModel(Around):
    """A model whose variances are multiplied by ``v(x)``, with a Gaussian or Student-t shape.

    ``y ~ t_ν(m(x), v(x) s²(x))`` for a model that says ``N(m(x), s²(x))``.

    Arguments:
        model: says ``m`` and ``s²``, and what is believed about the function.
        spread: ``v`` and ``ν``.
        y: the training targets.
        held_out_mean, held_out_var: mean and variance of each training row from other rows.
    """

    spread: Spread
    y: Float[Tensor, "n 1"] = field(repr=False)
    held_out_mean: Float[Tensor, " n"] = field(repr=False)
    held_out_var: Float[Tensor, " n"] = field(repr=False)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The score of the model; or the density of all rows, each predicted from others."""
        if not leave_one_out:
            return self.model.score()
        return torch.as_tensor(self.held_out().log_density(self.y.cpu().numpy()).sum())

    def held_out(self) -> LocationScale:
        """What is said of each training row from other rows."""
        mean, var = self.leave_one_out()
        return LocationScale(mean[None], var[None], np.zeros(1), self.spread.dof)

    def leave_one_out(self) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n q"]]:
        """Mean and variance of each training row, predicted from other rows."""
        return self.held_out_mean[:, None].numpy(), self.held_out_var[:, None].numpy()

    def predictive(self, x: Any, of: str = "y") -> LocationScale:
        """The distribution of targets with its new width and shape; that of the function as the model has it."""
        found = self.model.predictive(x, of)
        if not isinstance(found, LocationScale):
            raise UnsupportedError("a spread is for models whose predictions are Gaussian or Student-t")
        if of == "f":
            return found
        return replace(found, variances=found.variances * self._factors(x, found.mean), dof=self.spread.dof)

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The expected function."""
        return self.model.function(x)

    def joint(self, x: PointsLike, of: str) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n n q"]]:
        """Mean and joint covariance: correlations are those of the model."""
        mean, cov = self.model.joint(x, of)
        if of == "f":
            return mean, cov
        width = np.sqrt(self._factors(x, mean))
        return mean, cov * width[:, None] * width[None]

    def draw(self, x: PointsLike, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Joint draws of the model, whose distances from the mean are stretched in each row."""
        drawn = self.model.draw(x, n_samples, of, generator)
        if of == "f":
            return drawn
        mean, dof = self.model.function(x), self.spread.dof
        factors = self._factors(x, mean)
        if dof is not None:
            gamma = torch._standard_gamma(torch.full(drawn.shape, dof / 2).double(), generator=generator).numpy()
            factors = factors * (dof - 2) / (2 * gamma)
        return mean + np.sqrt(factors) * (drawn - mean)

    def _factors(self, x: Any, mean: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, "n 1"]:
        """``v`` at each row."""
        points = torch.as_tensor(x, dtype=torch.float64).detach().cpu()
        return self.spread.variances(points, torch.from_numpy(mean[:, 0]))[:, None].numpy()
