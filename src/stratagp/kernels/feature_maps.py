"""Random features: a finite map φ with ``E φ(x)·φ(z) = k(x, z)``, drawn once and fixed from then on.

Every map here is a list of **terms**. A term has ``M`` draws, and draw ``m`` turns a point into an
amplitude and a phase,

    φ_m(x) = M^(−½) a_m(x) [cos θ_m(x), sin θ_m(x)],
    φ_m(x)·φ_m(z) = a_m(x) a_m(z) cos(θ_m(x) − θ_m(z))/M,

or into an amplitude alone. Stationary kernels have ``a = √variance`` and ``θ_m = ω_m·x``. Sums of kernels
put terms side by side; in products amplitudes multiply and phases add, draw by draw, so a product of many
kernels has no more features than one of them. The noise of a draw is a buffer; the kernel's parameters stay
live, and gradients reach them through the map.

A custom kernel provides features by two methods: ``wave(x, **noise)``, which returns a :class:`Wave`, and
``random_features``, which draws the noise and calls :func:`drawn_features`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels.base import Kernel
from stratagp.kernels.spectral import Rng as Rng
from stratagp.linalg.shapes import broadcast_shapes


class Wave(NamedTuple):
    """Amplitudes and phases of ``f`` draws at ``n`` points; without phases, amplitudes are the features.

    >>> Wave(torch.ones(()), torch.zeros(3, 2)).phase.shape
    torch.Size([3, 2])
    """

    amplitude: Float[Tensor, "..."]
    phase: Float[Tensor, "*q n f"] | None = None


class FeatureMap(nn.Module, ABC):
    """A feature map φ, the same at each call.

    ``size`` is the number of features and ``dim`` the number of columns of the points.

    >>> from stratagp import kernels as k
    >>> phi = k.RBF().random_features(100, dim=2, generator=torch.Generator().manual_seed(0))
    >>> phi(torch.zeros(3, 2)).shape
    torch.Size([3, 200])
    """

    def __init__(self, dim: int, size: int) -> None:
        super().__init__()
        self.dim, self.size = dim, size

    @abstractmethod
    def forward(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n f"]:
        """``φ(x)``, a row for each point."""

    def __call__(self, x: Any) -> Float[Tensor, "*q n f"]:
        """``φ(x)``; checks the points and converts them to the map's precision first."""
        x = torch.as_tensor(x)
        if x.dim() not in (2, 3) or x.shape[-1] != self.dim:
            raise InputError(f"x must have shape (n, {self.dim}) for this map, got {tuple(x.shape)}")
        own = next(self.parameters(), None)
        return super().__call__(x if own is None else x.to(own))


