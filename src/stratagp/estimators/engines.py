"""One engine for each way of inference: a model, its score on the data, and what it believes after them.

An engine holds standardised data and a model. Training moves the model's parameters to a maximum of :meth:`score`;
:meth:`condition` then gives one :class:`Belief` for each target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import constraints

from stratagp.models import ExactGP, HeteroscedasticGP, SparseGP, StudentTProcess
from stratagp.objectives.sites import WarmStart
from stratagp.parameterised import Parameterised
from stratagp.parameters import Open, Parameter
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
        weights: how many times as precise as a plain observation a row is.
        extra: variance that a row has beside the noise, such as that of imputed inputs.
    """

    x: Any
    y: Float[Tensor, "n q"]
    weights: Float[Tensor, " n"] | None = None
    extra: Float[Tensor, " n"] | None = None
    noise: Float[Tensor, " n"] | None = None

    def rows(self, chosen: Int[Tensor, " r"]) -> Data:
        """Some of the rows."""
        x = self.x[chosen] if isinstance(self.x, Tensor) else [self.x[i] for i in chosen]
        rest = (None if part is None else part[chosen] for part in (self.weights, self.extra, self.noise))
        return Data(x, self.y[chosen], *rest)

    def noise_of(self, noise: Float[Tensor, ""]) -> Float[Tensor, " n"] | None:
        """The variance of each row's noise, or None where it is the same for all."""
        if self.noise is None and self.weights is None and self.extra is None:
            return None
        level = noise.expand(len(self.y)) if self.noise is None else self.noise
        level = level if self.weights is None else level / self.weights
        return level if self.extra is None else level + self.extra


def some_rows(n: int, most: int, seed: int) -> Int[Tensor, " r"]:
    """At most ``most`` of ``n`` rows at random, in their order."""
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:most]
    return chosen.sort().values


def learnt_noise() -> Parameter:
    """The noise variance of standardised targets: at least a hundred-millionth of theirs, or rounding would rule."""
    return Parameter(Open(0.1), constraints.greater_than(1e-8), name="noise")


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

    @property
    def points(self) -> Any:
        """The rows that a kernel of the inputs sees."""
        return self.data.x

    @property
    def module(self) -> Parameterised:
        """What holds every parameter that is learnt."""
        return self.model


class Exact(Engine):
    """The exact process: O(n³)."""

    model: ExactGP
    data: Data

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """Evidence or leave-one-out density."""
        score = self.model.log_leave_one_out if leave_one_out else self.model.log_evidence
        return score(self.data.x, self.data.y, self.data.noise_of(self.model.noise))

    def condition(self) -> list[Belief]:
        """The exact posteriors, which share one factor."""
        noise = self.data.noise_of(self.model.noise)
        posteriors = self.model.condition_each(self.data.x, self.data.y, noise)
        return [Belief(each, constant(self.model.noise)) for each in posteriors]


class Sparse(Engine):
    """Titsias' collapsed bound: O(n m²)."""

    model: SparseGP
    data: Data

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The bound on the evidence."""
        noise = self.data.noise_of(self.model.noise)
        return torch.stack([self.model.log_evidence(self.data.x, y, noise) for y in self.data.y.mT]).sum()

    def condition(self) -> list[Belief]:
        """The optimal posteriors given the inducing points."""
        noise = self.data.noise_of(self.model.noise)
        return [Belief(self.model.condition(self.data.x, y, noise), constant(self.model.noise)) for y in self.data.y.mT]

    def bounds(self) -> tuple[float, float]:
        """What the exact log evidence of the same hyperparameters lies between."""
        with torch.no_grad():
            noise = self.data.noise_of(self.model.noise)
            upper = sum(float(self.model.upper_bound(self.data.x, y, noise)) for y in self.data.y.mT)
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


class Constant:
    """The same noise everywhere; a class, because a lambda cannot be pickled."""

    def __init__(self, level: Tensor) -> None:
        self.level = level

    def __call__(self, x: Any) -> Float[Tensor, " n"]:
        """The noise variance at each row."""
        return self.level.expand(len(x))


def constant(level: Tensor) -> Constant:
    """A noise that later training does not change."""
    return Constant(level.detach().clone())
