"""How estimators learn hyperparameters: by evidence, with weak priors, by leave-one-out, or by averaging over them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.parameterised import NamedParameter, Parameterised
from stratagp.parameters import Parameter
from stratagp.training import Hyperparameter, HyperparameterTable, Result, curvature, maximise_from_many, nuts
from stratagp.training.free import gather, log_jacobian_of, scatter, unread
from stratagp.training.start import variance_carriers

CRITERIA = ("map", "ml", "loo", "bayes")
WIDTHS = {"lengthscale": 0.7}  # standard deviations of default priors on logs, where the data told the start
WIDTH = 1.0  # of the others
WIDE = 3.0  # where the user gave the start, which then says little about where it ends
WARM_UP = 150  # steps of the sampler before the first draw
_NOISES = ("noise", "gaussian.noise", *(f"likelihood.{'given.' * depth}noise" for depth in range(3)))  # of the targets
QUIET = 1e-3  # the noise of a second start, of standardised targets: from 0.1 columns with small effects can get lost
SPREAD = 1.5  # of restarts, in logs: a factor of 4.5 either way
THIN = 3  # steps from one draw to the next: neighbours say the same
_SECONDS_BETWEEN_REPORTS = 2.0

log = logging.getLogger("stratagp")


Centres = dict[Tensor, Tensor]
"""Where the free coordinates of parameters started: the middle of their default priors."""


@dataclass
class Criterion:
    """What a choice of hyperparameters is worth, as ``objective()``.

    ``ml`` is the evidence. ``map`` adds the log density of the priors; a positive parameter without one gets a
    Gaussian on its log around its start. ``loo`` is the leave-one-out density with the same priors.
    """

    name: str
    module: Parameterised
    score: Callable[[bool], Tensor]
    centres: Centres

    def __post_init__(self) -> None:
        if self.name not in CRITERIA:
            raise InputError(f"hyperparameters must be one of {', '.join(CRITERIA)}; got {self.name!r}")
        weak = [item for item in self.module.named_values() if _gets_weak_prior(item.parameter)]
        for raw in (item.parameter.raw for item in weak):
            self.centres[raw] = self.centres.get(raw, raw.detach().clone()).to(raw.device)
        self.weak = [(item.parameter.raw, self.centres[item.parameter.raw], _width(item)) for item in weak]

    def objective(self) -> Tensor:
        """The score that is maximised."""
        value = self.score(self.name == "loo")
        return value if self.name == "ml" else value + self.log_prior()

    def log_prior(self) -> Tensor:
        """The log density of the user's priors, and of the default ones."""
        terms = [-0.5 * ((raw - start) / width).square().sum() for raw, start, width in self.weak]
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


def train(criterion: Criterion, options: Any, seed: int) -> Result:
    """Move the parameters to the best of ``1 + n_restarts`` optima.

    Where noise is learnt, the first restart has little of it: a start with much can end in a maximum where columns with
    small effects are noise. It is left out where the noise has been learnt from a part of the rows already.
    """
    if options.max_iterations == 0:
        with torch.no_grad():
            return Result(float(criterion.objective()), 1, True, "the values are as they were given")
    generator = torch.Generator().manual_seed(seed)
    report = _Report(criterion.objective, options.verbose)
    noises = _learnt_noises(criterion.module)
    fresh = all(torch.equal(noise.raw, criterion.centres[noise.raw]) for noise in noises)
    result = maximise_from_many(
        report,
        criterion.module.parameters(),
        options.n_restarts if fresh else max(0, options.n_restarts - 1),
        generator,
        SPREAD,
        max_iterations=options.max_iterations,
        promising=[_quiet_start(criterion.module, noises)] if noises and fresh else [],
    )
    say(
        f"{criterion.name}: {result.value:.3f} after {result.evaluations} evaluations; {result.message}",
        options.verbose,
    )
    return result


def _learnt_noises(module: Parameterised) -> list[Parameter]:
    """The noise of the targets, where nobody chose it."""
    named = [item.parameter for item in module.named_values() if item.name in _NOISES]
    return [noise for noise in named if noise.unset and _gets_weak_prior(noise)]


