"""Maps over two columns: predictions and their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from stratagp.errors import InputError
from stratagp.metrics.checks import check_count
from stratagp.plotting.answers import check_classifier, check_regressor, moments
from stratagp.plotting.plot_data import PlotData, labels, name_of, numbers
from stratagp.plotting.style import add_legend, colours, library, many_axes, tidy_dates


def maps_2d(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    columns: Any = None,
    at: Mapping[Any, Any] | None = None,
    of: str = "y",
    n_grid: int = 60,
    target: str | None = None,
    ax: Any = None,
) -> np.ndarray:
    """Two maps over two columns: mean and standard deviation; for a classifier, probabilities and their entropy.

    Arguments:
        model: a fitted regressor or classifier.
        X, y: rows, drawn as points, whose range the maps cover. With ``y``, points have the colours of their targets,
            unless there are other columns: the map then holds for one value of these, and the points do not.
        columns: two numeric columns, by name or number; may be omitted if there are no others.
        at: values of other columns; by default the median or the most frequent value.
        of: "y" for observations, or "f" for the function without noise.
        n_grid: the number of values of each column.
        target: the name of the target, with its unit.
        ax: two Axes.

    Returns:
        Both Axes. A classifier's first map is the probability of the second of two classes, or the most probable of
        several.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import GPRegressor
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> gp = GPRegressor(max_iterations=0).fit(X, X[:, 0] * X[:, 1])
    >>> mean, std = maps_2d(gp, X, n_grid=10, ax=Figure().subplots(1, 2))
    >>> mean.collections[0].get_array().shape
    (10, 10)
    """
    classes = isinstance(model, BaseEstimator) and is_classifier(model)
    (check_classifier if classes else check_regressor)(model, "maps_2d")
    rows = PlotData(X, model)
    i, j = _two(rows, columns, model)
    check_count(n_grid, "n_grid", 2)
    shown = None if y is None else (labels if classes else numbers)(y, len(rows))
    horizontal, vertical = rows.grid(i, n_grid), rows.grid(j, n_grid)
    points = _grid(rows, (i, j), horizontal, vertical, at or {}, model)
    found = _classes(model, points) if classes else moments(model, points, of)
    panels = many_axes(ax, 2)
    surfaces = [each.reshape(n_grid, n_grid) for each in found]
    if classes:
        _draw_classes(panels, horizontal, vertical, surfaces, model.classes_)
    else:
        name = name_of(y, target)
        meshes = _draw_numbers(panels, horizontal, vertical, surfaces, name)
    for panel in panels:
        panel.set(xlabel=rows.names[i], ylabel=rows.names[j])
        tidy_dates(panel.xaxis, horizontal)
        tidy_dates(panel.yaxis, vertical)
    place = rows.column(i), rows.column(j)
    if shown is None or len(rows.names) > 2:
        _draw_places(panels, place)
    elif classes:
        _draw_labels(panels, place, shown, model.classes_)
    else:
        norm = meshes[0].norm
        panels[0].scatter(*place, c=shown, norm=norm, cmap="viridis", s=26, edgecolors="white", linewidths=0.8)
        _draw_places(panels[1:], place)
    return panels


def _two(rows: PlotData, columns: Any, model: Any) -> tuple[int, int]:
    if columns is None:
        if len(rows.names) != 2:
            raise InputError(
                f"maps_2d needs two columns, but X has {len(rows.names)}: {', '.join(rows.names)}; choose "
                "columns=[…, …], and at={…: …} for the others"
            )
        columns = [0, 1]
    chosen = [rows.position(column) for column in columns] if isinstance(columns, (list, tuple)) else []
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise InputError(f"columns must be two different columns of X, got {columns!r}")
    for j in chosen:
        if not rows.is_number(j, model):
            raise InputError(f"columns must be numeric, but {rows.names[j]!r} is a category: fix it by at={{…}}")
    return chosen[0], chosen[1]


def _grid(rows: PlotData, axes: tuple[int, int], first: Any, second: Any, at: Mapping[Any, Any], model: Any) -> Any:
    """All pairs of values, the first running fastest, with typical values of the other columns."""
    given = {rows.position(column): value for column, value in at.items()}
    if set(given) & set(axes):
        raise InputError("at must name columns other than the two of the map")
    others = {j: rows.typical(j, model) for j in range(len(rows.names)) if j not in axes and j not in given}
    whole = rows.take(np.zeros(len(first) * len(second), dtype=int))
    pairs = np.meshgrid(first, second)
    return whole.replaced({axes[0]: pairs[0].ravel(), axes[1]: pairs[1].ravel(), **others, **given})


def _classes(model: Any, points: Any) -> tuple[np.ndarray, np.ndarray]:
    """The probability of the second class, or the number of the most probable; and the entropy."""
    p = np.asarray(model.predict_proba(points))
    entropy = -np.sum(p * np.log2(np.maximum(p, 1e-300)), axis=1)
    return (p[:, 1] if p.shape[1] == 2 else p.argmax(1).astype(float)), entropy


def _draw_numbers(panels: Any, first: Any, second: Any, surfaces: list[np.ndarray], name: str) -> list[Any]:
    meshes = []
    for panel, surface, cmap, title in zip(panels, surfaces, ("viridis", "cividis"), ("mean", "std"), strict=True):
        meshes.append(panel.pcolormesh(first, second, surface, cmap=cmap, shading="nearest", rasterized=True))
        panel.figure.colorbar(meshes[-1], ax=panel, label=f"{title} of {name}")
    return meshes


def _draw_classes(panels: Any, first: Any, second: Any, surfaces: list[np.ndarray], names: np.ndarray) -> None:
    left, right = panels
    options: dict[str, Any] = {"shading": "nearest", "rasterized": True}
    if len(names) == 2:
        mesh = left.pcolormesh(first, second, surfaces[0], cmap="cividis", vmin=0, vmax=1, **options)
        left.figure.colorbar(mesh, ax=left, label=f"probability of {names[1]}")
    else:
        shades, patch = colours(len(names)), library("matplotlib.patches").Patch
        cmap = library("matplotlib.colors").ListedColormap(shades)
        left.pcolormesh(first, second, surfaces[0], cmap=cmap, vmin=-0.5, vmax=len(names) - 0.5, alpha=0.5, **options)
        left.set_title("most probable class", fontsize="medium")
        key = [patch(color=shade, alpha=0.5, label=str(name)) for shade, name in zip(shades, names, strict=True)]
        add_legend(left, handles=key)
    mesh = right.pcolormesh(first, second, surfaces[1], cmap="cividis", vmin=0, vmax=np.log2(len(names)), **options)
    right.figure.colorbar(mesh, ax=right, label="entropy (bits)")


def _draw_places(panels: Any, place: tuple[Any, Any]) -> None:
    """Draw rows as uncoloured points."""
    for panel in panels:
        panel.scatter(*place, c="white", s=9, edgecolors="black", linewidths=0.4)


def _draw_labels(panels: Any, place: tuple[Any, Any], shown: np.ndarray, names: np.ndarray) -> None:
    """Draw rows as points in the colours of their classes, with a legend."""
    for label, colour in zip(names, colours(len(names)), strict=True):
        own = shown == label
        for panel in panels:
            points = place[0][own], place[1][own]
            panel.scatter(*points, color=[colour], s=18, edgecolors="white", linewidths=0.5, label=str(label))
    add_legend(panels[0])
