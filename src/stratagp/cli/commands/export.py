"""``stratagp export``: write a model as a graph for other programs."""

from __future__ import annotations

from pathlib import Path

import click

import stratagp
from stratagp.cli.output import Console
from stratagp.cli.program import declared
from stratagp.errors import InputError

_FORMATS = {".onnx": "onnx", ".pt2": "torch"}


@declared("export")
@click.argument("model", metavar="MODEL")
@click.option("--out", "-o", required=True, metavar="FILE", help="The file to write, .onnx or .pt2.")
@click.option("--format", "kind", type=click.Choice(["onnx", "torch"]),
              help="The format; goes by the file's extension if left out.")  # fmt: skip
def command(console: Console, model: str, out: str, kind: str | None) -> None:
    """Write a model as a graph that runs without StrataGP.

    The graph maps rows of numbers, x, to mean and variance, or to probabilities. It is an ONNX file for
    onnxruntime, or a program for torch.export.load. Give categories by their number and dates in days
    since 1970; the file lists columns, categories and classes. Models of texts cannot be exported.
    """
    path = Path(out)
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out: the folder {path.parent} does not exist")
    kind = kind or _FORMATS.get(path.suffix)
    if kind is None:
        raise InputError(f"--out must end with .onnx or .pt2, got {out}")
    estimator = stratagp.load(model)
    with console.at_work():
        estimator.export(path, format=kind)
    console.result(f"{kind}: {path}", {"out": str(path), "format": kind})
