"""What a likelihood answers: the density of an observation, and its integrals over a Gaussian belief.

A new likelihood is two methods, :meth:`Likelihood.log_prob` and :meth:`Likelihood.moments`; the integrals follow by
quadrature, and a closed form may replace any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

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

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``E log p(yₙ | fₙ)`` under ``fₙ ~ N(q.mean, q.var)``: the data term of every variational bound."""
        f, log_weights = _at_nodes(q)
        values = self.log_prob(y, f)
        return torch.tensordot(log_weights.exp(), values, 1)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E p(yₙ | fₙ)``: the log density of an observation under the belief."""
        f, log_weights = _at_nodes(q)
        values = self.log_prob(y, f)
        return torch.logsumexp(log_weights.reshape(-1, *[1] * (values.dim() - 1)) + values, 0)

    def predict(self, q: Gaussian) -> Gaussian:
        """Mean and variance of ``y`` under the belief: ``E E[y|f]`` and ``E Var[y|f] + Var E[y|f]``."""
        f, log_weights = _at_nodes(q)
        given = self.moments(f)
        weights = log_weights.exp()
        mean = torch.tensordot(weights, given.mean, 1)
        return Gaussian(mean, torch.tensordot(weights, given.var + (given.mean - mean).square(), 1))


def _at_nodes(q: Gaussian) -> tuple[Float[Tensor, "k *s n q"], Float[Tensor, " k"]]:
    """Latent values at the nodes, in a new first axis, and the nodes' log weights."""
    points, log_weights = normal_nodes(q.mean.shape[-1], q.mean)
    return q.sample(points.reshape(len(points), *[1] * (q.mean.dim() - 1), -1)), log_weights
