"""Functions of one column: the fit, its bands, and draws of the function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stratagp.errors import InputError
from stratagp.metrics.checks import check_count, check_level
from stratagp.plotting.answers import check_regressor, draws, interval, one_target
from stratagp.plotting.plot_data import PlotData, name_of, numbers
from stratagp.plotting.style import BAND, BLUE, ORANGE, SKY, add_legend, ink, one_axes, percent, tidy_dates


def fit_1d(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    levels: Sequence[float] = (0.5, 0.95),
    n_samples: int = 0,
    of: str = "y",
    n_grid: int = 200,
    margin: float = 0.05,
    target: str | None = None,
    random_state: int = 0,
    ax: Any = None,
) -> Any:
    """The expected target over one column, with probability bands, and the rows if ``y`` is given.

    Arguments:
        model: a fitted regressor of one column.
        X, y: rows, whose range is drawn, and their targets.
        levels: the probabilities of the bands.
        n_samples: the number of draws of the function.
        of: what bands are about: "y" for observations, "f" for the function without noise.
        n_grid: the number of values at which to predict.
        margin: how far to go beyond the rows, relative to their range.
        target: the name of the target, with its unit; by default that of a pandas series ``y``.
        random_state: of the draws.

    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> gp = GPRegressor(max_iterations=0).fit(X, np.sin(X[:, 0]))
    >>> ax = fit_1d(gp, X, np.sin(X[:, 0]), target="height (m)", ax=Figure().subplots())
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'height (m)')
    """
    check_regressor(model, "fit_1d")
    rows = PlotData(X, model)
    if len(rows.names) != 1 or not rows.is_number(0, model):
        raise InputError(
            f"fit_1d needs X with one column of numbers, but it has {', '.join(rows.names)}: use partial_dependence "
            "for one column of several, or for a category"
        )
    chosen = sorted((check_level(level, "levels") for level in levels), reverse=True)
    count = check_count(n_samples, "n_samples", 0)
    targets = None if y is None else numbers(y, len(rows))
    values = rows.grid(0, check_count(n_grid, "n_grid", 2), margin)
    points = _as_rows(rows, values)
    mean = one_target(model.predict(points))
    bands = [interval(model, points, level, of) for level in chosen]
    functions = draws(model, points, count, random_state) if count else None

    ax = one_axes(ax)
    for level, (low, high) in zip(chosen, bands, strict=True):
        ax.fill_between(values, low, high, color=SKY, alpha=BAND, linewidth=0, label=f"{percent(level)} of {of}")
    if functions is not None:
        lines = ax.plot(values, functions, color=ORANGE, linewidth=0.8, alpha=0.8)
        lines[0].set_label("draws")
    ax.plot(values, mean, color=BLUE, label="mean")
    if targets is not None:
        ax.plot(rows.column(0), targets, ".", color=ink(ax), markersize=4, alpha=0.7, label="data")
    ax.set(xlabel=rows.names[0], ylabel=name_of(y, target))
    ax.margins(x=0)
    tidy_dates(ax.xaxis, values)
    add_legend(ax)
    return ax


def _as_rows(rows: PlotData, values: Any) -> Any:
    if not rows.is_frame:
        return values[:, None]
    return type(rows.X)({rows.X.columns[0]: values})
