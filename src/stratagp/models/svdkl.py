"""SV-DKL: stochastic variational deep kernel learning (Wilson, Hu, Salakhutdinov and Xing 2016).

A network computes features, each feeds a Gaussian process on its own grid, and the values are mixed into the scores of
a likelihood; the variational bound trains everything together:

    h = network(x),    f_j = w(h_j)ᵀ u_j,    y ~ p(y | A f + b),        ℒ = Σₙ E log p(yₙ | A fₙ + b) − Σ_j KL_j.

Training has two stages. First the network is trained alone, with ``A h + b`` as scores. Then the processes start as the
identity, so that the whole equals the network, and everything is trained, the network with smaller steps. Where several
features share a grid, the function of it starts as the plane of them that is nearest to their part of ``A h + b``. For
comparison, the last layer may instead have inducing points in the space of all features: one process for each score,
which starts as ``A h + b``.
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
from stratagp.types import NumbersLike, PointsLike

_ROWS = 5000  # random rows; inducing points are centres of their features
_CERTAINTY = 0.1  # initial standard deviation of whitened values


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
    """The model of the paper, on features and a head that may be trained already.

    Arguments:
        features: the network; its bound is that of the grids.
        head: the likelihood of mixed functions, one for each feature, or for each grid. One for each feature is where
            the processes start, also where several features share a grid.
        kernel: the initial covariance of each function, over one column; an RBF by default.
        grid_size: the number of grid points along each axis.
        axes: features that share a grid: 1 for additive processes, as in the paper, more for products.
        conditional: whether to add the variance that a grid does not capture; the paper leaves it out.
        n_samples: samples per row in the bound; None for closed forms and quadrature.
        generator: the source of samples.

    >>> from stratagp.likelihoods import Softmax
    >>> model = svdkl(Features(nn.Linear(5, 4), 4), Mixed(Softmax(), scores=3, functions=4), grid_size=20)
    >>> model.predict(torch.zeros(2, 5)).mean.shape
    torch.Size([2, 3])
    """
    if features.bound is None:
        raise InputError("features must have a bound: a grid covers a bounded range")
    if features.outputs % axes:
        raise InputError(f"{features.outputs} features do not fill grids of {axes} axes: use a multiple of {axes}")
    q, mixes = features.outputs // axes, head.functions(1)
    if mixes not in (q, features.outputs):
        raise InputError(f"head mixes {mixes} functions, but the features give {q}: make head mix {q}")
    start = RBF(1.0, variance=1.0) if kernel is None else copy.deepcopy(kernel)
    kernels = [copy.deepcopy(start).replicate(q) for _ in range(axes)]
    grid = Grid(kernels, [RegularGrid(-features.bound, features.bound, grid_size)] * axes, q, conditional=conditional)
    if mixes == features.outputs:
        head, slopes = _shared(head, axes)
        grid.start_at_planes(slopes, _CERTAINTY)
    return Chain(Stack(features, grid), _observed(head, n_samples, generator), dtype)


def inducing_dkl(
    features: Features,
    head: Mixed,
    x: PointsLike,
    kernel: Kernel | None = None,
    n_inducing: int = 200,
    n_samples: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Chain:
    """Deep kernel learning with inducing points: one process over all features for each score.

    Arguments:
        head: the likelihood, and the scores ``A h + b`` at which the processes start.
        x: inducing points are centres of the features of these rows, 5000 of them at random.
        others: as in :func:`svdkl`; the kernel sees all features, by default with a lengthscale for each. Its unset
            values start from the features.

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
        start = start_from_data(start.bind(features.outputs), h, h[:, 0])
        scores = head.scores(z)
        places = z.expand(scores.shape[1], -1, -1).clone()
        layer = Inducing(start.replicate(scores.shape[1]), places, jitter=JITTER[dtype])
        whitened = layer.whitener() @ scores.mT[..., None].double()
        layer.posterior.mean.copy_(whitened.squeeze(-1))
        layer.posterior.scale.copy_(_CERTAINTY * torch.eye(len(z), dtype=torch.float64))
    return Chain(Stack(features, layer), _observed(head.given, n_samples, generator), dtype)


def pretrain(
    features: Features,
    head: Mixed,
    x: PointsLike | Streamed,
    y: NumbersLike | None,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> History:
    """Train a network alone, by the density of the targets given ``A h + b`` and the head's priors.

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


def _shared(head: Mixed, axes: int) -> tuple[Mixed, Float[Tensor, "q d"]]:
    """A head of one function for each grid, and the slopes of these functions along its axes, near ``A h + b``.

    Of the columns of ``A`` for one grid it is the leading singular direction: all of them where there is one score.
    """
    weight = head.weight.detach()
    blocks = weight.unflatten(1, (-1, axes)).movedim(1, 0)  # grids, scores, axes
    left, size, right = torch.linalg.svd(blocks, full_matrices=False)
    if axes == 1:
        return head, torch.ones(len(blocks), 1).to(weight)
    mixed = Mixed(head.given, len(weight), len(blocks))
    mixed.set(weight=(left[..., 0] * size[:, :1]).mT, offset=head.offset)
    return mixed.to(weight.device), right[:, 0]


def _observed(likelihood: Likelihood, n_samples: int | None, generator: torch.Generator | None) -> Likelihood:
    return likelihood if n_samples is None else Sampled(likelihood, n_samples, generator)
