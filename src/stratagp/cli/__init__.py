"""The command line: fit, predict, evaluate and report without a line of Python.

``program`` has the table of commands, each of which is a module of ``commands`` that is loaded when it is called. No
module here imports torch, scikit-learn or pandas at its top: ``import stratagp`` loads its parts when they are asked
for, so that ``stratagp --help`` and a mistake in a file's name are answered at once.
"""

from stratagp.cli.program import main as main
