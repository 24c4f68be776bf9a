"""The folder of a model: what ``fit`` writes beside the files of the model itself, and other commands read.

``table.json`` has the columns, the task and the scores; ``settings.toml`` repeats the fit; ``report.html`` is the
report, made from ``results.json``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import stratagp
from stratagp.cli.models import Choice
from stratagp.cli.output import Console, plain
from stratagp.cli.scores import Scores, as_table
from stratagp.cli.settings import Settings
from stratagp.cli.table import KINDS, WRITTEN, DataFrame, Format, Series, TableFile, inputs, pick, shown_name
from stratagp.cli.target import TASKS, targets
from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.files import describe, is_model

TABLE, SETTINGS, RESULTS, REPORT = "table.json", "settings.toml", "results.json", "report.html"
_COLUMN = {"name": str, "kind": str, "distinct": int, "missing": int}
_TRUTHS = {"True", "False"}
Inputs: TypeAlias = DataFrame | Series
"""A frame, or the column of texts if that is all a model sees."""


@dataclass(frozen=True)
class Fitted:
    """A fitted model and all that is known about it.

    Arguments:
        model: the estimator.
        choice: which model it is, and why.
        columns: what the table has besides the target.
        assumed: what was assumed about the data, in sentences.
        rows: ``X, y, X_test, y_test`` as the estimator takes them, or a sample of those in files; None without a test.
        scores: on held-out rows; empty if there are none.
        baselines: scores of other predictors on the same rows.
        settings: the options that repeat the fit.
        seconds: how long the fit took.
        counts: numbers of training and test rows, where ``rows`` is a sample.
        written: whether classes are texts, as the file writes them.
    """

    model: Any
    choice: Choice
    task: str
    columns: list[stratagp.data.Field]
    assumed: list[str]
    rows: tuple[Any, Any, Any, Any] | None
    scores: Scores
    baselines: dict[str, Scores]
    settings: Settings
    seconds: float
    counts: tuple[int, int] | None = None
    written: bool = False

    def save(self, out: Path, console: Console) -> None:
        """Write the folder and print the result; scores come first, since the report takes a while."""
        self.model.save(out, overwrite=self.settings.overwrite)
        about, settings = self._about(), self.settings
        text = self.choice.texts[0] if self.choice.alone else None
        content: dict[str, Any] = {"target": settings.target, "task": self.task, "text": text, "written": self.written}
        content |= {"columns": [asdict(each) for each in self.columns], "about": about}
        (out / TABLE).write_text(json.dumps(plain(content), indent=1, ensure_ascii=False) + "\n", "utf-8")
        here = settings.file != "-" and "://" not in settings.file
        repeat = replace(settings, file=str(Path(settings.file).absolute())) if here else settings
        (out / SETTINGS).write_text(repeat.as_toml(), "utf-8")
        for name in (RESULTS, REPORT):  # of an earlier model
            (out / name).unlink(missing_ok=True)
        scores = {f"StrataGP, {self.choice.model}": self.scores, **self.baselines}
        if not console.as_json:  # which comes as one object, at the end
            console.result("\n".join([*([as_table(scores)] if self.scores else []), f"model: {out}"]), {})
        report = self._report(out, console) if settings.report else None
        console.result(f"report: {report}" if report else "", {**about, "out": str(out), "report": report})

    def _about(self) -> dict[str, Any]:
        counts = self.counts or (self.rows and (len(self.rows[1]), len(self.rows[3])))
        return {
            "task": self.task,
            "model": self.choice.model,
            "reason": self.choice.reason,
            "seconds": round(self.seconds, 3),
            "rows": counts and dict(zip(("train", "test"), counts, strict=True)),
            "metrics": self.scores,
            "baselines": self.baselines,
            "assumptions": self.assumed,
        }

    def _report(self, out: Path, console: Console) -> str | None:
        """Write the report about held-out rows; None, and a remark or warning, if there are none or it fails."""
        if self.rows is None or not self.scores:
            console.note("no report: it needs held-out rows with scores, and there are none")
            return None
        kept = {
            name: value for name, value in self.settings.kept().items() if name != "seed"
        }  # which the report shows by itself
        try:
            with console.at_work():
                results = stratagp.report.gather(
                    self.model,
                    *self.rows,
                    baselines=self.baselines,
                    settings=plain({**kept, "command": f"stratagp fit --config {out / SETTINGS} --out {out}-again"}),
                    assumptions=self.assumed,
                    title=f"{self.settings.target}, learnt from {Path(shown_name(self.settings.file)).name}",
                    seed=self.settings.seed,
                )
            if results["model"]["reason"] is not None:
                results["model"]["reason"] = self.choice.reason  # the model only knows that it was asked for
            if self.counts is not None:
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
    """

    model: Any
    target: str
    task: str
    schema: stratagp.data.Schema
    text: str | None
    about: dict[str, Any]
    written: bool = False

    def rows(self, file: str, form: Format, console: Console) -> tuple[Inputs, DataFrame]:
        """The inputs in a file, and the table itself."""
        texts = [each.name for each in self.schema.fields if each.kind in WRITTEN or each.written]
        frame = TableFile(file, form).read([*texts, self.target] if self.written else texts)
        return self.inputs(frame, shown_name(file), console), frame

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
    table, model = read_table_file(Path(folder)), stratagp.load(folder)
    schema = stratagp.data.Schema([stratagp.data.Field(**each) for each in table["columns"]], table["categories"])
    return Learnt(model, table["target"], table["task"], schema, table["text"], table["about"], table["written"])


def read_table_file(folder: Path) -> dict[str, Any]:
    """What the model in a folder was fitted on, from ``table.json``."""
    known = describe(folder)["categories"]  # which explains what is wrong with a folder that holds no model
    path = folder / TABLE
    try:
        found = json.loads(path.read_text("utf-8"))
        _check(found)
        more = {"categories": known, "written": bool(found.get("written")), "about": dict(found["about"])}
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
