"""From a table that is ready to the model that is kept: learn, test, compare, and learn again from all rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stratagp
from stratagp.cli.folds import in_folds, whole
from stratagp.cli.model_folder import Fitted, Inputs, Judge
from stratagp.cli.models import Choice, as_inputs, build, limit_of, training, usual_epochs, was_interrupted
from stratagp.cli.output import Console
from stratagp.cli.scores import Gains, Said, Scores, baselines, gains, tested
from stratagp.cli.settings import Settings
from stratagp.cli.split import Parts
from stratagp.cli.table import DataFrame, Series, pandas
from stratagp.errors import StrataGPError

_AGAIN = 0.3  # of the time of a fit, which a second one takes that goes on from the first
_ENOUGH = 0.6  # of its time limit, below which a stack has tried all of its candidates
_TESTING = 0.2  # of a time limit, for the test and the report
_MANY_CLASSES = 20_000  # rows of classes from which a limit of time asks for mini-batches
_TIMED = 400  # rows whose prediction is timed
_LEAST_TESTED = 200  # rows, however short the time


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, and what is left of the work."""


@dataclass(frozen=True)
class Clock:
    """A limit of time for everything that a command does; None for no limit."""

    limit: float | None = None
    start: float = field(default_factory=time.perf_counter)

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def left(self) -> float:
        """Seconds to the limit; infinite where there is none."""
        return float("inf") if self.limit is None else max(self.limit - self.spent, 0.0)


@dataclass(frozen=True)
class Prepared:
    """A table as a model takes it, and which model that is."""

    task: str
    columns: list[stratagp.data.Field]
    assumed: list[str]
    choice: Choice
    parts: Parts
    missing: bool
    settings: Settings  # with what was decided
    groups: Series | None = None  # whose rows stay together


class Learnt(NamedTuple):
    """Models of the rows that are not held out, what they say of those that are, and what others say of these."""

    models: list[Any]
    said: Said | None
    others: dict[str, Said]
    again: float = 0.0  # seconds that learning from all rows will take
    pace: float = 0.0  # seconds that the prediction of a row takes
    stopped: bool = False

    def compared(self) -> tuple[Scores, dict[str, Scores], Gains]:
        """Scores of the models and of the others, and by how much the models are ahead."""
        if self.said is None:
            return {}, {}, {}
        others = {name: each.scores() for name, each in self.others.items()}
        return self.said.scores(), others, gains(self.said, self.others)


def learn(ready: Prepared, settings: Settings, console: Console, clock: Clock) -> Fitted:
    """Learn from the rows that are not held out, test, and learn again from all rows."""
    tests, asked, settings = [ready.parts], settings, replace(settings, model=ready.choice.model)
    if settings.folds is not None:
        tests = in_folds(ready.parts, settings.folds, settings.seed, console, ready.groups)
    tested_by = len(tests[0].y_test) > 0
    again = settings.refit and settings.rows is None
    console.begin(len(tests) * (1 + tested_by) + tested_by * (1 + again + settings.report), settings.time_limit)
    others = _others(tests, ready, settings, console)  # first, so that the time that is left for the model is known
    if settings.time_limit is not None and asked.model in ("auto", "single"):
        ready = replace(ready, choice=_of_all_rows(ready.choice, ready.task, len(tests[0].y)))
    ready, settings, tests = _limited(ready, settings, tests, console, clock)
    found, settings = _learnt(ready, settings, tests, console, clock)
    same = np.concatenate([each.X_test.index for each in tests])  # rows that the model can answer too
    found = found._replace(others={name: each.of_rows(same) for name, each in others.items()})
    hint = _to_try(ready, asked, found.again / _AGAIN)
    return replace(_kept(found, ready, settings, tests, console, clock), hint=hint)


