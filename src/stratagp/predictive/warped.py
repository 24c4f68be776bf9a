"""Predictions of a target through an increasing function of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.special import ndtr

from stratagp.predictive.base import Predictive

_NODES = 40  # of the quadrature behind mean and variance
_REACH = 3.1  # standard normal deviations that it spans: the central 99.8 %


@runtime_checkable
class Increasing(Protocol):
    """A smooth increasing function ``g`` of a target."""

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""

    def forward(self, y: np.ndarray) -> np.ndarray:
        """``g(y)``."""

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """``g⁻¹(z)``."""

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """``log g'(y)``."""


@dataclass(frozen=True)
class Warped(Predictive):
    """``Y = g⁻¹(Z)`` for a distribution of ``Z``.

    Density, distribution function, quantiles and draws are exact. Mean and variance are those of the central 99.8 % of
    the distribution, by quadrature over its quantiles: the logarithm of a target that has a t distribution, for one,
    has no mean at all.

    >>> from stratagp.models.warps import Log
    >>> from stratagp.predictive import LocationScale
    >>> price = Warped(LocationScale(np.zeros((1, 1, 1)), np.full((1, 1, 1), 0.25), np.zeros(1)), Log(0.0, 0.0, 1.0))
    >>> round(price.mean.item(), 2), price.quantile([0.5]).item()  # exp(0.25 / 2), and exp 0
    (1.13, 1.0)
    """

    base: Predictive
    warp: Increasing

    def __len__(self) -> int:
        return len(self.base)

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""
        return self.warp.support

    @cached_property
    def _values(self) -> tuple[Float[np.ndarray, "l n q"], Float[np.ndarray, " l"]]:
        """Targets at the levels of the quadrature, and their weights."""
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        weights = weights * np.exp(-0.5 * (_REACH * nodes) ** 2)
        return self.warp.inverse(self.base.quantile(ndtr(_REACH * nodes).tolist())), weights / weights.sum()

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """``E g⁻¹(Z)``."""
        values, weights = self._values
        return np.tensordot(weights, values, 1)

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """``E (g⁻¹(Z) − mean)²``."""
        values, weights = self._values
        return np.tensordot(weights, (values - self.mean) ** 2, 1)

    def cdf(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``P(Z ≤ g(y))``; 0 below the support, and 1 above."""
        outside = np.where(y <= self.support[0], 0.0, 1.0)
        return np.where(self._is_inside(y), self.base.cdf(self.warp.forward(self._possible(y))), outside)

    def log_density(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``log p(g(y)) + log g'(y)``; −∞ outside the support."""
        possible = self._possible(y)
        found = self.base.log_density(self.warp.forward(possible)) + self.warp.log_slope(possible)
        return np.where(self._is_inside(y), found, -np.inf)

    def _is_inside(self, y: Float[np.ndarray, "n q"]) -> Bool[np.ndarray, "n q"]:
        return (y > self.support[0]) & (y < self.support[1])

    def _possible(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """Targets, with a possible one in place of each that lies outside the support."""
        return np.where(self._is_inside(y), y, self.warp.inverse(np.zeros_like(y)))

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """``g⁻¹`` of the quantiles of ``Z``."""
        return self.warp.inverse(self.base.quantile(levels))

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """``g⁻¹`` of draws of ``Z``."""
        return self.warp.inverse(self.base.sample(n_samples, generator))
