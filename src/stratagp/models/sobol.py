"""Sobol indices in closed form: how much of a function's variance each input and each interaction explains.

A kernel from :func:`~stratagp.kernels.anova_kernel` is a sum over sets ``u`` of columns of ``varianceₙ Π_{i∈u} kᵢ``,
and so is the posterior mean, with effects that are uncorrelated under the distribution of the inputs:

    f_u(x) = varianceₙ Σⱼ αⱼ Π_{i∈u} kᵢ(xᵢ, Xⱼᵢ),
    V_u = E f_u² = varianceₙ² αᵀ(∘_{i∈u} Γᵢ)α,   Γᵢ = E kᵢ(X, s) kᵢ(s, X),   S_u = V_u/Σ V_u.

With little noise ``α`` is huge and the quadratic form loses all its digits, so ``Γᵢ = HᵢHᵢᵀ`` is never formed:
``V_u`` is the sum of squares of the tensor ``varianceₙ Σⱼ αⱼ ⊗_{i∈u} Hᵢ[j]``.

Reference: Durrande, Ginsbourger, Roustant and Carraro, ANOVA kernels and RKHS of zero mean functions, 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp import means
from stratagp.errors import InputError
from stratagp.kernels import Additive, Centred, Constant, Kernel, OnColumns, Sum
from stratagp.models.exact import ExactPosterior

_LARGEST = 2**24  # entries of a tensor T
_SAMPLES = 1024  # inputs over which the posterior variance is averaged


@dataclass(frozen=True)
class SobolIndices:
    """Each effect's share of the variance of the posterior mean.

    ``effects`` has the share of each set of columns, ``first`` that of each column alone and ``total`` that of each
    column with all its interactions. ``variance`` is the variance that they share. ``unresolved`` is the
    posterior variance of the function, averaged over the inputs: unless it is small relative to ``variance``,
    more data could change the indices.

    >>> from stratagp import ExactGP, kernels as k
    >>> x = torch.rand(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> gp = ExactGP(k.anova_kernel([k.Measure.uniform(0, 1)] * 2), noise=1e-4)
    >>> indices = sobol_indices(gp.condition(x, x[:, 0]))
    >>> indices.total.round(decimals=2)
    tensor([1., 0.], dtype=torch.float64)
    """

    effects: dict[tuple[int, ...], float]
    first: Float[Tensor, " d"]
    total: Float[Tensor, " d"]
    variance: float
    unresolved: float


def sobol_indices(posterior: ExactPosterior, order: int | None = None) -> SobolIndices:
    """First-order, total and interaction indices of the posterior mean of a model with an ANOVA kernel, exactly.

    They are indices of the mean function and do not include posterior uncertainty; ``unresolved`` tells how large that
    is.

    Arguments:
        posterior: of an :class:`~stratagp.ExactGP` with a kernel from :func:`~stratagp.kernels.anova_kernel` and a zero
            or constant mean. The distributions of the inputs are those of its centred kernels.
        order: the size of the largest sets in ``effects``, all of the kernel's if None; ``total`` counts all.

    >>> from stratagp import ExactGP, kernels as k
    >>> x = torch.rand(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> gp = ExactGP(k.anova_kernel([k.Measure.uniform(0, 1)] * 2), noise=1e-4)
    >>> indices = sobol_indices(gp.condition(x, 2 * x[:, 0] + x[:, 1]))
    >>> indices.first.round(decimals=1)  # of 4/12 and 1/12
    tensor([0.8000, 0.2000], dtype=torch.float64)
    """
    if order is not None and order < 1:
        raise InputError(f"order must be at least 1, got {order}")
    kernel = _effects(posterior.prior.kernel)
    if not isinstance(posterior.prior.mean, (means.Zero, means.Constant)):
        raise InputError("the prior mean must be zero or constant: a varying mean adds variance of its own")
    with torch.no_grad():
        found = _variances(kernel, posterior)
        unresolved = posterior.component(kernel, _inputs(kernel)).var.mean().item()
    variance = sum(found.values())
    if not variance > 0:
        raise InputError("the posterior mean is constant: it has no variance to explain")
    shares = {columns: part / variance for columns, part in found.items()}
    each = range(len(kernel.parts))
    total = [sum(share for columns, share in shares.items() if i in columns) for i in each]
    return SobolIndices(
        effects={columns: share for columns, share in shares.items() if order is None or len(columns) <= order},
        first=torch.tensor([shares[i,] for i in each], dtype=torch.float64),
        total=torch.tensor(total, dtype=torch.float64),
        variance=variance,
        unresolved=unresolved,
    )


def _effects(kernel: Kernel) -> Additive:
    """The additive kernel of centred columns inside a model's kernel; a constant may be added to it."""
    parts = kernel.parts if isinstance(kernel, Sum) else [kernel]
    found = [part for part in parts if isinstance(part, Additive)]
    others = [part for part in parts if not isinstance(part, (Additive, Constant))]
    if len(found) != 1 or others or kernel.functions is not None or not all(map(_is_centred, found[0].parts)):
        raise InputError(
            "Sobol indices need an Additive kernel of Centred kernels, plus at most a Constant: build it with "
            f"kernels.anova_kernel(measures); got {kernel}"
        )
    return found[0]


def _is_centred(part: Kernel) -> bool:
    return isinstance(part, OnColumns) and isinstance(part.base, Centred)


def _variances(kernel: Additive, posterior: ExactPosterior) -> dict[tuple[int, ...], float]:
    """``V_u`` of every effect of the posterior mean."""
    halves = [_half(part, posterior.x) for part in kernel.parts]
    scales = kernel.parameter("variance").natural
    sizes = sorted((half.shape[1] for half in halves), reverse=True)
    if torch.tensor(sizes[: len(scales)], dtype=torch.float64).prod() > _LARGEST:
        raise InputError(
            f"indices of interactions of {len(scales)} columns need too much memory: build the kernel with lower "
            "orders, as in anova_kernel(measures, order=3), or its measures with fewer points"
        )
    found = {}
    for n, scale in enumerate(scales, 1):
        for columns in combinations(range(len(halves)), n):
            tensor = _tensor(posterior.alpha, [halves[i] for i in columns])
            found[columns] = (scale * tensor).square().sum().item()
    return found


def _half(part: Kernel, x: Float[Tensor, "n d"]) -> Float[Tensor, "n r"]:
    """``H`` with ``H Hᵀ = E k(X, s) k(s, X)``, rotated so that columns of mere rounding error can be dropped."""
    centred: Centred = part.base
    half = centred(part.take(x), centred.points) * centred.weights.sqrt()
    _, size, turn = torch.linalg.svd(half, full_matrices=False)
    return half @ turn.mT[:, size > torch.finfo(size.dtype).eps * size[0]]


def _tensor(alpha: Float[Tensor, " n"], halves: list[Float[Tensor, "n _"]]) -> Float[Tensor, "a b"]:
    """``Σⱼ αⱼ ⊗ᵢ Hᵢ[j]`` as a matrix: the product of the first columns' features with the remaining ones."""
    middle = len(halves) // 2
    left, right = alpha[:, None], torch.ones_like(alpha[:, None])
    for half in halves[:middle]:
        left = (left[:, :, None] * half[:, None]).flatten(1)
    for half in halves[middle:]:
        right = (right[:, :, None] * half[:, None]).flatten(1)
    return left.mT @ right


def _inputs(kernel: Additive) -> Float[Tensor, "s d"]:
    """Quasi-random inputs from the distributions of the columns."""
    engine = torch.quasirandom.SobolEngine(len(kernel.parts), scramble=True, seed=0)
    uniform = engine.draw(_SAMPLES, dtype=torch.float64)
    columns = []
    for part, level in zip(kernel.parts, uniform.mT, strict=True):
        points, weights = part.base.measure
        index = torch.searchsorted(weights.cumsum(0).to(level), level.contiguous()).clamp_max(len(points) - 1)
        columns.append(points[index])
    return torch.stack(columns, 1)
