"""The command line: fit, predict, evaluate and report without a line of Python.

``program`` has the table of commands; each is a module of ``commands``, loaded when it is called. No module here
imports torch, scikit-learn or pandas at its top, and ``stratagp`` loads its parts when they are first used. So
``stratagp --help`` and a wrong file name are answered at once.
"""

from stratagp.cli.program import main as main