def _others(tests: Sequence[Parts], ready: Prepared, settings: Settings, console: Console) -> dict[str, Said]:
    """What the baselines say of the test rows; they see all rows that are not held out."""
    if not len(tests[0].y_test):
        return {}
    console.stage(f"baselines learn from {len(tests[0].y):,} rows")
    texts, seed = ready.choice.texts, settings.seed
    with console.at_work():
        found = [baselines(each.X, each.y, each.X_test, each.y_test, ready.task, texts, seed) for each in tests]
    names = [name for name in found[0] if all(name in each for each in found)]
    rows = np.concatenate([each.X_test.index for each in tests])
    return {name: Said.joined([each[name] for each in found])._replace(rows=rows) for name in names}


def _of_all_rows(choice: Choice, task: str, rows: int) -> Choice:
    """The model for a limit of time: classes of many rows by mini-batches, which see all of them."""
    if task == "classification" and choice.model == "vecchia" and rows > _MANY_CLASSES:
        return replace(choice, model="autogp", reason="mini-batches see all rows within the time limit")
    return choice


def _limited(
    ready: Prepared, settings: Settings, tests: list[Parts], console: Console, clock: Clock
) -> tuple[Prepared, Settings, list[Parts]]:
    """What fits into a time limit; the settings then hold rows and epochs in its place, or what a stack may take."""
    if settings.time_limit is None:
        return ready, settings, [fewer(each, settings.rows, console) for each in tests]
    again = 0.0 if not settings.refit else _AGAIN if ready.choice.goes_on else 1.0
    seconds = max(clock.left - _TESTING * settings.time_limit, 0.1 * settings.time_limit) / (len(tests) + again)
    if ready.choice.stacked:
        return ready, replace(settings, time_limit=seconds), [fewer(each, settings.rows, console) for each in tests]
    choice, task, n = ready.choice, ready.task, len(tests[0].y)
    own = "stochastic" if choice.by_batches else choice.model
    others = {  # in a short time few rows by the exact process say more than an approximation
        "exact": Choice("exact", "only so many rows fit into the time limit: the exact process"),
        "vecchia": Choice("vecchia", "the exact process would take longer than the time limit"),
    }

    def trial(way: str, rows: int, epochs: int | None) -> None:
        some, tried = tests[0].some(rows), choice if way == own else others[way]
        model = build(tried, task, replace(settings, epochs=epochs or settings.epochs), rows, ready.missing)
        with training(model, console):
            model.fit(as_inputs(some.X, tried), some.y)

    budget = stratagp.recipes.Budget(settings.rows, settings.epochs, seconds)
    usual, columns = usual_epochs(choice, task, settings, n), tests[0].X.shape[1] if task == "regression" else None
    first = "exact" if own == "vecchia" and columns is not None else own
    found = stratagp.recipes.plan(first, n, budget, usual, trial, not choice.texts, columns)
    if found.reason:
        console.warn(f"{found.reason} of {settings.time_limit:g} s")
    choice = choice if found.way == own else others[found.way]
    settled = replace(settings, model=choice.model, rows=found.budget.rows, epochs=found.budget.epochs, time_limit=None)
    settled = replace(settled, search_rows=found.search or settings.search_rows)
    return replace(ready, choice=choice), settled, [fewer(each, settled.rows, console) for each in tests]


def fewer(parts: Parts, rows: int | None, console: Console) -> Parts:
    """At most so many rows to train on, and test rows that these can answer."""
    found = parts.some(rows)
    if lost := len(parts.y_test) - len(found.y_test):
        console.warn(f"left out {lost:,} test rows: none of the {rows:,} training rows has their category or class")
    return found


