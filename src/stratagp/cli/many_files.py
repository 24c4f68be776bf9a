"""Rows of many files, or of one too large for memory: to fit a model to, and to predict.

Rows are read a few thousand at a time, in one process or several. Messages name files and count rows from 1.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import stratagp
from stratagp.cli.model_folder import Fitted, Judge, Learnt
from stratagp.cli.models import build, choose_for_files, training
from stratagp.cli.output import Console
from stratagp.cli.scores import baselines, gains, tested
from stratagp.cli.settings import Settings
from stratagp.cli.table import DataFrame, examine, pandas, pick, refuse_format, tell
from stratagp.cli.target import find_task
from stratagp.errors import InputError, RowError

SALT = 1 << 32  # added to the seed, so that the validation of a fit holds out other rows
SAMPLE_ROWS = 20_000  # at most, for scores, the report and the baselines
_LISTED = 5  # classes in a message


def fit(console: Console, settings: Settings) -> Fitted:
    """Fit a model to mini-batches that are read from files."""
    start, target = time.perf_counter(), settings.target
    refuse_format(settings.file, settings.form)
    if settings.time_limit is not None or settings.rows is not None:
        raise InputError(
            "--time-limit and --rows need a file that fits in memory: give fewer --epochs or files instead"
        )
    if settings.search_rows is not None:
        raise InputError("--search-rows needs a file that fits in memory: leave it out")
    if settings.folds is not None:
        raise InputError(
            f"--folds needs a file that fits in memory, but {settings.file} is read in batches: use --test"
        )
    choice = choose_for_files(settings)
    whole, sample = _open(settings.file)
    task, why = find_task(pick(sample, target, settings.file), settings.task)
    columns = _columns(sample, target, settings.kinds)
    of = f" in first {len(sample):,}" if len(sample) < whole.rows else ""
    assumed = tell(columns, target, task, why, console, of)
    assumed.append(f"the kinds of columns are those of the first {len(sample):,} rows")
    settings = replace(settings, model=choice.model, task=task)
    source, test = _hold_out(whole, [each.name for each in columns if each.used], settings, console)
    rows = f"{source.rows:,} rows"
    if isinstance(source, stratagp.data.Divided):
        rows = f"about {1 - settings.test:.3g} of {rows}"  # the exact number is known after all are read
    console.note(f"{task} by {choice.model} on {rows} in files: {choice.reason}")
    model = build(choice, task, settings, 0, verbose=console.talks)
    with _in_our_words(), training(model, console):
        model.fit(source, None, checkpoint=settings.checkpoint)
    settings, seconds = replace(settings, refit=False), time.perf_counter() - start
    said = "not scored; saved: the model of all rows"
    fitted = Fitted(model, choice, task, columns, assumed, settings, seconds, said=said)
    return _tested(fitted, source, test, console) if test is not None and console.first else fitted


def rows_for(learnt: Learnt, file: str, console: Console, with_target: bool) -> stratagp.data.Mapped:
    """The rows of a folder, a pattern or an address, with the columns that a model knows and perhaps its target."""
    source, first = _open(file)
    used = [each.name for each in learnt.schema.fields if each.used]
    names = [*used, learnt.target] if with_target else used
    above = [name for name in names if name in source.above and name not in first]
    if above:  # columns in names of folders, as in zone=1 for a model that has learnt from all zones
        source.columns += above
        first = next(source.blocks(0)).X
    learnt.inputs(first, file, console)  # which complains of columns that are missing, or too many
    if with_target:
        learnt.targets(first, file)

    def change(block: stratagp.data.source.Block) -> stratagp.data.source.Block:
        rows = pandas().RangeIndex(block.first + 1, block.first + len(block) + 1)
        return replace(block, X=block.X[names].set_axis(rows))

    return stratagp.data.Mapped(source, change)


def answerable(learnt: Learnt, file: str, console: Console) -> stratagp.data.Mapped:
    """The same as the model takes them; a row that it cannot predict is an error."""

    def change(block: stratagp.data.source.Block) -> stratagp.data.source.Block:
        X = learnt.inputs(block.X, block.where, console)
        found = learnt.refused(X)
        if found.why:
            raise InputError(f"{block.where} has {found.why}: correct it, or predict this file alone with --skip")
        return replace(block, X=learnt.as_learnt(X))

    return stratagp.data.Mapped(rows_for(learnt, file, console, with_target=False), change)


def _open(file: str) -> tuple[stratagp.data.ParquetFiles, DataFrame]:
    """The rows of a folder, a pattern or an address, and the first of them."""
    source = stratagp.data.open_source(file)
    if not isinstance(source, stratagp.data.ParquetFiles):
        raise InputError(f"{file} holds arrays, whose columns have no names: use CSV or Parquet files")
    return source, next(source.blocks(0)).X


@contextmanager
def _in_our_words() -> Iterator[None]:
    """Turn errors of the library about rows of files into this program's: with its option, and rows from 1."""
    try:
        yield
    except InputError as error:
        text = str(error.at(error.row + 1) if isinstance(error, RowError) else error)
        dropping = stratagp.data.DROPPING
        raise InputError(text.replace(dropping, "--drop-missing leaves out such rows")) from None


