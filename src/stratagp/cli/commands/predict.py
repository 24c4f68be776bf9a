"""``stratagp predict``: predictions for the rows of a file, in their order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import numpy as np

import stratagp
from stratagp.cli.many_files import answerable
from stratagp.cli.model_folder import open_model
from stratagp.cli.output import Console
from stratagp.cli.program import declared
from stratagp.cli.table import Format, format_options, is_many, pandas, refuse_format, shown_name
from stratagp.errors import InputError

_ENDINGS = (".csv", ".parquet")


@declared("predict")
@click.argument("model", metavar="MODEL")
@click.argument("file", metavar="FILE")
@click.option("--out", "-o", metavar="FILE", help="A .csv or .parquet file; CSV on standard output if left out.")
@click.option("--level", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True,
              metavar="SHARE", help="The probability of the intervals.")  # fmt: skip
@click.option("--skip", is_flag=True,
              help="Leave the prediction empty for rows that lack inputs which the model does not fill; without this, "
              "such rows are an error.")  # fmt: skip
@click.option("--keep", multiple=True, metavar="COLUMN",
              help="A column of FILE, such as a key, to write first. Repeatable; not for folders.")  # fmt: skip
@format_options
def command(
    console: Console,
    model: str,
    file: str,
    out: str | None,
    level: float,
    skip: bool,
    keep: tuple[str, ...],
    **form: Any,
) -> None:
    """Predict the rows of FILE.

    Each row gets mean, std, lower and upper; or its class, and the probability of each class. Rows keep
    their order. Columns are found by name, in any order; others are ignored. A folder or a quoted pattern
    of files is read in batches.
    """
    _check_out(out, file)
    learnt, form_of_file = open_model(model), Format.of(form)
    if is_many(file):
        if out is None or learnt.text is not None:
            raise InputError(
                f"{file} is read in batches: add --out, and use a model of columns rather than of one text"
            )
        if keep:
            raise InputError(f"--keep works for a single file that fits in memory, but {file} is read in batches")
        refuse_format(file, form_of_file)
        with console.at_work():
            rows = stratagp.estimators.predict_file(learnt.model, answerable(learnt, file, console), out, level)
        console.result(f"{rows} predictions: {out}", {"rows": rows, "out": out})
        return
    keep = tuple(dict.fromkeys(keep))
    X, _, kept = learnt.rows(file, form_of_file, console, keep)
    found = learnt.refused(X)
    _check_rows(found, file, skip, console)
    with console.at_work():
        taken = learnt.taken(learnt.as_learnt(X[~found.rows]))
        columns = stratagp.estimators.predicted_columns(learnt.model, taken, level)
    columns = {name: _spread(values, found.rows) for name, values in columns.items()}
    if both := sorted(set(keep) & set(columns)):
        raise InputError(f"--keep {both[0]}: predictions have a column of that name: rename it in {shown_name(file)}")
    frame = pandas().concat([kept.reset_index(drop=True), pandas().DataFrame(columns)], axis=1)
    columns = {**{name: kept[name].to_list() for name in keep}, **columns}
    if out is None:
        text = "" if console.as_json else frame.to_csv(index=False).rstrip("\n")
        console.result(text, {"rows": len(X), "predictions": columns})
        return
    with stratagp.training.appearing(Path(out)) as beside:
        frame.to_csv(beside, index=False) if out.endswith(".csv") else frame.to_parquet(beside, index=False)
    console.result(f"{len(X)} predictions: {out}", {"rows": len(X), "out": out})


def _check_rows(found: stratagp.data.Refused, file: str, skip: bool, console: Console) -> None:
    """Refuse rows that the model cannot predict, or warn of them with ``skip``."""
    if found.why and not skip:
        raise InputError(
            f"{shown_name(file)} has {found.why}: correct {found.how_many}, or add --skip to leave them empty"
        )
    if found.rows.all():
        raise InputError(f"{file}: the model cannot predict any row; the first has {found.why}")
    if found.why:
        console.warn(f"{found.how_many} have no prediction; the first has {found.why}")


def _spread(values: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Values in the places of their rows, and nothing in the ``empty`` ones."""
    if not empty.any():
        return values
    is_float = values.dtype.kind == "f"
    found = np.full(len(empty), np.nan if is_float else None, dtype=values.dtype if is_float else object)
    found[~empty] = values if is_float else values.tolist()
    return found


def _check_out(out: str | None, file: str) -> None:
    """Refuse, before any work, a file that cannot be written, or that rows are read from."""
    if out is None:
        return
    if not out.endswith(_ENDINGS):
        raise InputError(f"--out must end with .csv or .parquet, got {out!r}")
    if not Path(out).absolute().parent.is_dir():
        raise InputError(f"--out: the folder {Path(out).parent} does not exist")
    if not os.access(Path(out) if Path(out).exists() else Path(out).absolute().parent, os.W_OK):
        raise InputError(f"--out: {out} is not writable: give another file")
    if Path(out).exists() and Path(file).exists() and Path(out).samefile(file):
        raise InputError(f"--out: {out} is the file to predict: give another name")
