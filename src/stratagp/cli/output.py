"""What a command prints: results on standard output, remarks on standard error.

Remarks and progress are for people: they appear if standard error is a terminal, or with ``--verbose``. Warnings and
errors always appear. Under ``torchrun`` only the first process prints.
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

_GRACE = 5.0  # seconds that other processes wait before they print an error: the first may fail with the same one
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Console:
    """The two streams of a command; ``first`` is true in the only process, or the first one of ``torchrun``.

    Arguments:
        as_json: print the result as one JSON object instead of text.
        verbose: print remarks even if standard error is no terminal.
        silent: print nothing but errors, for work that is done a second time.
        debug: print where in the program an error came from.
    """

    def __init__(self, as_json: bool = False, verbose: bool = False, silent: bool = False, debug: bool = False) -> None:
        self.as_json, self.debug, self.first = as_json, debug, os.environ.get("RANK", "0") == "0"
        self.warns = self.first and not silent
        self.talks = self.warns and (verbose or sys.stderr.isatty())
        self.start, self.stages, self.limit = time.perf_counter(), [0, 0], math.inf
        self.said: set[str] = set()

    def note(self, text: str) -> None:
        """Print a remark, for people who watch."""
        if self.talks:
            click.echo(harmless(text), err=True)

    def begin(self, stages: int, limit: float | None) -> None:
        """From now on, work has so many stages and a limit of seconds since the start, if any."""
        self.stages, self.limit = [0, stages], math.inf if limit is None else limit

    def stage(self, text: str, about: float | None = None) -> None:
        """Tell that the next stage begins, how long all took so far, and how long is left where that is known.

        Arguments:
            about: seconds that the stage will take.
        """
        self.stages[0] += 1
        spent = time.perf_counter() - self.start
        left = "" if math.isinf(self.limit) else f", {max(0.0, self.limit - spent):.0f} s left"
        takes = "" if about is None else f", in about {max(about, 1.0):.0f} s"
        self.note(f"stage {self.stages[0]} of {self.stages[1]} ({spent:.0f} s so far{left}): {text}{takes}")

    def warn(self, text: str) -> None:
        """Print something the user should know, whether anybody watches or not; once, whoever says it again."""
        if self.warns and text not in self.said:
            click.echo(f"warning: {harmless(text)}", err=True)
        self.said.add(text)

    def error(self, text: str) -> None:
        """Print why the command ends, in one line; ``torchrun`` ends waiting processes if the first fails too."""
        if not self.first:
            time.sleep(_GRACE)
        who = "error" if self.first else f"error in process {os.environ['RANK']}"
        click.echo(f"{who}: {harmless(' '.join(text.split()))}", err=True)

    def trace(self) -> None:
        """Print where the current error came from, if ``--debug`` asks for it."""
        if self.debug:
            traceback.print_exc()

    def result(self, text: str, data: dict[str, Any]) -> None:
        """Print what was asked for: ``text`` for people, ``data`` for programs."""
        shown = json.dumps(plain(data), ensure_ascii=False, allow_nan=False) if self.as_json else text
        if self.first and shown:
            click.echo(harmless(shown) if sys.stdout.isatty() else shown)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Turn warnings of the library into lines of this console; what it prints goes to standard error."""
        with warnings.catch_warnings(), redirect_stdout(sys.stderr):
            warnings.simplefilter("default")

            def show(message: Warning | str, *_: Any, **__: Any) -> None:
                self.warn(" ".join(str(message).split()))

            warnings.showwarning = show
            yield


def harmless(text: str) -> str:
    """A text that is safe for a terminal: control characters, which may come from a file, are replaced.

    >>> harmless("a model\\x1b[2J of\\thouses")
    'a model�[2J of\\thouses'
    """
    return _CONTROL.sub("\ufffd", text)


def aligned(rows: Sequence[Sequence[str]], numbers: bool = False) -> str:
    """Rows of text in columns; with ``numbers``, all columns but the first are aligned to the right.

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
    """A value that JSON can hold: NaN and infinity become null, numpy's numbers become Python's.

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
