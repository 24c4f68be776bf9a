"""Predictions as a function of one column, averaged over the rows."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from stratagp.errors import InputError
from stratagp.metrics.checks import check_count, check_level
from stratagp.plotting.answers import answer, answers, check_classifier, check_regressor, one_target
from stratagp.plotting.plot_data import PlotData, name_of
from stratagp.plotting.style import BAND, LINES, MARKERS, add_legend, colours, ink, many_axes, percent, tidy_dates

_DAY = 86_400_000_000_000  # nanoseconds; models use days


class Curves(NamedTuple):
    """Curves ``g c`` of c classes (or one target), the ends of their bands, and labels."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    band: str
    names: list[str]


def partial_dependence(
    model: Any,
    X: Any,
    columns: Any,
    *,
    level: float = 0.9,
    n_grid: int = 40,
    max_rows: int = 200,
    target: str | None = None,
    ax: Any = None,
) -> Any:
    """``1/n Σᵢ f(xᵢ with one column set to v)`` against ``v``: a line for numbers, points for the values of a category.

    Arguments:
        model: any fitted regressor or classifier. For a classifier, the curves are the probability of each class (of
            the second, if there are two).
        X: rows, for the range of the columns and for the average.
        columns: the name or number of a column, or a list of them for a panel each.
        level: of the bands. If the model knows its belief about the average (:class:`~stratagp.GPRegressor` with
            independent outputs, over its training rows), bands cover that share of the belief; for other models they
            cover that share of the rows' own curves.
        n_grid: the number of values of a numeric column.
        max_rows: the most rows to average over.
        target: the name of the target, with its unit.

    Returns:
        Axes, or an array of them for a list of columns.

    >>> from matplotlib.figure import Figure
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.random.default_rng(0).uniform(size=(50, 2))
    >>> tree = DecisionTreeRegressor().fit(X, X[:, 0] + X[:, 1])
    >>> ax = partial_dependence(tree, X, 0, target="price (€)", ax=Figure().subplots())
    >>> ax.get_ylabel()
    'price (€)'
    """
    classes = isinstance(model, BaseEstimator) and is_classifier(model)
    (check_classifier if classes else check_regressor)(model, "partial_dependence")
    rows, several = PlotData(X, model), isinstance(columns, (list, tuple))
    chosen = [rows.position(column) for column in (columns if several else [columns])]
    if not chosen:
        raise InputError("columns must name at least one column of X")
    check_level(level)
    check_count(n_grid, "n_grid", 2)
    some = rows.take(np.unique(np.linspace(0, len(rows) - 1, check_count(max_rows, "max_rows", 1)).astype(int)))
    drawn = []
    for j in chosen:
        values = rows.grid(j, n_grid) if rows.is_number(j, model) else np.array(rows.levels(j), dtype=object)
        drawn.append((values, curves_of(model, some, j, values, level)))
    panels = many_axes(ax, len(chosen))
    for panel, j, (values, curves) in zip(panels, chosen, drawn, strict=True):
        (draw_lines if rows.is_number(j, model) else draw_points)(panel, values, curves)
        name = "probability" if classes and len(curves.names) > 1 else curves.names[0] if classes else None
        panel.set(xlabel=rows.names[j], ylabel=name or name_of(None, target))
        if rows.is_number(j, model):
            _rug(panel, rows.column(j))
        add_legend(panel)
    return panels if several else panels[0]


def curves_of(model: Any, some: PlotData, j: int, values: np.ndarray, level: float) -> Curves:
    """The dependence on column j at ``values``, over the belief of a model that has one, else over ``some`` rows."""
    independent = answers(model, "partial_dependence") and answer(model, "outputs") in (None, "independent")
    known = independent and not is_classifier(model)
    return _believed(model, j, values, level) if known else _averaged(model, some, j, values, level)


def _believed(model: Any, j: int, values: np.ndarray, level: float) -> Curves:
    dates = values.dtype.kind == "M"
    mean, std = model.partial_dependence(j, values.astype(np.int64) / _DAY if dates else list(values))
    one_target(mean)
    reach = NormalDist().inv_cdf(0.5 + level / 2) * std
    low, high = mean - reach, mean + reach
    return Curves(mean[:, None], low[:, None], high[:, None], f"{percent(level)} of the belief", ["average"])


def _averaged(model: Any, rows: PlotData, j: int, values: np.ndarray, level: float) -> Curves:
    """Curves from predictions of each row with each value, ``g n c``."""
    g, n = len(values), len(rows)
    tiled = rows.take(np.tile(np.arange(n), g))
    table = tiled.replaced({j: np.repeat(values, n)})
    if is_classifier(model):
        found = np.asarray(model.predict_proba(table)).reshape(g, n, -1)
        found = found[:, :, 1:] if found.shape[2] == 2 else found
        kept = model.classes_[-found.shape[2] :]
        names = [f"probability of {kept[0]}"] if len(kept) == 1 else [str(label) for label in kept]
    else:
        found, names = one_target(np.asarray(model.predict(table))).reshape(g, n, 1), ["average"]
    low, high = np.quantile(found, [0.5 - level / 2, 0.5 + level / 2], axis=1)
    return Curves(found.mean(1), low, high, f"{percent(level)} of rows", names)


def draw_lines(ax: Any, values: np.ndarray, curves: Curves) -> None:
    """Lines with bands, over numbers and dates."""
    names = ["average"] if len(curves.names) == 1 else curves.names
    for c, colour in enumerate(colours(len(curves.names))):
        label = curves.band if c == 0 else None
        ax.fill_between(values, curves.low[:, c], curves.high[:, c], color=colour, alpha=BAND, linewidth=0, label=label)
        ax.plot(values, curves.mean[:, c], LINES[c % len(LINES)], color=colour, label=names[c])
    ax.margins(x=0)
    tidy_dates(ax.xaxis, values)


def draw_points(ax: Any, values: np.ndarray, curves: Curves) -> None:
    """Points with error bars, over categories."""
    count = len(curves.names)
    names = ["average"] if count == 1 else curves.names
    for c, colour in enumerate(colours(count)):
        place = np.arange(len(values)) + (c - (count - 1) / 2) * 0.6 / count
        mean = curves.mean[:, c]
        ends = np.abs(np.stack([mean - curves.low[:, c], curves.high[:, c] - mean]))
        label = f"{names[c]}, {curves.band}" if c == 0 else names[c]
        marker = MARKERS[c % len(MARKERS)]
        ax.errorbar(place, mean, ends, fmt=marker, color=colour, capsize=3, markersize=5, label=label)
    levels = [str(value) for value in values]
    crowded = len(levels) > 6 or sum(map(len, levels)) > 30
    ax.set_xticks(np.arange(len(levels)), levels, **({"rotation": 35, "ha": "right"} if crowded else {}))
    ax.margins(x=0.15)


def _rug(ax: Any, values: np.ndarray) -> None:
    """Mark the rows at the lower edge."""
    ax.plot(values, np.full(len(values), 0.02), "|", color=ink(ax), alpha=0.4, transform=ax.get_xaxis_transform())
