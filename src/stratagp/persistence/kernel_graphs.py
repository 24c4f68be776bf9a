"""Kernels as plain torch modules of sums, products and elementary functions, which can be exported as a graph.

The library's own kernels choose their way by the numbers that they see, to keep every digit; a graph cannot. These have
one way each, and agree with the others to about eight digits.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from stratagp import kernels as k
from stratagp.errors import UnsupportedError
from stratagp.kernels import Kernel

_CLOSED = (0.5, 1.5, 2.5)


class KernelGraph(nn.Module):
    """``k(x, z)``, ``n m`` or ``q n m``, and its diagonal, with parameters that stay as they are."""

    def __init__(self, **values: Tensor) -> None:
        super().__init__()
        for name, value in values.items():
            self.register_buffer(name, value.detach().double().clone())

    @abstractmethod
    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        """The matrix."""

    @abstractmethod
    def diag(self, x: Tensor) -> Tensor:
        """The diagonal, ``n`` or ``q n``."""


class _Stationary(KernelGraph):
    """``variance · ρ(r²)``, with distances from norms of centred points."""

    lengthscale: Tensor
    variance: Tensor

    def __init__(self, kernel: Any, nu: float) -> None:
        super().__init__(lengthscale=kernel.lengthscale, variance=kernel.variance)
        self.nu = nu

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        centre = z.mean(-2, keepdim=True)
        a, b = (x - centre) / self.lengthscale, (z - centre) / self.lengthscale
        r2 = a.square().sum(-1, keepdim=True) + b.square().sum(-1, keepdim=True).mT - 2 * (a @ b.mT)
        return self.variance * self._profile(r2.clamp_min(0))

    def _profile(self, r2: Tensor) -> Tensor:
        if self.nu == math.inf:
            return torch.exp(-0.5 * r2)
        r = torch.sqrt(2 * self.nu * r2)
        return (1 + (r if self.nu > 1 else 0) + (r.square() / 3 if self.nu > 2 else 0)) * torch.exp(-r)

    def diag(self, x: Tensor) -> Tensor:
        return self.variance.squeeze(-1) + 0 * x[..., 0] if self.variance.dim() else self.variance + 0 * x[:, 0]


class _Linear(KernelGraph):
    """``Σ v_d x_d z_d``."""

    variance: Tensor

    def __init__(self, kernel: Any) -> None:
        super().__init__(variance=kernel.variance)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return x @ (self.variance * z).mT

    def diag(self, x: Tensor) -> Tensor:
        return (self.variance * x.square()).sum(-1)


class _Constant(_Stationary):
    """The same everywhere."""

    def __init__(self, kernel: Any) -> None:
        KernelGraph.__init__(self, variance=kernel.variance)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return self.variance + 0 * (x[..., :1] + z[..., :1].mT)


class _Periodic(_Stationary):
    """``variance · exp(−2 Σ sin²(π (x − z)/p)/ℓ²)``, by the points on their circles."""

    period: Tensor

    def __init__(self, kernel: Any) -> None:
        values = {"lengthscale": kernel.lengthscale, "variance": kernel.variance, "period": kernel.period}
        KernelGraph.__init__(self, **values)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        gap = math.pi * (x[..., :, None, :] - z[..., None, :, :]) / self.period
        return self.variance * torch.exp(-2 * (torch.sin(gap) / self.lengthscale).square().sum(-1))


class _Together(KernelGraph):
    """A sum or a product."""

    def __init__(self, parts: list[KernelGraph], product: bool) -> None:
        super().__init__()
        self.parts, self.product = nn.ModuleList(parts), product

    def _joined(self, values: list[Tensor]) -> Tensor:
        return reduce(torch.mul if self.product else torch.add, values)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return self._joined([part(x, z) for part in self.parts])

    def diag(self, x: Tensor) -> Tensor:
        return self._joined([part.diag(x) for part in self.parts])  # type: ignore[operator]


class _OnColumns(KernelGraph):
    """A kernel of some columns."""

    columns: Tensor

    def __init__(self, base: KernelGraph, columns: list[int]) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("columns", torch.tensor(columns))

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        found: Tensor = self.base(x.index_select(-1, self.columns), z.index_select(-1, self.columns))
        return found

    def diag(self, x: Tensor) -> Tensor:
        return self.base.diag(x.index_select(-1, self.columns))


class _Separate(KernelGraph):
    """A kernel for each function, ``q n m``."""

    def __init__(self, parts: list[KernelGraph]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return torch.stack([part(x, z[i] if z.dim() == 3 else z) for i, part in enumerate(self.parts)])

    def diag(self, x: Tensor) -> Tensor:
        return torch.stack([part.diag(x) for part in self.parts])  # type: ignore[operator]


def kernel_graph(kernel: Kernel, columns: int) -> KernelGraph:
    """The graph of a kernel on points of so many columns; refuses kernels that have none."""
    if isinstance(kernel, k.RBF):
        return _Stationary(kernel, math.inf)
    if isinstance(kernel, k.Matern) and isinstance(kernel.nu, (int, float)) and kernel.nu in _CLOSED:
        return _Stationary(kernel, float(kernel.nu))
    if isinstance(kernel, k.Periodic) and kernel.variance.dim() == 0:
        return _Periodic(kernel)
    for kind, graph in ((k.Linear, _Linear), (k.Constant, _Constant)):
        if isinstance(kernel, kind):
            return graph(kernel)
    if isinstance(kernel, (k.Sum, k.Product)):
        return _Together([kernel_graph(part, columns) for part in kernel.parts], isinstance(kernel, k.Product))
    if isinstance(kernel, k.Separate):
        return _Separate([kernel_graph(part, columns) for part in kernel.parts])
    if isinstance(kernel, k.OnColumns):
        chosen = [int(column) for column in kernel._take(torch.arange(float(columns))[None])[0]]
        return _OnColumns(kernel_graph(kernel.base, len(chosen)), chosen)
    raise UnsupportedError(
        "export knows RBF, Matern of ν = ½, 1½ and 2½, Periodic, Linear and Constant kernels, their sums and products "
        f"and .on(columns), but not {kernel}: save the model instead"
    )
