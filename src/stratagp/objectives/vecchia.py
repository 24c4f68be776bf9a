"""Vecchia's approximation: the density of all rows as a product of conditionals on a few rows before each.

    log p(y) ≈ Σᵢ log p(yᵢ | y_{N(i)}),    N(i) ⊂ {1 … i − 1},  |N(i)| ≤ m

It is the density of a process too, so it can be compared and maximised like the evidence, and it is the evidence where
``m = n − 1`` (Vecchia 1988; Katzfuss and Guinness 2021). The sum over some rows, chosen at random and multiplied by
``n`` over their number, is an unbiased estimate. Where ``N(i)`` may hold later rows, the sum is the leave-one-out
density, from neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stratagp.kernels import Kernel, OnColumns, Product, Sum
from stratagp.kernels.stationary.scaled_distance import Stationary
from stratagp.linalg import cholesky
from stratagp.linalg.conditional_density import last_given_others
from stratagp.linalg.once import first_derivative_only
from stratagp.objectives.evidence import CovarianceOf

_CHUNK = 2**17  # numbers of the covariances that are held at once


class Conditionals(NamedTuple):
    """Rows, the rows that each is conditioned on (−1 where there are fewer), and how many rows there are in all."""

    rows: Int[Tensor, " b"]
    given: Int[Tensor, "b m"]
    total: int

    def chunks(self) -> Iterator[Conditionals]:
        """Some conditionals after others."""
        step = max(1, _CHUNK // (self.given.shape[1] + 1) ** 2)
        for start in range(0, len(self.rows), step):
            yield Conditionals(self.rows[start : start + step], self.given[start : start + step], self.total)

    def nearest(self, most: int) -> Conditionals:
        """The same on at most so many of the rows before, the nearest."""
        return Conditionals(self.rows, self.given[:, :most].contiguous(), self.total)

    def outdated(self) -> Conditionals:
        """The same, marked as those of rows that have changed since: a total of 0."""
        return Conditionals(self.rows, self.given, 0)

    @property
    def places(self) -> Int[Tensor, "b k"]:
        """The rows of each conditional, its own as the last."""
        return torch.cat([self.given, self.rows[:, None]], 1)

    def compact(self) -> tuple[Int[Tensor, " u"], Conditionals]:
        """The rows that take part, and the same conditionals among these alone.

        >>> Conditionals(torch.tensor([7]), torch.tensor([[5, -1]]), 9).compact()
        (tensor([5, 7]), Conditionals(rows=tensor([1]), given=tensor([[ 0, -1]]), total=9))
        """
        used = self.places[self.places >= 0].unique()
        given = torch.searchsorted(used, self.given).masked_fill(self.given < 0, -1)
        return used, Conditionals(torch.searchsorted(used, self.rows), given, self.total)


def log_conditionals(
    kernel: Kernel,
    noise: Float[Tensor, ""] | Float[Tensor, " n"],
    x: Float[Tensor, "n d"],
    residual: Float[Tensor, " n"],
    sets: Conditionals,
) -> Float[Tensor, " b"]:
    """``log p(yᵢ | y_{N(i)})`` for each of the rows; ``residual`` is ``y − m(x)``.

    >>> from stratagp import kernels as k
    >>> x, r = torch.zeros(2, 1, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    >>> sets = Conditionals(torch.tensor([0, 1]), torch.tensor([[-1], [0]]), 2)
    >>> log_conditionals(k.RBF(), torch.tensor(1.0), x, r, sets).tolist()  # log N(0; 0, 2) and log N(0; 0, 1.5)
    [-1.2655..., -1.1216...]
    """
    at = sets.places.clamp_min(0)
    return _log_conditionals(kernel, noise[at] if noise.dim() else noise, x[at], residual[at], sets.places < 0)


def _log_conditionals(
    kernel: Kernel, level: Tensor, points: Tensor, residual: Tensor, missing: Bool[Tensor, "b k"]
) -> Float[Tensor, " b"]:
    """The conditionals of points ``b k d`` with their noise and residuals ``b k``."""
    observed = noisy(local_covariance(kernel, points), level.expand(missing.shape), missing)
    return last_given_others(residual.masked_fill(missing, 0.0), observed, CovarianceOf(kernel))


def noisy(
    covariance: Float[Tensor, "b k k"], level: Float[Tensor, "b k"], missing: Bool[Tensor, "b k"]
) -> Float[Tensor, "b k k"]:
    """``covariance + diag(level)``; a missing point becomes a variable of its own, which tells nothing of others."""
    if bool(missing.any()):
        covariance = covariance.masked_fill(missing[:, :, None] | missing[:, None, :], 0.0)
        level = level.masked_fill(missing, 1.0)
    return covariance + torch.diag_embed(level)


class LocalRegression(NamedTuple):
    """Points given their neighbours: weights ``a`` of these, and the variance that is left."""

    weights: Float[Tensor, "b m"]
    var: Float[Tensor, " b"]


def local_regression(
    kernel: Kernel,
    noise: Float[Tensor, " n"],
    x: Float[Tensor, "n d"],
    z: Float[Tensor, "b d"],
    given: Int[Tensor, "b m"],
) -> LocalRegression:
    """``a = (K_N + noise)⁻¹ k(N, z)`` and ``k(z, z) − aᵀ k(N, z)`` for each point and the rows ``N`` given with it.

    >>> from stratagp import kernels as k
    >>> x = torch.zeros(2, 1, dtype=torch.float64)
    >>> found = local_regression(k.RBF(), torch.ones(2, dtype=torch.float64), x, x[:1], torch.tensor([[0, 1]]))
    >>> found.weights, found.var
    (tensor([[0.3333, 0.3333]], ...), tensor([0.3333], ...))
    """
    missing, at = given < 0, given.clamp_min(0)
    every = local_covariance(kernel, torch.cat([x[at], z[:, None]], 1))
    cross = every[:, :-1, -1].masked_fill(missing, 0.0)
    factor = cholesky(noisy(every[:, :-1, :-1], noise[at], missing), CovarianceOf(kernel))
    weights = torch.cholesky_solve(cross[..., None], factor)[..., 0]
    return LocalRegression(weights, (every[:, -1, -1] - (weights * cross).sum(1)).clamp_min(0))


def vecchia(
    kernel: Kernel,
    noise: Float[Tensor, ""] | Float[Tensor, " n"],
    x: Float[Tensor, "n d"],
    residual: Float[Tensor, " n"],
    sets: Conditionals,
) -> Float[Tensor, ""]:
    """The sum of all conditionals, estimated from those of ``sets``: the score of the hyperparameters.

    Values and gradients of some conditionals after others are added up, so memory does not grow with their number.
    First derivatives only, and none with respect to ``x``.
    """
    sums = _Sum.apply(kernel, x, sets, torch.is_grad_enabled(), noise, residual, *kernel.parameters())
    return sums * (sets.total / len(sets.rows))


class _Sum(torch.autograd.Function):
    """``Σᵢ log p(yᵢ | y_{N(i)})``, whose gradient is taken chunk by chunk in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        kernel: Kernel,
        x: Tensor,
        sets: Conditionals,
        gradients: bool,
        noise: Tensor,
        residual: Tensor,
        *own: Tensor,
    ) -> Tensor:
        needs = [gradients and need for need in ctx.needs_input_grad[4:]]
        total, slopes = residual.new_zeros(()), [torch.zeros_like(value) for value in (noise, residual, *own)]
        wanted = [i for i, need in enumerate(needs) if need]
        for chunk in sets.chunks():
            at = chunk.places.clamp_min(0)
            parts = [value[at] if value.dim() else value.detach() for value in (noise, residual)]
            inputs = [part.requires_grad_(need) for part, need in zip(parts, needs, strict=False)]
            leaves = [(*inputs, *own)[i] for i in wanted]
            with torch.set_grad_enabled(bool(wanted)):
                value = _log_conditionals(kernel, inputs[0], x[at], inputs[1], chunk.places < 0).sum()
                found = torch.autograd.grad(value, leaves, allow_unused=True) if wanted else ()
            total += value.detach()
            for i, slope in zip(wanted, found, strict=True):
                if slope is not None:
                    _add(slopes[i], at if i < len(inputs) else None, slope)
        ctx.save_for_backward(*slopes)
        return total

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pairs = zip(ctx.saved_tensors, ctx.needs_input_grad[4:], strict=True)
        return None, None, None, None, *(grad * slope if need else None for slope, need in pairs)


