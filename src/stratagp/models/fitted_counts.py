"""Fitted processes of counts, and what they share with those of classes: sites that are found again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods import Likelihood
from stratagp.models.fitted import Fitted, Learnt
from stratagp.models.latent_vecchia import Latent, LatentPosterior
from stratagp.models.neighbours import nearest_before
from stratagp.models.observations import Data
from stratagp.models.warps import Log
from stratagp.objectives.vecchia import Conditionals
from stratagp.parameterised import Parameterised
from stratagp.predictive import LocationScale, Observed, Predictive
from stratagp.predictive.warped import Warped
from stratagp.training.devices import as_numpy
from stratagp.types import PointsLike


class BySites(ABC):
    """Latent functions whose values are learnt in rounds: sites, then a climb that leaves them where they are.

    Its ``data`` are the rows that values are learnt from; ``sets`` and ``latents`` belong to the last round.
    """

    prior: Any
    data: Data
    result: Any
    sets: Conditionals | None
    latents: list[Latent] | None

    @property
    @abstractmethod
    def targets(self) -> Float[Tensor, "n q"]:
        """What each latent function is observed by."""

    def settle(self, n_neighbours: int, n_conditionals: int, tolerance: float) -> None:
        """Find neighbours and sites again, under the values that the prior has now."""
        x, prior = self.data.x, self.prior
        near = prior.neighbourhood(x, n_neighbours)
        self.latents = prior.latents(x, self.targets, self.latents, near, tolerance)
        self.sets = nearest_before(prior.kernel, x, n_neighbours, prior.seed, n_conditionals)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The evidence of the sites, estimated from the conditionals at hand."""
        return self.prior.log_evidence(self.data.x, self.targets, self.latents, self.sets)

    def condition(self, tolerance: float = 1e-6) -> LatentPosterior:
        """The posterior of all latent functions."""
        return self.prior.condition(self.data.x, self.targets, tolerance)


@dataclass
class CountModel(BySites, Fitted):
    """Counts by Vecchia's process for the log of their rate.

    ``of="f"`` asks about the expected count: ``c e^f``, with ``c`` less than one where some rows are always zero.

    Arguments:
        prior: the log rate before the data, with the likelihood.
        data: the training rows.
        posterior: what is believed after the data.
        sets: the conditionals that values were learnt from.
        latents: what was believed about these rows then.
    """

    prior: Any
    data: Data = field(repr=False)
    posterior: LatentPosterior | None = field(default=None, repr=False)
    learnt: Learnt | None = None
    result: Any = None
    sets: Conditionals | None = field(default=None, repr=False)
    latents: list[Latent] | None = field(default=None, repr=False)

    @property
    def module(self) -> Parameterised:
        """The log rate before the data, with the likelihood."""
        module: Parameterised = self.prior
        return module

    @property
    def observed(self) -> Likelihood:
        """How counts come from the log rate."""
        likelihood: Likelihood = self.prior.likelihood
        return likelihood

    @property
    def points(self) -> Any:
        """The training rows."""
        return self.data.x

    @property
    def targets(self) -> Float[Tensor, "n 1"]:
        """The counts."""
        return self.data.y

    def on(self, data: Data) -> CountModel:
        """The same process with other data, about which nothing is believed yet."""
        return replace(self, data=data, sets=None, latents=None)

    def predictive(self, x: Any, of: str = "y") -> Predictive:
        """The distribution of counts; or of what is expected of them, which is log-normal."""
        assert self.posterior is not None
        belief = self.posterior.marginals(x)
        if of == "y":
            return Observed(self.observed, len(x), lambda: belief)
        rate = LocationScale(as_numpy(belief.mean)[None], as_numpy(belief.var)[None], np.zeros(1))
        return Warped(rate, Log(0.0, log_share(self.observed), 1.0))

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The expected count."""
        return self.predictive(x, "f").mean

    def draw(self, x: PointsLike, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Draws, independent over rows."""
        return self.predictive(x, of).sample(n_samples, generator)


def log_share(likelihood: Likelihood) -> float:
    """The log of how much of the rate ``e^f`` is expected of counts: less than all where some rows are always zero.

    >>> from stratagp.likelihoods import Poisson, ZeroInflated
    >>> round(log_share(ZeroInflated(Poisson(), 0.5)), 3)
    -0.693
    """
    with torch.no_grad():
        return float(likelihood.moments(torch.zeros(1, 1, dtype=torch.float64)).mean.log())