class WaveTerm(nn.Module, ABC):
    """``draws`` random draws of one wave, with phases (``oscillates``) or without."""

    def __init__(self, draws: int, oscillates: bool) -> None:
        super().__init__()
        self.draws, self.oscillates = draws, oscillates

    @property
    def size(self) -> int:
        """The number of features."""
        return self.draws * (2 if self.oscillates else 1)

    @property
    def random(self) -> bool:
        """Whether the draws are random, so that they can be multiplied one by one with those of another term."""
        return any(True for _ in self.buffers())

    @abstractmethod
    def forward(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        """The wave at ``x``."""


class Drawn(WaveTerm):
    """``kernel.wave(x, **noise)``: the kernel with its current values and fixed noise."""

    def __init__(self, kernel: Kernel, draws: int, oscillates: bool, noise: dict[str, Tensor]) -> None:
        super().__init__(draws, oscillates)
        self.kernel = kernel
        own = next(kernel.parameters())
        for name, value in noise.items():
            self.register_buffer(name, value.to(own if value.is_floating_point() else own.device))

    def forward(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        """The kernel's wave."""
        return self.kernel.wave(x, **dict(self.named_buffers(recurse=False)))


class Times(WaveTerm):
    """The product of independent terms: amplitudes multiply, phases add."""

    def __init__(self, factors: Sequence[WaveTerm]) -> None:
        draws = {f.draws for f in factors} - {1}
        exact = [f for f in factors if f.draws > 1 and not f.random]
        if len(draws) > 1 or len(exact) > 1:
            raise UnsupportedError(
                "random features of a product need equally many draws of each factor: leave out factors with finitely "
                "many exact features, such as a linear kernel"
            )
        super().__init__(max(f.draws for f in factors), any(f.oscillates for f in factors))
        self.factors = nn.ModuleList(factors)

    def forward(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        """``Π a_i`` and ``Σ θ_i``."""
        waves = [factor(x) for factor in self.factors]
        phases = [wave.phase for wave in waves if wave.phase is not None]
        return Wave(math.prod(wave.amplitude for wave in waves), sum(phases) if phases else None)


class After(WaveTerm):
    """A term at ``u(x)``."""

    def __init__(self, inner: WaveTerm, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__(inner.draws, inner.oscillates)
        self.inner, self.function = inner, function

    def forward(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        """The inner wave at the warped points."""
        return self.inner(self.function(x))


class Height(WaveTerm):
    """The single feature ``g(x)``, one number per row."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__(1, False)
        self.function = function

    def forward(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        """``g(x)`` as an amplitude."""
        return Wave(self.function(x))


class WaveFeatures(FeatureMap):
    """The features of several terms, side by side: the map of a sum of kernels, or of one."""

    def __init__(self, dim: int, terms: Sequence[WaveTerm]) -> None:
        super().__init__(dim, sum(term.size for term in terms))
        self.terms = nn.ModuleList(terms)

    def forward(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n f"]:
        """For each term the cosines, then the sines."""
        blocks: list[Tensor] = []
        for term in wave_terms(self):
            amplitude, phase = term(x)
            amplitude = amplitude / math.sqrt(term.draws)
            blocks += [amplitude] if phase is None else [amplitude * phase.cos(), amplitude * phase.sin()]
        functions = broadcast_shapes(*(block.shape[:-2] for block in blocks))
        return torch.cat([block.expand(*functions, *block.shape[-2:]) for block in blocks], -1)


class StackedFeatures(FeatureMap):
    """One map for each latent function, ``q n f``; the shorter ones end in zeros."""

    def __init__(self, maps: Sequence[FeatureMap]) -> None:
        super().__init__(maps[0].dim, max(m.size for m in maps))
        self.maps = nn.ModuleList(maps)

    def forward(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "q n f"]:
        """The features of each function at the points, or at its own points."""
        rows = [m(x[i] if x.dim() == 3 else x) for i, m in enumerate(self.maps)]
        return torch.stack([nn.functional.pad(phi, (0, self.size - phi.shape[-1])) for phi in rows])


def drawn_features(kernel: Kernel, dim: int, draws: int, oscillates: bool = True, **noise: Tensor) -> FeatureMap:
    """The map of a kernel with a ``wave`` method, from the noise of ``draws`` waves.

    >>> from stratagp import kernels as k
    >>> noise = {"frequency": torch.randn(5, 2), "uniform": torch.rand(5, 1)}
    >>> drawn_features(k.RBF(), 2, 5, **noise)(torch.zeros(3, 2)).shape  # cosines and sines
    torch.Size([3, 10])
    """
    return WaveFeatures(dim, [Drawn(kernel, draws, oscillates, noise)])


def check_request(kernel: Kernel, n_features: int, dim: int) -> None:
    """Refuse numbers below one, and a number of columns that does not suit the kernel."""
    for name, value in (("n_features", n_features), ("dim", dim)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    kernel._check_columns(dim)


def arc_cosine_wave(
    x: Float[Tensor, "*qx n d"], normal: Float[Tensor, "f d"], degree: int, variance: Float[Tensor, "..."]
) -> Wave:
    """``√(2 variance) H(w·x) (w·x)ⁿ`` for the rows ``w`` of ``normal``: the arc-cosine kernel of degree n.

    The points are already divided by the lengthscale. With degree 0 the features are steps: no gradient
    reaches ``x``.
    """
    projection = x @ normal.mT
    return Wave((2 * variance).sqrt() * (projection > 0) * projection**degree)


def wave_terms(features: FeatureMap) -> list[WaveTerm]:
    """The terms of a map, for sums and products."""
    if not isinstance(features, WaveFeatures):
        raise UnsupportedError(
            "random features of Separate and Convolved cannot be part of a sum or a product of kernels: combine the "
            "kernels inside Separate or Convolved instead"
        )
    return [term for term in features.terms if isinstance(term, WaveTerm)]


def multiplied(maps: Sequence[FeatureMap]) -> FeatureMap:
    """The map of a product of kernels: draws multiply one by one, and sums among the factors are expanded."""
    products = itertools.product(*(wave_terms(m) for m in maps))
    return WaveFeatures(maps[0].dim, [Times(factors) for factors in products])


def composed(
    base: Kernel, function: Callable[[Tensor], Tensor], n_features: int, dim: int, generator: Rng
) -> FeatureMap:
    """The base kernel's features of ``function(x)``."""
    own = next(base.parameters())
    columns = function(torch.ones(1, dim, dtype=own.dtype, device=own.device)).shape[-1]
    inner = base.random_features(n_features, columns, generator)
    return WaveFeatures(dim, [After(term, function) for term in wave_terms(inner)])
