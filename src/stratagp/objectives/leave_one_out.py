"""The leave-one-out density of a variational model: how well all other rows predict each row.

By Bayes' rule ``p(yₙ | D₋ₙ) = 1 / E[1/p(yₙ | fₙ)]`` under the posterior of ``fₙ`` given all data, here replaced by the
variational belief (Krauth et al. 2016). It judges the model by its predictions and does not penalise the distance to
the prior.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from stratagp.layers import Belief, Layer
from stratagp.likelihoods import Likelihood
from stratagp.objectives.predictive_bound import over_belief


class LeaveOneOut(NamedTuple):
    """The leave-one-out density of all rows, ``value = Σₙ log p(yₙ | D₋ₙ)``, and of one row on average.

    >>> import torch
    >>> LeaveOneOut(torch.tensor(-10.0), average=torch.tensor(-0.5)).average.item()
    -0.5
    """

    value: Float[Tensor, ""]
    average: Float[Tensor, ""]


def leave_one_out(
    layer: Layer, likelihood: Likelihood, x: Any, y: Float[Tensor, "n p"], num_data: int | None = None
) -> LeaveOneOut:
    """``Σₙ log p(yₙ | D₋ₙ)``; with ``num_data``, estimated from a batch of that many rows.

    In closed form for Gaussian and Laplace noise, logits, softmax and a few more; by quadrature otherwise, or by the
    samples of a :class:`~stratagp.likelihoods.Sampled` likelihood.

    >>> import torch
    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Inducing
    >>> from stratagp.likelihoods import Bernoulli
    >>> x = torch.zeros(1, 1, dtype=torch.float64)
    >>> leave_one_out(Inducing(k.RBF(variance=1.0), x), Bernoulli(), x, x).value.item()  # −log(1 + √e)
    -0.9740...
    """
    values = log_leave_one_out_of(likelihood, y, layer(x))
    average = values.mean()
    return LeaveOneOut((num_data or len(y)) * average, average)


def log_leave_one_out_of(likelihood: Likelihood, y: Float[Tensor, "n p"], belief: Belief) -> Float[Tensor, " n"]:
    """``−log E 1/p(yₙ | fₙ)`` of each row under a belief of any kind."""
    if isinstance(belief, Tensor):
        return -over_belief(belief, lambda f: -likelihood.log_prob(y, f))
    return -over_belief(belief, lambda q: likelihood.log_reciprocal(y, q))
