"""Tools for surrogate models: predictions at uncertain inputs, averaged effects, where to sample next."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp import means
from stratagp.errors import InputError, NumericalWarning, UnsupportedError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.linalg.quasi_random import quasi_normal
from stratagp.models.data_checks import refuse_missing
from stratagp.models.exact import ExactPosterior
from stratagp.models.memory import check_memory
from stratagp.types import Gaussian, PointsLike

_BLOCK = 256  # data rows in one half of a block of ψ₂
_CHUNK = 2**22  # entries of ψ₂, or of sampled covariances, held at once
_TOLERANCE = 0.01  # the part of a variance that may be rounding in the closed form


def predict_uncertain(posterior: ExactPosterior, q: Gaussian, method: str = "auto", n_samples: int = 1024) -> Gaussian:
    """Mean and variance of ``f(x)`` at each row of ``x ~ N(q.mean, diag q.var)``: uncertain ``f`` and ``x``.

    By the law of total variance, with the kernel's expectations and a constant prior mean ``m``,

        mean = m + ψ₁α,   var = [ψ₀ − tr C⁻¹Ψ₂] + [αᵀΨ₂α − (ψ₁α)²]   (E var f + var E f).

    Arguments:
        posterior: an exact Gaussian process given data.
        q: the inputs, ``n d`` each; a variance of zero means a known input.
        method: ``exact`` is the closed form; ``samples``, for any kernel and mean, averages over quasi-random normal
            inputs, the same in each call; ``auto`` uses the closed form if there is one and it keeps enough digits:
            with very little noise C⁻¹ is huge and digits are lost.
        n_samples: the number of inputs for each row with ``samples``; powers of two work best.

    >>> from stratagp import ExactGP, kernels as k
    >>> x = torch.linspace(-3, 3, 20, dtype=torch.float64)[:, None]
    >>> posterior = ExactGP(k.RBF(), noise=1e-4).condition(x, x.squeeze().sin())
    >>> q = Gaussian(torch.zeros(1, 1, dtype=torch.float64), torch.full((1, 1), 0.04, dtype=torch.float64))
    >>> predict_uncertain(posterior, q).var.item()  # the variance of sin x is (1 − exp(−0.08))/2 = 0.0384
    0.0384...
    """
    if method not in ("auto", "exact", "samples"):
        raise InputError(f'method must be "auto", "exact" or "samples", got {method!r}')
    if n_samples < 2:
        raise InputError(f"n_samples must be at least 2, got {n_samples}")
    q = _check_inputs(posterior, q)
    with torch.no_grad():
        return (
            _sampled_moments(posterior, q, n_samples)
            if method == "samples"
            else _moments(posterior, q, method, n_samples)
        )


def partial_dependence(posterior: Any, columns: Any, grid: Any, x: PointsLike, max_rows: int = 200) -> Gaussian:
    """The function of some columns after averaging over the others in the rows of ``x``.

        g(v) = 1/n Σᵢ f(xᵢ with xᵢ[columns] = v),   var g(v) = 1/n² Σᵢⱼ cov(f(·ᵢ), f(·ⱼ))

    ``g`` is linear in ``f``, so its mean and variance are exact, for the rows used.

    Arguments:
        posterior: any process with a joint covariance.
        columns: the index of a column, or a list of indices.
        grid: the values ``v``: ``g`` numbers for one column, ``g c`` for several.
        x: points ``n d`` with the other columns' values.
        max_rows: the most rows of ``x`` to use, the same in each call.

    >>> from stratagp import ExactGP, kernels as k
    >>> x = torch.rand(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> posterior = ExactGP(k.RBF(), noise=1e-4).condition(x, 3 * x[:, 0] + x[:, 1] - x[:, 1].mean())
    >>> partial_dependence(posterior, 0, [0.2, 0.8], x).mean.squeeze().round(decimals=2)  # 3 v
    tensor([0.6000, 2.4000], dtype=torch.float64)
    """
    x, chosen, values = _check_dependence(columns, grid, x)
    if max_rows < 1:
        raise InputError(f"max_rows must be at least 1, got {max_rows}")
    if len(x) > max_rows:
        x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:max_rows]]
    with torch.no_grad():
        moments = [_average(posterior, _replace(x, chosen, value)) for value in values]
    return Gaussian(*(torch.stack(part)[:, None] for part in zip(*moments, strict=True)))


def expected_improvement(
    mean: Float[Tensor, "*n"], std: Float[Tensor, "*n"], best: float | Tensor, maximise: bool = False
) -> Float[Tensor, "*n"]:
    """The expected improvement of ``f ~ N(mean, std²)`` below ``best`` (above it, to maximise), never negative.

        EI = E max(best − f, 0) = std · (u Φ(u) + φ(u)),   u = (best − mean)/std

    Differentiable, and accurate many standard deviations away, so that a search can climb it. If ``std`` is zero
    it is ``max(best − mean, 0)``.

    >>> expected_improvement(torch.tensor([0.0]), torch.tensor([1.0]), best=0.0)  # φ(0)
    tensor([0.3989])
    """
    if bool((std < 0).any()):
        raise InputError("std must not be negative")
    gain = mean - best if maximise else best - mean
    known = std == 0
    u = gain / torch.where(known, 1.0, std)
    tail = u.clamp_max(0)  # φ(u)(1 + uΦ/φ) keeps its digits where Φ is tiny
    phi = torch.exp(-0.5 * u.square()) / math.sqrt(2 * math.pi)
    far = phi * (1 + tail * math.sqrt(math.pi / 2) * torch.special.erfcx(-tail / math.sqrt(2)))
    near = phi + u * torch.special.ndtr(u)
    return torch.where(known, gain.clamp_min(0), std * torch.where(u < -1, far, near))


# --- uncertain inputs ---


def _check_inputs(posterior: ExactPosterior, q: Gaussian) -> Gaussian:
    kernel = posterior.prior.kernel
    if not kernel.takes_tensors:
        raise InputError(f"{type(kernel).__name__} acts on objects, but uncertain inputs must be numbers")
    mean, var = kernel._points(q.mean, "q.mean"), kernel._points(q.var, "q.var")
    for values, name in ((mean, "q.mean"), (var, "q.var")):
        refuse_missing(values, name)
    if mean.dim() != 2 or mean.shape[1] != posterior.x.shape[1] or var.shape != mean.shape:
        raise InputError(
            f"q needs a mean and a variance for each of {posterior.x.shape[1]} columns, got shapes "
            f"{tuple(mean.shape)} and {tuple(var.shape)}"
        )
    if bool((var < 0).any()):
        raise InputError("q.var must not be negative; use 0 for a known input")
    return Gaussian(mean, var)


def _moments(posterior: ExactPosterior, q: Gaussian, method: str, n_samples: int) -> Gaussian:
    """The closed form; with ``auto``, samples for kernels without one and for variances spoilt by rounding."""
    try:
        belief, rounding = _exact_moments(posterior, q)
    except UnsupportedError:
        if method == "exact":
            raise
        return _sampled_moments(posterior, q, n_samples)
    spoilt = (rounding > _TOLERANCE * belief.var).squeeze(-1)
    if not spoilt.any():
        return belief
    if method == "exact":
        warnings.warn(
            f"the noise is so small that rounding may change the variance of {int(spoilt.sum())} rows by more than "
            f'{_TOLERANCE:.0%}: use method="samples" or a larger noise',
            NumericalWarning,
            stacklevel=3,
        )
        return belief
    belief.var[spoilt] = _sampled_moments(posterior, Gaussian(q.mean[spoilt], q.var[spoilt]), n_samples).var
    return belief


def _exact_moments(posterior: ExactPosterior, q: Gaussian) -> tuple[Gaussian, Float[Tensor, "n 1"]]:
    """The moments in closed form, and roughly how much of the variances may be rounding."""
    prior = posterior.prior
    if not isinstance(prior.mean, (means.Zero, means.Constant)):
        raise UnsupportedError('a varying mean has no closed-form expectation here: use method="samples"')
    check_memory(len(posterior.alpha), "integrating over uncertain inputs", 4)
    inverse = torch.cholesky_inverse(posterior.factor.to(posterior.alpha))
    weights = torch.stack([inverse, posterior.alpha[:, None] * posterior.alpha])

    def moments(rows: Gaussian) -> Tensor:
        first = prior.kernel.psi1(rows, posterior.x) @ posterior.alpha
        explained, squared, size = _weighted_psi2(prior.kernel, rows, posterior.x, weights).unbind(-1)
        doubt = (prior.kernel.psi0(rows) - explained).clamp_min(0)
        var = doubt + (squared - first.square()).clamp_min(0)
        return torch.stack([prior.mean(rows.mean) + first, var, torch.finfo(size.dtype).eps * size], 1)

    both = _by_rows(q, _CHUNK // min(len(posterior.alpha), 2 * _BLOCK) ** 2, moments)
    return Gaussian(both[:, :1], both[:, 1:2]), both[:, 2:]


def _weighted_psi2(
    kernel: Kernel, q: Gaussian, z: Float[Tensor, "n d"], weights: Float[Tensor, "w n n"]
) -> Float[Tensor, "r w+1"]:
    """``Σⱼₖ weightsⱼₖ Ψ₂ⱼₖ``, followed by the same sum of absolute values, which bounds its rounding error.

    Works by pairs of blocks of data rows, so that ψ₂ needs no ``n × n`` for a row of ``q``. Each block meets itself in
    as many pairs as there are other blocks, and is weighted down accordingly.
    """
    n = len(z)
    blocks = torch.arange(n, device=z.device).split(min(_BLOCK, (n + 1) // 2))
    label = torch.arange(n, device=z.device) // len(blocks[0])
    weights = torch.where(label[:, None] == label, weights / max(1, len(blocks) - 1), weights)
    total = q.mean.new_zeros(len(q.mean), len(weights) + 1)
    for pair in combinations(blocks, min(2, len(blocks))):
        index = torch.cat(pair)
        psi2, part = kernel.psi2(q, z[index]).flatten(1), weights[:, index[:, None], index].flatten(1)
        total += torch.cat([psi2 @ part.mT, psi2.abs() @ part.abs().sum(0)[:, None]], 1)
    return total


def _sampled_moments(posterior: ExactPosterior, q: Gaussian, n_samples: int) -> Gaussian:
    noise = quasi_normal(n_samples, q.mean.shape[1]).to(q.mean)

    def moments(rows: Gaussian) -> Tensor:
        points = rows.mean[:, None] + rows.var.sqrt()[:, None] * noise
        belief = posterior.marginals(points.flatten(0, 1))
        mean, var = belief.mean.reshape(-1, n_samples), belief.var.reshape(-1, n_samples)
        return torch.stack([mean.mean(1), var.mean(1) + mean.var(1, correction=0)], 1)

    both = _by_rows(q, _CHUNK // (n_samples * q.mean.shape[1]), moments)
    return Gaussian(both[:, :1], both[:, 1:])


def _by_rows(q: Gaussian, step: int, moments: Callable[[Gaussian], Tensor]) -> Float[Tensor, "n _"]:
    step = max(1, step)
    parts = zip(q.mean.split(step), q.var.split(step), strict=True)
    return torch.cat([moments(Gaussian(*part)) for part in parts])


# --- partial dependence ---


def _check_dependence(columns: Any, grid: Any, x: PointsLike) -> tuple[Tensor, list[int], Float[Tensor, "g c"]]:
    x, values = as_tensor(x, "x").to(torch.float64), as_tensor(grid, "grid").to(torch.float64)
    if x.dim() != 2 or not len(x):
        raise InputError(f"x must have shape (n, d) with n ≥ 1, one point in each row, got {tuple(x.shape)}")
    chosen = [columns] if isinstance(columns, int) else list(columns)
    known = range(-x.shape[1], x.shape[1])
    if not chosen or not all(isinstance(c, int) and c in known for c in chosen):
        raise InputError(f"columns must be indices of the {x.shape[1]} columns of x, got {columns!r}")
    values = values[:, None] if values.dim() == 1 and len(chosen) == 1 else values
    if values.dim() != 2 or values.shape[1] != len(chosen) or not len(values):
        raise InputError(
            f"each row of grid must have a value for each of {len(chosen)} columns, got shape {tuple(values.shape)}"
        )
    for given, name in ((x, "x"), (values, "grid")):
        refuse_missing(given, name)
    return x, chosen, values


def _replace(x: Float[Tensor, "n d"], columns: list[int], value: Float[Tensor, " c"]) -> Float[Tensor, "n d"]:
    x = x.clone()
    x[:, columns] = value
    return x


def _average(posterior: Any, x: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
    return posterior.mean(x).mean(), posterior.covariance(x).mean().clamp_min(0)
