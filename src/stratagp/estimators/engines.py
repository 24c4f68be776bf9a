"""One engine for each way of inference: a model, its score on the data, and what it believes after them.

An engine holds standardised data and a model. Training moves the model's parameters to a maximum of :meth:`score`;
:meth:`condition` then gives one :class:`Belief` for each target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import constraints

from stratagp.models import ExactGP, HeteroscedasticGP, SparseGP, StudentTProcess
from stratagp.objectives.sites import WarmStart
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter
from stratagp.types import Gaussian


@dataclass(frozen=True)
class Belief:
    """A posterior and the noise of a new observation of one target.

    Arguments:
        posterior: answers ``marginals(x)`` and ``covariance(x)`` about the function.
        noise: the noise variance at each row; ``log_noise`` its log as a Gaussian where that is uncertain.
        dof: degrees of freedom where the process is a Student-t process.
    """

    posterior: Any
    noise: Callable[[Any], Float[Tensor, " n"]]
    log_noise: Callable[[Any], Gaussian] | None = None
    dof: float | None = None


@dataclass
class Data:
    """Points, standardised targets in columns, and what is known about the noise of each row.

    Arguments:
        weights: how many times as precise as an average observation a row is.
        extra: variance that a row has beside the noise, such as that of imputed inputs.
        noise: known variances.
    """

    x: Any
    y: Float[Tensor, "n q"]
    weights: Float[Tensor, " n"] | None = None
    extra: Float[Tensor, " n"] | None = None
    noise: Float[Tensor, "n q"] | None = None

    def rows(self, chosen: Int[Tensor, " r"]) -> Data:
        """Some of the rows."""
        x = self.x[chosen] if isinstance(self.x, Tensor) else [self.x[i] for i in chosen]
        rest = (None if part is None else part[chosen] for part in (self.weights, self.extra, self.noise))
        return Data(x, self.y[chosen], *rest)

    def noises(self, noise: Tensor) -> list[Float[Tensor, ""]]:
        """The noise variance of each target."""
        return list(noise.expand(self.y.shape[1]))

    def noise_of(self, noise: Tensor) -> list[Float[Tensor, " n"] | None]:
        """The variance of each row's noise, for each target; None where it is the model's for all rows."""
        if self.noise is None and self.weights is None and self.extra is None and self.y.shape[1] == 1:
            return [None]
        levels: list[Any] = []
        for j, own in enumerate(self.noises(noise)):
            level = own.expand(len(self.y)) if self.noise is None else self.noise[:, j]
            level = level if self.weights is None else level / self.weights
            levels.append(level if self.extra is None else level + self.extra)
        return levels


def some_rows(n: int, most: int, seed: int) -> Int[Tensor, " r"]:
    """At most ``most`` of ``n`` rows at random, in their order."""
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:most]
    return chosen.sort().values


def learnt_noise(targets: int = 1, start: float = 0.1) -> Parameter:
    """The noise variance of standardised targets: at least a hundred-millionth of theirs, or rounding would rule.

    One target has a number, several a vector.
    """
    noise = Parameter(start if targets == 1 else [start] * targets, constraints.greater_than(1e-8), name="noise")
    noise.open = True
    return noise


@dataclass
class Engine(ABC):
    """A model on data."""

    model: Any
    data: Any = field(repr=False)

    @abstractmethod
    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """``log p(y)`` (or its bound), or the leave-one-out density, of all targets."""

    @abstractmethod
    def condition(self) -> Any:
        """What is believed after the data: for regression a list with a :class:`Belief` for each target."""

    def to(self, device: torch.device) -> None:
        """Move model and data to a device; objects, which are no tensors, stay."""
        parts = {name: value.to(device) for name, value in vars(self.data).items() if isinstance(value, Tensor)}
        self.model, self.data = self.model.to(device), replace(self.data, **parts)

    @property
    def points(self) -> Any:
        """The rows that a kernel of the inputs sees."""
        return self.data.x

    @property
    def module(self) -> Parameterised:
        """What holds every parameter that is learnt."""
        return self.model


class TrainedBySteps(Engine):
    """A model that knows its score by samples only, and climbs it by steps of its own."""

    @abstractmethod
    def train(self, epochs: int, seed: int, progress: bool, penalty: Callable[[], Tensor] | None) -> Any:
        """Steps over the data, ``epochs`` times or more; ``penalty`` is added to the score, such as a log prior."""


class Exact(Engine):
    """The exact process: O(n³)."""

    model: ExactGP
    data: Data

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """Evidence or leave-one-out density."""
        score = self.model.log_leave_one_out if leave_one_out else self.model.log_evidence
        parts = zip(self.data.y.mT, self.data.noise_of(self.model.noise), strict=True)
        return torch.stack([score(self.data.x, y, level) for y, level in parts]).sum()

    def condition(self) -> list[Belief]:
        """The exact posterior of each target."""
        levels, each = self.data.noise_of(self.model.noise), self.data.noises(self.model.noise)
        parts = zip(self.data.y.mT, levels, each, strict=True)
        return [Belief(self.model.condition(self.data.x, y, level), constant(own)) for y, level, own in parts]


class Sparse(Engine):
    """Titsias' collapsed bound: O(n m²)."""

    model: SparseGP
    data: Data

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The bound on the evidence."""
        parts = zip(self.data.y.mT, self.data.noise_of(self.model.noise), strict=True)
        return torch.stack([self.model.log_evidence(self.data.x, y, level) for y, level in parts]).sum()

    def condition(self) -> list[Belief]:
        """The optimal posteriors given the inducing points."""
        levels, each = self.data.noise_of(self.model.noise), self.data.noises(self.model.noise)
        parts = zip(self.data.y.mT, levels, each, strict=True)
        return [Belief(self.model.condition(self.data.x, y, level), constant(own)) for y, level, own in parts]

    def bounds(self) -> tuple[float, float]:
        """What the exact log evidence of the same hyperparameters lies between."""
        with torch.no_grad():
            parts = zip(self.data.y.mT, self.data.noise_of(self.model.noise), strict=True)
            upper = sum(float(self.model.upper_bound(self.data.x, y, level)) for y, level in parts)
            return float(self.score()), upper


@dataclass
class Heteroscedastic(Engine):
    """A second process on the log of the noise, by the marginalised variational bound."""

    model: HeteroscedasticGP
    data: Data
    start: WarmStart = field(default_factory=WarmStart, repr=False)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The bound on the evidence; the belief about the noise starts where the last call left it."""
        return self.model.log_evidence(self.data.x, self.data.y[:, 0], self.start)

    def condition(self) -> list[Belief]:
        """The posteriors of function and log noise."""
        posterior = self.model.condition(self.data.x, self.data.y[:, 0])
        return [Belief(posterior, posterior.noise, posterior.log_noise)]


class StudentT(Engine):
    """The Student-t process in closed form."""

    model: StudentTProcess
    data: Data

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The evidence."""
        return self.model.log_evidence(self.data.x, self.data.y[:, 0])

    def condition(self) -> list[Belief]:
        """The posterior, with its degrees of freedom."""
        posterior = self.model.condition(self.data.x, self.data.y[:, 0])
        return [Belief(posterior, constant(posterior.noise), dof=posterior.dof)]


@dataclass(frozen=True)
class Constant:
    """The same noise everywhere; a class, because a lambda cannot be pickled."""

    level: Tensor

    def __call__(self, x: Any) -> Float[Tensor, " n"]:
        """The noise variance at each row."""
        return self.level.expand(len(x))


def constant(level: Tensor) -> Constant:
    """A noise that later training does not change."""
    return Constant(level.detach().clone())
