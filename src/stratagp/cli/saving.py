"""The end of a fit: the folder with the model, its settings and its report, and the result on standard output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stratagp.cli.columns import Column
from stratagp.cli.console import Console, plain
from stratagp.cli.folder import REPORT, RESULTS, SETTINGS, Table
from stratagp.cli.models import Choice
from stratagp.cli.scores import Scores, as_table
from stratagp.cli.settings import KEPT_OUT, as_toml
from stratagp.report import gather, write_report

_UNSET: tuple[Any, ...] = (None, {}, ())


@dataclass(frozen=True)
class Fitted:
    """A fitted model and all that is known about it.

    Arguments:
        model: the estimator.
        choice: which it is, and why.
        assumed: what was assumed about the data, in sentences.
        rows: ``X, y, X_test, y_test`` as the estimator takes them, or a sample of those in files; None without a test.
        scores: of the rows held out; empty where none were.
        baselines: scores of others on the same rows.
        settings: the options that repeat the fit.
        seconds: the fit took.
        counts: rows to train on and to test, where ``rows`` is a sample of these.
        written: whether classes are the letters of the file.
    """

    model: Any
    choice: Choice
    task: str
    columns: list[Column]
    assumed: list[str]
    rows: tuple[Any, Any, Any, Any] | None
    scores: Scores
    baselines: dict[str, Scores]
    settings: dict[str, Any]
    seconds: float
    counts: tuple[int, int] | None = None
    written: bool = False


def finish(console: Console, fitted: Fitted, out: Path, options: dict[str, Any]) -> None:
    """Save a model with what belongs to it, and tell the result; in the first process alone."""
    if not console.first:
        return
    fitted.model.save(out, overwrite=options["overwrite"])
    about = _about(fitted)
    text = fitted.choice.texts[0] if fitted.choice.alone else None
    Table(options["target"], fitted.task, fitted.columns, text, about, written=fitted.written).write(out)
    file = options["file"]
    settings = {**fitted.settings, "file": file if file == "-" or "://" in file else str(Path(file).absolute())}
    (out / SETTINGS).write_text(as_toml(settings), "utf-8")
    for name in (RESULTS, REPORT):  # of a model that was here before
        (out / name).unlink(missing_ok=True)
    console.part(_words(fitted, out))
    report = _report(console, fitted, out) if options["report"] else None
    said = f"report: {report}" if report else ""
    console.result(said, {**about, "out": str(out), "report": report and str(report)})


def _about(fitted: Fitted) -> dict[str, Any]:
    counts = fitted.counts or (fitted.rows and (len(fitted.rows[1]), len(fitted.rows[3])))
    return {
        "task": fitted.task,
        "model": fitted.choice.model,
        "reason": fitted.choice.reason,
        "seconds": round(fitted.seconds, 3),
        "rows": counts and dict(zip(("train", "test"), counts, strict=True)),
        "metrics": fitted.scores,
        "baselines": fitted.baselines,
        "assumptions": fitted.assumed,
    }


def _report(console: Console, fitted: Fitted, out: Path) -> Path | None:
    """Make the report of a fit that has rows held out; None where there are none, or it fails, which is said."""
    rows = fitted.rows
    if rows is None or not fitted.scores:
        console.note("no report: it is about rows that were held out, and none are scored")
        return None
    try:
        return _made(console, fitted, rows, out)
    except Exception as error:  # the model and its scores are worth more than a page about them
        console.trace()
        console.warn(f"no report, but the model is saved: {type(error).__name__} {error} (--debug shows where)")
        return None


def _made(console: Console, fitted: Fitted, rows: tuple[Any, Any, Any, Any], out: Path) -> Path:
    left_out = (*KEPT_OUT, "seed")  # which the page tells by itself
    kept = {name: value for name, value in fitted.settings.items() if name not in left_out and value not in _UNSET}
    file = Path(fitted.settings["file"]).name
    with console.at_work():
        results = gather(
            fitted.model,
            *rows,
            baselines=fitted.baselines,
            settings=plain({**kept, "command": f"stratagp fit --config {out / SETTINGS} --out {out}-again"}),
            assumptions=fitted.assumed,
            title=f"{fitted.settings['target']}, learnt from {'standard input' if file == '-' else file}",
            seed=fitted.settings["seed"],
        )
    if fitted.counts is not None:
        results["data"]["rows"], results["data"]["test_rows"] = fitted.counts
        results["performance"]["of"] = fitted.counts[1]
    (out / RESULTS).write_text(json.dumps(results, ensure_ascii=False) + "\n", "utf-8")
    return write_report(results, out / REPORT)


def _words(fitted: Fitted, out: Path) -> str:
    lines = []
    if fitted.scores:
        lines.append(as_table({f"StrataGP, {fitted.choice.model}": fitted.scores, **fitted.baselines}))
    return "\n".join([*lines, f"model: {out}"])
