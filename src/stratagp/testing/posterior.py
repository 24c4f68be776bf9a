"""What every posterior must satisfy, as one function to call on it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.posteriors import Posterior
from stratagp.types import Gaussian, Mixture


def check_posterior(posterior: Posterior, n_draws: int = 5_000, tolerance: float = 5.0) -> None:
    """Assert that a posterior's marginals, cost and draws fit together.

    At random projections the marginals have the mean and variance of draws carried there (to ``tolerance`` standard
    errors), whether the projection is shared or given for each function, and in float32 as in float64; the cost is
    finite and at least that of the Gaussian with the moments of the draws, which no distribution with these moments
    goes below; gradients are finite. Best for a few inducing values, away from the prior.

    >>> from stratagp.posteriors import FullGaussian
    >>> check_posterior(FullGaussian(3, 2))
    """
    q, m = posterior.shape
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(m, 4, generator=generator, dtype=torch.float64)
    kdiag = a.square().sum(0) + torch.rand(4, generator=generator, dtype=torch.float64)
    mean, var = _moments(posterior.marginals(a, kdiag))
    assert mean.shape == var.shape == (4, q), f"marginals must be n q = {(4, q)}, got {tuple(mean.shape)}"
    own = _moments(posterior.marginals(a.expand(q, -1, -1), kdiag.expand(q, -1)))
    torch.testing.assert_close(own, (mean, var), msg="the same projection, for each function, changes the marginals")
    single = _moments(posterior.marginals(a.float(), kdiag.float()))
    assert single[0].dtype == torch.float32, "marginals must be in the precision of the projection"
    torch.testing.assert_close(tuple(t.double() for t in single), (mean, var), rtol=1e-3, atol=1e-3)
    with torch.no_grad():
        draws = torch.stack([posterior.draw(generator) for _ in range(n_draws)])
    _check_draws(draws, a, kdiag, mean.detach(), var.detach(), tolerance)
    _check_cost(posterior, draws)
    (mean.sum() + var.sum() + posterior.kl()).backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in posterior.parameters()), "bad gradient"


def _check_draws(draws: Tensor, a: Tensor, kdiag: Tensor, mean: Tensor, var: Tensor, tolerance: float) -> None:
    values = torch.einsum("sqm,mn->snq", draws, a)
    left = (kdiag - a.square().sum(0))[:, None]
    square = (values - values.mean(0)).square()
    standard = values.std(0) / len(draws) ** 0.5, square.std(0) / len(draws) ** 0.5
    errors = (values.mean(0) - mean).abs(), (square.mean(0) + left - var).abs()
    for error, allowed, name in zip(errors, standard, ("mean", "variance"), strict=True):
        worst = float((error / (allowed + 1e-12)).max())
        assert worst <= tolerance, f"draws miss the {name} by {worst:.1f} standard errors"


def _check_cost(posterior: Posterior, draws: Float[Tensor, "s q m"]) -> None:
    cost = posterior.kl()
    assert cost.dim() == 0, f"kl() must be one number, got shape {tuple(cost.shape)}"
    value = float(cost.detach())
    assert 0 <= value + 1e-9 < float("inf"), f"kl() must be finite and not negative, got {value}"
    least = 0.0
    for function in draws.unbind(1):
        covariance = torch.atleast_2d(function.mT.cov())
        least += float(function.mean(0).square().sum() + covariance.trace() - len(covariance) - covariance.logdet()) / 2
    slack = draws[0].numel() * (draws.shape[2] + 5) / len(draws) ** 0.5
    assert value >= least - slack, f"kl() is {value:.4g}, but the moments of the draws cost {least:.4g} at least"


def _moments(belief: Gaussian | Mixture) -> tuple[Tensor, Tensor]:
    if isinstance(belief, Gaussian):
        return belief.mean, belief.var
    weights = belief.log_weights.exp().to(belief.parts.mean)
    mean = torch.tensordot(weights, belief.parts.mean, 1)
    return mean, torch.tensordot(weights, belief.parts.var + (belief.parts.mean - mean).square(), 1)
