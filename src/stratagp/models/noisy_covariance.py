"""The covariance of many observations, and its factor in one n × n buffer.

Up to :data:`DOUBLE_ROWS` rows the factor is in double precision. Above, or where memory is short, it is in single
precision. What its first rows explain is computed in double precision: numbers are largest there, and most rounding
would come from them. Rows are in random order, so that the first ones tell of all the others.

Solutions ``x`` of ``C x = b`` are refined in double precision, by ``r = b − C x`` from blocks of the kernel. Two bounds
tell what is left. With the weights ``w = C⁻¹k`` of a prediction, its variance ``v`` holds the noise that they let
through, ``v ≥ wᵀ diag(noise) w``, and therefore

    |mean − exact| = |wᵀr| ≤ |r| √(v / noise):      less than |r| / √noise deviations of a new observation,
    xᵀ(b + r) ≤ bᵀC⁻¹b ≤ xᵀ(b + r) + |r|² / noise.

The second gives the variances at a few points in double precision, with which those of the factor are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import NotPositiveDefiniteError
from stratagp.kernels import Kernel
from stratagp.linalg import blocked
from stratagp.linalg.cholesky import cholesky, jitter_steps, warn_jitter
from stratagp.models.memory import check_memory, fits
from stratagp.objectives.evidence import CovarianceOf
from stratagp.training.progress import meter

LARGE_ROWS = 5000  # above which a covariance is factored in place
DOUBLE_ROWS = 20_000  # up to which the factor is in double precision, if memory allows
_HEAD = 512  # first rows of a factor in single precision, whose products are in double precision
_CHUNK = 2**23  # entries of the kernel that are computed at once
_ROUNDS = 20  # of refinement at most; each must halve the residual at least
_MEAN_ERROR = 1e-5  # that is allowed, in deviations of a new observation
_VARIANCE_ERROR = 1e-4  # that is allowed, in variances of a new observation
_CHECKED = 16  # points whose variance is compared
_ROOM = 1.1  # memory that is asked for, in matrices


@dataclass(frozen=True)
class NoisyCovariance:
    """``C = k(x, x) + diag(noise)``, as something to multiply by and to factor.

    Arguments:
        kernel: the covariance function.
        x: the points, ``n d``; a list of objects can only be solved for.
        noise: the noise variance of each row.

    >>> from stratagp import kernels as k
    >>> x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> NoisyCovariance(k.Linear(), x, torch.ones(2)) @ torch.tensor([[2.0], [3.0]], dtype=torch.float64)
    tensor([[2.],
            [6.]], dtype=torch.float64)
    """

    kernel: Kernel
    x: Any = field(repr=False)
    noise: Float[Tensor, " n"] = field(repr=False)

    def __matmul__(self, v: Float[Tensor, "n s"]) -> Float[Tensor, "n s"]:
        """``C v``, from blocks of the upper triangle."""
        found = self.noise[:, None] * v
        for rows, strip in self._strips():
            found[rows] += strip @ v[rows.start :]
            found[rows.stop :] += strip[:, len(strip) :].mT @ v[rows]
        return found

    def factor(
        self, b: Float[Tensor, "n q"], progress: bool = False
    ) -> tuple[Float[Tensor, "n n"], Float[Tensor, "n q"]]:
        """``L`` with ``L Lᵀ = C``, and ``C⁻¹b`` in double precision.

        Raises:
            NotPositiveDefiniteError: if no precision that memory allows is good enough.
        """
        check_memory(len(self.x), "conditioning", _ROOM, 4)
        double = fits(len(self.x), _ROOM, 8)
        if double and len(self.x) <= DOUBLE_ROWS:
            return self.in_double(b, progress)
        try:
            return self.in_single(b, progress)
        except NotPositiveDefiniteError:
            if not double:
                raise
        return self.in_double(b, progress)

    def in_double(
        self, b: Float[Tensor, "n q"], progress: bool = False
    ) -> tuple[Float[Tensor, "n n"], Float[Tensor, "n q"]]:
        """Factor and solution in double precision, by the usual policy of jitter."""
        level = float(self.kernel.diag(self.x).mean())
        for relative in (0.0, *jitter_steps(torch.float64)):
            u = self._empty(torch.float64)
            for rows, strip in self._strips():
                u[rows, rows.start :] = strip
            u.diagonal().add_(self.noise + relative * level)
            if _factored(u, progress):
                if relative:
                    warn_jitter(CovarianceOf(self.kernel), relative)
                return u.mT, blocked.solve(u, b)
            del u  # before the next one is made
        raise NotPositiveDefiniteError(
            f"{CovarianceOf(self.kernel)} of {len(b):,} rows is not positive definite, even with jitter: give the "
            "model noise, or take inference='vecchia'"
        )

    def in_single(
        self, b: Float[Tensor, "n q"], progress: bool = False
    ) -> tuple[Float[Tensor, "n n"], Float[Tensor, "n q"]]:
        """The factor in single precision and the refined solution, if both are good enough."""
        if not bool((self.noise > 0).all()):
            raise self._refusal("some rows have no noise, which needs double precision")
        u = self._empty(torch.float32)
        self._fill_single(u)
        if not _factored(u[_HEAD:, _HEAD:], progress):
            raise self._refusal("it is not positive definite in single precision")
        return u.mT, self._checked(u.mT, b)

    def solve(self, factor: Float[Tensor, "n n"], b: Float[Tensor, "n s"]) -> Float[Tensor, "n s"]:
        """``C⁻¹b`` by a factor of either precision, good enough for means."""
        if factor.dtype == b.dtype:
            return blocked.solve(factor.mT, b)
        return self._refined(factor.mT, b, (_MEAN_ERROR * self.noise.min().sqrt()).expand(b.shape[1]))[0]

    def whiten(self, factor: Float[Tensor, "n n"], cross: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
        """``L⁻¹ k``; by a factor in single precision, its first rows are those in double precision."""
        if factor.dtype == cross.dtype:
            return torch.linalg.solve_triangular(factor, cross, upper=False)
        first = torch.linalg.solve_triangular(self._head[:, :_HEAD].mT, cross[:_HEAD], upper=False)
        rest = cross[_HEAD:] - self._head[:, _HEAD:].mT @ first
        below = torch.cat([torch.zeros_like(first), rest]).to(factor)  # a part of the factor alone would be copied
        return torch.cat([first, torch.linalg.solve_triangular(factor, below, upper=False)[_HEAD:].to(cross)])

    def _empty(self, dtype: torch.dtype) -> Float[Tensor, "n n"]:
        return torch.zeros(len(self.x), len(self.x), dtype=dtype, device=self.x.device)

    def _strips(self, first: int = 0) -> Iterator[tuple[slice, Float[Tensor, "r c"]]]:
        """Some rows of ``k(x, x)`` after others from the ``first`` on, with the columns from their own first on."""
        n = len(self.x)
        with torch.no_grad():
            for start in range(first, n, max(1, _CHUNK // n)):
                rows = slice(start, min(n, start + max(1, _CHUNK // n)))
                yield rows, self.kernel(self.x[rows], self.x[start:])

    @cached_property
    def _head(self) -> Float[Tensor, "h n"]:
        """The first rows of the factor ``U`` in double precision; raises if they do not exist."""
        with torch.no_grad():
            head = self.kernel(self.x[:_HEAD], self.x)
        head.diagonal().add_(self.noise[:_HEAD])
        lower = cholesky(head[:, :_HEAD], CovarianceOf(self.kernel))
        return torch.linalg.solve_triangular(lower, head, upper=False)

    def _fill_single(self, u: Float[Tensor, "n n"]) -> None:
        """Fill ``u`` with the first rows of the factor, and below with what these leave unexplained."""
        u[:_HEAD] = self._head
        u[:_HEAD, :_HEAD].triu_()
        for rows, strip in self._strips(_HEAD):
            strip.addmm_(self._head[:, rows].mT, self._head[:, rows.start :], alpha=-1)
            strip.diagonal().add_(self.noise[rows])
            u[rows, rows.start :] = strip

    def _checked(self, factor: Float[Tensor, "n n"], b: Float[Tensor, "n q"]) -> Float[Tensor, "n q"]:
        """``C⁻¹b``, refined; compares variances half-way between some rows with those in double precision."""
        q, noise = b.shape[1], self.noise.min()
        with torch.no_grad():
            between = 0.5 * (self.x[-_CHECKED:] + self.x[-2 * _CHECKED : -_CHECKED])
            cross, own = self.kernel(self.x, between), self.kernel.diag(between)
        means = (_MEAN_ERROR * noise.sqrt()).expand(q)
        variances = ((0.1 * _VARIANCE_ERROR) ** 0.5 * noise).expand(cross.shape[1])
        x, left = self._refined(factor.mT, torch.cat([b, cross], 1), torch.cat([means, variances]))
        exact = own - (x[:, q:] * (cross + left[:, q:])).sum(0)
        gap = (own - self.whiten(factor, cross).square().sum(0) - exact).abs() + left[:, q:].square().sum(0) / noise
        error = float((gap / (exact + noise)).max())
        if not error <= _VARIANCE_ERROR:
            raise self._refusal(f"single precision makes variances wrong by {error:.0e} of their size")
        return x[:, :q].clone()

    def _refined(
        self, u: Float[Tensor, "n n"], b: Float[Tensor, "n s"], tolerance: Float[Tensor, " s"]
    ) -> tuple[Float[Tensor, "n s"], Float[Tensor, "n s"]]:
        """Columns ``x`` and ``r = b − C x``, refined until ``|r| ≤ tolerance`` in each column."""
        x, left, before = torch.zeros_like(b), b, b.norm(dim=0)
        for _ in range(_ROUNDS):
            x = x + blocked.solve(u, left.to(u)).to(b)
            left = b - self @ x
            size = left.norm(dim=0)
            if bool((size <= tolerance).all()):
                return x, left
            if not bool(((size <= 0.5 * before) | (size <= tolerance)).all()):
                break
            before = size
        raise self._refusal("refinement from single precision does not converge")

    def _refusal(self, why: str) -> NotPositiveDefiniteError:
        return NotPositiveDefiniteError(
            f"{CovarianceOf(self.kernel)} of {len(self.x):,} rows is too ill-conditioned: {why}, and the "
            f"{8 * _ROOM * len(self.x) ** 2 / 1e9:.1f} GB for double precision are not there. Give the model more "
            "noise, or take inference='vecchia'"
        )


def _factored(u: Float[Tensor, "n n"], progress: bool) -> bool:
    """Whether a matrix could be factored in place; tells how far it is."""
    with meter(progress, total=100, batch=max(1, len(u) // 100)) as shown:

        def tell(done: float) -> None:
            while shown.steps < round(100 * done):
                shown.step(float("nan"))

        return blocked.factor_(u, tell=tell) is not None
