"""Priors on covariance matrices: the Wishart and the inverse-Wishart process.

Each is a random covariance function whose matrix ``Σ`` at the rows of ``x`` has mean ``K = k(x, x) + noise · I``. A
function drawn with it, ``f | Σ ~ N(0, Σ)``, also has covariance K, with heavier tails than a Gaussian process. For
many degrees of freedom ν, Σ is K and f is that Gaussian process.

The Wishart process gives each point ν hidden values, and Σ is their inner product: a Gaussian process with a linear
kernel on top of ν Gaussian processes, so a deep process with one hidden layer. The inverse-Wishart process is its
conjugate partner: Σ integrates out in closed form, and what is left is a Student-t process.

Both are consistent: Σ at some of the points is distributed as the process at those points alone. For the inverse this
holds because ν does not change with n (Dawid 1981), ``Σ⁻¹ ~ W_n(ν + n − 1, ((ν − 2) K)⁻¹)``. Its Σ is not a kernel of
hidden values, because each entry of an inverse depends on all rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.linalg import cholesky
from stratagp.models.data_checks import check_points
from stratagp.models.exact import ExactGP
from stratagp.models.student_t import StudentTProcess
from stratagp.objectives.evidence import CovarianceOf
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value
from stratagp.types import PointsLike


class CovariancePrior(Parameterised, ABC):
    """A random covariance function with the mean ``K = k(x, x) + noise · I``: moments, density and draws of its matrix.

    ``gaussian`` is the Gaussian process with covariance K; it holds kernel and noise.
    """

    def __init__(self, kernel: Any, noise: Value | Parameter) -> None:
        super().__init__()
        self.gaussian = ExactGP(kernel, noise=noise)
        if kernel.functions is not None:
            raise InputError(f"kernel must be a single covariance function, got {kernel.functions} of them")

    @property
    def kernel(self) -> Kernel:
        """The kernel of the mean, without the noise."""
        return self.gaussian.kernel

    def mean(self, x: PointsLike) -> Float[Tensor, "n n"]:
        """``E Σ = K``, at points in rows."""
        k = self.kernel(check_points(self.kernel, x))
        if not len(k):
            raise InputError("x must have at least one row")
        return k + self.gaussian.noise * torch.eye(len(k), dtype=k.dtype, device=k.device)

    @abstractmethod
    def variance(self, x: PointsLike) -> Float[Tensor, "n n"]:
        """``var Σᵢⱼ``, entry by entry."""

    @abstractmethod
    def log_density(self, sigma: Any, x: PointsLike) -> Float[Tensor, "*s"]:
        """``log p(Σ)`` of a matrix ``n n``, or of each in a batch."""

    @abstractmethod
    def _roots(self, k: Float[Tensor, "n n"], n_samples: int, generator: Generator | None) -> Float[Tensor, "s n r"]:
        """Draws of ``R`` with ``Σ = R Rᵀ``."""

    def sample(self, x: PointsLike, n_samples: int = 1, generator: Generator | None = None) -> Float[Tensor, "s n n"]:
        """Draws of the matrix ``Σ``."""
        if n_samples < 1:
            raise InputError(f"n_samples must be at least 1, got {n_samples}")
        with torch.no_grad():
            roots = self._roots(self.mean(x), n_samples, generator)
            return roots @ roots.mT

    def sample_functions(
        self, x: PointsLike, n_samples: int = 1, n_functions: int = 1, generator: Generator | None = None
    ) -> Float[Tensor, "s q n"]:
        """Draws of ``f | Σ ~ N(0, Σ)``: ``n_functions`` for each of ``n_samples`` draws of Σ.

        ``f = R w`` with ``w ~ N(0, I)`` and the root ``Σ = R Rᵀ`` that builds Σ, so Σ itself is never factored.
        The draws of Σ are those of :meth:`sample` with a generator in the same state.
        """
        if n_samples < 1 or n_functions < 1:
            raise InputError(f"n_samples and n_functions must be at least 1, got {n_samples} and {n_functions}")
        with torch.no_grad():
            roots = self._roots(self.mean(x), n_samples, generator)
            weights = _normal(roots, (n_samples, roots.shape[2], n_functions), generator)
            return (roots @ weights).mT

    def _factor(self, k: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
        return cholesky(k, CovarianceOf(self.kernel))


class WishartProcess(CovariancePrior):
    """``Σ = B Bᵀ/ν`` with ν independent columns ``b_r ~ GP(0, K)``.

    ``E Σ = K`` and ``var Σᵢⱼ = (Kᵢⱼ² + Kᵢᵢ Kⱼⱼ)/ν``. The paper (Kandemir and Hamprecht 2015) does not divide, and has
    ``E Σ = ν K``. The rank of Σ is at most ν, so it has a density at up to ν points only. Given B, ``f = B w/√ν`` is a
    Gaussian process with the kernel ``bᵀb′/ν`` on the hidden values.

    Arguments:
        kernel: the covariance function of each column.
        dof: the number of columns, ν ≥ 1, a whole number that is not learnt.
        noise: a variance, part of K, independent for each column and point.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 2, 3, dtype=torch.float64)[:, None]
    >>> prior = WishartProcess(k.RBF(), dof=5)
    >>> prior.sample(x, n_samples=10).shape
    torch.Size([10, 3, 3])
    >>> prior.variance(x)[0, 0].item()  # (1 + 1)/5
    0.4
    """

    def __init__(self, kernel: Any, dof: Any, noise: Value | Parameter = 0.0) -> None:
        super().__init__(kernel, noise)
        if isinstance(dof, bool) or not isinstance(dof, Integral) or dof < 1:
            raise InputError(f"dof must be a whole number ≥ 1, got {dof!r}")
        self.dof: int = int(dof)

    def variance(self, x: PointsLike) -> Float[Tensor, "n n"]:
        """``(Kᵢⱼ² + Kᵢᵢ Kⱼⱼ)/ν``."""
        k = self.mean(x)
        return (k.square() + torch.outer(k.diagonal(), k.diagonal())) / self.dof

    def log_density(self, sigma: Any, x: PointsLike) -> Float[Tensor, "*s"]:
        """``(ν − n − 1)/2 log|Σ| − ν/2 (tr(K⁻¹Σ) + log|K| − n log(ν/2)) − log Γₙ(ν/2)``, at ``n ≤ ν`` points."""
        k, dof = self.mean(x), self.dof
        n = len(k)
        if n > dof:
            raise InputError(f"x must have at most dof = {dof} rows, got {n}: Σ has rank {dof} at most, and no density")
        factor, own = cholesky(_check_sigma(sigma, k), "sigma"), self._factor(k)
        trace = torch.linalg.solve_triangular(own, factor, upper=False).square().sum((-2, -1))
        bracket = trace + _log_det(own) - n * math.log(dof / 2)
        return (dof - n - 1) / 2 * _log_det(factor) - dof / 2 * bracket - torch.mvlgamma(k.new_tensor(dof / 2), n)

    def _roots(self, k: Float[Tensor, "n n"], n_samples: int, generator: Generator | None) -> Float[Tensor, "s n r"]:
        return self._factor(k) @ _normal(k, (n_samples, len(k), self.dof), generator) / math.sqrt(self.dof)


class InverseWishartProcess(CovariancePrior):
    """``Σ ~ IW_n(ν, (ν − 2) K)`` in Dawid's parameterisation: ``Σ⁻¹ ~ W_n(ν + n − 1, ((ν − 2) K)⁻¹)`` for any n.

    ``E Σ = K``, and for ν > 4 ``var Σᵢⱼ = (ν Kᵢⱼ² + (ν − 2) Kᵢᵢ Kⱼⱼ)/((ν − 1)(ν − 4))``. Σ has full rank, and
    a density, at any number of points. (Dawid 1981; Shah, Wilson and Ghahramani 2014.)

    Arguments:
        kernel: the mean of the covariance.
        dof: ν > 2, the same at any number of points; learnt with the rest.
        noise: as in :class:`StudentTProcess`: part of K, so it scales with the process.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 2, 3, dtype=torch.float64)[:, None]
    >>> prior = InverseWishartProcess(k.RBF(), dof=6.0)
    >>> round(prior.variance(x)[0, 0].item(), 12)  # 2/(6 − 4)
    1.0
    """

    dof: Any

    def __init__(self, kernel: Any, dof: float | Parameter = 5.0, noise: Value | Parameter = 0.0) -> None:
        super().__init__(kernel, noise)
        self.dof = StudentTProcess(kernel, dof=dof).parameter("dof")

    def functions(self) -> StudentTProcess:
        """The distribution of ``f | Σ ~ N(0, Σ)`` with Σ integrated out, sharing the parameters of this prior.

        Its covariance is K, including the noise: ``log_evidence`` is the density of f at points.

        >>> from stratagp import kernels as k
        >>> prior = InverseWishartProcess(k.RBF(), dof=6.0)
        >>> prior.functions().log_evidence([[0.0]], [0.0]).exp().item()  # Γ(3.5)/Γ(3)/√(4π); a Gaussian has 0.3989
        0.4687...
        """
        noise = self.gaussian.parameter("noise") if "noise" in self.gaussian._modules else 0
        return StudentTProcess(self.kernel, noise=noise, dof=self.parameter("dof"))

    def variance(self, x: PointsLike) -> Float[Tensor, "n n"]:
        """``(ν Kᵢⱼ² + (ν − 2) Kᵢᵢ Kⱼⱼ)/((ν − 1)(ν − 4))``, which is finite for ν > 4."""
        k, dof = self.mean(x), self.dof
        if not dof > 4:
            raise InputError(f"dof must be above 4 for entries of finite variance, got {dof.item():g}")
        squares = dof * k.square() + (dof - 2) * torch.outer(k.diagonal(), k.diagonal())
        return squares / ((dof - 1) * (dof - 4))

    def log_density(self, sigma: Any, x: PointsLike) -> Float[Tensor, "*s"]:
        """``m/2 (log|K| + n log(½(ν−2))) − ½(m+n+1) log|Σ| − ½(ν−2) tr(Σ⁻¹K) − log Γₙ(m/2)`` with ``m = ν + n − 1``."""
        k, dof = self.mean(x), self.dof
        n = len(k)
        m = dof + n - 1
        factor, own = cholesky(_check_sigma(sigma, k), "sigma"), self._factor(k)
        trace = torch.linalg.solve_triangular(factor, own, upper=False).square().sum((-2, -1))
        constant = m / 2 * (_log_det(own) + n * ((dof - 2) / 2).log()) - torch.mvlgamma(m / 2, n)
        return constant - (m + n + 1) / 2 * _log_det(factor) - (dof - 2) / 2 * trace

    def _roots(self, k: Float[Tensor, "n n"], n_samples: int, generator: Generator | None) -> Float[Tensor, "s n r"]:
        """``√(ν − 2) L A⁻ᵀ`` with ``K = L Lᵀ`` and Bartlett's ``A Aᵀ ~ W_n(ν + n − 1, I)``.

        A is lower triangular with independent entries, normal below the diagonal and on it ``Aᵢᵢ² ~ χ²(ν + n − i)``,
        ``i = 1 … n``.
        """
        n = len(k)
        half = (self.dof + torch.arange(n - 1, -1, -1, device=k.device)).to(k) / 2
        bartlett = _normal(k, (n_samples, n, n), generator).tril_(-1)
        gamma = torch._standard_gamma(half.expand(n_samples, n), generator=generator)
        bartlett.diagonal(dim1=-2, dim2=-1).copy_((2 * gamma).sqrt())
        own = (self.dof - 2).sqrt() * self._factor(k)
        return torch.linalg.solve_triangular(bartlett, own.mT, upper=False).mT


def _normal(like: Tensor, shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)


def _log_det(factor: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _check_sigma(sigma: Any, k: Float[Tensor, "n n"]) -> Float[Tensor, "*s n n"]:
    """Checks for symmetric matrices of K's size; returns them in its precision."""
    values = as_tensor(sigma, "sigma").to(k)
    if values.shape[-2:] != k.shape or not values.numel():
        raise InputError(f"sigma must be (…, {len(k)}, {len(k)}) for {len(k)} rows of x, got {tuple(values.shape)}")
    if not (values - values.mT).abs().max() <= 1e-5 * values.abs().max():  # also False for NaN
        raise InputError("sigma must be finite and symmetric: for symmetry, average it with its transpose")
    return values
