"""Gaussian noise whose variance is also a latent function."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood, log_average
from stratagp.likelihoods.function_per_output import at_own_nodes
from stratagp.likelihoods.quadrature import central_nodes
from stratagp.likelihoods.scale import finite_exp
from stratagp.types import Gaussian


class Heteroscedastic(Likelihood):
    """``y = f + exp(g/2) ε``: two latent functions per output, its mean ``f`` and its log noise *variance* ``g``.

    Latent functions of p outputs are ``f₁ … f_p g₁ … g_p``. Because ``g`` has the prior mean of its process, a
    constant mean at the log of the expected noise is useful there.

    >>> q = Gaussian(torch.tensor([[0.0, -1.0]]), torch.tensor([[0.5, 2.0]]))
    >>> Heteroscedastic().predict(q).var.item()  # ½ + exp(−1 + 2/2)
    1.5
    """

    scalable = True

    def functions(self, outputs: int) -> int:
        """Two for each output."""
        return 2 * outputs

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
        """``−½ Σ_p [log 2π + g + (y − f)² exp(−g)]``."""
        mean, log_noise = _halves(f)
        return -0.5 * ((y - mean).square() * finite_exp(-log_noise) + log_noise + math.log(2 * math.pi)).sum(-1)

    def moments(self, f: Float[Tensor, "*s n q"]) -> Gaussian:
        """``f`` and ``exp g``."""
        mean, log_noise = _halves(f)
        return Gaussian(mean, finite_exp(log_noise))

    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n p"]:
        """``Φ((y − f) exp(−g/2))``."""
        mean, log_noise = _halves(f)
        return torch.special.ndtr((y - mean) * finite_exp(-0.5 * log_noise))

    def predictive_cdf(self, y: Float[Tensor, "*s n p"], q: Gaussian) -> Float[Tensor, "*s n p"]:
        """``E Φ((y − E f)/√(Var f + exp g))``, by quadrature over ``g`` alone."""
        (mean, log_noise), (var, spread) = _halves(q.mean), _halves(q.var)
        g, log_weights = at_own_nodes(Gaussian(log_noise, spread))
        return torch.tensordot(log_weights.exp(), torch.special.ndtr((y - mean) / (var + finite_exp(g)).sqrt()), 1)

    def sample(self, f: Float[Tensor, "*s n q"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n p"]:
        """``f + exp(g/2) ε``."""
        mean, log_noise = _halves(f)
        noise = torch.randn(mean.shape, generator=generator, dtype=f.dtype).to(f)
        return mean + finite_exp(0.5 * log_noise) * noise

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``−½ Σ_p [log 2π + E g + ((y − E f)² + Var f) exp(−E g + ½ Var g)]``."""
        (mean, log_noise), (var, spread) = _halves(q.mean), _halves(q.var)
        square = ((y - mean).square() + var) * finite_exp(0.5 * spread - log_noise)
        return -0.5 * (square + log_noise + math.log(2 * math.pi)).sum(-1)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``Σ_p log E N(y; E f, Var f + exp g)``, by quadrature over ``g`` alone."""
        (mean, log_noise), (var, spread) = _halves(q.mean), _halves(q.var)
        g, log_weights = at_own_nodes(Gaussian(log_noise, spread))
        total = var + finite_exp(g)
        logs = -0.5 * ((y - mean).square() / total + torch.log(2 * math.pi * total))
        return log_average(logs, log_weights).sum(-1)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``Σ_p log E 1/p(y_p | f_p, g_p)`` over the central part of the belief: the expectation is infinite."""
        (mean, log_noise), (var, spread) = _halves(q.mean), _halves(q.var)
        points, log_weights = central_nodes(2, q.mean)
        at = points.reshape(-1, 2, *[1] * q.mean.dim())
        f, g = Gaussian(mean, var).sample(at[:, 0]), Gaussian(log_noise, spread).sample(at[:, 1])
        logs = 0.5 * ((y - f).square() * finite_exp(-g) + g + math.log(2 * math.pi))
        return log_average(logs, log_weights).sum(-1)

    def predict(self, q: Gaussian) -> Gaussian:
        """``E f`` and ``Var f + exp(E g + ½ Var g)``."""
        (mean, log_noise), (var, spread) = _halves(q.mean), _halves(q.var)
        return Gaussian(mean, var + finite_exp(log_noise + 0.5 * spread))


def _halves(f: Float[Tensor, "*s n q"]) -> tuple[Float[Tensor, "*s n p"], Float[Tensor, "*s n p"]]:
    """The functions of the means and those of the log noises."""
    if f.shape[-1] % 2:
        raise InputError(f"Heteroscedastic needs two latent functions for each output, got {f.shape[-1]} in all")
    mean, log_noise = f.tensor_split(2, -1)
    return mean, log_noise
