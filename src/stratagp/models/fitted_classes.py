"""Fitted models of classes in closed form: Laplace's method, expectation propagation, the local variational bound."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.models.classification import (
    BinaryPosterior,
    GPClassification,
    MulticlassLaplace,
    MulticlassPosterior,
    linked,
)
from stratagp.models.fitted import Fitted, Learnt
from stratagp.models.fitted_counts import BySites
from stratagp.models.latent_vecchia import Latent, LatentPosterior
from stratagp.models.observations import Data
from stratagp.objectives.sites import WarmStart
from stratagp.objectives.vecchia import Conditionals
from stratagp.parameterised import Parameterised
from stratagp.predictive import Classes, LocationScale
from stratagp.training.devices import as_numpy
from stratagp.types import Gaussian, PointsLike


@dataclass
class ClassModel(Fitted):
    """A model of classes with its data, and posteriors for one or more draws of the hyperparameters.

    Arguments:
        prior: the latent functions before the data.
        data: the training rows.
        n_classes: how many classes there are.
        draws: for each draw of the hyperparameters, what is believed after the data.
        method: how two classes are averaged over the latent function, "quadrature" or "kappa".
    """

    prior: Any
    data: Data = field(repr=False)
    n_classes: int
    draws: list[Any] = field(default_factory=list, repr=False)
    learnt: Learnt | None = None
    result: Any = None
    starts: list[WarmStart] = field(default_factory=list, repr=False)
    method: str = "quadrature"

    def __post_init__(self) -> None:
        self.starts = [WarmStart() for _ in range(self.n_classes)]

    def on(self, data: Data) -> ClassModel:
        """The same process with other data."""
        return replace(self, data=data)

    def to(self, device: torch.device) -> None:
        """Move latent functions and data to a device."""
        self.prior, self.data = self.prior.to(device), self.data.to(device)

    @abstractmethod
    def condition(self) -> Any:
        """What is believed under the values that the prior has now."""

    @abstractmethod
    def probabilities(self, posterior: Any, x: PointsLike) -> Float[Tensor, "n c"]:
        """The probability of each class, by one posterior."""

    @abstractmethod
    def latent(self, posterior: Any, x: PointsLike) -> Gaussian:
        """The latent functions, by one posterior."""

    @property
    def module(self) -> Parameterised:
        """The latent functions before the data."""
        module: Parameterised = self.prior
        return module

    @property
    def points(self) -> Any:
        """The training rows."""
        return self.data.x

    def predictive(self, x: Any, of: str = "y") -> LocationScale | Classes:
        """Probabilities of classes, averaged over draws of the hyperparameters; or the latent functions."""
        if of == "y":
            each = torch.stack([self.probabilities(posterior, x) for posterior in self.draws])
            return Classes(as_numpy(each.mean(0)))
        found = [self.latent(posterior, x) for posterior in self.draws]
        even = np.full(len(found), -np.log(len(found)))
        mean, var = (np.stack([as_numpy(belief[i]) for belief in found]) for i in range(2))
        return LocationScale(mean, var, even)

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The expected latent functions."""
        return as_numpy(torch.stack([self.latent(posterior, x).mean for posterior in self.draws]).mean(0))


