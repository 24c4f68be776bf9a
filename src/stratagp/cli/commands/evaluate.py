"""``stratagp evaluate``: how good a model is on rows with known targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import numpy as np

from stratagp.cli.many_files import rows_for
from stratagp.cli.model_folder import Learnt, open_model
from stratagp.cli.output import Console
from stratagp.cli.program import declared
from stratagp.cli.scores import Scores, answers, as_table, scored
from stratagp.cli.table import Format, format_options, is_many, refuse_format
from stratagp.errors import InputError


@declared("evaluate")
@click.argument("model", metavar="MODEL")
@click.argument("file", metavar="FILE")
@click.option("--drop-missing", is_flag=True,
              help="Leave rows out that have no target, or that the model cannot answer.")  # fmt: skip
@format_options
def command(console: Console, model: str, file: str, drop_missing: bool, **form: Any) -> None:
    """Compare predictions for FILE with its target.

    Of numbers: errors, density, and how many lie inside of intervals of 95 %. Of classes: accuracy, log
    loss and calibration. A folder or a quoted pattern of files is read in batches.
    """
    learnt = open_model(model)
    if is_many(file):
        refuse_format(file, Format.of(form))
        found, rows = _of_files(learnt, file, drop_missing, console)
    else:
        X, y = known_rows(learnt, file, Format.of(form), drop_missing, console)
        rows = len(y)
        with console.at_work():
            found = scored(learnt.model, y, answers(learnt.model, learnt.taken(X), y, learnt.task), learnt.task)
    text = as_table({f"{rows} row{'s' * (rows != 1)}": found})
    console.result(text, {"rows": rows, "task": learnt.task, "metrics": found})


def _of_files(learnt: Learnt, file: str, drop_missing: bool, console: Console) -> tuple[Scores, int]:
    """Scores on the rows of many files, of which only targets and answers are kept, and how many rows these are."""
    known, said = list[_Known](), []
    for block in rows_for(learnt, file, console, with_target=True).all_blocks():
        found = _known(learnt, learnt.inputs(block.X, block.where, console), block.X, block.where, drop_missing)
        if len(found.y):
            with console.at_work():
                said.append(answers(learnt.model, learnt.taken(found.X), found.y, learnt.task))
        known.append(found._replace(X=None))
    _tell(known, file, console)
    y = np.concatenate([each.y for each in known if len(each.y)])
    return scored(learnt.model, y, [np.concatenate(each) for each in zip(*said, strict=True)], learnt.task), len(y)


class _Known(NamedTuple):
    """Rows with a target and an answer, and how many others there are; ``why`` is what the first of these has."""

    X: Any
    y: np.ndarray
    rows: int
    without_target: int
    without_answer: int
    why: str


def known_rows(learnt: Learnt, file: str, form: Format, drop_missing: bool, console: Console) -> tuple[Any, np.ndarray]:
    """Inputs and targets of a file, without rows that have no target or no answer where that is allowed."""
    X, frame = learnt.rows(file, form, console)
    found = _known(learnt, X, frame, file, drop_missing)
    _tell([found], file, console)
    return found.X, found.y


def _known(learnt: Learnt, X: Any, frame: Any, file: str, drop_missing: bool) -> _Known:
    values = learnt.targets(frame, file)
    gaps = values.isna().to_numpy()
    if gaps.any() and not drop_missing:
        raise InputError(
            f"{file}: the target {learnt.target!r} is missing in {int(gaps.sum())} of {len(gaps)} rows, the first is "
            f"row {values.index[gaps.argmax()]}: fill them, or --drop-missing leaves such rows out"
        )
    found = learnt.refused(X)
    if found.why and not drop_missing:
        raise InputError(f"{file} has {found.why}: mend {found.how_many}, or --drop-missing leaves such rows out")
    left = ~(gaps | found.rows)
    y = learnt.known(values[left], file) if left.any() else np.empty(0)
    return _Known(learnt.as_learnt(X[left]), y, len(gaps), int(gaps.sum()), int(found.rows.sum()), found.why)


def _tell(known: Sequence[_Known], file: str, console: Console) -> None:
    """Say which rows are left out."""
    rows, gaps, refused = (sum(counts) for counts in zip(*(each[2:5] for each in known), strict=True))
    if gaps:
        console.warn(f"{gaps} of {rows} rows have no target and are left out")
    if refused:
        why = next(each.why for each in known if each.why)
        console.warn(f"{refused:,} of {rows:,} rows have no answer and are left out; the first has {why}")
    if not any(len(each.y) for each in known):
        raise InputError(f"{file}: no row has both a target and inputs that the model can take")
