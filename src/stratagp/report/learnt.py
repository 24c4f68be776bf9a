"""What a model is and what it has learnt, as plain values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from stratagp.errors import StrataGPError
from stratagp.kernels import Periodic
from stratagp.likelihoods import GaussianNoise, Likelihood
from stratagp.plotting.answers import answer, answers
from stratagp.plotting.training import histories_of
from stratagp.report.plain import plain
from stratagp.report.summary import InputSummary

_MOST_ROWS = 1500  # of training, up to which standard errors are computed for the page
_MOST_VALUES = 60
_LONGEST = 600  # letters of a kernel
_NOISES = ("noise", "gaussian.noise", "likelihood.noise", "likelihood.given.noise")


def inner(model: Any) -> Any:
    """The model that a calibrated one holds, or the model itself."""
    return inner(model.model) if answers(model, "model") and not answers(model, "engine_") else model


def describe(model: Any, inputs: InputSummary, rows: int) -> dict[str, Any]:
    """The kind of model, its kernel, its inference and why, and what it has learnt.

    Lengthscales are in the units of the columns, noise is a standard deviation in those of the target.
    """
    own = inner(model)
    table = _table(own, rows)
    return {
        "name": type(model).__name__,
        "inner": None if own is model else type(own).__name__,
        "kernel": _kernel(own),
        "inference": answer(own, "inference_"),
        "reason": answer(own, "inference_reason_"),
        "values": [_value(row) for row in table[:_MOST_VALUES]],
        "more_values": max(0, len(table) - _MOST_VALUES),
        "has_errors": any(row.trainable and np.isfinite(row.std) for row in table),
        "lengthscales": _lengthscales(own, table, inputs),
        "noise": _noise(own, table),
    }


def histories(model: Any) -> list[dict[str, Any]]:
    """What the objective was, epoch by epoch, in each phase of training; nothing where no phase has two epochs."""
    phases = [(number, each) for number, each in enumerate(histories_of(inner(model)), 1) if len(each.values)]
    return [_phase(*each) for each in phases] if any(len(each.values) > 1 for _, each in phases) else []


def _phase(number: int, history: Any) -> dict[str, Any]:
    kept = np.unique(np.linspace(0, len(history.values) - 1, 200).astype(int))
    values = [history.values[i] for i in kept]
    return plain({"number": number, "epochs": kept + 1, "values": values, "ending": history.ending})


def _kernel(model: Any) -> str | None:
    try:
        text = str(model.kernel_)
    except (AttributeError, StrataGPError):
        return None
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _table(model: Any, rows: int) -> list[Any]:
    """Learnt values; with standard errors where these are known or quick, as each takes two fits' worth of rows."""
    if not answers(type(model), "hyperparameters_"):
        return []
    if rows > _MOST_ROWS and "hyperparameters_" not in vars(model):
        model = copy.copy(model)
        model.__dict__.pop("criterion_", None)
    return list(model.hyperparameters_)


def _value(row: Any) -> dict[str, Any]:
    known = row.trainable and np.isfinite(row.std)
    ends = {"lower": row.lower, "upper": row.upper} if known else {"lower": None, "upper": None}
    return plain({"name": row.name, "value": row.value, "note": row.note, **ends})


def _lengthscales(model: Any, table: list[Any], inputs: InputSummary) -> list[dict[str, Any]]:
    """Those of columns of numbers, in units of the columns: only where the kernel sees the columns themselves.

    A column over which anything repeats has none: that of a periodic kernel is a distance on a circle, and another one
    says nothing of the changes within a period.
    """
    seen = answer(answer(model, "inputs_"), "columns") or []
    known = model._kernel_columns() if answers(model, "_kernel_columns") else []
    if not inputs.is_table or known != seen:
        return []
    scale = answer(answer(model, "inputs_"), "scale")
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

    The noise of other likelihoods may be about something else, such as the logarithm of the target.
    """
    found = [row.value for row in table if row.name in _NOISES and _is_gaussian(_owner(model, row.name))]
    return float(np.sqrt(found[0])) if len(found) == 1 and found[0] >= 0 else None


def _is_gaussian(owner: Any) -> bool:
    """Whether a part of a model that has a noise has it in the unit of the target; models of closed form have."""
    return isinstance(owner, GaussianNoise) or not isinstance(owner, Likelihood)


def _owner(model: Any, address: str) -> Any:
    """The part of a model that a hyperparameter belongs to."""
    return model.model_.get_submodule(address.rpartition(".")[0])
