"""DFGP: the deep feed-forward Gaussian process (Kandemir and Hamprecht 2015).

    b_r ~ GP(0, k_r),  r = 1 … ν,        f | B ~ GP(0, k) in the space of b,        y ~ p(y | f)

Each hidden process is sparse, with inducing rows of its own and possibly columns of its own (a view: multiple kernel
learning). The belief about its inducing values is a Gaussian, which makes the objective a bound on the evidence, or a
point, as in the paper. The output process is read through the expectations of its kernel: an RBF, one with a metric, or
a linear kernel, for which the covariance of ``f`` has a Wishart process as its prior. Regression is by the collapsed
bound of :class:`~stratagp.models.random_inputs.RandomInputGP`, all else by a :class:`~stratagp.models.chain.Chain`,
which may also propagate samples.

Training starts where the hidden processes have seen something: each is fitted by least squares to a target of its own,
a principal component of the rows. Columns may be stretched first, by the lengthscales that a shallow process finds on a
few rows: where few of many columns matter, the bound from any other start ends with everything taken for noise. The
output's inducing points start at centres of the latent rows. Gaussian beliefs about hidden values are trained as points
first and then widened: from the start, their divergence would switch off hidden processes before these are of use.
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
_STRETCH = 2.0  # of lengthscales of the output process at the start
_LEAST = 0.1  # the standard deviation of a latent coordinate at the start, as a share of the greatest
_ROWS, _ITERATIONS = 300, 30  # of the shallow process that tells which columns matter
_FARTHEST = 100.0  # times the shortest lengthscale: beyond, a column does not matter
_RIDGE = 1e-3  # of the least squares that hidden processes start from, as a share of the mean square


def hidden_layer(
    x: Float[Tensor, "n d"],
    targets: Float[Tensor, "n q"],
    kernels: Kernel | Sequence[Kernel],
    n_inducing: int = 10,
    generator: torch.Generator | None = None,
    given_points: Sequence[Float[Tensor, "m d"] | None] | None = None,
    stretch: Float[Tensor, " d"] | float = 1.0,
) -> Inducing:
    """Sparse processes that start at ``targets``, one for each column, with inducing points from rows at random.

    Arguments:
        x: rows of inputs; every process sees those columns that its kernel is on.
        kernels: one that each process gets a copy of, or a kernel for each.
        n_inducing: of each process.
        given_points: inducing points that a process must have, None for rows at random.
        stretch: of the columns, where start values of kernels are taken from them.

    The belief about inducing values is a point, until :func:`widen` makes a Gaussian of it.

    >>> x = torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    >>> layer = hidden_layer(x, x.sin(), RBF(1.0, variance=1.0), 8)
    >>> bool((layer(x).mean - x.sin()).abs().max() < 0.05)
    True
    """
    functions = targets.shape[1]
    alike = isinstance(kernels, Kernel)
    given = [kernels] if isinstance(kernels, Kernel) else list(kernels)
    if not alike and len(given) != functions:
        raise InputError(f"kernels must have one for each of {functions} hidden processes, got {len(given)}")
    fixed = [None] * functions if given_points is None else list(given_points)
    m = min(n_inducing, len(x))
    seen = zip(given, fixed[: len(given)], strict=True)
    started = [_started(own, stretch * x if points is None else points) for own, points in seen]
    kernel = started[0].replicate(functions) if alike else Separate(started)
    picked = [x[torch.randperm(len(x), generator=generator)[:m]] if own is None else _as_many(own, m) for own in fixed]
    z = real(torch.stack(picked), name="z", unit=spreads(x))
    layer = Inducing(kernel, z, Delta(m, functions))
    start_at(layer, x, targets)
    return layer


@torch.no_grad()
def start_at(layer: Inducing, x: Float[Tensor, "n d"], targets: Float[Tensor, "n q"], ridge: float = _RIDGE) -> None:
    """Let the expected functions of a layer be those nearest to ``targets`` at rows ``x``, by least squares.

    ``ridge`` is a share of the mean square of what they are made of.
    """
    a = lower_times(layer.whitener(), layer.kernel(layer.z, x.expand(targets.shape[1], -1, -1)))
    level = ridge * a.square().mean((1, 2))[:, None, None] * len(x) * torch.eye(a.shape[1], dtype=a.dtype)
    fitted = torch.linalg.solve(a @ a.mT + level, a @ targets.mT[..., None]).squeeze(-1)
    layer.posterior.mean.copy_(fitted)


def widen(layer: Layer) -> None:
    """Make Gaussians, narrow ones, of all beliefs about inducing values that are points."""
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
    """Principal components of the rows, of a standard deviation of one; they repeat where there are too few.

    Of columns that are divided by ``stretch`` first, they keep the shares that they have in the rows.
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
    """How much longer than its spread suggests is the lengthscale of each column, found by a process on a few rows.

    >>> x = torch.randn(80, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> relevant_stretch(x, (3 * x[:, :1]).sin()).argmin()
    tensor(0)
    """
    rows = torch.randperm(len(x), generator=generator)[:_ROWS]
    scaled, target = ((x - x.mean(0)) / spreads(x))[rows], principal_targets(y[rows], 1)[:, 0]
    gp = ExactGP(start_from_data(RBF(ard=x.shape[1]), scaled, target), noise=0.1)
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, NumericalWarning):  # a hint suffices
            warnings.simplefilter("ignore", kind)
        maximise(lambda: gp.log_evidence(scaled, target), gp.parameters(), _ITERATIONS)
    found = gp.kernel.lengthscale.detach()
    found = found.clamp_max(_FARTHEST * float(found.min()))
    return found * (spreads(scaled) / found).square().mean().sqrt()


