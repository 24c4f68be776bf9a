"""Predictions that say the same with more confidence, or with less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from stratagp.predictive.base import Predictive
from stratagp.predictive.classes import Classes
from stratagp.predictive.warped import Warped
from stratagp.predictive.whole import Whole


@dataclass(frozen=True)
class Narrowed(Predictive):
    """``m + c (Y − m)`` for a distribution of ``Y`` over all numbers, with mean ``m``.

    >>> from stratagp.predictive import LocationScale
    >>> wide = LocationScale(np.full((1, 1, 1), 3.0), np.ones((1, 1, 1)), np.zeros(1))
    >>> half = Narrowed(wide, 0.5)
    >>> half.mean.item(), half.var.item()
    (3.0, 0.25)
    """

    base: Predictive
    factor: float

    def __len__(self) -> int:
        return len(self.base)

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """That of ``Y``."""
        return self.base.mean

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """``c²`` times that of ``Y``."""
        return self.factor**2 * self.base.var

    def cdf(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``P(Y ≤ m + (y − m)/c)``."""
        return self.base.cdf(self._widened(y))

    def log_density(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``log p(m + (y − m)/c) − log c``."""
        return self.base.log_density(self._widened(y)) - np.log(self.factor)

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """``m + c (q − m)``."""
        return self._back(self.base.quantile(levels))

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Draws, nearer to the mean."""
        return self._back(self.base.sample(n_samples, generator))

    def _widened(self, y: np.ndarray) -> np.ndarray:
        return self.mean + (y - self.mean) / self.factor

    def _back(self, values: np.ndarray) -> np.ndarray:
        return self.mean + self.factor * (values - self.mean)


def narrowed(found: Predictive | Classes, factor: float) -> Predictive | Classes:
    """Numbers ``factor`` times as wide around their mean; classes with probabilities ``∝ p^(1 / factor)``.

    What lies behind an increasing function is narrowed there, so that targets stay within their bounds; counts of real
    numbers become those of narrower numbers, and others, whose likelihood ties their variance to their mean, stay.

    >>> narrowed(Classes(np.array([[0.25, 0.75]])), 0.5).probabilities.round(3).tolist()  # 1 to 9
    [[0.1, 0.9]]
    """
    if factor == 1:
        return found
    if isinstance(found, Whole):
        inner = narrowed(found.base, factor)
        assert isinstance(inner, Predictive)
        return replace(found, base=inner)
    if isinstance(found, Warped):
        return replace(found, base=Narrowed(found.base, factor))
    if not isinstance(found, Classes):
        return found if found.discrete else Narrowed(found, factor)
    most = found.probabilities.max(1, keepdims=True)
    sharper = (found.probabilities / most) ** (1 / factor)
    return Classes(sharper / sharper.sum(1, keepdims=True))
