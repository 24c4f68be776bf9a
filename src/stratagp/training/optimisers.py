"""Moves parameters in mini-batch training: Adam or RMSProp, natural gradients, and a return to a good state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.posteriors import FullGaussian
from stratagp.training.natural_gradient import natural_step

Groups = list[dict[str, Any]]
Rates = Sequence[tuple[Iterable[nn.Parameter], float]]
"""Parameters with their factor on the rate, or their decay."""

OPTIMISERS: dict[str, Callable[[Groups], torch.optim.Optimizer]] = {
    "adam": lambda groups: torch.optim.AdamW(
        groups, fused=True
    ),  # decay separate from the gradients; zero for most groups
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, alpha=0.9, foreach=True),  # TensorFlow's decay, as in AutoGP
}


class Mover:
    """Steps down the gradients of chosen parameters, by ``optimiser`` or, for posteriors, natural gradients.

    Arguments:
        moving: the parameters that may change.
        optimiser: ``"adam"`` or ``"rmsprop"``.
        rate: its step.
        rates: factors on ``rate`` for some parameters.
        decays: how much some parameters shrink with each step, as a multiple of the rate.
        natural: the posteriors with natural gradients; those not among ``moving`` stay fixed.
        natural_rates: their step at the start and at the end of a schedule that falls from 1 to 0.
        clip: the largest norm of the gradients that ``optimiser`` sees, taken over all of them.
    """

    def __init__(
        self,
        moving: list[nn.Parameter],
        optimiser: str,
        rate: float,
        rates: Rates,
        decays: Rates,
        natural: Sequence[FullGaussian],
        natural_rates: tuple[float, float],
        clip: float | None,
    ) -> None:
        _check(optimiser, rate, natural_rates[0], clip)
        self.moving, self.rate, self.natural_rates, self.clip = moving, rate, natural_rates, clip
        self.natural = _able(natural, moving)
        own = {id(p) for posterior in self.natural for p in posterior.parameters()}
        if decays and optimiser != "adam":
            raise InputError(f"decays needs optimiser='adam', got {optimiser!r}")
        groups = _groups([p for p in moving if id(p) not in own], rates, decays)
        self.free = [p for group in groups for p in group["params"]]
        self.optimiser = OPTIMISERS[optimiser](groups) if groups else None
        self.curvature = [p for p in moving if id(p) in own]

    def clear(self) -> None:
        """Clear the gradients."""
        for parameter in self.moving:
            parameter.grad = None

    def survey(self, value: Tensor) -> tuple[float, float]:
        """The objective, and the norm of the gradients of the optimiser; NaN for both if anything is not finite.

        One number covers all, because a test of each parameter would cost more than the step.
        """
        gradients = [[p.grad for p in part if p.grad is not None] for part in (self.free, self.curvature)]
        norms = [torch._foreach_norm(part) if part else () for part in gradients]
        found, *lengths = torch.stack([value.detach().reshape(()), *norms[0], *norms[1]]).tolist()
        if not all(map(math.isfinite, (found, *lengths))):
            return math.nan, math.nan
        return found, math.hypot(*lengths[: len(gradients[0])])

    def step(self, share: float, factor: float, norm: float) -> None:
        """One step down gradients of this ``norm``, scaled by the schedule's ``share`` and by ``factor``."""
        if self.optimiser is not None:
            if self.clip is not None and norm > self.clip:
                torch._foreach_mul_([p.grad for p in self.free if p.grad is not None], self.clip / norm)
            for group in self.optimiser.param_groups:
                group["lr"] = factor * share * group["factor"] * self.rate
            self.optimiser.step()
        first, last = self.natural_rates
        for posterior in self.natural:
            natural_step(posterior, min(1.0, factor * (last + (first - last) * share)))


