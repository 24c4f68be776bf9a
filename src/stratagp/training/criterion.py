"""What a choice of hyperparameters is worth: evidence, with weak priors, or leave-one-out density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.distributions import constraints

from stratagp.errors import InputError
from stratagp.parameterised import NamedParameter, Parameterised
from stratagp.parameters import Parameter
from stratagp.training.free import log_jacobian_of, unread

CRITERIA = ("map", "ml", "loo", "bayes")
WIDTH = 1.0  # standard deviation of default priors on logs, where the data told the start
SHORT, TAIL = 0.5, 0.3  # of lengthscales: that of shorter ones; the rate at which the density of longer ones falls
REACH = 1.5  # beyond its start, in logs, that a lengthscale begins a climb on more rows at
WIDE = 3.0  # where the user gave the start, which then says little about where it ends

Centres = dict[Tensor, Tensor]
"""Where the free coordinates of parameters started: the middle of their default priors."""


@dataclass
class Criterion:
    """What a choice of hyperparameters is worth, as ``objective()``.

    ``ml`` is the evidence. ``map`` adds the log density of the priors; a positive parameter without one gets a
    Gaussian on its log around its start. For a lengthscale that the data told the start of, the side of long ones is an
    exponential tail: a column that says nothing can get out of the way, and rows must ask for a short one. ``loo`` is
    the leave-one-out density with the same priors.
    """

    name: str
    module: Parameterised
    score: Callable[[bool], Tensor]
    centres: Centres

    def __post_init__(self) -> None:
        if self.name not in CRITERIA:
            raise InputError(f"hyperparameters must be one of {', '.join(CRITERIA)}; got {self.name!r}")
        weak = [item for item in self.module.named_values() if gets_weak_prior(item.parameter)]
        for raw in (item.parameter.raw for item in weak):
            self.centres[raw] = self.centres.get(raw, raw.detach().clone()).to(raw.device)
        self.weak = [(item.parameter.raw, self.centres[item.parameter.raw], _default_prior(item)) for item in weak]

    def named_centres(self) -> dict[str, Tensor]:
        """The centres by the names of their parameters, to be kept with the model."""
        values = self.module.named_values()
        return {item.name: self.centres[item.parameter.raw] for item in values if item.parameter.raw in self.centres}

    def objective(self) -> Tensor:
        """The score that is maximised."""
        value = self.score(self.name == "loo")
        return value if self.name == "ml" else value + self.log_prior()

    def recall(self) -> None:
        """Bring lengthscales that went far beyond their start back into reach: more rows may ask for their columns.

        The slope of the evidence vanishes where a column says nothing, so no climb would bring them back.
        """
        with torch.no_grad():
            for raw, start, prior in self.weak:
                if prior is _relevance:
                    raw.copy_(torch.minimum(raw, start + REACH))

    def log_prior(self) -> Tensor:
        """The log density of the user's priors, and of the default ones."""
        terms = [log_density(raw - start).sum() for raw, start, log_density in self.weak]
        return self.module.log_prior() + (torch.stack(terms).sum() if terms else 0.0)

    def log_density(self) -> Tensor:
        """The posterior log density of the free coordinates, for sampling.

        User's priors are densities of values, and values without any are uniform, so both need the slope of the value
        in the coordinate; default priors are densities of the coordinate itself.
        """
        weak = [raw for raw, _, _ in self.weak]
        named = [item.parameter for item in self.module.named_values() if item.parameter.trainable]
        others = [p for p in named if not any(p.raw is raw for raw in weak)]
        terms = [log_jacobian_of(p) - unread(p) for p in others]
        return self.score(False) + self.log_prior() + (torch.stack(terms).sum() if terms else 0.0)


def _default_prior(item: NamedParameter) -> Callable[[Tensor], Tensor]:
    """The log density of how far a free coordinate is from its start, but for a constant."""
    if not item.parameter.unset:
        return partial(_gaussian, width=WIDE)
    return _relevance if item.name.rpartition(".")[2] == "lengthscale" else partial(_gaussian, width=WIDTH)


def _gaussian(distance: Tensor, width: float) -> Tensor:
    return -0.5 * (distance / width).square()


def _relevance(distance: Tensor) -> Tensor:
    """A Gaussian of width ``SHORT`` that goes over into an exponential of rate ``TAIL``, with a continuous slope.

    >>> _relevance(torch.tensor([-1.0, 4.0]))  # −½ (1/0.5)², and −0.3 (4 − ½ · 0.3 · 0.5²)
    tensor([-2.0000, -1.1888])
    """
    joint = TAIL * SHORT**2
    return torch.where(distance > joint, -TAIL * (distance - joint / 2), _gaussian(distance, SHORT))


def gets_weak_prior(parameter: Parameter) -> bool:
    """Whether a parameter is positive, learnt, and without a prior of the user."""
    positive = isinstance(parameter.constraint, (type(constraints.positive), constraints.greater_than))
    return positive and parameter.trainable and parameter.prior is None
