"""Checks what every posterior must satisfy."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.posteriors import Posterior
from stratagp.types import Gaussian, Mixture


def check_posterior(posterior: Posterior, n_draws: int = 5_000, tolerance: float = 5.0) -> None:
    """Assert that a posterior's marginals, cost and draws are consistent.

    At random projections the marginals have the mean and variance of projected draws (to ``tolerance`` standard
    errors), whether the projection is shared or given for each function, and in float32 as in float64. The cost is
    finite and equals that of the Gaussian with the draws' moments; for a mixture it is at least that, because no
    distribution with these moments costs less; for a point, whose draws are all the same, it is ``½ |v|²``. A posterior
    with a ``covariance`` of rows has its marginals on the diagonal. Gradients are finite and reach every free
    parameter. Best for a few inducing values, away from the prior.

    >>> from stratagp.posteriors import FullGaussian
    >>> check_posterior(FullGaussian(3, 2))
    """
    q, m = posterior.shape
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(m, 4, generator=generator, dtype=torch.float64)
    kdiag = a.square().sum(0) + torch.rand(4, generator=generator, dtype=torch.float64)
    belief = posterior.marginals(a, kdiag)
    mean, var = _moments(belief)
    assert mean.shape == var.shape == (4, q), f"marginals must be n q = {(4, q)}, got {tuple(mean.shape)}"
    own = _moments(posterior.marginals(a.expand(q, -1, -1), kdiag.expand(q, -1)))
    torch.testing.assert_close(own, (mean, var), msg="repeating the projection for each function changes the marginals")
    single = _moments(posterior.marginals(a.float(), kdiag.float()))
    assert single[0].dtype == torch.float32, "marginals must be in the precision of the projection"
    torch.testing.assert_close(tuple(t.double() for t in single), (mean, var), rtol=1e-3, atol=1e-3)
    with torch.no_grad():
        draws = torch.stack([posterior.draw(generator) for _ in range(n_draws)])
    _check_draws(draws, a, kdiag, mean.detach(), var.detach(), tolerance)
    _check_cost(posterior.kl(), draws, isinstance(belief, Mixture), tolerance)
    _check_covariance(posterior, a, kdiag, var.detach())
    (mean.sum() + var.sum() + posterior.kl()).backward()
    for name, parameter in posterior.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, f"{name} gets no gradient"
            assert bool(parameter.grad.isfinite().all()), f"{name} gets a non-finite gradient"


def _check_draws(draws: Tensor, a: Tensor, kdiag: Tensor, mean: Tensor, var: Tensor, tolerance: float) -> None:
    values = torch.einsum("sqm,mn->snq", draws, a)
    left = (kdiag - a.square().sum(0))[:, None]
    square = (values - values.mean(0)).square()
    standard = values.std(0) / len(draws) ** 0.5, square.std(0) / len(draws) ** 0.5
    errors = (values.mean(0) - mean).abs(), (square.mean(0) + left - var).abs()
    for error, allowed, name in zip(errors, standard, ("mean", "variance"), strict=True):
        worst = float((error / (allowed + 1e-12)).max())
        assert worst <= tolerance, f"draws miss the {name} by {worst:.1f} standard errors"


def _check_cost(cost: Tensor, draws: Float[Tensor, "s q m"], mixture: bool, tolerance: float) -> None:
    assert cost.dim() == 0, f"kl() must be one number, got shape {tuple(cost.shape)}"
    assert cost.dtype == torch.float64, f"kl() must be in float64, got {cost.dtype}"
    value = float(cost.detach())
    assert 0 <= value + 1e-9 < float("inf"), f"kl() must be finite and not negative, got {value}"
    expected, slack = _cost_of_moments(draws.flatten(1), tolerance)
    assert value >= expected - slack, f"kl() is {value:.4g}, but the moments of the draws cost at least {expected:.4g}"
    assert mixture or value <= expected + slack, f"kl() is {value:.4g}, but draws have the cost {expected:.4g}"


def _cost_of_moments(draws: Float[Tensor, "s d"], tolerance: float) -> tuple[float, float]:
    """``KL(N(mean, covariance) ‖ N(0, I))`` with the moments of the draws, and its tolerance.

    A draw changes it by ``½ (|v|² − (v − mean)ᵀ covariance⁻¹ (v − mean))``, to first order; at the prior, where that
    vanishes, twice the cost is χ² with as many degrees as there are moments, divided by the number of draws.
    """
    s, d = draws.shape
    mean, gaps = draws.mean(0), draws - draws.mean(0)
    if float(gaps.abs().max()) < 1e-12:
        return 0.5 * float(mean.square().sum()), 1e-9 * (1 + float(mean.square().sum()))
    covariance = gaps.mT @ gaps / s
    cost = 0.5 * float(mean.square().sum() + covariance.trace() - d - covariance.logdet())
    effect = 0.5 * (draws.square().sum(1) - (gaps @ covariance.inverse() * gaps).sum(1))
    return cost, tolerance * (float(effect.std()) / s**0.5 + d * (d + 3) / (2 * s))


def _check_covariance(posterior: Any, a: Tensor, kdiag: Tensor, var: Tensor) -> None:
    if hasattr(posterior, "covariance"):
        k = a.mT @ a + torch.diag(kdiag - a.square().sum(0))
        joint = posterior.covariance(a, k).detach()
        message = "the diagonal of covariance() is not the variance of the marginals"
        torch.testing.assert_close(joint.diagonal(dim1=-2, dim2=-1).mT, var, msg=message)


def _moments(belief: Gaussian | Mixture) -> Gaussian:
    return belief if isinstance(belief, Gaussian) else belief.moments()
