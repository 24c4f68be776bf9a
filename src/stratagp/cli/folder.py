"""The folder of a model: what ``fit`` writes beside the files of the model itself, and the other commands read.

``table.json`` says what the columns hold, the task and the scores; ``settings.toml`` repeats the fit; ``results.json``
is what the report is made of, and ``report.html`` the report.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stratagp import persistence
from stratagp.cli.answering import Refused, refused
from stratagp.cli.columns import WRITTEN, Column, as_dicts, as_labels, inputs
from stratagp.cli.commands import KINDS, TASKS
from stratagp.cli.console import Console, plain
from stratagp.cli.reading import Format, pick, read_table
from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.config import describe, is_model

TABLE, SETTINGS, RESULTS, REPORT = "table.json", "settings.toml", "results.json", "report.html"
_TRUTHS = {"True", "False"}


@dataclass(frozen=True)
class Table:
    """What a model was fitted on.

    Arguments:
        target: the column that it predicts.
        task: "regression" or "classification".
        columns: the others.
        text: the column of text that is all it sees, or None.
        about: what people may want to know: the scores, why the model was chosen.
        categories: what columns of categories may hold, as the model has learnt it.
        written: whether classes are the letters of the file, and not whole numbers.
    """

    target: str
    task: str
    columns: list[Column]
    text: str | None
    about: dict[str, Any]
    categories: dict[str, list[str]] = field(default_factory=dict)
    written: bool = False

    def write(self, folder: Path) -> None:
        """Write it beside the model."""
        content: dict[str, Any] = {"target": self.target, "task": self.task, "text": self.text, "written": self.written}
        content |= {"columns": as_dicts(self.columns), "about": self.about}
        text = json.dumps(plain(content), indent=1, ensure_ascii=False)
        (folder / TABLE).write_text(text + "\n", "utf-8")

    def rows(self, file: str, form: Format, console: Console) -> tuple[Any, Any]:
        """The inputs of a file, a frame or the column of texts that is all the model sees, and the table itself."""
        texts = [each.name for each in self.columns if each.kind in WRITTEN]
        texts += [self.target] if self.written else []
        frame = read_table(file, form, texts)
        return self.inputs(frame, "standard input" if file == "-" else file, console), frame

    def inputs(self, frame: Any, name: str, console: Console) -> Any:
        """The inputs of a table that has been read."""
        X = inputs(frame, self.columns, name, console, self.target)
        for column, known in self.categories.items():
            if column in X and set(known) <= _TRUTHS:  # learnt from a table that is no text, or in batches
                X[column] = X[column].map(_as_truth, na_action="ignore")
        return X[self.text] if self.text else X

    def taken(self, X: Any) -> Any:
        """Inputs as the model takes them: a frame, or a list of texts."""
        return X.tolist() if self.text else X

    def as_learnt(self, X: Any, estimator: Any) -> Any:
        """Inputs with categories as the model has them: truth values, say, where it learnt in batches."""
        encoder = getattr(getattr(estimator, "inputs_", None), "encoder", None)
        for name, known in ({} if self.text or encoder is None else encoder.categories).items():
            if not all(isinstance(each, str) for each in known):
                X = X.assign(**{name: X[name].map({str(each): each for each in known}).astype(object)})
        return X

    def refused(self, X: Any, estimator: Any) -> Refused:
        """The rows that the model has no answer for."""
        return refused(
            X.to_frame() if self.text else X, self.categories, getattr(estimator, "missing", None) == "impute"
        )

    def targets(self, frame: Any, name: str) -> Any:
        """The column of targets of a table."""
        return pick(frame, self.target, name)

    def known(self, values: Any, name: str) -> np.ndarray:
        """Targets without gaps as the model was given them."""
        if self.task == "classification":
            return as_labels(values)
        if getattr(values.dtype, "kind", "O") not in "iufb":
            raise InputError(f"{name}: the target {self.target!r} holds {values.iloc[0]!r}, where a number is meant")
        return values.to_numpy(dtype=float)


def _as_truth(text: str) -> str:
    """A truth value as Python writes it, however the file does."""
    return text.capitalize() if text.capitalize() in _TRUTHS else text


def open_model(folder: str) -> tuple[Any, Table]:
    """The model in a folder, and what it was fitted on."""
    table = read_table_file(Path(folder))
    return persistence.load(folder), table


def read_table_file(folder: Path) -> Table:
    """What the model in a folder was fitted on."""
    known = describe(folder)["categories"]  # which says what is wrong with a folder that is no model
    path = folder / TABLE
    try:
        found = json.loads(path.read_text("utf-8"))
        columns = [Column(**each) for each in found["columns"]]
        said = str(found["target"]), found["task"], columns, found["text"], dict(found["about"])
        table = Table(*said, known, bool(found.get("written")))
        _check(table)
        return table
    except FileNotFoundError:
        raise InputError(f"{folder} has no {TABLE}: it was saved from Python; load it there by stratagp.load") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged: {type(error).__name__} {error}") from None


def _check(table: Table) -> None:
    """Refuse what no fit writes."""
    names = [each.name for each in table.columns]
    if table.task not in TASKS:
        raise ValueError(f"the task is {table.task!r}")
    if not all(isinstance(each.name, str) and each.kind in KINDS for each in table.columns):
        raise ValueError(f"columns have names and one of the kinds {', '.join(KINDS)}")
    if table.text is not None and table.text not in names:
        raise ValueError(f"there is no column {table.text!r} of texts")


def check_out(folder: Path, overwrite: bool) -> None:
    """Refuse, before any work, to write where something would be lost, or where nothing can be written."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        shown = folder if there == folder.absolute() else there
        raise InputError(f"--out: {shown} is a file: give the name of a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--out: nothing can be written to the folder {there}: give another")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not is_model(folder):
        raise InputError(f"--out: the folder {folder} holds something that is no model: give another")
    if not overwrite:
        raise InputError(f"--out: the folder {folder} holds a model: give another, or --overwrite replaces it")
