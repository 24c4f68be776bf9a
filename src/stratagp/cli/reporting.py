"""``stratagp report``: the page about a model, from what the fit has left or from other rows."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Any

from stratagp.cli.console import Console
from stratagp.cli.evaluating import known_rows
from stratagp.cli.folder import REPORT, RESULTS, open_model, read_table_file
from stratagp.cli.reading import Format
from stratagp.errors import InputError, ModelFileError
from stratagp.report import gather, write_report

_OF_THE_FIT = ("model", "data", "effects")  # parts of the results that are about the rows trained on


def run(
    console: Console, model: str, data: str | None, out: str | None, open_it: bool, drop_missing: bool, **reading: Any
) -> None:
    """Write the page, and show it where that is asked for."""
    folder = Path(model)
    results = _stored(folder) if data is None else _of(console, model, data, drop_missing, Format.of(reading))
    path = Path(out) if out else folder / REPORT
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out: the folder {path.parent} does not exist")
    write_report(results, path)
    if open_it:
        webbrowser.open(path.absolute().as_uri())
    console.result(f"report: {path}", {"report": str(path)})


def _stored(folder: Path) -> dict[str, Any]:
    """What the fit has left."""
    read_table_file(folder)
    if (found := _left(folder)) is None:
        raise InputError(
            f"{folder} has no {RESULTS}, as its fit wrote no report or held no rows out: --data gives rows"
        )
    return found


def _left(folder: Path) -> dict[str, Any] | None:
    path = folder / RESULTS
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), dict) for name in (*_OF_THE_FIT, "repeat")):
        raise ModelFileError(f"{path} is damaged: it is not what a fit writes; fit the model again")
    return found


def _of(console: Console, model: str, data: str, drop_missing: bool, form: Format) -> dict[str, Any]:
    """What a model says about other rows; what is about those it was trained on is what the fit has left."""
    estimator, table = open_model(model)
    left = _left(Path(model))
    X, y = known_rows(estimator, table, data, form, drop_missing, console)
    name = "standard input" if data == "-" else data
    said = [*table.about.get("assumptions", []), f"judged by the rows of {name}"]
    if left is None:
        said.append("the fit left no summary of its rows: that of the data and effects are of the rows judged by")
    with console.at_work():
        results = gather(
            estimator,
            X,
            y,
            X,
            y,
            baselines={},
            settings={"model": model, "data": data, "target": table.target},
            assumptions=said,
            title=f"{table.target}, judged by {Path(name).name}",
            seed=0,
        )
    results |= {} if left is None else {part: left[part] for part in _OF_THE_FIT}
    results["data"]["test_rows"] = results["performance"]["of"]
    return results
