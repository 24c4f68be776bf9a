"""The cascaded deep Gaussian process (Damianou and Lawrence 2013), supervised, with one hidden layer.

    h = g(x) + N(0, hidden_noise),    y = f(h) + N(0, noise),    g_r ~ GP(0, k₁),    f_p ~ GP(0, k₂)

The hidden values of each row have their own belief, ``q(hₙ) = N(mean, var)``, and the inducing values of both
layers are integrated out. With the bound ``ℒ`` of :mod:`stratagp.objectives.expected`,

    ℒ(x → h) + ℒ(h → y) + H(q(h)) ≤ log p(y | x).

The deep feed-forward process has no hidden noise, and so does without the ``2 n ν`` numbers of ``q(h)``.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers import Inducing, LatentRows, Noisy, Stack
from stratagp.means import Zero
from stratagp.models.chain import Chain, columns
from stratagp.models.random_inputs import inducing_factor, noise_of, posterior_layer
from stratagp.objectives.expected import Sums, collapsed, sums
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive, real
from stratagp.types import Gaussian, NumbersLike, PointsLike


class CascadedGP(Parameterised):
    """Two sparse processes, the second over noisy values of the first.

    Arguments:
        hidden: the initial hidden values, ``n q``.
        kernel, z: of the first layer, shared by all hidden functions; points in the space of ``x``.
        output_kernel, output_z: of the second layer; points in the space of ``h``, and a kernel with expectations.
        hidden_noise, noise: variances.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(-2, 2, 40, dtype=torch.float64)[:, None]
    >>> gp = CascadedGP(x, k.RBF(variance=1.0), x[::5], k.RBF(variance=1.0), x[::5])
    >>> gp.condition(x, x.sin()).predict(x).mean.shape
    torch.Size([40, 1])
    """

    def __init__(
        self,
        hidden: Float[Tensor, "n q"],
        kernel: Kernel,
        z: Value | Parameter,
        output_kernel: Kernel,
        output_z: Value | Parameter,
        hidden_noise: Value | Parameter = 0.1,
        noise: Value | Parameter = 0.1,
    ) -> None:
        super().__init__()
        self.rows = LatentRows(hidden)
        self.kernel, self.output_kernel = kernel, output_kernel
        self.z, self.output_z = real(z, name="z"), real(output_z, name="output_z")
        self.hidden_noise = positive(hidden_noise, name="hidden_noise")
        self.noise = positive(noise, name="noise")

    def log_evidence(self, x: PointsLike, y: NumbersLike) -> Float[Tensor, ""]:
        """A lower bound on ``log p(y | x)`` for the rows of the hidden values."""
        x, y = self._check(x, y)
        h = self._hidden(x)
        entropy = 0.5 * (2 * math.pi * math.e * h.var).log().sum()
        first, second = self._first(x, h), self._second(h, y)
        below = collapsed(first, inducing_factor(self.kernel, self.z), self.hidden_noise)
        above = collapsed(second, inducing_factor(self.output_kernel, self.output_z), self.noise)
        return below + above + entropy

    def condition(self, x: PointsLike, y: NumbersLike) -> Chain:
        """The chain of layers, with noise between them, for predictions."""
        x, y = self._check(x, y)
        with torch.no_grad():
            h = self._hidden(x)
            first = posterior_layer(self.kernel, self.z, self._first(x, h), self.hidden_noise)
            second = posterior_layer(self.output_kernel, self.output_z, self._second(h, y), self.noise)
            likelihood = noise_of(self.noise, y.shape[1])
            layers: tuple[Inducing | Noisy, ...] = (first, Noisy(self.hidden_noise.clone()), second)
        return Chain(Stack(*layers, propagate="moments"), likelihood, torch.float64)

    def _check(self, x: PointsLike, y: NumbersLike) -> tuple[Tensor, Tensor]:
        x, y = as_tensor(x, "x").double(), columns(as_tensor(y, "y").double())
        if not len(x) == len(y) == len(self.rows.mean):
            raise InputError(f"x and y must have {len(self.rows.mean)} rows, as hidden does, got {len(x)} and {len(y)}")
        return x, y

    def _hidden(self, x: Tensor) -> Gaussian:
        return self.rows(torch.arange(len(x)))

    def _first(self, x: Tensor, h: Gaussian) -> Sums:
        return sums(self.kernel, self.z, Zero(), x, h)

    def _second(self, h: Gaussian, y: Tensor) -> Sums:
        return sums(self.output_kernel, self.output_z, Zero(), h, y)