def linear_targets(x: Float[Tensor, "n d"], y: Float[Tensor, "n p"]) -> Float[Tensor, "n 1"]:
    """The first principal component of what is linear in ``y``: where a process starts that sees a few columns."""
    scaled = (x - x.mean(0)) / spreads(x)
    ridge = _RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    fitted = scaled @ torch.linalg.solve(scaled.mT @ scaled + ridge, scaled.mT @ (y - y.mean(0)))
    return principal_targets(fitted, 1)


def output_kernel(name: str | Kernel, columns: int) -> Kernel:
    """A kernel of the latent space by its name."""
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
    """The collapsed model on a hidden layer, its inducing points at centres of the latent rows.

    A linear kernel is in weight space: its inducing points are the unit vectors, which do not move.
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
        hidden: a hidden layer, or a stack of them.
        propagate: what the output process sees of hidden ones, "samples" or "moments".
        n_samples: of hidden values of each row, in training.
        sampled: samples of the likelihood's functions, where it has no quadrature.
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
    """A copy with start values that the points suggest."""
    return start_from_data(copy.deepcopy(kernel), x, x[:, 0])


def _as_many(points: Float[Tensor, "k d"], m: int) -> Float[Tensor, "m d"]:
    """``m`` of the points, which repeat where they are too few: the jitter of inducing values carries that."""
    return points[torch.arange(m) % len(points)]


def _start_output(hidden: Layer, kernel: Kernel, x: Tensor, n_inducing: int) -> tuple[Kernel, Any]:
    with torch.no_grad():
        belief = hidden(x)
        h, doubt = (belief, torch.zeros_like(belief)) if isinstance(belief, Tensor) else belief
        known = spreads(h)
        wide = h * (1 + doubt.mean(0) / known.square()).sqrt()  # as far apart as the rows may be
        kernel = _started(kernel, _STRETCH * wide)
        if isinstance(kernel, Linear):
            return kernel, real(torch.eye(h.shape[1], dtype=torch.float64), trainable=False, name="z")
        return kernel, real(kmeans_points(h, n_inducing), name="z", unit=known)
