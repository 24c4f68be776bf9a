"""Classes by sampled latent values: what Laplace's method, expectation propagation and bounds approximate.

Given the values of the hyperparameters, the posterior of the latent functions at the training rows is drawn by
:func:`~stratagp.training.elliptical_slices.elliptical_slices`. A prediction averages over the draws ``f = L v``, each
of which leaves ``f* ~ N(kᵀL⁻ᵀv, k** − |L⁻¹k|²)`` at a new row: exact but for the number of draws.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods import Bernoulli, Softmax
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.linalg import cholesky
from stratagp.models.classification import GPClassification, MulticlassLaplace, linked
from stratagp.objectives.evidence import CovarianceOf
from stratagp.training.elliptical_slices import elliptical_slices, through
from stratagp.training.nuts import r_hat
from stratagp.types import Gaussian, PointsLike

_JITTER = 1e-10  # relative to the mean variance
_NODES = 16  # of the functions at a new row, for each draw of those at the training rows


@dataclass(frozen=True)
class SampledClasses:
    """Latent functions given labels, as draws of their whitened values at the training rows.

    Arguments:
        prior: the process of two classes, or of several.
        x: the training rows.
        values: draws of whitened values.
        factor: of the prior covariance of the rows.
        r_hat: the largest ratio of spreads between and within chains, of the values at the training rows: near 1 where
            all chains say the same.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(-3, 3, 20, dtype=torch.float64)[:, None]
    >>> found = sample_classes(GPClassification(k.RBF()), x, x[:, 0] > 0, 80, 20, 1)
    >>> found.marginals(x[:3]).var.shape
    torch.Size([3, 1])
    """

    prior: GPClassification | MulticlassLaplace
    x: Any = field(repr=False)
    values: Float[Tensor, "s q n"] = field(repr=False)
    factor: Float[Tensor, "*q n n"] = field(repr=False)
    r_hat: float

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance of each latent function at each row, as ``n q``, over all draws."""
        mean, var = self._given_draws(x)
        return Gaussian(mean.mean(0), (var + (mean - mean.mean(0)).square()).mean(0))

    def probabilities(self, x: PointsLike) -> Float[Tensor, "n c"]:
        """The probability of each class at each row, averaged over draws."""
        mean, var = self._given_draws(x)
        if isinstance(self.prior, GPClassification):
            rows = Gaussian(mean.reshape(-1, 1), var.expand(len(mean), -1, -1).reshape(-1, 1))
            second = linked(rows, self.prior.link).reshape(len(mean), -1).mean(0)
            return torch.stack([1 - second, second], 1)
        points, _ = normal_nodes(max(3, mean.shape[-1]), mean, _NODES * len(mean))
        noise = points[:, : mean.shape[-1]].reshape(_NODES, len(mean), 1, -1)
        return torch.stack([(mean + var.sqrt() * each).softmax(-1).mean(0) for each in noise]).mean(0)

    def _given_draws(self, x: PointsLike) -> tuple[Float[Tensor, "s n q"], Float[Tensor, "n q"]]:
        """Means for each draw, and the variance that is left."""
        with torch.no_grad():
            cross = self.prior.kernel(self.x, x) + self.prior.intercept
            half = torch.linalg.solve_triangular(self.factor, cross, upper=False).expand(self.values.shape[1], -1, -1)
            own = self.prior.kernel.diag(x) + self.prior.intercept
            var = (own - half.square().sum(1)).clamp_min(0).mT
            return torch.einsum("qmn,sqm->snq", half, self.values), var


def sample_classes(
    prior: GPClassification | MulticlassLaplace,
    x: Any,
    t: Any,
    n_samples: int = 1000,
    n_warmup: int = 1000,
    thin: int = 5,
    n_chains: int = 8,
    generator: torch.Generator | None = None,
) -> SampledClasses:
    """Draw the latent functions of a process of classes given labels, with its hyperparameters as they are.

    Chains start at draws of the prior.

    Arguments:
        prior: a :class:`GPClassification`, whose ``link`` counts and not its ``inference``, or a
            :class:`MulticlassLaplace` for its softmax.
        n_samples: draws in all.
        n_warmup: steps of each chain before the first.
        thin: steps from one draw of a chain to the next.
        n_chains: chains, which step together.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(-3, 3, 20, dtype=torch.float64)[:, None]
    >>> prior, generator = GPClassification(k.RBF(variance=4.0)), torch.Generator().manual_seed(0)
    >>> found = sample_classes(prior, x, x[:, 0] > 0, 400, generator=generator)
    >>> bool((found.probabilities(x[[0, -1]])[:, 1] - torch.tensor([0.17, 0.83])).abs().max() < 0.05)
    True
    """
    count = prior.n_classes if isinstance(prior, MulticlassLaplace) else 1
    labels = torch.as_tensor(t).to(torch.float64).reshape(-1, 1)
    if len(labels) != len(x):
        raise InputError(f"x and t must have equally many rows, got {len(x)} and {len(labels)}")
    likelihood = Softmax() if isinstance(prior, MulticlassLaplace) else Bernoulli(prior.link)
    with torch.no_grad():
        covariance = prior.kernel(x) + prior.intercept
        level = _JITTER * covariance.diagonal(dim1=-2, dim2=-1).mean()
        raised = covariance + level * torch.eye(len(labels), dtype=covariance.dtype)
        factor = cholesky(raised, CovarianceOf(prior.kernel))
    start = torch.randn(n_chains, count, len(labels), generator=generator, dtype=torch.float64)

    def fit(f: Float[Tensor, "c q n"]) -> Float[Tensor, " c"]:
        return likelihood.log_prob(labels, f.mT).sum(-1)

    drawn = elliptical_slices(fit, factor, start, -(-n_samples // n_chains), n_warmup, thin, generator)
    worst = r_hat(through(factor, drawn).flatten(2)).max()
    return SampledClasses(copy.deepcopy(prior), x, drawn.flatten(0, 1)[:n_samples], factor, float(worst))
