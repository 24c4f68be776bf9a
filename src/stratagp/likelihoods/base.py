"""What a likelihood answers: the density of an observation, and its integrals over a Gaussian belief.

A new likelihood is two methods, :meth:`Likelihood.log_prob` and :meth:`Likelihood.moments`; the integrals follow by
quadrature, and a closed form may replace any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.parameterised import Parameterised
from stratagp.types import Gaussian


class Likelihood(Parameterised, ABC):
    """``p(y | f)`` for observations ``n p`` and latent values ``*s n q``, independent over rows."""

    @abstractmethod
    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
        """``log p(yₙ | fₙ)``, summed over the outputs of a row."""

    @abstractmethod
    def moments(self, f: Float[Tensor, "*s n q"]) -> Gaussian:
        """Mean and variance of ``y`` given ``f``, each ``*s n p``."""

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, " n"]:
        """``E log p(yₙ | fₙ)`` under ``fₙ ~ N(q.mean, q.var)``: the data term of every variational bound."""
        values, log_weights = _at_nodes(q, lambda f: self.log_prob(y, f))
        return (log_weights.exp()[:, None] * values).sum(0)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, " n"]:
        """``log E p(yₙ | fₙ)``: the log density of an observation under the belief."""
        values, log_weights = _at_nodes(q, lambda f: self.log_prob(y, f))
        return torch.logsumexp(log_weights[:, None] + values, 0)

    def predict(self, q: Gaussian) -> Gaussian:
        """Mean and variance of ``y`` under the belief: ``E E[y|f]`` and ``E Var[y|f] + Var E[y|f]``."""
        points, log_weights = normal_nodes(q.mean.shape[-1], q.mean)
        given = self.moments(q.sample(points[:, None, :]))
        weights = log_weights.exp()[:, None, None]
        mean = (weights * given.mean).sum(0)
        return Gaussian(mean, (weights * (given.var + (given.mean - mean).square())).sum(0))


def _at_nodes(q: Gaussian, function: Callable[[Tensor], Tensor]) -> tuple[Tensor, Float[Tensor, " s"]]:
    points, log_weights = normal_nodes(q.mean.shape[-1], q.mean)
    return function(q.sample(points[:, None, :])), log_weights
