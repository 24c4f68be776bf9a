"""A bound for classification that needs only the moments of the latent functions.

If the curvature of the log likelihood is bounded, ``−∂² log p(y | f)/∂f² ≤ κ``, it lies above a parabola, so that
for any distribution of ``f``, Gaussian or not,

    E log p(y | f) ≥ log p(y | E f) − ½ κ var f,

with ``κ = 1`` for the probit, ``¼`` for the logit, and ``½`` for each function of a softmax, however these are
correlated (Böhning 1992). Moments in closed form, such as those of a deep process of two layers, thus give a bound
in closed form.

It is the bound of Kandemir and Hamprecht (2015) in its correct form. They observe the sign of ``y ~ N(f, 1/β)`` through
a probit, and integrate the exponential of the Gaussian bound over ``y``:

    log ∫ exp(E log N(y; f, 1/β)) Φ(s y) dy = log Φ(s E f/√(1 + 1/β)) − ½ β var f.

In units of ``f/√(1 + 1/β)`` this is the parabola with ``κ = 1 + β``: below ours, which is its limit for ``β → 0``.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError, UnsupportedError
from stratagp.layers import Layer
from stratagp.likelihoods import Bernoulli, Likelihood, Softmax
from stratagp.objectives.elbo import Bound
from stratagp.types import Gaussian


def curvature_bound(
    layer: Layer,
    likelihood: Likelihood,
    x: Any,
    y: Float[Tensor, "n 1"],
    num_data: int | None = None,
    beta: float = 0.0,
) -> Bound:
    """``Σₙ log p(yₙ | E fₙ) − ½ (κ + β) var fₙ − KL``, a lower bound on the evidence.

    ``beta`` is the paper's for the probit, in units of ``f/√(1 + 1/β)``; zero is the tightest bound.

    >>> import torch
    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Inducing
    >>> x = torch.zeros(1, 1, dtype=torch.float64)
    >>> curvature_bound(Inducing(k.RBF(variance=1.0), x), Bernoulli("probit"), x, x).value.item()  # log ½ − ½
    -1.1931...
    """
    if beta < 0:
        raise InputError(f"beta must not be negative, got {beta}")
    belief = layer(x)
    if not isinstance(belief, Gaussian):
        raise InputError(f"curvature_bound needs the moments of a Gaussian, got a {type(belief).__name__}")
    curvature = _curvature(likelihood) + beta
    values = likelihood.log_prob(y, belief.mean) - 0.5 * curvature * belief.var.sum(-1)
    values = values.reshape(-1, len(y)).mean(0)
    share = 1.0 if num_data is None else num_data / len(y)
    fit, kl = share * values.sum(), layer.kl()
    return Bound(fit - kl, fit, kl)


def _curvature(likelihood: Likelihood) -> float:
    if isinstance(likelihood, Bernoulli):
        return 1.0 if likelihood.link == "probit" else 0.25
    if isinstance(likelihood, Softmax):
        return 0.5
    raise UnsupportedError(
        f"the curvature of {type(likelihood).__name__} has no bound here: use Bernoulli or Softmax, or the elbo"
    )
