"""The program around the commands: its help in groups, its exit codes, and the options that all commands have.

Exit codes: 0 all went well; 1 the data or options are at fault, which one line on standard error tells; 2 the command
was not understood; 3 an unexpected error; 130 interrupted.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable

import click

from stratagp.cli.output import Console
from stratagp.errors import StrataGPError

USER_ERROR, UNEXPECTED, INTERRUPTED = 1, 3, 130
COMMANDS = {  # headings of the help, with commands and what they do; each is a module of stratagp.cli.commands
    "Learn and predict": {
        "fit": "Learn to predict a column of FILE from the others.",
        "predict": "Predict the rows of FILE.",
        "evaluate": "Compare predictions for FILE with its target.",
    },
    "Look at models": {
        "report": "Write the page about a model again, or about other rows.",
        "info": "Tell what a saved model is, without loading it.",
        "export": "Write a model as a graph that runs without StrataGP.",
    },
    "This machine and data": {
        "bench": "Time the exact process on this machine, beside scikit-learn.",
        "data": "List data sets, or write one as a CSV file.",
        "completion": "Print what makes a shell complete commands and options.",
    },
}
_COMMON = (
    (["--json", "as_json"], "The result as one JSON object on standard output."),
    (["-v", "--verbose"], "Remarks and progress, also where standard error is no terminal."),
    (["--debug"], "Show where in the program an error came from."),
)


class Program(click.Group):
    """Commands that are loaded when they are called, each under its heading in the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the help."""
        return [name for group in COMMANDS.values() for name in group]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a name, from its module."""
        if name not in self.list_commands(ctx):
            return None
        found: click.Command = importlib.import_module(f"stratagp.cli.commands.{name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        for heading, group in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl(list(group.items()))


def _version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"stratagp {importlib.metadata.version('stratagp')}")
        ctx.exit()


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def main() -> None:
    """Gaussian-process models of tables: predictions that say how sure they are.

    \b
    stratagp fit houses.csv --target price       learn, test on held-out rows, save, report
    stratagp predict houses-model new.csv        mean, spread and interval for each row
    stratagp evaluate houses-model test.csv      errors, and whether the intervals hold

    Results go to standard output, remarks to standard error. Exit codes: 0 all went well, 1 data or
    options are at fault, 2 the command was not understood, 3 an unexpected error, 130 interrupted.
    """


def declared(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function of a console and its own options; whatever goes wrong in it becomes an exit code."""

    def declare(run: Callable[..., None]) -> click.Command:
        @functools.wraps(run)
        def guarded(as_json: bool, verbose: bool, debug: bool, **options: object) -> None:
            console = Console(as_json, verbose, debug=debug)
            try:
                run(console, **options)
            except Exception as error:
                raise _ending(error, console) from None
            except KeyboardInterrupt:
                raise _ending(click.Abort(), console) from None

        made = click.command(name)(guarded)
        made.params += [click.Option(names, is_flag=True, help=text) for names, text in _COMMON]  # after its own
        return made

    return declare


def _ending(error: Exception, console: Console) -> Exception:
    """How a command ends by an error, about which a word is said."""
    if isinstance(error, (click.ClickException, click.exceptions.Exit)):
        return error
    if isinstance(error, click.Abort):
        if console.first:
            console.error("interrupted")
        return click.exceptions.Exit(INTERRUPTED)
    if isinstance(error, BrokenPipeError):  # whoever read our output has seen enough; nothing more can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return click.exceptions.Exit(USER_ERROR)
    console.trace()
    if isinstance(error, (StrataGPError, OSError)):
        console.error(str(error))
        return click.exceptions.Exit(USER_ERROR)
    console.error(f"unexpected {type(error).__name__}: {error} (--debug shows where)")
    return click.exceptions.Exit(UNEXPECTED)