def _columns(sample: DataFrame, target: str, kinds: dict[str, str]) -> list[stratagp.data.Field]:
    """What columns hold, as the library reads them from files, where values are not converted."""
    frame, found = _plain(sample), []
    kinds_stored = {each.name: each.kind for each in stratagp.data.as_stored(frame)}
    for each in examine(frame, target, kinds):
        stored = kinds_stored[each.name]
        if each.kind == "text":
            raise InputError(
                f"the column {each.name!r} holds texts, which cannot be compared in batches: leave it out with "
                f"--as {each.name}=ignore, or make it a category with --as {each.name}=category"
            )
        if each.used and stored not in (each.kind, "duration"):
            if each.name in kinds:
                raise InputError(
                    f"--as {each.name}={each.kind}: in batches a column is read as it is stored, here as a {stored}: "
                    f"store it as a {each.kind}, or leave it out with --as {each.name}=ignore"
                )
            remark = "dates stored as text are categories in files" if each.kind == "date" else ""
            each = replace(each, kind=stored, written="", remark=each.remark if each.distinct == 1 else remark)
        found.append(each)
    return found


def _plain(frame: DataFrame) -> DataFrame:
    """Rows of a source with categories as texts, and Python's dates as a column of dates."""
    found = frame.astype({name: object for name in frame.columns if str(frame[name].dtype) == "category"})
    for name in found.columns:
        if found[name].dtype.kind == "O" and pandas().api.types.infer_dtype(found[name], skipna=True) == "date":
            found[name] = found[name].to_numpy().astype("datetime64[s]")
    return found


def _hold_out(
    whole: stratagp.data.ParquetFiles, columns: list[str], settings: Settings, console: Console
) -> tuple[stratagp.data.Source, stratagp.data.Source | None]:
    """Rows to train on and to test: whole files if there are several, else rows by a hash."""
    missing = "drop" if settings.drop_missing else "raise"
    every = stratagp.data.open_source(settings.file, target=settings.target, columns=columns, missing=missing)
    assert isinstance(every, stratagp.data.ParquetFiles)
    if not settings.test:
        return every, None
    held = set(_files_held_out(whole, settings))
    if held:
        console.note(f"held out for the test: {len(held)} of {len(whole.files)} files")
        return every.only(set(whole.files) - held), every.only(held)
    console.note(f"held out for the test: {settings.test:.3g} of the rows, by a hash of their values")
    divided = partial(stratagp.data.Divided, every, settings.test, settings.seed + SALT)
    return divided(held=False), divided(held=True)


def _files_held_out(whole: stratagp.data.ParquetFiles, settings: Settings) -> list[str]:
    """Files for the test whose classes other files have too; none if there are no such files."""
    files = whole.files
    if len(files) < 2 or "://" in settings.file:
        return []
    order = [files[i] for i in np.random.default_rng(settings.seed).permutation(len(files))]
    most = min(len(files) - 1, max(1, round(settings.test * len(files))))
    if settings.task == "regression":
        return order[:most]
    classes, targets, held = {file: set[Any]() for file in files}, copy(whole), list[str]()
    targets.columns = [settings.target]  # the only one to read
    for number, part in enumerate(whole.parts):
        for block in targets.blocks(number):
            classes[part.where] |= set(block.X[settings.target].dropna().unique())
    left = Counter(label for own in classes.values() for label in own)
    for file in order:
        if len(held) < most and classes[file] and all(left[label] > 1 for label in classes[file]):
            held.append(file)
            left.subtract(classes[file])
    return held


