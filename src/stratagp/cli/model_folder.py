"""The folder of a model: what ``fit`` writes beside the files of the model itself, and other commands read.

``table.json`` has the columns, the task and the scores; ``settings.toml`` repeats the fit; ``report.html`` is the
report, made from ``results.json``.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

import stratagp
from stratagp.cli.learnt_values import learnt_by
from stratagp.cli.models import Choice
from stratagp.cli.output import Console, plain
from stratagp.cli.quick_start import quick_start
from stratagp.cli.scores import Gains, Scores, as_table
from stratagp.cli.settings import Settings
from stratagp.cli.table import KINDS, WRITTEN, DataFrame, Format, Series, TableFile, inputs, pick, shown_name
from stratagp.cli.target import TASKS, targets
from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.files import describe, is_model

if TYPE_CHECKING:
    from stratagp.report.words import Verdict as Verdict
else:  # loads torch
    Verdict = Any

TABLE, SETTINGS, RESULTS, REPORT = "table.json", "settings.toml", "results.json", "report.html"
_PASSES, _ANSWERS, _LEAST_REPORTED = 4, 20_000, 100  # predictions of a row for a report, and of all others; rows
_COVARIANCES = 8  # times as many of Vecchia's process, whose curves ask for covariances
_COLUMN = {"name": str, "kind": str, "distinct": int, "missing": int}
_TRUTHS = {"True", "False"}
Inputs: TypeAlias = DataFrame | Series
"""A frame, or the column of texts if that is all a model sees."""


class Judge(NamedTuple):
    """A model, and rows with targets that it has not seen, as it takes them."""

    model: Any
    X: Inputs
    y: np.ndarray


@dataclass(frozen=True)
class Fitted:
    """A fitted model and all that is known about it.

    Arguments:
        model: the estimator.
        choice: which model it is, and why.
        columns: what the table has besides the target.
        assumed: what was assumed about the data, in sentences.
        rows: ``X, y`` that the model has learnt from, as the estimator takes them, or a sample of those in files.
        judges: models that have not seen some rows, with these rows, or a sample of those in files.
        scores: of the judges on these rows; empty if there are none.
        baselines: scores of other predictors on the same rows.
        gains: how much less the judges lose than the baselines, row by row.
        farthest: by how many standard deviations their worst prediction of a number is off.
        settings: the options that repeat the fit.
        seconds: how long the fit took.
        said: what was scored and what is saved, in a line.
        hint: what to try where a baseline is better.
        pace: seconds that the prediction of a row takes.
        counts: numbers of rows that the judges have learnt from, and of those they are judged by, in all.
        sampled: whether ``rows`` and those of ``judges`` are samples.
        written: whether classes are texts, as the file writes them.
        stopped: whether somebody ended the fit, so that there is nothing but the model.
    """

    model: Any
    choice: Choice
    task: str
    columns: list[stratagp.data.Field]
    assumed: list[str]
    settings: Settings
    seconds: float
    rows: tuple[Any, Any] | None = None
    judges: Sequence[Judge] = ()
    scores: Scores = field(default_factory=dict)
    baselines: dict[str, Scores] = field(default_factory=dict)
    gains: Gains = field(default_factory=dict)
    farthest: float = 0.0
    said: str = ""
    hint: str = ""
    pace: float = 0.0
    counts: tuple[int, int] | None = None
    sampled: bool = False
    written: bool = False
    stopped: bool = False

    def save(self, out: Path, console: Console, left: float = math.inf) -> None:
        """Write the folder and print the result; scores come first, since the report takes a while.

        Arguments:
            left: seconds for all this; a report that would take longer is about fewer rows, or left out.
        """
        start = time.perf_counter()
        self.model.save(out, overwrite=self.settings.overwrite)
        about, settings = self._about(), self.settings
        text = self.choice.texts[0] if self.choice.alone else None
        content: dict[str, Any] = {"target": settings.target, "task": self.task, "text": text, "written": self.written}
        content |= {"columns": [asdict(each) for each in self.columns], "missing": settings.missing, "about": about}
        (out / TABLE).write_text(json.dumps(plain(content), indent=1, ensure_ascii=False) + "\n", "utf-8")
        here = settings.file != "-" and "://" not in settings.file
        repeat = replace(settings, file=str(Path(settings.file).absolute())) if here else settings
        (out / SETTINGS).write_text(repeat.as_toml(), "utf-8")
        for name in (RESULTS, REPORT):  # of an earlier model
            (out / name).unlink(missing_ok=True)
        if self.stopped:
            return
        scores = {f"StrataGP, {self.choice.model}": self.scores, **self.baselines}
        verdict = self._verdict()
        first = [f"{verdict.sentence} What next: {self.hint}."] if verdict and self.hint and verdict.loses else []
        if not console.as_json:  # which comes as one object, at the end
            table = [as_table(scores)] if self.scores else []
            console.result("\n".join([*first, *table, self.said, f"model: {out}"]), {})
        left -= time.perf_counter() - start
        report = self._report(out, console, verdict, left) if settings.report else None
        about |= {"verdict": verdict and {**verdict._asdict(), "hint": self.hint if first else ""}}
        console.result(f"report: {report}" if report else "", {**about, "out": str(out), "report": report})

    def _verdict(self) -> Verdict | None:
        """Whether the model beats the baselines; None where nothing was compared."""
        if not self.scores or not self.baselines:
            return None
        scores = {name: {"value": value, "error": None} for name, value in self.scores.items()}
        rows = self.counts[1] if self.counts else sum(len(each.y) for each in self.judges)
        evidence = "held-out" if self.settings.folds is None else "cross-validated"
        about: dict[str, Any] = {"evidence": evidence, "rows": rows, "scores": scores, "baselines": self.baselines}
        about["gains"], worst = self.gains, {"rows": [{"off": self.farthest}]}
        return stratagp.report.words.compare({"task": self.task, "performance": about, "worst": worst})

    def _about(self) -> dict[str, Any]:
        counts = None if self.counts is None else dict(zip(("train", "test"), self.counts, strict=True))
        return {
            "task": self.task,
            "model": self.choice.model,
            "reason": self.choice.reason,
            "seconds": round(self.seconds, 3),
            "rows": counts
            and {**counts, "saved": counts["train"] if self.sampled or not self.rows else len(self.rows[1])},
            "said": self.said,
            "metrics": self.scores,
            "baselines": self.baselines,
            "assumptions": self.assumed,
            "learnt": self._learnt(),
        }

    def _learnt(self) -> dict[str, Any]:
        try:
            return learnt_by(self.model)
        except Exception as error:  # the model is worth more than a look at it
            return {"failed": f"{type(error).__name__} {error}"}

    @property
    def _answers(self) -> int:
        """How many predictions a report asks for besides those of the rows it is about."""
        return _ANSWERS * (_COVARIANCES if self.choice.model == "vecchia" else 1)

    def _in_time(self, left: float) -> list[Judge] | None:
        """Judges of as many rows as a report can be about in the time that is left; None if there are too few."""
        able, count = left / max(self.pace, 1e-9) - self._answers, sum(len(each.y) for each in self.judges)
        share = min(1.0, able / (_PASSES * min(count, 20_000)))
        if share * count < min(count, _LEAST_REPORTED):
            return None
        firsts = [max(1, int(share * len(each.y))) for each in self.judges]  # which are in a random order
        return [Judge(model, X.iloc[:n], y[:n]) for (model, X, y), n in zip(self.judges, firsts, strict=True)]

    def _report(self, out: Path, console: Console, verdict: Verdict | None, left: float) -> str | None:
        """Write the report about held-out rows; None, and a remark or warning, if there are none or it fails."""
        if self.rows is None or not self.scores:
            console.note("no report: it needs held-out rows with scores, and there are none")
            return None
        if (judges := self._in_time(left)) is None:
            console.warn("no time was left for the report: stratagp report --data with rows to judge by writes one")
            return None
        rows = sum(len(each.y) for each in judges)
        console.stage(f"report about {rows:,} rows", self.pace * (_PASSES * min(rows, 20_000) + self._answers))
        kept = {
            name: value for name, value in self.settings.kept().items() if name != "seed"
        }  # which the report shows by itself
        try:
            with console.at_work():
                results = stratagp.report.gather(
                    self.model,
                    *self.rows,
                    None,
                    None,
                    judges=judges,
                    baselines=self.baselines,
                    settings=plain({**kept, "command": f"stratagp fit --config {out / SETTINGS} --out {out}-again"}),
                    assumptions=self.assumed,
                    title=f"{self.settings.target}, learnt from {Path(shown_name(self.settings.file)).name}",
                    seed=self.settings.seed,
                )
            if results["model"]["reason"] is not None:
                results["model"]["reason"] = self.choice.reason  # the model only knows that it was asked for
            among = self.counts is not None and not self.sampled and len(self.rows[1]) > self.counts[0]
            results["performance"] |= {"said": self.said, "verdict": verdict and list(verdict), "among": among}
            if self.counts is not None and self.sampled:
                results["data"]["rows"], results["data"]["test_rows"] = self.counts
                results["performance"]["of"] = self.counts[1]
            (out / RESULTS).write_text(json.dumps(results, ensure_ascii=False) + "\n", "utf-8")
            return str(stratagp.report.write_report(results, out / REPORT))
        except Exception as error:  # the model and its scores are worth more than the report
            console.trace()
            console.warn(
                f"the report failed, but the model is saved: {type(error).__name__} {error} (--debug shows where)"
            )
            return None


@dataclass(frozen=True)
class Learnt:
    """A model from its folder, and what it was fitted on.

    Arguments:
        model: the estimator.
        target: the column that it predicts.
        task: "regression" or "classification".
        schema: the other columns, and the categories that the model knows.
        text: the column of texts, if that is all it sees; else None.
        about: the scores, why the model was chosen, and so on.
        written: whether classes are texts, as the file writes them, and not whole numbers.
        missing: the texts that the fit took for missing values.
    """

    model: Any
    target: str
    task: str
    schema: stratagp.data.Schema
    text: str | None
    about: dict[str, Any]
    written: bool = False
    missing: tuple[str, ...] = ()

    def rows(
        self, file: str, form: Format, console: Console, keep: Sequence[str] = ()
    ) -> tuple[Inputs, DataFrame, DataFrame]:
        """The inputs in a file, the table itself, and the columns to keep as the file writes them."""
        table, name = TableFile(file, form._replace(missing=form.missing + self.missing)), shown_name(file)
        texts = [each.name for each in self.schema.fields if each.kind in WRITTEN or each.written]
        frame = table.read([*texts, self.target] if self.written else texts)
        picked = [pick(frame, each, name) for each in keep]
        known = {each.name for each in self.schema.fields}
        X = self.inputs(frame.drop(columns=[each for each in keep if each not in known]), name, console)
        return X, frame, table.as_written(frame, keep)[[each.name for each in picked]]

    def inputs(self, frame: DataFrame, name: str, console: Console) -> Inputs:
        """The inputs in a table that has been read."""
        X = inputs(frame, self.schema, name, console, self.target)
        for column, known in self.schema.categories.items():
            if column in X and set(known) <= _TRUTHS:  # from a Parquet file, or from batches
                X[column] = X[column].map(_as_truth, na_action="ignore")
        return X[self.text] if self.text else X

    def as_learnt(self, X: Inputs) -> Inputs:
        """Inputs with categories as the model knows them: truth values, for example, if it learnt from batches."""
        encoder = self.model.inputs_.encoder
        for name, known in ({} if self.text or encoder is None else encoder.categories).items():
            if not all(isinstance(each, str) for each in known):
                X = X.assign(**{name: X[name].map({str(each): each for each in known}).astype(object)})
        return X

    def taken(self, X: Inputs) -> DataFrame | list[str]:
        """Inputs as the model takes them: a frame, or a list of texts."""
        return X.tolist() if self.text else X

    def refused(self, X: Inputs) -> stratagp.data.Refused:
        """The rows that the model cannot predict."""
        fills = self.model.get_params().get("missing") == "impute"
        return self.schema.refused(X.to_frame() if self.text else X, fills)

    def targets(self, frame: DataFrame, name: str) -> Series:
        """The targets in a table."""
        return pick(frame, self.target, name)

    def known(self, values: Series, name: str) -> np.ndarray:
        """Targets without gaps as the model learnt them; a truth value of the file may be a text to the model."""
        if self.task != "classification":
            if values.dtype.kind not in "iufb":
                raise InputError(
                    f"{name}: the target {self.target!r} holds {values.iloc[0]!r}, but the model predicts numbers"
                )
            return values.to_numpy(dtype=float)
        y, classes = targets(values, self.task).tolist(), self.model.classes_.tolist()
        known = {str(each): each for each in classes} | {each: each for each in classes}
        unknown = sorted({each for each in y if each not in known and str(each) not in known})
        if unknown:
            what = f"the target {self.target!r} has the class {unknown[0]!r}, which the model does not know"
            raise InputError(f"{name}: {what}")
        return np.asarray([known.get(each, known.get(str(each))) for each in y], dtype=self.model.classes_.dtype)


def _as_truth(text: str) -> str:
    """True or False as Python writes it, whatever the case of the letters; other texts as they are."""
    return text.capitalize() if text.capitalize() in _TRUTHS else text


def open_model(folder: str) -> Learnt:
    """The model in a folder, and what it was fitted on."""
    table = read_table_file(Path(folder))
    with quick_start():
        model = stratagp.load(folder)
    schema = stratagp.data.Schema([stratagp.data.Field(**each) for each in table["columns"]], table["categories"])
    own = {name: table[name] for name in ("target", "task", "text", "about", "written", "missing")}
    return Learnt(model, schema=schema, **own)


def read_table_file(folder: Path) -> dict[str, Any]:
    """What the model in a folder was fitted on, from ``table.json``."""
    known = describe(folder)["categories"]  # which explains what is wrong with a folder that holds no model
    path = folder / TABLE
    try:
        found = json.loads(path.read_text("utf-8"))
        _check(found)
        more = {"categories": known, "written": bool(found.get("written")), "about": dict(found["about"])}
        more["missing"] = tuple(map(str, found.get("missing", ())))
        return {**found, "target": str(found["target"]), **more}
    except FileNotFoundError:
        raise InputError(
            f"{folder} has no {TABLE}: the model was saved from Python; load it there with stratagp.load"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged: {type(error).__name__} {error}") from None


def _check(found: Mapping[str, Any]) -> None:
    """Refuse what no fit would write."""
    for each in found["columns"]:
        right = all(isinstance(each[name], kind) for name, kind in _COLUMN.items()) and each["kind"] in KINDS
        if not right or set(each) - {*_COLUMN, "remark", "written"}:
            raise ValueError(f"a column needs a name and a kind, one of {', '.join(KINDS)}")
    if found["task"] not in TASKS:
        raise ValueError(f"the task is {found['task']!r}")
    if found["text"] is not None and found["text"] not in [each["name"] for each in found["columns"]]:
        raise ValueError(f"there is no column {found['text']!r} of texts")


def check_out(folder: Path, overwrite: bool) -> None:
    """Refuse, before any work, a folder that cannot be written, or where something would be lost."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        shown = folder if there == folder.absolute() else there
        raise InputError(f"--out: {shown} is a file: give a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--out: the folder {there} is not writable: give another")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not is_model(folder):
        raise InputError(f"--out: the folder {folder} holds other files: give another")
    if not overwrite:
        raise InputError(f"--out: the folder {folder} already holds a model: give another, or add --overwrite")
