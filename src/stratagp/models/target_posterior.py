"""What a process says about one target: the function, its noise, and draws of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.linalg import root
from stratagp.training.devices import as_numpy
from stratagp.types import Gaussian, PointsLike


@dataclass(frozen=True)
class TargetPosterior:
    """What is believed about one target.

    Arguments:
        process: answers ``mean(x)``, ``marginals(x)`` and ``covariance(x)`` about the function.
        noise: the noise variance of a new observation; None where the process knows how it varies.
        dof: degrees of freedom where the process is a Student-t process.
    """

    process: Any
    noise: Float[Tensor, ""] | None
    dof: float | None = None

    def noise_at(self, x: Any) -> Float[Tensor, " n"]:
        """The expected noise variance at each row."""
        return self.process.noise(x) if self.noise is None else self.noise.expand(len(x))

    def components(self, x: PointsLike, of: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means and variances ``k n`` and log weights ``k``; noise that is uncertain makes several components."""
        mean, var = (part[:, 0] for part in self.process.marginals(x))
        if of == "f":
            return as_numpy(mean[None]), as_numpy(var[None]), np.zeros(1)
        if self.noise is not None:
            return as_numpy(mean[None]), as_numpy((var + self.noise_at(x))[None]), np.zeros(1)
        nodes, log_weights = normal_nodes(1, mean)
        log_noise = self.process.log_noise(x)
        noise = (log_noise.mean + log_noise.var.sqrt() * nodes.mT).exp().mT
        return as_numpy(mean.expand(noise.shape)), as_numpy(var + noise), as_numpy(log_weights)

    def joint(self, x: PointsLike, of: str) -> tuple[Float[Tensor, " n"], Float[Tensor, "n n"]]:
        """Mean and joint covariance of the rows."""
        mean, cov = self.process.mean(x), self.process.covariance(x)
        cov = 0.5 * (cov + cov.mT)
        return mean, cov + torch.diag(self.noise_at(x)) if of == "y" else cov

    def noise_draws(self, x: Any, n_samples: int, generator: torch.Generator) -> Float[Tensor, "s n"]:
        """Draws of the noise of new observations."""
        if self.noise is not None:
            level = self.noise.cpu().expand(n_samples, len(x))
        else:
            log_noise = Gaussian(*(part.cpu() for part in self.process.log_noise(x)))
            wobble = torch.randn(n_samples, len(x), generator=generator, dtype=log_noise.mean.dtype)
            level = (log_noise.mean[:, 0] + log_noise.var[:, 0].sqrt() * wobble).exp()
        return level.sqrt() * torch.randn(n_samples, len(x), generator=generator, dtype=level.dtype)


def normal_draws(
    mean: Float[Tensor, " n"], cov: Float[Tensor, "n n"], n_samples: int, dof: float | None, generator: torch.Generator
) -> Float[Tensor, "s n"]:
    """Draws from ``N(mean, cov)``; with ``dof``, from the t distribution of that covariance, one scale for a draw."""
    mean, cov = mean.detach().cpu(), cov.detach().cpu()
    scale: Tensor = root(cov, "eigen", "the joint covariance of the predictions")
    normal = torch.randn(scale.shape[1], n_samples, generator=generator, dtype=scale.dtype)
    if dof is not None:
        shape = torch.full((n_samples,), dof / 2, dtype=scale.dtype)
        normal = normal * ((dof - 2) / (2 * torch._standard_gamma(shape, generator=generator))).sqrt()
    return (mean[:, None] + scale @ normal).mT


def settled(level: Tensor) -> Tensor:
    """A noise variance that later training does not change."""
    return level.detach().clone()
