"""Gaussian processes that see the data through inducing points.

With ``Kzz = L Lᵀ`` and whitened inducing values ``v = L⁻¹u``, ``A = L⁻¹ Kzx`` carries a belief about ``v`` to each row,

    f(xₙ) = m(xₙ) + aₙᵀv + N(0, kₙₙ − |aₙ|²).

**Precision.** Everything with a row for each point is computed in the precision of the points, float32 in stochastic
training. ``Kzz`` and its factor are in that precision too if no pivot of the factor is small, otherwise in float64.
Parameters are kept in float64 unless the module is moved, and cast inside the graph.
``L⁻¹`` amplifies rounding in ``Kzx``, so the layer always adds a fixed ``jitter`` (relative to the mean variance) to
``Kzz``: then ``|L⁻¹| ≤ jitter^(−½)``. The inducing values are those of the process with a little noise,
``u = f(z) + N(0, jitter)``, and the bound remains a bound. The jitter does not depend on the precision, because
``q(v)`` belongs to the factor it was trained with.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers.base import CovarianceName, Layer, with_jitter
from stratagp.layers.inducing_moments import Weights, expected_belief, weights_of
from stratagp.linalg import cholesky
from stratagp.linalg.lower import chunks, each, lower_inverse, lower_times
from stratagp.linalg.triangular import Whitening, project
from stratagp.means import Zero
from stratagp.parameters import Parameter, Value, real
from stratagp.posteriors import FullGaussian, Posterior
from stratagp.types import Gaussian, Mixture

_SMALLEST_PIVOT = 1e-3


class Inducing(Layer):
    """``q`` latent functions ``f ~ GP(mean, kernel)``, known through a posterior over their values at ``z``.

    Arguments:
        kernel: one covariance for all functions, or one with a function axis (``kernel.replicate(q)``).
        z: inducing points ``m d`` for all functions or ``q m d``, learnt unless given as a fixed parameter.
        posterior: the belief about the whitened inducing values; by default a :class:`FullGaussian`.
        mean: the prior mean of all functions, a :class:`~stratagp.means.Mean` or torch module from ``n d`` to ``n``.
        functions: the number of functions, if neither the kernel, ``z`` nor a posterior sets it; 1 by default.
        jitter: noise of the inducing values, relative to their mean prior variance.

    >>> from stratagp import kernels as k
    >>> layer = Inducing(k.RBF(), torch.linspace(0, 1, 5)[:, None], functions=2)
    >>> layer(torch.zeros(3, 1)).mean.shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        kernel: Kernel,
        z: Value | Parameter,
        posterior: Posterior | None = None,
        mean: Any = None,
        functions: int | None = None,
        jitter: float = 1e-6,
    ) -> None:
        super().__init__()
        if not kernel.takes_tensors:
            raise InputError("Inducing needs a kernel over rows of numbers: for objects use kernel.cached(objects)")
        if jitter < 0:
            raise InputError(f"jitter must not be negative, got {jitter}")
        self.kernel = kernel
        self.z = real(z, name="z")
        own = _functions(kernel, self.z)
        self.posterior = FullGaussian(self.z.shape[-2], functions or own or 1) if posterior is None else posterior
        _check_sizes(self.posterior, self.z, {own, functions} - {None})
        self.mean = Zero() if mean is None else mean
        self.jitter = jitter
        self._single = True  # whether Kzz was well conditioned last time

    @property
    def functions(self) -> int:
        """The number of latent functions."""
        return self.posterior.shape[0]

    def factor(self) -> Float[Tensor, "*q m m"]:
        """The lower Cholesky factor of ``k(z, z)`` with its jitter, in float64: expensive, but shared by all rows."""
        return cholesky(self._inducing_covariance(), self._name())

    def whitener(self) -> Float[Tensor, "*q m m"]:
        """``L⁻¹`` without a graph, in float64, shared by predictions of many batches."""
        with torch.no_grad():
            return lower_inverse(self.factor())

    def forward(self, x: Any, whitener: Float[Tensor, "*q m m"] | None = None) -> Gaussian | Mixture:
        """The belief at points ``*s n d``, each part ``*s n q``; at a Gaussian over points, its moments.

        ``whitener`` is the result of :meth:`whitener`, for predictions only: gradients do not pass through it.
        """
        if whitener is not None and torch.is_grad_enabled():
            raise InputError("whitener is for predictions only: call the layer inside torch.no_grad(), or without it")
        if isinstance(x, Gaussian):
            return self._expected(x)
        x = as_tensor(x, "x")
        if x.dim() < 2 or x.shape[-1] != self.z.shape[-1]:
            raise InputError(f"x must have shape (n, {self.z.shape[-1]}), with the columns of z, got {tuple(x.shape)}")
        x = x if x.is_floating_point() else x.double()
        belief = self._rows(x.flatten(0, -2), whitener)
        if isinstance(belief, Gaussian):
            return Gaussian(*(part.unflatten(0, x.shape[:-1]) for part in belief))
        return Mixture(belief.log_weights, Gaussian(*(part.unflatten(1, x.shape[:-1]) for part in belief.parts)))

    def weights(self) -> Weights:
        """What all beliefs at uncertain points share."""
        return weights_of(self.z.double(), self.factor(), self.posterior)

    def kl(self) -> Float[Tensor, ""]:
        """``KL(q(v) ‖ N(0, I))``."""
        return self.posterior.kl()

    def draw(self, generator: torch.Generator | None = None, n_features: int = 1000) -> Callable[[Tensor], Tensor]:
        """One function by Matheron's rule: a prior draw ``g`` from random features, corrected at the inducing points.

        f(x) = m(x) + g(x) + k(x, z) (Kzz + jitter)⁻¹ (Lv − g(z) − ε),   v ~ q,   ε ~ N(0, jitter)

        Where the kernel has no random features, as over objects, rows share ``v`` alone: what inducing values leave
        open is drawn for each row by itself, with the right variance. Equal row numbers get equal noise.
        """
        with torch.no_grad():
            try:
                return _Function(self, generator, n_features)
            except UnsupportedError:
                return _ByRows(self, generator)

    def _inducing_covariance(self, dtype: torch.dtype = torch.float64) -> Float[Tensor, "*q m m"]:
        return with_jitter(in_precision(self.kernel, dtype, self.z.to(dtype)), self.jitter)

    def _name(self) -> CovarianceName:
        return CovarianceName("the inducing points", self.kernel)

    def _whitening(self, dtype: torch.dtype) -> Whitening:
        """``Kzz`` with a graph, and ``L⁻¹`` in the precision ``dtype``; both are computed in it if that suffices.

        If the matrix was ill-conditioned a step ago, single precision is used only if float64 shows that it suffices.
        """
        tried = self._single or dtype == torch.float64
        found = self._whitening_in_single() if dtype == torch.float32 and tried else None
        if found is not None:
            return found
        kzz = in_precision(self.kernel, torch.float64, self.z.double())
        factor = cholesky(with_jitter(kzz.detach(), self.jitter), self._name())
        if not tried and _is_well_conditioned(factor):
            found = self._whitening_in_single()
        self._single = found is not None
        return Whitening(kzz, lower_inverse(factor).to(dtype), self.jitter) if found is None else found

    def _whitening_in_single(self) -> Whitening | None:
        """The same in float32, or None if that does not suffice."""
        kzz = in_precision(self.kernel, torch.float32, self.z.float())
        inverse = torch.empty_like(kzz, memory_format=torch.contiguous_format)
        matrices, inverses = each(kzz.detach()), each(inverse)
        for at in chunks(matrices):
            factor, failed = torch.linalg.cholesky_ex(with_jitter(matrices[at], self.jitter))
            if failed.any() or not _is_well_conditioned(factor):
                return None
            inverses[at] = lower_inverse(factor)
        return Whitening(kzz, inverse, self.jitter)

    def _expected(self, x: Gaussian) -> Gaussian:
        """The belief at uncertain points, by :mod:`stratagp.layers.inducing_moments`."""
        rows = Gaussian(*(part.double().flatten(0, -2) for part in x))
        found = expected_belief(self.kernel, self.z.double(), self.weights(), self.mean, rows)
        return Gaussian(*(part.unflatten(0, x.mean.shape[:-1]).to(x.mean) for part in found))

    def _rows(self, x: Float[Tensor, "n d"], whitener: Float[Tensor, "*q m m"] | None) -> Gaussian | Mixture:
        mean, kxz, kdiag = in_precision(_Prior(self.kernel, self.mean), x.dtype, x, self.z.to(x))
        kzx, kdiag = kxz.mT, kdiag.expand(*kxz.shape[:-2], -1)
        if whitener is None:
            belief = self.posterior.from_covariance(kzx, kdiag, self._whitening(x.dtype))
        else:
            belief = self.posterior.marginals(lower_times(whitener.to(kzx), kzx), kdiag)
        if isinstance(belief, Gaussian):
            return Gaussian(belief.mean + mean, belief.var)
        return Mixture(belief.log_weights, Gaussian(belief.parts.mean + mean, belief.parts.var))


