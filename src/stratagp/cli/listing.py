"""``stratagp data list``: data sets that need no network."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

from stratagp.cli.console import Console, aligned
from stratagp.cli.reading import pandas

BUNDLED = {
    "breast_cancer": "classes of 569 tumours by 30 measurements; target",
    "digits": "1797 images of digits, 8 × 8; target",
    "iris": "three kinds of 150 flowers by 4 measurements; target",
    "wine": "three kinds of 178 wines by 13 measurements; target",
}
_FILES = ("*.csv", "*.tsv", "*.parquet", "*.csv.gz")


def run(console: Console) -> None:
    """List what is there."""
    rows = [["diabetes", "with StrataGP", "disease of 442 patients by 10 measurements; progression"]]
    rows += [[name, "with scikit-learn", text] for name, text in BUNDLED.items()]
    rows += [[name, "STRATAGP_DATA", str(path)] for name, path in local_files().items()]
    names = [{"name": name, "where": where, "about": about} for name, where, about in rows]
    console.result(aligned(rows), {"data": names})


def local_files() -> dict[str, Path]:
    """Tables under ``STRATAGP_DATA`` by their paths without endings."""
    root = os.environ.get("STRATAGP_DATA")
    if not root or not Path(root).is_dir():
        return {}
    found = sorted(path for pattern in _FILES for path in Path(root).rglob(pattern))
    return {str(path.relative_to(root).with_name(path.name.partition(".")[0])): path for path in found}


def shipped() -> Any:
    """The data set that comes with StrataGP."""
    with resources.as_file(resources.files("stratagp") / "examples" / "diabetes.csv") as path:
        return pandas().read_csv(path)
