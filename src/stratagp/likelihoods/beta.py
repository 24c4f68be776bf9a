"""Proportions: numbers between 0 and 1."""

from __future__ import annotations

import torch
from jaxtyping import Float
from scipy.special import betainc
from torch import Tensor
from torch.nn.functional import logsigmoid

from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.single import OneFunction, number, refuse, single_column
from stratagp.parameters import Parameter, Value
from stratagp.types import Gaussian

_LEAST = 1e-300  # the least shape parameter


class Beta(OneFunction, Likelihood):
    """``y ~ Beta(a, b)`` with mean ``σ(f)``, the logistic function, and ``a + b`` the ``concentration``, learnt.

    The larger the concentration, the narrower: the variance is ``mean (1 − mean)/(1 + concentration)``.

    >>> Beta(concentration=3.0).moments(torch.zeros(1, 1)).var.item()
    0.0625
    """

    support = (0.0, 1.0)

    def __init__(self, concentration: Value | Parameter = 10.0) -> None:
        super().__init__()
        self.concentration = number(concentration, "concentration")

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log Γ(a + b)/(Γ(a) Γ(b)) + (a − 1) log y + (b − 1) log(1 − y)``.

        In float64, because the gamma functions cancel if the concentration is large, and with
        ``log Γ(a) = log Γ(1 + a) − log a``, which is finite even if ``a`` underflows.
        """
        y = single_column(y)
        refuse(y, (y > 0) & (y < 1), "y must lie strictly between 0 and 1")
        y, f64, total = y.double(), f.double(), self.concentration.double()
        a, b = total * torch.sigmoid(f64), total * torch.sigmoid(-f64)
        ways = torch.lgamma(total) - torch.lgamma(1 + a) - torch.lgamma(1 + b)
        small = 2 * total.log() + logsigmoid(f64) + logsigmoid(-f64)
        return (ways + small + (a - 1) * y.log() + (b - 1) * torch.log1p(-y)).to(f).squeeze(-1)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``m = σ(f)`` and ``m (1 − m)/(1 + concentration)``."""
        mean = torch.sigmoid(f)
        return Gaussian(mean, mean * torch.sigmoid(-f) / (1 + self.concentration))

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """The regularised incomplete beta function ``I_y(a, b)``."""
        return beta_cdf(y.clamp(0, 1), self.concentration * torch.sigmoid(f), self.concentration * torch.sigmoid(-f))

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Proportions; those that would round to 0 or 1 become the nearest number inside."""
        shapes = self.concentration.to(f) * torch.cat([torch.sigmoid(f), torch.sigmoid(-f)], -1)
        drawn = torch._sample_dirichlet(shapes, generator=generator)[..., :1]
        return drawn.clamp(torch.finfo(f.dtype).tiny, 1 - torch.finfo(f.dtype).eps)


def beta_cdf(x: Float[Tensor, "..."], a: Float[Tensor, "..."], b: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The regularised incomplete beta function ``I_x(a, b)``, without gradients.

    >>> beta_cdf(torch.tensor([0.5]), torch.tensor([2.0]), torch.tensor([2.0]))
    tensor([0.5000])
    """
    shapes = (t.detach().double().cpu().clamp_min(_LEAST).numpy() for t in (a, b))
    return torch.as_tensor(betainc(*shapes, x.detach().double().cpu().numpy())).to(x)
