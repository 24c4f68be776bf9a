"""Gaussian noise, for which every integral has a closed form."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods.base import Likelihood
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian

_LARGEST_SHARE = 0.99  # largest ratio of latent variance to noise in leave-one-out densities


class GaussianNoise(Likelihood):
    """``y = f + ε``, ``ε ~ N(0, noise)``; ``noise`` is a variance, one for all outputs or one for each.

    >>> likelihood = GaussianNoise(0.5)
    >>> f = Gaussian(torch.zeros(1, 1), torch.ones(1, 1))
    >>> likelihood.predict(f).var.item()
    1.5
    """

    is_gaussian = scalable = direct = True

    closed_reciprocal = True

    def __init__(self, noise: Value | Parameter = 0.1) -> None:
        super().__init__()
        self.noise = positive(noise, name="noise")

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n"]:
        """``−½ Σ_p [log 2π noise + (y − f)²/noise]``."""
        return -0.5 * ((y - f).square() / self.noise + self.noise.log() + math.log(2 * math.pi)).sum(-1)

    def moments(self, f: Float[Tensor, "*s n p"]) -> Gaussian:
        """``f`` and the noise."""
        return Gaussian(f, self.noise.to(f).expand(f.shape))

    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n p"]:
        """``Φ((y − f)/√noise)``."""
        return torch.special.ndtr((y - f) / self.noise.to(f).sqrt())

    def predictive_cdf(self, y: Float[Tensor, "*s n p"], q: Gaussian) -> Float[Tensor, "*s n p"]:
        """``Φ((y − mean)/√(var + noise))``."""
        return torch.special.ndtr((y - q.mean) / (q.var + self.noise.to(q.var)).sqrt())

    def sample(self, f: Float[Tensor, "*s n p"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n p"]:
        """``f + √noise ε``."""
        return f + self.noise.to(f).sqrt() * torch.randn(f.shape, generator=generator, dtype=f.dtype).to(f)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log N(y; mean, noise) − Σ_p var/(2 noise)``."""
        return self.log_prob(y, q.mean) - 0.5 * (q.var / self.noise).sum(-1)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log N(y; mean, var + noise)``."""
        total = q.var + self.noise
        return -0.5 * ((y - q.mean).square() / total + torch.log(2 * math.pi * total)).sum(-1)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``½ Σ_p [log 2π noise − log(1 − r) + (y − mean)²/(noise (1 − r))]`` with ``r = var/noise``.

        The expectation exists if ``r < 1``; to keep gradients finite, ``r`` is capped at 0.99.
        """
        return gaussian_log_reciprocal(y, q.mean, q.var, self.noise).sum(-1)

    def predict(self, q: Gaussian) -> Gaussian:
        """The mean, and the variance with the noise added."""
        return Gaussian(q.mean, q.var + self.noise)


def gaussian_log_reciprocal(
    y: Float[Tensor, "..."], mean: Float[Tensor, "..."], var: Float[Tensor, "..."], noise: Float[Tensor, "..."]
) -> Float[Tensor, "..."]:
    """``log E 1/N(y; f, noise)`` for ``f ~ N(mean, var)``, with ``var/noise`` capped at 0.99."""
    left = 1 - (var / noise).clamp_max(_LARGEST_SHARE)
    return 0.5 * ((y - mean).square() / (noise * left) + torch.log(2 * math.pi * noise) - left.log())
