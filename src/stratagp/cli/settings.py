"""Options of a fit in a TOML file: read before the command line, and written beside the model."""

from __future__ import annotations

import difflib
import importlib
import json
from pathlib import Path
from typing import Any

import click

KEPT_OUT = ("out", "overwrite", "report", "checkpoint")  # where results and states go is no setting of the model


def read_config(ctx: click.Context, parameter: click.Parameter, path: str | None) -> None:
    """Let the options of a file stand in for those that the command line leaves out."""
    if path is None or ctx.resilient_parsing:
        return
    names = {each.name for each in ctx.command.params} - {"config", "debug", "verbose", "as_json"}
    found = _options(path, {str(name) for name in names})
    if isinstance(kinds := found.get("kinds"), dict):
        found["kinds"] = [f"{column}={kind}" for column, kind in kinds.items()]  # as the command line has them
    ctx.default_map = {**(ctx.default_map or {}), **found}


def _options(path: str, known: set[str]) -> dict[str, Any]:
    """What a file says, which must be among the ``known`` options."""
    try:
        toml: Any = importlib.import_module("tomllib")
        found = toml.loads(Path(path).read_text("utf-8"))
    except ModuleNotFoundError:
        raise click.ClickException("--config needs Python 3.11 or later, which reads TOML") from None
    except OSError as error:
        raise click.ClickException(f"--config: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # of the encoding, or of TOML
        raise click.ClickException(f"--config: {path} is not TOML: {error}") from None
    options = {"kinds" if name == "as" else name.replace("-", "_"): value for name, value in found.items()}
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise click.ClickException(
                f"--config: {path} has {name!r}, which is no option of fit" + (f"; is it {near[0]!r}?" if near else "")
            )
    return options


def as_toml(options: dict[str, Any]) -> str:
    """Options as TOML, without those that are unset and those that say where results go.

    >>> print(as_toml({"target": "price", "time_limit": None, "test": 0.2, "kinds": {"zip": "category"}}))
    target = "price"
    test = 0.2
    as = { "zip" = "category" }
    <BLANKLINE>
    """
    lines = ["# stratagp fit --config settings.toml --out again repeats this fit"] if "file" in options else []
    for name, value in options.items():
        if name not in KEPT_OUT and value is not None and value != {} and value != ():
            lines.append(f"{'as' if name == 'kinds' else name.replace('_', '-')} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # of texts, numbers and truth values
