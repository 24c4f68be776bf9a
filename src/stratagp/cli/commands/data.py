"""``stratagp data``: data sets that need no network, listed, or written as a CSV file."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

import click

from stratagp.cli.output import Console, aligned
from stratagp.cli.program import declared
from stratagp.cli.table import Format, TableFile, pandas
from stratagp.errors import InputError

_SHIPPED = "disease of 442 patients by 10 measurements; progression"
_BUNDLED = {
    "breast_cancer": "classes of 569 tumours by 30 measurements; target",
    "digits": "1797 images of digits, 8 × 8; target",
    "iris": "three kinds of 150 flowers by 4 measurements; target",
    "wine": "three kinds of 178 wines by 13 measurements; target",
}
_FILES = ("*.csv", "*.tsv", "*.parquet", "*.csv.gz")


@click.group("data")
def command() -> None:
    """List data sets, or write one as a CSV file."""


@declared("list")
def _list(console: Console) -> None:
    """List data sets that need no network.

    These are scikit-learn's own, and those under the folder that STRATAGP_DATA names.
    """
    rows = [["diabetes", "with StrataGP", _SHIPPED]]
    rows += [[name, "with scikit-learn", text] for name, text in _BUNDLED.items()]
    rows += [[name, "STRATAGP_DATA", str(path)] for name, path in _local_files().items()]
    names = [{"name": name, "where": where, "about": about} for name, where, about in rows]
    console.result(aligned(rows), {"data": names})


@declared("get")
@click.argument("name", metavar="NAME")
@click.option("--out", "-o", metavar="FILE", help="The CSV file to write; NAME.csv if left out.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
def _get(console: Console, name: str, out: str | None, overwrite: bool) -> None:
    """Write a data set as a CSV file.

    NAME is one of the list, or a data set of OpenML where there is a network.
    """
    path = Path(out or f"{Path(name).name}.csv")
    if path.exists() and not overwrite:
        raise InputError(f"--out: {path} is there already: give another name, or --overwrite replaces it")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out: the folder {path.parent} does not exist")
    with console.at_work():
        frame = _found(name)
    frame.to_csv(path, index=False)
    rows, columns = frame.shape
    target = str(frame.columns[-1])
    text = f"{rows} rows, {columns} columns: {path}\nstratagp fit {path} --target {target}"
    console.result(text, {"out": str(path), "rows": rows, "columns": list(map(str, frame.columns))})


command.add_command(_list)
command.add_command(_get)


def _found(name: str) -> Any:
    from sklearn import datasets

    if name == "diabetes":
        with resources.as_file(resources.files("stratagp") / "examples" / "diabetes.csv") as path:
            return pandas().read_csv(path)
    if name in _BUNDLED:
        return getattr(datasets, f"load_{name}")(as_frame=True).frame
    here = _local_files()
    if name in here:
        return TableFile(str(here[name]), Format()).read()
    try:
        return datasets.fetch_openml(name, as_frame=True, parser="auto").frame
    except Exception as error:  # of the network, or of OpenML
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name!r} is not in `stratagp data list`, and OpenML did not give it: {reason}") from None


def _local_files() -> dict[str, Path]:
    """Tables under ``STRATAGP_DATA`` by their paths without endings."""
    root = os.environ.get("STRATAGP_DATA")
    if not root or not Path(root).is_dir():
        return {}
    found = sorted(path for pattern in _FILES for path in Path(root).rglob(pattern))
    return {str(path.relative_to(root).with_name(path.name.partition(".")[0])): path for path in found}
