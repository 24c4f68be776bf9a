"""Models of folds: forests with a density around them, and scores of classes."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import NoAttributeError
from stratagp.likelihoods import Likelihood
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_counts import log_share
from stratagp.models.forest import Forest
from stratagp.models.gaussian_scores import GaussianScores
from stratagp.models.observations import Data
from stratagp.models.spread import Spread
from stratagp.models.warps import Log
from stratagp.parameterised import Parameterised
from stratagp.predictive import Classes, LocationScale, Observed, Predictive
from stratagp.predictive.warped import Warped
from stratagp.types import Gaussian, PointsLike

_SURE = 1e-12  # variance of a log rate that is taken as known


class NoValues(Parameterised):
    """The module of a model without kernels and learnt parameters; asked for one, it says so.

    >>> hasattr(NoValues(), "kernel")
    False
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise NoAttributeError(f"a model of trees has no {name}: that is for models with a kernel") from None


class OfTrees(Fitted, ABC):
    """Forests with the rows that they were grown from."""

    data: Data

    @property
    def module(self) -> Parameterised:
        """No values: trees have none that are learnt by gradients."""
        return NoValues()

    @property
    def points(self) -> Any:
        """The training rows."""
        return self.data.x


@dataclass
class TreesModel(OfTrees):
    """The mean of forests, each of all rows but those of one fold, with a Gaussian or Student-t density around it.

    ``y ~ t_ν(m(x), v(x))`` where ``m`` averages the forests. What is believed of the function is the jackknife over
    folds: variance ``(k − 1)/k Σ (m_j − m)²``.

    Arguments:
        location: ``m_j``, a column for each fold.
        spread: ``v`` and ``ν``.
        data: the training rows.
        held_out_mean, held_out_var: mean and variance of each training row by the forests that have not seen it.
    """

    location: Forest
    spread: Spread
    data: Data = field(repr=False)
    held_out_mean: Float[Tensor, " n"] = field(repr=False)
    held_out_var: Float[Tensor, " n"] = field(repr=False)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The log density of the training rows by forests that have not seen them; there is no evidence of trees."""
        return torch.as_tensor(self.held_out().log_density(self.data.y.cpu().numpy()).sum())

    def held_out(self) -> LocationScale:
        """What is said of each training row by forests that have not seen it."""
        mean, var = self.leave_one_out()
        return LocationScale(mean[None], var[None], np.zeros(1), self.spread.dof)

    def leave_one_out(self) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n q"]]:
        """Mean and variance of each training row, predicted from the rows of other folds."""
        return self.held_out_mean[:, None].numpy(), self.held_out_var[:, None].numpy()

    def predictive(self, x: Any, of: str = "y") -> LocationScale:
        """A Gaussian or t distribution of targets; a Gaussian of the function, by the jackknife over folds."""
        x = _table(x)
        each = self.location(x)
        mean, folds = each.mean(1), each.shape[1]
        if of == "y":
            var, dof = self.spread.variances(x, mean), self.spread.dof
        else:
            var, dof = each.var(1, correction=0) * (folds - 1), None
        return LocationScale(mean[None, :, None].numpy(), var[None, :, None].numpy(), np.zeros(1), dof)

    def draw(self, x: PointsLike, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Draws, independent over rows: trees know no covariance."""
        return self.predictive(x, of).sample(n_samples, generator)

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The mean of the forests."""
        return self.location(_table(x)).mean(1, keepdim=True).numpy()


@dataclass
class CountTreesModel(OfTrees):
    """Counts whose expectation is the exponential of a forest, with the law of a likelihood around it.

    ``of="f"`` asks about the expectation: log-normal, by the jackknife over folds.

    Arguments:
        location: the log of the expected count, a column for each fold, whose average counts.
        likelihood: the law around it.
        data: the training rows.
        held_out_log: the log of what each row was expected to be by the forest that has not seen it.
    """

    location: Forest
    likelihood: Likelihood
    data: Data = field(repr=False)
    held_out_log: Float[Tensor, " n"] = field(repr=False)

    @property
    def observed(self) -> Likelihood:
        """The law of counts."""
        return self.likelihood

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The log probability of the training rows by forests that have not seen them."""
        return torch.as_tensor(self.held_out().log_density(self.data.y.cpu().numpy()).sum())

    def held_out(self) -> Observed:
        """What is said of each training row by the forest that has not seen it."""
        return self._around(self.held_out_log)

    def predictive(self, x: Any, of: str = "y") -> Predictive:
        """The distribution of counts, or of their expectation."""
        each = self.location(_table(x))
        if of == "y":
            return self._around(each.mean(1))
        var = each.var(1, correction=0) * (each.shape[1] - 1)
        mean = each.mean(1) - 0.5 * var  # so that its exponential has the mean that counts have
        logs = LocationScale(mean[None, :, None].numpy(), var[None, :, None].numpy(), np.zeros(1))
        return Warped(logs, Log(0.0, 0.0, 1.0))

    def draw(self, x: PointsLike, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Draws, independent over rows."""
        return self.predictive(x, of).sample(n_samples, generator)

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The expected count."""
        return self.location(_table(x)).mean(1, keepdim=True).exp().numpy()

    def _around(self, logs: Float[Tensor, " n"]) -> Observed:
        rate = (logs - log_share(self.likelihood))[:, None]
        return Observed(self.likelihood, len(rate), lambda: Gaussian(rate, torch.full_like(rate, _SURE)))


@dataclass(frozen=True)
class Calibration:
    """Scores to probabilities, ``p = (1 − ε) softmax(s/T) + ε · base``: none is zero.

    Arguments:
        temperature: ``T``.
        doubt: ``ε``, the weight of base rates.
        base: the rates of all classes, none of them zero.
        present: the classes that scores are of.
        shares: whether scores are the logs of shares, which may be zero, instead of scores.
    """

    temperature: float
    doubt: float
    base: Float[Tensor, " c"]
    present: tuple[int, ...]
    shares: bool = False

    def scores(self, each: Float[Tensor, "n k"]) -> Float[Tensor, "n p"]:
        """The scores of classes, averaged over forests: ``each`` has those of one forest after those of another."""
        present = list(self.present)
        if self.shares:
            mean = each.unflatten(1, (-1, len(present))).mean(1)
            return (mean + _LEAST_SHARE * self.base[present]).log()
        if len(present) == 2:  # one score: the log odds of the second
            odds = each.mean(1, keepdim=True)
            return torch.cat([-odds / 2, odds / 2], 1)
        return each.unflatten(1, (-1, len(present))).mean(1)

    def probabilities(self, scores: Float[Tensor, "n p"]) -> Float[Tensor, "n c"]:
        """The probability of each class."""
        found = self.doubt * self.base.expand(len(scores), -1)
        found[:, list(self.present)] += (1 - self.doubt) * (scores / self.temperature).softmax(1)
        return found


_LEAST_SHARE = 0.02  # of base rates in shares, before their logarithm


@dataclass
class FoldClassesModel(OfTrees):
    """Averaged scores of forests or Gaussians, each of all rows but those of one fold, with a learnt temperature.

    Arguments:
        scorer: scores of classes, those of one fold after those of another; None where there is one class alone.
        calibration: makes probabilities of them.
        data: the training rows.
        held_out_scores: the scores of each training row by the fold that has not seen it.
    """

    scorer: Forest | GaussianScores | None
    calibration: Calibration
    data: Data = field(repr=False)
    held_out_scores: Float[Tensor, "n p"] = field(repr=False)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The log probability of the training rows by folds that have not seen them."""
        return torch.as_tensor(self.held_out().log_density(self.data.codes.cpu().numpy()).sum())

    def held_out(self) -> Classes:
        """What is said of each training row by the fold that has not seen it."""
        return Classes(self.calibration.probabilities(self.held_out_scores).numpy())

    def predictive(self, x: Any, of: str = "y") -> LocationScale | Classes:
        """The probability of each class; or their logs, without doubt of these."""
        probabilities = self.calibration.probabilities(self._scores(_table(x)))
        if of == "y":
            return Classes(probabilities.numpy())
        scores = probabilities.log().numpy()[None]
        return LocationScale(scores, np.zeros_like(scores), np.zeros(1))

    def function(self, x: PointsLike) -> Float[np.ndarray, "n c"]:
        """The log probability of each class."""
        return self.calibration.probabilities(self._scores(_table(x))).log().numpy()

    def _scores(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        if self.scorer is None:
            return torch.zeros(len(x), 1, dtype=torch.float64)
        return self.calibration.scores(self.scorer(x))


def _table(x: Any) -> Float[Tensor, "n d"]:
    return torch.as_tensor(x, dtype=torch.float64).detach().cpu()
