"""Deep random features (Cutajar et al. 2017), and Gaussian processes below them (GP-DRF: Laradji et al. 2019).

    h⁰ = x,  or  h⁰ = (f₁(x), …, f_d(x)),  f_j ~ GP(0, k_j)        hˡ⁺¹ = φ_l(hˡ; Ω_l) W_l        y ~ p(y | h^L)

    ℒ = Σₙ E log p(yₙ | h_nᴸ) − Σ_l KL(W_l) − Σ_l KL(Ω_l) − Σ_j KL(f_j)

A sparse first layer may take objects of any kind, such as texts or graphs, through a kernel on rows of their
similarities (:class:`~stratagp.kernels.Anchors`); random features do the rest. With ``feed_forward``
every layer of random features after the first sees ``h⁰`` beside the values of the layer before.

Hidden layers are sampled row by row. The paper's schedule trains weights first, then also frequencies, then
hyperparameters: :func:`fit_drf`.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import torch
from torch import nn

from stratagp.errors import InputError
from stratagp.kernels import RBF, ArcCosine, Kernel
from stratagp.layers import Inducing, Layer, RandomFeatures, SideBySide, Stack
from stratagp.likelihoods import Likelihood
from stratagp.models.chain import Chain, table
from stratagp.training.batches import Batches, BatchStream, Streamed, total_steps
from stratagp.training.loop import History
from stratagp.training.schedules import Schedule, cosine
from stratagp.training.world import World
from stratagp.types import NumbersLike, PointsLike

KERNELS = {"rbf": lambda: RBF(ard=True), "arc-cosine": lambda: ArcCosine(degree=1, bias=1.0, ard=True)}


def drf(
    dim: int,
    outputs: int,
    likelihood: Likelihood,
    layers: int = 2,
    width: int = 3,
    n_features: int = 100,
    kernel: str | Kernel = "rbf",
    frequencies: str = "var-fixed",
    draws: str = "independent",
    feed_forward: bool = True,
    n_samples: int = 10,
    own_priors: bool = False,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Chain:
    """A chain of layers of random features.

    Arguments:
        dim: the number of columns of the points.
        outputs: the number of columns of the targets, or of classes.
        likelihood: how observations come from the functions of the last layer.
        layers: the number of layers of random features, including the last.
        width: the number of functions of each layer but the last.
        n_features: the number of frequencies of each layer.
        kernel: "rbf" and "arc-cosine" (degree 1, with a bias) have a lengthscale per column; or a kernel, which each
            layer copies. Unset lengthscales start at √(columns), the scale of distances of standardised points.
        frequencies, draws: as in :class:`~stratagp.layers.RandomFeatures`. For a given number of steps "var-fixed"
            usually reaches the highest bound, "var-resampled" the lowest.
        feed_forward: whether layers after the first also see the points, which usually raises the bound a lot.
        n_samples: samples of hidden values per row in training.
        own_priors: whether each function of a layer has a kernel and frequencies of its own, not those of its layer.
        generator: the source of frequencies and samples.
        dtype: the precision of batches.

    >>> from stratagp.likelihoods import GaussianNoise
    >>> model = drf(2, 1, GaussianNoise(0.1))
    >>> model.predict(torch.zeros(5, 2)).mean.shape
    torch.Size([5, 1])
    """
    if layers < 1:
        raise InputError(f"layers must be at least 1, got {layers}")
    options = dict(n_features=n_features, frequencies=frequencies, draws=draws, n_samples=n_samples)
    widths = _widths(layers, width, likelihood.functions(outputs))
    features = _layers(dim, widths, kernel, feed_forward, own_priors, generator, options)
    feed = 0 if feed_forward else None
    return Chain(Stack(*features, n_samples=n_samples, generator=generator, feed_from=feed), likelihood, dtype)


def gp_drf(
    first_layer: Inducing | SideBySide,
    outputs: int,
    likelihood: Likelihood,
    layers: int = 2,
    width: int = 3,
    n_features: int = 100,
    kernel: str | Kernel = "rbf",
    frequencies: str = "var-fixed",
    draws: str = "independent",
    feed_forward: bool = True,
    n_samples: int = 10,
    own_priors: bool = False,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Chain:
    """Sparse Gaussian processes, with layers of random features on their values.

    Arguments:
        first_layer: has as many functions as the random features see; its posterior must be one Gaussian.
        layers: the number of layers of random features; with 0 the model is the sparse process itself, with one
            function for each that the likelihood needs.
        feed_forward: whether layers of random features after the first also see the values of ``first_layer``.
        others: as in :func:`drf`.

    >>> from stratagp import kernels as k
    >>> from stratagp.likelihoods import GaussianNoise
    >>> first = Inducing(k.RBF(variance=1.0), torch.rand(10, 2), functions=4)
    >>> gp_drf(first, 1, GaussianNoise(0.1)).predict(torch.zeros(5, 2)).mean.shape
    torch.Size([5, 1])
    """
    functions, given = likelihood.functions(outputs), first_layer.functions
    if layers < 0:
        raise InputError(f"layers must not be negative, got {layers}")
    if layers == 0:
        if given != functions:
            raise InputError(f"with layers=0, first_layer must have the {functions} functions of the likelihood")
        return Chain(first_layer, likelihood, dtype)
    options = dict(n_features=n_features, frequencies=frequencies, draws=draws, n_samples=n_samples)
    widths = _widths(layers, width, functions)
    features = _layers(given, widths, kernel, feed_forward, own_priors, generator, options)
    feed = 1 if feed_forward else None
    stack = Stack(first_layer, *features, n_samples=n_samples, generator=generator, feed_from=feed)
    return Chain(stack, likelihood, dtype)


def fit_drf(
    model: Chain,
    x: PointsLike | Streamed,
    y: NumbersLike | None,
    epochs: int | None = None,
    steps: int | None = None,
    frequencies_after: float = 0.0,
    hyperparameters_after: float = 0.0,
    batch_size: int = 200,
    schedule: Schedule = cosine,
    **options: Any,
) -> list[History]:
    """Train in phases: weights from the start, frequencies and hyperparameters later. Returns one history per phase.

    Hyperparameters are the parameters of kernels and of the likelihood. Adam trains everything that is sampled: natural
    gradients would need a bound without noise.

    Arguments:
        epochs, steps: how long to train in all; give one of the two.
        frequencies_after: the fraction of all steps before learnt frequencies move; 1000 steps in the paper's examples.
        hyperparameters_after: the same for hyperparameters; 4000 steps there.
        schedule: a factor on the step size, over all phases.
        options: those of :meth:`Chain.fit <stratagp.models.chain.Chain.fit>`; ``seconds`` limits all phases together.

    >>> from stratagp.likelihoods import GaussianNoise
    >>> x = torch.linspace(-2, 2, 100)[:, None]
    >>> model = drf(1, 1, GaussianNoise(0.1), generator=torch.Generator().manual_seed(0))
    >>> [h.steps for h in fit_drf(model, x, x.sin(), steps=20, hyperparameters_after=0.25)]
    [5, 15]
    """
    shares = {"frequencies_after": frequencies_after, "hyperparameters_after": hyperparameters_after}
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise InputError(f"{name} must lie between 0 and 1, got {share}")
    if isinstance(x, Streamed):
        rows: BatchStream = x.batches(batch_size, torch.Generator(), model.dtype, World())
    else:
        rows = Batches((table(x, "x"), table(y, "y")), batch_size, torch.Generator(), model.dtype)
    total = total_steps(rows, epochs, steps)
    can_rest = [bool(_resting(model, *which)) for which in ((True, False), (False, True))]
    free = [round(share * total * can) for share, can in zip(shares.values(), can_rest, strict=True)]  # first steps
    given = options.pop("parameters", None)
    allowed = {id(parameter) for parameter in (model.parameters() if given is None else given)}
    limit = options.pop("seconds", None)
    histories: list[History] = []
    if isinstance(model.layer, Stack):
        options.setdefault("natural", False)
    options.setdefault("generator", torch.Generator().manual_seed(0))
    for start, end in itertools.pairwise(sorted({0, total, *free})):
        resting = _resting(model, *(start < step for step in free))
        options |= {
            "parameters": [p for p in model.parameters() if id(p) in allowed - resting],
            "schedule": _part(schedule, start / total, end / total),
            "seconds": None if limit is None else max(1e-3, limit - sum(history.seconds for history in histories)),
        }
        histories.append(model.fit(x, y, steps=end - start, batch_size=batch_size, **options))
        if histories[-1].cut_short:
            break
    return histories


def _resting(model: Chain, frequencies: bool, hyperparameters: bool) -> set[int]:
    """The ids of what does not move yet: frequencies, hyperparameters, or both."""
    resting: list[nn.Parameter] = []
    for part in model.modules():
        if frequencies and isinstance(part, RandomFeatures):
            resting += [p for p in (part.frequency_mean, part.frequency_log_scale) if p is not None]
        if hyperparameters and isinstance(part, (Kernel, Likelihood)):
            resting += part.parameters()
    return {id(parameter) for parameter in resting}


def _part(schedule: Schedule, start: float, end: float) -> Schedule:
    return lambda progress: schedule(start + (end - start) * progress)


def _widths(layers: int, width: int, functions: int) -> list[int]:
    return [*[width] * (layers - 1), functions]


def _layers(
    dim: int,
    widths: list[int],
    kernel: str | Kernel,
    feed_forward: bool,
    own_priors: bool,
    generator: torch.Generator | None,
    options: dict[str, Any],
) -> list[Layer]:
    """Layers of the given widths over ``dim`` columns."""
    found: list[Layer] = []
    for before, width in zip([0, *widths], widths, strict=False):
        columns = (before + dim * feed_forward) if found else dim
        sizes = [1] * width if own_priors else [width]
        parts = [
            RandomFeatures(_kernel(kernel, columns), columns, size, generator=generator, **options) for size in sizes
        ]
        found.append(parts[0] if len(parts) == 1 else SideBySide(*parts))
    return found


def _kernel(kernel: str | Kernel, columns: int) -> Kernel:
    """A copy for points with this many columns; an unset lengthscale is √(columns)."""
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            raise InputError(f"kernel must be a kernel or one of {', '.join(KERNELS)}, got {kernel!r}")
        kernel = KERNELS[kernel]()
    own = copy.deepcopy(kernel).bind(columns)
    for item in own.named_values():
        if item.name == "lengthscale" and item.parameter.unset:
            item.parameter.assign(math.sqrt(columns))
            item.parameter.unset = True  # still not the user's choice
    return own
