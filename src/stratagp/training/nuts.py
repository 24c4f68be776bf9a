"""The No-U-Turn sampler: exact draws of a few hyperparameters from their posterior.

Hoffman and Gelman (2014), in the multinomial form of Betancourt (2017). Warm-up adapts the step size by dual averaging,
and a diagonal mass in windows that double. :func:`r_hat` and :func:`ess` say whether the chains can be trusted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import ConvergenceWarning, InputError, NumericalWarning
from stratagp.training.free import Objective, gather, scatter
from stratagp.training.hamiltonian import MarkovChain, Path, Point

_WINDOW = 25  # transitions in the first window that estimates the mass


@dataclass(frozen=True)
class Samples:
    """Draws of the free coordinates in the order of the parameters, and diagnostics of the sampler.

    ``acceptance`` is the mean acceptance of points on the paths, ``divergences`` the number of paths after warm-up that
    left the region where the integrator is accurate, ``evaluations`` counts gradients, including warm-up.
    """

    theta: Float[Tensor, "s p"]
    log_density: Float[Tensor, " s"]
    step_size: float
    acceptance: float
    divergences: int
    evaluations: int
    parameters: tuple[nn.Parameter, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.theta)

    def assign(self, i: int) -> None:
        """Set the parameters to draw ``i``."""
        scatter(list(self.parameters), self.theta[i].numpy())

    @contextmanager
    def at(self, i: int) -> Iterator[None]:
        """The parameters at draw ``i`` inside a ``with`` block; restored after it."""
        before = gather(list(self.parameters))
        self.assign(i)
        try:
            yield
        finally:
            scatter(list(self.parameters), before)


def sample(
    log_density: Objective,
    parameters: Iterable[nn.Parameter],
    n_samples: int = 500,
    n_warmup: int = 500,
    generator: torch.Generator | None = None,
    target_acceptance: float = 0.8,
    max_depth: int = 7,
) -> Samples:
    """Draw ``parameters`` from the density ``exp(log_density())`` of their free coordinates; they end where they began.

    Start at a typical point, such as the maximum of the same density. Constrained parameters need the Jacobian of
    their free coordinates in the density: see :func:`~stratagp.training.free.log_joint`. If a covariance cannot be
    factored, or the density is not finite, it counts as zero; at the start such a failure is raised.

    >>> x = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    >>> draws = sample(lambda: -((x - 3) / 2).square().sum() / 2, [x], 300, 100, torch.Generator().manual_seed(0))
    >>> draws.theta.shape, round(draws.theta.mean().item()), round(draws.theta.std().item())
    (torch.Size([300, 1]), 3, 2)
    """
    free = [p for p in parameters if p.requires_grad]
    _check(free, n_samples, n_warmup, target_acceptance, max_depth)
    start = gather(free)
    chain = MarkovChain(log_density, free, generator, max_depth)
    try:
        point = chain.start(start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # of trial points
            point = _warm_up(chain, point, n_warmup, target_acceptance)
            paths = []
            for _ in range(n_samples):
                paths.append(chain.transition(point))
                point = paths[-1].draw
    finally:
        scatter(free, start)
    return _summary(chain, paths)


def _check(free: list[nn.Parameter], n_samples: int, n_warmup: int, target_acceptance: float, max_depth: int) -> None:
    if not free:
        raise InputError("parameters has no trainable entry: free at least one of them")
    if n_samples < 1 or n_warmup < 0 or max_depth < 1:
        raise InputError(
            "n_samples and max_depth must be at least 1 and n_warmup at least 0, "
            f"got {n_samples}, {max_depth} and {n_warmup}"
        )
    if not 0 < target_acceptance < 1:
        raise InputError(f"target_acceptance must be between 0 and 1, such as 0.8, got {target_acceptance}")


def _summary(chain: MarkovChain, paths: list[Path]) -> Samples:
    divergences = sum(path.diverged for path in paths)
    if divergences:
        warnings.warn(
            f"{divergences} of {len(paths)} paths of the sampler diverged, so the draws may miss a narrow region: "
            "raise target_acceptance, or give proper priors to parameters that the data do not determine",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Samples(
        theta=torch.from_numpy(np.stack([path.draw.theta for path in paths])),
        log_density=torch.tensor([path.draw.value for path in paths], dtype=torch.float64),
        step_size=chain.step_size,
        acceptance=float(np.mean([path.acceptance / path.steps for path in paths])),
        divergences=divergences,
        evaluations=chain.evaluations,
        parameters=tuple(chain.free),
    )


def _warm_up(chain: MarkovChain, point: Point, n_warmup: int, target: float) -> Point:
    """Find a step size and a mass; returns the chain's current point."""
    ends = _windows(n_warmup)
    seen: list[np.ndarray] = []
    averaging = _DualAveraging(chain, point, target)
    for i in range(n_warmup):
        path = chain.transition(point)
        point = path.draw
        averaging.update(path.acceptance / path.steps)
        if ends and ends[0] <= i < ends[-1]:
            seen.append(point.theta)
        if i + 1 in ends[1:]:
            share = len(seen) / (len(seen) + 5)  # few draws are unreliable: shrink towards small variances
            chain.inverse_mass = share * np.var(seen, axis=0) + (1 - share) * 1e-3
            seen = []
            averaging = _DualAveraging(chain, point, target)
    averaging.finish()
    return point


