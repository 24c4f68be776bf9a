"""Hamiltonian dynamics on a log density: paths that are doubled until they turn back.

The energy is ``H(θ, p) = −log π(θ) + ½ pᵀ M⁻¹ p`` with a diagonal mass ``M``. A transition walks both ways in time from
the current point with a fresh momentum, and draws the next point from the whole path with weights ``exp(−H)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.training.free import Objective, value_and_gradient

_DIVERGENT = 1000.0  # an energy error that no accurate path makes


@dataclass(frozen=True)
class Point:
    """A point on a path: coordinates, momentum, log density and its gradient."""

    theta: np.ndarray
    momentum: np.ndarray
    value: float
    gradient: np.ndarray


@dataclass(frozen=True)
class Path:
    """A stretch of a path: its ends in time, the sum of its momenta, a draw from it, the log of its total weight."""

    first: Point
    last: Point
    total: np.ndarray
    draw: Point
    log_weight: float
    acceptance: float = 0.0
    steps: int = 0
    diverged: bool = False
    going: bool = True  # neither turned back nor diverged


class MarkovChain:
    """One chain: the density, the step size and the mass."""

    def __init__(
        self, log_density: Objective, free: list[nn.Parameter], generator: torch.Generator | None, max_depth: int
    ) -> None:
        self.log_density, self.free, self.generator, self.max_depth = log_density, free, generator, max_depth
        self.inverse_mass = np.ones(sum(p.numel() for p in free))
        self.step_size, self.evaluations = 1.0, 0

    def start(self, theta: np.ndarray) -> Point:
        """The first point; its errors reach the caller."""
        self.evaluations += 1
        value, gradient = value_and_gradient(self.log_density, self.free, theta)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise InputError("log_density is not finite at the start: check the data and the initial values")
        return Point(theta, np.zeros_like(theta), value, gradient)

    def leapfrog(self, point: Point, step: float) -> Point:
        """One step of the dynamics: half a kick, a drift, half a kick. Reversible and volume-preserving."""
        with np.errstate(over="ignore", invalid="ignore"):  # a path that overflows diverges, as it should
            half = point.momentum + step / 2 * point.gradient
            theta = point.theta + step * self.inverse_mass * half
            value, gradient = self._evaluate(theta)
            return Point(theta, half + step / 2 * gradient, value, gradient)

    def _evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and gradient; ``−∞`` if either fails."""
        self.evaluations += 1
        nowhere = -math.inf, np.zeros_like(theta)
        if not np.isfinite(theta).all():
            return nowhere
        try:
            value, gradient = value_and_gradient(self.log_density, self.free, theta)
        except (NotPositiveDefiniteError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            return nowhere
        return (value, gradient) if np.isfinite(value) and np.isfinite(gradient).all() else nowhere

    def energy(self, point: Point) -> float:
        """``H = −log π(θ) + ½ pᵀ M⁻¹ p``, or infinity if that is not a number."""
        if not (np.isfinite(point.value) and np.isfinite(point.momentum).all()):
            return math.inf
        return 0.5 * float((self.inverse_mass * point.momentum**2).sum()) - point.value

    def transition(self, point: Point) -> Path:
        """A path through ``point`` with a fresh momentum ``p ~ N(0, M)``, doubled until it turns back."""
        point = self.kick(point)
        energy = self.energy(point)
        path = Path(point, point, point.momentum, point, 0.0)
        for depth in range(self.max_depth):
            forward = self._uniform() < 0.5
            more = self._grow(path.last if forward else path.first, forward, depth, energy)
            path = self._join(path, more, forward, favour_new=True)
            if not path.going:
                break
        return path

    def kick(self, point: Point) -> Point:
        """The point with a fresh momentum."""
        normal = torch.randn(len(point.theta), generator=self.generator, dtype=torch.float64).numpy()
        return replace(point, momentum=normal / np.sqrt(self.inverse_mass))

    def _grow(self, end: Point, forward: bool, depth: int, energy: float) -> Path:
        """``2^depth`` steps beyond ``end``, fewer if they turn back or diverge."""
        if depth == 0:
            new = self.leapfrog(end, self.step_size if forward else -self.step_size)
            gain = energy - self.energy(new)
            diverged = not gain > -_DIVERGENT
            return Path(new, new, new.momentum, new, gain, math.exp(min(0.0, gain)), 1, diverged, not diverged)
        path = self._grow(end, forward, depth - 1, energy)
        if not path.going:
            return path
        more = self._grow(path.last if forward else path.first, forward, depth - 1, energy)
        return self._join(path, more, forward, favour_new=False)

    def _join(self, path: Path, more: Path, forward: bool, favour_new: bool) -> Path:
        """Two stretches as one; a stretch that stopped gives no draw, which keeps the chain reversible."""
        old, new = (path, more) if forward else (more, path)
        log_weight = float(np.logaddexp(path.log_weight, more.log_weight))
        chance = more.log_weight - (path.log_weight if favour_new else log_weight)
        draw = more.draw if more.going and math.log(self._uniform()) < chance else path.draw
        total = old.total + new.total
        going = (
            more.going
            and self._straight(old.first, new.last, total)
            and self._straight(old.first, new.first, old.total + new.first.momentum)
            and self._straight(old.last, new.last, old.last.momentum + new.total)
        )
        acceptance, steps = path.acceptance + more.acceptance, path.steps + more.steps
        return Path(old.first, new.last, total, draw, log_weight, acceptance, steps, more.diverged, going)

    def _straight(self, first: Point, last: Point, total: np.ndarray) -> bool:
        """Whether the path between two points still moves away from both ends."""
        velocity = self.inverse_mass * total
        return bool(first.momentum @ velocity > 0 and last.momentum @ velocity > 0)

    def _uniform(self) -> float:
        return 1.0 - float(torch.rand((), generator=self.generator, dtype=torch.float64))  # in (0, 1]
