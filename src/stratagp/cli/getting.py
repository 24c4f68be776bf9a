"""``stratagp data get``: a data set as a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn import datasets

from stratagp.cli.console import Console
from stratagp.cli.listing import BUNDLED, local_files, shipped
from stratagp.cli.reading import Format, read_table
from stratagp.errors import InputError


def run(console: Console, name: str, out: str | None, overwrite: bool) -> None:
    """Write a data set that is here, or fetch it."""
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


def _found(name: str) -> Any:
    if name == "diabetes":
        return shipped()
    if name in BUNDLED:
        return getattr(datasets, f"load_{name}")(as_frame=True).frame
    here = local_files()
    if name in here:
        return read_table(str(here[name]), Format())
    try:
        return datasets.fetch_openml(name, as_frame=True, parser="auto").frame
    except Exception as error:  # of the network, or of OpenML
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name!r} is not in `stratagp data list`, and OpenML did not give it: {reason}") from None