def _windows(n_warmup: int) -> list[int]:
    """The ends of the windows that estimate the mass: from 15 % of the warm-up, doubling, to 10 % before its end."""
    begin, end = round(0.15 * n_warmup), n_warmup - round(0.1 * n_warmup)
    if n_warmup < 2 * _WINDOW:
        return []
    ends, size = [begin], _WINDOW
    while ends[-1] + 3 * size <= end:  # room for this window and the next, twice as long
        ends.append(ends[-1] + size)
        size *= 2
    return [*ends, end]


class _DualAveraging:
    """Moves the log step size so that the mean acceptance meets its target (Nesterov 2009)."""

    def __init__(self, chain: MarkovChain, point: Point, target: float) -> None:
        self.chain, self.target = chain, target
        chain.step_size = _first_step_size(chain, point)
        self.centre = math.log(10 * chain.step_size)
        self.count, self.error, self.average = 0, 0.0, math.log(chain.step_size)

    def update(self, acceptance: float) -> None:
        """Update after one path."""
        self.count += 1
        self.error += (self.target - acceptance - self.error) / (self.count + 10)
        log_step = self.centre - self.error * math.sqrt(self.count) / 0.05
        self.average += self.count**-0.75 * (log_step - self.average)
        self.chain.step_size = math.exp(log_step)

    def finish(self) -> None:
        """Keep the averaged step size."""
        self.chain.step_size = math.exp(self.average)


def _first_step_size(chain: MarkovChain, point: Point) -> float:
    """Double or halve until one step is accepted with probability about 0.8."""
    step, point = chain.step_size, chain.kick(point)

    def is_accurate() -> bool:
        return chain.energy(point) - chain.energy(chain.leapfrog(point, step)) > math.log(0.8)

    grow = is_accurate()
    for _ in range(50):
        step *= 2.0 if grow else 0.5
        if is_accurate() != grow:
            break
    return step


def r_hat(chains: Float[Tensor, "c s p"]) -> Float[Tensor, " p"]:
    """Split R̂: ``√(var⁺ / W)`` over the halves of all chains; 1 if they agree; above 1.01 do not trust the chains.

    ``W`` is the mean variance within halves, ``var⁺ = W (s − 1)/s + variance of their means``.

    >>> r_hat(torch.arange(8.0, dtype=torch.float64).reshape(1, 8, 1))  # a trend: its halves do not agree
    tensor([2.3558], dtype=torch.float64)
    """
    halves = _halves(chains)
    size = halves.shape[1]
    within = halves.var(1).mean(0)
    return ((size - 1) / size + halves.mean(1).var(0) / within).sqrt()


def ess(chains: Float[Tensor, "c s p"]) -> Float[Tensor, " p"]:
    """Effective sample size: the number of independent draws that would estimate the mean as well.

    ``c s / (1 + 2 Σ ρ_t)``, with autocorrelations ``ρ_t`` summed in pairs while positive, and made to
    decrease (Geyer 1992; Vehtari and others 2021).
    """
    halves = _halves(chains)
    n_chains, size, _ = halves.shape
    spectrum = torch.fft.rfft(halves - halves.mean(1, keepdim=True), 2 * size, dim=1)
    covariance = torch.fft.irfft(spectrum.abs().square(), 2 * size, dim=1)[:, :size].mean(0) / size
    within = covariance[0] * size / (size - 1)
    correlation = 1 - (within - covariance) / (covariance[0] + halves.mean(1).var(0))
    correlation[0] = 1.0
    pairs = correlation[: size - size % 2].unflatten(0, (-1, 2)).sum(1)
    pairs = torch.where((pairs < 0).cumsum(0) > 0, 0.0, pairs).cummin(0).values
    pairs[0] = correlation[0] + correlation[1]
    time = (2 * pairs.sum(0) - 1).clamp_min(1 / math.log10(n_chains * size))
    return n_chains * size / time


def _halves(chains: Float[Tensor, "c s p"]) -> Float[Tensor, "k h p"]:
    size = chains.shape[1] // 2
    if size < 2:
        raise InputError(f"chains must have at least 4 draws each, shape (chains, draws, numbers), got {chains.shape}")
    return torch.cat([chains[:, :size], chains[:, -size:]])