class Sampled(NamedTuple):
    """A sample of the complete rows of a source, and how many there are in all."""

    X: DataFrame
    y: np.ndarray
    of: int


def sampled(source: stratagp.data.Source, seed: int) -> Sampled:
    """At most 20,000 complete rows of a source: those whose place has the smallest hash."""
    sample, found, rules = stratagp.data.Sample(SAMPLE_ROWS), 0, stratagp.data.Rules(missing="drop")
    for part in range(len(source.parts)):
        row = 0
        for block in source.blocks(part):
            places = np.uint64(part << 32) + np.arange(row, row + len(block), dtype=np.uint64)
            row += len(block)
            whole = rules.complete(block)
            found += int(whole.sum())
            sample.add(stratagp.data.mixed(places + np.uint64(seed)), block, whole)
    return _settled(sample, found)


def learnt_from(seen: Any) -> Sampled:
    """At most 20,000 of the rows that a fit has learnt from, or held out for its validation."""
    sample = stratagp.data.Sample(SAMPLE_ROWS)
    for each in (seen.sample, seen.held):
        sample.merge(each)
    return _settled(sample, seen.rows + seen.held_rows)


def _settled(sample: stratagp.data.Sample, of: int) -> Sampled:
    rows = sample.settle()
    if rows is None:
        raise InputError("no complete row is held out for the test: give --test a larger share, or 0 for no test")
    return Sampled(_plain(rows.X).reset_index(drop=True), np.asarray(rows.y).reshape(-1), of)


def _of_known_classes(rows: Sampled, classes: np.ndarray, console: Console) -> Sampled:
    """Held-out rows of classes that training rows have; others are left out with a warning."""
    known = np.isin(rows.y, classes)
    if known.all():
        return rows
    unknown = ", ".join(map(repr, np.unique(rows.y[~known])[:_LISTED].tolist()))
    console.warn(
        f"no training row has the class {unknown}: {int((~known).sum()):,} of {len(known):,} held-out rows are not "
        "scored; try another --seed, or --test 0"
    )
    return Sampled(rows.X[known].reset_index(drop=True), rows.y[known], rows.of)


def _tested(fitted: Fitted, source: stratagp.data.Source, test: stratagp.data.Source, console: Console) -> Fitted:
    """The fitted model with scores on a sample of held-out rows, and baselines from a sample of training rows."""
    seed, task = fitted.settings.seed, fitted.task
    console.note(f"reading at most {SAMPLE_ROWS:,} of the held-out rows for the test and the report")
    with console.at_work():
        seen, new = learnt_from(source.surveyed), sampled(test, seed)
    new = _of_known_classes(new, fitted.model.classes_, console) if task == "classification" else new
    model, counts = fitted.model, (seen.of, new.of)
    own = tested(model, new.X, new.y, task, console) if len(new.y) else None
    said = f"the model of the other {seen.of:,}, which is saved: rows in files are learnt from once"
    fitted = replace(fitted, said=said.replace("the model", "not scored: the model", 1), counts=counts)
    if own is None:
        return fitted
    with console.at_work():
        known = task == "regression" or set(np.unique(new.y)) <= set(np.unique(seen.y))
        others = baselines(seen.X, seen.y, new.X, new.y, task, (), seed) if known else {}
    samples = [
        f"rows are read in batches: scores are about {len(new.y):,} of {new.of:,} held-out rows",
        f"the data summary, effects and baselines are about {len(seen.y):,} of {seen.of:,} training rows",
    ]
    return replace(
        fitted,
        assumed=[*fitted.assumed, *samples],
        rows=(seen.X, seen.y),
        judges=[Judge(model, new.X, new.y)],
        scores=own.scores(),
        baselines={name: each.scores() for name, each in others.items()},
        gains=gains(own, others),
        farthest=own.farthest,
        said=f"scored: {len(new.y):,} of {new.of:,} held-out rows, by {said}",
        hint="try more --epochs, or use the baseline",
        sampled=True,
    )
