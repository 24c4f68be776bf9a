"""The variational lower bound on the evidence, from all rows or from a batch of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.layers import Belief, Layer
from stratagp.likelihoods import Likelihood
from stratagp.types import Gaussian, Mixture


class Bound(NamedTuple):
    """The terms of a lower bound on the log evidence: ``value = fit − kl``.

    >>> Bound(torch.tensor(-3.0), fit=torch.tensor(-2.0), kl=torch.tensor(1.0)).value.item()
    -3.0
    """

    value: Float[Tensor, ""]
    fit: Float[Tensor, ""]
    kl: Float[Tensor, ""]


def elbo(layer: Layer, likelihood: Likelihood, x: Any, y: Float[Tensor, "n p"], num_data: int | None = None) -> Bound:
    """``Σₙ E log p(yₙ | fₙ) − KL(q ‖ p)``, a lower bound on ``log p(y | x)``.

    With ``num_data`` the rows are a batch of that many, and the sum is scaled up: an unbiased estimate of the bound of
    all rows if the batch was drawn uniformly.

    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Inducing
    >>> from stratagp.likelihoods import GaussianNoise
    >>> x = torch.linspace(0, 1, 4, dtype=torch.float64)[:, None]
    >>> elbo(Inducing(k.RBF(variance=1.0), x), GaussianNoise(1.0), x, x.sin()).kl.item()  # q is still the prior
    0.0
    """
    values = expected_log_prob(likelihood, y, layer(x))
    share = 1.0 if num_data is None else num_data / len(y)
    fit, kl = share * values.sum(), layer.kl()
    return Bound(fit - kl, fit, kl)


def expected_log_prob(likelihood: Likelihood, y: Float[Tensor, "n p"], belief: Belief) -> Float[Tensor, " n"]:
    """``E log p(yₙ | fₙ)`` of each row under a belief of any kind, averaged over its sample axes."""
    if isinstance(belief, Mixture):
        parts = likelihood.expected_log_prob(y, belief.parts)
        values = torch.tensordot(belief.log_weights.exp().to(parts), parts, 1)
    elif isinstance(belief, Gaussian):
        values = likelihood.expected_log_prob(y, belief)
    else:
        values = likelihood.log_prob(y, belief)
    return values.reshape(-1, len(y)).mean(0)