class Snapshot:
    """A copy of tensors (and of an optimiser's state) to return to.

    >>> x = nn.Parameter(torch.ones(1))
    >>> snapshot = Snapshot([x], nn.Module())
    >>> snapshot.take()
    >>> _ = x.data.fill_(5.0)
    >>> snapshot.restore()
    >>> x.item()
    1.0
    """

    def __init__(
        self, moving: list[nn.Parameter], module: nn.Module, optimiser: torch.optim.Optimizer | None = None
    ) -> None:
        self.moving, self.module, self.optimiser = moving, module, optimiser
        self.copies: list[Tensor] | None = None
        self.state: dict[Any, dict[str, Any]] = {}

    def take(self) -> None:
        """Copy the current values, into the same memory every time."""
        with torch.no_grad():
            if self.copies is None:
                self.copies = [tensor.clone() for tensor in self._tensors()]
            else:
                torch._foreach_copy_(self.copies, self._tensors())
        if self.optimiser is not None:
            self.state = {p: _cloned(own) for p, own in self.optimiser.state.items()}

    def restore(self) -> None:
        """Go back to the copy, if one was taken."""
        if self.copies is None:
            return
        with torch.no_grad():
            torch._foreach_copy_(self._tensors(), self.copies)
        if self.optimiser is not None:
            self.optimiser.state.clear()
            self.optimiser.state.update({p: _cloned(own) for p, own in self.state.items()})

    def _tensors(self) -> list[Tensor]:
        return [*self.moving, *self.module.buffers()]


def chosen(module: nn.Module, parameters: Iterable[nn.Parameter] | None) -> list[nn.Parameter]:
    """The parameters that training may move, each once: the given ones, or all, that require gradients."""
    asked = list(module.parameters() if parameters is None else parameters)
    moving = list({id(p): p for p in asked if p.requires_grad}.values())
    if not moving:
        where = "module" if parameters is None else "parameters"
        raise InputError(f"{where} has nothing to train: pass at least one parameter that requires gradients")
    return moving


@contextmanager
def only(module: nn.Module, moving: list[nn.Parameter]) -> Iterator[None]:
    """Inside this context, parameters of ``module`` that do not move have no gradients."""
    ours = {id(p) for p in moving}
    resting = [p for p in module.parameters() if p.requires_grad and id(p) not in ours]
    try:
        for parameter in resting:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in resting:
            parameter.requires_grad_(True)


def _able(natural: Sequence[FullGaussian], moving: list[nn.Parameter]) -> list[FullGaussian]:
    """The posteriors that move; a natural step moves mean and scale together."""
    ours = {id(p) for p in moving}
    able = []
    for posterior in natural:
        share = [id(p) in ours for p in posterior.parameters()]
        if any(share) and not all(share):
            raise InputError(
                "parameters has only part of a posterior that moves by natural gradients: pass all of it or nothing"
            )
        if all(share):
            able.append(posterior)
    return able


def _groups(free: list[nn.Parameter], rates: Rates, decays: Rates) -> Groups:
    """The optimiser's parameters, grouped by their factor on the rate and their decay."""
    for _, factor in rates:
        if not 0 < factor < math.inf:
            raise InputError(f"rates must have positive factors, got {factor}: to fix some, omit them from parameters")
    for _, decay in decays:
        if not 0 <= decay < math.inf:
            raise InputError(f"decays must not be negative, got {decay}")
    factors, shrinking = _by_parameter(rates, "rates"), _by_parameter(decays, "decays")
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in free:
        own = factors.get(id(parameter), 1.0), shrinking.get(id(parameter), 0.0)
        groups.setdefault(own, []).append(parameter)
    return [{"params": own, "factor": factor, "weight_decay": decay} for (factor, decay), own in groups.items()]


def _by_parameter(pairs: Rates, name: str) -> dict[int, float]:
    values: dict[int, float] = {}
    for parameters, value in pairs:
        for parameter in parameters:
            if id(parameter) in values:
                raise InputError(f"{name} has a parameter twice: give each one value")
            values[id(parameter)] = value
    return values


def _cloned(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()}


def _check(optimiser: str, rate: float, natural_rate: float, clip: float | None) -> None:
    if optimiser not in OPTIMISERS:
        raise InputError(f"optimiser must be one of {', '.join(OPTIMISERS)}; got {optimiser!r}")
    if not rate > 0:
        raise InputError(f"rate must be positive, got {rate}")
    if not 0 < natural_rate <= 1:
        raise InputError(f"natural_rate must be above 0 and at most 1, got {natural_rate}")
    if clip is not None and not clip > 0:
        raise InputError(f"clip must be positive, got {clip}: omit it to leave gradients unclipped")
