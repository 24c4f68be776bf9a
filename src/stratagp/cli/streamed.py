"""Fits to more rows than memory holds: folders and patterns of files, in one process or several."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stratagp.cli.batches import open_tables
from stratagp.cli.columns import Column, examine, tell
from stratagp.cli.console import Console
from stratagp.cli.holding import hold_out
from stratagp.cli.models import Choice, build, find_task, train
from stratagp.cli.reading import Format, pandas, pick, refuse_format
from stratagp.cli.saving import Fitted
from stratagp.cli.scoring import baselines, tested
from stratagp.data import Source, open_source
from stratagp.data.columns import kind_of
from stratagp.data.files import ParquetFiles
from stratagp.data.rules import DROPPING, Divided, Rules
from stratagp.data.sampling import Sample, mixed
from stratagp.data.survey import Survey
from stratagp.data.tables import read_table
from stratagp.errors import InputError, RowError

SAMPLE_ROWS = 20_000  # that are predicted, and that the report and the baselines see, at most
_LISTED = 5  # classes in a message


def fit(console: Console, options: dict[str, Any]) -> Fitted:
    """Fit a model by mini-batches that are read from files."""
    start, file, target = time.perf_counter(), options["file"], options["target"]
    choice = _choice(options)
    whole, sample = open_tables(file)
    task, why = find_task(pick(sample, target, file), options["task"])
    columns = _columns(sample, target, options["kinds"])
    of = f" in first {len(sample):,}" if len(sample) < whole.rows else ""
    assumed = [*tell(columns, target, f"{task}: {why}", console, of), f"{target}: {task} ({why})"]
    assumed.append(f"kinds of columns are those of the first {len(sample):,} rows")
    names = [each.name for each in columns if each.used]
    missing = "drop" if options["drop_missing"] else "raise"
    opened = partial(_opened, target=target, columns=names, missing=missing)
    source, test = hold_out(whole, opened, {**options, "task": task}, console)
    console.note(f"{task} by {choice.model} on {_how_many(source, options['test'])} in files: {choice.reason}")
    given = options["kernel"], options["seed"], options["epochs"], False, console.talks, options["device"]
    model = build(choice, task, *given)
    with _in_our_words():
        train(model, source, None, options["checkpoint"], console)
    settled = {**options, "model": choice.model, "task": task}
    fitted = Fitted(model, choice, task, columns, assumed, None, {}, {}, settled, time.perf_counter() - start)
    return _tested(fitted, source, test, console) if test is not None and console.first else fitted


def _opened(file: str, **options: Any) -> ParquetFiles:
    """The files of a table, which have been opened as such before."""
    found = open_source(file, **options)
    assert isinstance(found, ParquetFiles)
    return found


def _how_many(source: Source, share: float) -> str:
    """The rows to train on, as far as they are known before all are read."""
    if isinstance(source, Divided):
        return f"about {1 - share:.3g} of {source.rows:,} rows"
    return f"{source.rows:,} rows"


@contextmanager
def _in_our_words() -> Iterator[None]:
    """Errors of the library about rows of files as this program says them: with its option, and rows from 1."""
    try:
        yield
    except InputError as error:
        said = str(error.at(error.row + 1) if isinstance(error, RowError) else error)
        raise InputError(said.replace(DROPPING, "--drop-missing leaves out such rows")) from None


def _choice(options: dict[str, Any]) -> Choice:
    """A model that learns by mini-batches."""
    refuse_format(options["file"], Format.of(options))
    if options["time_limit"] is not None or options["rows"] is not None:
        raise InputError("--time-limit and --rows are for files that fit in memory: take fewer --epochs or files")
    if options["model"] in ("exact", "sparse"):
        raise InputError(
            f"--model {options['model']} needs all rows in memory, but {options['file']} is read in batches: take "
            "autogp, dkl, dfgp or gp-drf"
        )
    if options["model"] != "auto":
        return Choice(options["model"], "as asked for")
    return Choice("autogp", "rows that are read in batches need mini-batches")


def _columns(sample: Any, target: str, kinds: dict[str, str]) -> list[Column]:
    """What columns hold, as the library reads them from files."""
    plain = _plain(sample)
    found = [_as_stored(each, plain[each.name], kinds) for each in examine(plain, target, kinds)]
    texts = [each.name for each in found if each.kind == "text"]
    if texts:
        raise InputError(
            f"the column {texts[0]!r} holds texts, which cannot be compared in files: --as {texts[0]}=ignore leaves it "
            f"out, --as {texts[0]}=category takes it as a category"
        )
    return found


def _as_stored(column: Column, values: Any, said: dict[str, str]) -> Column:
    """A column as the library takes it from files, where no values are made others."""
    stored = kind_of(read_table(values.to_frame()).columns[0], auto=True)
    if not column.used or stored in (column.kind, "duration") or (column.kind, stored) == ("text", "category"):
        return column
    if column.name in said:
        raise InputError(
            f"--as {column.name}={column.kind}: of rows that are read in batches a column is taken as it is stored, "
            f"here as a {stored}: store it otherwise, or leave it out by --as {column.name}=ignore"
        )
    remark = "dates stored as text are categories in files" if column.kind == "date" else ""
    return replace(column, kind=stored, remark=column.remark if column.distinct == 1 else remark)


def _plain(frame: Any) -> Any:
    """Rows of a source with texts as such, and dates in a column of dates."""
    found = frame.astype({name: object for name in frame.columns if str(frame[name].dtype) == "category"})
    for name in found.columns:
        if found[name].dtype.kind == "O" and pandas().api.types.infer_dtype(found[name], skipna=True) == "date":
            found[name] = found[name].to_numpy().astype("datetime64[s]")
    return found


class Rows(NamedTuple):
    """A sample of the complete rows of a source, and how many there are."""

    X: Any
    y: np.ndarray
    of: int


def sampled(source: Source, seed: int) -> Rows:
    """At most 20,000 complete rows of a source, those with the smallest hash of their place."""
    sample, found, rules = Sample(SAMPLE_ROWS), 0, Rules(missing="drop")
    for part in range(len(source.parts)):
        row = 0
        for block in source.blocks(part):
            places = np.uint64(part << 32) + np.arange(row, row + len(block), dtype=np.uint64)
            row += len(block)
            whole = rules.complete(block)
            found += int(whole.sum())
            sample.add(mixed(places + np.uint64(seed)), block, whole)
    return _rows(sample, found)


def learnt_from(seen: Survey) -> Rows:
    """At most 20,000 of the rows that a fit has seen or held out for its validation, as its survey has drawn them."""
    sample = Sample(SAMPLE_ROWS)
    for each in (seen.sample, seen.held):
        sample.merge(each)
    return _rows(sample, seen.rows + seen.held_rows)


def _rows(sample: Sample, of: int) -> Rows:
    rows = sample.settle()
    if rows is None:
        raise InputError("no complete row is held out for the test: --test takes a larger share, or 0 for none")
    return Rows(_plain(rows.X).reset_index(drop=True), np.asarray(rows.y).reshape(-1), of)


def _of_known_classes(rows: Rows, model: Any, console: Console) -> Rows:
    """Rows held out without those of a class that no training row has, which is said."""
    known = np.isin(rows.y, model.classes_)
    if known.all():
        return rows
    strange = ", ".join(map(repr, np.unique(rows.y[~known])[:_LISTED].tolist()))
    console.warn(
        f"the model does not know the class {strange}, as no training row has it: such rows held out, "
        f"{int((~known).sum()):,} of {len(known):,}, are not scored; another --seed holds others out, --test 0 none"
    )
    return Rows(rows.X[known].reset_index(drop=True), rows.y[known], rows.of)


def _tested(fitted: Fitted, train: Source, test: Source, console: Console) -> Fitted:
    """The fitted model with scores on a sample of the rows held out, beside baselines that a sample of others has."""
    seed, task = fitted.settings["seed"], fitted.task
    console.note(f"reading a sample of at most {SAMPLE_ROWS:,} of the rows held out for the test and the report")
    with console.at_work():
        seen, new = learnt_from(train.surveyed), sampled(test, seed)
    new = _of_known_classes(new, fitted.model, console) if task == "classification" else new
    found = tested(fitted.model, new.X, new.y, task, console) if len(new.y) else {}
    if not found:
        return replace(fitted, counts=(seen.of, new.of))
    with console.at_work():
        known = task == "regression" or set(np.unique(new.y)) <= set(np.unique(seen.y))
        others = baselines(seen.X, seen.y, new.X, new.y, task, (), seed) if known else {}
    said = [
        f"rows are read in batches: scores are of {len(new.y):,} of {new.of:,} rows held out",
        f"the summary of the data, effects and baselines are of {len(seen.y):,} of {seen.of:,} training rows",
    ]
    rows = (seen.X, seen.y, new.X, new.y)
    return replace(
        fitted, assumed=[*fitted.assumed, *said], rows=rows, scores=found, baselines=others, counts=(seen.of, new.of)
    )
