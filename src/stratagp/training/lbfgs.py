"""L-BFGS for smooth objectives of a few parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn

from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError


@dataclass(frozen=True)
class Result:
    """How an optimisation ended."""

    value: float
    evaluations: int
    converged: bool
    message: str


def maximise(objective: Callable[[], Tensor], parameters: Iterable[nn.Parameter], max_iterations: int = 200) -> Result:
    """Move ``parameters`` to a maximum of ``objective()`` by L-BFGS; they end at the best point seen.

    A point where a covariance cannot be factored, or the objective is not finite, counts as bad: the line search steps
    back from it.

    >>> x = nn.Parameter(torch.tensor([3.0]))
    >>> maximise(lambda: -(x - 1).square().sum(), [x]).converged
    True
    >>> round(x.item(), 5)
    1.0
    """
    free = [p for p in parameters if p.requires_grad]
    if not free:
        return Result(float(objective().detach()), 1, True, "there was nothing to learn")
    best = (-np.inf, _gather(free))

    def wall() -> float:
        """A loss clearly above the best so far; infinity would stop the line search instead of turning it back."""
        return max(1.0, abs(best[0])) - best[0] if np.isfinite(best[0]) else np.inf

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        _scatter(free, theta)
        for parameter in free:
            parameter.grad = None
        try:
            score = objective()
            score.backward()
        except NotPositiveDefiniteError:
            return wall(), np.zeros_like(theta)
        value = float(score.detach())
        gradient = np.concatenate([_flat(p.grad if p.grad is not None else torch.zeros_like(p)) for p in free])
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return wall(), np.zeros_like(theta)
        if value > best[0]:
            best = (value, theta.copy())
        return -value, -gradient

    # scipy's OpenBLAS threads, woken between evaluations, would fight torch's for the cores
    with ThreadpoolController().select(prefix="libscipy_openblas").limit(limits=1):
        end = minimize(loss, best[1], jac=True, method="L-BFGS-B", options={"maxiter": max_iterations, "maxcor": 20})
    if not np.isfinite(best[0]):
        _scatter(free, best[1])
        raise InputError("the objective is not finite at the starting point: check the data and the initial values")
    _scatter(free, best[1])
    if not end.success and end.nit >= max_iterations:
        warnings.warn(
            f"L-BFGS stopped after {max_iterations} iterations before it converged; raise max_iterations",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Result(best[0], int(end.nfev), bool(end.success), str(end.message))


def _flat(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().cpu().numpy().ravel()


def _gather(parameters: list[nn.Parameter]) -> np.ndarray:
    return np.concatenate([_flat(p) for p in parameters])


def _scatter(parameters: list[nn.Parameter], theta: np.ndarray) -> None:
    start = 0
    for p in parameters:
        values = torch.from_numpy(theta[start : start + p.numel()].copy())
        p.data.copy_(values.reshape(p.shape))
        start += p.numel()
