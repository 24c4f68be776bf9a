"""``stratagp fit``: read a table, choose a model, train, test, save and report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import stratagp
from stratagp.cli import many_files
from stratagp.cli.held_out import WAYS, copies, find_split
from stratagp.cli.kernel_text import parse_kernel
from stratagp.cli.leaks import telling
from stratagp.cli.learning import Clock, Interrupted, Prepared, learn
from stratagp.cli.limits import refuse_sizes
from stratagp.cli.model_folder import SETTINGS, Fitted, check_out
from stratagp.cli.models import MODELS, choose
from stratagp.cli.output import Console
from stratagp.cli.program import declared
from stratagp.cli.settings import Settings, read_config
from stratagp.cli.split import Parts, hold_out
from stratagp.cli.table import (
    KINDS,
    WRITTEN,
    DataFrame,
    TableFile,
    check_file,
    examine,
    format_options,
    inputs,
    is_many,
    meant,
    pick,
    refuse_mixed,
    tell,
)
from stratagp.cli.target import TASKS, check_target, find_task, targets, warn_of_skew
from stratagp.errors import InputError

_LEAST_ROWS = 5
_TASK_OF = {"category": "classification", "number": "regression"}  # by the kind of the target


def _kinds(ctx: click.Context, parameter: click.Parameter, given: Iterable[str]) -> dict[str, str]:
    """Pairs ``COLUMN=KIND`` as a mapping."""
    pairs = [each.rpartition("=")[::2] for each in given]
    for name, kind in pairs:
        if not name or kind not in KINDS:
            raise click.BadParameter(f"write COLUMN=KIND, where KIND is one of {', '.join(KINDS)}")
    return dict(pairs)


@declared("fit")
@click.argument("file", metavar="FILE")
@click.option("--target", "-t", required=True, metavar="COLUMN", help="The column to predict.")
@click.option("--config", is_eager=True, expose_value=False, callback=read_config, metavar="FILE",
              help="A TOML file of options, such as the settings.toml that every fit writes.")  # fmt: skip
@click.option("--out", "-o", metavar="DIR", help="The folder for the model; the file's name with -model if left out.")
@click.option("--overwrite", is_flag=True, help="Replace a model that is already there.")
@click.option("--model", type=click.Choice(MODELS), default="auto", show_default=True,
              help="The kind of model. auto: the best mixture of candidates where the data have one; single: one model "
              "by the size and kind of the data.")  # fmt: skip
@click.option("--task", type=click.Choice(["auto", *TASKS]), default="auto", show_default=True,
              help="Whether the target is a number or a class; auto goes by its values.")  # fmt: skip
@click.option("--log", is_flag=True,
              help="Learn the logarithm of a positive target, by mini-batches; predictions are of the target itself, "
              "and intervals lie above zero.")  # fmt: skip
@click.option("--likelihood", metavar="NAME",
              help="How numbers come about, by mini-batches: poisson, zero-inflated-poisson, gamma, beta, student-t; "
              "a wrong name shows all.")  # fmt: skip
@click.option("--kernel", metavar="TEXT", help="The kernel, such as \"RBF*Periodic(period=1) + Linear(on='year')\".")
@click.option("--as", "kinds", multiple=True, callback=_kinds, metavar="COLUMN=KIND",
              help="What a column holds: number, category, date or text; or ignore. Repeatable.")  # fmt: skip
@click.option("--date-format", multiple=True, metavar="FORMAT",
              help="How dates are written, such as '%d/%m/%Y', where the texts do not tell. Repeatable.")  # fmt: skip
@click.option("--test", type=click.FloatRange(0, 1, max_open=True), default=0.2, show_default=True, metavar="SHARE",
              help="The share of rows to hold out for the test; 0 for no test.")  # fmt: skip
@click.option("--split", metavar="WAY",
              help=f"Which rows those are: {WAYS}. The latest ones if a column holds dates, else some at random; "
              "rows of a group stay together.")  # fmt: skip
@click.option("--folds", type=click.IntRange(2), metavar="K",
              help="Test by cross-validation in so many folds, in place of --test; not for folders.")  # fmt: skip
@click.option("--refit/--no-refit", default=True,
              help="Whether the model learns from all rows after the test, or is saved as it was tested.")  # fmt: skip
@click.option("--drop-missing", is_flag=True,
              help="Leave out rows without a target; of folders, also rows without inputs.")  # fmt: skip
@click.option("--rows", type=click.IntRange(2), metavar="N",
              help="Train on at most this many rows, drawn at random; not for folders.")  # fmt: skip
@click.option("--search-rows", type=click.IntRange(20), metavar="N",
              help="Learn the values of --model vecchia from so many rows; predictions come from all.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), metavar="N", help="How often mini-batch models pass over the rows.")
@click.option("--time-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
              help="End after about this long, by fewer epochs, candidates or rows; not for folders.")  # fmt: skip
@click.option("--plan", multiple=True, metavar="NAME",
              help="A candidate of --model best, by its name: only those given run. Repeatable.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, metavar="N",
              help="The seed of the test rows and of everything random in training.")  # fmt: skip
@click.option(
    "--checkpoint", metavar="DIR", help="A folder for the state of mini-batch training; a second call resumes from it."
)
@click.option("--device", metavar="NAME", help="Where to train: cpu, cuda, cuda:1.")
@click.option("--report/--no-report", default=True, help="Whether to write a report about the model.")
@format_options
def command(console: Console, **options: Any) -> None:
    """Learn to predict a column of FILE from the others.

    FILE is a CSV, TSV, Excel or Parquet file, or - for CSV from standard input. A folder, a quoted pattern of
    files ('flights/*.parquet') or a file too large for memory is read in batches, without --rows and
    --time-limit. That also works in several processes:
    torchrun --nproc-per-node 2 -m stratagp fit ...

    The kinds of columns are found and shown. A part of the rows is held out to compare the model with
    the mean of the target and with gradient boosting; the saved model then learns from all rows. Model,
    settings and report go to a folder.
    """
    settings = Settings(**options)
    clock, settings = Clock(settings.time_limit), replace(settings, task=asked_task(settings))
    _check_test(settings)
    many = is_many(settings.file)
    if not many:
        check_file(settings.file)
    out = Path(settings.out or f"{_stem(settings.file)}-model")
    check_out(out, settings.overwrite)
    if settings.kernel is not None:
        parse_kernel(settings.kernel)  # so that a mistake is found before any work
    if settings.device is not None:
        stratagp.training.find_device(settings.device)
    if (settings.split or settings.date_format) and many:
        raise InputError("--split and --date-format need a file that fits in memory: leave them out")
    if settings.log and many:
        raise InputError(f"--log needs a file that fits in memory, but {settings.file} is read in batches")
    fitted = many_files.fit(console, settings) if many else _fit(console, settings, clock)
    try:
        if console.first:
            fitted.save(out, console, clock.left)
    except KeyboardInterrupt:
        kept = f"the model is saved in {out}, the report is not" if (out / SETTINGS).exists() else "nothing was saved"
        raise Interrupted(kept) from None
    if fitted.stopped:
        raise Interrupted(f"{fitted.said}; in {out}")


def _check_test(settings: Settings) -> None:
    """Refuse ways to test that exclude each other."""
    if settings.folds is None:
        return
    if settings.test != Settings("", "").test:
        raise InputError(f"--folds takes the place of --test {settings.test:g}: give one of the two")
    if (settings.split or "").startswith("time"):
        raise InputError("--folds tests rows of all times: take --test with --split time")
    if not settings.refit:
        raise InputError("--folds tests models of parts of the rows, none of which is saved: leave --no-refit out")


def asked_task(settings: Settings) -> str:
    """The task that the user asks for, by ``--task``, by ``--as`` for the target, or by ``--likelihood``.

    >>> asked_task(Settings("a.csv", "price", kinds={"price": "category", "size": "number"}))
    'classification'
    """
    target, asked = settings.target, settings.task
    if settings.likelihood is not None:
        if asked == "classification" or settings.kinds.get(target, "number") != "number":
            raise InputError(
                f"--likelihood {settings.likelihood} is for numbers: leave it out, or take --task regression"
            )
        return "regression"
    if target not in settings.kinds:
        return asked
    kind = settings.kinds[target]
    found = _TASK_OF.get(kind)
    if found is None or asked not in ("auto", found):
        raise InputError(
            f"--as {target}={kind}: the target must be a number or a category, as --task regression or --task "
            "classification decides" + (f", and {asked} was asked for" if asked != "auto" else "")
        )
    return found


def _stem(file: str) -> str:
    name = Path(file.rstrip("/*")).name or "data"
    return "standard-input" if file == "-" else name.partition(".")[0] or "data"


def _fit(console: Console, settings: Settings, clock: Clock) -> Fitted:
    """Fit a model to a table in memory."""
    ready = prepare(console, settings)
    task, choice, settings = ready.task, ready.choice, ready.settings
    ignored = {
        "checkpoint": settings.checkpoint is not None and not choice.by_batches,
        "epochs": settings.epochs is not None and not choice.by_epochs(task),
    }
    for name, is_ignored in ignored.items():
        if is_ignored:
            raise InputError(
                f"--{name} needs a model that learns by mini-batches, and {choice.model} does not: leave it out, or "
                "choose another model, such as --model autogp"
            )
    if settings.search_rows is not None and (choice.model, task) != ("vecchia", "regression"):
        raise InputError(f"--search-rows is for --model vecchia and numbers, not for {choice.model} here: leave it out")
    console.note(f"{task} by {choice.model}: {choice.reason}")
    if settings.plan and not choice.stacked:
        raise InputError(f"--plan is for --model best, not for {choice.model}: leave it out")
    return learn(ready, replace(settings, task=task), console, clock)


def prepare(console: Console, settings: Settings) -> Prepared:
    """Read a table, examine its columns, choose a model and hold rows out."""
    table = TableFile(settings.file, settings.form)
    frame = table.read([column for column, kind in settings.kinds.items() if kind in WRITTEN])
    target, kinds = meant(frame, settings.target), {meant(frame, name): kind for name, kind in settings.kinds.items()}
    settings = replace(settings, target=target, kinds=kinds)
    frame = _complete(frame, table.name, settings, console)
    refuse_mixed(frame, target, kinds, settings.task, settings.form, table.name)
    task, why = find_task(frame[target], settings.task)
    check_target(frame[target], task, settings, console)
    why += "; the model learns its logarithm" if settings.log else ""
    columns = examine(frame, target, kinds, settings.date_format, table.written)
    letters = [each.name for each in columns if each.kind in WRITTEN]
    if task == "classification" and targets(frame[target], task).dtype.kind == "U":
        letters.append(target)
    frame = table.as_written(frame, letters)
    for note in table.notes:
        console.note(note)
    assumed = [*table.notes, *tell(columns, target, task, why, console)]
    X, y = inputs(frame, stratagp.data.Schema(columns), table.name, console, target), targets(frame[target], task)
    trained, classes = round((1 - settings.test) * len(y)), len(np.unique(y)) if task == "classification" else 0
    choice = choose(settings, columns, min(trained, settings.rows or trained), classes)
    refuse_sizes(columns, y if classes else None, target, choice.stacked)
    missing = _has_gaps(X, console)
    assumed += _suspicions(X, y, columns, task, console)
    split = find_split(settings.split or ("random" if settings.folds else None), frame, columns, table.name)
    held = settings.test if settings.folds is None else 0.0  # folds are drawn from all rows
    parts = hold_out(X, y, task, held, settings.seed, console, split, frame)
    if held:
        assumed.append(f"held out for the test, {split.shown}: {split.reason}")
        console.note(assumed[-1])
        assumed += _same_rows(parts, console)
    trained = min(len(parts.y), settings.rows or len(parts.y))
    choice = choose(settings, columns, trained, len(np.unique(parts.y)) if classes else 0)
    if choice.stacked and split.way != "random":
        new = "rows that are later than" if split.way == "time" else "groups other than"
        assumed.append(f"candidates are judged, by {split.column!r}, on {new} those that they learn from")
        console.note(assumed[-1])
    if not (classes or choice.stacked):
        warn_of_skew(frame[target], settings, console)
    settings = replace(settings, split=split.shown)
    groups = frame.loc[X.index, split.column] if split.way == "groups" else None
    return Prepared(task, columns, assumed, choice, parts, missing, settings, groups)


def _suspicions(
    X: DataFrame, y: np.ndarray, columns: list[stratagp.data.Field], task: str, console: Console
) -> list[str]:
    """A warning for each column that alone tells the target."""
    found = [
        f"the column {name!r} alone tells the target ({how}): if it is known only after the target, leave it out with "
        f"--as {name}=ignore"
        for name, how in telling(X, y, columns, task).items()
    ]
    for text in found:
        console.warn(text)
    return found


def _same_rows(parts: Parts, console: Console) -> list[str]:
    """A warning of test rows that the model has seen."""
    same = copies(parts.X, parts.y, parts.X_test, parts.y_test)
    if not same:
        return []
    text = (
        f"{same:,} of {len(parts.y_test):,} test rows have the inputs and the target of a training row, so scores may "
        "be too good: remove copies, or keep rows of one origin together with --split groups:COLUMN"
    )
    console.warn(text)
    return [text]


def _complete(frame: DataFrame, name: str, settings: Settings, console: Console) -> DataFrame:
    """The rows with a target, which must be enough."""
    target = settings.target
    gaps = pick(frame, target, name).isna()
    if gaps.any() and not settings.drop_missing:
        raise InputError(
            f"{name}: the target {target!r} is missing in {int(gaps.sum())} of {len(frame)} rows, first in row "
            f"{int(gaps.to_numpy().argmax()) + 1}: fill them, or leave such rows out with --drop-missing"
        )
    if gaps.any():
        console.warn(f"left out {int(gaps.sum())} of {len(frame)} rows, which have no target")
        frame = frame[~gaps]
    if len(frame) < _LEAST_ROWS:
        raise InputError(f"{name} has {len(frame)} row{'s' * (len(frame) != 1)}: a fit needs at least {_LEAST_ROWS}")
    return frame


def _has_gaps(X: DataFrame, console: Console) -> bool:
    """Whether inputs are missing, which the model has to fill; with a warning."""
    gaps = X.isna()
    if not gaps.any(axis=None):
        return False
    found = X.columns[gaps.any()]
    where = ", ".join(repr(name) for name in found[:5])
    numbers = set(X[found].select_dtypes(["number", "datetime"]))
    some = "" if numbers == set(found) else "; frequent gaps among categories are a category of their own"
    console.warn(
        f"{int(gaps.any(axis=1).sum())} of {len(X)} rows lack inputs ({where}): the model averages over what these may "
        f"be{some}"
    )
    return True
