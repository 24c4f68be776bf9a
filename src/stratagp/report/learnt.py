"""What a model is, what it has learnt and what drives its predictions, as plain values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from torch.nn import Module

from stratagp.errors import StrataGPError
from stratagp.estimators.calibrated import Calibration
from stratagp.estimators.notebook import learnt_values, shown_kernel
from stratagp.estimators.shell import Estimator
from stratagp.estimators.strata import Stacked
from stratagp.kernels import Periodic
from stratagp.likelihoods import GaussianNoise, Likelihood
from stratagp.models.fitted_process import VecchiaModel
from stratagp.models.stack import StackModel
from stratagp.plotting.answers import answer, answers
from stratagp.plotting.dependence import curves_of
from stratagp.plotting.plot_data import PlotData
from stratagp.plotting.training import histories_of
from stratagp.report.summary import InputSummary
from stratagp.report.values import date, entry, plain, short, some
from stratagp.training.curvature import Hyperparameter

_MOST_ROWS = 1500  # up to which standard errors are computed for the page
_MOST_LENGTHSCALES = 100  # the same: each takes two evaluations of the score
_MOST_VALUES = 60
_NOISES = ("noise", "gaussian.noise", "likelihood.noise", "likelihood.given.noise")
_LEVEL = 0.9  # of the bands
_TOP = 4  # columns with a curve
_MOST_COLUMNS = 200  # above which relevance takes too long
_SHARES = 15
_GRID, _ROWS, _RUG = 30, 100, 120
_SLOW_ROWS = 30  # in place of _ROWS where a prediction takes milliseconds: of stacks, near rows, rows with gaps
_CLASSES = 4  # curves in a picture
_LEVELS = 10  # values of a category in a picture


def inner(model: BaseEstimator) -> BaseEstimator:
    """The model inside a calibrated one, or the model itself."""
    return inner(model.model) if isinstance(model, Calibration) else model


def describe(model: BaseEstimator, inputs: InputSummary, rows: int) -> dict[str, Any]:
    """The kind of model, its kernel, its inference and why, and what it has learnt.

    Lengthscales are in the units of the columns; the noise is a standard deviation in the unit of the target.
    """
    own = inner(model)
    table = learnt_table(own, with_errors=rows <= _MOST_ROWS)
    values = []
    for row in table[:_MOST_VALUES]:
        known = row.trainable and np.isfinite(row.std)
        ends = {"lower": row.lower, "upper": row.upper} if known else {"lower": None, "upper": None}
        values.append(plain({"name": row.name, "value": row.value, "note": row.note, **ends}))
    return {
        "name": type(model).__name__,
        "inner": None if own is model else type(own).__name__,
        "kernel": shown_kernel(own),
        "inference": answer(own, "inference_"),
        "reason": answer(own, "inference_reason_"),
        "values": values,
        "more_values": max(0, len(table) - _MOST_VALUES),
        "has_errors": any(row.trainable and np.isfinite(row.std) for row in table),
        "lengthscales": _lengthscales(own, table, inputs),
        "noise": _noise(own, table),
        "candidates": _candidates(own),
    }


def _candidates(model: BaseEstimator) -> list[dict[str, Any]]:
    """How the candidates of a stack did, its members first; nothing for other models."""
    if not isinstance(model, Stacked):
        return []
    stack: StackModel = vars(model)["fitted_"]
    board = sorted(stack.board, key=lambda each: (-each.weight, -each.density))
    why = {member.name: member.why for member in stack.members}
    return plain([{**vars(each), "why": why.get(each.name, "")} for each in board])


def histories(model: BaseEstimator) -> list[dict[str, Any]]:
    """The objective, epoch by epoch, in each phase of training; nothing if no phase has two epochs."""
    phases = [(number, each) for number, each in enumerate(histories_of(inner(model)), 1) if len(each.values)]
    if not any(len(each.values) > 1 for _, each in phases):
        return []
    found = []
    for number, each in phases:
        kept = np.unique(np.linspace(0, len(each.values) - 1, 200).astype(int))
        values = [each.values[i] for i in kept]
        found.append(plain({"number": number, "epochs": kept + 1, "values": values, "ending": each.ending}))
    return found


def learnt_table(model: BaseEstimator, with_errors: bool) -> list[Hyperparameter]:
    """Learnt values; with standard errors if these are wanted, or known already."""
    if not isinstance(model, Estimator) or isinstance(model, Stacked):
        return []
    return learnt_values(model, with_errors and len(model._kernel_columns()) <= _MOST_LENGTHSCALES)


def _lengthscales(model: BaseEstimator, table: list[Hyperparameter], inputs: InputSummary) -> list[dict[str, Any]]:
    """Lengthscales of columns of numbers, in units of the columns, if the kernel sees the columns themselves.

    A column with a periodic kernel has none: its lengthscale is a distance on a circle, and that of another kernel
    tells nothing about changes within a period.
    """
    if not isinstance(model, Estimator) or not inputs.is_table or model._kernel_columns() != model.inputs_.columns:
        return []
    seen, scale = model.inputs_.columns, model.inputs_.scale
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


def _noise(model: BaseEstimator, table: list[Hyperparameter]) -> float | None:
    """The standard deviation of Gaussian noise in the unit of the target; None if there is no such noise.

    In other likelihoods the noise may be that of something else, such as the logarithm of the target.
    """
    owners = [(row.value, _owner(model, row.name)) for row in table if row.name in _NOISES]
    found = [value for value, own in owners if isinstance(own, GaussianNoise) or not isinstance(own, Likelihood)]
    return float(np.sqrt(found[0])) if len(found) == 1 and found[0] >= 0 else None


def _owner(model: BaseEstimator, address: str) -> Module:
    """The part of a model that has a hyperparameter."""
    return model.model_.get_submodule(address.rpartition(".")[0])


def effects(model: BaseEstimator, X: Any, inputs: InputSummary, seed: int) -> dict[str, Any]:
    """The relevance of columns, largest first, and partial dependence on the first few."""
    own, columns, shares = inner(model), len(inputs.names), np.zeros(0)
    if columns <= _MOST_COLUMNS and answers(own, "relevance_"):
        shares = np.asarray(own.relevance_, dtype=float)
        shares = shares if shares.shape == (columns,) and np.isfinite(shares).all() else np.zeros(0)
    order: list[int] = np.argsort(-shares, kind="stable").tolist()
    known = order or list(range(columns))
    listed = [{"name": inputs.names[j], "share": float(shares[j])} for j in order[:_SHARES]]
    curves = [_curve(model, X, inputs, j, seed) for j in known[:_TOP]] if inputs.is_table else []
    kept = [curve for curve in curves if curve is not None]
    return {"relevance": listed, "more": max(0, len(order) - _SHARES), "curves": kept, "order": known}


def _curve(model: BaseEstimator, X: Any, inputs: InputSummary, j: int, seed: int) -> dict[str, Any] | None:
    """Partial dependence on one column; None if the model has none for it."""
    rows = PlotData(X, inner(model))
    if inputs.fields[j].kind not in ("number", "date", "category"):
        return None
    is_number, column = rows.is_number(j, inner(model)), rows.column(j)
    if is_number and inputs.fields[j].kind == "category":  # texts, which the model sees as points
        return None
    levels = [] if is_number else rows.levels(j)
    if is_number:
        values = rows.grid(j, _GRID)
    else:  # the most frequent
        having = Counter(column.tolist())
        values = np.array(sorted(levels, key=lambda level: -having[level])[:_LEVELS], dtype=object)
    try:
        found = curves_of(model, rows.take(averaged_over(model, inputs, seed)), j, values, _LEVEL)
    except StrataGPError:  # for columns of objects, and models of several outputs
        return None
    kind = "date" if values.dtype.kind == "M" else "number" if is_number else "category"
    shown = short(values) if kind == "number" else [date(v) if kind == "date" else str(entry(v)) for v in values]
    rug = column.astype(float) if kind == "number" else np.zeros(0)
    rug = rug[np.isfinite(rug)]
    swing = np.ptp(found.mean, axis=0)
    chosen = np.sort(np.argsort(-swing, kind="stable")[:_CLASSES])  # curves that change most
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


def averaged_over(model: BaseEstimator, inputs: InputSummary, seed: int) -> np.ndarray:
    """The rows that a curve averages over: those without gaps if there are enough of them."""
    slow = isinstance(answer(inner(model), "fitted_"), (VecchiaModel, StackModel))
    complete = inputs.complete
    if len(complete) < _SLOW_ROWS:
        return some(len(inputs.labels), _SLOW_ROWS, seed)
    return complete[some(len(complete), _SLOW_ROWS if slow else _ROWS, seed)]
