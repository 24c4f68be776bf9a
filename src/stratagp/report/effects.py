"""What drives predictions: shares of the columns, and how predictions change over the ones that matter most."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from stratagp.errors import StrataGPError
from stratagp.plotting.answers import answers
from stratagp.plotting.dependence import curves_of
from stratagp.plotting.plot_data import PlotData
from stratagp.report.learnt import inner
from stratagp.report.plain import date, entry, short, some
from stratagp.report.summary import InputSummary

_LEVEL = 0.9  # of the bands
_TOP = 4  # columns whose curves are drawn
_MOST_COLUMNS = 200  # beyond which relevance takes long
_SHARES = 15
_GRID, _ROWS, _RUG = 30, 100, 120
_CLASSES = 4  # curves in a picture
_LEVELS = 10  # values of a category


def effects(model: Any, X: Any, inputs: InputSummary, seed: int) -> dict[str, Any]:
    """Relevance of columns, largest first, and partial dependence on the first few."""
    shares = _shares(model, inputs)
    order = sorted(range(len(shares)), key=lambda j: -shares[j])
    known = order if order else list(range(len(inputs.names)))
    listed = [{"name": inputs.names[j], "share": float(shares[j])} for j in order[:_SHARES]]
    curves = [_curve(model, X, inputs, j, seed) for j in known[:_TOP]] if inputs.is_table else []
    kept = [curve for curve in curves if curve is not None]
    return {"relevance": listed, "more": max(0, len(order) - _SHARES), "curves": kept, "order": known}


def _shares(model: Any, inputs: InputSummary) -> list[float]:
    own = inner(model)
    if len(inputs.names) > _MOST_COLUMNS or not answers(own, "relevance_"):
        return []
    shares = np.asarray(own.relevance_, dtype=float)
    return shares.tolist() if shares.shape == (len(inputs.names),) and np.isfinite(shares).all() else []


def _curve(model: Any, X: Any, inputs: InputSummary, j: int, seed: int) -> dict[str, Any] | None:
    """Partial dependence on one column; None where a model cannot be asked."""
    rows = PlotData(X, inner(model))
    if inputs.kinds[j] not in ("number", "date", "category"):
        return None
    is_number = rows.is_number(j, inner(model))
    levels = [] if is_number else rows.levels(j)
    values = rows.grid(j, _GRID) if is_number else _most_frequent(levels, rows.column(j))
    try:
        found = curves_of(model, rows.take(some(len(rows), _ROWS, seed)), j, values, _LEVEL)
    except StrataGPError:  # columns of objects, and models over several outputs
        return None
    dates = values.dtype.kind == "M"
    return {
        "name": inputs.names[j],
        "kind": "date" if dates else "number" if is_number else "category",
        "values": [date(value) for value in values] if dates else _texts(values) if not is_number else short(values),
        "more_values": max(0, len(levels) - _LEVELS),
        "curves": _kept(found),
        "more_curves": max(0, len(found.names) - _CLASSES),
        "band": found.band,
        "rug": short(_sample(rows.column(j), seed)) if is_number and not dates else [],
    }


def _most_frequent(levels: list[Any], column: np.ndarray) -> np.ndarray:
    """The values of a category that most rows have, in the order of ``levels`` where as many have them."""
    rows = Counter(column.tolist())
    return np.array(sorted(levels, key=lambda level: -rows[level])[:_LEVELS], dtype=object)


def _kept(found: Any) -> list[dict[str, Any]]:
    """The curves that change most, where there are more classes than a picture can hold."""
    swing = np.ptp(found.mean, axis=0)
    chosen = np.sort(np.argsort(-swing, kind="stable")[:_CLASSES])
    parts = [(found.names[c], found.mean[:, c], found.low[:, c], found.high[:, c]) for c in chosen]
    return [{"name": name, "mean": short(m), "low": short(low), "high": short(high)} for name, m, low, high in parts]


def _texts(values: np.ndarray) -> list[str]:
    return [str(entry(value)) for value in values]


def _sample(column: np.ndarray, seed: int) -> np.ndarray:
    known = column.astype(float)
    known = known[np.isfinite(known)]
    return known[some(len(known), _RUG, seed)]
