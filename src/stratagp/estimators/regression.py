"""The questions a fitted regressor answers: means, deviations, intervals, quantiles, samples, densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from stratagp.data import TargetScale
from stratagp.errors import InputError
from stratagp.estimators.drawing import draw_jointly, joint_moments
from stratagp.estimators.engines import Belief
from stratagp.estimators.inputs import Inputs, Points
from stratagp.estimators.predictive import Predictive
from stratagp.estimators.targets import check_level, check_n_samples, check_of, check_quantiles, check_targets
from stratagp.kernels import Sum
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.models import ExactPosterior
from stratagp.training.devices import as_numpy

_CHUNK = 4096  # rows that are predicted at once


class Regression(RegressorMixin):
    """Predictions from ``beliefs_``: for each draw of the hyperparameters, a belief about each target.

    Every answer is about a new observation ``y``, noise included; ``of="f"`` asks about the function without it.
    """

    beliefs_: list[list[Belief]]
    inputs_: Inputs
    scale_: TargetScale
    one_target_: bool
    standardise: str
    engine_: Any

    def _scale_of(self, targets: np.ndarray, weights: np.ndarray | None = None) -> TargetScale:
        if self.standardise == "none":
            return TargetScale(np.zeros(targets.shape[1]), np.ones(targets.shape[1]))
        return TargetScale.of(targets, weights)

    def _log_unit(self) -> float:
        return float(len(self.engine_.data.y) * np.log(self.scale_.scale).sum())

    def _target_scales(self) -> np.ndarray:
        return self.scale_.scale

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, of: str = "y") -> Any:
        """The expected target at each row of ``X``, with its standard deviation or the joint covariance if asked.

        Returns:
            mean ``n`` (or ``n q`` for q targets); std of the same shape; cov ``n n`` (or ``n n q``).
        """
        if return_std and return_cov:
            raise InputError("return_std and return_cov exclude one another: the covariance has the variances inside")
        if return_cov:
            mean, cov = self._joint(self._points(X), check_of(of))
            return self._shaped(mean), cov[..., 0] if self.one_target_ else cov
        if not return_std:
            check_of(of)
            return self._shaped(self._mean(self._points(X)))
        mean, std = self._reduced(self._points(X), of, lambda found, _: [found.total_mean, np.sqrt(found.total_var)])
        return self._shaped(mean), self._shaped(std)

    def predict_component(self, X: Any, part: int, return_std: bool = False) -> Any:
        """What one summand of the kernel contributes to the function: a trend, a season, an effect.

        Arguments:
            part: its place in ``kernel_.parts``.

        Returns:
            The expected contribution at each row in the units of the targets, and its standard deviation if asked for.
            The contributions of all parts, and the average of the training targets, add up to the prediction.
        """
        points = self._points(X)
        found = [[_component(belief, part, points.values) for belief in beliefs] for beliefs in self.beliefs_]
        mean, var = (np.stack([np.concatenate([b[i] for b in row], 1) for row in found]) for i in range(2))
        total = mean.mean(0) * self.scale_.scale
        std = np.sqrt(var.mean(0) + mean.var(0)) * self.scale_.scale
        return (self._shaped(total), self._shaped(std)) if return_std else self._shaped(total)

    def predict_interval(self, X: Any, level: float = 0.95, of: str = "y") -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that an observation lies between with probability ``level``, as much outside each."""
        check_level(level)
        low, high = self._quantiles(X, [0.5 - level / 2, 0.5 + level / 2], of)
        return self._shaped(low), self._shaped(high)

    def predict_quantiles(self, X: Any, quantiles: Any, of: str = "y") -> np.ndarray:
        """The given quantiles at each row: one column for each (before the targets, if there are several)."""
        levels = check_quantiles(quantiles)
        return np.stack([self._shaped(each) for each in self._quantiles(X, levels, of)], axis=1)

    def _quantiles(self, X: Any, levels: Any, of: str) -> list[np.ndarray]:
        return self._reduced(self._points(X), of, lambda found, _: [found.quantile(float(level)) for level in levels])

    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """``log p(yᵢ | xᵢ, data)`` of each row (and target): its mean with a minus sign is the NLPD."""
        points = self._points(X)
        targets = self._targets(y, len(points))
        (found,) = self._reduced(points, "y", lambda found, rows: [found.log_density(targets[rows])])
        return self._shaped(found)

    def cdf(self, X: Any, y: Any) -> np.ndarray:
        """``P(Y ≤ yᵢ | xᵢ, data)`` of each row (and target): even over 0 to 1 where predictions are right."""
        points = self._points(X)
        targets = self._targets(y, len(points))
        (found,) = self._reduced(points, "y", lambda found, rows: [found.cdf(targets[rows])])
        return self._shaped(found)

    def _targets(self, y: Any, n: int) -> np.ndarray:
        q = len(self.beliefs_[0])
        targets = check_targets(self, y, n).reshape(n, -1)
        if targets.shape[1] != q:
            raise InputError(f"y must have {q} columns, one for each target, got {targets.shape[1]}")
        return targets

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each training target predicted from all other rows, in closed form.

        Rows of weight zero were not trained on, and are left out.
        """
        check_is_fitted(self, "beliefs_")
        if len(self.beliefs_) > 1:
            raise InputError("leave_one_out is for one set of hyperparameters, not for hyperparameters='bayes'")
        if not all(isinstance(belief.posterior, ExactPosterior) for belief in self.beliefs_[0]):
            raise InputError("leave_one_out is in closed form for the exact process with plain noise: refit with those")
        found = [belief.posterior.leave_one_out() for belief in self.beliefs_[0]]
        mean = as_numpy(torch.cat([each.mean for each in found], 1))
        std = as_numpy(torch.cat([each.var for each in found], 1).sqrt())
        return self._shaped(self.scale_.back(mean)), self._shaped(self.scale_.back_std(std))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, of: str = "y") -> np.ndarray:
        """Joint draws at the rows of ``X``: ``n n_samples`` (or ``n q n_samples``)."""
        check_n_samples(n_samples)
        points, random = self._points(X), check_random_state(random_state)
        generator = torch.Generator().manual_seed(int(random.randint(2**31 - 1)))
        versions = [(beliefs, x) for beliefs in self.beliefs_ for x in self._versions(points)]
        chosen = random.randint(len(versions), size=n_samples)
        drawn = np.empty((n_samples, len(points), len(self.beliefs_[0])))
        for v in np.unique(chosen):
            rows = np.flatnonzero(chosen == v)
            beliefs, x = versions[v]
            drawn[rows] = draw_jointly(beliefs, x, len(rows), check_of(of), generator)
        return np.moveaxis(np.stack([self._shaped(self.scale_.back(each)) for each in drawn]), 0, -1)

    def _reduced(
        self, points: Points, of: str, answer: Callable[[Predictive, slice], list[np.ndarray]]
    ) -> list[np.ndarray]:
        """Answers about the distribution at each row, some rows at a time: beside them, memory is constant."""
        noisy, parts = check_of(of), []
        for start in range(0, len(points), _CHUNK):
            rows = slice(start, start + _CHUNK)
            parts.append(answer(self._part(points.rows(start, start + _CHUNK), noisy), rows))
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def predictive(self, X: Any, of: str = "y") -> Predictive:
        """The whole distribution at each row, in the units of the targets, with all its components in memory."""
        points = self._points(X)
        return self._part(points, check_of(of))

    def _part(self, points: Points, noisy: bool) -> Predictive:
        found = self._components(points.values, noisy)
        if points.incomplete is not None:
            draws = self.inputs_.draws(points)
            apart = self._components(draws.flatten(0, 1), noisy)
            found = _insert(found, apart, points.incomplete, len(draws))
        back_mean, back_var = self.scale_.back(found.mean), self.scale_.back_var(found.var)
        return Predictive(back_mean, back_var, found.log_weights, found.dof)

    def _components(self, x: Any, noisy: bool) -> Predictive:
        """The components of standardised predictions at points."""
        stacked = [[_moments(belief, x, noisy) for belief in beliefs] for beliefs in self.beliefs_]
        mean, var = (np.concatenate([np.stack([each[i] for each in row], -1) for row in stacked]) for i in range(2))
        log_weights = np.concatenate([row[0][2] for row in stacked]) - np.log(len(stacked))
        return Predictive(mean, var, log_weights, self.beliefs_[0][0].dof)

    def _mean(self, points: Points) -> np.ndarray:
        """The expected targets alone: no variance is computed."""
        total = np.zeros((len(points), len(self.beliefs_[0])))
        for start in range(0, len(points), _CHUNK):
            part = points.rows(start, start + _CHUNK)
            mean = self._function(part.values)
            if part.incomplete is not None:
                draws = self.inputs_.draws(part)
                mean[part.incomplete] = (
                    self._function(draws.flatten(0, 1)).reshape(len(draws), -1, mean.shape[1]).mean(0)
                )
            total[start : start + _CHUNK] = mean
        return self.scale_.back(total)

    def _function(self, points: Any) -> np.ndarray:
        """The expected standardised function at points, ``n q``."""
        each = [torch.stack([belief.posterior.mean(points) for belief in beliefs], -1) for beliefs in self.beliefs_]
        return as_numpy(torch.stack(each).mean(0))

    def _joint(self, points: Points, noisy: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and joint covariance, by the law of total covariance over hyperparameters and missing entries."""
        versions = [(beliefs, x) for x in self._versions(points) for beliefs in self.beliefs_]
        mean, second, cov = np.zeros(()), np.zeros(()), np.zeros(())
        for beliefs, x in versions:
            joint = [joint_moments(belief, x, noisy) for belief in beliefs]
            own = np.stack([each for each, _ in joint], -1)
            mean = mean + own / len(versions)
            second = second + np.einsum("nq,mq->nmq", own, own) / len(versions)
            cov = cov + np.stack([each for _, each in joint], -1) / len(versions)
        if len(versions) > 1:
            cov = cov + second - np.einsum("nq,mq->nmq", mean, mean)
        return self.scale_.back(mean), self.scale_.back_var(cov)

    def _points(self, X: Any) -> Points:
        check_is_fitted(self, "beliefs_")
        return self.inputs_.points(self, X)

    def _versions(self, points: Points) -> list[Any]:
        """The rows as they may be: one version, or as many as there are draws of missing entries."""
        if points.incomplete is None:
            return [points.values]
        draws = self.inputs_.draws(points, joint=True)
        versions = points.values.repeat(len(draws), 1, 1)
        versions[:, torch.from_numpy(points.incomplete)] = draws
        return list(versions)

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self.one_target_ else values


