"""Draws from spectral densities: the random frequencies behind random features.

By Bochner's theorem a stationary correlation is a characteristic function, ``ρ(τ) = E cos(ω·τ)``, so its
features need draws of ``ω``. For a kernel of the scaled distance with unit lengthscale,

    RBF                    ω = g,             g ~ N(0, I)
    Matérn ν               ω = g/√s,          s ~ Gamma(ν, rate ν)  (Student's t with 2ν degrees of freedom)
    rational quadratic α   ω = g √s,          s ~ Gamma(α, rate α)
    compact support        ω = |ω| g/|g|,     |ω| from its distribution function, by quadrature

Draws are functions of stored standard normal and uniform numbers, so they move smoothly with ν
and α.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import gammaln, jv
from torch import Tensor

from stratagp.linalg.once import first_derivative_only

Rng = torch.Generator | None

_LAST, _STEP, _NODES = 200.0, 0.1, 200  # the grid of radial frequencies and the quadrature over distances


def normal(rows: int, columns: int, generator: Rng) -> Float[Tensor, "rows columns"]:
    """Standard normal numbers in double precision, on the generator's device."""
    device = "cpu" if generator is None else generator.device
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64, device=device)


def uniform(rows: int, generator: Rng) -> Float[Tensor, "rows 1"]:
    """Uniform numbers strictly between 0 and 1, as a column."""
    device = "cpu" if generator is None else generator.device
    draw = torch.rand(rows, 1, generator=generator, dtype=torch.float64, device=device)
    return draw.clamp(2.0**-54, 1 - 2.0**-53)


def gamma_scale(u: Float[Tensor, "f 1"], shape: Float[Tensor, "..."]) -> Float[Tensor, "*q f 1"]:
    """``√s`` with ``s`` the quantile at ``u`` of Gamma(shape, rate = shape); differentiable in ``shape``.

    >>> gamma_scale(torch.tensor([[0.5]]), torch.tensor(1.0)).square()  # the median of the exponential law
    tensor([[0.6931]])
    """
    return (0.5 * (_LogGammaQuantile.apply(u, shape) - shape.log())).exp()


def student_frequencies(nu: float, n: int, dim: int, generator: Rng) -> Float[Tensor, "n dim"]:
    """Frequencies of the Matérn kernel of smoothness ``nu`` and unit lengthscale."""
    g, u = normal(n, dim, generator), uniform(n, generator)
    return g / gamma_scale(u, torch.tensor(nu, dtype=u.dtype, device=u.device))


def compact_frequencies(
    profile: Callable[[Tensor], Tensor], tail: int, n: int, dim: int, generator: Rng
) -> Float[Tensor, "n dim"]:
    """Frequencies of a correlation ``ρ(r)`` that is zero beyond ``r = 1``, in ``dim`` dimensions.

    The radius is drawn by inverting its distribution function, with Bessel functions ``J``,

        P(|ω| ≤ s) = 2^(1−D/2)/Γ(D/2) ∫₀¹ ρ(r) (sr)^(D/2) J_{D/2}(sr) dr/r,

    on a grid (bias below 10⁻³ of the correlation), and beyond the grid as a power law, ``P(|ω| > s) ∝
    s^(−tail)``.

    Arguments:
        profile: the correlation as a function of ``r²``.
        tail: ``2q + 1`` for a process with ``q`` mean-square derivatives.
    """
    g, u = normal(n, dim, generator), uniform(n, generator)
    grid, cdf = _radial_distribution(profile, dim)
    p = u.cpu().numpy()
    beyond = _LAST * ((1 - p) / max(1 - cdf[-1], 1e-300)) ** (-1 / tail)
    radius = np.where(p <= cdf[-1], np.interp(p, cdf, grid), np.maximum(beyond, _LAST))
    return torch.as_tensor(radius).to(g) * g / g.norm(dim=-1, keepdim=True)


def _radial_distribution(profile: Callable[[Tensor], Tensor], dim: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    r, weights = (nodes + 1) / 2, weights / 2
    rho = profile(torch.as_tensor(r * r)).detach().cpu().numpy()
    grid = np.arange(0.0, _LAST + _STEP / 2, _STEP)
    phase = grid[:, None] * r
    log_scale = (1 - dim / 2) * math.log(2) - gammaln(dim / 2)
    bessel = jv(dim / 2, phase) * np.exp(log_scale + dim / 2 * np.log(np.maximum(phase, 1e-300)))
    return grid, np.maximum.accumulate((bessel @ (weights * rho / r)).clip(0, 1))


class _LogGammaQuantile(torch.autograd.Function):
    """``y = log x`` with ``F(x; a) = u``, where F is the distribution function of Gamma(a, rate 1).

    ``log F`` is concave in ``y``, so Newton's method increases to the root from below; ``F ≤ xᵃ/Γ(a+1)``
    gives a start below it. The derivative is ``dy/da = −(∂ log F/∂a)/(∂ log F/∂y)``, with the numerator
    from a central difference.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, a: Tensor) -> Tensor:
        u64, a64 = torch.broadcast_tensors(u.double(), a.double())
        y = (u64.log() + torch.lgamma(a64 + 1)) / a64
        for _ in range(50):
            log_cdf = _log_cdf(y, a64)
            step = (u64.log() - log_cdf) / _slope(y, a64, log_cdf)
            y = y + step
            if bool((step.abs() <= 1e-8).all()):  # the error is of the order of the step squared
                break
        ctx.save_for_backward(y, a)
        return y.to(u.dtype)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        y, a = ctx.saved_tensors
        a64 = a.double().expand(y.shape)
        h = 1e-5 * a64
        to_a = (_log_cdf(y, a64 + h) - _log_cdf(y, a64 - h)) / (2 * h)
        slope = -to_a / _slope(y, a64, _log_cdf(y, a64))
        return None, (grad * slope.to(grad.dtype)).sum_to_size(a.shape)


def _log_cdf(y: Tensor, a: Tensor) -> Tensor:
    small = y < -30  # where F = xᵃ/Γ(a+1) to all digits
    inside = torch.special.gammainc(a, torch.where(small, torch.ones_like(y), y.exp()))
    return torch.where(small, a * y - torch.lgamma(a + 1), inside.log())


def _slope(y: Tensor, a: Tensor, log_cdf: Tensor) -> Tensor:
    """``∂ log F/∂y = x f(x)/F(x)``."""
    return torch.exp(a * y - y.exp() - torch.lgamma(a) - log_cdf)
