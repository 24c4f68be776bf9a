"""Predictions of standardised targets in the units of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from stratagp.predictive.base import Predictive


@dataclass(frozen=True)
class InUnits(Predictive):
    """``shift + scale · Y`` for a distribution of ``Y``.

    A row of observations may have columns that are not predicted, such as marks of censoring: these come last, and
    ``shift`` and ``scale`` have entries for them too.

    >>> from stratagp.predictive import LocationScale
    >>> standard = LocationScale(np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1))
    >>> degrees = InUnits(standard, np.array([20.0]), np.array([5.0]))
    >>> degrees.mean.item(), degrees.var.item()
    (20.0, 25.0)
    """

    standard: Predictive
    shift: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, " p"]

    def __len__(self) -> int:
        return len(self.standard)

    @property
    def discrete(self) -> bool:
        """Whether targets are whole numbers."""
        return self.standard.discrete

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between; units of several targets differ, and none of these has bounds."""
        low, high = (float(end * self.scale[0] + self.shift[0]) for end in self.standard.support)
        return low, high

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """The expected target."""
        return self._back(self.standard.mean)

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """The variance of the target."""
        var = self.standard.var
        return var * self.scale[: var.shape[-1]] ** 2

    def cdf(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """``P(Y ≤ (y − shift)/scale)``."""
        return self.standard.cdf(self._standard(y))

    def log_density(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n r"]:
        """``log p((y − shift)/scale) − log scale``, summed where all targets of a row have one density."""
        found = self.standard.log_density(self._standard(y))
        unit = np.log(self.scale)
        return found - (unit if found.shape[-1] == len(unit) else unit.sum())

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """``shift + scale · q``."""
        return self._back(self.standard.quantile(levels))

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Draws in units."""
        return self._back(self.standard.sample(n_samples, generator))

    def _back(self, values: np.ndarray) -> np.ndarray:
        q = values.shape[-1]
        return values * self.scale[:q] + self.shift[:q]

    def _standard(self, y: np.ndarray) -> np.ndarray:
        p = y.shape[-1]
        return (y - self.shift[:p]) / self.scale[:p]
