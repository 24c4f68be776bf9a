"""Checks what every likelihood must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import UnsupportedError
from stratagp.likelihoods import Likelihood, Sampled
from stratagp.types import Gaussian

_BATCHES, _PAIRS = 10, 2_500
_LEVELS = (0.1, 0.5, 0.9)
_LITTLE = 0.02  # of the belief's variance for samples of 1/p, or less if log p varies by more than a tenth


def check_likelihood(
    likelihood: Likelihood,
    y: Float[Tensor, "n p"],
    q: Gaussian,
    support: Float[Tensor, " k"] | None = None,
    discrete: bool = False,
) -> None:
    """Assert that a likelihood's density, moments and integrals agree with samples and with each other.

    With no variance the three integrals ``E log p``, ``log E p`` and ``log E 1/p`` are those of ``log_prob`` itself.
    With variance they and the predictive moments agree with 50,000 seeded samples of the latent values, to six of
    their standard errors (the third for a smaller variance, because ``1/p`` has heavy tails), and with one latent
    function also with a fine grid; Jensen's inequality holds; :class:`Sampled` has the same expectation; gradients are
    finite. If there is ``sample``, its draws have the moments of ``moments`` and the probabilities of ``cdf``, and
    stay below ``quantiles`` as often as they should. With ``support``, the density sums to one and has the moments of
    ``moments``.

    Arguments:
        likelihood: the likelihood to check.
        y: valid observations ``n p``, in the precision of ``q`` (float64 is best).
        q: a belief about the latent values, ``n q``.
        support: a fine grid over all values that one output can take, for likelihoods with one output.
        discrete: whether ``support`` lists single values (counts, classes) rather than a grid of a continuous variable.

    >>> from stratagp.likelihoods import Poisson
    >>> q = Gaussian(torch.zeros(3, 1, dtype=torch.float64), torch.ones(3, 1, dtype=torch.float64))
    >>> check_likelihood(Poisson(), torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64), q)
    """
    assert y.dim() == 2, f"y must be (n, p), got shape {tuple(y.shape)}: for one output use y[:, None]"
    _check_certain(likelihood, y, Gaussian(q.mean, torch.zeros_like(q.var)))
    _check_jensen(likelihood, y, q)
    with torch.no_grad():
        _check_samples(likelihood, y, q)
        _check_reciprocal(likelihood, y, q)
        if q.mean.shape[-1] == 1:
            _check_grid(likelihood, y, q)
        if support is not None:
            _check_density(likelihood, q.mean, support, discrete)
        if _has(lambda: likelihood.sample(q.mean, torch.Generator().manual_seed(0))):
            _check_draws(likelihood, q)
    leaves = [q.mean.clone().requires_grad_(), q.var.clone().requires_grad_(), *likelihood.parameters()]
    likelihood.expected_log_prob(y, Gaussian(leaves[0], leaves[1])).sum().backward()
    assert all(t.grad is None or bool(t.grad.isfinite().all()) for t in leaves), "a gradient is not finite"


def _check_certain(likelihood: Likelihood, y: Tensor, certain: Gaussian) -> None:
    exact = likelihood.log_prob(y, certain.mean)
    _close(likelihood.expected_log_prob(y, certain), exact, "the expectation at zero variance is not log_prob")
    _close(likelihood.log_predictive(y, certain), exact, "the predictive density at zero variance is not log_prob")
    _close(-likelihood.log_reciprocal(y, certain), exact, "log E 1/p at zero variance is not −log_prob")
    given, predicted = likelihood.moments(certain.mean), likelihood.predict(certain)
    _close(predicted.mean, given.mean, "the predictive mean at zero variance is not that of moments()")
    _close(predicted.var, given.var, "the predictive variance at zero variance is not that of moments()")


def _check_jensen(likelihood: Likelihood, y: Tensor, q: Gaussian) -> None:
    expected = likelihood.expected_log_prob(y, q)
    most, least = likelihood.log_predictive(y, q), -likelihood.log_reciprocal(y, q)
    assert bool((expected <= most + 1e-8).all()), "E log p exceeds log E p, against Jensen's inequality"
    assert bool((least <= expected + 1e-8).all()), "−log E 1/p exceeds E log p, against Jensen's inequality"


def _check_samples(likelihood: Likelihood, y: Tensor, q: Gaussian) -> None:
    estimates: list[list[Tensor]] = []
    for f in _batches(q):
        values, given = likelihood.log_prob(y, f), likelihood.moments(f)
        second = given.var + given.mean.square()
        estimates.append([values.mean(0), values.exp().mean(0), given.mean.mean(0), second.mean(0)])
    predicted = likelihood.predict(q)
    ours = [likelihood.expected_log_prob(y, q), likelihood.log_predictive(y, q).exp(), predicted.mean]
    ours.append(predicted.var + predicted.mean.square())
    names = ("E log p", "E p", "the predictive mean", "the predictive second moment")
    for name, value, *batches in zip(names, ours, *estimates, strict=True):
        _agree(value, batches, name)
    sampled = Sampled(likelihood, 2 * _PAIRS, torch.Generator().manual_seed(1))
    _agree(ours[0], [sampled.expected_log_prob(y, q) for _ in range(_BATCHES)], "E log p of Sampled(likelihood)")


def _check_reciprocal(likelihood: Likelihood, y: Tensor, q: Gaussian) -> None:
    centre, spread = likelihood.log_prob(y, q.mean), likelihood.log_prob(y, next(_batches(q))).std(0)
    q = Gaussian(q.mean, q.var * (0.1 / spread[:, None]).square().clamp_max(_LITTLE))
    batches = [(centre - likelihood.log_prob(y, f)).exp().mean(0) for f in _batches(q)]
    _agree((likelihood.log_reciprocal(y, q) + centre).exp(), batches, "E 1/p")


def _check_grid(likelihood: Likelihood, y: Tensor, q: Gaussian) -> None:
    points = torch.linspace(-9, 9, 3601, dtype=torch.float64).to(q.mean)[:, None, None]
    weights = (-0.5 * points.square()).exp().squeeze(-1)
    weights = weights / weights.sum()
    values = likelihood.log_prob(y, q.sample(points))
    _close(likelihood.expected_log_prob(y, q), (weights * values).sum(0), "E log p differs from a fine grid's", 1e-3)
    predictive = (weights.log() + values).logsumexp(0)
    _close(likelihood.log_predictive(y, q), predictive, "log E p differs from a fine grid's", 1e-3)


def _check_density(likelihood: Likelihood, f: Tensor, support: Tensor, discrete: bool) -> None:
    density = torch.stack([likelihood.log_prob(value.expand(len(f), 1), f) for value in support]).exp()
    integrate = (lambda v: v.sum(0)) if discrete else (lambda v: torch.trapezoid(v, support, dim=0))
    total, given = integrate(density), likelihood.moments(f)
    mean = integrate(density * support[:, None])
    var = integrate(density * (support[:, None] - mean).square())
    _close(total, torch.ones_like(total), "the density does not sum to one over the support", 1e-3)
    _close(given.mean[:, 0], mean, "the mean of moments() is not that of the density", 1e-2)
    _close(given.var[:, 0], var, "the variance of moments() is not that of the density", 1e-2)


def _check_draws(likelihood: Likelihood, q: Gaussian) -> None:
    """Compare draws at known latent values with ``moments`` and ``cdf``, draws under the belief with ``quantiles``."""
    generator = torch.Generator().manual_seed(2)
    given = likelihood.moments(q.mean)
    f = q.mean.expand(2 * _PAIRS, *q.mean.shape)
    draws = [likelihood.sample(f, generator) for _ in range(_BATCHES)]
    coded = [_coded(likelihood, t, given.mean) for t in draws]
    _agree(given.mean, [t.mean(0) for t in coded], "the mean of moments(), compared with sample(),")
    squares = [(t - given.mean).square().mean(0) for t in coded]
    _agree(given.var, squares, "the variance of moments(), compared with sample(),")
    if not _has(lambda: likelihood.cdf(draws[0][0], q.mean)):
        return
    for deviations in (-1.0, 0.0, 1.0):
        t = given.mean + deviations * given.var.sqrt()
        _agree(likelihood.cdf(t, q.mean), [(d <= t).to(t).mean(0) for d in draws], "cdf(), compared with sample(),")
    _check_quantiles(likelihood, q, torch.cat([likelihood.sample(f, generator) for f in _batches(q)]))


def _check_quantiles(likelihood: Likelihood, q: Gaussian, draws: Tensor) -> None:
    for level, t in zip(_LEVELS, likelihood.quantiles(q, _LEVELS), strict=True):
        under, upto = ((draws < t).to(t).mean(0), (draws <= t).to(t).mean(0))
        outside = float(torch.maximum(under - level, level - upto).max())
        assert outside <= 0.01, f"the quantile of level {level} is off by {outside:.2g} in probability"


def _coded(likelihood: Likelihood, drawn: Tensor, mean: Tensor) -> Tensor:
    """Class labels in one-hot coding, as in ``moments``."""
    if likelihood.discrete and drawn.shape[-1] == 1 < mean.shape[-1]:
        return torch.nn.functional.one_hot(drawn.squeeze(-1).long(), mean.shape[-1]).to(mean)
    return drawn


def _batches(q: Gaussian) -> Iterator[Float[Tensor, "k n q"]]:
    """Seeded samples of the latent values, in pairs of opposite noise."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(_BATCHES):
        noise = torch.randn(_PAIRS, *q.mean.shape, generator=generator, dtype=torch.float64).to(q.mean)
        yield q.sample(torch.cat([noise, -noise]))


def _has(ask: Callable[[], Tensor]) -> bool:
    try:
        ask()
    except UnsupportedError:
        return False
    return True


def _agree(value: Tensor, batches: list[Tensor], name: str) -> None:
    batch = torch.stack(batches)
    assert value.shape == batch.shape[1:], f"{name} has shape {tuple(value.shape)}, samples {tuple(batch.shape[1:])}"
    error = (value - batch.mean(0)).abs()
    allowed = 6 * batch.std(0) / len(batch) ** 0.5 + 1e-3 * batch.mean(0).abs() + 1e-6
    worst = float((error / allowed).max())
    assert worst <= 1, f"{name} differs from samples by {worst:.1f} times what chance allows"


def _close(actual: Tensor, expected: Tensor, message: str, tolerance: float = 1e-6) -> None:
    assert actual.shape == expected.shape, f"{message}: shapes {tuple(actual.shape)} and {tuple(expected.shape)}"
    error = float(((actual - expected).abs() / (1 + expected.abs())).max().detach())
    assert error <= tolerance, f"{message}: relative error {error:.2g}"
