"""The Bayesian Gaussian-process latent variable model (Titsias and Lawrence 2010): nonlinear principal components.

    bₙ ~ N(0, I),    y_p = f_p(b) + N(0, noise),    f_p ~ GP(0, k)

Rows of ``y`` are explained by latent points of few dimensions, each with a Gaussian belief; the lengthscales of ``k``
show which dimensions are needed. Latent points start at principal components, and the noise is held fixed at first,
because explaining all of ``y`` as noise is a local optimum.
"""

from __future__ import annotations

import copy
import warnings

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.kernels import RBF, Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers import Inducing, LatentRows
from stratagp.layers.inducing_moments import expected_belief
from stratagp.likelihoods import Likelihood
from stratagp.models.chain import Chain
from stratagp.models.random_inputs import RandomInputGP
from stratagp.training.batched_bfgs import minimise_rows
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.lbfgs import Result, maximise
from stratagp.training.start import spreads, start_from_data
from stratagp.types import Gaussian

_HELD = 0.01  # initial noise, relative to the variance of the rows
_NEAR, _STARTS = 30, 3  # training rows considered as start of a new latent point, and starts tried
_NUMBERS = 2**20  # entries of ψ₂ held at once


def gplvm(
    y: Float[Tensor, "n p"], n_components: int, n_inducing: int = 30, kernel: Kernel | None = None
) -> RandomInputGP:
    """The model with latent points at the principal components of centred rows.

    The kernel's variance, if unset, starts at the mean variance of the columns.

    >>> t = torch.linspace(-1, 1, 30, dtype=torch.float64)[:, None]
    >>> gplvm(torch.cat([t, t**2 - t.square().mean(), t.sin()], 1), 2, 8).inputs.mean.shape
    torch.Size([30, 2])
    """
    y = as_tensor(y, "y").double()
    if y.dim() != 2 or not 1 <= n_components <= min(y.shape):
        raise InputError(
            f"n_components must lie between 1 and {min(y.shape)}, the smaller side of y, got {n_components}"
        )
    start = torch.linalg.svd(y - y.mean(0), full_matrices=False)[0][:, :n_components]
    start = start / spreads(start)
    variance = float(y.var(0, correction=0).mean())
    if not variance > 0:
        raise InputError("the rows of y are all equal: there is nothing for latent points to explain")
    if kernel is None:
        given: Kernel = RBF([1.0] * n_components, variance)
    else:
        given = start_from_data(copy.deepcopy(kernel).bind(n_components), start, y[:, 0], variance)
    return RandomInputGP(LatentRows(start), given, kmeans_points(start, n_inducing), noise=_HELD * variance)


def fit_gplvm(model: RandomInputGP, y: Float[Tensor, "n p"], max_iterations: int = 500) -> Result:
    """Train by L-BFGS: with the noise fixed for a fifth of the iterations, then everything."""
    rows, noise = torch.arange(len(y))[:, None], model.parameter("noise").raw

    def score() -> Tensor:
        value = model.log_evidence(rows, y)
        return value + model.log_prior() if model.has_priors else value

    maximise(score, [p for p in model.parameters() if p is not noise], max(1, max_iterations // 5))
    return maximise(score, model.parameters(), max_iterations)


def latent_points(chain: Chain, y: Float[Tensor, "n p"], max_iterations: int = 200) -> LatentRows:
    """The belief about latent points of new rows, under a fixed model.

    That of row ``n`` maximises ``E log p(yₙ | f(b)) − KL(q(b) ‖ N(0, I))``: the best of several runs, which start at
    the beliefs about training rows with the greatest value. Except for rounding, it does not depend on the other rows.
    """
    known, last = chain.layer.layers[0], chain.layer.layers[-1]
    assert isinstance(known, LatentRows)
    assert isinstance(last, Inducing)
    rows = _RowBounds(last, chain.likelihood, y)
    mean, log_scale = known.mean.detach(), known.log_scale.detach()
    starts = rows.starts(mean, log_scale)
    mean, log_scale = (part[starts].flatten(0, 1) for part in (mean, log_scale))

    def belief(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:  # in units of the start: curvatures are about 1
        shift, stretch = x.chunk(2, 1)
        return mean[i] + log_scale[i].exp() * shift, log_scale[i] + stretch

    def loss(x: Tensor, i: Tensor) -> Tensor:
        return -rows.bound(*belief(x, i), i // starts.shape[1])

    ends = minimise_rows(loss, torch.zeros_like(mean).repeat(1, 2), max_iterations, size=rows.size)
    best = _first_best(ends.value.reshape(starts.shape)) + starts.shape[1] * torch.arange(len(y), device=mean.device)
    late = int((~ends.converged[best]).sum())
    if late:
        message = f"the latent points of {late} of {len(y)} rows had not converged after {max_iterations} evaluations"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    found = LatentRows(mean[best])
    with torch.no_grad():
        found.mean[:], found.log_scale[:] = belief(ends.x[best], best)
    return found


class _RowBounds:
    """The bound of each row, for a frozen output layer."""

    def __init__(self, layer: Inducing, likelihood: Likelihood, y: Float[Tensor, "n p"]) -> None:
        self.layer, self.likelihood = copy.deepcopy((layer, likelihood))
        self.layer.requires_grad_(False)
        self.likelihood.requires_grad_(False)
        self.y, self.weights = y, self.layer.weights()
        self.size = max(1, _NUMBERS // layer.z.shape[-2] ** 2)

    def bound(
        self, mean: Float[Tensor, "k d"], log_scale: Float[Tensor, "k d"], rows: Int[Tensor, " k"]
    ) -> Float[Tensor, " k"]:
        """The bound of some rows at beliefs about their latent points."""
        belief = self._belief(mean, log_scale)
        return self.likelihood.expected_log_prob(self.y[rows], belief) - _divergence(mean, log_scale)

    def starts(self, mean: Float[Tensor, "t d"], log_scale: Float[Tensor, "t d"]) -> Int[Tensor, "n s"]:
        """The best beliefs for each row, best first, among those whose expected rows are nearest."""
        with torch.no_grad():
            f, kl, found = self._belief(mean, log_scale), _divergence(mean, log_scale), []
            near, best = min(_NEAR, len(mean)), min(_STARTS, len(mean))
            for y in self.y.split(max(1, _NUMBERS // (len(mean) + near * self.y.shape[1]))):
                chosen = torch.cdist(y, f.mean).topk(near, largest=False).indices.mT
                values = self.likelihood.expected_log_prob(y, Gaussian(f.mean[chosen], f.var[chosen])) - kl[chosen]
                found.append(chosen.gather(0, values.topk(best, 0).indices).mT)
            return torch.cat(found)

    def _belief(self, mean: Float[Tensor, "k d"], log_scale: Float[Tensor, "k d"]) -> Gaussian:
        layer, q = self.layer, Gaussian(mean, (2 * log_scale).exp())
        return expected_belief(layer.kernel, layer.z.double(), self.weights, layer.mean, q)


def _divergence(mean: Float[Tensor, "n d"], log_scale: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """``KL(N(mean, exp(2 log_scale)) ‖ N(0, I))`` of each row."""
    return 0.5 * (mean.square() + (2 * log_scale).exp() - 1).sum(1) - log_scale.sum(1)


def _first_best(values: Float[Tensor, "n s"]) -> Int[Tensor, " n"]:
    """The first start of each row that reaches its least value, up to rounding."""
    values = values.nan_to_num(torch.inf)
    least = values.amin(1, keepdim=True)
    return (values <= least + 1e-8 * least.abs().clamp_min(1)).int().argmax(1)
