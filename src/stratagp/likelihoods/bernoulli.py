"""Two classes: the sign of a latent function, blurred by a link."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.types import Gaussian

_LINKS = ("logit", "probit")
_TAIL = 1e-3  # below this, averages are taken in logs, accurate to the order of magnitude
PROBIT_SLOPE = math.sqrt(math.pi / 8)  # Φ(f · this) has the slope of σ(f) at zero


class Bernoulli(Likelihood):
    """``p(y = 1 | f) = σ(f)`` for labels 0 and 1, with the logistic function or the normal distribution ``Φ`` as ``σ``.

    The probit link has its predictive probability in closed form, ``E Φ(f) = Φ(mean/√(1 + var))``; other integrals are
    by quadrature. Predictions are the mean and variance of the label: the mean is the probability of class 1.

    >>> likelihood = Bernoulli("probit")
    >>> likelihood.predict(Gaussian(torch.ones(1, 1), 3 * torch.ones(1, 1))).mean.item()  # Φ(½)
    0.6914...
    """

    of_classes = one_score = True

    discrete = True

    def __init__(self, link: str = "logit") -> None:
        super().__init__()
        if link not in _LINKS:
            raise InputError(f"link must be one of {', '.join(_LINKS)}, got {link!r}")
        self.link = link
        self.closed_reciprocal = link == "logit"

    def log_prob(self, y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log σ(f)`` for label 1, ``log σ(−f)`` for label 0."""
        return self._log_link(_signs(y) * f).squeeze(-1)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``p = σ(f)`` and ``p (1 − p)``."""
        return Gaussian(self._log_link(f).exp(), (self._log_link(f) + self._log_link(-f)).exp())

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """``1 − σ(f)`` from 0 to 1."""
        return torch.where(y >= 1, 1.0, torch.where(y >= 0, self._log_link(-f).exp(), 0.0))

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Labels 0 and 1."""
        return torch.bernoulli(self._log_link(f).exp(), generator=generator)

    def log_reciprocal(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """For the logit link ``log(1 + exp(∓mean + var/2))``."""
        if self.link == "probit":
            return super().log_reciprocal(y, q)
        return softplus(0.5 * q.var - _signs(y) * q.mean).squeeze(-1)

    def log_predictive(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E σ(±f)``; for the probit link ``log Φ(±mean/√(1 + var))``."""
        if self.link == "probit":
            return self.log_prob(y, _shrunk(q))
        signs = _signs(y)
        p = averaged_sigmoid(Gaussian(signs * q.mean, q.var))
        return torch.where(p > _TAIL, p.clamp_min(_TAIL).log(), super().log_predictive(y, q))

    def predict(self, q: Gaussian) -> Gaussian:
        """``p = E σ(f)`` and ``p (1 − p)``."""
        if self.link == "probit":
            return self.moments(_shrunk(q))
        p = averaged_sigmoid(q).unsqueeze(-1).clamp(0, 1)
        return Gaussian(p, p * (1 - p))

    def _log_link(self, f: Tensor) -> Tensor:
        return logsigmoid(f) if self.link == "logit" else torch.special.log_ndtr(f)


def averaged_sigmoid(belief: Gaussian) -> Float[Tensor, "*s n"]:
    """``E σ(f)`` for ``f ~ N(mean, var)``: exact for ``Φ(f √(π/8))``, and the small difference by quadrature.

    >>> averaged_sigmoid(Gaussian(torch.tensor([[1.0]]), torch.tensor([[4.0]])))
    tensor([0.64...])
    """
    points, log_weights = normal_nodes(1, belief.mean)
    f = belief.mean + belief.var.sqrt() * points.mT
    difference = torch.sigmoid(f) - torch.special.ndtr(PROBIT_SLOPE * f)
    exact = torch.special.ndtr(PROBIT_SLOPE * belief.mean / (1 + PROBIT_SLOPE**2 * belief.var).sqrt()).squeeze(-1)
    return exact + difference @ log_weights.exp()


def _shrunk(q: Gaussian) -> Tensor:
    return q.mean / (1 + q.var).sqrt()


def _signs(y: Float[Tensor, "n 1"]) -> Float[Tensor, "n 1"]:
    """Labels 0 and 1 as −1 and 1."""
    wrong = ~((y == 0) | (y == 1))
    if wrong.any():
        raise InputError(f"y must be labels 0 and 1, got {y[wrong][0].item():g}: encode the classes first")
    return 2 * y - 1
