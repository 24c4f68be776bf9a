"""Bounds and approximations of the evidence from inducing points, with the inducing values integrated out.

With ``Q = Kxz Kzz⁻¹ Kzx``, ``r = y − m(x)`` and noise variances ``σ²``,

    SGPR   log N(r; 0, Q + σ²) − ½ tr((K − Q)/σ²)                             ≤ log p(y)     (Titsias 2009)
    upper  −½ log|Q + σ²| − ½ rᵀ(Q + σ² + tr(K − Q))⁻¹r − n/2 log 2π          ≥ log p(y)     (Titsias 2014)
    FITC   log N(r; 0, Q + diag(K − Q) + σ²)                                  (Snelson and Ghahramani 2006)
    Nyström   log N(r; 0, Q + σ²)                                             (Williams and Seeger 2001)

and all equal the evidence if ``z`` contains every row of ``x``. For a diagonal ``D``, with the sums
``B = Σ aᵢaᵢᵀ/Dᵢ`` and ``b = Σ aᵢrᵢ/Dᵢ`` of :mod:`stratagp.linalg.gram` and ``C = I + B``,

    log|Q + D| = log|C| + Σ log Dᵢ,        rᵀ(Q + D)⁻¹r = Σ rᵢ²/Dᵢ − bᵀC⁻¹b,        tr(D⁻¹Q) = tr B,

so one evaluation takes O(n m²) operations, and memory for a chunk of rows and a few m × m matrices.

If ``Kzz`` is singular, the policy of :mod:`stratagp.linalg.cholesky` adds jitter. The inducing values are then
those of the process plus a little independent noise: SGPR is still below, and the upper bound above, the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.linalg import cholesky
from stratagp.linalg.gram import whitened_gram, whitened_norms

Noise = Float[Tensor, ""] | Float[Tensor, " n"]
MeanFunction = Callable[[Tensor], Tensor]
_DIAGONAL = 2**14  # rows of the prior variance at once if no chunk is given


class Projection(NamedTuple):
    """The data as the inducing points see them: ``C = I + B`` by its factor, ``b``, and the factor of ``Kzz``."""

    factor: Float[Tensor, "m m"]
    inner: Float[Tensor, "m m"]
    b: Float[Tensor, " m"]
    trace: Float[Tensor, ""]


def sgpr(
    kernel: Kernel,
    z: Float[Tensor, "m d"],
    mean: MeanFunction,
    noise: Noise,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """Titsias' collapsed lower bound, ``log N(y; m, Q + σ²) − ½ tr((K − Q)/σ²)``.

    ``noise`` is one variance or one for each row; ``chunk`` the rows held at once. First derivatives only.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 50, dtype=torch.float64)[:, None]
    >>> mean, noise = lambda x: 0 * x[:, 0], torch.tensor(0.1, dtype=torch.float64)
    >>> [round(f(k.RBF(), x[::8], mean, noise, x, x[:, 0].sin()).item(), 3) for f in (sgpr, upper_bound)]
    [-3.15, -2.099]
    """
    residual = y - mean(x)
    seen = project(kernel, z, noise, x, residual, chunk)
    missing = (_prior_variance(kernel, x, chunk) / noise).sum() - seen.trace
    return _log_density(seen, residual, noise) - 0.5 * missing


def fitc(
    kernel: Kernel,
    z: Float[Tensor, "m d"],
    mean: MeanFunction,
    noise: Noise,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """``log N(y; m, Q + diag(K − Q) + σ²)``: the evidence of a different model, not a bound; see :func:`sgpr`.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 50, dtype=torch.float64)[:, None]
    >>> mean, noise = lambda x: 0 * x[:, 0], torch.tensor(0.1, dtype=torch.float64)
    >>> round(fitc(k.RBF(), x[::8], mean, noise, x, x[:, 0].sin()).item(), 1)
    -3.0
    """
    residual = y - mean(x)
    total = fitc_noise(kernel, z, noise, x, chunk)
    return _log_density(project(kernel, z, total, x, residual, chunk), residual, total)


def nystrom(
    kernel: Kernel,
    z: Float[Tensor, "m d"],
    mean: MeanFunction,
    noise: Noise,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """``log N(y; m, Q + σ²)``, with Nyström's ``Q`` in place of ``K``: not a bound; see :func:`sgpr`.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 50, dtype=torch.float64)[:, None]
    >>> given = k.RBF(), x[::8], lambda x: 0 * x[:, 0], torch.tensor(0.1, dtype=torch.float64), x, x[:, 0].sin()
    >>> bool(nystrom(*given) > sgpr(*given))
    True
    """
    residual = y - mean(x)
    return _log_density(project(kernel, z, noise, x, residual, chunk), residual, noise)


def upper_bound(
    kernel: Kernel,
    z: Float[Tensor, "m d"],
    mean: MeanFunction,
    noise: Noise,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """An upper bound on the exact log evidence, ``−½ log|Q + σ²| − ½ rᵀ(Q + σ² + tr(K − Q))⁻¹r − n/2 log 2π``.

    Together with :func:`sgpr`, whose arguments it shares, it bounds the cost of using inducing points.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 50, dtype=torch.float64)[:, None]
    >>> given = k.RBF(), x[::8], lambda x: 0 * x[:, 0], torch.tensor(0.1, dtype=torch.float64), x, x[:, 0].sin()
    >>> bool(sgpr(*given) < upper_bound(*given))
    True
    """
    residual = y - mean(x)
    missing = (_prior_variance(kernel, x, chunk) - _explained(kernel, z, x, chunk)).sum().clamp_min(0)
    near, far = (project(kernel, z, level, x, residual, chunk) for level in (noise, noise + missing))
    return -0.5 * (_log_det(near, noise, len(x)) + _quadratic(far, residual, noise + missing))


def project(
    kernel: Kernel,
    z: Float[Tensor, "m d"],
    noise: Noise,
    x: Float[Tensor, "n d"],
    residual: Float[Tensor, " n"],
    chunk: int | None = None,
) -> Projection:
    """``B``, ``b`` and the factors for residuals with independent noise of variance ``noise``."""
    factor = _inducing_factor(kernel, z)
    if noise.dim():
        gram, b = whitened_gram(kernel, _leaves(kernel), x, z, factor, residual / noise, 1 / noise, chunk)
    else:  # one noise for all rows needs no gradient of the weights
        gram, b = whitened_gram(kernel, _leaves(kernel), x, z, factor, residual, None, chunk)
        gram, b = gram / noise, b / noise
    inner = cholesky(gram + torch.eye(len(z), dtype=gram.dtype, device=gram.device), "I + B")
    return Projection(factor, inner, b, gram.trace())


def fitc_noise(
    kernel: Kernel, z: Float[Tensor, "m d"], noise: Noise, x: Float[Tensor, "n d"], chunk: int | None = None
) -> Float[Tensor, " n"]:
    """``diag(K − Q) + σ²``: FITC treats what the inducing points do not explain as noise of each row."""
    return (_prior_variance(kernel, x, chunk) - _explained(kernel, z, x, chunk)).clamp_min(0) + noise


def check_inducing(z: Tensor, x: Tensor) -> None:
    """Refuse inducing points that do not match the data."""
    if z.dim() != 2 or not len(z) or z.shape[1] != x.shape[1]:
        raise InputError(f"z must have shape (m, {x.shape[1]}), m ≥ 1, with the columns of x; got {tuple(z.shape)}")


def _prior_variance(kernel: Kernel, x: Tensor, chunk: int | None) -> Tensor:
    """``k(xᵢ, xᵢ)`` in chunks of rows, recomputed for the gradient rather than kept."""
    parts = x.split(chunk or _DIAGONAL)
    return torch.cat([checkpoint(kernel.diag, rows, use_reentrant=False, preserve_rng_state=False) for rows in parts])


def _explained(kernel: Kernel, z: Tensor, x: Tensor, chunk: int | None) -> Tensor:
    return whitened_norms(kernel, _leaves(kernel), x, z, _inducing_factor(kernel, z), chunk)


def _inducing_factor(kernel: Kernel, z: Tensor) -> Tensor:
    return cholesky(kernel(z), f"the covariance of the inducing points under {kernel}")


def _leaves(kernel: Kernel) -> list[Tensor]:
    return [parameter for parameter in kernel.parameters() if parameter.requires_grad]


def _log_density(seen: Projection, residual: Tensor, noise: Tensor) -> Tensor:
    """``log N(r; 0, Q + D)``."""
    return -0.5 * (_log_det(seen, noise, len(residual)) + _quadratic(seen, residual, noise))


def _log_det(seen: Projection, noise: Tensor, n: int) -> Tensor:
    """``log|2π (Q + D)|``."""
    return 2 * seen.inner.diagonal().log().sum() + (2 * math.pi * noise).log().expand(n).sum()


def _quadratic(seen: Projection, residual: Tensor, noise: Tensor) -> Tensor:
    """``rᵀ(Q + D)⁻¹r``."""
    white = torch.linalg.solve_triangular(seen.inner, seen.b[:, None], upper=False)
    return (residual.square() / noise).sum() - white.square().sum()
