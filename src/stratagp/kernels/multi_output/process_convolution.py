"""Several outputs that are differently smoothed views of the same hidden processes."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.multi_output.coregionalised import fill, shared_weights
from stratagp.kernels.multi_output.labelled import Grouped, assemble, assemble_diag, group
from stratagp.kernels.stationary.scaled_distance import constant_diag
from stratagp.linalg import gaussian_kernel
from stratagp.parameters import Parameter, Value, positive, real


class ProcessConvolution(Kernel):
    """Each output smooths the same hidden processes with bells of individual height and width.

    Output ``p`` is ``f_p(x) = Σ_r ∫ g_rp(x − t) u_r(t) dt``, where the ``u_r`` are independent: white noise,
    or RBF processes of lengthscale ``ℓ_r``; ``g_rp`` is a Gaussian density of standard deviations ``s_rp``
    times a height. Gaussian densities convolve to Gaussian densities whose variances add, so with

        S_rpp'd = s_rpd² + s_rp'd² + ℓ_rd²          (ℓ = 0 for white noise)
        c_rpp' = Π_d (S_rppd S_rp'p'd)^¼ / S_rpp'd^½

        k((x, p), (z, p')) = Σ_r a_rp a_rp' c_rpp' exp(−½ Σ_d (x_d − z_d)²/S_rpp'd).

    The heights are chosen so that ``c_rpp = 1`` and ``Σ_r a_rp²`` is the variance of output ``p``: they are
    ``a_rp Π_d (S_rppd/ℓ_rd²)^¼`` with RBF processes of unit variance, ``a_rp Π_d (4π s_rpd²)^¼`` with white
    noise of unit intensity. The last column of the points is the output ``p``, counted from 0.

    Reference: Higdon, Space and space-time modeling using process convolutions, 2002; Boyle and Frean,
    Dependent Gaussian processes, 2005.

    Arguments:
        n_outputs: the number of outputs.
        dim: the number of columns besides the index.
        amplitude: ``a``, with signs: an array that broadcasts to (n_latent, n_outputs), or a number that scales a
            default start in which the hidden processes mix differently.
        width: ``s``: an array that broadcasts to (n_latent, n_outputs, dim), or a number, which is halved from one
            hidden process to the next.
        latent_lengthscale: ``ℓ``, a number or an array that broadcasts to (n_latent, dim); None for white noise.
        n_latent: the number of hidden processes.

    >>> kernel = ProcessConvolution(n_outputs=2, dim=1, width=[[[1.0], [3.0]]])
    >>> kernel(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))  # √(2 · 1 · 3/(1 + 9)) across
    tensor([[1.0000, 0.7746],
            [0.7746, 1.0000]], dtype=torch.float64, grad_fn=...)
    """

    differentiable = math.inf

    def __init__(
        self,
        n_outputs: int,
        dim: int,
        amplitude: Value | Parameter = 1.0,
        width: Value | Parameter = 1.0,
        latent_lengthscale: Value | Parameter | None = None,
        n_latent: int = 1,
    ) -> None:
        super().__init__()
        if dim < 1:
            raise InputError(f"dim must be at least 1, got {dim}")
        self.n_outputs, self.dim, self.n_latent = n_outputs, dim, n_latent
        if isinstance(amplitude, int | float):
            amplitude = amplitude * shared_weights(n_outputs, n_latent).T
        if isinstance(width, int | float):
            width = width * 0.5 ** torch.arange(n_latent, dtype=torch.float64)[:, None, None]
        self.amplitude = real(fill(amplitude, (n_latent, n_outputs), "amplitude"))
        self.width = positive(fill(width, (n_latent, n_outputs, dim), "width"))
        self.latent_lengthscale = (
            None
            if latent_lengthscale is None
            else positive(fill(latent_lengthscale, (n_latent, dim), "latent_lengthscale"))
        )

    def _settings(self) -> str:
        return f"n_outputs={self.n_outputs}, dim={self.dim}"

    def _check_columns(self, columns: int) -> None:
        super()._check_columns(columns)
        if columns != self.dim + 1:
            raise InputError(
                f"ProcessConvolution(dim={self.dim}) needs points with {self.dim + 1} columns, the last for "
                f"the output's index; got {columns}"
            )

    def _group(self, x: Tensor) -> Grouped:
        return group(x, self.n_outputs, "the output's index")

    def _spread(self, p: int, other: int) -> Float[Tensor, "*q r d"]:
        """``S_pp'``, the sum of the bells' variances."""
        both = self.width[..., p, :].square() + self.width[..., other, :].square()
        return both if self.latent_lengthscale is None else both + self.latent_lengthscale.square()

    def _block(self, p: int, x: Tensor, other: int, z: Tensor) -> Tensor:
        spread = self._spread(p, other)
        logs = (self._spread(p, p).log() + self._spread(other, other).log()) / 4 - spread.log() / 2
        height = self.amplitude[..., p] * self.amplitude[..., other] * logs.sum(-1).exp()
        one = x.new_ones(())
        total = x.new_zeros(())
        for r in range(self.n_latent):
            weight = spread[..., r, :].rsqrt()
            weight = weight[:, None] if weight.dim() == 2 else weight
            total = total + _as_matrix(height[..., r]) * gaussian_kernel(x, z, weight, one)
        return total

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """One Gaussian kernel for each pair of outputs and hidden process."""
        left = self._group(x)
        return assemble(left, left if z is x else self._group(z), self._block)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``Σ_r a_rp²``."""
        variance = self.amplitude.square().sum(-2)
        points = self._group(self._points(x, "x"))
        return assemble_diag(points, lambda p, rows: constant_diag(_as_matrix(variance[..., p]), rows))


def _as_matrix(numbers: Float[Tensor, "*q"]) -> Float[Tensor, "..."]:
    """One number for each function, in a shape that multiplies matrices."""
    return numbers[:, None, None] if numbers.dim() else numbers
