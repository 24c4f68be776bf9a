"""The command line: fit, predict, evaluate and report without a line of Python.

Commands are declared in ``commands``, which loads nothing but click. What they do is in modules of their own, which are
loaded when a command runs, so that ``stratagp --help`` answers at once.
"""

from stratagp.cli.commands import main as main
