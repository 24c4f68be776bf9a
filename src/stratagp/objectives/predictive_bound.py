"""The predictive density of a variational model, as a score and as an objective."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor

from stratagp.layers import Belief, Layer
from stratagp.likelihoods import Likelihood
from stratagp.likelihoods.base import log_average
from stratagp.objectives.elbo import Bound
from stratagp.types import Mixture


def predictive_bound(
    layer: Layer,
    likelihood: Likelihood,
    x: Any,
    y: Float[Tensor, "n p"],
    num_data: int | None = None,
    kl_weight: float = 1.0,
) -> Bound:
    """``Σₙ log E p(yₙ | fₙ) − kl_weight · KL(q ‖ p)``: parametric predictive regression (Jankowiak et al. 2020).

    It trains the predictive density itself, with the divergence as a regulariser; it is not a bound on the evidence.

    >>> import torch
    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Inducing
    >>> from stratagp.likelihoods import GaussianNoise
    >>> x = torch.zeros(1, 1, dtype=torch.float64)
    >>> predictive_bound(Inducing(k.RBF(variance=1.0), x), GaussianNoise(1.0), x, x).value.item()  # −½ log 4π
    -1.2655...
    """
    values = log_predictive_of(likelihood, y, layer(x))
    fit, kl = (1.0 if num_data is None else num_data / len(y)) * values.sum(), layer.kl()
    return Bound(fit - kl_weight * kl, fit, kl)


def log_predictive_of(likelihood: Likelihood, y: Float[Tensor, "n p"], belief: Belief) -> Float[Tensor, " n"]:
    """``log E p(yₙ | fₙ)`` of each row under a belief of any kind."""
    if isinstance(belief, Tensor):
        return over_belief(belief, lambda f: likelihood.log_prob(y, f))
    return over_belief(belief, lambda q: likelihood.log_predictive(y, q))


def over_belief(belief: Belief, logs_of: Callable[[Any], Float[Tensor, "*s n"]]) -> Float[Tensor, " n"]:
    """The log of an average over a belief's components and sample axes."""
    if isinstance(belief, Mixture):
        logs = logs_of(belief.parts)
        logs = log_average(logs, belief.log_weights.to(logs))
    else:
        logs = logs_of(belief)
    logs = logs.reshape(-1, logs.shape[-1])
    return logs.logsumexp(0) - math.log(len(logs))
