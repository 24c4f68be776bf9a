"""Infinitely wide networks as covariance functions: arc-cosine (Cho and Saul), arc-sine and Gaussian units."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.feature_maps import FeatureMap, Rng, Wave, arc_cosine_wave, check_request, drawn_features
from stratagp.kernels.spectral import normal
from stratagp.kernels.stationary.scaled_distance import distance
from stratagp.linalg import scaled_sqdist
from stratagp.parameters import UNSET, Parameter, Value, per_column, positive


class ArcCosine(Kernel):
    """A network of ``depth`` infinite layers with units ``H(u) uⁿ``: steps (degree 0), rectifiers (1), squares (2), …

    With ``⟨x, z⟩ = Σ_d x_d z_d/ℓ_d² + bias``, ``cos θ = ⟨x, z⟩/(|x||z|)`` and

        J₀ = π − θ,   J₁ = sin θ + (π − θ) cos θ,   Jₙ₊₁ = (2n + 1) cos θ Jₙ + n² sin² θ Jₙ₋₁,

    one layer is ``k₁(x, z) = (1/π) |x|ⁿ |z|ⁿ Jₙ(θ)``. A further layer takes the covariances of the last one as inner
    products: ``k_{l+1} = (1/π) (k_l(x, x) k_l(z, z))^{n/2} Jₙ(θ_l)``. The whole is multiplied by ``variance``.

    Reference: Cho and Saul, Kernel methods for deep learning, 2009.

    Arguments:
        degree: of the units, 0 or more.
        depth: number of layers, at least 1.
        lengthscale: divides the inputs; a vector gives each column its own.
        bias: variance of a bias unit; None for none, as in the paper.

    >>> ArcCosine(degree=1)(torch.tensor([[2.0]]), torch.tensor([[3.0]])).item()
    6.0
    """

    def __init__(
        self,
        degree: int = 1,
        depth: int = 1,
        lengthscale: Value | Parameter = UNSET,
        variance: Value | Parameter = UNSET,
        bias: Value | Parameter | None = None,
        ard: bool | int = False,
    ) -> None:
        super().__init__()
        if degree != int(degree) or degree < 0:
            raise InputError(f"degree must be a whole number from 0 on, got {degree!r}")
        if depth < 1:
            raise InputError(f"depth must be at least 1, got {depth!r}")
        self.degree, self.depth = int(degree), depth
        self.lengthscale = per_column(lengthscale, ard, name="lengthscale")
        self.variance = positive(variance, name="variance")
        self.bias = None if bias is None else positive(bias, name="bias")

    @property
    def differentiable(self) -> float:
        """As many derivatives as the degree."""
        return self.degree

    def _settings(self) -> str:
        return f"degree={self.degree}, depth={self.depth}"

    def _scaled(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n c"]:
        """Points divided by the lengthscales, with the bias as one more column."""
        scaled = x / self.lengthscale
        if self.bias is None:
            return scaled
        return torch.cat([scaled, self.bias.sqrt().expand(*scaled.shape[:-1], 1)], -1)

    def _polar(self, x: Float[Tensor, "*qx n d"]) -> tuple[Float[Tensor, "*q n 1"], Float[Tensor, "*q n c"]]:
        """Squared norms, and unit vectors; a zero vector gets its own direction, orthogonal to all others."""
        scaled = self._scaled(x)
        norm2 = scaled.square().sum(-1, keepdim=True)
        zero = (norm2 == 0).to(x)
        return norm2, torch.cat([scaled / (distance(norm2) + zero), zero], -1)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The recursion over layers, on squared norms and ``1 − cos θ``, which keeps the digits of small angles."""
        left, u = self._polar(x)
        right, v = (left, u) if z is x else self._polar(z)
        apart = 0.5 * scaled_sqdist(u, v, torch.ones((), dtype=u.dtype, device=u.device))
        for _ in range(self.depth):
            apart = _Angular.apply(apart, self.degree)
            left, right = _next_norm(left, self.degree), _next_norm(right, self.degree)
        return self.variance * distance(left) * distance(right).mT * (1 - apart)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The map ``s → (2n − 1)!! sⁿ`` of ``|x|²``, once for each layer, times ``variance``."""
        norm = self._polar(self._points(x, "x"))[0]
        for _ in range(self.depth):
            norm = _next_norm(norm, self.degree)
        return (self.variance * norm).squeeze(-1)

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """``√(2 variance/M) H(xw) (xw)ⁿ`` with standard normal ``w``, in ``depth`` layers of ``M`` units.

        Beyond depth 1 the inner layers are random too: features approach the kernel as ``M`` grows, not in the mean.
        """
        check_request(self, n_features, dim)
        widths = [dim + (self.bias is not None), *[n_features] * (self.depth - 1)]
        noise = {f"layer{i}": normal(n_features, width, generator) for i, width in enumerate(widths)}
        return drawn_features(self, dim, n_features, oscillates=False, **noise)

    def wave(self, x: Float[Tensor, "*qx n d"], **layers: Tensor) -> Wave:
        """The units of the last layer, for the weights ``f c`` drawn for each layer."""
        *hidden, last = layers.values()
        units, one = self._scaled(x), self.variance.new_ones(())
        for weights in hidden:
            units = arc_cosine_wave(units, weights, self.degree, one).amplitude / math.sqrt(len(weights))
        return arc_cosine_wave(units, last, self.degree, self.variance)


def _next_norm(norm: Tensor, degree: int) -> Tensor:
    """``k(x, x)`` of the next layer: ``Jₙ(0)/π · |x|^{2n}``, with ``Jₙ(0) = π (2n − 1)!!``."""
    return (norm**degree) * math.prod(range(1, 2 * degree, 2))


class _Angular(torch.autograd.Function):
    """One layer on angles: from ``t = 1 − cos θ`` to ``Tₙ(t) = 1 − Jₙ(θ)/Jₙ(0)``.

    ``Tₙ' = n²/(2n − 1) (1 − Tₙ₋₁)`` is finite at θ = 0, where autograd through the arc cosine would give ∞ − ∞;
    ``T₀' = 1/(π sin θ)`` is not, and is taken as zero there. No step of the recursion loses the digits of a small t.
    """

    @staticmethod
    def forward(ctx: Any, t: Tensor, degree: int) -> Tensor:
        ctx.save_for_backward(t)
        ctx.degree = degree
        t = t.clamp(0, 2)
        c, sine2 = 1 - t, t * (2 - t)
        s = sine2.sqrt()
        theta = torch.atan2(s, c)
        if degree == 0:
            return theta / math.pi
        before, now = theta / math.pi, t - (s - theta * c) / math.pi
        for n in range(1, degree):
            before, now = now, now + t * (1 - now) - n * n / (4 * n * n - 1) * sine2 * (1 - before)
        return now

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (t,) = ctx.saved_tensors
        n = ctx.degree
        if n > 0:
            return grad * n * n / (2 * n - 1) * (1 - _Angular.apply(t, n - 1)), None
        sine2 = t * (2 - t)
        inside = sine2 > 0
        return grad * inside * torch.where(inside, sine2, torch.ones_like(sine2)).rsqrt() / math.pi, None


class ArcSine(Kernel):
    """The infinite network with sigmoidal units.

    With ``s(x, z) = bias + Σ_d weight_d x_d z_d``, the prior covariance of the units' inputs,

        units="erf":     k = variance · (2/π) arcsin( 2 s(x, z) / √((1 + 2 s(x, x)) (1 + 2 s(z, z))) )
        units="probit":  k = variance · (¼ + (1/2π) arcsin( s(x, z) / √((1 + s(x, x)) (1 + s(z, z))) ))

    Reference: Williams, Computation with infinite neural networks, 1998.

    >>> ArcSine(weight=1.0, bias=1.0)(torch.tensor([[0.0]])).item()  # (2/π) arcsin(2/3)
    0.46455...
    """

    differentiable = math.inf

    def __init__(
        self,
        weight: Value | Parameter = 1.0,
        bias: Value | Parameter = 1.0,
        variance: Value | Parameter = UNSET,
        units: str = "erf",
        ard: bool | int = False,
    ) -> None:
        super().__init__()
        if units not in ("erf", "probit"):
            raise InputError(f"units must be 'erf' or 'probit', got {units!r}")
        self.units = units
        self.weight = per_column(weight, ard, name="weight")
        self.bias = positive(bias, name="bias")
        self.variance = positive(variance, name="variance")

    def _settings(self) -> str:
        return f"units={self.units!r}"

    def _norm(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n 1"]:
        return self.bias + (self.weight * x.square()).sum(-1, keepdim=True)

    def _link(self, s: Tensor, left: Tensor, right: Tensor) -> Tensor:
        c = 2 if self.units == "erf" else 1
        excess = (
            left * right - s.square()
        )  # ≥ 0 up to rounding, by Cauchy-Schwarz; its curvature counts at equal places
        rest = (1 + c * left + c * right + c * c * excess).clamp_min(1)
        angle = torch.atan2(c * s, rest.sqrt())  # the arcsine, stable near 1
        if self.units == "erf":
            return self.variance * (2 / math.pi) * angle
        return self.variance * (0.25 + angle / (2 * math.pi))

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The arcsine of the units' correlations."""
        return self._link(self.bias + (self.weight * x) @ z.mT, self._norm(x), self._norm(z).mT)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The same with ``z = x``."""
        norm = self._norm(self._points(x, "x"))
        return self._link(norm, norm, norm).squeeze(-1)


class GaussianUnits(Kernel):
    """The infinite network of Gaussian bumps ``exp(−|x − u|²/2g²)`` with centres ``u ~ N(0, s²)``.

    For each column, with width ``g`` and spread ``s``,

        k = (e/s) exp(−x²/2m²) exp(−(x − z)²/2t²) exp(−z²/2m²),
        1/e² = 2/g² + 1/s²,   t² = 2g² + g⁴/s²,   m² = 2s² + g²,

    and over columns the product, times ``variance``. Near the origin it is an RBF; far away it fades.

    >>> near, far = GaussianUnits().diag(torch.tensor([[0.0], [3.0]])).tolist()
    >>> round(near, 3), round(far, 3)  # it fades away from the origin
    (0.577, 0.029)
    """

    differentiable = math.inf

    def __init__(
        self,
        width: Value | Parameter = 1.0,
        spread: Value | Parameter = 1.0,
        variance: Value | Parameter = UNSET,
        ard: bool | int = False,
    ) -> None:
        super().__init__()
        self.width = per_column(width, ard, name="width")
        self.spread = per_column(spread, ard, name="spread")
        self.variance = positive(variance, name="variance")

    def _amplitude(self, columns: int) -> Float[Tensor, "..."]:
        """``Π_d (e_d/s_d)``, with the function axis of a matrix."""
        ratio = 1 / (2 * self.spread.square() / self.width.square() + 1)
        ratio = ratio.expand(*ratio.shape[:-1], columns) if ratio.dim() else ratio.expand(columns)
        return ratio.log().sum(-1, keepdim=ratio.dim() > 1).mul(0.5).exp()

    def _fade(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n 1"]:
        m2 = 2 * self.spread.square() + self.width.square()
        return torch.exp(-0.5 * (x.square() / m2).sum(-1, keepdim=True))

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """A Gaussian in the difference, damped by both points."""
        t2 = 2 * self.width.square() + self.width**4 / self.spread.square()
        near = torch.exp(-0.5 * scaled_sqdist(x, z, t2.rsqrt()))
        return self.variance * self._amplitude(x.shape[-1]) * self._fade(x) * near * self._fade(z).mT

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``variance · Π_d (e_d/s_d) · exp(−Σ x²/m²)``."""
        points = self._points(x, "x")
        return (self.variance * self._amplitude(points.shape[-1]) * self._fade(points).square()).squeeze(-1)
