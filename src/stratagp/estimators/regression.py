"""The shell of every regressor: means, deviations, intervals, quantiles, samples and densities, in the user's units."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from stratagp.data import TargetScale
from stratagp.data.target_checks import Check, as_numbers
from stratagp.errors import InputError
from stratagp.estimators.inputs.base import Points, RowsLike
from stratagp.estimators.intake import Intake
from stratagp.estimators.shell import CHUNK, Estimator, Seed
from stratagp.estimators.targets import (
    check_level,
    check_n_samples,
    check_noise,
    check_of,
    check_quantiles,
    check_targets,
    check_weights,
)
from stratagp.likelihoods import Likelihood
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.fitted_process import ProcessModel
from stratagp.predictive import Classes, InUnits, Predictive
from stratagp.recipes.base import Data, Rows
from stratagp.recipes.batches import refuse_bad_targets
from stratagp.recipes.options import BatchOptions

Of = Literal["y", "f"]


@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(RegressorMixin, Estimator, ABC):
    """Every answer is about a new observation ``y``, noise included; ``of="f"`` asks about the function without it."""

    several_targets: ClassVar[bool] = True
    scale_: TargetScale = field(init=False)
    one_target_: bool = field(init=False)
    weight_unit_: float = field(init=False)

    def _rows(
        self,
        intake: Intake,
        points: Points,
        sample_weight: ArrayLike | None = None,
        known_noise: ArrayLike | None = None,
        gaps: bool = False,
    ) -> Rows:
        y = intake.y if intake.y is None or self.several_targets else column_or_1d(intake.y, warn=True)
        targets = check_targets(self, y, len(points), gaps)
        self.one_target_ = targets.ndim == 1
        points, targets, weights, noise = taking_part(
            points, targets.reshape(len(targets), -1), sample_weight, known_noise
        )
        if len(points) == 1 and self.standardise != "none":
            raise InputError(
                "X has one row (n_samples=1), which tells nothing about how much targets vary: give more rows, or "
                "standardise='none' with a kernel and noise in units of y"
            )
        self.weight_unit_ = 1.0 if weights is None else float(weights.mean())
        likelihood = self._likelihood(targets.shape[1])
        self.scale_ = TargetScale(np.zeros(targets.shape[1]), np.ones(targets.shape[1]))
        if self._is_scalable(targets, likelihood):
            if self.standardise != "none":
                self.scale_ = intake.target_scale(targets, weights)
            elif isinstance(self, BatchOptions) and isinstance(self.likelihood, str):
                raise InputError(
                    f"standardise='none' leaves the start values of likelihood={self.likelihood!r} without a unit: let "
                    "targets be standardised, or give a Likelihood with values that suit them"
                )
        return self._made_rows(intake, points, self._standard(points, targets, weights, noise), likelihood)

    def _standard(
        self,
        points: Points,
        targets: Float[np.ndarray, "n p"],
        weights: Float[np.ndarray, " n"] | None,
        noise: Float[np.ndarray, " n"] | None,
    ) -> Data:
        """Rows in the units in which the model learns."""
        return Data(
            points.values,
            torch.from_numpy(self.scale_.to_standard(targets)),
            None if weights is None else torch.from_numpy(weights / self.weight_unit_),
            None if noise is None else torch.from_numpy(noise[:, None] / self.scale_.scale**2),
        )

    def _is_scalable(self, targets: Float[np.ndarray, "n p"], likelihood: Likelihood | None) -> bool:
        """Whether targets may be shifted and scaled."""
        return likelihood is None or likelihood.unwrapped.scalable

    def _target_check(self) -> Check | None:
        likelihood = self._likelihood(1)
        if likelihood is None or likelihood.unwrapped.scalable:  # these may be any numbers
            return None

        def check(y: np.ndarray) -> None:
            targets = as_numbers(y)
            refuse_bad_targets(likelihood, torch.from_numpy(targets), targets.shape[1])

        return check

    def _encoded_targets(self, y: np.ndarray) -> Tensor:
        targets = check_targets(self, y, len(y)).reshape(len(y), -1)
        return torch.from_numpy(self.scale_.to_standard(targets))

    # Predictions

    @overload
    def predict(self, X: RowsLike, return_std: Literal[False] = False, *, of: Of = "y") -> np.ndarray: ...
    @overload
    def predict(self, X: RowsLike, return_std: Literal[True], *, of: Of = "y") -> tuple[np.ndarray, np.ndarray]: ...
    @overload
    def predict(
        self, X: RowsLike, return_std: bool = False, return_cov: bool = False, of: Of = "y"
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: RowsLike, return_std: bool = False, return_cov: bool = False, of: Of = "y") -> Any:
        """The expected target at each row of ``X``, with its standard deviation or the joint covariance if asked.

        Returns:
            mean ``n`` (or ``n q`` for q targets); std of the same shape; cov ``n n`` (or ``n n q``), which processes
            with Gaussian noise know.
        """
        check_of(of)
        if return_std and return_cov:
            raise InputError("return_std and return_cov exclude each other: the covariance contains the variances")
        points = self._points(X)
        if return_cov:
            mean, cov = self._joint(points, of)
            return self._shaped(mean), cov[..., 0] if self.one_target_ else cov
        if return_std:
            mean, std = self._reduced(points, of, lambda found, _: [found.mean, np.sqrt(found.var)])
            return self._shaped(mean), self._shaped(std)
        if isinstance(self.fitted_, ProcessModel):  # the mean alone: no variance is computed
            return self._shaped(self._mean(points))
        (mean,) = self._reduced(points, of, lambda found, _: [found.mean])
        return self._shaped(mean)

    def predict_interval(self, X: RowsLike, level: float = 0.95, of: Of = "y") -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that an observation lies between with probability ``level``, as much outside each."""
        check_level(level)
        low, high = self._quantiles(X, [0.5 - level / 2, 0.5 + level / 2], of)
        return self._shaped(low), self._shaped(high)

    def predict_quantiles(self, X: RowsLike, quantiles: ArrayLike, of: Of = "y") -> np.ndarray:
        """The given quantiles at each row: one column for each (before the targets, if there are several)."""
        found = self._quantiles(X, check_quantiles(quantiles), of)
        return np.stack([self._shaped(each) for each in found], axis=1)

    def _quantiles(self, X: RowsLike, levels: Sequence[float], of: Of) -> list[np.ndarray]:
        check_of(of)
        return self._reduced(self._points(X), of, lambda found, _: list(found.quantile(levels)))

    def mean_std_interval(self, X: RowsLike, level: float = 0.95) -> list[np.ndarray]:
        """Mean, standard deviation, and both ends of the interval, in one pass over the rows."""
        check_level(level)
        levels = [0.5 - level / 2, 0.5 + level / 2]

        def answer(found: Predictive, _: slice) -> list[np.ndarray]:
            return [found.mean, np.sqrt(found.var), *found.quantile(levels)]

        return [self._shaped(each) for each in self._reduced(self._points(X), "y", answer)]

    def mean_interval_density(self, X: RowsLike, y: ArrayLike, level: float = 0.95) -> list[np.ndarray]:
        """Mean, both ends of the interval, and the log density of each target, in one pass over the rows."""
        check_level(level)
        points = self._points(X)
        targets, levels = self._targets(y, len(points)), [0.5 - level / 2, 0.5 + level / 2]

        def answer(found: Predictive, rows: slice) -> list[np.ndarray]:
            return [found.mean, *found.quantile(levels), found.log_density(targets[rows])]

        mean, low, high, density = self._reduced(points, "y", answer)
        return [*map(self._shaped, (mean, low, high)), density[:, 0] if density.shape[1] == 1 else density]

    def log_density(self, X: RowsLike, y: ArrayLike) -> np.ndarray:
        """``log p(yᵢ | xᵢ, data)`` of each row: its mean with a minus sign is the NLPD.

        Independent targets of closed forms have a column each; a likelihood has one density for all targets of a row.
        """
        points = self._points(X)
        targets = self._targets(y, len(points))
        (found,) = self._reduced(points, "y", lambda found, rows: [found.log_density(targets[rows])])
        return found[:, 0] if found.shape[1] == 1 else found

    def cdf(self, X: RowsLike, y: ArrayLike) -> np.ndarray:
        """``P(Y ≤ yᵢ | xᵢ, data)`` of each row (and target): even over 0 to 1 where predictions are right."""
        points = self._points(X)
        targets = self._targets(y, len(points))
        (found,) = self._reduced(points, "y", lambda found, rows: [found.cdf(targets[rows])])
        return self._shaped(found)

    def predict_survival(self, X: RowsLike, times: ArrayLike) -> np.ndarray:
        """The probability, ``n t``, that the event of a row comes after each of ``times``: survival curves."""
        points = self._points(X)
        observed = self.fitted_.observed
        if observed is None or not observed.of_times:
            given = type(self).__name__ if observed is None else observed
            raise InputError(
                f"predict_survival is for times of events, likelihood='weibull' or 'log-normal', not for {given}"
            )
        wanted = np.asarray(times, dtype=float).reshape(-1)
        if not len(wanted) or not (np.isfinite(wanted) & (wanted > 0)).all():
            raise InputError(f"times must be positive numbers, got {times!r}")

        def answer(found: Predictive, rows: slice) -> list[np.ndarray]:
            n = rows.stop - rows.start
            return [np.concatenate([1 - found.cdf(np.full((n, 1), time)) for time in wanted], 1)]

        return self._reduced(points, "y", answer)[0]

    def sample_y(self, X: RowsLike, n_samples: int = 1, random_state: Seed = 0, of: Of = "y") -> np.ndarray:
        """Joint draws at the rows of ``X``: ``n n_samples`` (or ``n q n_samples``)."""
        check_n_samples(n_samples)
        check_of(of)
        points, random = self._points(X), check_random_state(random_state)
        generator = torch.Generator().manual_seed(int(random.randint(2**31 - 1)))
        versions = self._versions(points)
        chosen = random.randint(len(versions), size=n_samples)
        drawn: dict[int, np.ndarray] = {}
        for v in np.unique(chosen):
            rows = np.flatnonzero(chosen == v)
            drawn |= dict(zip(rows, self.fitted_.draw(versions[v], len(rows), of, generator), strict=True))
        found = np.stack([drawn[i] for i in range(n_samples)])
        if self._has_units(of):
            p = found.shape[-1]  # an observation may have columns that are not predicted, such as marks of censoring
            found = found * self.scale_.scale[:p] + self.scale_.mean[:p]
        return np.moveaxis(self._shaped(found), 0, -1)

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each training target predicted from all other rows, in closed form.

        Rows of weight zero were not trained on, and are left out.
        """
        check_is_fitted(self, "fitted_")
        mean, var = self.fitted_.leave_one_out()
        return self._shaped(self.scale_.back(mean)), self._shaped(self.scale_.back_std(np.sqrt(var)))

    def predictive(self, X: RowsLike, of: Of = "y") -> Predictive:
        """The whole distribution at each row, in the units of the targets."""
        check_of(of)
        points = self._points(X)
        return self._in_units(self._part(points, of, self.fitted_), of)

    def score(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """``R²``; for observations with a second column (exposure, censoring) the mean log predictive density."""
        check_is_fitted(self, "fitted_")
        observed, p = self.fitted_.observed, len(self.scale_.mean)
        if observed is not None and observed.functions(p) < p:
            weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
            return float(np.average(self.log_density(X, y), weights=weights))
        return float(super().score(X, y, sample_weight))

    # The way there

    def _in_units(self, found: Predictive | Classes, of: str) -> Predictive:
        assert isinstance(found, Predictive)
        return InUnits(found, self.scale_.mean, self.scale_.scale) if self._has_units(of) else found

    def _has_units(self, of: str) -> bool:
        """Whether what is asked about has the units of the targets: latent functions may have none."""
        observed = self.fitted_.observed
        return of == "y" or observed is None or observed.direct

    def _mean(self, points: Points) -> Float[np.ndarray, "n q"]:
        """The expected targets alone."""
        parts = []
        for start in range(0, len(points), CHUNK):
            part = points.rows(start, start + CHUNK)
            mean = self.fitted_.function(part.values)
            if part.incomplete is not None:
                draws = self.inputs_.draws(part)
                each = self.fitted_.function(draws.flatten(0, 1)).reshape(len(draws), -1, mean.shape[1])
                mean[part.incomplete] = each.mean(0)
            parts.append(mean)
        return self.scale_.back(np.concatenate(parts))

    def _joint(self, points: Points, of: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and joint covariance, by the law of total covariance over missing entries."""
        versions = self._versions(points)
        means, cov = [], np.zeros(())
        for x in versions:
            own, joint = self.fitted_.joint(x, of)
            means.append(own)
            cov = cov + joint / len(versions)
        mean = np.mean(means, 0)
        gaps = np.stack(means) - mean
        cov = cov + np.einsum("snq,smq->nmq", gaps, gaps) / len(versions)
        return self.scale_.back(mean), self.scale_.back_var(cov)

    def _targets(self, y: ArrayLike, n: int) -> np.ndarray:
        p = len(self.scale_.mean)
        targets = check_targets(self, y, n).reshape(n, -1)
        if targets.shape[1] != p:
            raise InputError(
                f"y must have the {p} columns that were learnt from (exposures, trials and marks of censoring among "
                f"them), got {targets.shape[1]}"
            )
        return targets

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self.one_target_ or values.shape[-1] < len(self.scale_.mean) else values

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about the example, which it must say again when it was loaded."""
        _, std = self.predict(self._example, return_std=True)
        return {"mean": self.predict(self._example), "std": std}  # each by the way that it is computed alone

    def _log_unit(self) -> float:
        return self.fitted_.log_unit(np.log(self.scale_.scale))

    def _scales(self) -> tuple[np.ndarray, np.ndarray]:
        scale = self.scale_.scale
        if isinstance(self.fitted_, ProcessModel):
            return scale, scale
        functions = self.fitted_.function(self.fitted_.points[:1]).shape[1]
        direct = isinstance(self.fitted_, ChainModel) and self.fitted_.chain.observed.direct  # mixed functions are not
        return scale, scale if direct and functions == len(scale) else np.ones(functions)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.several_targets
        return tags


def taking_part(
    points: Points,
    targets: Float[np.ndarray, "n p"],
    sample_weight: ArrayLike | None,
    known_noise: ArrayLike | None,
) -> tuple[Points, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The rows whose weight is not zero: points, targets, weights and known noise."""
    noise = None if known_noise is None else check_noise(known_noise, len(points))
    weights = check_weights(sample_weight, len(points))
    if weights is None:
        return points, targets, None, noise
    kept = np.flatnonzero(weights)
    return points.take(kept), targets[kept], weights[kept], None if noise is None else noise[kept]


def is_of_counts(model: BaseEstimator) -> bool:
    """Whether a model predicts whole numbers: by its own likelihood, by one of mixed functions, or as a stack."""
    return isinstance(model, Regressor) and model.fitted_.discrete
