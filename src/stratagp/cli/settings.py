"""The options of a fit: from the command line, or from a TOML file such as each fit leaves beside its model."""

from __future__ import annotations

import difflib
import importlib
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from stratagp.cli.table import Format

_KEPT_OUT = ("out", "overwrite", "report", "checkpoint")  # which say where things go, not what is learnt


@dataclass(frozen=True)
class Settings:
    """The options of ``stratagp fit``, whose help explains them; None where one is left out."""

    file: str
    target: str
    out: str | None = None
    overwrite: bool = False
    model: str = "auto"
    task: str = "auto"
    log: bool = False
    likelihood: str | None = None
    kernel: str | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    date_format: tuple[str, ...] = ()
    test: float = 0.2
    split: str | None = None
    folds: int | None = None
    refit: bool = True
    drop_missing: bool = False
    rows: int | None = None
    search_rows: int | None = None
    epochs: int | None = None
    time_limit: float | None = None
    plan: tuple[str, ...] = ()
    seed: int = 0
    checkpoint: str | None = None
    device: str | None = None
    report: bool = True
    delimiter: str | None = None
    encoding: str = Format().encoding
    decimal: str = Format().decimal
    missing: tuple[str, ...] = ()

    @property
    def form(self) -> Format:
        """How a text file is written."""
        return Format(self.delimiter, self.encoding, self.decimal, self.missing)

    def kept(self) -> dict[str, Any]:
        """The options that make the same model again, without those left out."""
        out = (*_KEPT_OUT, "test" if self.folds else "folds")
        every = {name: value for name, value in asdict(self).items() if name not in out}
        return {name: value for name, value in every.items() if value is not None and value != {} and value != ()}

    def as_toml(self) -> str:
        """The options that make the same model again, as TOML.

        >>> print(Settings("a.csv", "price", kinds={"zip": "category"}, delimiter=";").as_toml())
        # stratagp fit --config settings.toml --out again repeats this fit
        file = "a.csv"
        target = "price"
        model = "auto"
        ...
        as = { "zip" = "category" }
        ...
        delimiter = ";"
        ...
        """
        lines = ["# stratagp fit --config settings.toml --out again repeats this fit"]
        for name, value in self.kept().items():
            lines.append(f"{'as' if name == 'kinds' else name.replace('_', '-')} = {_toml(value)}")
        return "\n".join(lines) + "\n"


def read_config(ctx: click.Context, parameter: click.Parameter, path: str | None) -> None:
    """Take the options of a file where the command line leaves them out."""
    if path is None or ctx.resilient_parsing:
        return
    names = {each.name for each in ctx.command.params} - {"config", "debug", "verbose", "as_json"}
    found = _options(path, {str(name) for name in names})
    if isinstance(kinds := found.get("kinds"), dict):
        found["kinds"] = [f"{column}={kind}" for column, kind in kinds.items()]  # as the command line has them
    ctx.default_map = {**(ctx.default_map or {}), **found}


def _options(path: str, known: set[str]) -> dict[str, Any]:
    """The options in a file, which must be among the ``known`` ones."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        found = toml.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise click.ClickException(f"--config: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # in the encoding, or in the TOML
        raise click.ClickException(f"--config: {path} is not TOML: {error}") from None
    options = {"kinds" if name == "as" else name.replace("-", "_"): value for name, value in found.items()}
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise click.ClickException(
                f"--config: {path} has {name!r}, which is no option of fit"
                + (f"; did you mean {near[0]!r}?" if near else "")
            )
    return options


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # texts, numbers and truth values
