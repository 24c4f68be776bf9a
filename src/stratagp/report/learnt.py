"""What a model is, what it has learnt, and what drives its predictions, as plain values."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import numpy as np

from stratagp.errors import StrataGPError
from stratagp.kernels import Periodic
from stratagp.likelihoods import GaussianNoise, Likelihood
from stratagp.plotting.dependence import curves_of
from stratagp.plotting.plot_data import PlotData
from stratagp.plotting.training import histories_of
from stratagp.report.summary import InputSummary
from stratagp.report.values import date, entry, plain, short, some

_MOST_ROWS = 1500  # of training, up to which standard errors are computed for the page
_MOST_VALUES = 60
_LONGEST = 600  # letters of a kernel
_NOISES = ("noise", "gaussian.noise", "likelihood.noise", "likelihood.given.noise")
_LEVEL = 0.9  # of the bands
_TOP = 4  # columns whose curves are drawn
_MOST_COLUMNS = 200  # beyond which relevance takes long
_SHARES = 15
_GRID, _ROWS, _RUG = 30, 100, 120
_CLASSES = 4  # curves in a picture
_LEVELS = 10  # values of a category


def inner(model: Any) -> Any:
    """The model that a calibrated one holds, or the model itself."""
    return inner(model.model) if not hasattr(model, "fitted_") and hasattr(model, "model") else model


def describe(model: Any, inputs: InputSummary, rows: int) -> dict[str, Any]:
    """The kind of model, its kernel, its inference and why, and what it has learnt.

    Lengthscales are in the units of the columns, noise is a standard deviation in those of the target.
    """
    own = inner(model)
    table = _table(own, rows)
    try:
        kernel = str(own.kernel_)
        kernel = kernel if len(kernel) <= _LONGEST else f"{kernel[: _LONGEST - 1]}…"
    except (AttributeError, StrataGPError):
        kernel = None
    values = []
    for row in table[:_MOST_VALUES]:
        known = row.trainable and np.isfinite(row.std)
        ends = {"lower": row.lower, "upper": row.upper} if known else {"lower": None, "upper": None}
        values.append(plain({"name": row.name, "value": row.value, "note": row.note, **ends}))
    return {
        "name": type(model).__name__,
        "inner": None if own is model else type(own).__name__,
        "kernel": kernel,
        "inference": getattr(own, "inference_", None),
        "reason": getattr(own, "inference_reason_", None),
        "values": values,
        "more_values": max(0, len(table) - _MOST_VALUES),
        "has_errors": any(row.trainable and np.isfinite(row.std) for row in table),
        "lengthscales": _lengthscales(own, table, inputs),
        "noise": _noise(own, table),
    }


def histories(model: Any) -> list[dict[str, Any]]:
    """What the objective was, epoch by epoch, in each phase of training; nothing where no phase has two epochs."""
    phases = [(number, each) for number, each in enumerate(histories_of(inner(model)), 1) if len(each.values)]
    if not any(len(each.values) > 1 for _, each in phases):
        return []
    found = []
    for number, each in phases:
        kept = np.unique(np.linspace(0, len(each.values) - 1, 200).astype(int))
        values = [each.values[i] for i in kept]
        found.append(plain({"number": number, "epochs": kept + 1, "values": values, "ending": each.ending}))
    return found


def _table(model: Any, rows: int) -> list[Any]:
    """Learnt values; with standard errors where these are known or quick, as each takes two fits' worth of rows."""
    if not hasattr(type(model), "hyperparameters_"):
        return []
    if rows > _MOST_ROWS and "hyperparameters_" not in vars(model):
        model = copy.copy(model)
        model.__dict__.pop("criterion_", None)
    return list(model.hyperparameters_)


