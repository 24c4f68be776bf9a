"""``stratagp info``: what a saved model is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stratagp.cli.learnt_values import in_words
from stratagp.cli.model_folder import TABLE, read_table_file
from stratagp.cli.output import Console, aligned, harmless
from stratagp.cli.program import declared
from stratagp.cli.scores import as_table
from stratagp.errors import ModelFileError
from stratagp.persistence.files import describe


@declared("info")
@click.argument("model", metavar="MODEL")
def command(console: Console, model: str) -> None:
    """Show what a saved model is, without loading it."""
    folder = Path(model)
    about = describe(folder)
    table = read_table_file(folder) if (folder / TABLE).exists() else None
    data = {"class": about.get("class"), "description": about}
    if table is not None:
        data |= {"task": table["task"], "target": table["target"], **table["about"]}
    try:
        text = _words(about, table)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{folder} is damaged: its description is not one that fit writes ({type(error).__name__} {error})"
        ) from None
    console.result(harmless(text), data)


def _words(about: dict[str, Any], table: dict[str, Any] | None) -> str:
    usual = "several, mixed" if str(about.get("class")).startswith("Strata") else "mini-batches"
    rows = [["class", str(about.get("class"))], ["inference", str(about.get("inference") or usual)]]
    rows += [] if table is None else _of_table(table)
    rows += [["classes", ", ".join(map(str, about["classes"]))]] if about.get("classes") else []
    rows += [["size", f"{_bytes(about.get('bytes') or 0)} of tensors"]]
    rows += [["versions", ", ".join(f"{name} {number}" for name, number in about["library"].items())]]
    lines = [aligned([[" ".join(each.split()) for each in row] for row in rows])]
    if table is not None and (found := table["about"].get("metrics")):
        every = {"held-out rows": found, **table["about"].get("baselines", {})}
        nan = float("nan")
        scores = {
            who: {name: nan if value is None else value for name, value in own.items()} for who, own in every.items()
        }
        lines += ["", as_table(scores)]
    return "\n".join(lines)


def _of_table(table: dict[str, Any]) -> list[list[str]]:
    used = ", ".join(f"{each['name']} ({each['kind']})" for each in table["columns"] if each["kind"] != "ignore")
    rows = [["task", table["task"]], ["target", table["target"]], ["inputs", used]]
    rows += [["chosen", f"{table['about'].get('model')}: {table['about'].get('reason')}"]]
    if counts := table["about"].get("rows"):
        rows += [["rows", f"{counts['train']:,} trained on, {counts['test']:,} held out"]]
    rows += [["tested", table["about"]["said"]]] if table["about"].get("said") else []
    return rows + in_words(table["about"].get("learnt", {}))


def _bytes(size: int) -> str:
    """A size in kilobytes or megabytes.

    >>> _bytes(78_248), _bytes(4_750_216)
    ('78.2 kB', '4.8 MB')
    """
    return f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
