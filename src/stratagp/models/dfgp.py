"""DFGP: the deep feed-forward Gaussian process (Kandemir and Hamprecht 2015).

    b_r ~ GP(0, k_r),  r = 1 … ν,        f | B ~ GP(0, k) in the space of b,        y ~ p(y | f)

Each hidden process is sparse, with its own inducing rows and possibly its own columns (a view: multiple kernel
learning). The belief about its inducing values is a Gaussian, which makes the objective a bound on the evidence, or a
point, as in the paper. The output process uses the expectations of its kernel: an RBF, one with a metric, or a linear
kernel, for which the covariance of ``f`` has a Wishart process as its prior. Regression uses the collapsed bound of
:class:`~stratagp.models.random_inputs.RandomInputGP`, everything else a :class:`~stratagp.models.chain.Chain`, which
may also propagate samples.

Training starts from hidden processes that carry information: each is fitted by least squares to its own target, a
principal component of the rows. Columns may first be scaled by the lengthscales that a shallow process finds on a few
rows: if few of many columns matter, the bound from any other start ends up explaining everything as noise. The
output's inducing points start at centres of the latent rows. Gaussian beliefs about hidden values are first trained as
points and then widened: from the beginning, their divergence would switch hidden processes off before they are useful.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning, InputError, NumericalWarning
from stratagp.kernels import RBF, Kernel, Linear, MetricRBF, Separate
from stratagp.layers import Inducing, Layer, Stack
from stratagp.likelihoods import Likelihood, Sampled
from stratagp.linalg.lower import lower_times
from stratagp.means import Mean
from stratagp.models.chain import Chain
from stratagp.models.exact import ExactGP
from stratagp.models.random_inputs import RandomInputGP, layers_of
from stratagp.parameters import real
from stratagp.posteriors import Delta, FullGaussian
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.lbfgs import maximise
from stratagp.training.start import spreads, start_from_data

OUTPUT_KERNELS = ("rbf", "ard", "metric", "linear", "rbf + linear")
_CERTAINTY = 0.1  # standard deviation of whitened values at the start
_STRETCH = 2.0  # initial factor on the lengthscales of the output process
_LEAST = 0.1  # least initial standard deviation of a latent coordinate, relative to the greatest
_ROWS, _ITERATIONS = 300, 30  # of the shallow process that finds which columns matter
_FARTHEST = 100.0  # times the shortest lengthscale: beyond it a column does not matter
_RIDGE = 1e-3  # of the least squares that start hidden processes, relative to the mean square


def hidden_layer(
    x: Float[Tensor, "n d"],
    targets: Float[Tensor, "n q"],
    kernels: Kernel | Sequence[Kernel],
    n_inducing: int = 10,
    generator: torch.Generator | None = None,
    given_points: Sequence[Float[Tensor, "m d"] | None] | None = None,
    stretch: Float[Tensor, " d"] | float = 1.0,
    learn_points: bool = True,
) -> Inducing:
    """Sparse processes that start at ``targets``, one for each column, with random rows as inducing points.

    Arguments:
        x: rows of inputs; each process sees the columns of its kernel.
        kernels: one kernel to copy for each process, or a kernel for each.
        n_inducing: the number of inducing points of each process.
        given_points: the inducing points of each process; None for random rows.
        stretch: a factor on the columns when they decide the start values of kernels.
        learn_points: whether inducing points move in training.

    The belief about inducing values is a point until :func:`widen` makes it a Gaussian.

    >>> x = torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    >>> layer = hidden_layer(x, x.sin(), RBF(1.0, variance=1.0), 8)
    >>> bool((layer(x).mean - x.sin()).abs().max() < 0.05)
    True
    """
    functions = targets.shape[1]
    alike = isinstance(kernels, Kernel)
    given = [kernels] if isinstance(kernels, Kernel) else list(kernels)
    if not alike and len(given) != functions:
        raise InputError(f"kernels must have one kernel for each of {functions} hidden processes, got {len(given)}")
    fixed = [None] * functions if given_points is None else list(given_points)
    m = min(n_inducing, len(x))
    seen = zip(given, fixed[: len(given)], strict=True)
    started = [_started(own, stretch * x if points is None else points) for own, points in seen]
    kernel = started[0].replicate(functions) if alike else Separate(started)
    picked = [x[torch.randperm(len(x), generator=generator)[:m]] if own is None else _as_many(own, m) for own in fixed]
    z = real(torch.stack(picked), trainable=learn_points, name="z", unit=spreads(x))
    layer = Inducing(kernel, z, Delta(m, functions))
    start_at(layer, x, targets)
    return layer


@torch.no_grad()
def start_at(layer: Inducing, x: Float[Tensor, "n d"], targets: Float[Tensor, "n q"], ridge: float = _RIDGE) -> None:
    """Set the expected functions of a layer to those nearest to ``targets`` at rows ``x``, by least squares.

    ``ridge`` is relative to the mean square of the features.
    """
    a = lower_times(layer.whitener(), layer.kernel(layer.z, x.expand(targets.shape[1], -1, -1)))
    level = ridge * a.square().mean((1, 2))[:, None, None] * len(x) * torch.eye(a.shape[1], dtype=a.dtype)
    fitted = torch.linalg.solve(a @ a.mT + level, a @ targets.mT[..., None]).squeeze(-1)
    layer.posterior.mean.copy_(fitted)


def widen(layer: Layer) -> None:
    """Turn all point beliefs about inducing values into narrow Gaussians."""
    for part in layer.modules():
        if isinstance(part, Inducing) and isinstance(part.posterior, Delta):
            functions, m = part.posterior.shape
            wide = FullGaussian(m, functions).to(part.posterior.mean.device)
            with torch.no_grad():
                wide.mean.copy_(part.posterior.mean)
                wide.scale.mul_(_CERTAINTY)
            part.posterior = wide


def principal_targets(
    x: Float[Tensor, "n d"], n_hidden: int, stretch: Float[Tensor, " d"] | None = None
) -> Float[Tensor, "n q"]:
    """Principal components of the rows with unit standard deviation, repeated if there are too few.

    If columns are divided by ``stretch`` first, components keep the proportions that they have in the rows.
    """
    scaled = (x - x.mean(0)) / spreads(x)
    found, size, _ = torch.linalg.svd(scaled if stretch is None else scaled / stretch, full_matrices=False)
    order = [i % found.shape[1] for i in range(n_hidden)]
    found, size = found[:, order], size[order]
    share = torch.ones_like(size) if stretch is None else (size / size[0].clamp_min(1e-300)).clamp_min(_LEAST)
    return (found - found.mean(0)) / spreads(found) * share


def relevant_stretch(
    x: Float[Tensor, "n d"], y: Float[Tensor, "n p"], generator: torch.Generator | None = None
) -> Float[Tensor, " d"]:
    """The lengthscale of each column relative to what its spread suggests, from a process on a few rows.

    >>> x = torch.randn(80, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> relevant_stretch(x, (3 * x[:, :1]).sin()).argmin()
    tensor(0)
    """
    rows = torch.randperm(len(x), generator=generator)[:_ROWS]
    scaled, target = ((x - x.mean(0)) / spreads(x))[rows], principal_targets(y[rows], 1)[:, 0]
    gp = ExactGP(start_from_data(RBF(ard=x.shape[1]), scaled, target), noise=0.1)
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, NumericalWarning):  # a rough answer is enough
            warnings.simplefilter("ignore", kind)
        maximise(lambda: gp.log_evidence(scaled, target), gp.parameters(), _ITERATIONS)
    found = gp.kernel.lengthscale.detach()
    found = found.clamp_max(_FARTHEST * float(found.min()))
    return found * (spreads(scaled) / found).square().mean().sqrt()


def linear_targets(x: Float[Tensor, "n d"], y: Float[Tensor, "n p"]) -> Float[Tensor, "n 1"]:
    """The first principal component of the linear fit to ``y``: the start of a process that sees a few columns."""
    scaled = (x - x.mean(0)) / spreads(x)
    ridge = _RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    fitted = scaled @ torch.linalg.solve(scaled.mT @ scaled + ridge, scaled.mT @ (y - y.mean(0)))
    return principal_targets(fitted, 1)


def output_kernel(name: str | Kernel, columns: int) -> Kernel:
    """The kernel of the latent space with this name."""
    if isinstance(name, Kernel):
        return copy.deepcopy(name).bind(columns)
    if name not in OUTPUT_KERNELS:
        raise InputError(f"output_kernel must be a kernel or one of {', '.join(OUTPUT_KERNELS)}, got {name!r}")
    if name == "metric":
        start = torch.eye(columns, dtype=torch.float64) / columns**0.5
        return MetricRBF(start)
    if name == "linear":
        return Linear(1.0 / columns, ard=columns)
    return (RBF(ard=name == "ard") + Linear() if name == "rbf + linear" else RBF(ard=name == "ard")).bind(columns)


def dfgp_regression(
    hidden: Layer,
    kernel: Kernel,
    x: Float[Tensor, "n d"],
    n_inducing: int = 10,
    mean: Mean | None = None,
    noise: Any = 0.1,
) -> RandomInputGP:
    """The collapsed model on a hidden layer, with inducing points at centres of the latent rows.

    A linear kernel is in weight space: its inducing points are the unit vectors and stay fixed.
    """
    kernel, z = _start_output(hidden, kernel, x, n_inducing)
    return RandomInputGP(hidden, kernel, z, mean, noise)


def dfgp_chain(
    hidden: Layer,
    kernel: Kernel,
    likelihood: Likelihood,
    x: Float[Tensor, "n d"],
    outputs: int = 1,
    n_inducing: int = 10,
    propagate: str = "samples",
    n_samples: int = 5,
    sampled: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    mean: Mean | None = None,
) -> Chain:
    """The model with any likelihood, trained by batches.

    Arguments:
        hidden: a hidden layer or a stack of them.
        propagate: what the output process receives from hidden ones, "samples" or "moments".
        n_samples: samples of hidden values per row in training.
        sampled: samples of the likelihood's functions, if it has no quadrature.
        mean: the prior mean of the output process.
    """
    functions = likelihood.functions(outputs)
    kernel, z = _start_output(hidden, kernel, x, n_inducing)
    output = Inducing(kernel, z, mean=mean, functions=functions)
    with torch.no_grad():
        output.posterior.scale.mul_(_CERTAINTY)
    layer = Stack(*layers_of(hidden), output, propagate=propagate, n_samples=n_samples, generator=generator)
    observed = likelihood if sampled is None else Sampled(likelihood, sampled, generator)
    return Chain(layer, observed, dtype)


def _started(kernel: Kernel, x: Float[Tensor, "n d"]) -> Kernel:
    """A copy with start values derived from the points."""
    return start_from_data(kernel, x, x[:, 0])


def _as_many(points: Float[Tensor, "k d"], m: int) -> Float[Tensor, "m d"]:
    """``m`` of the points, repeated if there are too few, which the jitter of inducing values allows."""
    return points[torch.arange(m) % len(points)]


def _start_output(hidden: Layer, kernel: Kernel, x: Tensor, n_inducing: int) -> tuple[Kernel, Any]:
    with torch.no_grad():
        belief = hidden(x)
        h, doubt = (belief, torch.zeros_like(belief)) if isinstance(belief, Tensor) else belief
        known = spreads(h)
        wide = h * (1 + doubt.mean(0) / known.square()).sqrt()  # as wide as the rows may be
        kernel = _started(kernel, _STRETCH * wide)
        if isinstance(kernel, Linear):
            return kernel, real(torch.eye(h.shape[1], dtype=torch.float64), trainable=False, name="z")
        return kernel, real(kmeans_points(h, n_inducing), name="z", unit=known)