def _lengthscales(model: Any, table: list[Any], inputs: InputSummary) -> list[dict[str, Any]]:
    """Those of columns of numbers, in units of the columns: only where the kernel sees the columns themselves.

    A column over which anything repeats has none: that of a periodic kernel is a distance on a circle, and another one
    says nothing of the changes within a period.
    """
    seen = getattr(getattr(model, "inputs_", None), "columns", [])
    if not inputs.is_table or getattr(model, "_kernel_columns", list)() != seen:
        return []
    scale = getattr(model.inputs_, "scale", None)
    found, repeated = [], set[str]()
    for row in table:
        stem, _, column = row.name.partition("[")
        column = column.removesuffix("]")
        if not stem.endswith("lengthscale") or "layers." in stem:
            continue
        if isinstance(_owner(model, stem), Periodic):
            repeated |= {column} if column else set(seen)
        elif column in seen and column in inputs.names:
            unit = 1.0 if scale is None else float(scale[seen.index(column)])
            found.append({"column": column, "value": row.value * unit})
    names = [each["column"] for each in found]
    return [each for each in found if each["column"] not in repeated] if len(set(names)) == len(names) else []


def _noise(model: Any, table: list[Any]) -> float | None:
    """The standard deviation of the noise in units of the target, where there is one and it is Gaussian.

    The noise of other likelihoods may be about something else, such as the logarithm of the target; that of models of
    closed form is not.
    """
    owners = [(row.value, _owner(model, row.name)) for row in table if row.name in _NOISES]
    found = [value for value, own in owners if isinstance(own, GaussianNoise) or not isinstance(own, Likelihood)]
    return float(np.sqrt(found[0])) if len(found) == 1 and found[0] >= 0 else None


def _owner(model: Any, address: str) -> Any:
    """The part of a model that a hyperparameter belongs to."""
    return model.model_.get_submodule(address.rpartition(".")[0])


def effects(model: Any, X: Any, inputs: InputSummary, seed: int) -> dict[str, Any]:
    """Relevance of columns, largest first, and partial dependence on the first few."""
    own, columns, shares = inner(model), len(inputs.names), np.zeros(0)
    if columns <= _MOST_COLUMNS and hasattr(own, "relevance_"):
        shares = np.asarray(own.relevance_, dtype=float)
        shares = shares if shares.shape == (columns,) and np.isfinite(shares).all() else np.zeros(0)
    order: list[int] = np.argsort(-shares, kind="stable").tolist()
    known = order or list(range(columns))
    listed = [{"name": inputs.names[j], "share": float(shares[j])} for j in order[:_SHARES]]
    curves = [_curve(model, X, inputs, j, seed) for j in known[:_TOP]] if inputs.is_table else []
    kept = [curve for curve in curves if curve is not None]
    return {"relevance": listed, "more": max(0, len(order) - _SHARES), "curves": kept, "order": known}


def _curve(model: Any, X: Any, inputs: InputSummary, j: int, seed: int) -> dict[str, Any] | None:
    """Partial dependence on one column; None where a model cannot be asked."""
    rows = PlotData(X, inner(model))
    if inputs.fields[j].kind not in ("number", "date", "category"):
        return None
    is_number, column = rows.is_number(j, inner(model)), rows.column(j)
    levels = [] if is_number else rows.levels(j)
    if is_number:
        values = rows.grid(j, _GRID)
    else:  # those that most rows have
        having = Counter(column.tolist())
        values = np.array(sorted(levels, key=lambda level: -having[level])[:_LEVELS], dtype=object)
    try:
        found = curves_of(model, rows.take(some(len(rows), _ROWS, seed)), j, values, _LEVEL)
    except StrataGPError:  # columns of objects, and models over several outputs
        return None
    kind = "date" if values.dtype.kind == "M" else "number" if is_number else "category"
    shown = short(values) if kind == "number" else [date(v) if kind == "date" else str(entry(v)) for v in values]
    rug = column.astype(float) if kind == "number" else np.zeros(0)
    rug = rug[np.isfinite(rug)]
    swing = np.ptp(found.mean, axis=0)
    chosen = np.sort(np.argsort(-swing, kind="stable")[:_CLASSES])  # the curves that change most
    parts = {"mean": found.mean, "low": found.low, "high": found.high}
    return {
        "name": inputs.names[j],
        "kind": kind,
        "values": shown,
        "more_values": max(0, len(levels) - _LEVELS),
        "curves": [
            {"name": found.names[c], **{part: short(curve[:, c]) for part, curve in parts.items()}} for c in chosen
        ],
        "more_curves": max(0, len(found.names) - _CLASSES),
        "band": found.band,
        "rug": short(rug[some(len(rug), _RUG, seed)]),
    }
