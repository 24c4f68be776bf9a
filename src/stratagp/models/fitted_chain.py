"""Fitted chains of layers that end in a likelihood: every model that learns by mini-batches, and deep ones in closed
form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.objects.anchors import Anchored
from stratagp.likelihoods import Likelihood
from stratagp.models.chain import Chain, joined
from stratagp.models.fitted import Fitted
from stratagp.models.observations import Data
from stratagp.models.stochastic import StochasticGP
from stratagp.models.target_posterior import TargetPosterior, normal_draws
from stratagp.posteriors import FullGaussian
from stratagp.predictive import Classes, LocationScale, Observed, Predictive
from stratagp.training.devices import as_numpy
from stratagp.training.lbfgs import Result
from stratagp.training.loop import History
from stratagp.types import Gaussian, PointsLike

_JOINT = 2000  # rows up to which draws are from the joint covariance


@dataclass(frozen=True)
class OneFunction:
    """One of the latent functions of a process by inducing points, asked like a posterior."""

    chain: StochasticGP
    index: int

    def mean(self, x: PointsLike) -> Float[Tensor, " n"]:
        """The expected function at each row."""
        return self.chain.marginals(x).mean[:, self.index]

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance at each row, as ``n 1``."""
        belief = self.chain.marginals(x)
        return Gaussian(belief.mean[:, [self.index]], belief.var[:, [self.index]].clamp_min(0))

    def covariance(self, x: PointsLike) -> Float[Tensor, "n n"]:
        """The joint covariance of the rows."""
        return self.chain.covariance(x)[self.index]


@dataclass
class ChainModel(Fitted):
    """A trained chain, and the rows (or some of them) that it was trained on.

    Arguments:
        chain: layers and likelihood.
        data: rows that it was trained on.
        histories: how training went, phase by phase.
        result: how an optimiser in closed form ended.
        bounds: the bound that each of several starts has led to.
        independent: whether targets are independent Gaussians, each with a density of its own.
        attained: the bound of training, where it had beliefs about single rows that the chain does not keep.
    """

    chain: Chain
    data: Data = field(repr=False)
    histories: list[History] = field(default_factory=list, repr=False)
    result: Result | History | None = None
    bounds: list[float] = field(default_factory=list)
    independent: bool = False
    attained: float | None = None

    @property
    def module(self) -> Chain:
        """The chain."""
        return self.chain

    @property
    def observed(self) -> Likelihood:
        """The likelihood itself, where the chain has a sampler of it or mixes functions for it."""
        return self.chain.observed.unwrapped

    @property
    def points(self) -> Any:
        """The rows it was trained on, or some of them."""
        return self.data.x

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The lower bound on the evidence of the rows."""
        return self.chain.bound(self.data.x, self.data.y)

    def evidence(self) -> Float[Tensor, ""]:
        """The bound that training attained."""
        return self.score() if self.attained is None else torch.tensor(self.attained, dtype=torch.float64)

    def predictive(self, x: Any, of: str = "y") -> Predictive | Classes:
        """What may be observed at all rows together."""
        chunks = list(self.chain.observations(x))
        if len(chunks) == 1:
            return self._answer(chunks[0], of)
        beliefs, moments = (
            (lambda: joined([c.belief for c in chunks])),
            (lambda: joined([c.moment_belief for c in chunks])),
        )
        return self._answer(Observed(self.chain.observed, len(x), beliefs, moments), of)

    def predictives(self, x: PointsLike, of: str = "y") -> Iterator[Predictive | Classes]:
        """Some rows after others, which share what is factored once."""
        for observed in self.chain.observations(x):
            yield self._answer(observed, of)

    def _answer(self, observed: Observed, of: str) -> Predictive | Classes:
        if of == "f":
            return observed.latent
        if self.observed.of_classes:
            return Classes(observed.probabilities)
        if self.independent:
            return LocationScale(observed.mean[None], observed.var[None], np.zeros(1))
        return observed

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The expected scores."""
        return as_numpy(self.chain.observed.latent(self.chain.marginals(x)).mean)

    def joint(self, x: Any, of: str) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n n q"]]:
        """Mean and joint covariance of processes with Gaussian noise."""
        if not self._is_gaussian_process:
            return super().joint(x, of)
        belief = self.chain.marginals(x)
        cov = self.chain.covariance(x)
        cov = 0.5 * (cov + cov.mT)
        if of == "y":
            noise = self.chain.likelihood.noise.detach().expand(len(cov))
            cov = cov + noise[:, None, None] * torch.eye(len(x)).to(cov)
        return as_numpy(belief.mean), as_numpy(cov.movedim(0, -1))

    @property
    def _is_gaussian_process(self) -> bool:
        """Whether the joint covariance of new rows is known."""
        layer = self.chain.layer
        plain = isinstance(self.chain, StochasticGP) and isinstance(layer.posterior, FullGaussian)
        if not plain or not self.chain.observed.is_gaussian:
            return False
        return not any(isinstance(part, Anchored) for part in layer.modules())  # which know no two new objects together

    def targets(self) -> list[TargetPosterior]:
        """The posterior of each of several independent targets."""
        if not self.independent or not isinstance(self.chain, StochasticGP):
            raise InputError("this is known of processes with Gaussian noise alone: take GPRegressor")
        noises = self.data.noises(self.chain.likelihood.noise.detach())
        return [TargetPosterior(OneFunction(self.chain, j), noise) for j, noise in enumerate(noises)]

    def draw(self, x: Any, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Whole functions, and observations of them; of many rows or deep models by random features.

        Objects share the inducing values and have what these leave open for themselves.
        """
        chain = self.chain
        x = x.to(next(chain.parameters()).device)
        with torch.no_grad():
            if self._is_gaussian_process and len(x) <= _JOINT:
                mean, cov = chain.marginals(x).mean, chain.covariance(x)
                pairs = zip(mean.mT, cov, strict=True)
                functions = torch.stack([normal_draws(m, c, n_samples, None, generator) for m, c in pairs], -1).to(x)
            else:
                functions = torch.stack([chain.layer.draw(generator)(x) for _ in range(n_samples)])
            if of == "f":
                zero = torch.zeros_like(functions)
                return as_numpy(chain.observed.latent(Gaussian(functions, zero)).mean)
            return np.stack([as_numpy(chain.likelihood.sample(f, generator)) for f in functions])

    def class_moments(self, x: PointsLike) -> tuple[Float[np.ndarray, "n c"], Float[np.ndarray, "n c"]]:
        """Mean and variance of the probability of each class, over all that is uncertain behind it."""
        found = [observed.class_moments for observed in self.chain.observations(x)]
        mean, var = (np.concatenate(part) for part in zip(*found, strict=True))
        return mean, var
