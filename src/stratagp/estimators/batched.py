"""What estimators that learn by mini-batches share: targets and classes through any likelihood."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn.functional import one_hot

from stratagp import likelihoods as lik
from stratagp.data import TargetScale
from stratagp.data.source import Block
from stratagp.errors import InputError
from stratagp.estimators import named_likelihoods as named
from stratagp.estimators.base import GPEstimator
from stratagp.estimators.engines import Data
from stratagp.estimators.held_out import split
from stratagp.estimators.inputs import Points
from stratagp.estimators.predicting import predict_file
from stratagp.estimators.streaming import Given, given
from stratagp.estimators.targets import check_level, check_n_samples, check_quantiles, check_targets
from stratagp.kernels import RBF, Kernel
from stratagp.likelihoods import Likelihood
from stratagp.training.devices import as_numpy, find_device

_LEAST_PATIENCE, _SCORE_STEPS = 100, 20  # steps
Module = TypeVar("Module", bound=nn.Module)


class Batched(GPEstimator):
    """An estimator of a model that a likelihood connects with what is observed."""

    likelihood: Any
    n_samples: Any
    standardise: str
    missing = "raise"
    least_steps = 1000
    start_noise = 0.1  # the share of the variance of targets that training starts from
    of_classes = False
    smooth_alone = False  # whether only likelihoods serve whose density is no step
    batch_size: int
    patience: int | None
    validation: float
    _given: Given  # while a fit lasts

    def fit(self, X: Any, y: Any = None, checkpoint: Any = None) -> Any:
        """Learn from rows ``X`` and targets or classes ``y``.

        Arguments:
            X: an array or a data frame; or rows that need not fit in memory: a :class:`~stratagp.data.Source`, or a
                path of Parquet or CSV files (:func:`~stratagp.data.open_source`).
            y: ``n``, or ``n p`` for several targets; of files, the name of the column, or a list of names.
            checkpoint: a folder in which training leaves its state every minute; the same call goes on from there.
        """
        with self._unless_it_fails():
            self._check_options()
            with given(self, X, y, checkpoint) as rows:
                self._fit(rows)
        return self

    @abstractmethod
    def _fit(self, rows: Given) -> None:
        """Learn from rows in memory, or from a sample of those of a source."""

    @abstractmethod
    def _fit_model(self, kernel: Kernel, points: Points, y: Tensor, likelihood: Likelihood, outputs: int) -> None:
        """Put the model together and train it; ``y`` are ``n p`` as the likelihood sees them."""

    def _seed(self) -> int:
        """One seed for all of a fit, the same in all processes."""
        return self._given.seed if "_given" in self.__dict__ else super()._seed()

    @abstractmethod
    def _encoded_targets(self, y: Any) -> Tensor:
        """Targets as the likelihood sees them, ``n p``."""

    def _moved(self, module: Module) -> Module:
        """A module on the device that training takes place on."""
        return module.to(find_device(self.device))

    def _encoded(self, block: Block) -> list[Tensor]:
        """Rows of a source as points and targets."""
        return [self.inputs_.points(self, block.X).values, self._encoded_targets(block.y)]

    def _shares(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Data, Data]:
        """Rows to train on (or a sample of them, where a source has more), and rows held out for validation."""
        if self._given.seen is not None:
            held_out = self._given.held
            x_held, y_held = (x[:0], y[:0]) if held_out is None else self._encoded(held_out)
            return Data(x, y), Data(x_held.to(x), y_held)
        held, kept = split(len(y), self.validation, generator, y[:, 0] if self.of_classes else None)
        return Data(x[kept], y[kept]), Data(x[held], y[held])

    def _rows(self, data: Data) -> tuple[Any, Any]:
        """What training reads: the rows themselves, or the source that they are a sample of."""
        return (data.x, data.y) if self._given.seen is None else (self._given.stream(self._encoded), None)

    def _length(self, data: Data, epochs: int, what: str = "") -> dict[str, Any]:
        """Batch size, epochs, patience and scores of a training, which makes some steps however few the rows."""
        rows = len(data.y) if self._given.seen is None else self._given.seen.rows
        size = min(self.batch_size, rows)
        patience = None if self.patience is None else max(self.patience, -(-_LEAST_PATIENCE * size // rows))
        epochs = max(epochs, -(-self.least_steps // (rows // size)))
        steps = epochs * (rows // size)
        self._say(f"{what}{steps} step{'s' * (steps != 1)} in {epochs} epoch{'s' * (epochs != 1)}")
        return {
            "batch_size": size,
            "epochs": epochs,
            "patience": patience,
            "score_steps": _SCORE_STEPS,
            "checkpoint": self._given.checkpoint,
        }

    def predict_file(self, X: Any, out: Any, level: float = 0.95) -> int:
        """Predict all rows of files, or of a :class:`~stratagp.data.Source`, into a Parquet or CSV file; how many.

        Arguments:
            X: what :func:`~stratagp.data.open_source` takes. Files are read in the order of their names, and
                predictions are in the order of rows. A row with a missing value is refused; of a source with
                ``missing="drop"`` its predictions are empty, and a warning says how many are.
            out: a path that ends with ``.parquet`` or ``.csv``: columns ``mean``, ``std``, ``lower`` and ``upper``, or
                ``class`` and the probability ``p(…)`` of each. It must be none that ``X`` is read from.
            level: the probability of the interval from ``lower`` to ``upper``.
        """
        return predict_file(self, X, out, level)

    def _samples(self, likelihood: Likelihood) -> int | None:
        return None if self.n_samples == "auto" else self.n_samples

    def _default_kernel(self) -> Kernel:
        return RBF(ard=True)

    def _function(self, points: Any) -> np.ndarray:
        return as_numpy(self.engine_.model.marginals(points).mean)

    def _numbers(self, y: Tensor) -> Tensor:
        """Targets as least squares see them: classes by their indicators."""
        return one_hot(y[:, 0].long()).double() if self.of_classes else y

    def _start_targets(self, y: Tensor) -> Tensor:
        return y[:, 0]

    def _latent_variance(self) -> float:
        return 1.0

    def _validation_score(self, x: Tensor, y: Tensor) -> float:
        """How well held-out rows are predicted: their mean log density."""
        return float(self.engine_.model.log_predictive(x, y).double().mean())


class BatchedRegressor(RegressorMixin, Batched):
    """Regression by any likelihood of numbers."""

    def _fit(self, rows: Given) -> None:
        kernel, points = self._read(rows.X)
        targets = check_targets(self, rows.y, len(points))
        self.one_target_ = targets.ndim == 1
        targets = targets.reshape(len(targets), -1)
        likelihood, scalable = named.of_numbers(self.likelihood, targets.shape[1], self.start_noise)
        scaled, p = scalable and self.standardise != "none", targets.shape[1]
        if scalable and not scaled and not isinstance(self.likelihood, Likelihood):
            raise InputError(
                f"standardise='none' leaves the start values of likelihood={self.likelihood!r} without a unit: let "
                "targets be standardised, or give a Likelihood with values that suit them"
            )
        self.scale_ = rows.target_scale(targets) if scaled else TargetScale(np.zeros(p), np.ones(p))
        self._fit_model(kernel, points, self._encoded_targets(targets), likelihood, p)

    def _encoded_targets(self, y: Any) -> Tensor:
        """Standardised targets, ``n p``."""
        targets = check_targets(self, y, len(y)).reshape(len(y), -1)
        return torch.from_numpy(self.scale_.to_standard(targets))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected observation at each row, with its standard deviation if asked for."""
        found = self.model_.predict(self._points(X))
        mean = self._back(found.mean)
        if not return_std:
            return self._shaped(mean)
        return self._shaped(mean), self._shaped(self.scale_.scale[: mean.shape[1]] * np.sqrt(as_numpy(found.var)))

    def predict_quantiles(self, X: Any, quantiles: Any) -> np.ndarray:
        """The given quantiles of observations at each row: one column for each (before the targets, if several)."""
        found = self.model_.quantiles(self._points(X), check_quantiles(quantiles))
        return np.stack([self._shaped(self._back(each)) for each in found], axis=1)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that an observation lies between with probability ``level``, as much outside each."""
        check_level(level)
        ends = self.predict_quantiles(X, [0.5 - level / 2, 0.5 + level / 2])
        return ends[:, 0], ends[:, 1]

    def _with_interval(self, X: Any, level: float) -> list[np.ndarray]:
        """Mean and standard deviation of :meth:`predict`, and both ends of :meth:`predict_interval`, in one pass."""
        levels = check_quantiles([0.5 - level / 2, 0.5 + level / 2])
        found, ends = self.model_.predict_with_quantiles(self._points(X), levels)
        mean = self._back(found.mean)
        std = self.scale_.scale[: mean.shape[1]] * np.sqrt(as_numpy(found.var))
        return [self._shaped(each) for each in (mean, std, *map(self._back, ends))]

    def predict_survival(self, X: Any, times: Any) -> np.ndarray:
        """The probability, ``n t``, that the event of a row comes after each of ``times``: survival curves."""
        x, observed = self._points(X), self.engine_.model.observed
        given = observed.given if isinstance(observed, lik.Mixed) else observed
        if not isinstance(given, named.SURVIVAL):
            raise InputError(
                f"predict_survival is for times of events, likelihood='weibull' or 'log-normal', not for {given}"
            )
        wanted = np.asarray(times, dtype=float).reshape(-1)
        if not len(wanted) or not (np.isfinite(wanted) & (wanted > 0)).all():
            raise InputError(f"times must be positive numbers, got {times!r}")
        return as_numpy(self.model_.survival(x, wanted.tolist()))

    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """``log p(yₙ | xₙ)`` of each row, of all its targets together, in their own units."""
        x = self._points(X)
        return as_numpy(self.model_.log_predictive(x, self._standard(y, len(x)))) - np.log(self.scale_.scale).sum()

    def cdf(self, X: Any, y: Any) -> np.ndarray:
        """``P(Y ≤ yₙ | xₙ)`` of each row (and target): even over 0 to 1 where predictions are right."""
        x = self._points(X)
        return self._shaped(as_numpy(self.model_.cdf(x, self._standard(y, len(x)))))

    def _standard(self, y: Any, n: int) -> Tensor:
        targets, p = check_targets(self, y, n).reshape(n, -1), len(self.scale_.mean)
        if targets.shape[1] != p:
            columns = f"{p} columns that were learnt from (exposures, trials and marks of censoring among them)"
            raise InputError(f"y must have the {columns}, got {targets.shape[1]}")
        return torch.from_numpy(self.scale_.to_standard(targets))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws at the rows of ``X``, of whole functions with noise added: ``n n_samples`` (or ``n p n_samples``)."""
        check_n_samples(n_samples)
        x, gp = self._points(X), self.model_
        x = x.to(next(gp.parameters()).device)
        generator = torch.Generator().manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))
        with torch.no_grad():
            functions = [gp.layer.draw(generator)(x) for _ in range(n_samples)]
            drawn = [gp.likelihood.sample(f, generator) for f in functions]
        return np.stack([self._shaped(self._back(each)) for each in drawn], axis=-1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """``R²``; for observations with a second column (exposure, censoring) the mean log predictive density."""
        check_is_fitted(self, "beliefs_")
        observed = self.engine_.model.observed
        given = observed.given if isinstance(observed, lik.Mixed) else observed
        if given.functions(len(self.scale_.mean)) < len(self.scale_.mean):
            return float(np.average(self.log_density(X, y), weights=sample_weight))
        return float(super().score(X, y, sample_weight))

    def _points(self, X: Any) -> Tensor:
        check_is_fitted(self, "beliefs_")
        values: Tensor = self.inputs_.points(self, X).values
        return values

    def _back(self, values: Tensor) -> np.ndarray:
        p = values.shape[-1]  # an observation may have columns that are not predicted, such as censoring
        return as_numpy(values) * self.scale_.scale[:p] + self.scale_.mean[:p]

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self.one_target_ or values.shape[-1] < len(self.scale_.mean) else values

    def _target_scales(self) -> np.ndarray:
        return self.scale_.scale

    def _function_scales(self) -> np.ndarray:
        """The unit of each latent function: that of its target, or none where functions are not targets."""
        functions = len(self.engine_.model.marginals(self.engine_.data.x[:1]).mean[0])
        simple = isinstance(self.engine_.model.observed, named.DIRECT) and functions == len(self.scale_.scale)
        return self.scale_.scale if simple else np.ones(functions)

    def _log_unit(self) -> float:
        return float(len(self.engine_.data.y) * np.log(self.scale_.scale).sum())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
