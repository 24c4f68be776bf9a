"""A forest as the prior mean of a process."""

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


@dataclass
class BoostedMeanModel(Around):
    """``y = m(x) + c · g(x)``: a forest, and a process of what forests leave of rows that they have not seen.

    Arguments:
        model: ``g``, learnt from standardised residuals of held-out rows.
        forest: ``m_j``, a column for each fold, whose average is ``m``.
        scale: ``c``, the root mean square of the residuals.
        apart: ``m_j(x)`` of each training row by the forest that has not seen it.
    """

    forest: Forest
    scale: float
    apart: Float[Tensor, " n"] = field(repr=False)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The log density of the residuals, ``log p(r/c) − n log c``."""
        return self.model.score(leave_one_out) - len(self.apart) * np.log(self.scale)

    def predictive(self, x: Any, of: str = "y") -> LocationScale:
        """The distribution of the process, shifted by the forest."""
        found = self.model.predictive(x, of)
        if not isinstance(found, LocationScale):
            raise UnsupportedError("a boosted mean is for processes whose predictions are Gaussian or Student-t")
        means = self._mean(x) + self.scale * found.means
        return replace(found, means=means, variances=self.scale**2 * found.variances)

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The forest and the expected process."""
        return self._mean(x) + self.scale * self.model.function(x)

    def draw(self, x: PointsLike, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Joint draws of the process, shifted by the forest."""
        return self._mean(x) + self.scale * self.model.draw(x, n_samples, of, generator)

    def joint(self, x: PointsLike, of: str) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n n q"]]:
        """Mean and joint covariance."""
        mean, cov = self.model.joint(x, of)
        return self._mean(x) + self.scale * mean, self.scale**2 * cov

    def leave_one_out(self) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n q"]]:
        """Each training target by the forest that has not seen it and the process of all other residuals."""
        mean, var = self.model.leave_one_out()
        return self.apart[:, None].numpy() + self.scale * mean, self.scale**2 * var

    def _mean(self, x: Any) -> Float[np.ndarray, "n 1"]:
        return self.forest(x).mean(1, keepdim=True).numpy()
