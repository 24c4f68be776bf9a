"""Gibbs' kernel: a lengthscale that depends on the input."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.algebra.warped import deterministic, name_of
from stratagp.kernels.base import Kernel
from stratagp.kernels.stationary.scaled_distance import constant_diag
from stratagp.parameters import UNSET, Parameter, Value, positive


class Gibbs(Kernel):
    """An RBF whose lengthscale is a function of the input.

        k = variance · Π_d √(2 ℓ_d(x) ℓ_d(z)/s_d) · exp(−Σ_d (x_d − z_d)²/s_d),   s_d = ℓ_d(x)² + ℓ_d(z)²

    Reference: Gibbs, Bayesian Gaussian processes for regression and classification, 1997.

    Arguments:
        lengthscale: a function or torch module from points ``n d`` to positive lengthscales, ``n 1`` or ``n d``.

    >>> kernel = Gibbs(lambda x: 0.1 + x.abs())
    >>> kernel(torch.tensor([[1.0]]), torch.tensor([[2.0]])).item()
    0.7588...
    """

    differentiable = math.inf

    def __init__(self, lengthscale: Any, variance: Value | Parameter = UNSET) -> None:
        super().__init__()
        if not callable(lengthscale):
            raise InputError("lengthscale must be a function of the points: for a constant one use RBF(lengthscale)")
        self.lengthscale = deterministic(lengthscale)
        self.variance = positive(variance, name="variance")

    def _settings(self) -> str:
        return f"lengthscale={name_of(self.lengthscale)}"

    def _scales(self, x: Float[Tensor, "*q n d"]) -> Float[Tensor, "*q n d"]:
        scales = self.lengthscale(x)
        if not bool((scales > 0).all()):
            raise InputError("the lengthscale function of Gibbs must return positive values")
        return scales.expand(x.shape)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The product over columns, summed in the exponent one column at a time."""
        lx, lz = self._scales(x), self._scales(z)
        exponent = torch.zeros((), dtype=x.dtype, device=x.device)
        for d in range(x.shape[-1]):
            a, b = lx[..., d, None], lz[..., None, :, d]
            s = a.square() + b.square()
            exponent = exponent + 0.5 * (2 * a * b / s).log() - (x[..., d, None] - z[..., None, :, d]).square() / s
        return self.variance * exponent.exp()

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance at every row."""
        return constant_diag(self.variance, self._points(x, "x"))
