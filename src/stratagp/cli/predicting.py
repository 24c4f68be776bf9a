"""``stratagp predict``: rows in, predictions out, in their order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from stratagp.cli.answering import Refused
from stratagp.cli.batches import Answerable
from stratagp.cli.console import Console
from stratagp.cli.folder import open_model
from stratagp.cli.reading import Format, is_many, pandas, refuse_format
from stratagp.errors import InputError
from stratagp.estimators.prediction_files import predict_file, predicted_columns
from stratagp.training.checkpoint import appearing

_ENDINGS = (".csv", ".parquet")


def run(console: Console, model: str, file: str, out: str | None, level: float, skip: bool, **reading: Any) -> None:
    """Predict the rows of a file."""
    _check_out(out, file)
    estimator, table = open_model(model)
    if is_many(file):
        if out is None or table.text is not None:
            raise InputError(f"{file} is read in batches: give --out, and a model of columns")
        refuse_format(file, Format.of(reading))
        with console.at_work():
            rows = predict_file(estimator, Answerable(estimator, table, file, console), out, level)
    else:
        X, _ = table.rows(file, Format.of(reading), console)
        found = table.refused(X, estimator)
        _check_rows(found, file, skip, console)
        with console.at_work():
            taken = table.taken(table.as_learnt(X[~found.rows], estimator))
            columns = predicted_columns(estimator, taken, level)
        columns, rows = {name: _spread(values, found.rows) for name, values in columns.items()}, len(X)
        if out is None:
            _print(console, columns)
            return
        frame = pandas().DataFrame(columns)
        with appearing(Path(out)) as beside:
            frame.to_csv(beside, index=False) if out.endswith(".csv") else frame.to_parquet(beside, index=False)
    console.result(f"{rows} predictions: {out}", {"rows": rows, "out": out})


def _check_rows(found: Refused, file: str, skip: bool, console: Console) -> None:
    """Refuse rows that have no answer, or say that they will have none."""
    if found.why and not skip:
        name = "standard input" if file == "-" else file
        raise InputError(f"{name} has {found.why}: mend {found.how_many}, or --skip leaves their predictions empty")
    if found.rows.all():
        raise InputError(f"{file}: the model has no answer for any row; the first has {found.why}")
    if found.why:
        console.warn(f"{found.how_many} have no prediction; the first has {found.why}")


def _spread(values: Any, empty: np.ndarray) -> Any:
    """Values in the places of their rows, and nothing in the others."""
    if not empty.any():
        return values
    values = np.asarray(values)
    is_float = values.dtype.kind == "f"
    found = np.full(len(empty), np.nan if is_float else None, dtype=values.dtype if is_float else object)
    found[~empty] = values if is_float else values.tolist()
    return found


def _check_out(out: str | None, file: str) -> None:
    """Refuse, before any work, a place that predictions cannot be written to, or that rows are read from."""
    if out is None:
        return
    if not out.endswith(_ENDINGS):
        raise InputError(f"--out must end with .csv or .parquet, got {out!r}")
    if not Path(out).absolute().parent.is_dir():
        raise InputError(f"--out: the folder {Path(out).parent} does not exist")
    if not os.access(Path(out) if Path(out).exists() else Path(out).absolute().parent, os.W_OK):
        raise InputError(f"--out: {out} cannot be written: give another place")
    if Path(out).exists() and Path(file).exists() and Path(out).samefile(file):
        raise InputError(f"--out: {out} is the file that rows are read from: give another name")


def _print(console: Console, columns: dict[str, Any]) -> None:
    text = "" if console.as_json else pandas().DataFrame(columns).to_csv(index=False).rstrip("\n")
    console.result(text, {"rows": len(next(iter(columns.values()))), "predictions": columns})
