"""Draws of the random directions behind random features, independent or spread more evenly.

The frequencies of a kernel with lengthscales ``ℓ`` are ``ω = (g ∘ 1/ℓ) c`` with ``g ~ N(0, I)``, and a factor ``c``
that is 1 for the RBF and the arc-cosine kernels, and ``1/√s``, ``s ~ Gamma(ν, rate ν)``, for a Matérn kernel: they are
Gaussian given ``s``, and a Student t without it. This module draws ``g``, and uniform numbers of which
``s`` is a quantile:

    independent    rows of normal numbers
    orthogonal     blocks of ``d`` orthogonal rows with the lengths of independent ones
    quasi          a scrambled Sobol sequence, through the normal quantiles

Each single row has the same distribution in all three, so the estimate of the kernel is unbiased.

Reference: Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, Orthogonal random features, 2016.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.nonstationary.wide_networks import ArcCosine
from stratagp.kernels.spectral import Rng, gamma_scale
from stratagp.kernels.stationary.matern import Matern
from stratagp.kernels.stationary.scaled_distance import RBF

DRAWS = ("independent", "orthogonal", "quasi")


def directions(
    n: int, dim: int, how: str = "independent", generator: Rng = None, samples: int = 1
) -> tuple[Float[Tensor, "s n dim"], Float[Tensor, "s n 1"]]:
    """``n`` draws of ``N(0, I)`` and as many uniform numbers, in float64, for each of ``samples`` independent sets.

    >>> g, _ = directions(2, 2, "orthogonal", torch.Generator().manual_seed(0))
    >>> abs(g[0, 0] @ g[0, 1]).item() < 1e-12
    True
    """
    if how not in DRAWS:
        raise InputError(f"draws must be one of {', '.join(DRAWS)}, got {how!r}")
    if how == "quasi":
        points = torch.stack([_sobol(n, dim + 1, generator) for _ in range(samples)])
        return torch.special.ndtri(points[..., :dim]), points[..., dim:]
    normal = torch.randn(samples, n, dim, generator=generator, dtype=torch.float64)
    uniform = torch.rand(samples, n, 1, generator=generator, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    return (_orthogonal(normal, generator) if how == "orthogonal" else normal), uniform


def spread(kernel: Kernel, uniform: Float[Tensor, "f 1"]) -> Float[Tensor, "f 1"]:
    """The factor ``c`` of frequencies of unit lengthscale, from uniform numbers.

    >>> spread(Matern(nu=0.5), torch.tensor([[0.5]])).item()  # 1/√s at the median of a squared normal number
    1.4826...
    """
    if not isinstance(kernel, Matern):
        return torch.ones_like(uniform)
    return 1 / gamma_scale(uniform, torch.tensor(kernel.nu, dtype=uniform.dtype))


def root_precision(kernel: Any, dim: int) -> Float[Tensor, " c"]:
    """The standard deviation of a frequency in each column, ``1/ℓ``, followed by ``√bias`` for a column of ones."""
    inverse = (1 / kernel.lengthscale).expand(dim)
    bias = kernel.bias if isinstance(kernel, ArcCosine) else None
    return inverse if bias is None else torch.cat([inverse, bias.sqrt().reshape(1)])


def check_kernel(kernel: Kernel) -> None:
    """Refuse kernels whose frequencies are not a Gaussian times a known factor."""
    if not isinstance(kernel, (RBF, Matern, ArcCosine)):
        raise InputError(f"kernel must be an RBF, Matern or ArcCosine, which have known features, got {kernel}")
    if kernel.functions is not None:
        raise InputError("kernel must not have a function axis: all functions of a layer share their frequencies")
    if isinstance(kernel, ArcCosine) and kernel.depth > 1:
        raise InputError(f"kernel must have depth 1, got {kernel.depth}: use several layers instead")
    if isinstance(kernel, Matern) and isinstance(kernel.nu, Tensor):
        raise InputError("kernel must have a fixed nu: pass a number, as in Matern(nu=1.5)")


def _orthogonal(normal: Float[Tensor, "s n dim"], generator: Rng) -> Float[Tensor, "s n dim"]:
    """Rows with the given lengths, in directions that are orthogonal in each block of ``dim``."""
    samples, n, dim = normal.shape
    blocks = torch.randn(samples, -(-n // dim), dim, dim, generator=generator, dtype=normal.dtype)
    q, r = torch.linalg.qr(blocks)
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]  # makes all rotations equally likely
    return q.mT.flatten(1, 2)[:, :n] * normal.norm(dim=-1, keepdim=True)


def _sobol(n: int, dim: int, generator: Rng) -> Float[Tensor, "n dim"]:
    seed = int(torch.randint(2**31, (), generator=generator))
    points = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed).draw(n, dtype=torch.float64)
    return points.clamp(1e-12, 1 - 1e-12)
