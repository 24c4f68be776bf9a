"""Scales ``e^f``: exponentials that remain finite, and their moments under a Gaussian belief."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.types import Gaussian

_MARGIN = 10.0  # in logs, for factors that multiply the exponential


def finite_exp(x: Float[Tensor, "..."], dtype: torch.dtype | None = None) -> Float[Tensor, "..."]:
    """``e^x``, continued by its tangent where its square would overflow: above 344, or 34 in float32.

    ``dtype`` is the precision that must not overflow, by default that of ``x``.

    >>> finite_exp(torch.tensor([1.0, 1000.0]))
    tensor([2.7183e+00, 8.0...e+17])
    """
    top = x.clamp_max(0.5 * math.log(torch.finfo(dtype or x.dtype).max) - _MARGIN)
    return top.exp() * (1 + (x - top))


def exp_moments(q: Gaussian) -> Gaussian:
    """Mean ``m = exp(mean + var/2)`` and variance ``m² (e^var − 1)`` of ``e^f`` for ``f ~ N(mean, var)``.

    >>> exp_moments(Gaussian(torch.zeros(1, 1), torch.ones(1, 1))).mean
    tensor([[1.6487]])
    """
    mean = finite_exp(q.mean + 0.5 * q.var)
    var = q.var.clamp_min(1e-30)
    log_growth = torch.where(var > 1, var + torch.log1p(-(-var).exp()), var.clamp_max(1).expm1().log())  # of e^var − 1
    return Gaussian(mean, finite_exp(2 * q.mean + q.var + log_growth))
