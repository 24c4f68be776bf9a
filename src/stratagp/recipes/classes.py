"""Classes by closed forms: Laplace's method, expectation propagation, the local variational bound."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.models import BinaryPosterior, GPClassification, MulticlassLaplace, MulticlassPosterior
from stratagp.models.fitted import Fitted
from stratagp.models.memory import check_memory
from stratagp.objectives.sites import WarmStart
from stratagp.parameterised import Parameterised
from stratagp.predictive import Classes, LocationScale
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.processes import check_device
from stratagp.recipes.search import Criterion, Learnt, Search, draw, train
from stratagp.training.devices import as_numpy
from stratagp.training.start import start_from_data
from stratagp.types import Gaussian

LATENT_VARIANCE = 4.0  # of latent functions at the start: probabilities from 0.1 to 0.9


@dataclass
class ClassModel(Fitted):
    """A model of classes with its data, and posteriors for one or more draws of the hyperparameters.

    Arguments:
        prior: the latent functions before the data.
        data: the training rows.
        n_classes: how many classes there are.
        draws: for each draw of the hyperparameters, what is believed after the data.
    """

    prior: Any
    data: Data = field(repr=False)
    n_classes: int
    draws: list[Any] = field(default_factory=list, repr=False)
    learnt: Learnt | None = None
    result: Any = None
    starts: list[WarmStart] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.starts = [WarmStart() for _ in range(self.n_classes)]

    @abstractmethod
    def condition(self) -> Any:
        """What is believed under the values that the prior has now."""

    @abstractmethod
    def probabilities(self, posterior: Any, x: Any, method: str) -> Float[Tensor, "n c"]:
        """The probability of each class, by one posterior."""

    @abstractmethod
    def latent(self, posterior: Any, x: Any) -> Gaussian:
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

    def predictive(self, x: Any, of: str = "y", method: str = "quadrature") -> LocationScale | Classes:
        """Probabilities of classes, averaged over draws of the hyperparameters; or the latent functions."""
        if of == "y":
            each = torch.stack([self.probabilities(posterior, x, method) for posterior in self.draws])
            return Classes(as_numpy(each.mean(0)))
        found = [self.latent(posterior, x) for posterior in self.draws]
        even = np.full(len(found), -np.log(len(found)))
        mean, var = (np.stack([as_numpy(belief[i]) for belief in found]) for i in range(2))
        return LocationScale(mean, var, even)

    def function(self, x: Any) -> Float[np.ndarray, "n q"]:
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

    def probabilities(self, posterior: BinaryPosterior, x: Any, method: str) -> Float[Tensor, "n c"]:
        """``1 − p`` and ``p``."""
        second = posterior.probabilities(x, method)
        return torch.stack([1 - second, second], 1)

    def latent(self, posterior: BinaryPosterior, x: Any) -> Gaussian:
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

    def probabilities(self, posterior: list[BinaryPosterior], x: Any, method: str) -> Float[Tensor, "n c"]:
        """Normalised to sum to one."""
        each = torch.stack([one.probabilities(x, method) for one in posterior], 1)
        return each / each.sum(1, keepdim=True)

    def latent(self, posterior: list[BinaryPosterior], x: Any) -> Gaussian:
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

    def probabilities(self, posterior: MulticlassPosterior, x: Any, method: str) -> Float[Tensor, "n c"]:
        """The softmax averaged over the latent functions."""
        return posterior.probabilities(x)

    def latent(self, posterior: MulticlassPosterior, x: Any) -> Gaussian:
        """The latent function of each class."""
        return posterior.marginals(x)


def class_model(kernel: Kernel, data: Data, n_classes: int, inference: str, link: str | None) -> ClassModel:
    """The model for a way of inference and a number of classes."""
    if n_classes > 2 and inference == "laplace" and link in (None, "logit"):
        return SoftmaxModel(MulticlassLaplace(kernel, n_classes), data, n_classes)
    prior = GPClassification(kernel, inference, link)
    return OneAgainstRestModel(prior, data, n_classes) if n_classes > 2 else BinaryModel(prior, data, n_classes)


@dataclass(frozen=True)
class ClassRecipe(Recipe):
    """Learn classes by a closed form.

    Arguments:
        kernel: of the latent functions, bound to its columns.
        inference: "laplace", "ep" or "variational".
        link: "logit" or "probit"; left out, what the inference knows.
        search: how hyperparameters are learnt.
    """

    kernel: Kernel
    inference: str = "laplace"
    link: str | None = None
    search: Search = field(default_factory=lambda: Search(n_restarts=0))

    def fit(self, rows: Rows, context: FitContext) -> ClassModel:
        """Start from the data, climb, condition."""
        data, search = rows.data, self.search
        check_device(data.x, context)
        first = (data.codes == 0).double()
        start_from_data(self.kernel, data.x, first - first.mean(), variance=LATENT_VARIANCE)
        model = class_model(self.kernel, data, rows.n_classes, self.inference, self.link)
        model.prior, model.data = model.prior.to(context.device), data.to(context.device)
        criterion = Criterion(search.criterion, model.module, model.score, {})
        model.result = train(criterion, search, context)
        model.learnt = Learnt(search.criterion, criterion.named_centres())
        if search.criterion == "bayes":
            check_memory(len(data), "averaging over draws", search.n_draws)
            model.draws = [model.condition() for _ in draw(criterion, search.n_draws, context)]
        else:
            model.draws = [model.condition()]
        return model
