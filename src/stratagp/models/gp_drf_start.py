"""Where deep random features start: each layer at a function found by least squares, not at noise.

With weights of mean zero the values of hidden layers are noise, and the bound spends a long time learning to ignore
them. Here sparse processes start near functions of the rows that are informative about the targets, hidden layers of
random features at the principal components of their inputs, and the last one at the targets themselves.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from stratagp.kernels import Kernel
from stratagp.layers import Inducing, Layer, RandomFeatures, SideBySide, Stack
from stratagp.likelihoods import GPRN, Bernoulli, GaussianNoise, LaplaceNoise, Likelihood, Softmax, StudentT
from stratagp.models.chain import Chain
from stratagp.models.dfgp import principal_targets, start_at
from stratagp.parameters import Parameter, real
from stratagp.training.start import spreads, start_from_data
from stratagp.types import Gaussian

_RIDGE = 0.03  # of least squares, relative to the mean square of the features
_CERTAINTY = 0.3  # initial standard deviation of weights and of whitened values
_SCORE = 4.0  # margin of a label's score over the others if least squares are certain of it


def first_layer(
    x: Float[Tensor, "n d"],
    targets: Float[Tensor, "n q"],
    kernel: Kernel,
    z: Float[Tensor, "m d"],
    learn_points: bool = True,
    variance: float = 1.0,
) -> Inducing:
    """Sparse processes that start at ``targets``, one for each column.

    Arguments:
        kernel: bound to the columns; each process has a copy.
        z: the inducing points that each process starts from.
        learn_points: whether to train these.
        variance: of the processes, if the kernel leaves it unset.

    >>> from stratagp.kernels import RBF
    >>> x = torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    >>> layer = first_layer(x, x.sin(), RBF(1.0), x[::6])
    >>> bool((layer(x).mean - x.sin()).abs().max() < 0.05)
    True
    """
    own = start_from_data(kernel, x if learn_points else z, targets[:, 0], variance)
    functions = targets.shape[1]
    places: Parameter = real(z.expand(functions, -1, -1).clone(), trainable=learn_points, name="z", unit=spreads(z))
    layer = Inducing(own.replicate(functions), places)
    start_at(layer, x, targets, _RIDGE)
    with torch.no_grad():
        layer.posterior.scale.mul_(_CERTAINTY)
    return layer


def supervised_targets(
    numbers: Float[Tensor, "n p"], x: Float[Tensor, "n d"], functions: int
) -> Float[Tensor, "n functions"]:
    """Start values of first-layer processes: principal components of the targets, then of the rows.

    Arguments:
        numbers: targets, or class indicators.
        x: columns that a linear function may see.
    """
    distinct = min(int(torch.linalg.matrix_rank(numbers - numbers.mean(0))), functions)
    found = [principal_targets(numbers, distinct)] if distinct else []
    return torch.cat([*found, principal_targets(x, functions - distinct)], 1) if functions > distinct else found[0]


def last_targets(likelihood: Likelihood, y: Float[Tensor, "n p"], functions: int) -> Float[Tensor, "n q"]:
    """Values near which the likelihood's functions should start, as far as the targets tell."""
    if isinstance(likelihood, (GaussianNoise, StudentT, LaplaceNoise)):
        return y
    if isinstance(likelihood, Bernoulli):
        return _SCORE * (y - 0.5)
    if isinstance(likelihood, Softmax):
        return _SCORE * (one_hot(y[:, 0].long(), functions).to(y) - 1 / functions)
    found = y.new_full((len(y), functions), float(likelihood.start(y)))
    if isinstance(likelihood, GPRN):  # with nodes and weights at zero every gradient is zero
        found[:, functions - likelihood.n_nodes :] = 1.0
        found[:, : y.shape[1]] = y
    return found


@torch.no_grad()
def start_features(model: Chain, x: Float[Tensor, "n d"], targets: Float[Tensor, "n q"]) -> None:
    """Start hidden layers of random features at their inputs, and the last at ``targets``."""
    layers = model.layer.sequence if isinstance(model.layer, Stack) else [model.layer]

    def started(layer: Layer, h: Tensor) -> Tensor:
        parts = layer.sequence if isinstance(layer, SideBySide) else [layer]
        features = [part for part in parts if isinstance(part, RandomFeatures)]
        if features:
            widths = [part.functions for part in features]
            wanted = targets if layer is layers[-1] else principal_targets(h, sum(widths))
            for part, own in zip(features, wanted.split(widths, 1), strict=True):
                _fit(part, h, own)
        belief = layer(h)
        assert isinstance(belief, Gaussian)
        return belief.mean if belief.mean.dim() == 2 else belief.mean.mean(0)

    steps = [partial(started, layer) for layer in layers]
    if isinstance(model.layer, Stack):
        model.layer.through(steps, x.double())
    else:
        steps[0](x.double())


def _fit(layer: RandomFeatures, h: Float[Tensor, "n d"], targets: Float[Tensor, "n q"]) -> None:
    """Fit weights by least squares; also fix the draw of frequencies if another would spoil them."""
    if layer.frequencies == "var-resampled":
        layer.settle_frequencies(_CERTAINTY)
    phi = layer.features(h)
    ridge = _RIDGE * len(phi) * phi.square().mean() * torch.eye(phi.shape[1], dtype=phi.dtype)
    layer.posterior.mean.copy_(torch.linalg.solve(phi.mT @ phi + ridge, phi.mT @ targets.to(phi)).mT)
    layer.posterior.log_scale.fill_(math.log(_CERTAINTY))