def _learnt(
    ready: Prepared, settings: Settings, tests: list[Parts], console: Console, clock: Clock
) -> tuple[Learnt, Settings]:
    """A model of the rows that each test leaves, and what it says of those that the test holds out.

    Where time is short, each test keeps the rows that can be predicted in half of what is left.
    """
    models, said, start, seconds, pace = list[Any](), list[Said | None](), time.perf_counter(), 0.0, 0.0
    for number, parts in enumerate(tests, 1):
        fold = f", without fold {number} of {len(tests)}" if len(tests) > 1 else ""
        console.stage(f"{ready.choice.model} learns from {len(parts.y):,} rows{fold}", seconds or None)
        model = build(ready.choice, ready.task, settings, len(parts.y), ready.missing, console.talks)
        try:
            with training(model, console):
                model = _fitted(model, parts, ready, settings, number - 1)
        except KeyboardInterrupt:
            if settings.checkpoint is not None and any(Path(settings.checkpoint).rglob("stage-*")):
                raise Interrupted(f"the state is in {settings.checkpoint}: the same command goes on from it") from None
            if not hasattr(model, "fitted_") and not models:
                raise Interrupted("nothing was saved") from None
            return Learnt([*models, model][:1], None, {}, stopped=True), settings
        seconds = seconds or time.perf_counter() - start
        if ready.choice.stacked and number == 1:  # the plan repeats to the last bit; a clock does not
            settings = replace(settings, plan=tuple(model.plan_), time_limit=None)
            console.note(model.explain())
        models.append(model)
        if len(parts.y_test):
            if clock.limit is not None:
                pace = pace or _pace(model, parts, ready)
                able = max(clock.left / 2 / (len(tests) - number + 1) / pace, _LEAST_TESTED)
                tests[number - 1] = parts = parts.tested_by(int(able), settings.seed)
            console.stage(f"predicting {len(parts.y_test):,} held-out rows", pace * len(parts.y_test) or None)
            began = time.perf_counter()
            try:
                said.append(tested(model, as_inputs(parts.X_test, ready.choice), parts.y_test, ready.task, console))
            except KeyboardInterrupt:
                return Learnt(models[:1], None, {}, stopped=True), settings
            took = time.perf_counter() - began
            pace = _pace(model, parts, ready) if len(parts.y_test) < _TIMED else took / len(parts.y_test)
    known = [each for each in said if each is not None]
    joined = Said.joined(known) if known and len(known) == len(tests) else None
    return Learnt(models, joined, {}, (_AGAIN if ready.choice.goes_on else 1.2) * seconds, pace), settings


def _fitted(model: Any, parts: Parts, ready: Prepared, settings: Settings, number: int) -> Any:
    """A model that has learnt; the values of ``--search-rows`` stay where all rows come in."""
    X, y = as_inputs(parts.X, ready.choice), parts.y
    if ready.choice.stacked and ready.groups is not None:
        labels = pandas().factorize(ready.groups.loc[parts.X.index], use_na_sentinel=False)[0]
        return model.fit(X, y, groups=labels)
    if settings.search_rows is None or settings.search_rows >= len(y):
        return model.fit(X, y, **_checkpoint(settings, number))
    few = parts.some(settings.search_rows)
    exact = model.set_params(inference="exact").fit(few.X, few.y)
    return exact.refit(X, y, inference="vecchia", max_iterations=0)


def _pace(model: Any, parts: Parts, ready: Prepared) -> float:
    """Seconds that the prediction of a row takes."""
    chosen = np.resize(np.arange(len(parts.y_test)), _TIMED)  # few rows tell what a call takes, not what a row does
    X, start = as_inputs(parts.X_test.iloc[chosen], ready.choice), time.perf_counter()
    tested(model, X, parts.y_test[chosen], ready.task, Console(silent=True))
    return max(time.perf_counter() - start, 1e-9) / _TIMED


def _checkpoint(settings: Settings, number: int | str) -> dict[str, Any]:
    """Where training by steps leaves its state: each fit of a command has a folder of its own, the first the given."""
    if settings.checkpoint is None:
        return {}
    return {"checkpoint": Path(settings.checkpoint) / str(number) if number else settings.checkpoint}


