"""The Bayesian Gaussian-process latent variable model (Titsias and Lawrence 2010): nonlinear principal components.

    bₙ ~ N(0, I),    y_p = f_p(b) + N(0, noise),    f_p ~ GP(0, k)

Rows of ``y`` are explained by latent points of few dimensions, which have a Gaussian belief each; lengthscales of ``k``
tell which dimensions are needed. Latent points start at principal components, and the noise is held at first: with all
of ``y`` as noise the model would be content.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import RBF, Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers import Inducing, LatentRows, Stack
from stratagp.likelihoods import Likelihood
from stratagp.models.chain import Chain
from stratagp.models.random_inputs import RandomInputGP
from stratagp.objectives import elbo
from stratagp.training.inducing import kmeans_points
from stratagp.training.lbfgs import Result, maximise
from stratagp.training.start import spreads

_HELD = 0.01  # the noise at first, as a share of the variance of the rows


def gplvm(
    y: Float[Tensor, "n p"], n_components: int, n_inducing: int = 30, kernel: Kernel | None = None
) -> RandomInputGP:
    """The model with latent points at the principal components of centred rows.

    >>> t = torch.linspace(-1, 1, 30, dtype=torch.float64)[:, None]
    >>> gplvm(torch.cat([t, t**2 - t.square().mean(), t.sin()], 1), 2, 8).inputs.mean.shape
    torch.Size([30, 2])
    """
    y = as_tensor(y, "y").double()
    if y.dim() != 2 or not 1 <= n_components <= min(y.shape):
        raise InputError(
            f"n_components must lie between 1 and {min(y.shape)}, the lesser side of y, got {n_components}"
        )
    start = torch.linalg.svd(y - y.mean(0), full_matrices=False)[0][:, :n_components]
    start = start / spreads(start)
    given = RBF([1.0] * n_components, variance=1.0) if kernel is None else copy.deepcopy(kernel).bind(n_components)
    noise = _HELD * float(y.var(0).mean())
    return RandomInputGP(LatentRows(start), given, kmeans_points(start, n_inducing), noise=noise)


def fit_gplvm(model: RandomInputGP, y: Float[Tensor, "n p"], max_iterations: int = 500) -> Result:
    """Train it by L-BFGS: with the noise held for a fifth of the iterations, then everything."""
    rows, noise = torch.arange(len(y))[:, None], model.parameter("noise").raw

    def score() -> Tensor:
        value = model.log_evidence(rows, y)
        return value + model.log_prior() if model.has_priors else value

    maximise(score, [p for p in model.parameters() if p is not noise], max(1, max_iterations // 5))
    return maximise(score, model.parameters(), max_iterations)


def latent_points(chain: Chain, y: Float[Tensor, "n p"], max_iterations: int = 100) -> LatentRows:
    """The belief about latent points of new rows, under a model that stays as it is.

    Each starts at the training point whose expected row is nearest. Each is found by itself, so that it does not
    depend on the rows that are asked for with it.
    """
    known, last = chain.layer.layers[0], chain.layer.layers[-1]
    assert isinstance(known, LatentRows)
    assert isinstance(last, Inducing)
    with torch.no_grad():
        nearest = torch.cdist(y, last(known.mean).mean).argmin(1)
        found = LatentRows(known.mean[nearest])
        found.log_scale.copy_(known.log_scale[nearest])
    frozen: tuple[Any, Likelihood] = copy.deepcopy((last, chain.likelihood))
    for part in frozen:
        part.requires_grad_(False)
    for places in torch.arange(len(y)).split(1):
        rows = LatentRows(found.mean[places])
        stack, numbers = Stack(rows, frozen[0], propagate="moments"), torch.arange(len(places))[:, None]
        bound = partial(_bound, stack, frozen[1], numbers, y[places])
        maximise(bound, rows.parameters(), max_iterations)
        with torch.no_grad():
            found.mean[places], found.log_scale[places] = rows.mean, rows.log_scale
    return found


def _bound(layer: Stack, likelihood: Likelihood, x: Tensor, y: Tensor) -> Tensor:
    return elbo(layer, likelihood, x, y).value
