"""The program around the commands: its help in groups, its exit codes, and the options that all commands have.

Exit codes: 0 all went well; 1 the data or options are at fault, which one line on standard error tells; 2 the command
was not understood; 3 an unexpected error; 130 interrupted.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from stratagp.cli.console import Console
from stratagp.errors import StrataGPError

USER_ERROR, UNEXPECTED, INTERRUPTED = 1, 3, 130


class Program(click.Group):
    """Commands in groups, each with its heading in the help."""

    sections: dict[str, tuple[str, ...]]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        width = formatter.width - 6 - max(map(len, self.commands))
        for heading, names in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the help."""
        return [name for names in self.sections.values() for name in names]


def command(group: click.Group, name: str, module: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command whose work is done by the function ``run`` of a module, which is loaded when it is called.

    The decorated function has the help and the options, and no body.
    """

    def declare(declared: Callable[..., None]) -> click.Command:
        @functools.wraps(declared)
        def run(as_json: bool, verbose: bool, debug: bool, **options: Any) -> None:
            _guard(Console(as_json, verbose, debug=debug), module, options)

        made = group.command(name)(run)
        made.params += [click.Option(names, is_flag=True, help=text) for names, text in _COMMON]  # after its own
        return made

    return declare


_COMMON = (
    (["--json", "as_json"], "The result as one JSON object on standard output."),
    (["-v", "--verbose"], "Remarks and progress, also where standard error is no terminal."),
    (["--debug"], "Show where in the program an error came from."),
)


def _guard(console: Console, module: str, options: dict[str, Any]) -> None:
    """Do the work of a command; whatever goes wrong ends with a word and an exit code."""
    try:
        importlib.import_module(f"stratagp.cli.{module}").run(console, **options)
    except (click.ClickException, click.exceptions.Exit):
        raise
    except (KeyboardInterrupt, click.Abort):
        if console.first:
            console.error("interrupted")
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # whoever read our output has seen enough; nothing more can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(USER_ERROR) from None
    except Exception as error:
        console.trace()
        if isinstance(error, (StrataGPError, OSError)):
            console.error(str(error))
            raise click.exceptions.Exit(USER_ERROR) from None
        console.error(f"unexpected {type(error).__name__}: {error} (--debug shows where)")
        raise click.exceptions.Exit(UNEXPECTED) from None
