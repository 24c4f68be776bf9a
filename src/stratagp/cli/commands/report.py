"""``stratagp report``: the report about a model, from what its fit stored or from other rows."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Any

import click

import stratagp
from stratagp.cli.commands.evaluate import known_rows
from stratagp.cli.model_folder import REPORT, RESULTS, open_model, read_table_file
from stratagp.cli.output import Console
from stratagp.cli.program import declared
from stratagp.cli.table import Format, format_options, shown_name
from stratagp.errors import InputError, ModelFileError

_OF_THE_FIT = ("model", "data", "effects")  # parts of the results that are about training rows


@declared("report")
@click.argument("model", metavar="MODEL")
@click.option("--data", metavar="FILE", help="Rows to judge the model by, instead of those that the fit held out.")
@click.option("--out", "-o", metavar="FILE", help="The HTML file; report.html beside the model if left out.")
@click.option("--drop-missing", is_flag=True,
              help="Leave out rows of --data without a target, and rows that the model cannot predict.")  # fmt: skip
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@format_options
def command(
    console: Console, model: str, data: str | None, out: str | None, open_it: bool, drop_missing: bool, **form: Any
) -> None:
    """Write the report about a model again, or about other rows.

    It is one HTML file that needs no network: how good the model is, whether its error bars hold, what
    drives predictions, and the worst cases.
    """
    folder = Path(model)
    results = _stored(folder) if data is None else judged(console, model, data, drop_missing, Format.of(form))
    path = Path(out) if out else folder / REPORT
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out: the folder {path.parent} does not exist")
    stratagp.report.write_report(results, path)
    if open_it:
        webbrowser.open(path.absolute().as_uri())
    console.result(f"report: {path}", {"report": str(path)})


def _stored(folder: Path) -> dict[str, Any]:
    """The results that the fit stored."""
    read_table_file(folder)
    if (found := _left(folder)) is None:
        raise InputError(
            f"{folder} has no {RESULTS}, since its fit wrote no report or held out no rows: give rows with --data"
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
        raise ModelFileError(f"{path} is damaged: a fit writes something else; fit the model again")
    return found


def judged(console: Console, model: str, data: str, drop_missing: bool, form: Format) -> dict[str, Any]:
    """Results about other rows; those about training rows are what the fit stored."""
    learnt, stored = open_model(model), _left(Path(model))
    X, y = known_rows(learnt, data, form, drop_missing, console)
    assumed = [*learnt.about.get("assumptions", []), f"judged by the rows of {shown_name(data)}"]
    if stored is None:
        assumed.append("the fit stored no summary of its rows: data summary and effects are about these rows instead")
    with console.at_work():
        results = stratagp.report.gather(
            learnt.model,
            *(X, y, X, y),
            baselines={},
            settings={"model": model, "data": data, "target": learnt.target},
            assumptions=assumed,
            title=f"{learnt.target}, judged by {Path(shown_name(data)).name}",
            seed=0,
        )
    results |= {} if stored is None else {part: stored[part] for part in _OF_THE_FIT}
    results["data"]["test_rows"] = results["performance"]["of"]
    return results
