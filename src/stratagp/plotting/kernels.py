"""Pictures of kernels: covariance against distance, and draws from the prior."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.linalg import cholesky
from stratagp.metrics.checks import check_count
from stratagp.plotting.style import BAND, BLUE, PALETTE, SKY, add_legend, one_axes

_ALIKE = 1e-8  # how much covariances of one distance may differ, relative to the largest
_JITTER = 1e-8


def kernel(
    kernel: Any, grid: Any, *, column: int = 0, at: Any = None, style: str = "auto", name: str = "x", ax: Any = None
) -> Any:
    """The covariance against the distance, or a map of all pairs if it depends on more than the distance.

    Arguments:
        kernel: a kernel on columns.
        grid: evenly spaced values of one column, compared in pairs.
        column: the number of that column, for a kernel of several columns.
        at: a row with the values of the other columns.
        style: "distance", "map", or "auto": "distance" if all pairs of one distance have one covariance.
        name: the name of the column.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import kernels as k
    >>> ax = kernel(k.RBF(lengthscale=1.0), np.linspace(0, 3, 50), name="years", ax=Figure().subplots())
    >>> ax.get_xlabel()
    'distance in years'
    """
    values, points = _points(kernel, grid, column, at)
    if style not in ("auto", "distance", "map"):
        raise InputError(f"style must be 'auto', 'distance' or 'map', got {style!r}")
    K = _matrix(kernel, points)
    if style == "auto":
        style = "distance" if _is_stationary(values, K) else "map"
    ax = one_axes(ax)
    if style == "distance":
        ax.plot(values - values[0], K[0], color=BLUE)
        ax.axhline(0, color=BLUE, linewidth=0.5, alpha=0.5)
        ax.set(xlabel=f"distance in {name}", ylabel="covariance")
        ax.margins(x=0)
        return ax
    mesh = ax.pcolormesh(values, values, K, cmap="viridis", shading="nearest", rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label="covariance")
    ax.set(xlabel=name, ylabel=f"{name}′", aspect="equal")
    return ax


def prior_draws(
    kernel: Any,
    grid: Any,
    n_samples: int = 5,
    *,
    column: int = 0,
    at: Any = None,
    name: str = "x",
    random_state: int = 0,
    ax: Any = None,
) -> Any:
    """Functions drawn from a zero-mean process with the kernel, and a band of two standard deviations.

    Arguments:
        kernel, grid, column, at, name: as in :func:`kernel`.
        n_samples: the number of functions.
        random_state: of the draws.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import kernels as k
    >>> ax = prior_draws(k.Matern(1.5), np.linspace(0, 3, 50), n_samples=3, ax=Figure().subplots())
    >>> len(ax.get_lines())
    3
    """
    values, points = _points(kernel, grid, column, at)
    count = check_count(n_samples, "n_samples", 1)
    K = torch.from_numpy(_matrix(kernel, points))
    factor = cholesky(K + _JITTER * K.diagonal().mean() * torch.eye(len(K), dtype=K.dtype)).numpy()
    functions = factor @ np.random.default_rng(random_state).standard_normal((len(K), count))
    reach = 2 * K.diagonal().sqrt().numpy()
    ax = one_axes(ax)
    ax.fill_between(values, -reach, reach, color=SKY, alpha=BAND, linewidth=0, label="2 standard deviations")
    for i, function in enumerate(functions.T):
        ax.plot(values, function, color=PALETTE[i % len(PALETTE)], linewidth=1.2)
    ax.set(xlabel=name, ylabel="function")
    ax.margins(x=0)
    add_legend(ax)
    return ax


def _points(kernel: Any, grid: Any, column: int, at: Any) -> tuple[np.ndarray, np.ndarray]:
    """The values of the column, and rows with these values."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be a kernel such as kernels.RBF(), or kernel_ of a fitted model, got {kernel!r}")
    if not kernel.takes_tensors:
        raise InputError("kernel acts on objects, which have no axis to draw along")
    values = np.asarray(grid, dtype=float)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all() or (np.diff(values) <= 0).any():
        raise InputError("grid must be at least two increasing numbers, such as np.linspace(0, 5, 100)")
    row = np.zeros(1) if at is None else np.asarray(at, dtype=float).reshape(-1)
    if not isinstance(column, (int, np.integer)) or not 0 <= column < len(row):
        raise InputError(f"column must be one of the {len(row)} columns of at, from 0, got {column!r}: pass a row at=…")
    points = np.tile(row, (len(values), 1))
    points[:, column] = values
    return values, points


def _matrix(kernel: Kernel, points: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        K = copy.deepcopy(kernel).cpu()(points)
    if K.dim() != 2:
        raise InputError("kernel has parameters for several functions: pass a kernel of one")
    return K.double().numpy()


def _is_stationary(values: np.ndarray, K: np.ndarray) -> bool:
    """Whether the matrix is constant along its diagonals, on an even grid."""
    steps = np.diff(values)
    if not np.allclose(steps, steps[0], rtol=1e-6):
        raise InputError("grid must be evenly spaced for style='auto': use np.linspace or choose a style")
    return bool(np.abs(K[1:, 1:] - K[:-1, :-1]).max() <= _ALIKE * np.abs(K).max())