def _add(slopes: Tensor, at: Int[Tensor, "b k"] | None, found: Tensor) -> None:
    """Add what was found of some rows, or of a value as a whole."""
    if slopes.dim() and at is not None:
        slopes.index_add_(0, at.flatten(), found.flatten())
    else:
        slopes += found


def local_covariance(kernel: Kernel, points: Float[Tensor, "b k d"]) -> Float[Tensor, "b k k"]:
    """``k(x, x)`` of each of ``b`` small sets of points.

    Distances of a stationary kernel are those from the first point of the set, the nearest to the last: no digits are
    lost where points are far from the origin, or where the last is far from all others.
    """
    if isinstance(kernel, OnColumns):
        return local_covariance(kernel.base, kernel.take(points))
    if isinstance(kernel, (Sum, Product)):
        joined = torch.add if isinstance(kernel, Sum) else torch.mul
        return reduce(joined, [local_covariance(part, points) for part in kernel.parts])
    if not isinstance(kernel, Stationary):
        return kernel(points)
    scaled = (points - points[:, :1]) / kernel.lengthscale
    half = 0.5 * scaled.square().sum(-1, keepdim=True)
    squares = 2 * (half + half.mT - scaled @ scaled.mT).clamp_min(0)
    squares.diagonal(dim1=-2, dim2=-1).zero_()  # what rounding left there would be noise to a rough kernel
    return kernel.variance * kernel.profile(squares)