def _moments(belief: Belief, x: Any, noisy: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances ``k n`` and log weights ``k`` of the components of one belief."""
    mean, var = (part[:, 0] for part in belief.posterior.marginals(x))
    if noisy and belief.log_noise is not None:
        nodes, log_weights = normal_nodes(1, mean)
        log_noise = belief.log_noise(x)
        noise = (log_noise.mean + log_noise.var.sqrt() * nodes.mT).exp().mT
        return as_numpy(mean.expand(noise.shape)), as_numpy(var + noise), as_numpy(log_weights)
    total = var + belief.noise(x) if noisy else var
    return as_numpy(mean[None]), as_numpy(total[None]), np.zeros(1)


def _component(belief: Belief, part: int, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance ``n 1`` of one summand of the kernel."""
    posterior = belief.posterior
    if not isinstance(posterior, ExactPosterior):
        raise InputError("predict_component needs exact inference with noise that does not vary: refit so")
    parts = posterior.prior.kernel.parts if isinstance(posterior.prior.kernel, Sum) else [posterior.prior.kernel]
    if not isinstance(part, (int, np.integer)) or not 0 <= part < len(parts):
        raise InputError(f"part must be a summand of the kernel, 0 to {len(parts) - 1}; got {part!r}")
    found = posterior.component(parts[part], x)
    return as_numpy(found.mean), as_numpy(found.var)


def _insert(whole: Predictive, apart: Predictive, incomplete: np.ndarray, n_draws: int) -> Predictive:
    """Rows with missing entries get the components of all their draws."""
    k = len(whole.log_weights)
    mean, var = (np.tile(values, (n_draws, 1, 1)) for values in (whole.mean, whole.var))
    for values, own in ((mean, apart.mean), (var, apart.var)):
        by_draw = own.reshape(k, n_draws, -1, own.shape[-1]).swapaxes(0, 1)
        values[:, incomplete] = by_draw.reshape(n_draws * k, -1, own.shape[-1])
    return Predictive(mean, var, np.tile(whole.log_weights, n_draws) - np.log(n_draws), whole.dof)
