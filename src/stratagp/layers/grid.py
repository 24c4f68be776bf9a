"""Gaussian processes on regular grids, evaluated by local interpolation.

Each latent function has values ``u`` on a grid, ``u = L v`` with ``K = L Lᵀ`` of the grid points and whitened ``v``; at
a row they are interpolated, ``f(xₙ) = wₙᵀ u``, with four weights for each axis (Wilson et al. 2016). On a grid of
several axes every part is a Kronecker product: ``K = ⊗ K_d``, ``q(v) = N(μ, ⊗ T_d T_dᵀ)``, ``w = ⊗ w_d``. So

    mean = wᵀ (⊗ L_d) μ,        var = Π_d w_dᵀ (L_d T_d)(L_d T_d)ᵀ w_d.

As in the paper, nothing is added for the part of the function that the grid does not determine, which is small if the
spacing is below a lengthscale; ``conditional`` adds its variance ``k − wᵀ K w``.

Stationary kernels have Toeplitz matrices on a grid, so only one column of them is computed.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels import Kernel, Stationary
from stratagp.kernels.base import as_tensor
from stratagp.layers.base import CovarianceName, Layer, with_jitter
from stratagp.linalg import cholesky
from stratagp.linalg.cells import at_cells, cells_of, value_table, variance_table
from stratagp.linalg.interpolation import RegularGrid, interpolate, product_weights
from stratagp.linalg.kronecker import kron_matmul, kron_triangular_solve
from stratagp.linalg.toeplitz import toeplitz
from stratagp.linalg.triangular import LEAST_VARIANCE
from stratagp.posteriors import FullGaussian, KroneckerGaussian
from stratagp.types import Gaussian


class Grid(Layer):
    """``q`` latent functions on grids of ``D`` axes; function ``j`` sees columns ``jD … (j+1)D − 1`` of the points.

    Arguments:
        kernel: a covariance of one column, for all functions or with a function axis; if there are several axes, a list
            with one for each.
        grids: a :class:`RegularGrid`, or one for each axis.
        functions: the number of functions.
        posterior: the belief about the whitened grid values; by default a :class:`FullGaussian` on one axis and a
            :class:`KroneckerGaussian` on several.
        conditional: whether to add the variance that the grid does not capture.
        jitter: added to the diagonals of ``K_d``, relative to their mean.

    Values beyond the bounds of a grid are moved to the bounds.

    >>> from stratagp import kernels as k
    >>> layer = Grid(k.RBF(), RegularGrid(-1.0, 1.0, size=20), functions=3)
    >>> layer(torch.zeros(5, 3)).mean.shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        kernel: Kernel | Sequence[Kernel],
        grids: RegularGrid | Sequence[RegularGrid],
        functions: int = 1,
        posterior: FullGaussian | KroneckerGaussian | None = None,
        conditional: bool = False,
        jitter: float = 1e-4,
    ) -> None:
        super().__init__()
        self.grids = [grids] if isinstance(grids, RegularGrid) else list(grids)
        self.kernels = nn.ModuleList([kernel] if isinstance(kernel, Kernel) else list(kernel))
        if len(self.kernels) != len(self.grids) or not self.grids:
            raise InputError(f"kernel must have one entry for each of {len(self.grids)} grids, got {len(self.kernels)}")
        own = {size for size in (each.functions for each in self._kernels) if size is not None}
        if own - {functions}:
            raise InputError(f"the kernel has {own.pop()} functions, but functions={functions}")
        if jitter < 0:
            raise InputError(f"jitter must not be negative, got {jitter}")
        sizes = [grid.size for grid in self.grids]
        default = FullGaussian(sizes[0], functions) if len(sizes) == 1 else KroneckerGaussian(sizes, functions)
        self.posterior = default if posterior is None else posterior
        self.conditional, self.jitter = conditional, jitter
        self._check_posterior(functions, sizes)

    def forward(self, x: Any) -> Gaussian:
        """The belief at points ``*s n (qD)``, each part ``*s n q``."""
        x = as_tensor(x, "x")
        factors = self.factors()
        scales = [factor @ scale for factor, scale in zip(factors, self._scales(), strict=True)]
        rows = self._rows(x)
        mean, var = self._mean(factors, x, rows), self._variance(scales, rows)
        if self.conditional:
            var = var + self._conditional_variance(factors, x, rows)
        shape = x.shape[:-1]
        return Gaussian(mean.unflatten(0, shape), var.clamp_min(LEAST_VARIANCE).unflatten(0, shape))

    def kl(self) -> Float[Tensor, ""]:
        """``KL(q(v) ‖ N(0, I))``, which equals that of the grid values."""
        return self.posterior.kl()

    def factors(self) -> list[Float[Tensor, "*q m m"]]:
        """The lower Cholesky factor ``L_d`` of each axis, in float64."""
        names = [CovarianceName("the grid points", kernel) for kernel in self._kernels]
        return [cholesky(self._covariance(d), name) for d, name in enumerate(names)]

    def draw(self, generator: torch.Generator | None = None, n_features: int = 1000) -> Callable[[Tensor], Tensor]:
        """One function: interpolates drawn grid values.

        With ``conditional``, adds what a prior draw from random features has beyond its own interpolation.
        """
        with torch.no_grad():
            return _Function(self, generator, n_features)

    def start_at_planes(self, slopes: Float[Tensor, "q d"], scale: float) -> None:
        """Set each function to ``Σ_d slope_d x_d`` of its columns, with whitened values of this standard deviation."""
        axes = len(self.grids)
        with torch.no_grad():
            points = torch.cartesian_prod(*(grid.points for grid in self.grids)).reshape(-1, axes)
            values = slopes.to(self.posterior.mean) @ points.to(self.posterior.mean).mT
            whitened = kron_triangular_solve(self.factors(), values[..., None]).squeeze(-1)
            self.posterior.mean.copy_(whitened)
            for own in self._posterior_scales():
                own.copy_(scale ** (1 / axes) * torch.eye(own.shape[-1], dtype=torch.float64))

    @property
    def functions(self) -> int:
        """The number of latent functions."""
        return self.posterior.shape[0]

    @property
    def _kernels(self) -> list[Kernel]:
        return [each for each in self.kernels if isinstance(each, Kernel)]

    def columns(self, x: Float[Tensor, "*s c"]) -> Float[Tensor, "*s q d"]:
        """The columns of each function."""
        q, d = self.functions, len(self.grids)
        if x.dim() < 2 or x.shape[-1] != q * d:
            each = "one column" if d == 1 else f"{d} columns"
            raise InputError(f"x must have shape (n, {q * d}), {each} for each of {q} functions, got {tuple(x.shape)}")
        return x.unflatten(-1, (q, d))

    def _covariance(self, axis: int) -> Float[Tensor, "*q m m"]:
        """``K_d`` with its jitter; from its first column if it is a Toeplitz matrix."""
        kernel, points = self._kernels[axis], self.grids[axis].points[:, None]
        points = points.to(self.posterior.mean.device)
        k = toeplitz(kernel(points[:1], points).squeeze(-2)) if isinstance(kernel, Stationary) else kernel(points)
        return with_jitter(k, self.jitter)

    def _scales(self) -> list[Float[Tensor, "q m m"]]:
        """The factors ``T_d`` of the covariance of the whitened values."""
        return [scale.double().tril() for scale in self._posterior_scales()]

    def _posterior_scales(self) -> list[Tensor]:
        return [self.posterior.scale] if isinstance(self.posterior, FullGaussian) else list(self.posterior.scales)

    def _rows(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For each axis, the cells of all rows and functions, and the positions within them."""
        axes = self.columns(x).flatten(0, -3).unbind(-1)
        return [cells_of(column, grid) for column, grid in zip(axes, self.grids, strict=True)]

    def _mean(self, factors: list[Tensor], x: Tensor, rows: list[tuple[Tensor, Tensor]]) -> Float[Tensor, "n q"]:
        values = self.values(factors, self.posterior.mean.double()).to(x)
        if len(self.grids) == 1:
            return at_cells(value_table(values), *rows[0])
        index, weight = product_weights(self.columns(x).flatten(0, -3).transpose(0, 1), self.grids, clamp=True)
        return interpolate(values, index, weight).mT

    def _variance(self, scales: list[Tensor], rows: list[tuple[Tensor, Tensor]]) -> Float[Tensor, "n q"]:
        """``Π_d w_dᵀ C_d C_dᵀ w_d`` for the factors ``C_d``."""
        tables = [variance_table((scale @ scale.mT).to(share)) for scale, (_, share) in zip(scales, rows, strict=True)]
        return reduce(torch.mul, [at_cells(part, *row) for part, row in zip(tables, rows, strict=True)])

    def values(self, factors: list[Tensor], whitened: Float[Tensor, "q m"]) -> Float[Tensor, "q m"]:
        """Values on the grid, ``(⊗ L_d) v``."""
        return kron_matmul(factors, whitened[..., None]).squeeze(-1)

    def _conditional_variance(
        self, factors: list[Tensor], x: Tensor, rows: list[tuple[Tensor, Tensor]]
    ) -> Float[Tensor, "n q"]:
        """``k − wᵀ K w``, which the grid does not capture; at least zero, as interpolation may overstate ``wᵀ K w``."""
        found = self._variance(factors, rows)
        prior = reduce(torch.mul, [self._prior_variance(axis, x) for axis in range(len(self.grids))])
        return (prior.to(found) - found).clamp_min(0)

    def _prior_variance(self, axis: int, x: Tensor) -> Float[Tensor, "#n #q"]:
        """``k_d(x, x)`` in the rows' own columns, moved to the bounds; one number per function if stationary."""
        kernel, grid = self._kernels[axis], self.grids[axis]
        if isinstance(kernel, Stationary):
            return kernel.diag(torch.zeros(1, 1, dtype=torch.float64, device=x.device)).reshape(1, -1)
        column = self.columns(x).flatten(0, -3)[..., axis].clamp(grid.low, grid.high)
        return kernel.diag(column.mT[..., None]).mT

    def _check_posterior(self, functions: int, sizes: list[int]) -> None:
        kinds = (FullGaussian,) if len(sizes) == 1 else (KroneckerGaussian,)
        if not isinstance(self.posterior, kinds):
            raise InputError(f"posterior must be a {kinds[0].__name__} for {len(sizes)} axes, got {self.posterior}")
        own = [self.posterior.shape[1]] if len(sizes) == 1 else list(self.posterior.sizes)
        if own != sizes or self.posterior.shape[0] != functions:
            raise InputError(
                f"the posterior has {self.posterior.shape[0]} functions on {own} points, but the grid has "
                f"{functions} on {sizes}"
            )


class _Function:
    """A drawn function in float64, from a copy of the layer, so that later training does not change it.

    What the grid does not capture is ``s(x) ρ(x)ᵀω / |ρ(x)|`` with the conditional standard deviation ``s``, random
    weights ``ω`` and ``ρ = φ(x) − Σ w φ(z)``, the part of random features that interpolation misses.
    """

    def __init__(self, layer: Grid, generator: torch.Generator | None, n_features: int) -> None:
        self.layer = copy.deepcopy(layer).double().requires_grad_(False)
        self.factors = self.layer.factors()
        self.values = self.layer.values(self.factors, layer.posterior.draw(generator))
        if layer.conditional:
            axes = len(layer.grids)
            kernel = reduce(operator.mul, [each.on(d) for d, each in enumerate(self.layer._kernels)])
            self.features = kernel.random_features(n_features, axes, generator)
            mesh = torch.cartesian_prod(*(grid.points for grid in layer.grids)).reshape(-1, axes)
            self.at_grid = self.features(mesh.to(self.values))
            self.weights = torch.randn(self.at_grid.shape[-1], layer.functions, generator=generator).to(self.values)

    def __call__(self, x: Float[Tensor, "*s n c"]) -> Float[Tensor, "*s n q"]:
        with torch.no_grad():
            x64 = x.double()
            columns = self._inside(self.layer.columns(x64).flatten(0, -3).transpose(0, 1))
            index, weight = product_weights(columns, self.layer.grids, clamp=True)
            found = interpolate(self.values, index, weight).mT
            if self.layer.conditional:
                missed = torch.stack([self._missed(j, columns[j], index[j], weight[j]) for j in range(len(columns))], 1)
                var = self.layer._conditional_variance(self.factors, x64, self.layer._rows(x64))
                found = found + var.sqrt() * missed
        return found.unflatten(0, x.shape[:-1]).to(x)

    def _inside(self, columns: Float[Tensor, "q n d"]) -> Float[Tensor, "q n d"]:
        """The rows of each function, with values beyond the bounds of a grid moved to the bounds."""
        axes = zip(columns.unbind(-1), self.layer.grids, strict=True)
        return torch.stack([column.clamp(grid.low, grid.high) for column, grid in axes], -1)

    def _missed(self, function: int, rows: Tensor, index: Tensor, weight: Tensor) -> Float[Tensor, " n"]:
        """``ρᵀω / |ρ|`` of one function."""
        phi, at_grid = (each[function] if each.dim() == 3 else each for each in (self.features(rows), self.at_grid))
        rho = phi - torch.einsum("nk,nkf->nf", weight, at_grid[index])
        return rho @ self.weights[:, function] / rho.norm(dim=-1).clamp_min(torch.finfo(rho.dtype).tiny)
