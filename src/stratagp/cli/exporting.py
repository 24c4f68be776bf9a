"""``stratagp export``: a model as a graph for other programs."""

from __future__ import annotations

from pathlib import Path

from stratagp.cli.console import Console
from stratagp.errors import InputError
from stratagp.persistence.model_file import load

_FORMATS = {".onnx": "onnx", ".pt2": "torch"}


def run(console: Console, model: str, out: str, kind: str | None) -> None:
    """Write predictions as a graph that other programs run."""
    path = Path(out)
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out: the folder {path.parent} does not exist")
    kind = kind or _FORMATS.get(path.suffix)
    if kind is None:
        raise InputError(f"--out must end with .onnx or .pt2, got {out}")
    estimator = load(model)
    with console.at_work():
        estimator.export(path, format=kind)
    console.result(f"{kind}: {path}", {"out": str(path), "format": kind})
