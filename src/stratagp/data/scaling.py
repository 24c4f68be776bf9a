"""Targets in standard units inside the model, in the user's units outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from stratagp.errors import InputError

_ROUNDING = 8 * np.finfo(np.float64).eps  # a spread this small relative to the values is rounding, not variation


@dataclass(frozen=True, eq=False)
class TargetScale:
    """Centre and spread of each of q targets: ``standard = (y − mean) / scale``.

    Targets are ``n q``, or ``n`` if there is one; sample axes may come first.

    >>> scale = TargetScale.of(np.array([1.0, 3.0]))
    >>> scale.to_standard(np.array([1.0, 3.0])), scale.back(np.array([0.0])), scale.back_var(np.array([2.0]))
    (array([-1., 1.]), array([2.]), array([2.]))
    """

    mean: Float64[np.ndarray, " q"]
    scale: Float64[np.ndarray, " q"]

    @classmethod
    def of(cls, y: Any, weights: Any = None) -> TargetScale:
        """``mean = Σwy / Σw``, ``scale = √(Σw(y − mean)² / Σw)``, and 1 for a constant target. NaN means unobserved."""
        y = np.asarray(y, dtype=np.float64)
        if y.ndim not in (1, 2) or not y.size:
            raise InputError(f"y must be (n,) or (n, q) with at least one row, got shape {y.shape}")
        if np.isinf(y).any():
            row = int(np.argwhere(np.isinf(y))[0, 0])
            raise InputError(f"y has infinite values, the first in row {row}: correct or remove those rows")
        y = y.reshape(len(y), -1)
        share = np.where(np.isnan(y), 0.0, _weights(weights, len(y))[:, None])
        if not (share.sum(0) > 0).all():
            raise InputError("y has a column without any observed value of positive weight: remove that column")
        share /= share.sum(0)
        y = np.where(share > 0, y, 0.0)
        mean = (share * y).sum(0)
        gaps = np.where(share > 0, y - mean, 0.0)
        largest = np.abs(gaps).max(0)
        constant = largest <= np.maximum(_ROUNDING * np.abs(y).max(0), np.finfo(np.float64).tiny)
        largest = np.where(constant, 1.0, largest)
        spread = largest * np.sqrt((share * (gaps / largest) ** 2).sum(0))  # scaled so that squares cannot overflow
        return cls(mean, np.where(constant, 1.0, spread))

    @classmethod
    def of_moments(cls, mean: Float64[np.ndarray, " q"], spread: Float64[np.ndarray, " q"]) -> TargetScale:
        """The scale of targets with a known mean and standard deviation."""
        return cls(mean, np.where(spread > _ROUNDING * np.abs(mean), spread, 1.0))

    def to_standard(self, y: Any) -> Float64[np.ndarray, "..."]:
        """``(y − mean) / scale``."""
        return (self._checked(y) - self.mean) / self.scale

    def back(self, mean: Any) -> Float64[np.ndarray, "..."]:
        """``mean · scale + centre``: means, quantiles and samples in the user's units."""
        return self._checked(mean) * self.scale + self.mean

    def back_std(self, std: Any) -> Float64[np.ndarray, "..."]:
        """``std · scale``."""
        return self._checked(std) * self.scale

    def back_var(self, var: Any) -> Float64[np.ndarray, "..."]:
        """``var · scale²``; for one target also a joint covariance ``n n``."""
        return self._checked(var) * self.scale**2

    def _checked(self, values: Any) -> Float64[np.ndarray, "..."]:
        values = np.asarray(values, dtype=np.float64)
        if len(self.mean) > 1 and values.shape[-1:] != self.mean.shape:
            raise InputError(f"expected values for {len(self.mean)} targets on the last axis, got shape {values.shape}")
        return values


def _weights(weights: Any, n: int) -> Float64[np.ndarray, " n"]:
    if weights is None:
        return np.ones(n)
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (n,) or not np.isfinite(found).all() or (found < 0).any():
        raise InputError(f"weights must be one finite number ≥ 0 for each of {n} rows, got shape {found.shape}")
    return found
