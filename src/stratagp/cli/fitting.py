"""``stratagp fit``: read, look at the columns, choose, train, test, save, report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stratagp.cli import streamed
from stratagp.cli.columns import WRITTEN, Column, as_labels, examine, inputs, tell
from stratagp.cli.console import Console
from stratagp.cli.kernel_text import parse_kernel
from stratagp.cli.mixed import refuse_mixed
from stratagp.cli.models import Choice, as_inputs, build, choose, find_task, train
from stratagp.cli.reading import Format, Opened, is_many, pick
from stratagp.cli.saving import Fitted, finish
from stratagp.cli.scores import Scores
from stratagp.cli.scoring import baselines, tested
from stratagp.cli.splitting import Parts, hold_out
from stratagp.cli.target import check_target
from stratagp.cli.timing import plan
from stratagp.errors import InputError
from stratagp.training.devices import find_device

_LEAST_ROWS = 5


def run(console: Console, out: Path, options: dict[str, Any]) -> None:
    """Fit a model to a file, or to many, and save it in the folder ``out``."""
    if options["kernel"] is not None:
        parse_kernel(options["kernel"])  # which says what is wrong with it before any work
    if options["device"] is not None:
        find_device(options["device"])
    if options["log"] and is_many(options["file"]):
        raise InputError(f"--log is for a file that fits in memory, but {options['file']} is read in batches")
    fitted = (streamed.fit if is_many(options["file"]) else _fit)(console, options)
    finish(console, fitted, out, options)


@dataclass(frozen=True)
class Prepared:
    """A table as a model takes it, and which model that is."""

    task: str
    columns: list[Column]
    assumed: list[str]
    choice: Choice
    parts: Parts
    missing: bool


def _fit(console: Console, options: dict[str, Any]) -> Fitted:
    """Fit a model to a table in memory."""
    start, ready = time.perf_counter(), prepare(console, options)
    _check_options(ready, options)
    console.note(f"{ready.task} by {ready.choice.model}: {ready.choice.reason}")
    ready, options = _limited(ready, options, console)
    model = build(
        ready.choice,
        ready.task,
        options["kernel"],
        options["seed"],
        options["epochs"],
        ready.missing,
        console.talks,
        options["device"],
    )
    train(model, as_inputs(ready.parts.X, ready.choice), ready.parts.y, options["checkpoint"], console)
    if hasattr(model, "inference_reason_"):
        model.inference_reason_ = ready.choice.reason  # the model knows no more than that it was asked for
    return _tested(model, ready, options, time.perf_counter() - start, console)


def _check_options(ready: Prepared, options: dict[str, Any]) -> None:
    """Refuse options that would do nothing."""
    heeded = {"checkpoint": ready.choice.by_batches, "epochs": ready.choice.by_epochs(ready.task)}
    for name, is_heeded in heeded.items():
        if options[name] is not None and not is_heeded:
            raise InputError(
                f"--{name} is for models that learn by mini-batches, which {ready.choice.model} does not: leave it "
                "out, or take one that does, --model autogp for example"
            )


def prepare(console: Console, options: dict[str, Any]) -> Prepared:
    """Read a table, look at its columns, choose a model and hold rows out."""
    target = options["target"]
    name = "standard input" if options["file"] == "-" else options["file"]
    form = Format.of(options)
    table, kinds = Opened(options["file"], form), options["kinds"]
    said = [column for column, kind in kinds.items() if kind in WRITTEN]
    frame = _complete(table.read(said), name, options, console)
    refuse_mixed(frame, target, kinds, options["task"], form, name)
    task, why = find_task(frame[target], options["task"])
    check_target(frame[target], task, options["task"], options["log"], console)
    why += "; its logarithm is learnt" if options["log"] else ""
    columns = examine(frame, target, kinds)
    classes_written = task == "classification" and as_labels(frame[target]).dtype.kind == "U"
    letters = [each.name for each in columns if each.kind in WRITTEN]
    frame = table.as_written(frame, [*letters, target] if classes_written else letters)
    assumed = [*tell(columns, target, f"{task}: {why}", console), f"{target}: {task} ({why})"]
    X, y = inputs(frame, columns, name, console, target), _targets(frame[target], task)
    chosen = _chooser(options, task, columns)
    trained = round((1 - options["test"]) * len(y))
    choice = chosen(y, min(trained, options["rows"] or trained))
    X, y, missing = _without_gaps(X, y, choice, options, console)
    parts = _fewer(hold_out(X, y, columns, task, options["test"], options["seed"], console), options["rows"], console)
    final = chosen(parts.y, len(parts.y))
    return Prepared(task, columns, assumed, final if final.fills or not missing else choice, parts, missing)


def _chooser(options: dict[str, Any], task: str, columns: list[Column]) -> Callable[[np.ndarray, int], Choice]:
    """The choice of a model by targets and the number of rows to train on."""

    def chosen(y: np.ndarray, rows: int) -> Choice:
        classes = len(np.unique(y)) if task == "classification" else 0
        return choose(options["model"], task, columns, rows, classes, options["log"])

    return chosen


def _fewer(parts: Parts, rows: int | None, console: Console) -> Parts:
    """At most so many rows to train on."""
    found = parts.some(rows)
    if lost := len(parts.y_test) - len(found.y_test):
        console.warn(f"{lost:,} test rows are left out: none of the {rows:,} training rows has their category or class")
    return found


def _complete(frame: Any, name: str, options: dict[str, Any], console: Console) -> Any:
    """Rows with a target, enough of them."""
    gaps = pick(frame, options["target"], name).isna()
    if gaps.any() and not options["drop_missing"]:
        raise InputError(
            f"{name}: the target {options['target']!r} is missing in {int(gaps.sum())} of {len(frame)} rows, the first "
            f"is row {int(gaps.to_numpy().argmax()) + 1}: fill them, or --drop-missing leaves such rows out"
        )
    if gaps.any():
        console.warn(f"{int(gaps.sum())} of {len(frame)} rows have no target and are left out")
        frame = frame[~gaps]
    if len(frame) < _LEAST_ROWS:
        raise InputError(f"{name} has {len(frame)} row{'s' * (len(frame) != 1)}: a fit needs at least {_LEAST_ROWS}")
    return frame


def _targets(values: Any, task: str) -> np.ndarray:
    if task == "classification":
        return as_labels(values)
    numbers = values.to_numpy(dtype=float)
    if not np.isfinite(numbers).all():
        raise InputError(f"the target {values.name!r} is infinite in row {values.index[~np.isfinite(numbers)][0]}")
    return numbers


def _without_gaps(
    X: Any, y: np.ndarray, choice: Choice, options: dict[str, Any], console: Console
) -> tuple[Any, np.ndarray, bool]:
    """Rows as the model can take them, and whether it is to fill missing inputs; said aloud."""
    gaps = X.isna().any(axis=1).to_numpy()
    if not gaps.any():
        return X, y, False
    where = ", ".join(repr(name) for name in X.columns[X.isna().any()][:5])
    if choice.fills:
        console.warn(f"{int(gaps.sum())} of {len(y)} rows lack inputs ({where}), which are averaged over")
        return X, y, True
    if not options["drop_missing"]:
        able = "" if options["log"] else "--model exact or sparse does, "
        raise InputError(
            f"{int(gaps.sum())} of {len(y)} rows lack inputs ({where}), which {choice.model} does not fill: {able}"
            "--drop-missing leaves such rows out"
        )
    console.warn(f"{int(gaps.sum())} of {len(y)} rows lack inputs ({where}) and are left out")
    return X[~gaps], y[~gaps], False


def _limited(ready: Prepared, options: dict[str, Any], console: Console) -> tuple[Prepared, dict[str, Any]]:
    """What fits into the time limit; the settings then have what was found in place of the limit."""
    settled = {**options, "model": ready.choice.model, "task": ready.task}
    if options["time_limit"] is None:
        return ready, settled

    def trial(choice: Choice, rows: int, epochs: int | None) -> None:
        some = ready.parts.some(rows)
        given = options["kernel"], options["seed"], epochs or options["epochs"], ready.missing, False, options["device"]
        model = build(choice, ready.task, *given)
        train(model, as_inputs(some.X, choice), some.y, None, console)

    usual = options["epochs"] or _usual_epochs(ready)
    sparse = ready.task == "regression" and not ready.choice.texts
    found = plan(ready.choice, len(ready.parts.y), options["time_limit"], usual, trial, sparse)
    if found.word:
        console.warn(f"{found.word} the time limit of {options['time_limit']:g} s")
    new = {"model": found.choice.model, "rows": found.rows or options["rows"], "time_limit": None}
    epochs = found.epochs if found.epochs is not None else options["epochs"]
    parts = _fewer(ready.parts, found.rows, console)
    return replace(ready, choice=found.choice, parts=parts), {**settled, **new, "epochs": epochs}


def _usual_epochs(ready: Prepared) -> int:
    """How often a model goes over its rows without a limit: few rows oftener, for some steps at least."""
    model = build(ready.choice, ready.task, None, 0, None, False, False)
    if not ready.choice.by_batches:
        return int(model.max_epochs)
    rows = len(ready.parts.y)
    return max(model.max_epochs, math.ceil(model.least_steps / (rows // min(model.batch_size, rows))))


def _tested(model: Any, ready: Prepared, options: dict[str, Any], seconds: float, console: Console) -> Fitted:
    """The fitted model with its scores."""
    found: Scores = {}
    others: dict[str, Scores] = {}
    parts, task, choice = ready.parts, ready.task, ready.choice
    if len(parts.y_test):
        console.note(f"predicting {len(parts.y_test)} rows that were held out")
        found = tested(model, as_inputs(parts.X_test, choice), parts.y_test, task, console)
        with console.at_work():
            others = baselines(parts.X, parts.y, parts.X_test, parts.y_test, task, choice.texts, options["seed"])
    text = choice.texts[0] if choice.alone else None  # as a column, which has a name and rows of the file
    X, X_test = (each if text is None else each[text] for each in (parts.X, parts.X_test))
    rows = (X, parts.y, X_test, parts.y_test)
    written = parts.y.dtype.kind == "U"
    told = ready.columns, ready.assumed, rows, found, others, options, seconds
    return Fitted(model, choice, task, *told, written=written)
