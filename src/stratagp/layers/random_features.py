"""Gaussian processes by random features: Bayesian linear models on cosines and sines, or on rectified units.

    f(h) = φ(h; Ω) W,        W ~ N(0, I),        φ = √(variance/M) [cos hΩᵀ, sin hΩᵀ]  or  √(2 variance/M) H(hΩᵀ) (hΩᵀ)ⁿ

for ``M`` frequencies in the rows of ``Ω``, the first for RBF and Matérn kernels, the second for arc-cosine ones of
degree ``n``. The belief about the weights is a Gaussian with independent entries, ``q(W) = Π N(m, s²)``, and so the
values at a row are Gaussian with

    mean = φ m,        var = φ² s²:

sampling these instead of the weights has less noise (local reparameterisation). Frequencies have the prior
``N(0, diag(1/ℓ²) c²)``, with ``c = 1``, or for a Matérn kernel the factor that makes them a Student t, drawn
once and kept: the prior of a frequency is the Gaussian given its factor. There are three ways to treat them:

    prior-fixed      Ω = c z/ℓ,      z ~ N(0, I) drawn once and kept; gradients reach lengthscales through it
    var-fixed        Ω = η + β z,    z drawn once; η and β are learnt, and KL(q(Ω) ‖ p(Ω)) is a cost, the only
                                     term that teaches lengthscales
    var-resampled    Ω = η + β z,    z drawn anew at each call and for each sample

Reference: Cutajar, Bonilla, Michiardi and Filippone, Random feature expansions for deep Gaussian processes, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels import ArcCosine, Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers.base import Layer
from stratagp.layers.directions import check_kernel, directions, root_precision, spread
from stratagp.linalg.triangular import LEAST_VARIANCE
from stratagp.linalg.waves import wave_marginals
from stratagp.posteriors import DiagonalGaussian
from stratagp.types import Gaussian

FREQUENCIES = ("prior-fixed", "var-fixed", "var-resampled")
_LOG_SCALE = -1.0  # initial log s of all weights


class RandomFeatures(Layer):
    """``outputs`` functions of ``dim`` columns, by random features of a kernel that they share.

    Weights start at mean zero with a variance of e⁻²: the bound rises faster from there than from the prior, because
    samples of hidden values are less noisy. With arc-cosine units of degree 0, which are steps, neither frequencies nor
    lengthscales have a gradient through the values.

    Arguments:
        kernel: an RBF, a Matern with a fixed ``nu`` or an ArcCosine of depth 1; it is not copied.
        dim: the number of columns of the points.
        outputs: the number of functions.
        n_features: the number ``M`` of frequencies; with cosines and sines there are twice as many features.
        frequencies: "prior-fixed", "var-fixed" or "var-resampled".
        draws: how to draw frequencies, "independent", "orthogonal" or "quasi"; resampled ones are always independent,
            as their divergence assumes.
        n_samples: with "var-resampled", the number of draws for points without a sample axis.
        generator: the source of frequencies, now and when they are resampled.

    >>> from stratagp import kernels as k
    >>> layer = RandomFeatures(k.RBF(ard=True), dim=2, outputs=3, n_features=50)
    >>> layer(torch.zeros(4, 2)).mean.shape
    torch.Size([4, 3])
    """

    normal: Float[Tensor, "f c"]
    factor: Float[Tensor, "f 1"]

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        outputs: int = 1,
        n_features: int = 100,
        frequencies: str = "prior-fixed",
        draws: str = "independent",
        n_samples: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        _check(kernel, frequencies, dim=dim, outputs=outputs, n_features=n_features, n_samples=n_samples)
        self.kernel: Any = kernel.bind(dim)
        self.kernel._check_columns(dim)
        self.dim, self.frequencies = dim, frequencies
        self.n_samples, self.generator = n_samples, generator
        self.posterior = DiagonalGaussian(n_features * (1 if self.is_rectified else 2), outputs)
        nn.init.constant_(self.posterior.log_scale, _LOG_SCALE)
        normal, uniform = directions(n_features, len(root_precision(self.kernel, dim)), draws, generator)
        self.register_buffer("normal", normal[0])
        self.register_buffer("factor", spread(kernel, uniform[0]))
        self.register_buffer("seed", torch.randint(2**31, (), generator=generator))  # for frequencies in predictions
        self.frequency_mean = self.frequency_log_scale = None
        if frequencies != "prior-fixed":
            self.frequency_mean = nn.Parameter(torch.zeros_like(self.normal))
            self.frequency_log_scale = nn.Parameter(torch.zeros_like(self.normal))
            self.restart_frequencies()

    def forward(self, x: Any) -> Gaussian:
        """The belief at points ``*s n d``, each part ``*s n q``; for ``n d`` with resampled frequencies, ``s n q``."""
        x = self._points(x)
        if self.frequencies != "var-resampled":
            return self._belief(x, self.omega(self.normal))
        return self._belief(x, self.omega(self._resampled(self._count(x, self.n_samples), self.generator)))

    def at_nodes(self, x: Any, count: int) -> Gaussian:
        """The belief for predictions, the same in each call: resampled frequencies are ``count`` fixed draws."""
        x = self._points(x)
        return self._belief(x, self.omega_at_nodes(self._count(x, count)))

    def omega_at_nodes(self, count: int) -> Float[Tensor, "*s f c"]:
        """The frequencies for predictions: those drawn once, or ``count`` fixed draws, in pairs of opposite noise."""
        if self.frequencies != "var-resampled":
            return self.omega(self.normal)
        generator = torch.Generator().manual_seed(int(self.seed))
        half = self._resampled(-(-count // 2), generator)
        return self.omega(torch.stack([half, -half], 1).flatten(0, 1)[:count])

    def omega(self, normal: Float[Tensor, "*s f c"]) -> Float[Tensor, "*s f c"]:
        """Frequencies from normal numbers: ``c z/ℓ`` of the prior, or ``η + β z``."""
        if self.frequency_mean is None or self.frequency_log_scale is None:
            return normal * self._prior_scale()
        return self.frequency_mean + self.frequency_log_scale.exp() * normal

    def kl(self) -> Float[Tensor, ""]:
        """``KL(q(W) ‖ N(0, I))``, and ``KL(q(Ω) ‖ p(Ω))`` if frequencies are learnt."""
        if self.frequency_mean is None or self.frequency_log_scale is None:
            return self.posterior.kl()
        scale = self._prior_scale().double()
        log_ratio = self.frequency_log_scale.double() - scale.log()
        square = (self.frequency_mean.double() / scale).square() + (2 * log_ratio).exp() - 1
        return self.posterior.kl() + 0.5 * square.sum() - log_ratio.sum()

    def restart_frequencies(self) -> None:
        """Set ``q(Ω)`` to the prior; use it after changing lengthscales by hand."""
        if self.frequency_mean is not None and self.frequency_log_scale is not None:
            with torch.no_grad():
                self.frequency_mean.zero_()
                self.frequency_log_scale.copy_(self._prior_scale().log())

    def settle_frequencies(self, share: float) -> None:
        """Centre ``q(Ω)`` on the frequencies drawn once, with ``share`` times the prior's standard deviations."""
        if self.frequency_mean is not None and self.frequency_log_scale is not None:
            with torch.no_grad():
                self.frequency_mean.copy_(self.omega(self.normal))
                self.frequency_log_scale.add_(math.log(share))

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One function: weights from ``q(W)``, and frequencies from ``q(Ω)`` if they are resampled."""
        with torch.no_grad():
            weights = self.posterior.draw(generator)
            normal = self._resampled(1, generator)[0] if self.frequencies == "var-resampled" else self.normal
            omega, amplitude = self.omega(normal).double().clone(), self.amplitude().double().clone()

        def function(x: Float[Tensor, "*s n d"]) -> Float[Tensor, "*s n q"]:
            phi = self._features(self._points(x).double(), omega)
            return (amplitude * (phi @ weights.mT)).to(x)

        return function

    def features(self, x: Any) -> Float[Tensor, "*s n f"]:
        """``φ(x)`` with the frequencies drawn once, or the expected ones if they are resampled."""
        x = self._points(x)
        normal = torch.zeros_like(self.normal) if self.frequencies == "var-resampled" else self.normal
        return self.amplitude().to(x) * self._features(x, self.omega(normal).to(x))

    @property
    def functions(self) -> int:
        """The number of functions."""
        return self.posterior.shape[0]

    @property
    def is_rectified(self) -> bool:
        """Whether features are rectified projections (of an arc-cosine kernel) rather than waves."""
        return isinstance(self.kernel, ArcCosine)

    def _belief(self, x: Float[Tensor, "*s n c"], omega: Float[Tensor, "*t f c"]) -> Gaussian:
        amplitude, omega = self.amplitude(), omega.to(x)
        mean = (amplitude * self.posterior.mean).to(x)
        var = (amplitude * self.posterior.scale).square().to(x)
        if self.is_rectified:
            phi = self._features(x, omega)
            found, spread = phi @ mean.mT, phi.square() @ var.mT
        else:
            found, spread = wave_marginals(x, omega, mean, var)
        return Gaussian(found, spread.clamp_min(LEAST_VARIANCE))

    def _features(self, x: Float[Tensor, "*s n c"], omega: Float[Tensor, "*t f c"]) -> Float[Tensor, "*b n p"]:
        """Features without their amplitude."""
        phase = x @ omega.mT
        if not self.is_rectified:
            return torch.cat([phase.cos(), phase.sin()], -1)
        return phase.relu() ** self.kernel.degree if self.kernel.degree else (phase > 0).to(phase)

    def amplitude(self) -> Float[Tensor, ""]:
        """The factor on features: ``√(variance/f)``, times ``√2`` if they are rectified."""
        return (self.kernel.variance * (2 if self.is_rectified else 1) / len(self.normal)).sqrt()

    def _prior_scale(self) -> Float[Tensor, "f c"]:
        return self.factor * root_precision(self.kernel, self.dim)

    def _resampled(self, count: int, generator: torch.Generator | None) -> Float[Tensor, "s f c"]:
        f, c = self.normal.shape
        return directions(f, c, "independent", generator, count)[0].to(self.normal)

    def _count(self, x: Tensor, count: int) -> int:
        return count if x.dim() == 2 else len(x)

    def _points(self, x: Any) -> Float[Tensor, "*s n c"]:
        """Checked points, with a column of ones if the kernel has a bias."""
        if isinstance(x, Gaussian):
            raise InputError("RandomFeatures takes points, not beliefs about them: use propagate='samples'")
        x = as_tensor(x, "x")
        x = x if x.is_floating_point() else x.double()
        deepest = 3 if self.frequencies == "var-resampled" else math.inf
        if not 2 <= x.dim() <= deepest or x.shape[-1] != self.dim:
            raise InputError(f"x must have shape (n, {self.dim}), or be samples of such points, got {tuple(x.shape)}")
        extra = self.normal.shape[1] - self.dim
        return torch.cat([x, x.new_ones(*x.shape[:-1], extra)], -1) if extra else x


def _check(kernel: Kernel, frequencies: str, **sizes: int) -> None:
    check_kernel(kernel)
    if frequencies not in FREQUENCIES:
        raise InputError(f"frequencies must be one of {', '.join(FREQUENCIES)}, got {frequencies!r}")
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name} must be at least 1, got {size}")
