"""``stratagp evaluate``: how well a model predicts rows with known targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import numpy as np

from stratagp.cli.many_files import rows_for
from stratagp.cli.model_folder import Inputs, Learnt, open_model
from stratagp.cli.output import Console
from stratagp.cli.program import declared
from stratagp.cli.scores import Said, Scores, answers, as_table
from stratagp.cli.table import DataFrame, Format, format_options, is_many, refuse_format
from stratagp.errors import InputError


@declared("evaluate")
@click.argument("model", metavar="MODEL")
@click.argument("file", metavar="FILE")
@click.option("--drop-missing", is_flag=True,
              help="Leave out rows without a target, and rows that the model cannot predict.")  # fmt: skip
@format_options
def command(console: Console, model: str, file: str, drop_missing: bool, **form: Any) -> None:
    """Compare predictions for FILE with its target.

    Numbers: errors, density, and how many rows lie inside the 95 % intervals. Classes: accuracy, log loss
    and calibration. A folder or a quoted pattern of files is read in batches.
    """
    learnt = open_model(model)
    if is_many(file):
        refuse_format(file, Format.of(form))
        found, rows = _of_files(learnt, file, drop_missing, console)
    else:
        X, y = known_rows(learnt, file, Format.of(form), drop_missing, console)
        rows = len(y)
        with console.at_work():
            found = answers(learnt.model, learnt.taken(X), y, learnt.task).scores()
    text = as_table({f"{rows} row{'s' * (rows != 1)}": found})
    console.result(text, {"rows": rows, "task": learnt.task, "metrics": found})


def _of_files(learnt: Learnt, file: str, drop_missing: bool, console: Console) -> tuple[Scores, int]:
    """Scores on the rows of many files, and how many rows there are; only targets and predictions stay in memory."""
    known, predicted = list[_Known](), list[Said]()
    for block in rows_for(learnt, file, console, with_target=True).all_blocks():
        found = _known(learnt, learnt.inputs(block.X, block.where, console), block.X, block.where, drop_missing)
        if len(found.y):
            with console.at_work():
                predicted.append(answers(learnt.model, learnt.taken(found.X), found.y, learnt.task))
        known.append(found._replace(X=None))
    _tell(known, file, console)
    whole = Said.joined(predicted)
    return whole.scores(), len(whole.y)


class _Known(NamedTuple):
    """Rows with a target that the model can predict, and how many others; ``why`` tells about the first of these."""

    X: Inputs | None
    y: np.ndarray
    rows: int
    without_target: int
    without_answer: int
    why: str


def known_rows(
    learnt: Learnt, file: str, form: Format, drop_missing: bool, console: Console
) -> tuple[Inputs, np.ndarray]:
    """Inputs and targets of a file; other rows are an error, or left out with ``drop_missing``."""
    X, frame, _ = learnt.rows(file, form, console)
    found = _known(learnt, X, frame, file, drop_missing)
    _tell([found], file, console)
    return found.X, found.y


def _known(learnt: Learnt, X: Inputs, frame: DataFrame, file: str, drop_missing: bool) -> _Known:
    values = learnt.targets(frame, file)
    gaps = values.isna().to_numpy()
    if gaps.any() and not drop_missing:
        raise InputError(
            f"{file}: the target {learnt.target!r} is missing in {int(gaps.sum())} of {len(gaps)} rows, first in row "
            f"{values.index[gaps.argmax()]}: fill them, or leave such rows out with --drop-missing"
        )
    found = learnt.refused(X)
    if found.why and not drop_missing:
        raise InputError(f"{file} has {found.why}: correct {found.how_many}, or leave them out with --drop-missing")
    left = ~(gaps | found.rows)
    y = learnt.known(values[left], file) if left.any() else np.empty(0)
    return _Known(learnt.as_learnt(X[left]), y, len(gaps), int(gaps.sum()), int(found.rows.sum()), found.why)


def _tell(known: Sequence[_Known], file: str, console: Console) -> None:
    """Warn of rows that are left out."""
    rows, gaps, refused = (sum(counts) for counts in zip(*(each[2:5] for each in known), strict=True))
    if gaps:
        console.warn(f"left out {gaps} of {rows} rows, which have no target")
    if refused:
        why = next(each.why for each in known if each.why)
        console.warn(f"left out {refused:,} of {rows:,} rows, which the model cannot predict; the first has {why}")
    if not any(len(each.y) for each in known):
        raise InputError(f"{file}: no row has both a target and inputs that the model can use")
