"""One latent function, and a density that may be far narrower than the belief about it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian

_FARTHEST = 64.0  # largest distance of the peak from the mean, in standard deviations of the belief
_DROP = 30.0  # log of the integrand's fall from its peak to the ends of the grid
_NODES = 48
_BISECTIONS = 24


class OneFunction(ABC):
    """Beside :class:`~stratagp.likelihoods.Likelihood`: one latent function, with a (nearly) log-concave ``p(y | f)``.

    A count of 1000 determines ``log rate`` to 3 %, while fixed nodes lie 40 % of a standard deviation apart. So the
    predictive density is summed over an even grid around the peak of ``p(y | f) N(f; mean, var)``.
    """

    @abstractmethod
    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log p(yₙ | fₙ)``."""

    def functions(self, outputs: int) -> int:
        """One, for any number of columns of an observation."""
        return 1

    def start(self, y: Float[Tensor, "n p"]) -> float:
        """The constant under which the observations are most probable, within ±64, by bisection of the slope."""
        low, high = -_FARTHEST, _FARTHEST
        for _ in range(_BISECTIONS):
            middle = torch.tensor(0.5 * (low + high), dtype=torch.float64, requires_grad=True)
            with torch.enable_grad():
                total = self.log_prob(y.double(), middle.expand(len(y), 1)).sum()
                (slope,) = torch.autograd.grad(total, middle)
            low, high = (middle.item(), high) if slope > 0 else (low, middle.item())
        return 0.5 * (low + high)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log ∫ p(y | mean + √var z) N(z; 0, 1) dz`` over the ``z`` that matter, by the trapezoidal rule."""
        return peak_integral(lambda z: self.log_prob(y, q.sample(z)), q.mean)


def peak_integral(
    log_values: Callable[[Tensor], Tensor],
    like: Float[Tensor, "*s n 1"],
    more: Float[Tensor, "k *s n 1"] | None = None,
) -> Float[Tensor, "*s n"]:
    """``log ∫ exp(log_values(z)) N(z; 0, 1) dz`` of log-concave integrands, by the trapezoidal rule around their peaks.

    ``log_values`` maps points ``*s n 1`` to ``*s n``; ``like`` has the shape of the points of one node. ``more`` are
    additional points, for integrands with other peaks.
    """

    def log_density(z: Tensor) -> Tensor:
        return log_values(z).unsqueeze(-1) - 0.5 * (z.square() + math.log(2 * math.pi))

    low, high = _range(log_density, like.detach())
    step = (high - low) / (_NODES - 1)
    places = low + step * torch.arange(_NODES, dtype=step.dtype, device=step.device).reshape(-1, *[1] * step.dim())
    if more is None:
        return (log_density(places).logsumexp(0) + step.log()).squeeze(-1)
    places = torch.cat([places, more]).sort(0).values
    gaps = places.diff(dim=0)
    widths = 0.5 * (torch.cat([gaps, gaps[:1] * 0]) + torch.cat([gaps[:1] * 0, gaps]))
    return (log_density(places) + widths.log()).logsumexp(0).squeeze(-1)


def _range(log_density: Callable[[Tensor], Tensor], like: Tensor) -> tuple[Tensor, Tensor]:
    """Where a log-concave density has fallen to ``exp(−30)`` of its peak, left and right of it."""
    low = torch.full_like(like, -_FARTHEST, requires_grad=False)
    high = -low
    for _ in range(_BISECTIONS):
        middle = (0.5 * (low + high)).requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(log_density(middle).sum(), middle)
        middle = middle.detach()
        low, high = torch.where(slope > 0, middle, low), torch.where(slope > 0, high, middle)
    peak = 0.5 * (low + high)
    with torch.no_grad():
        floor = log_density(peak) - _DROP
        reach = math.sqrt(2 * _DROP) * torch.tensor([-1.0, 1.0]).to(peak).reshape(2, *[1] * peak.dim())
        inside, outside = torch.zeros_like(reach), reach
        for _ in range(_BISECTIONS):
            half = 0.5 * (inside + outside)
            counts = log_density(peak + half) > floor
            inside, outside = torch.where(counts, half, inside), torch.where(counts, outside, half)
    return peak + outside[0], peak + outside[1]


def number(value: Value | Parameter, name: str) -> Any:
    """A positive parameter that must be one number."""
    parameter = positive(value, name=name)
    if parameter.raw.dim() > 0:
        raise InputError(f"{name} must be one number, got shape {tuple(parameter.raw.shape)}")
    return parameter


def with_second(
    y: Float[Tensor, "n p"], default: float, names: str
) -> tuple[Float[Tensor, "n 1"], Float[Tensor, "n 1"]]:
    """The two columns of an observation, the second filled with a default if it is missing."""
    if y.shape[-1] not in (1, 2):
        raise InputError(f"y must have the columns {names}, the second one optional, got {y.shape[-1]} columns")
    return y[:, :1], y[:, 1:] if y.shape[-1] == 2 else torch.full_like(y, default)


def single_column(y: Float[Tensor, "n p"]) -> Float[Tensor, "n 1"]:
    """Observations that must be one column."""
    if y.shape[-1] != 1:
        raise InputError(f"y must have one column, got {y.shape[-1]}: model each output by its own function")
    return y


def refuse(y: Float[Tensor, "n 1"], fine: Bool[Tensor, "n 1"], rule: str) -> None:
    """Raise an error that names the rule and the first value that breaks it, if any."""
    if not bool(fine.all()):
        row = int((~fine).nonzero()[0, 0])
        raise InputError(f"{rule}, got {y[row].item():g} in row {row}: correct or remove those rows")
