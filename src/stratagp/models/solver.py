"""Systems with the noisy covariance of many rows, by conjugate gradients and refinement."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg.conjugate import LowRankPlusDiagonal, Solution, conjugate_gradients
from stratagp.models.row_blocks import RowBlocks

ROUGH = 1e-3  # residual of a solve in training, and of one round of refinement
_ROUNDS = 5  # of refinement; each gains about three digits
_MARGIN = 100  # least ratio of the noise to the error of rounding the matrix to single precision


class Bounded(NamedTuple):
    """Columns ``x``, the residual ``b − C x``, and a bound on how much ``bᵀC⁻¹b`` exceeds :meth:`quadratic`."""

    b: Float[Tensor, "n s"]
    x: Float[Tensor, "n s"]
    left: Float[Tensor, "n s"]
    bound: Float[Tensor, " s"]
    iterations: int

    def quadratic(self) -> Float[Tensor, " s"]:
        """``bᵀC⁻¹b`` of each column, from below."""
        return (self.x * (self.b + self.left)).sum(0)


class Solver:
    """``C⁻¹ b`` for ``C = K + diag(noise)``.

    In single precision the rows of ``K`` are off by some ``√n`` roundings and need not form a positive definite matrix.
    They are used only if the noise is far above that; otherwise products are in double precision.

    Arguments:
        blocks: ``K``.
        noise: the noise variance of each row, positive.
        rank: of the preconditioner.
        most: the largest number of iterations.
    """

    def __init__(self, blocks: RowBlocks, noise: Float[Tensor, " n"], rank: int, most: int) -> None:
        self.blocks, self.noise, self.most = blocks, noise, most
        rounding = torch.finfo(torch.float32).eps * len(noise) ** 0.5 * float(blocks.kernel.diag(blocks.x).max())
        if blocks.world.from_first(float(noise.min()) < _MARGIN * rounding):
            blocks.refine()
        self.near = LowRankPlusDiagonal(blocks.pivoted(rank), noise)

    def solve(self, b: Float[Tensor, "n s"], tolerance: float, enough: float = math.inf) -> Solution:
        """Solve to a residual as the recurrence computes it, in the precision of the kept rows."""
        world = self.blocks.world
        return conjugate_gradients(
            self._product, b, self.near.solve, tolerance, self.most, enough, lambda flags: world.copy_first([flags])
        )

    def bounded(self, b: Float[Tensor, "n s"], tolerance: float, enough: float) -> Bounded:
        """Solve to a residual ``r`` in full precision with ``rᵀP⁻¹r ≤ enough``, refined like :meth:`refined`.

        The preconditioner's ``RᵀR`` leaves ``K − RᵀR`` without negative eigenvalues, so ``P ⪯ C``, and the quadratic
        form ``bᵀC⁻¹b`` is too small by ``rᵀC⁻¹r ≤ rᵀP⁻¹r``.
        """
        best, world = Bounded(b, torch.zeros_like(b), b, self._energy(b), 0), self.blocks.world
        for number in range(_ROUNDS if b.shape[1] else 0):
            found = self.solve(best.left, 1.0 if number else tolerance, enough)
            x, before = best.x + found.x, float(best.bound.max())
            left = b - self._exact(x)
            bound = self._energy(left)
            better = bound < best.bound
            world.copy_first([better])
            x, left = torch.where(better, x, best.x), torch.where(better, left, best.left)
            bound = torch.where(better, bound, best.bound)
            best = Bounded(b, x, left, bound, best.iterations + found.iterations)
            reached = float(best.bound.max())
            if world.from_first(reached <= enough or reached > 0.5 * before):
                break
        return best

    def refined(self, b: Float[Tensor, "n s"], tolerance: float) -> tuple[Float[Tensor, "n s"], float, int]:
        """Solve to a residual ``|b − C x| / |b|`` in full precision; returns solution, residual and iterations.

        Each round solves for the residual of the last (iterative refinement); one that makes it worse is dropped.
        """
        x, left, iterations, reached = torch.zeros_like(b), b, 0, math.inf
        for _ in range(_ROUNDS):
            found = self.solve(left, max(ROUGH, 0.5 * tolerance))
            new, iterations = x + found.x, iterations + found.iterations
            left = b - self._exact(new)
            before, now = reached, float((left.norm(dim=0) / b.norm(dim=0).clamp_min(1e-300)).max())
            if self.blocks.world.from_first(not now >= before):
                x, reached = new, now
            if self.blocks.world.from_first(reached <= tolerance or not reached <= 0.5 * before):
                break
        return x, reached, iterations

    def _energy(self, r: Float[Tensor, "n s"]) -> Float[Tensor, " s"]:
        return (r * self.near.solve(r)).sum(0)

    def _exact(self, x: Float[Tensor, "n s"]) -> Float[Tensor, "n s"]:
        return self.blocks.exact(x).addcmul_(self.noise[:, None], x)

    def _product(self, v: Float[Tensor, "n s"]) -> Float[Tensor, "n s"]:
        return (self.blocks @ v).addcmul_(self.noise[:, None], v)
