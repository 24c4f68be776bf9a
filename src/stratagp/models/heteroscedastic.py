"""Regression with noise that depends on the input: a second Gaussian process models its log variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import RBF, Kernel
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.means import Constant
from stratagp.models.data_checks import check_data
from stratagp.models.exact import ExactGP, ExactPosterior
from stratagp.models.memory import check_memory
from stratagp.models.process import Process
from stratagp.objectives.evidence import CovarianceOf
from stratagp.objectives.heteroscedastic import NoiseBelief, heteroscedastic_bound
from stratagp.objectives.sites import WarmStart
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian, NumbersLike, PointsLike


class HeteroscedasticGP(Parameterised):
    """``y = f(x) + exp(g(x)/2) ε`` with ``f ~ GP(mean, kernel)``, ``g ~ GP(log noise, noise_kernel)``, ``ε ~ N(0, 1)``.

    ``f`` is integrated out exactly; the belief about ``g`` is the best Gaussian one (Lázaro-Gredilla and Titsias 2011).

    Arguments:
        kernel: the covariance of the function, bound to its columns.
        noise_kernel: the covariance of the log noise variance; by default a smooth ``RBF(lengthscale=2)`` for columns
            of about unit scale. Its variance sets how much the noise varies: 1 is a factor of e either way.
        mean: the prior mean, a :class:`~stratagp.means.Mean` or any torch module from ``n d`` to ``n``.
        noise: the noise variance (its median under the prior) to which the belief returns far from data; learnt.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 60, dtype=torch.float64)[:, None]
    >>> y = x[:, 0].sin() + 0.2 * x[:, 0] * (40 * x[:, 0]).sin()  # ever rougher
    >>> posterior = HeteroscedasticGP(k.RBF()).condition(x, y)
    >>> posterior.noise(torch.tensor([[1.0], [5.0]], dtype=torch.float64))
    tensor([0.0305, 0.5640], dtype=torch.float64)
    """

    def __init__(self, kernel: Any, noise_kernel: Any = None, mean: Any = None, noise: Value | Parameter = 0.1) -> None:
        super().__init__()
        function = ExactGP(kernel, mean)
        if noise_kernel is None and not kernel.takes_tensors:
            raise InputError("noise_kernel is required if kernel is over objects: give a kernel over the same objects")
        noise_kernel = RBF(lengthscale=2.0) if noise_kernel is None else noise_kernel
        if not isinstance(noise_kernel, Kernel):
            raise InputError(
                f"noise_kernel must be a kernel such as RBF(), got {noise_kernel!r}; pass noise by keyword"
            )
        self.kernel, self.noise_kernel, self.mean = kernel, noise_kernel, function.mean
        self.noise = positive(noise, name="noise")

    def log_evidence(self, x: PointsLike, y: NumbersLike, start: WarmStart | None = None) -> Float[Tensor, ""]:
        """A lower bound on ``log p(y | x)``, the best for a Gaussian ``q(g)``: the score of the hyperparameters.

        ``start`` stores where the iteration ended, so that the next call with the same data begins there.
        """
        x, y = check_data(self.kernel, x, y)
        state = None if start is None else start.state
        fits = isinstance(state, NoiseBelief) and state.noise.shape == y.shape
        value, belief = self._bound(x, y, state if fits else None)
        if start is not None:
            start.state = belief
        return value

    def log_posterior(self, x: PointsLike, y: NumbersLike, start: WarmStart | None = None) -> Float[Tensor, ""]:
        """The bound plus ``log p(θ)``: the score to maximise if parameters have priors (MAP)."""
        return self.log_evidence(x, y, start) + self.log_prior()

    def condition(self, x: PointsLike, y: NumbersLike) -> HeteroscedasticPosterior:
        """Both processes given the observations.

        Each is an exact posterior: that of ``f`` given noise ``ρ``, that of ``g`` given pseudo-observations
        ``μ + α/τ`` with noise ``1/τ`` (see :mod:`stratagp.objectives.heteroscedastic`).
        """
        x, y = check_data(self.kernel, x, y)
        with torch.no_grad():
            _, belief = self._bound(x, y, None)
            log_noise = self.noise.log()
            precision, _, weights = belief.sites
            pseudo = log_noise + belief.offset + weights / precision
        function = ExactGP(self.kernel, self.mean, self.parameter("noise"))
        log_variance = ExactGP(self.noise_kernel, Constant(log_noise))
        return HeteroscedasticPosterior(
            function.condition(x, y, noise=belief.noise), log_variance.condition(x, pseudo, noise=1 / precision)
        )

    def _bound(self, x: PointsLike, y: Tensor, earlier: NoiseBelief | None) -> tuple[Tensor, NoiseBelief]:
        check_memory(len(y), "heteroscedastic regression", 5, y.element_size())
        names = CovarianceOf(self.kernel), CovarianceOf(self.noise_kernel)
        residual = y - self.mean(x)
        return heteroscedastic_bound(self.kernel(x), self.noise_kernel(x), residual, self.noise.log(), earlier, names)


@dataclass(frozen=True)
class HeteroscedasticPosterior(Process):
    """A function and the log of its noise variance, given data; as a process, it answers about the function.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 30, dtype=torch.float64)[:, None]
    >>> posterior = HeteroscedasticGP(k.RBF()).condition(x, x[:, 0].sin())
    >>> posterior.noise(x[:4]).shape, posterior.marginals(x[:4]).mean.shape
    (torch.Size([4]), torch.Size([4, 1]))
    """

    function: Any  # the posterior of an exact process, or of Vecchia's
    log_variance: ExactPosterior

    def mean(self, x: PointsLike) -> Float[Tensor, " n"]:
        """The expected function at each row."""
        return self.function.mean(x)

    def variance(self, x: PointsLike) -> Float[Tensor, " n"]:
        """``var f(x)`` at each row; add :meth:`noise` for observations."""
        return self.function.variance(x)

    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "n m"]:
        """``cov(f(x), f(z))``."""
        return self.function.covariance(x, z)

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance of the function at each row, as ``n 1``; add :meth:`noise` for observations."""
        return self.function.marginals(x)

    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """One function by Matheron's rule."""
        return self.function.draw(n_features, generator)

    def log_noise(self, x: PointsLike) -> Gaussian:
        """Mean and variance of ``g``, the log noise variance, at each row, as ``n 1``."""
        return self.log_variance.marginals(x)

    def noise(self, x: PointsLike) -> Float[Tensor, " n"]:
        """The expected noise variance at each row, ``E exp(g) = exp(m + v/2)``."""
        belief = self.log_noise(x)
        return (belief.mean + 0.5 * belief.var).exp().squeeze(-1)

    def log_predictive(self, x: PointsLike, y: NumbersLike) -> Float[Tensor, " n"]:
        """``log p(yᵢ | data) = log E N(yᵢ; mean, var f + exp(g))``, the expectation over ``g`` by quadrature."""
        x, y = check_data(self.function.prior.kernel, x, y)
        belief, log_noise = self.marginals(x), self.log_noise(x)
        nodes, log_weights = normal_nodes(1, y)
        spread = (belief.var + log_noise.sample(nodes[:, 0]).exp()).sqrt()
        log_density = torch.distributions.Normal(belief.mean, spread).log_prob(y[:, None])
        return torch.logsumexp(log_density + log_weights, 1)
