"""Exact Gaussian processes for tens of thousands of rows, by conjugate gradients instead of a factor.

No matrix is factored. With ``C = K + noise``, ``α = C⁻¹(y − m)`` and other products with ``C⁻¹`` come from
preconditioned conjugate gradients (:mod:`stratagp.linalg.conjugate`), which only multiply by ``K``: n² operations per
product, shared among processes. The evidence and its slope also need ``log |C|`` and ``tr C⁻¹ ∂C``, which are estimated
from random columns ``z ~ N(0, P)`` (Gardner et al. 2018; Wang et al. 2019):

    ∂ log p(y) = ½ αᵀ ∂C α − ½ E[(C⁻¹z)ᵀ ∂C (P⁻¹z)] + αᵀ ∂m.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.linalg.conjugate import log_quadratures
from stratagp.models.data_checks import check_data, check_points
from stratagp.models.iterative_posterior import IterativePosterior
from stratagp.models.observed import ObservedProcess
from stratagp.models.row_blocks import RowBlocks
from stratagp.models.solver import ROUGH, Solver
from stratagp.training.progress import log
from stratagp.types import NumbersLike, PointsLike

_USELESS = 0.95  # residual: that of zeros is 1, and anything near it predicts as if there were no data


class Estimate(NamedTuple):
    """A log evidence estimated from random columns, with the standard error of its log determinant."""

    value: float
    error: float


class IterativeGP(ObservedProcess):
    """The exact process for matrices too large to factor: everything by conjugate gradients.

    Arguments:
        kernel, mean, noise: as in :class:`~stratagp.ExactGP`; the noise must be above 0.
        tolerance: the residual ``|y − m − C α| / |y − m|`` that predictions must reach, in full precision. The error of
            a variance is the square of its residual, which is at most the root of this; it makes the variance too
            large, never too small, by no more than a hundredth of the least noise.
        rank: of the preconditioner.
        n_probes: the number of random columns that estimate traces and log determinants.
        most: the largest number of iterations of a solve.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 300, dtype=torch.float64)[:, None]
    >>> posterior = IterativeGP(k.RBF(), noise=1e-2).condition(x, x.sin().squeeze())
    >>> posterior.mean(torch.tensor([[1.0]], dtype=torch.float64)).item()  # sin 1 = 0.8415
    0.84...
    >>> posterior.solved_to < 1e-6
    True
    """

    def __init__(
        self,
        kernel: Any,
        mean: Any = None,
        noise: Any = 0.1,
        tolerance: float = 1e-6,
        rank: int = 300,
        n_probes: int = 16,
        most: int = 1000,
    ) -> None:
        super().__init__(kernel, mean, noise)
        if not tolerance > 0:
            raise InputError(f"tolerance must be positive, got {tolerance}")
        for name, value in (("rank", rank), ("n_probes", n_probes), ("most", most)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        self.tolerance, self.rank, self.n_probes, self.most = tolerance, rank, n_probes, most

    def fit(
        self,
        x: PointsLike,
        y: NumbersLike,
        noises: Callable[[], list[Tensor]] | None = None,
        steps: int = 10,
        rate: float = 0.1,
        penalty: Callable[[], Tensor] | None = None,
        generator: torch.Generator | None = None,
        progress: bool = False,
    ) -> list[Estimate]:
        """Climb the evidence of all rows by Adam, with shrinking steps; returns the estimate before each step.

        Each step solves for ``1 + n_probes`` columns. Start from values that are nearly right, such as those of an
        exact process on some of the rows: a few steps are then enough (Wang et al. 2019).

        Arguments:
            y: targets, ``n``, or ``n q`` for independent functions that share the kernel.
            noises: the noise variance of each row for each target, as a function of the parameters; ``self.noise`` for
                all by default.
            penalty: a term to add to the evidence, such as a log prior.
            generator: the source of random columns; by default a new one with seed 0.
        """
        x, y = check_data(self.kernel, x, y, several=True)
        y = y.reshape(len(y), -1)
        generator = generator or torch.Generator().manual_seed(0)
        moving = [p for p in self.parameters() if p.requires_grad]
        climber = torch.optim.Adam(moving, lr=rate, betas=(0.9, 0.9), maximize=True)
        history: list[Estimate] = []
        for step in range(steps):
            climber.zero_grad()
            levels = [self.noise] * y.shape[1] if noises is None else noises()
            _refuse_no_noise(*levels)
            history.append(self._climb(x, y, levels, generator, moving))
            if penalty is not None:
                penalty().backward()
            climber.param_groups[0]["lr"] = rate * (1 - step / steps)
            climber.step()
            if progress:
                log.info("step %d of %d: log evidence %.6g ± %.2g", step + 1, steps, *history[-1])
        climber.zero_grad()
        return history

    def blocks(self, x: PointsLike) -> RowBlocks:
        """``k(x, x)`` with the kernel's current values, for all targets observed at ``x``."""
        return RowBlocks(copy.deepcopy(self.kernel).requires_grad_(False), check_points(self.kernel, x))

    def evidence(
        self,
        x: PointsLike,
        y: NumbersLike,
        noise: NumbersLike | None = None,
        generator: torch.Generator | None = None,
        blocks: RowBlocks | None = None,
    ) -> Estimate:
        """``log p(y | x)``, estimated from random columns; ``blocks`` as in :meth:`condition`."""
        x, y, given = self._data(x, y, noise, several=False)
        generator = generator or torch.Generator().manual_seed(0)
        with torch.no_grad():
            residual = y - self.mean(x)
            return self._solved(self._solver(x, given.expand(len(y)), blocks), residual, generator)[0]

    def log_evidence(
        self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None, blocks: RowBlocks | None = None
    ) -> Float[Tensor, ""]:
        """``log p(y | x)``, estimated from fixed random columns, without a gradient (:meth:`fit` has one)."""
        return torch.tensor(self.evidence(x, y, noise, blocks=blocks).value, dtype=torch.float64)

    def condition(
        self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None, blocks: RowBlocks | None = None
    ) -> IterativePosterior:
        """The process given observations; warns if the tolerance was missed, raises if the solve failed.

        Arguments:
            blocks: the result of :meth:`blocks` for ``x``, if several targets share the matrix and its preconditioner.
        """
        x, y, given = self._data(x, y, noise, several=False)
        prior = copy.deepcopy(self).requires_grad_(False)
        with torch.no_grad():
            solver = prior._solver(x, given.detach().expand(len(y)), blocks)
            residual = y - prior.mean(x)
            alpha, reached, iterations = solver.refined(residual[:, None], self.tolerance)
        if not reached <= self.tolerance:
            self._tell(reached, iterations, float(given.detach().min()))
        posterior = IterativePosterior(prior, x, residual, solver.noise, alpha[:, 0], reached, iterations)
        vars(posterior)["solver"] = solver  # saves making it again
        return posterior

    def _tell(self, reached: float, iterations: int, noise: float) -> None:
        """Warn of a residual above the tolerance; raise if it makes predictions meaningless."""
        left = f"conjugate gradients left a relative residual of {reached:.1e} after {iterations} iterations"
        if not reached < _USELESS:
            raise InputError(
                f"{left}: with a noise variance of {noise:.1e} the matrix is too ill-conditioned. Raise the noise, or "
                "factor the matrix (ExactGP, inference='exact')"
            )
        warnings.warn(
            f"{left}, above tolerance={self.tolerance:.1e}: use more noise, or a larger rank or most in IterativeGP",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _data(
        self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None, several: bool = True
    ) -> tuple[Any, Tensor, Tensor]:
        x, y, given = super()._data(x, y, noise, several)
        _refuse_no_noise(given)
        return x, y, given

    def _solver(self, x: PointsLike, noise: Float[Tensor, " n"], blocks: RowBlocks | None = None) -> Solver:
        return Solver(blocks or RowBlocks(self.kernel, x), noise.detach(), self.rank, self.most)

    def _solved(
        self, solver: Solver, residual: Float[Tensor, " n"], generator: torch.Generator
    ) -> tuple[Estimate, Float[Tensor, "n s1"], Float[Tensor, "n s"]]:
        """The evidence; ``C⁻¹`` times the residual and random columns; and ``P⁻¹`` times these columns."""
        z = solver.near.draw(self.n_probes, generator)
        found = solver.solve(torch.cat([residual[:, None], z], 1), ROUGH)
        _warn_of_rest(float(found.residual.max()), found.iterations)
        near = solver.near.solve(z)
        logs = (z * near).sum(0) * log_quadratures(found.columns(1))
        determinant = solver.near.log_determinant() + logs.mean()
        value = -0.5 * (found.quadratic()[0] + determinant + len(residual) * math.log(2 * math.pi))
        error = 0.5 * float(logs.std()) / len(logs) ** 0.5 if len(logs) > 1 else math.nan
        return Estimate(float(value), error), found.x, near

    def _climb(
        self,
        x: PointsLike,
        y: Float[Tensor, "n q"],
        noises: list[Tensor],
        generator: torch.Generator,
        moving: list[Any],
    ) -> Estimate:
        """The evidence of all targets; adds its slope to the parameters' gradients."""
        blocks, estimates, sides, rest = RowBlocks(self.kernel, x), [], [], y.new_zeros(())
        mean = self.mean(x)
        for target, noise in zip(y.mT, noises, strict=True):
            levels = noise.expand(len(y))
            with torch.no_grad():
                solver = Solver(blocks, levels.detach(), self.rank, self.most)
                estimate, solved, near = self._solved(solver, target - mean, generator)
                left = torch.cat([solved[:, :1], -solved[:, 1:] / self.n_probes], 1)
                right = torch.cat([solved[:, :1], near], 1)  # so that ∂ log p = ½ Σ (left rightᵀ) ∘ ∂C + αᵀ ∂m
            estimates.append(estimate)
            sides.append((left, right))
            rest = rest + 0.5 * ((left * right).sum(1) * levels).sum() + (solved[:, 0] * mean).sum()
        _push(blocks, *(torch.cat(parts, 1) for parts in zip(*sides, strict=True)))
        for parameter in moving:
            own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = blocks.world.sum(own)
        if rest.requires_grad:
            rest.backward()
        return Estimate(sum(each.value for each in estimates), math.hypot(*(each.error for each in estimates)))


def _refuse_no_noise(*levels: Tensor) -> None:
    if not all(bool((level > 0).all()) for level in levels):
        raise InputError("noise must be above 0 for conjugate gradients: without noise, use ExactGP")


def _warn_of_rest(residual: float, iterations: int) -> None:
    """Warn if an evidence comes from unfinished solves."""
    if not residual <= 2 * ROUGH:  # the recurrence ends below ROUGH, up to rounding
        warnings.warn(
            f"conjugate gradients left a residual of {residual:.1e} after {iterations} iterations: the log evidence "
            "and its slope are rough; use more noise, or a larger rank or most in IterativeGP",
            ConvergenceWarning,
            stacklevel=4,
        )


def _push(blocks: RowBlocks, left: Float[Tensor, "n s"], right: Float[Tensor, "n s"]) -> None:
    """Add the slope of ``½ Σ (left rightᵀ) ∘ K`` to the gradients of parameters, by blocks of this process."""
    for rows in blocks.chunks():
        block = blocks.block(rows)
        if block.requires_grad:
            (0.5 * (block * (left[rows] @ right.mT)).sum()).backward()
