"""The program around the commands: its help in groups, its exit codes, and the options that all commands share.

Exit codes: 0 success; 1 an error in the data or the options, explained in one line on standard error; 2 the command was
not understood; 3 an unexpected error; 130 interrupted.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable

import click
from click.shell_completion import get_completion_class

from stratagp.cli.output import Console
from stratagp.errors import StrataGPError

USER_ERROR, UNEXPECTED, INTERRUPTED = 1, 3, 130
COMMANDS = {  # headings of the help, with commands and what they do; each but completion is a module of cli.commands
    "Learn and predict": {
        "fit": "Learn to predict a column of FILE from the others.",
        "predict": "Predict the rows of FILE.",
        "evaluate": "Compare predictions for FILE with its target.",
        "serve": "Predict rows that other programs send over HTTP.",
    },
    "Look at models": {
        "report": "Write the report about a model again, or about other rows.",
        "info": "Show what a saved model is, without loading it.",
        "export": "Write a model as a graph that runs without StrataGP.",
    },
    "This machine and data": {
        "bench": "Time the exact process on this machine, against scikit-learn.",
        "data": "List data sets, or write one as a CSV file.",
        "completion": "Print a script that completes commands and options in your shell.",
    },
}
_COMMON = (
    (["--json", "as_json"], "Print the result as one JSON object on standard output."),
    (["-v", "--verbose"], "Print remarks and progress, even if standard error is no terminal."),
    (["--debug"], "Show where in the program an error came from."),
)


class Program(click.Group):
    """Commands that are loaded when they are called, each under its heading in the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the help."""
        return [name for group in COMMANDS.values() for name in group]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a name, from its module."""
        if name in self.commands or name not in self.list_commands(ctx):
            return self.commands.get(name)
        found: click.Command = importlib.import_module(f"stratagp.cli.commands.{name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        for heading, group in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl(list(group.items()))


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="stratagp", message="stratagp %(version)s")
def main() -> None:
    """Gaussian-process models of tables: predictions that tell how sure they are.

    \b
    stratagp fit houses.csv --target price       learn, test on held-out rows, save, report
    stratagp predict houses-model new.csv        mean, spread and interval for each row
    stratagp evaluate houses-model test.csv      errors, and whether the intervals hold

    Results go to standard output, remarks to standard error. Exit codes: 0 success, 1 an error in the
    data or the options, 2 command not understood, 3 unexpected error, 130 interrupted.
    """


@main.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in your shell.

    For bash, put this into ~/.bashrc:  eval "$(stratagp completion bash)"
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "stratagp", "_STRATAGP_COMPLETE").source())


def declared(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that takes a console and options; every error in it becomes an exit code."""

    def declare(run: Callable[..., None]) -> click.Command:
        @functools.wraps(run)
        def guarded(as_json: bool, verbose: bool, debug: bool, **options: object) -> None:
            console = Console(as_json, verbose, debug=debug)
            try:
                run(console, **options)
            except Exception as error:
                raise _ending(error, console) from None
            except KeyboardInterrupt as stop:
                raise _ending(click.Abort(*stop.args), console) from None

        made = click.command(name)(guarded)
        made.params += [click.Option(names, is_flag=True, help=text) for names, text in _COMMON]  # after its own
        return made

    return declare


def _ending(error: Exception, console: Console) -> Exception:
    """The exception that ends a command with the right exit code, after the error is printed."""
    if isinstance(error, (click.ClickException, click.exceptions.Exit)):
        return error
    if isinstance(error, click.Abort):
        if console.first:
            console.error(": ".join(["interrupted", *map(str, error.args)]))
        return click.exceptions.Exit(INTERRUPTED)
    if isinstance(error, BrokenPipeError):  # whoever read our output has stopped; nothing more can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return click.exceptions.Exit(USER_ERROR)
    console.trace()
    if isinstance(error, (StrataGPError, OSError)):
        console.error(str(error))
        return click.exceptions.Exit(USER_ERROR)
    console.error(f"unexpected {type(error).__name__}: {error} (--debug shows where)")
    return click.exceptions.Exit(UNEXPECTED)
