"""L-BFGS for smooth objectives of a few parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn

from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError
from stratagp.training.free import gather, scatter, value_and_gradient


@dataclass(frozen=True)
class Result:
    """How an optimisation ended.

    >>> import torch
    >>> x = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    >>> maximise(lambda: -(x - 3).square().sum(), [x]).converged
    True
    """

    value: float
    evaluations: int
    converged: bool
    message: str


_LINE = 10  # evaluations of a line search: more go into rounding
_NARROWEST, _WIDEST = 1e-8, 1.0  # variances of free coordinates, logs mostly, that a climb believes of another


@dataclass
class Curvature:
    """What a climb learnt about the curvature of its objective, so that the next one makes steps of the right length.

    ``inverse`` is the negative inverse of the second derivatives in free coordinates: for a log posterior, the
    covariance of its Gaussian approximation.
    """

    inverse: np.ndarray | None = None

    def times(self, factor: float) -> Curvature:
        """That of an objective with more rows, ``1/factor`` times as many."""
        return Curvature(None if self.inverse is None else factor * self.inverse)

    def root(self, size: int) -> np.ndarray:
        """``R`` with ``R Rᵀ`` the inverse, without directions that are wider or narrower than can be believed."""
        if self.inverse is None:
            return np.eye(size)
        values, vectors = np.linalg.eigh(0.5 * (self.inverse + self.inverse.T))
        return vectors * np.sqrt(np.clip(values, _NARROWEST, _WIDEST))


def maximise(
    objective: Callable[[], Tensor],
    parameters: Iterable[nn.Parameter],
    max_iterations: int = 200,
    tolerance: float = 0.0,
    patience: int = 10,
    curvature: Curvature | None = None,
) -> Result:
    """Move ``parameters`` to a maximum of ``objective()`` by L-BFGS; they end at the best point seen.

    A point where a covariance cannot be factored, or the objective is not finite, counts as bad: the line search steps
    back from it. At the starting point such a failure is raised. Where ``patience`` iterations together gain less than
    ``tolerance``, the search ends, and has converged; as it does where the curvature of an earlier climb expects no
    more from the next step. ``curvature`` is what such a climb learnt, and takes what this one learns.

    >>> import torch
    >>> x = nn.Parameter(torch.tensor([3.0]))
    >>> maximise(lambda: -(x - 1).square().sum(), [x]).converged
    True
    >>> round(x.item(), 5)
    1.0
    """
    free = [p for p in parameters if p.requires_grad]
    if not free:
        return Result(float(objective().detach()), 1, True, "there was nothing to learn")
    search = _Search(objective, free, tolerance, patience, curvature)
    search.start()
    # scipy's OpenBLAS threads, woken between evaluations, would compete with torch's for the cores
    with ThreadpoolController().select(prefix="libscipy_openblas").limit(limits=1):
        end = search.run(max_iterations)
        if not end.success and end.nit < max_iterations and not search.slow:  # the line search gave up: try once more
            end = search.run(max_iterations)
    scatter(free, search.best)
    for warning in search.warned:
        warnings.warn(warning.message, stacklevel=2)
    stays = search.knows and end.nit == 0  # where an earlier climb ended
    converged = bool(end.success) or search.slow or search.expects_little or search.is_flat() or stays
    if not converged:
        remedy = "raise max_iterations or start from other values"
        if end.nit < max_iterations:
            remedy = "no step improves the score, often because of rounding: add noise or a prior on the noise"
        warnings.warn(
            f"L-BFGS stopped before it converged, after {end.nit} iterations ({end.message}): {remedy}",
            ConvergenceWarning,
            stacklevel=2,
        )
    if curvature is not None and search.root is not None:
        curvature.inverse = search.root @ _inverse(end.hess_inv.sk, end.hess_inv.yk) @ search.root.T
    gained = f"the last iterations gained less than {tolerance:.2g}"
    return Result(search.value, search.evaluations, converged, gained if search.slow else str(end.message))


def _inverse(steps: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """What steps and the changes of the gradient along them say about the inverse of the second derivatives (BFGS)."""
    identity = np.eye(steps.shape[1])
    inverse = identity if not len(steps) else identity * (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for step, change in zip(steps, changes, strict=True):
        along = step @ change
        turn = identity - np.outer(step, change) / along
        inverse = turn @ inverse @ turn.T + np.outer(step, step) / along
    return inverse


class _Search:
    """The state of one optimisation: the best point so far, and the loss for scipy."""

    def __init__(
        self,
        objective: Callable[[], Tensor],
        free: list[nn.Parameter],
        tolerance: float,
        patience: int,
        curvature: Curvature | None,
    ) -> None:
        self.objective, self.free, self.tolerance, self.patience = objective, free, tolerance, patience
        self.climb: list[float] = []  # the best value after each iteration
        self.best, self.value = gather(free), -np.inf
        self.root = None if curvature is None else curvature.root(len(self.best))
        self.knows = curvature is not None and curvature.inverse is not None
        self.origin = self.best  # with a root, scipy walks on z, where θ = origin + root z
        self.gradient = np.full_like(self.best, np.inf)
        self.warned: list[warnings.WarningMessage] = []  # at the best point
        self.evaluations = 0

    def start(self) -> None:
        """The first evaluation; its errors reach the caller."""
        value, gradient, self.warned = self.evaluate(self.best)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise InputError("the objective is not finite at the starting point: check the data and the initial values")
        self.value, self.gradient = value, gradient

    def run(self, max_iterations: int) -> Any:
        """L-BFGS from the best point."""
        options = {"maxiter": max_iterations, "maxcor": 20 if self.root is None else 50, "maxls": _LINE}
        self.origin = self.best
        start = self.best if self.root is None else np.zeros_like(self.best)
        return scipy.optimize.minimize(
            self.loss, start, jac=True, method="L-BFGS-B", options=options, callback=self.after
        )

    def after(self, theta: np.ndarray) -> None:
        """Record an iteration; ends the search if the last ones gained too little."""
        self.climb.append(self.value)
        if self.slow:
            raise StopIteration

    @property
    def expects_little(self) -> bool:
        """Whether the curvature of an earlier climb promises less than the tolerance from here."""
        if self.root is None or not self.knows:
            return False
        return bool(0.5 * np.sum((self.gradient @ self.root) ** 2) < self.tolerance)

    @property
    def slow(self) -> bool:
        """Whether the last iterations together gained less than the tolerance, or the next ones are not expected to.

        What is expected leans on the curvature of an earlier climb, which may not know all directions: so the last
        iterations must have gained as little.
        """
        span = min(2, self.patience) if self.expects_little else self.patience
        return len(self.climb) > span and self.climb[-1] - self.climb[-1 - span] < self.tolerance

    def evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray, list[warnings.WarningMessage]]:
        """The objective and its gradient at ``theta``, and what was warned of; the best point is known already."""
        if np.isfinite(self.value) and np.array_equal(theta, self.best):
            return self.value, self.gradient, self.warned
        self.evaluations += 1
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            return *value_and_gradient(self.objective, self.free, theta), warned

    def loss(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """What scipy minimises; where the objective fails, a wall clearly above the best point.

        An infinite wall would stop the line search instead of turning it back.
        """
        theta = z if self.root is None else self.origin + self.root @ z
        wall = max(1.0, abs(self.value)) - self.value, np.zeros_like(theta)
        try:
            value, gradient, warned = self.evaluate(theta)
        except NotPositiveDefiniteError:
            return wall
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return wall
        if value > self.value:
            self.best, self.value, self.gradient, self.warned = theta.copy(), value, gradient, warned
        return -value, -(gradient if self.root is None else gradient @ self.root)

    def is_flat(self) -> bool:
        """Whether the best point is a maximum as far as rounding can tell."""
        return bool(np.abs(self.gradient).max() <= 1e-4 * max(1.0, abs(self.value)))
