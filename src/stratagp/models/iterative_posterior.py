"""The exact process given data, without a factor: means need one solve, variances one for each row."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning
from stratagp.models.data_checks import check_points
from stratagp.models.process import Process
from stratagp.models.solver import Bounded, Solver
from stratagp.types import PointsLike

if TYPE_CHECKING:
    from stratagp.models.iterative import IterativeGP

_COLUMNS = 256  # solved for at once when predicting variances
_SHARE = 0.01  # of the least noise: the allowed excess of a variance


@dataclass(frozen=True)
class IterativePosterior(Process):
    """A Gaussian process given data: ``α = C⁻¹(y − m)``, to the relative residual ``solved_to``.

    ``iterations`` is the number of products this took.
    """

    prior: IterativeGP
    x: Any
    residual: Float[Tensor, " n"]
    noise: Float[Tensor, " n"]
    alpha: Float[Tensor, " n"] = field(repr=False)
    solved_to: float
    iterations: int

    @cached_property
    def solver(self) -> Solver:
        """Multiplies by ``C⁻¹``; its rows of ``K`` are not part of a model file."""
        return self.prior._solver(self.x, self.noise)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the solver, whose matrix has n² numbers; it is rebuilt on demand."""
        return {name: value for name, value in vars(self).items() if name != "solver"}

    def mean(self, x: PointsLike) -> Float[Tensor, " m"]:
        """``m(x) + k(x, X) α``."""
        with torch.no_grad():
            parts = [self.prior.mean(rows) + self.prior.kernel(rows, self.x) @ self.alpha for rows in self._chunks(x)]
            return torch.cat(parts)

    def variance(self, x: PointsLike) -> Float[Tensor, " m"]:
        """``k(x, x) − k(x, X) C⁻¹ k(X, x)`` at each row, too large by at most a hundredth of the least noise.

        Warns if conjugate gradients did not get that far.
        """
        with torch.no_grad():
            return torch.cat([self._variance(rows) for rows in self._chunks(x)])

    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "m p"]:
        """``k(x, z) − k(x, X) C⁻¹ k(X, z)``, with second-order errors like those of variances.

        With ``B = k(X, x)`` and ``U ≈ C⁻¹B`` it is ``K − BᵀU − Uᵀ(B − CU) = K − BᵀC⁻¹B + (U − C⁻¹B)ᵀC(U − C⁻¹B)``,
        which has no negative eigenvalue, whatever ``U`` is.
        """
        x = self._points(x)
        other = x if z is None else self._points(z)
        with torch.no_grad():
            one = self._columns(x)
            two = one if z is None else self._columns(other)
            found = self.prior.kernel(x, None if z is None else other) - one[0].mT @ two[1] - one[1].mT @ two[2]
            return 0.5 * (found + found.mT) if z is None else found

    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """One function by Matheron's rule: a prior draw ``g``, corrected to agree with the data.

        f(x) = g(x) + k(x, X) C⁻¹ (y − g(X) − ε),   ε ~ N(0, noise)
        """
        prior, noise = self.prior.draw(n_features, generator), self.noise
        with torch.no_grad():
            epsilon = torch.randn(noise.shape, generator=generator, dtype=noise.dtype).to(noise) * noise.sqrt()
            gap = self.residual + self.prior.mean(self.x) - prior(self.x) - epsilon
            weights = self.solver.refined(gap[:, None], self.prior.tolerance)[0][:, 0]
        return lambda x: torch.cat(
            [prior(rows) + self.prior.kernel(rows, self.x) @ weights for rows in self._chunks(x)]
        )

    def _variance(self, x: PointsLike) -> Float[Tensor, " m"]:
        found = self._solve(self.prior.kernel(self.x, x))
        return (self.prior.kernel.diag(x) - found.quadratic()).clamp_min(0)

    def _columns(self, x: PointsLike) -> tuple[Float[Tensor, "n m"], Float[Tensor, "n m"], Float[Tensor, "n m"]]:
        """``B = k(X, x)``, ``U ≈ C⁻¹B`` and the residual ``B − C U``."""
        parts = [self._solve(part) for part in self.prior.kernel(self.x, x).split(_COLUMNS, 1)]
        b, u, left = (torch.cat(each, 1) for each in zip(*(part[:3] for part in parts), strict=True))
        return b, u, left

    def _solve(self, b: Float[Tensor, "n s"]) -> Bounded:
        """``C⁻¹ b``, accurate enough for variances."""
        least = float(self.noise.min())
        found = self.solver.bounded(b, self.prior.tolerance**0.5, _SHARE * least)
        beyond = found.bound > _SHARE * least
        if bool(beyond.any()):
            warnings.warn(
                f"variances of {int(beyond.sum())} of {len(beyond)} rows may be too large, by up to "
                f"{float(found.bound.max()) / least:.2g} of the noise, after {found.iterations} iterations of "
                "conjugate gradients: use more noise, or a larger rank or most in IterativeGP",
                ConvergenceWarning,
                stacklevel=4,
            )
        return found

    def _points(self, x: PointsLike) -> Any:
        return check_points(self.prior.kernel, x, self.x.shape[1] if isinstance(self.x, Tensor) else None)

    def _chunks(self, x: Any) -> list[Any]:
        x = self._points(x)
        return [x[start : start + _COLUMNS] for start in range(0, max(1, len(x)), _COLUMNS)]
