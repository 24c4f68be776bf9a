"""A likelihood to copy: the density of an observation and its first two moments given the function value."""

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods import Likelihood
from stratagp.types import Gaussian


class ExponentialTimes(Likelihood):
    """Waiting times ``y > 0`` with rate ``exp(−f)``: ``p(y | f) = exp(−f) exp(−y exp(−f))``, mean ``exp(f)``."""

    def log_prob(self, y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``−f − y exp(−f)``."""
        return (-f - y * torch.exp(-f)).squeeze(-1)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """Mean ``exp(f)``, variance its square."""
        return Gaussian(f.exp(), (2 * f).exp())
