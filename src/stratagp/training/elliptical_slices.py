"""Elliptical slice sampling (Murray, Adams and MacKay 2010): draws of latent values that have a Gaussian prior.

For ``f ~ N(0, K)`` and any likelihood, a step draws ``g ~ N(0, K)`` and a height below the likelihood of ``f``, and
looks on the ellipse ``f cos θ + g sin θ`` for a point above that height, in a bracket that shrinks towards ``θ = 0``.
There is nothing to set and no step is rejected. Values are whitened, ``f = L v`` with ``K = L Lᵀ``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError

LogLikelihood = Callable[[Tensor], Tensor]


def elliptical_slices(
    log_likelihood: LogLikelihood,
    root: Float[Tensor, "*q n n"],
    start: Float[Tensor, "c q n"],
    n_samples: int,
    n_warmup: int,
    thin: int = 1,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "c s q n"]:
    """Draws of whitened values from several chains, which step together.

    Arguments:
        log_likelihood: of values ``c q n``, one number for each chain.
        root: a factor ``L`` of the prior covariance of all functions, or of each.
        start: whitened values of each chain.
        n_samples: draws of each chain that are kept.
        n_warmup: steps before the first of them.
        thin: steps from one to the next.

    >>> root, start = torch.ones(1, 1, dtype=torch.float64), torch.zeros(50, 1, 1, dtype=torch.float64)
    >>> generator = torch.Generator().manual_seed(0)
    >>> drawn = elliptical_slices(lambda f: -0.5 * (f - 2).square().sum((1, 2)), root, start, 200, 20, 1, generator)
    >>> round(drawn.mean().item(), 1), round(drawn.var().item(), 1)  # N(0, 1) N(2; f, 1) is N(1, ½)
    (1.0, 0.5)
    """
    for name, count, least in (("n_samples", n_samples, 1), ("n_warmup", n_warmup, 0), ("thin", thin, 1)):
        if count < least:
            raise InputError(f"{name} must be at least {least}, got {count}")
    v, kept = start, []
    with torch.no_grad():
        f = through(root, v)
        level = log_likelihood(f)
        if not bool(level.isfinite().all()):
            raise InputError("log_likelihood is not finite at the start: check the data")
        for step in range(1, n_warmup + n_samples * thin + 1):
            v, f, level = _step(log_likelihood, root, v, f, level, generator)
            if step > n_warmup and (step - n_warmup) % thin == 0:
                kept.append(v)
    return torch.stack(kept, 1)


def through(root: Float[Tensor, "*q n n"], v: Float[Tensor, "*c q n"]) -> Float[Tensor, "*c q n"]:
    """``L v`` of each function."""
    if root.dim() == 2:
        return v @ root.mT
    return torch.einsum("qnm,...qm->...qn", root, v)


def _step(
    log_likelihood: LogLikelihood, root: Tensor, v: Tensor, f: Tensor, level: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The next values of all chains, whitened and not, and their log likelihood."""
    other = torch.randn(v.shape, generator=generator, dtype=v.dtype).to(v)
    across = through(root, other)
    first, second = torch.rand(2, len(v), generator=generator, dtype=v.dtype).to(v)
    floor, angle = level + first.log(), 2 * math.pi * second
    low, high = angle - 2 * math.pi, angle
    waiting = torch.ones(len(v), dtype=torch.bool, device=v.device)
    while True:
        cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
        proposed = f * cos + across * sin
        found = log_likelihood(proposed)
        waiting = waiting & ~(found > floor) & (high > low)
        if not bool(waiting.any()):
            return v * cos + other * sin, proposed, found
        low, high = torch.where(waiting & (angle < 0), angle, low), torch.where(waiting & (angle >= 0), angle, high)
        again = low + (high - low) * torch.rand(len(v), generator=generator, dtype=v.dtype).to(v)
        angle = torch.where(waiting, again, angle)
