"""Engines that learn from mini-batches, for more rows than closed forms can bear."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.class_engines import ClassBelief, Labelled
from stratagp.estimators.engines import Belief, Data, TrainedBySteps, constant
from stratagp.likelihoods import Sampled
from stratagp.models import StochasticGP
from stratagp.training.loop import History
from stratagp.types import Gaussian

_BATCH, _SMALLEST_BATCH = 1024, 64  # rows of a step: a tenth of the data between these
_LEAST_STEPS = 500
_RATE = 0.02  # of Adam


class MiniBatches(TrainedBySteps):
    """A model that is trained by steps on batches; ``targets`` are ``n q``."""

    model: StochasticGP

    @property
    @abstractmethod
    def targets(self) -> Float[Tensor, "n q"]:
        """What the likelihood scores."""

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The lower bound on the evidence of all rows."""
        return self.model.bound(self.data.x, self.targets)

    def train(self, epochs: int, seed: int, progress: bool, penalty: Callable[[], Tensor] | None) -> History:
        """Steps over the data, ``epochs`` times or more; ``penalty`` is added to the bound, such as a log prior.

        Samples of a softmax are too noisy for natural gradients, which go by the curvature too.
        """
        n = len(self.data.x)
        size = min(n, max(_SMALLEST_BATCH, min(_BATCH, n // 10)))
        return self.model.fit(
            self.data.x,
            self.targets,
            natural=not isinstance(self.model.likelihood, Sampled),
            batch_size=size,
            steps=max(_LEAST_STEPS, epochs * (n // size)),
            rate=_RATE,
            generator=torch.Generator().manual_seed(seed),
            progress=progress,
            penalty=penalty,
        )


class StochasticRegression(MiniBatches):
    """Several targets, a latent function each."""

    data: Data

    @property
    def targets(self) -> Float[Tensor, "n q"]:
        """The standardised targets."""
        return self.data.y

    def condition(self) -> list[Belief]:
        """The posterior that training has left, for each target."""
        noises = self.data.noises(self.model.likelihood.noise)
        return [Belief(OneFunction(self.model, j), constant(own)) for j, own in enumerate(noises)]


@dataclass(frozen=True)
class OneFunction:
    """One of the latent functions of a stochastic model, asked like a posterior."""

    model: StochasticGP
    index: int

    def mean(self, x: Any) -> Float[Tensor, " n"]:
        """The expected function at each row."""
        return self.model.marginals(x).mean[:, self.index]

    def marginals(self, x: Any) -> Gaussian:
        """Mean and variance at each row, as ``n 1``."""
        belief = self.model.marginals(x)
        return Gaussian(belief.mean[:, [self.index]], belief.var[:, [self.index]].clamp_min(0))

    def covariance(self, x: Any) -> Float[Tensor, "n n"]:
        """The joint covariance of the rows."""
        return self.model.covariance(x)[self.index]


class StochasticClasses(MiniBatches):
    """Classes, by the Bernoulli or the softmax likelihood."""

    data: Labelled

    @property
    def targets(self) -> Float[Tensor, "n q"]:
        """The numbers of the classes."""
        return self.data.t.double()[:, None]

    def condition(self) -> ClassBelief:
        """The posterior that training has left."""
        return StochasticBelief(self.model)


@dataclass(frozen=True)
class StochasticBelief(ClassBelief):
    """Probabilities of classes by a stochastic model."""

    model: StochasticGP

    def probabilities(self, x: Any, method: str) -> Float[Tensor, "n c"]:
        """The link averaged over the latent functions."""
        found = self.model.predict(x).mean
        return torch.cat([1 - found, found], 1) if found.shape[1] == 1 else found

    def latent(self, x: Any) -> Float[Tensor, "n q"]:
        """The expected latent functions."""
        return self.model.marginals(x).mean


def refuse_rows_of_their_own(data: Data, incomplete: bool) -> None:
    """Mini-batches know one noise for all rows."""
    if data.weights is not None or incomplete:
        raise InputError("inference='stochastic' takes no sample weights and no missing inputs; use inference='sparse'")
    if data.noise is not None and not bool((data.noise == data.noise[0]).all()):
        raise InputError("inference='stochastic' takes one noise variance for all rows; use inference='sparse'")
