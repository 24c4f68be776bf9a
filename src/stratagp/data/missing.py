"""Missing inputs under a multivariate normal: its moments by EM, missing entries given the observed ones.

Rows with the same pattern of missing entries share every factorisation, so work is done by pattern, many patterns at
once; a pattern with many rows is reduced to the triangular factor of its rows, which has the same sums and squares.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.linalg.quasi_random import quasi_normal

_AT_ONCE = 2**21  # numbers held at once in a step over the patterns


class Imputed(NamedTuple):
    """Completed rows and their uncertainty; a covariance belongs to a pattern and is zero for observed entries.

    >>> values = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, np.nan]])
    >>> found = GaussianImputer(ridge=1e-8).fit(values, np.isnan(values)).impute(values, np.isnan(values))
    >>> bool(found.variance[3, 1] > found.variance[3, 0] == 0)
    True
    """

    mean: Float64[np.ndarray, "n d"]  # observed entries as they are, missing ones at their conditional mean
    covariance: Float64[np.ndarray, "p d d"]  # of each pattern of missing entries
    pattern: Int[np.ndarray, " n"]  # the pattern of each row
    draws: Float64[np.ndarray, "s n d"] | None  # complete tables: observed entries copied, missing ones drawn

    @property
    def variance(self) -> Float64[np.ndarray, "n d"]:
        """The conditional variance of each entry."""
        return self.covariance.diagonal(axis1=1, axis2=2)[self.pattern]


class GaussianImputer:
    """Fills missing entries by the Gaussian that fits the table best, with their uncertainty.

    Rows are x ~ N(μ, Σ), entries missing at random. ``fit`` maximises, by EM and with columns in standard units,

        Σₙ log N(xₒ; μₒ, Σₒₒ) − ½ ridge (tr Σ⁻¹ + log |Σ|)

    over the observed entries o of each row: the ridge counts as that many rows in which columns are unrelated, and
    keeps Σ invertible. Then  xₘ | xₒ ~ N(μₘ + Σₘₒ Σₒₒ⁻¹ (xₒ − μₒ), Σₘₘ − Σₘₒ Σₒₒ⁻¹ Σₒₘ).  A constant column is filled
    with its constant, exactly. The indicators of a missing category are all missing; their conditional means are
    expected indicators, which need not lie in [0, 1].

    >>> values = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, np.nan]])
    >>> imputer = GaussianImputer(ridge=1e-8).fit(values, np.isnan(values))
    >>> imputer.impute(values, np.isnan(values)).mean[3].round(3)
    array([3., 6.])
    """

    def __init__(self, ridge: float = 2.0, tolerance: float = 1e-4, max_steps: int = 1000) -> None:
        if not (0 < ridge < np.inf and 0 < tolerance < np.inf and max_steps >= 1):
            raise InputError(f"ridge, tolerance and max_steps must be positive, got {ridge}, {tolerance}, {max_steps}")
        self.ridge, self.tolerance, self.max_steps = ridge, tolerance, max_steps
        self._mean, self._covariance = np.zeros(0), np.zeros((0, 0))
        self._location, self._spread, self._units = np.zeros(0), np.zeros(0), np.zeros(0)
        self.steps = 0

    def fit(self, values: Any, missing: Any = None, names: list[str] | None = None) -> GaussianImputer:
        """Learn the moments of the columns; ``missing`` marks unknown entries, ``names`` are for messages."""
        values, missing = _checked(values, missing)
        empty = np.flatnonzero(missing.all(0))
        if len(empty):
            listed = ", ".join(repr(names[i]) if names else str(i) for i in empty)
            raise InputError(f"values: column {listed} is missing in every row and cannot be imputed: drop it")
        self._location, self._spread = _location_and_spread(values, missing)
        self._units = np.where(self._spread > 0, self._spread, 1.0)
        rows = (np.where(missing, self._location, values) - self._location) / self._units
        chunks = _chunks(rows, ~missing)
        d = values.shape[1]
        self._mean, self._covariance = np.zeros(d), np.eye(d)
        for step in range(1, self.max_steps + 1):
            mean, covariance = _em_step(chunks, len(rows), self._mean, self._covariance, self.ridge)
            change = max(np.abs(mean - self._mean).max(), np.abs(covariance - self._covariance).max())
            self._mean, self._covariance, self.steps = mean, covariance, step
            if change < self.tolerance:
                return self
        warnings.warn(
            f"imputation stopped after {self.max_steps} EM steps, still moving by {change:.1e} standard deviations: "
            "raise max_steps or tolerance, or drop columns that are mostly missing",
            ConvergenceWarning,
            stacklevel=2,
        )
        return self

    @property
    def mean(self) -> Float64[np.ndarray, " d"]:
        """μ in the units of the data."""
        return self._location + self._spread * self._mean

    @property
    def covariance(self) -> Float64[np.ndarray, "d d"]:
        """Σ in the units of the data."""
        return self._covariance * np.outer(self._spread, self._spread)

    def impute(
        self, values: Any, missing: Any = None, n_draws: int | None = None, seed: Any = None, shared: bool = False
    ) -> Imputed:
        """The missing entries given the observed ones in their row; ``seed`` is a number or a numpy ``Generator``.

        With ``shared``, all rows use the same quasi-random numbers, whatever the seed: a row's draws do not depend on
        the other rows, and few of them give good averages.
        """
        values, missing = _checked(values, missing)
        d = values.shape[1]
        if d != len(self._mean):
            raise InputError(f"values has {d} columns, but the imputer was fitted on {len(self._mean)}: call fit first")
        if n_draws is not None and n_draws < 1:
            raise InputError(f"n_draws must be at least 1, or None for no draws, got {n_draws}")
        patterns = _patterns(~missing)
        gaps = (np.where(missing, self.mean, values) - self.mean) / self._units
        covariance = np.zeros((len(patterns.rows), d, d))
        for p, rows in enumerate(patterns.rows):
            absent = np.flatnonzero(~patterns.observed[p])
            if len(absent):
                precision = _precisions(self._covariance, patterns.observed[[p]])[0]
                gaps[rows] = gaps[rows] @ precision @ self._covariance
                left = self._covariance - self._covariance @ precision @ self._covariance
                covariance[p][np.ix_(absent, absent)] = left[np.ix_(absent, absent)]
        mean = np.where(missing, self.mean + self._spread * gaps, values)
        draws = None if n_draws is None else np.repeat(mean[None], n_draws, axis=0)
        if n_draws is not None and draws is not None:
            generator = np.random.default_rng(seed)
            base = quasi_normal(n_draws, d).numpy()[:, None] if shared else None
            _add_noise(draws, patterns, covariance, self._spread, generator, base)
        return Imputed(mean, covariance * np.outer(self._spread, self._spread), patterns.of_row, draws)


class _Patterns(NamedTuple):
    """The distinct rows of a table that is True where entries are observed."""

    observed: Bool[np.ndarray, "p d"]
    rows: list[Int[np.ndarray, " r"]]  # the rows with each pattern
    of_row: Int[np.ndarray, " n"]  # the pattern of each row


class _Chunk(NamedTuple):
    """Some patterns, how many rows each stands for, and their reduced rows with the pattern of each."""

    observed: Bool[np.ndarray, "p d"]
    counts: Float64[np.ndarray, " p"]
    extended: Float64[np.ndarray, "r c"]  # a column of ones (or what QR makes of it), then the d columns
    of_row: Int[np.ndarray, " r"]


def _checked(values: Any, missing: Any) -> tuple[Float64[np.ndarray, "n d"], Bool[np.ndarray, "n d"]]:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise InputError(f"values must be a table (n, d) with rows and columns, got shape {values.shape}")
    missing = np.zeros(values.shape, dtype=bool) if missing is None else np.asarray(missing)
    if missing.shape != values.shape or missing.dtype != np.bool_:
        raise InputError(f"missing must be a boolean array of shape {values.shape}, like values, got {missing.shape}")
    bad = ~np.isfinite(values) & ~missing
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(f"values is NaN or infinite in row {row}, column {column}: correct it or mark it in missing")
    return values, missing


def _location_and_spread(
    values: Float64[np.ndarray, "n d"], missing: Bool[np.ndarray, "n d"]
) -> tuple[Float64[np.ndarray, " d"], Float64[np.ndarray, " d"]]:
    """Mean and standard deviation of the observed entries of each column; 0 for a constant one."""
    count = (~missing).sum(0)
    location = np.where(missing, 0.0, values).sum(0) / count
    gaps = np.where(missing, 0.0, values - location)
    spread = np.sqrt((gaps**2).sum(0) / count)
    return location, np.where(spread > 1e-14 * np.abs(location), spread, 0.0)


def _patterns(observed: Bool[np.ndarray, "n d"]) -> _Patterns:
    packed = np.ascontiguousarray(np.packbits(observed, axis=1))  # arrays of frames have contiguous columns, not rows
    keys = packed.view(f"S{packed.shape[1]}").reshape(-1)  # one short word per row sorts much faster than an array
    _, first, of_row, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(of_row, kind="stable"), np.cumsum(counts)[:-1])
    return _Patterns(observed[first], rows, of_row)


def _chunks(rows: Float64[np.ndarray, "n d"], observed: Bool[np.ndarray, "n d"]) -> list[_Chunk]:
    patterns, d = _patterns(observed), rows.shape[1]
    step = max(1, _AT_ONCE // (d * d * (d + 1)))
    chunks = []
    for start in range(0, len(patterns.rows), step):
        members = patterns.rows[start : start + step]
        reduced = [_reduced(rows[of]) for of in members]
        of_row = np.repeat(np.arange(len(members)), [len(part) for part in reduced])
        counts = np.array([float(len(of)) for of in members])
        chunks.append(_Chunk(patterns.observed[start : start + step], counts, np.concatenate(reduced), of_row))
    return chunks


def _reduced(rows: Float64[np.ndarray, "r d"]) -> Float64[np.ndarray, "s c"]:
    """``[1, rows]``, or its triangular factor if that is smaller: AᵀA is the same."""
    extended = np.concatenate([np.ones((len(rows), 1)), rows], axis=1)
    if len(rows) <= extended.shape[1]:
        return extended
    factor: Any = np.linalg.qr(extended, mode="r")
    return factor


def _precisions(
    covariance: Float64[np.ndarray, "d d"], observed: Bool[np.ndarray, "p d"]
) -> Float64[np.ndarray, "p d d"]:
    """``Q = Σₒₒ⁻¹`` of each pattern, else zero, so that E[x − μ | xₒ] = Σ Q (x − μ) and Cov[x | xₒ] = Σ − Σ Q Σ."""
    both = observed[:, :, None] & observed[:, None, :]
    return np.where(both, np.linalg.inv(np.where(both, covariance, np.eye(len(covariance)))), 0.0)


def _em_step(
    chunks: list[_Chunk],
    n: int,
    mean: Float64[np.ndarray, " d"],
    covariance: Float64[np.ndarray, "d d"],
    ridge: float,
) -> tuple[Float64[np.ndarray, " d"], Float64[np.ndarray, "d d"]]:
    """``μ ← mean E[x]``, ``Σ ← (Σₙ E[(x − μ)(x − μ)ᵀ] + ridge·I) / (n + ridge)`` given observed entries and old μ, Σ.

    With w = Q(x − μ):  Σₙ E[(x − μ)(x − μ)ᵀ] = nΣ + Σ (Σₙ wwᵀ − Σₙ Q) Σ.
    """
    total, inner = np.zeros_like(mean), np.zeros_like(covariance)
    for observed, counts, extended, of_row in chunks:
        precision, ones = _precisions(covariance, observed), extended[:, 0]
        gaps = extended[:, 1:] - np.outer(ones, mean)
        weights = (precision[of_row] @ gaps[:, :, None])[:, :, 0]
        total += ones @ weights
        inner += weights.T @ weights - np.tensordot(counts, precision, axes=1)
    shift = covariance @ total / n
    squares = n * (covariance - np.outer(shift, shift)) + covariance @ inner @ covariance
    moved = (squares + ridge * np.eye(len(mean))) / (n + ridge)
    return mean + shift, (moved + moved.T) / 2


def _add_noise(
    draws: Float64[np.ndarray, "s n d"],
    patterns: _Patterns,
    covariance: Float64[np.ndarray, "p d d"],
    spread: Float64[np.ndarray, " d"],
    generator: np.random.Generator,
    base: Float64[np.ndarray, "s 1 d"] | None,
) -> None:
    """Add, in place, Gaussian noise with the covariance of their pattern (in standard units) to missing entries.

    ``base`` are the random numbers of all rows if they share them.
    """
    for p, rows in enumerate(patterns.rows):
        absent = np.flatnonzero(~patterns.observed[p])
        if len(absent):
            root = _root(covariance[p][np.ix_(absent, absent)]) * spread[absent, None]
            own = (len(draws), len(rows), len(absent))
            noise = generator.standard_normal(own) if base is None else base[..., : len(absent)]
            draws[:, rows[:, None], absent] += noise @ root.T


def _root(covariance: Float64[np.ndarray, "d d"]) -> Float64[np.ndarray, "d d"]:
    """``R`` with R Rᵀ = covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
