"""Prior densities on hyperparameters, for MAP estimation.

Every density is over the value itself, not over its logarithm: ``log_prob(θ) = log p(θ)``. MAP maximises
``log p(y | θ) + log p(θ)``, so no Jacobian of the free coordinate enters.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from stratagp.errors import InputError


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} must be a positive finite number, got {value!r}")


class Prior(ABC):
    """A density on one value; the entries of a tensor count as independent draws.

    >>> Normal(0.0, 1.0).log_prob(torch.tensor([0.0, 1.0]))
    tensor([-0.9189, -1.4189])
    """

    @abstractmethod
    def log_prob(self, value: Tensor) -> Tensor:
        """Elementwise log density."""


@dataclass(frozen=True)
class LogNormal(Prior):
    """``log θ ~ N(log median, sigma²)``.

    >>> LogNormal(median=1.0, sigma=0.5).log_prob(torch.tensor(1.0))
    tensor(-0.2258)
    """

    median: float = 1.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        _require_positive(median=self.median, sigma=self.sigma)

    def log_prob(self, value: Tensor) -> Tensor:
        """``−log θ − log σ − ½ log 2π − (log θ − log median)²/(2σ²)``."""
        log_value = value.log()
        z = (log_value - math.log(self.median)) / self.sigma
        return -0.5 * z.square() - log_value - math.log(self.sigma) - 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Gamma(Prior):
    """``θ ~ Gamma(shape, rate)`` with mean ``shape / rate``.

    >>> Gamma(shape=1.0, rate=2.0).log_prob(torch.tensor(1.0)).item()  # log 2 − 2
    -1.306852...
    >>> Gamma(shape=1.0, rate=2.0).log_prob(torch.tensor(0.0)).item()  # log 2
    0.693147...
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        _require_positive(shape=self.shape, rate=self.rate)

    def log_prob(self, value: Tensor) -> Tensor:
        """``a log b − log Γ(a) + (a − 1) log θ − b θ``."""
        constant = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return constant + torch.special.xlogy(self.shape - 1, value) - self.rate * value


@dataclass(frozen=True)
class HalfCauchy(Prior):
    """``p(θ) = 2 / (π s (1 + θ²/s²))`` for θ > 0: a weak prior for scales.

    >>> HalfCauchy(scale=2.0).log_prob(torch.tensor(0.0)).item()  # log 1/π
    -1.144729...
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        _require_positive(scale=self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """``log 2 − log π s − log(1 + θ²/s²)``."""
        return math.log(2 / (math.pi * self.scale)) - torch.log1p((value / self.scale).square())


@dataclass(frozen=True)
class Normal(Prior):
    """``θ ~ N(mean, std²)``, for parameters of either sign.

    >>> Normal(mean=3.0, std=2.0).log_prob(torch.tensor(3.0)).item()  # −log 2 − ½ log 2π
    -1.612085...
    """

    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        _require_positive(std=self.std)

    def log_prob(self, value: Tensor) -> Tensor:
        """``−½ log 2π − log s − (θ − m)²/(2s²)``."""
        z = (value - self.mean) / self.std
        return -0.5 * z.square() - math.log(self.std) - 0.5 * math.log(2 * math.pi)
