"""Likelihoods with one latent function per output, so that every integral is a sum of one-dimensional ones."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods.base import log_average, on_a_line
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.types import Gaussian


class FunctionPerOutput(ABC):
    """Beside :class:`~stratagp.likelihoods.Likelihood`: ``log p(y | f) = Σ_p log p(y_p | f_p)``.

    A likelihood is then the density of one output, :meth:`log_density`.
    """

    @abstractmethod
    def log_density(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n p"]:
        """``log p(y_p | f_p)`` of each output."""

    @abstractmethod
    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n p"]:
        """``P(Y ≤ y_p | f_p)`` of each output."""

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n"]:
        """``Σ_p log p(y_p | f_p)``."""
        return self.log_density(y, f).sum(-1)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``Σ_p E log p(y_p | f_p)``, by quadrature for each output."""
        f, log_weights = at_own_nodes(q)
        return torch.tensordot(log_weights.exp(), self.log_prob(y, f), 1)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``Σ_p log E p(y_p | f_p)``, by quadrature for each output."""
        f, log_weights = at_own_nodes(q)
        return log_average(self.log_density(y, f), log_weights).sum(-1)

    def predictive_cdf(self, y: Float[Tensor, "*s n p"], q: Gaussian) -> Float[Tensor, "*s n p"]:
        """``E P(Y ≤ y_p | f_p)``, on a fine grid for each output."""
        f, log_weights = on_a_line(q)
        return torch.tensordot(log_weights.exp(), self.cdf(y.expand(len(f), *y.shape), f), 1)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``Σ_p log E 1/p(y_p | f_p)``, by quadrature for each output."""
        f, log_weights = at_own_nodes(q)
        return log_average(-self.log_density(y, f), log_weights).sum(-1)


def at_own_nodes(q: Gaussian) -> tuple[Float[Tensor, "k *s n q"], Float[Tensor, " k"]]:
    """Latent values at one-dimensional nodes, the same for each function, and the nodes' log weights."""
    points, log_weights = normal_nodes(1, q.mean)
    return q.sample(points.reshape(-1, *[1] * q.mean.dim())), log_weights