class _Prior(nn.Module):
    """Mean and covariance in one module, so that one call casts the parameters of both."""

    def __init__(self, kernel: Kernel, mean: Any) -> None:
        super().__init__()
        self.kernel, self.mean = kernel, mean

    def forward(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.mean(x)[:, None], self.kernel(x, z), self.kernel.diag(x)


class _Function:
    """A drawn function in float64; it keeps copies of what it needs, so that later training does not change it."""

    def __init__(self, layer: Inducing, generator: torch.Generator | None, n_features: int) -> None:
        self.z = layer.z.double().clone().detach()
        self.prior = copy.deepcopy(_Prior(layer.kernel, layer.mean)).double().requires_grad_(False)
        kernel, factor, v = self.prior.kernel, layer.factor(), layer.posterior.draw(generator)
        self.features = kernel.random_features(n_features, self.z.shape[-1], generator)
        phi = self.features(self.z)
        draws = torch.randn(len(v), phi.shape[-1] + phi.shape[-2], generator=generator, dtype=torch.float64).to(v)
        self.weights, epsilon = draws.split([phi.shape[-1], phi.shape[-2]], 1)
        noise = (layer.jitter * kernel.diag(self.z).mean(-1, keepdim=True)).sqrt() * epsilon
        gap = (factor @ v[..., None]).squeeze(-1) - project(phi.mT, self.weights).mT - noise
        self.correction = torch.cholesky_solve(gap[..., None], factor.expand(len(v), -1, -1)).squeeze(-1)

    def __call__(self, x: Float[Tensor, "*s n d"]) -> Float[Tensor, "*s n q"]:
        rows = x.double().flatten(0, -2)
        mean, kxz, _ = self.prior(rows, self.z)
        values = mean + project(self.features(rows).mT, self.weights) + project(kxz.mT, self.correction)
        return values.unflatten(0, x.shape[:-1]).to(x)


class _ByRows:
    """Values ``m(x) + aᵀv + ε √(k(x, x) − |a|²)`` in float64, with one draw of ``v`` and an ``ε`` for each row."""

    def __init__(self, layer: Inducing, generator: torch.Generator | None) -> None:
        self.layer, self.v = copy.deepcopy(layer).double().requires_grad_(False), layer.posterior.draw(generator)
        self.whitener = self.layer.whitener()
        self.seed = int(torch.randint(2**31 - 1, (), generator=generator))

    def __call__(self, x: Float[Tensor, "*s n d"]) -> Float[Tensor, "*s n q"]:
        rows = x.double().flatten(0, -2)
        prior = _Prior(self.layer.kernel, self.layer.mean)
        with torch.no_grad():
            mean, kxz, kdiag = prior(rows, self.layer.z)
            a = lower_times(self.whitener, kxz.mT)
            found = mean + project(a, self.v)
            noise = torch.randn(x.shape[-2], len(self.v), generator=torch.Generator().manual_seed(self.seed))
            left = (kdiag - a.square().sum(-2)).clamp_min(0).expand(len(self.v), -1).mT
            found = found + left.sqrt() * noise.to(found).repeat(len(rows) // len(noise), 1)
        return found.unflatten(0, x.shape[:-1]).to(x)


def in_precision(module: nn.Module, dtype: torch.dtype, *inputs: Tensor) -> Any:
    """``module(*inputs)`` with its floating parameters and buffers cast to ``dtype``; gradients reach the originals.

    >>> from stratagp import kernels as k
    >>> in_precision(k.RBF(), torch.float32, torch.zeros(1, 1)).dtype
    torch.float32
    """
    held: list[tuple[dict[str, Any], str, Tensor]] = []
    for part in module.modules():
        stores: tuple[dict[str, Any], ...] = (part._parameters, part._buffers)
        for store in stores:
            held += [(store, name, t) for name, t in store.items() if t is not None and t.is_floating_point()]
    try:
        for store, name, tensor in held:
            store[name] = tensor.to(dtype)
        return module(*inputs)
    finally:
        for store, name, tensor in held:
            store[name] = tensor


def _is_well_conditioned(factor: Float[Tensor, "*q m m"]) -> bool:
    """Whether each conditional variance of an inducing value is at least a thousandth of the average variance.

    Then errors of single precision in ``Kzz`` change the marginals by a ten-thousandth or so.
    """
    pivots = factor.diagonal(dim1=-2, dim2=-1).square()
    variance = torch.linalg.vector_norm(factor, dim=(-2, -1)).square() / factor.shape[-1]
    return bool((pivots.amin(-1) >= _SMALLEST_PIVOT * variance).all())


def _functions(kernel: Kernel, z: Tensor) -> int | None:
    """The number of functions of the kernel and the points, or None if all functions share both."""
    if z.dim() not in (2, 3) or not z.numel():
        raise InputError(f"z must have shape (m, d), or (q, m, d) with points for each function, got {tuple(z.shape)}")
    own = {size for size in (kernel.functions, len(z) if z.dim() == 3 else None) if size is not None}
    if len(own) > 1:
        raise InputError(f"kernel has {kernel.functions} functions, but z has points for {len(z)}")
    return own.pop() if own else None


def _check_sizes(posterior: Posterior, z: Tensor, functions: set[int | None]) -> None:
    q, m = posterior.shape
    if m != z.shape[-2]:
        raise InputError(f"posterior has {m} inducing values, but z has {z.shape[-2]} points")
    if functions - {q}:
        other = max(size for size in functions - {q} if size is not None)
        raise InputError(f"posterior has {q} functions, but the kernel, z or functions says {other}")