def _kept(
    found: Learnt, ready: Prepared, settings: Settings, tests: list[Parts], console: Console, clock: Clock
) -> Fitted:
    """The model that is saved, learnt from all rows where that is possible, with the scores of the others."""
    first, choice, (X, y) = found.models[0], ready.choice, (tests[0].X, tests[0].y)
    model, stopped, why = first, found.stopped, _why_not_again(found, settings, tests, clock)
    if not why:
        every = whole(ready.parts)
        console.stage(f"learning from all {len(every[1]):,} rows", found.again)
        try:
            with console.at_work():
                again = first.refit(as_inputs(every[0], choice), every[1], **_checkpoint(settings, "all"))
            stopped = was_interrupted(again)
            if not stopped:
                model, (X, y) = again, every
        except KeyboardInterrupt:
            stopped = True
        except (StrataGPError, ValueError) as error:
            console.warn(f"learning from all rows failed: {error}")
            why = "learning from all rows failed"
        why = "interrupted" if stopped else why
    said = _in_a_line(found, tests, settings.folds is not None, len(y), why)
    text = choice.texts[0] if choice.alone else None  # a column, which has a name and the rows of the file

    def seen(X: DataFrame) -> Inputs:
        return X if text is None else X[text]

    judges = [Judge(each, seen(part.X_test), part.y_test) for each, part in zip(found.models, tests, strict=False)]
    scores, others, ahead = found.compared()
    return Fitted(
        model=model,
        choice=replace(choice, reason=first.explain().replace("\n", " ")) if choice.stacked else choice,
        task=ready.task,
        columns=ready.columns,
        assumed=ready.assumed,
        rows=(seen(X), y),
        judges=judges if scores else [],
        scores=scores,
        baselines=others,
        gains=ahead,
        farthest=found.said.farthest if found.said else 0.0,
        settings=replace(settings, refit=settings.refit and (not why or settings.folds is not None)),
        seconds=clock.spent,
        said=said,
        pace=found.pace,
        counts=(len(tests[0].y), 0 if found.said is None else len(found.said.y)),
        written=y.dtype.kind == "U",
        stopped=stopped,
    )


def _why_not_again(found: Learnt, settings: Settings, tests: list[Parts], clock: Clock) -> str:
    """Why the model that was tested is the one that is saved; empty where it learns again from all rows."""
    if found.stopped:
        return "interrupted"
    if not len(tests[0].y_test):
        return "nothing was held out"
    if not settings.refit:
        return "--no-refit"
    if settings.rows is not None:
        return f"only {settings.rows:,} rows are drawn to train on"
    # a stack learns its members again, in a part of the time that it took to find them
    return "no time was left to learn again" if found.again > clock.left else ""


def _in_a_line(found: Learnt, tests: list[Parts], folds: bool, rows: int, why: str) -> str:
    """What was scored, and what is saved."""
    if found.said is None:
        return f"not scored; saved: the model of {rows:,} rows" + (f" ({why})" if why else "")
    scored, learnt = len(found.said.y), len(tests[0].y)
    if folds:
        by = f"scored: {scored:,} rows in {len(tests)} folds, each by a model that had not seen it"
        return f"{by}; saved: " + (
            f"the model without the first fold ({why})" if why else f"a model of all {rows:,} rows"
        )
    by = f"scored: {scored:,} held-out rows, by the model of the other {learnt:,}"
    return f"{by}; saved: " + (f"the same model ({why})" if why else f"the model learnt again from all {rows:,} rows")


def _to_try(ready: Prepared, asked: Settings, seconds: float) -> str:
    """What may help where a baseline is better; ``seconds`` are those of the fit."""
    if ready.choice.stacked and seconds < _ENOUGH * limit_of(asked, len(ready.parts.y)):
        return "use the baseline: every candidate had the time that it asked for"
    if ready.choice.stacked:
        return f"try --time-limit {5 * limit_of(asked, len(ready.parts.y)):g}, or use the baseline"
    given = [name for name in ("kernel", "log", "likelihood") if getattr(asked, name)]
    if given:
        return f"try it without --{given[0]}, or use the baseline"
    return "try --model best, or use the baseline"
