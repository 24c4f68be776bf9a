"""``stratagp data``: data sets that need no network, listed, or written as a CSV file."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

import click

from stratagp.cli.output import Console, aligned
from stratagp.cli.program import declared
from stratagp.cli.table import DataFrame, Format, TableFile, pandas
from stratagp.errors import InputError

_SHIPPED = "442 patients, 10 measurements; predict progression"
_BUNDLED = {
    "breast_cancer": "569 tumours of two kinds, 30 measurements; predict target",
    "digits": "1797 images of digits, 8 × 8; predict target",
    "iris": "150 flowers of three kinds, 4 measurements; predict target",
    "wine": "178 wines of three kinds, 13 measurements; predict target",
}
_FILES = ("*.csv", "*.tsv", "*.parquet", "*.csv.gz")


@click.group("data")
def command() -> None:
    """List data sets, or write one as a CSV file."""


@declared("list")
def _list(console: Console) -> None:
    """List data sets that need no network.

    They come with StrataGP or scikit-learn, or lie in the folder that STRATAGP_DATA names.
    """
    rows = [["diabetes", "with StrataGP", _SHIPPED]]
    rows += [[name, "with scikit-learn", text] for name, text in _BUNDLED.items()]
    rows += [[name, "STRATAGP_DATA", str(path)] for name, path in _local_files().items()]
    names = [{"name": name, "where": where, "about": about} for name, where, about in rows]
    console.result(aligned(rows), {"data": names})


@declared("get")
@click.argument("name", metavar="NAME")
@click.option("--out", "-o", metavar="FILE", help="The CSV file to write; NAME.csv if left out.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is already there.")
def _get(console: Console, name: str, out: str | None, overwrite: bool) -> None:
    """Write a data set as a CSV file.

    NAME is in the list of `stratagp data list`, or is a data set of OpenML, which needs a network.
    """
    path = Path(out or f"{Path(name).name}.csv")
    if path.exists() and not overwrite:
        raise InputError(f"--out: {path} already exists: give another name, or add --overwrite")
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


def _found(name: str) -> DataFrame:
    from sklearn import datasets

    if name == "diabetes":
        with resources.as_file(resources.files("stratagp") / "examples" / "diabetes.csv") as path:
            return pandas().read_csv(path)
    if name in _BUNDLED:
        return vars(datasets)[f"load_{name}"](as_frame=True).frame
    here = _local_files()
    if name in here:
        return TableFile(str(here[name]), Format()).read()
    try:
        return datasets.fetch_openml(name, as_frame=True, parser="auto").frame
    except Exception as error:  # from the network, or from OpenML
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{name!r} is not in `stratagp data list`, and could not be read from OpenML: {reason}"
        ) from None


def _local_files() -> dict[str, Path]:
    """Tables below ``STRATAGP_DATA``, by their paths without extensions."""
    root = os.environ.get("STRATAGP_DATA")
    if not root or not Path(root).is_dir():
        return {}
    found = sorted(path for pattern in _FILES for path in Path(root).rglob(pattern))
    return {str(path.relative_to(root).with_name(path.name.partition(".")[0])): path for path in found}
