"""The contract of every model that has learnt from rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods import Likelihood
from stratagp.parameterised import Parameterised
from stratagp.predictive import Classes, Predictive
from stratagp.training.criterion import Centres, Criterion
from stratagp.types import PointsLike

_ROWS = 4096  # predicted at once


@dataclass(frozen=True)
class Learnt:
    """By which criterion values were learnt, and the centres of their default priors, by name."""

    criterion: str
    centres: dict[str, Tensor]

    def objective(self, module: Parameterised, score: Callable[[bool], Tensor]) -> Callable[[], Tensor]:
        """What was climbed."""
        return Criterion(self.criterion, module, score, self.centres_of(module)).objective

    def centres_of(self, module: Parameterised) -> Centres:
        """The centres by the free coordinates of a module whose values have the same names."""
        raws = {item.name: item.parameter.raw for item in module.named_values()}
        return {raws[name]: centre for name, centre in self.centres.items()}


class Fitted(ABC):
    """A model that has learnt from rows and predicts others.

    Points are what kernels see, and targets are standardised: units and column names belong to the caller.
    """

    learnt: Learnt | None = None
    """The criterion by which values were learnt in closed form; None if training was by steps."""

    @property
    @abstractmethod
    def module(self) -> Parameterised:
        """The module that holds every learnt value."""

    @property
    def observed(self) -> Likelihood | None:
        """How observations come from latent functions; None where a closed form has that inside."""
        return None

    @property
    def discrete(self) -> bool:
        """Whether targets are whole numbers."""
        return self.observed is not None and self.observed.discrete

    def log_unit(self, log_scale: Float[np.ndarray, " q"]) -> float:
        """What the log density of standardised targets exceeds that of the targets by."""
        return float(len(self.points) * log_scale.sum())

    @property
    @abstractmethod
    def points(self) -> Any:
        """The training rows, or some of them."""

    @abstractmethod
    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """``log p(y)`` of the training rows, or a bound on it; or their leave-one-out density."""

    def held_out(self) -> Predictive | Classes | None:
        """What was said of each training row by models that had not seen it; None where learning does not tell."""
        return None

    def evidence(self) -> Float[Tensor, ""]:
        """``log p(y)`` of the training rows with the values that were learnt, as well as the model knows it."""
        return self.score()

    @abstractmethod
    def predictive(self, x: Any, of: str = "y") -> Predictive | Classes:
        """The distribution at rows ``x`` of observations (``of="y"``) or of the latent functions (``of="f"``)."""

    def predictives(self, x: Any, of: str = "y") -> Iterator[Predictive | Classes]:
        """:meth:`predictive` in chunks of rows, so that memory does not grow with their number."""
        for start in range(0, max(1, len(x)), _ROWS):
            yield self.predictive(x[start : start + _ROWS], of)

    @abstractmethod
    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The expected latent functions, without their variance if that costs extra."""

    def rough(self) -> Fitted:
        """A model that says nearly the same sooner, for questions about many points or many values."""
        return self

    def draw(self, x: PointsLike, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Joint draws at rows ``x``."""
        raise InputError("this model cannot draw rows jointly")

    def joint(self, x: PointsLike, of: str) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n n q"]]:
        """Mean and joint covariance at rows ``x``, for each target."""
        raise InputError("return_cov needs a Gaussian process with Gaussian noise: use sample_y")

    def leave_one_out(self) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n q"]]:
        """Mean and variance of each training target predicted from all other rows."""
        raise InputError(
            "leave_one_out is for GPRegressor with inference='exact' or 'vecchia' and noise that does not vary"
        )


@dataclass
class Around(Fitted):
    """A model that changes what another one says.

    Arguments:
        model: the other one, which holds the learnt values.
    """

    model: Fitted

    @property
    def module(self) -> Parameterised:
        """That of the model."""
        return self.model.module

    @property
    def points(self) -> Any:
        """The rows that the model has learnt from."""
        return self.model.points