def _quiet_start(module: Parameterised, noises: list[Parameter]) -> np.ndarray:
    """The present free coordinates, with little noise."""
    free = learnt(module)
    present = gather(free)
    for noise in noises:
        noise.assign(QUIET)
        noise.unset = True
    quiet = gather(free)
    scatter(free, present)
    return quiet


def draw(criterion: Criterion, n_draws: int, verbose: bool, seed: int) -> Iterator[None]:
    """Set the parameters to one draw from their posterior after another; afterwards they are as before."""
    generator = torch.Generator().manual_seed(seed)
    density = _Report(criterion.log_density, verbose)
    chain = nuts.sample(density, learnt(criterion.module), n_draws * THIN, WARM_UP, generator)
    say(f"NUTS: {chain.evaluations} evaluations, {chain.divergences} divergences", verbose)
    for i in range(THIN - 1, len(chain), THIN):
        with chain.at(i):
            yield


class _Report:
    """An objective that tells every few seconds how far it has come."""

    def __init__(self, objective: Callable[[], Tensor], verbose: bool) -> None:
        self.objective, self.verbose = objective, verbose
        self.calls, self.last = 0, time.monotonic()

    def __call__(self) -> Tensor:
        value = self.objective()
        self.calls += 1
        if time.monotonic() - self.last > _SECONDS_BETWEEN_REPORTS:
            self.last = time.monotonic()
            say(f"evaluation {self.calls}: {float(value.detach()):.3f}", self.verbose)
        return value


def say(message: str, verbose: bool) -> None:
    """Log a message, and print it where the user asked for that."""
    log.info(message)
    if verbose:
        print(f"stratagp: {message}")


def learnt(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The free coordinates that are learnt, in order; those of positive parameters are logs."""
    return [p for p in module.parameters() if p.requires_grad]


def set_learnt(module: torch.nn.Module, theta: Any) -> None:
    """Move the free coordinates to ``theta``."""
    free, theta = learnt(module), np.asarray(theta, dtype=float)
    if theta.shape != gather(free).shape:
        raise InputError(
            f"theta must have {gather(free).size} numbers, one for each free value, got shape {theta.shape}"
        )
    scatter(free, theta)


def table_in_users_units(
    module: Parameterised,
    criterion: Criterion | None,
    kernels: list[Kernel],
    columns: list[str],
    scales: np.ndarray,
    function_scales: np.ndarray,
) -> HyperparameterTable:
    """The learnt values with their uncertainty; variances and noise in squared units of the targets and functions.

    ``kernels`` are those of the functions that the likelihood sees; variances of others have no units. Inducing points
    are left out. Without a criterion there are values only.
    """
    carriers = {carrier for kernel in kernels for carrier, _ in variance_carriers(kernel)}
    names = [name for name, part in module.named_modules() if part in carriers]
    in_units = {f"{name}.variance" if name else "variance" for name in names} | set(_NOISES)
    objective = None if criterion is None else criterion.objective
    rows = curvature.table(module, objective, columns or None, without=["z"]).rows
    units = [scales if _stem(row) in _NOISES else function_scales for row in rows]
    shown = [_in_units(row, u) if _stem(row) in in_units else row for row, u in zip(rows, units, strict=True)]
    return HyperparameterTable(tuple(shown))


def _stem(row: Hyperparameter) -> str:
    return row.name.partition("[")[0]


def _in_units(row: Hyperparameter, scales: np.ndarray) -> Hyperparameter:
    """Squared units: its own of a value for each target or function, else of them all on average."""
    index = row.name.partition("[")[2].rstrip("]")
    own = index.isdigit() and int(index) < len(scales)
    return _scaled(row, float(scales[int(index)] ** 2 if own else np.mean(scales**2)))


def _scaled(row: Hyperparameter, factor: float) -> Hyperparameter:
    changes = {name: getattr(row, name) * factor for name in ("value", "std", "lower", "upper")}
    return replace(row, **changes)


def _width(item: NamedParameter) -> float:
    return WIDTHS.get(item.name.rpartition(".")[2], WIDTH) if item.parameter.unset else WIDE


def _gets_weak_prior(parameter: Parameter) -> bool:
    positive = isinstance(parameter.constraint, (type(constraints.positive), constraints.greater_than))
    return positive and parameter.trainable and parameter.prior is None
