"""What a command says: results to standard output, words about them to standard error.

Tables and remarks of progress are for people: they appear where standard error is a terminal, or with ``--verbose``.
Warnings and errors always do. Under ``torchrun`` the first process alone speaks.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import click

_GRACE = 5.0  # seconds that other processes than the first wait before they tell an error
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Console:
    """The two streams of a command; ``first`` says that this process is the only one, or the first of ``torchrun``.

    Arguments:
        as_json: whether the result is one JSON object instead of text.
        verbose: whether remarks appear where standard error is no terminal.
        silent: whether nothing appears but errors, for work that is done again.
        debug: whether it is shown where in the program an error came from.
    """

    def __init__(self, as_json: bool = False, verbose: bool = False, silent: bool = False, debug: bool = False) -> None:
        self.as_json, self.debug, self.first = as_json, debug, os.environ.get("RANK", "0") == "0"
        self.warns = self.first and not silent
        self.talks = self.warns and (verbose or sys.stderr.isatty())

    def note(self, text: str) -> None:
        """A remark, for people who watch."""
        if self.talks:
            click.echo(harmless(text), err=True)

    def warn(self, text: str) -> None:
        """Something the user should know, whoever watches."""
        if self.warns:
            click.echo(f"warning: {harmless(text)}", err=True)

    def error(self, text: str) -> None:
        """Why the command ends, in one line; ``torchrun`` ends the others, unless the first has not failed too."""
        if not self.first:
            time.sleep(_GRACE)
        who = "error" if self.first else f"error in process {os.environ['RANK']}"
        click.echo(f"{who}: {harmless(' '.join(text.split()))}", err=True)

    def trace(self) -> None:
        """Where the error that is being handled came from, for those who ask."""
        if self.debug:
            traceback.print_exc()

    def result(self, text: str, data: dict[str, Any]) -> None:
        """What was asked for: ``text`` for people, or what is left to say of it, ``data`` for machines."""
        said = json.dumps(plain(data), ensure_ascii=False, allow_nan=False) if self.as_json else text
        if self.first and said:
            click.echo(harmless(said) if sys.stdout.isatty() else said)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Warnings of the library as lines of this console, and what it prints on standard error."""
        with warnings.catch_warnings(), redirect_stdout(sys.stderr):
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_, **__: self.warn(" ".join(str(message).split()))
            yield


def harmless(text: str) -> str:
    """A text for a terminal, which control characters of a file could take over: these are replaced.

    >>> harmless("a model\\x1b[2J of\\thouses")
    'a model�[2J of\\thouses'
    """
    return _CONTROL.sub("\ufffd", text)


def aligned(rows: Sequence[Sequence[str]], numbers: bool = False) -> str:
    """Rows of text in columns; all but the first flush right where they hold ``numbers``.

    >>> print(aligned([["", "error"], ["ours", "1.5"], ["theirs", "12.0"]], numbers=True))
            error
    ours      1.5
    theirs   12.0
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if numbers and i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def plain(value: Any) -> Any:
    """What JSON can hold: numbers that are not finite become null, numpy's become Python's.

    >>> plain({"a": float("nan"), "b": (1, 2.5)})
    {'a': None, 'b': [1, 2.5]}
    """
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
