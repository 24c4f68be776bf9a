"""``stratagp evaluate``: how good a model is on rows with known targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stratagp.cli.batches import Batches
from stratagp.cli.console import Console
from stratagp.cli.folder import Table, open_model
from stratagp.cli.reading import Format, is_many, refuse_format
from stratagp.cli.scores import Scores, as_table
from stratagp.cli.scoring import answers, scored
from stratagp.errors import InputError


def run(console: Console, model: str, file: str, drop_missing: bool, **reading: Any) -> None:
    """Predict the rows of a file, or of many, and compare."""
    estimator, table = open_model(model)
    form = Format.of(reading)
    if is_many(file):
        refuse_format(file, form)
        found, rows = _of_files(estimator, table, file, drop_missing, console)
    else:
        X, y = known_rows(estimator, table, file, form, drop_missing, console)
        y, rows = _as_learnt(y, estimator, table, file), len(y)
        with console.at_work():
            found = scored(estimator, y, answers(estimator, table.taken(X), y, table.task), table.task)
    console.result(
        as_table({f"{rows} row{'s' * (rows != 1)}": found}),
        {"rows": rows, "task": table.task, "metrics": found},
    )


def _of_files(estimator: Any, table: Table, file: str, drop_missing: bool, console: Console) -> tuple[Scores, int]:
    """Scores on the rows of many files, of which only targets and answers are kept, and how many rows these are."""
    known, said = list[_Known](), []
    for block in Batches(table, file, console, with_target=True).all_blocks():
        X = table.inputs(block.X, block.where, console)
        found = _known(estimator, table, X, block.X, block.where, drop_missing)
        y = _as_learnt(found.y, estimator, table, block.where)
        if len(y):
            with console.at_work():
                said.append(answers(estimator, table.taken(found.X), y, table.task))
        known.append(found._replace(X=None, y=y))
    _tell(known, file, console)
    y = np.concatenate([each.y for each in known if len(each.y)])
    return scored(estimator, y, [np.concatenate(each) for each in zip(*said, strict=True)], table.task), len(y)


class _Known(NamedTuple):
    """Rows with a target and an answer, and how many others there are; ``why`` is what the first of these has."""

    X: Any
    y: np.ndarray
    rows: int
    without_target: int
    without_answer: int
    why: str


def known_rows(
    estimator: Any, table: Table, file: str, form: Format, drop_missing: bool, console: Console
) -> tuple[Any, np.ndarray]:
    """Inputs and targets of a file, without rows that have no target or no answer where that is allowed."""
    X, frame = table.rows(file, form, console)
    found = _known(estimator, table, X, frame, file, drop_missing)
    _tell([found], file, console)
    return found.X, found.y


def _known(estimator: Any, table: Table, X: Any, frame: Any, file: str, drop_missing: bool) -> _Known:
    values = table.targets(frame, file)
    gaps = values.isna().to_numpy()
    if gaps.any() and not drop_missing:
        raise InputError(
            f"{file}: the target {table.target!r} is missing in {int(gaps.sum())} of {len(gaps)} rows, the first is "
            f"row {values.index[gaps.argmax()]}: fill them, or --drop-missing leaves such rows out"
        )
    found = table.refused(X, estimator)
    if found.why and not drop_missing:
        raise InputError(f"{file} has {found.why}: mend {found.how_many}, or --drop-missing leaves such rows out")
    left = ~(gaps | found.rows)
    y = table.known(values[left], file) if left.any() else np.empty(0)
    return _Known(table.as_learnt(X[left], estimator), y, len(gaps), int(gaps.sum()), int(found.rows.sum()), found.why)


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


def _as_learnt(y: np.ndarray, estimator: Any, table: Table, name: str) -> np.ndarray:
    """Targets; classes as the model has them, whose truth values may be texts in a file."""
    if table.task != "classification":
        return y
    classes = estimator.classes_.tolist()
    known = {str(each): each for each in classes} | {each: each for each in classes}
    strange = sorted({each for each in y.tolist() if each not in known and str(each) not in known})
    if strange:
        raise InputError(
            f"{name}: the target {table.target!r} has the class {strange[0]!r}, which the model does not know"
        )
    return np.asarray([known.get(each, known.get(str(each))) for each in y.tolist()], dtype=estimator.classes_.dtype)
