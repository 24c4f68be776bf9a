"""Spectral mixtures: stationary kernels with a mixture of Gaussians as spectral density."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.feature_maps import FeatureMap, Rng, Wave, check_request, drawn_features
from stratagp.kernels.spectral import normal
from stratagp.kernels.stationary.scaled_distance import constant_diag
from stratagp.linalg import gaussian_kernel
from stratagp.parameters import Parameter, Value, positive, real


class SpectralMixture(Kernel):
    """``k(x, z) = Σ_c w_c exp(−2π² Σ_d v_cd τ_d²) cos(2π Σ_d μ_cd τ_d)`` with ``τ = x − z``.

    Component ``c`` has frequencies, in cycles per unit of ``x``, around ``μ_c`` with variances ``v_c``.
    With enough of them it approximates any stationary kernel. The cosine is that of a sum over columns, so that the
    spectral density is the mixture of Gaussians at ``±μ_c``; some libraries multiply the cosines of the columns, which
    is a different kernel if there is more than one column.

    Reference: Wilson and Adams, Gaussian process kernels for pattern discovery and extrapolation, 2013.

    Arguments:
        n_components: the number ``C`` of components. dim: the number ``D`` of columns. weights: the components' parts
        of the variance, of shape ``C``; by default equal with sum one. means: the central frequencies, of shape
        ``C D``; by default spread evenly between 0 and 1. variances: the squared widths around them, of shape ``C D``;
        by default as wide as the distance between default means.

    >>> SpectralMixture(2, weights=[0.5, 1.5], means=[[0.1], [1.0]])(torch.zeros(1, 1)).item()
    2.0
    """

    differentiable = math.inf

    def __init__(
        self,
        n_components: int,
        dim: int = 1,
        weights: Value | Parameter | None = None,
        means: Value | Parameter | None = None,
        variances: Value | Parameter | None = None,
    ) -> None:
        super().__init__()
        if n_components < 1 or dim < 1:
            raise InputError(f"n_components and dim must be at least 1, got {n_components} and {dim}")
        self.n_components, self.dim = n_components, dim
        wide = torch.ones(n_components, dim)
        even = (torch.arange(n_components)[:, None] + 0.5) / n_components * wide
        self.weights = positive(wide[:, 0] / n_components if weights is None else weights)
        self.means = real(even if means is None else means)
        self.variances = positive(wide / n_components**2 if variances is None else variances)
        for name, shape in (
            ("weights", (n_components,)),
            ("means", (n_components, dim)),
            ("variances", (n_components, dim)),
        ):
            given = tuple(self.parameter(name).natural.shape)
            if given[-len(shape) :] != shape:
                raise InputError(f"{name} must have the shape {shape}, got {given}")

    def _settings(self) -> str:
        return f"{self.n_components}, dim={self.dim}"

    def _check_columns(self, columns: int) -> None:
        if columns != self.dim:
            raise InputError(f"SpectralMixture(dim={self.dim}) got points with {columns} columns: pass dim={columns}")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The sum over components of a bell times a wave."""
        total = self._component(x, z, 0)
        for c in range(1, self.n_components):
            total = total + self._component(x, z, c)
        return total

    def _component(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"], c: int) -> Float[Tensor, "*q n m"]:
        weight = self.weights[c] if self.weights.dim() == 1 else self.weights[..., c : c + 1]
        scale = 2 * math.pi * _row(self.variances, c).sqrt()
        turn = 2 * math.pi * _row(self.means, c)
        phases = [(points * turn).sum(-1, keepdim=True) for points in (x, z)]
        return gaussian_kernel(x, z, scale, weight) * torch.cos(phases[0] - phases[1].mT)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The sum of the weights, at every row."""
        total = self.weights.sum(-1, keepdim=self.weights.dim() > 1)
        return constant_diag(total, self._points(x, "x"))

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """``n_features`` frequencies, shared equally among the components in a random order."""
        check_request(self, n_features, dim)
        if n_features < self.n_components:
            raise InputError(f"n_features must be at least {self.n_components}, one per component, got {n_features}")
        frequency = normal(n_features, dim, generator)
        order = torch.randperm(n_features, generator=generator, device=frequency.device)
        component = order % self.n_components
        share = n_features / component.bincount()[component].to(frequency)
        return drawn_features(self, dim, n_features, frequency=frequency, component=component, share=share)

    def wave(
        self,
        x: Float[Tensor, "*qx n d"],
        frequency: Float[Tensor, "f d"],
        component: Int[Tensor, " f"],
        share: Float[Tensor, " f"],
    ) -> Wave:
        """Phases ``2π (μ_c + √v_c g)·x`` and amplitudes ``√w_c``, over the root of the component's share of draws."""
        omega = self.means[..., component, :] + self.variances[..., component, :].sqrt() * frequency
        return Wave((self.weights[..., component] * share).sqrt(), 2 * math.pi * (x @ omega.mT))


def _row(values: Float[Tensor, "*q c d"], c: int) -> Float[Tensor, "..."]:
    """Row ``c``, as ``d`` or ``q 1 d``."""
    return values[c] if values.dim() == 2 else values[:, c : c + 1]