class BinaryModel(ClassModel):
    """Two classes and one latent function."""

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The approximate evidence; the iteration starts where the last call ended."""
        return self.prior.log_evidence(self.data.x, self.data.codes, self.starts[0])

    def condition(self) -> BinaryPosterior:
        """The posterior of the latent function."""
        return self.prior.condition(self.data.x, self.data.codes)

    def probabilities(self, posterior: BinaryPosterior, x: PointsLike) -> Float[Tensor, "n c"]:
        """``1 − p`` and ``p``."""
        second = posterior.probabilities(x, self.method)
        return torch.stack([1 - second, second], 1)

    def latent(self, posterior: BinaryPosterior, x: PointsLike) -> Gaussian:
        """The latent function."""
        return posterior.marginals(x)


class OneAgainstRestModel(ClassModel):
    """Several classes for inferences that know two: one latent function for each, with one kernel for all."""

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The sum of the evidences of all questions "this class or another?"."""
        codes, starts = self.data.codes, enumerate(self.starts)
        return torch.stack([self.prior.log_evidence(self.data.x, codes == c, start) for c, start in starts]).sum()

    def condition(self) -> list[BinaryPosterior]:
        """One posterior for each class."""
        return [self.prior.condition(self.data.x, self.data.codes == c) for c in range(self.n_classes)]

    def probabilities(self, posterior: list[BinaryPosterior], x: PointsLike) -> Float[Tensor, "n c"]:
        """Normalised to sum to one."""
        each = torch.stack([one.probabilities(x, self.method) for one in posterior], 1)
        return each / each.sum(1, keepdim=True)

    def latent(self, posterior: list[BinaryPosterior], x: PointsLike) -> Gaussian:
        """The latent function of each class."""
        found = [one.marginals(x) for one in posterior]
        return Gaussian(torch.cat([each.mean for each in found], 1), torch.cat([each.var for each in found], 1))


class SoftmaxModel(ClassModel):
    """Several classes at once, by Laplace's method."""

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """Laplace's evidence; the iteration starts where the last call ended."""
        return self.prior.log_evidence(self.data.x, self.data.codes, self.starts[0])

    def condition(self) -> MulticlassPosterior:
        """The posterior of all latent functions."""
        return self.prior.condition(self.data.x, self.data.codes)

    def probabilities(self, posterior: MulticlassPosterior, x: PointsLike) -> Float[Tensor, "n c"]:
        """The softmax averaged over the latent functions."""
        return posterior.probabilities(x)

    def latent(self, posterior: MulticlassPosterior, x: PointsLike) -> Gaussian:
        """The latent function of each class."""
        return posterior.marginals(x)


@dataclass
class VecchiaClassModel(BySites, ClassModel):
    """Classes by Vecchia's process: one function for two of them, else one for each against the rest.

    ``data`` are the rows that values were learnt from, some of those that the posterior knows.

    Arguments:
        sets: the conditionals that values were learnt from.
        latents: what was believed about these rows then.
    """

    sets: Conditionals | None = field(default=None, repr=False)
    latents: list[Latent] | None = field(default=None, repr=False)

    @property
    def targets(self) -> Float[Tensor, "n q"]:
        """For each function, whether a row has its class."""
        codes = self.data.codes
        classes = [1] if self.n_classes == 2 else range(self.n_classes)
        return torch.stack([(codes == c).double() for c in classes], 1)

    def on(self, data: Data) -> VecchiaClassModel:
        """The same process with other data, about which nothing is believed yet."""
        return replace(self, data=data, sets=None, latents=None)

    def probabilities(self, posterior: LatentPosterior, x: PointsLike) -> Float[Tensor, "n c"]:
        """``1 − p`` and ``p``, or those of several classes, normalised to sum to one."""
        mean, var = posterior.marginals(x)
        beliefs = zip(mean.split(1, 1), var.split(1, 1), strict=True)
        link = self.prior.likelihood.link
        each = torch.stack([linked(Gaussian(*belief), link, self.method) for belief in beliefs], 1)
        return torch.cat([1 - each, each], 1) if self.n_classes == 2 else each / each.sum(1, keepdim=True)

    def latent(self, posterior: LatentPosterior, x: PointsLike) -> Gaussian:
        """The latent functions."""
        return posterior.marginals(x)


def class_model(
    kernel: Kernel, data: Data, n_classes: int, inference: str, link: str | None, intercept: float = 0.0
) -> ClassModel:
    """The model for a way of inference and a number of classes."""
    if n_classes > 2 and inference == "laplace" and link in (None, "logit"):
        return SoftmaxModel(MulticlassLaplace(kernel, n_classes, intercept), data, n_classes)
    prior = GPClassification(kernel, inference, link, intercept)
    return OneAgainstRestModel(prior, data, n_classes) if n_classes > 2 else BinaryModel(prior, data, n_classes)
