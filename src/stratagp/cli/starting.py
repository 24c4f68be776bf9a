"""The start of ``stratagp fit``: what is wrong with files and options is said before torch is loaded."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from stratagp.cli.console import Console
from stratagp.cli.folder import check_out
from stratagp.cli.reading import check_file, is_many
from stratagp.errors import InputError

_TASKS = {"category": "classification", "number": "regression"}


def run(console: Console, **options: Any) -> None:
    """Look at names and options, then fit."""
    file, task = options["file"], _task(options)
    if not is_many(file):
        check_file(file)
    out = Path(options["out"] or f"{_stem(file)}-model")
    check_out(out, options["overwrite"])
    importlib.import_module("stratagp.cli.fitting").run(console, out, {**options, "task": task})


def _stem(file: str) -> str:
    name = Path(file.rstrip("/*")).name or "data"
    return "standard-input" if file == "-" else name.partition(".")[0] or "data"


def _task(options: dict[str, Any]) -> str:
    """The task that is asked for, by ``--task`` or by what ``--as`` says of the target.

    >>> _task({"target": "price", "task": "auto", "kinds": {"price": "category", "size": "number"}})
    'classification'
    """
    target, asked = options["target"], options["task"]
    if target not in options["kinds"]:
        return asked
    kind = options["kinds"][target]
    found = _TASKS.get(kind)
    if found is None or asked not in ("auto", found):
        raise InputError(
            f"--as {target}={kind} is of the target, which is a number or a category: --task regression or --task "
            "classification says which" + (f", and {asked} was asked for" if asked != "auto" else "")
        )
    return found
