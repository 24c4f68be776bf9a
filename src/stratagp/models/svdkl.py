"""SV-DKL: stochastic variational deep kernel learning (Wilson, Hu, Salakhutdinov and Xing 2016).

A network gives features, each feeds a Gaussian process on a grid of its own, and their values are mixed into the scores
of a likelihood; everything is trained together by the variational bound:

    h = network(x),    f_j = w(h_j)ᵀ u_j,    y ~ p(y | A f + b),        ℒ = Σₙ E log p(yₙ | A fₙ + b) − Σ_j KL_j.

Training has two steps. The network is trained alone first, with ``A h + b`` as scores. Then the processes start as the
identity, so that the whole is what the network was, and all is trained, the network with smaller steps. For comparison
the last layer may have inducing points in the space of all features instead: one process for each score, which starts
as ``A h + b``.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels import RBF, Kernel
from stratagp.layers import Features, Grid, Inducing, Stack
from stratagp.likelihoods import Likelihood, Mixed, Sampled
from stratagp.linalg.interpolation import RegularGrid
from stratagp.models.chain import Chain, columns, table
from stratagp.models.stochastic import JITTER
from stratagp.training.batches import Streamed
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.loop import History, train
from stratagp.training.start import start_from_data

_ROWS = 5000  # drawn at random, whose features inducing points are centres of
_CERTAINTY = 0.1  # standard deviation of whitened values at the start


def svdkl(
    features: Features,
    head: Mixed,
    kernel: Kernel | None = None,
    grid_size: int = 64,
    axes: int = 1,
    conditional: bool = False,
    n_samples: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Chain:
    """The model of the paper, on features and a head that may have been trained already.

    Arguments:
        features: the network; its bound is that of the grids.
        head: the likelihood of mixed functions; as many as there are features, or grids.
        kernel: the covariance that each function starts from, of one column; an RBF where it is left out.
        grid_size: points of a grid along each axis.
        axes: features that share a grid: 1 for additive processes, as in the paper, more for products, which start at
            the prior.
        conditional: whether the variance that a grid does not tell of is added; the paper leaves it out.
        n_samples: of each row in the bound; None for closed forms and quadrature.
        generator: where samples come from.

    >>> from stratagp.likelihoods import Softmax
    >>> model = svdkl(Features(nn.Linear(5, 4), 4), Mixed(Softmax(), scores=3, functions=4), grid_size=20)
    >>> model.predict(torch.zeros(2, 5)).mean.shape
    torch.Size([2, 3])
    """
    if features.bound is None:
        raise InputError("grids need features with a bound")
    if features.outputs % axes:
        raise InputError(f"{features.outputs} features do not make grids of {axes} axes: take a multiple of {axes}")
    q = features.outputs // axes
    if head.functions(1) != q:
        raise InputError(f"the head mixes {head.functions(1)} functions, but the features make {q}")
    start = RBF(1.0, variance=1.0) if kernel is None else kernel
    kernels = [copy.deepcopy(start).replicate(q) for _ in range(axes)]
    grid = Grid(kernels, [RegularGrid(-features.bound, features.bound, grid_size)] * axes, q, conditional=conditional)
    if axes == 1:
        grid.start_as_identity(_CERTAINTY)
    return Chain(Stack(features, grid), _observed(head, n_samples, generator), dtype)


def inducing_dkl(
    features: Features,
    head: Mixed,
    x: Any,
    kernel: Kernel | None = None,
    n_inducing: int = 200,
    n_samples: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Chain:
    """Deep kernel learning with inducing points: one process of all features for each score.

    Arguments:
        head: the likelihood, and the scores ``A h + b`` that the processes start as.
        x: rows whose features the inducing points are centres of, 5000 of them at random.
        others: as in :func:`svdkl`; the kernel sees all features, with a lengthscale for each by default. Values of it
            that are open start from the features.

    >>> from stratagp.likelihoods import Softmax
    >>> x = torch.randn(40, 5)
    >>> head = Mixed(Softmax(), scores=3, functions=4)
    >>> inducing_dkl(Features(nn.Linear(5, 4), 4), head, x, n_inducing=10).predict(x[:2]).mean.shape
    torch.Size([2, 3])
    """
    rows = table(x, "x")
    chosen = torch.randperm(len(rows), generator=generator)[:_ROWS].sort().values
    with torch.no_grad():
        h = features.eval()(torch.as_tensor(rows[chosen.numpy()]).to(dtype)).double()
        z = kmeans_points(h, n_inducing)
        start = RBF(ard=True) if kernel is None else copy.deepcopy(kernel)
        start_from_data(start.bind(features.outputs), h, h[:, 0])
        scores = head.scores(z)
        places = z.expand(scores.shape[1], -1, -1).clone()
        layer = Inducing(start.replicate(scores.shape[1]), places, jitter=JITTER[dtype])
        whitened = layer.whitener() @ scores.mT[..., None].double()
        layer.posterior.mean.copy_(whitened.squeeze(-1))
        layer.posterior.scale.copy_(_CERTAINTY * torch.eye(len(z), dtype=torch.float64))
    return Chain(Stack(features, layer), _observed(head.given, n_samples, generator), dtype)


def pretrain(
    features: Features, head: Mixed, x: Any, y: Any, dtype: torch.dtype = torch.float32, **options: Any
) -> History:
    """Train a network alone, by the density of the targets given ``A h + b`` and priors of the head.

    ``options`` are those of :func:`~stratagp.training.loop.train`.

    >>> from stratagp.likelihoods import GaussianNoise
    >>> x = torch.randn(40, 2)
    >>> head = Mixed(GaussianNoise(), scores=1, functions=3)
    >>> pretrain(Features(nn.Linear(2, 3), 3), head, x, x[:, :1], batch_size=20, epochs=3).steps
    6
    """
    data, both = x if isinstance(x, Streamed) else (table(x, "x"), table(y, "y")), nn.ModuleList([features, head])
    has_priors, num_data = head.has_priors, data.rows if isinstance(data, Streamed) else len(data[0])

    def value(x: Tensor, y: Tensor) -> Float[Tensor, ""]:
        fit = num_data * head.log_prob(columns(y), features(x)).mean()
        return fit + head.log_prior() if has_priors else fit

    both.train()
    try:
        return train(value, both, data, dtype=dtype, **options)
    finally:
        both.eval()


def _observed(likelihood: Likelihood, n_samples: int | None, generator: torch.Generator | None) -> Likelihood:
    return likelihood if n_samples is None else Sampled(likelihood, n_samples, generator)
