"""Joint draws of new targets from what an estimator believes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.estimators.cokriging import OneOutput, joint_of_outputs
from stratagp.estimators.engines import Belief
from stratagp.linalg import root
from stratagp.training.devices import as_numpy
from stratagp.types import Gaussian


def draw_jointly(beliefs: list[Belief], x: Any, n_samples: int, noisy: bool, generator: torch.Generator) -> np.ndarray:
    """Joint standardised draws, ``s n q``; targets of one process are drawn together, others by themselves."""
    if isinstance(beliefs[0].posterior, OneOutput):
        mean, cov = (part.cpu() for part in joint_of_outputs(beliefs[0].posterior.posterior, x, len(beliefs)))
        values = _normal_draws(mean, cov, n_samples, None, generator).unflatten(1, (len(beliefs), -1)).mT
    else:
        values = torch.stack([_draws_of_one(belief, x, n_samples, generator) for belief in beliefs], -1)
    if noisy:
        for j, belief in enumerate(beliefs):
            values[..., j] += _noise_draws(belief, x, n_samples, generator)
    return values.numpy()


def _draws_of_one(belief: Belief, x: Any, n_samples: int, generator: torch.Generator) -> Float[Tensor, "s n"]:
    mean, cov = (torch.from_numpy(part) for part in joint_moments(belief, x, noisy=False))
    return _normal_draws(mean, cov, n_samples, belief.dof, generator)


def _normal_draws(
    mean: Float[Tensor, " n"], cov: Float[Tensor, "n n"], n_samples: int, dof: float | None, generator: torch.Generator
) -> Float[Tensor, "s n"]:
    """Draws from ``N(mean, cov)``; with ``dof``, from the t distribution of that covariance, one scale for a draw."""
    scale: Tensor = root(cov, "eigen", "the joint covariance of the predictions")
    normal = torch.randn(scale.shape[1], n_samples, generator=generator, dtype=scale.dtype)
    if dof is not None:
        shape = torch.full((n_samples,), dof / 2, dtype=scale.dtype)
        normal = normal * ((dof - 2) / (2 * torch._standard_gamma(shape, generator=generator))).sqrt()
    return (mean[:, None] + scale @ normal).mT


def _noise_draws(belief: Belief, x: Any, n_samples: int, generator: torch.Generator) -> Float[Tensor, "s n"]:
    level = belief.noise(x).cpu().expand(n_samples, len(x))
    if belief.log_noise is not None:
        log_noise = Gaussian(*(part.cpu() for part in belief.log_noise(x)))
        wobble = torch.randn(n_samples, len(x), generator=generator, dtype=level.dtype)
        level = (log_noise.mean[:, 0] + log_noise.var[:, 0].sqrt() * wobble).exp()
    return level.sqrt() * torch.randn(n_samples, len(x), generator=generator, dtype=level.dtype)


def joint_moments(belief: Belief, x: Any, noisy: bool) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]:
    """Mean and joint covariance of one standardised target, or of its function without noise."""
    mean, cov = belief.posterior.mean(x), belief.posterior.covariance(x)
    cov = 0.5 * (cov + cov.mT)
    return as_numpy(mean), as_numpy(cov + torch.diag(belief.noise(x)) if noisy else cov)
