"""Where and when: what a model of numbers predicts over a date, and over two coordinates, as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from stratagp.errors import StrataGPError
from stratagp.plotting.answers import interval, moments
from stratagp.plotting.plot_data import PlotData
from stratagp.report.summary import InputSummary
from stratagp.report.values import date, short, some

_PAIRS = (  # names of coordinates to the east and to the north
    (("lon", "long", "lng", "longitude"), ("lat", "latitude")),
    (("easting", "x", "xcoord", "x_coord"), ("northing", "y", "ycoord", "y_coord")),
)
_DATES, _AHEAD = 120, 0.2  # dates of a series, and the share of its length that it goes on for
_CELLS = 24  # of a map, in each direction
_POINTS = 300  # rows in a picture
_LEVEL = 0.95


def series(model: BaseEstimator, X: Any, y: np.ndarray, inputs: InputSummary, seed: int) -> dict[str, Any] | None:
    """Predictions over the first column of dates and beyond its end, at typical values of all others; and some rows."""
    found = [j for j, field in enumerate(inputs.fields) if field.kind == "date"]
    if not found or not inputs.is_table:
        return None
    rows, j = PlotData(X, model), found[0]
    days = rows.column(j).astype("datetime64[s]")
    known = days[~np.isnat(days)].astype(np.int64)
    if not len(known) or known.min() == known.max():
        return None
    low, high = float(known.min()), float(known.max())
    dates = np.linspace(low, high + _AHEAD * (high - low), _DATES).round().astype(np.int64).astype("datetime64[s]")
    table = _typical(rows, {j: dates}, len(dates), model)
    try:
        (mean, _), (lower, upper) = moments(model, table), interval(model, table, _LEVEL)
    except (StrataGPError, ValueError, TypeError):  # of a model without error bars, or columns of objects
        return None
    shown = some(len(days), _POINTS, seed)
    shown = shown[~np.isnat(days[shown])]
    return {
        **{
            "name": inputs.names[j],
            "dates": [date(each) for each in dates],
            "last": date(np.datetime64(int(high), "s")),
        },
        **{"mean": short(mean), "low": short(lower), "high": short(upper)},
        **{"seen": [date(each) for each in days[shown]], "values": short(y[shown])},
        "alone": len(inputs.names) == 1,
    }


def place_map(model: BaseEstimator, X: Any, y: np.ndarray, inputs: InputSummary, seed: int) -> dict[str, Any] | None:
    """Predictions over two coordinates, at typical values of all other columns; and where some rows lie."""
    pair = coordinates(inputs)
    if pair is None or not inputs.is_table:
        return None
    rows = PlotData(X, model)
    east, north = (rows.grid(j, _CELLS) for j in pair)
    across, up = (part.ravel() for part in np.meshgrid(east, north))
    table = _typical(rows, dict(zip(pair, (across, up), strict=True)), len(across), model)
    try:
        mean, _ = moments(model, table)
    except (StrataGPError, ValueError, TypeError):
        return None
    shown = some(len(rows), _POINTS, seed)
    seen = [short(rows.column(j).astype(float)[shown]) for j in pair]
    names = [inputs.names[j] for j in pair]
    grid = {"east": short(east), "north": short(north), "mean": short(mean)}
    return {"names": names, **grid, "seen": seen, "alone": len(inputs.names) == 2}


def coordinates(inputs: InputSummary) -> tuple[int, int] | None:
    """The columns of coordinates, by their names; None where there is no pair.

    >>> from stratagp.data import Field
    >>> fields = [Field(name, "number", 9, 0) for name in ("Lat", "size", "Lon")]
    >>> coordinates(InputSummary(fields, [], [], True))
    (2, 0)
    """
    numbers = {field.name.lower(): j for j, field in enumerate(inputs.fields) if field.kind == "number"}
    for east, north in _PAIRS:
        found = [next((numbers[name] for name in names if name in numbers), None) for names in (east, north)]
        if found[0] is not None and found[1] is not None:
            return found[0], found[1]
    return None


def _typical(rows: PlotData, given: dict[int, Any], count: int, model: BaseEstimator) -> Any:
    """As many rows as there are values of the given columns; others have their median or most frequent value."""
    others = {j: rows.typical(j, model) for j in range(len(rows.names)) if j not in given}
    return rows.take(np.zeros(count, dtype=int)).replaced({**others, **given})
