"""``stratagp completion``: what makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from stratagp.cli.program import main


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print what makes a shell complete commands and options.

    For bash, put this into ~/.bashrc:  eval "$(stratagp completion bash)"
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "stratagp", "_STRATAGP_COMPLETE").source())
