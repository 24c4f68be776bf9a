"""The log marginal likelihood of an exact Gaussian process with its gradient: ours, and that of each peer.

Each maker takes a :class:`Problem` and returns a :class:`Contestant`, or skips where its library is absent.
The kernel is ``variance · exp(−½ Σ_d (x_d − z_d)²/ℓ_d²)``; the mean is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from harness import peer
from stratagp.kernels import RBF
from stratagp.linalg import gaussian_kernel, gaussian_log_density

COLUMNS = 8


class Problem(NamedTuple):
    """Data and the hyperparameters at which everybody evaluates."""

    x: Tensor
    y: Tensor
    lengthscale: Tensor
    variance: Tensor
    noise: Tensor


class Answer(NamedTuple):
    """The value and its gradient with respect to the logs of variance, lengthscales and noise."""

    value: float
    gradient: np.ndarray


class Contestant(NamedTuple):
    """``run`` is timed; ``read`` brings what it returns into the common form."""

    run: Callable[[], Any]
    read: Callable[[Any], Answer]


def problem(n: int) -> Problem:
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, COLUMNS, generator=generator, dtype=torch.float64)
    y = torch.sin(x.sum(1)) + 0.3 * torch.randn(n, generator=generator, dtype=torch.float64)
    lengthscale, scalars = torch.linspace(1.0, 3.0, COLUMNS), torch.tensor([1.5, 0.1], dtype=torch.float64)
    return Problem(x, y, lengthscale.double(), scalars[0], scalars[1])


def stratagp_evidence(p: Problem) -> Contestant:
    kernel = RBF(ard=COLUMNS).set(lengthscale=p.lengthscale, variance=p.variance)
    log_noise = p.noise.log().requires_grad_()
    leaves = [kernel.parameter("variance").raw, kernel.parameter("lengthscale").raw, log_noise]

    def run() -> tuple[Tensor, tuple[Tensor, ...]]:
        value = gaussian_log_density(p.y[:, None], kernel(p.x), log_noise.exp())
        return value, torch.autograd.grad(value, leaves)

    return Contestant(run, lambda out: Answer(out[0].item(), _flat(out[1])))


def gpytorch_evidence(p: Problem) -> Contestant:
    gpytorch = peer("gpytorch")

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(p.x, p.y, likelihood)
            self.mean = gpytorch.means.ZeroMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=COLUMNS))

        def forward(self, x: Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    model = Model(gpytorch.likelihoods.GaussianLikelihood()).double()
    model.kernel.outputscale, model.likelihood.noise = p.variance, p.noise
    model.kernel.base_kernel.lengthscale = p.lengthscale
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    leaves = [model.kernel.raw_outputscale, model.kernel.base_kernel.raw_lengthscale]
    leaves.append(model.likelihood.noise_covar.raw_noise)

    def run() -> tuple[Tensor, tuple[Tensor, ...]]:
        exact = gpytorch.settings.fast_computations(False, False, False)
        with exact, gpytorch.settings.max_cholesky_size(10**6):
            value = evidence(model(p.x), p.y) * len(p.x)
            return value, torch.autograd.grad(value, leaves)

    def read(out: tuple[Tensor, tuple[Tensor, ...]]) -> Answer:
        values = [model.kernel.outputscale, model.kernel.base_kernel.lengthscale, model.likelihood.noise]
        slopes = [torch.sigmoid(leaf) for leaf in leaves]  # of softplus, its map to positive values
        return Answer(out[0].item(), _flat(g * v / s for g, v, s in zip(out[1], values, slopes, strict=True)))

    return Contestant(run, read)


def sklearn_evidence(p: Problem) -> Contestant:
    process, kernels = peer("sklearn.gaussian_process"), peer("sklearn.gaussian_process.kernels")
    kernel = kernels.ConstantKernel(p.variance.item()) * kernels.RBF(p.lengthscale.numpy())
    model = process.GaussianProcessRegressor(kernel + kernels.WhiteKernel(p.noise.item()), alpha=0.0, optimizer=None)
    model.fit(p.x.numpy(), p.y.numpy())
    theta = model.kernel_.theta  # logs, in our order
    run = lambda: model.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)  # noqa: E731
    return Contestant(run, lambda out: Answer(float(out[0]), np.asarray(out[1])))


def gpflow_evidence(p: Problem) -> Contestant:
    gpflow, tf = peer("gpflow"), peer("tensorflow")
    kernel = gpflow.kernels.SquaredExponential(variance=p.variance.item(), lengthscales=p.lengthscale.numpy())
    model = gpflow.models.GPR((p.x.numpy(), p.y[:, None].numpy()), kernel, noise_variance=p.noise.item())
    parameters = [kernel.variance, kernel.lengthscales, model.likelihood.variance]
    leaves = [parameter.unconstrained_variable for parameter in parameters]

    @tf.function
    def run() -> Any:
        with tf.GradientTape() as tape:
            value = model.log_marginal_likelihood()
        return value, tape.gradient(value, leaves)

    def read(out: Any) -> Answer:
        slopes = [
            np.exp(q.transform.forward_log_det_jacobian(leaf, 0)) for q, leaf in zip(parameters, leaves, strict=True)
        ]
        logs = [g.numpy() * q.numpy() / s for g, q, s in zip(out[1], parameters, slopes, strict=True)]
        return Answer(float(out[0]), np.concatenate([np.ravel(g) for g in logs]))

    return Contestant(run, read)


PEERS = {"GPyTorch": gpytorch_evidence, "scikit-learn": sklearn_evidence, "GPflow": gpflow_evidence}


def bare_lapack(p: Problem) -> dict[str, Callable[[], Any]]:
    """Factor and inverse of the covariance, nothing else."""
    with torch.no_grad():
        covariance = gaussian_kernel(p.x, p.x, 1 / p.lengthscale, p.variance)
        covariance.diagonal().add_(p.noise)
    columns = np.asfortranarray(covariance.numpy())
    return {
        "bare, torch": lambda: torch.cholesky_inverse(torch.linalg.cholesky(covariance)),
        "bare, scipy": lambda: lapack.dpotri(lapack.dpotrf(columns, lower=1)[0], lower=1, overwrite_c=1),
    }


def difference(answer: Answer, truth: Answer) -> float:
    """The largest relative difference of value and gradient."""
    value = abs(answer.value / truth.value - 1)
    gradient = np.abs(answer.gradient - truth.gradient).max() / np.abs(truth.gradient).max()
    return float(max(value, gradient))


def _flat(tensors: Iterable[Tensor]) -> np.ndarray:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).numpy()
