"""Engines for classes: a model of labels, its score on the data, and probabilities after them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.estimators.engines import Engine
from stratagp.models import BinaryPosterior, GPClassification, MulticlassLaplace, MulticlassPosterior
from stratagp.objectives.sites import WarmStart


@dataclass(frozen=True)
class Labelled:
    """Points and their classes as numbers ``0 … n_classes − 1``."""

    x: Any
    t: Tensor
    n_classes: int


class ClassBelief(ABC):
    """What is believed about classes after the data."""

    @abstractmethod
    def probabilities(self, x: Any, method: str) -> Float[Tensor, "n c"]:
        """The probability of each class at each row."""

    @abstractmethod
    def latent(self, x: Any) -> Float[Tensor, "n q"]:
        """The expected latent functions at each row."""


@dataclass
class Binary(Engine):
    """Two classes, by Laplace, expectation propagation or the local variational bound."""

    model: GPClassification
    data: Labelled
    start: WarmStart = field(default_factory=WarmStart, repr=False)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The approximate evidence; the iteration starts where the last call ended."""
        return self.model.log_evidence(self.data.x, self.data.t, self.start)

    def condition(self) -> ClassBelief:
        """The posterior of the latent function."""
        return BinaryBelief(self.model.condition(self.data.x, self.data.t))


@dataclass(frozen=True)
class BinaryBelief(ClassBelief):
    """Probabilities of two classes."""

    posterior: BinaryPosterior

    def probabilities(self, x: Any, method: str) -> Float[Tensor, "n c"]:
        """``1 − p`` and ``p``."""
        second = self.posterior.probabilities(x, method)
        return torch.stack([1 - second, second], 1)

    def latent(self, x: Any) -> Float[Tensor, "n q"]:
        """The latent function."""
        return self.posterior.marginals(x).mean


@dataclass
class OneAgainstRest(Engine):
    """Several classes for inferences that know two: one latent function for each, with one kernel for all."""

    model: GPClassification
    data: Labelled
    starts: list[WarmStart] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.starts = [WarmStart() for _ in range(self.data.n_classes)]

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The sum of the evidences of all questions "this class or another?"."""
        scores = [self.model.log_evidence(self.data.x, self.data.t == c, s) for c, s in enumerate(self.starts)]
        return torch.stack(scores).sum()

    def condition(self) -> ClassBelief:
        """One posterior for each class."""
        return RestBelief([self.model.condition(self.data.x, self.data.t == c) for c in range(self.data.n_classes)])


@dataclass(frozen=True)
class RestBelief(ClassBelief):
    """Probabilities of each class against the rest, normalised."""

    posteriors: list[BinaryPosterior]

    def probabilities(self, x: Any, method: str) -> Float[Tensor, "n c"]:
        """Normalised to sum to one."""
        each = torch.stack([posterior.probabilities(x, method) for posterior in self.posteriors], 1)
        return each / each.sum(1, keepdim=True)

    def latent(self, x: Any) -> Float[Tensor, "n q"]:
        """The latent function of each class."""
        return torch.cat([posterior.marginals(x).mean for posterior in self.posteriors], 1)


@dataclass
class Softmax(Engine):
    """Several classes at once, by Laplace."""

    model: MulticlassLaplace
    data: Labelled
    start: WarmStart = field(default_factory=WarmStart, repr=False)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """Laplace's evidence; the iteration starts where the last call ended."""
        return self.model.log_evidence(self.data.x, self.data.t, self.start)

    def condition(self) -> ClassBelief:
        """The posterior of all latent functions."""
        return SoftmaxBelief(self.model.condition(self.data.x, self.data.t))


@dataclass(frozen=True)
class SoftmaxBelief(ClassBelief):
    """Probabilities of several classes."""

    posterior: MulticlassPosterior

    def probabilities(self, x: Any, method: str) -> Float[Tensor, "n c"]:
        """The softmax averaged over the latent functions."""
        return self.posterior.probabilities(x)

    def latent(self, x: Any) -> Float[Tensor, "n q"]:
        """The latent function of each class."""
        return self.posterior.marginals(x).mean
