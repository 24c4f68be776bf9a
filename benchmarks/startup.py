"""How long it takes to start: the command line, the package, its estimators, and torch alone.

Each is a fresh process of Python; the fastest of several turns counts, with files in the system's cache. The time of an
empty process is beside them. ``stratagp --help`` must stay below half a second.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from harness import Benchmark, in_words, race

STARTS = {
    "nothing": ["-c", "pass"],
    "stratagp --help": ["-m", "stratagp", "--help"],
    "import stratagp": ["-c", "import stratagp"],
    "import torch": ["-c", "import torch"],
    "from stratagp import kernels": ["-c", "from stratagp import kernels"],
    "from stratagp import GPRegressor": ["-c", "from stratagp import GPRegressor"],
}


def start(arguments: list[str]) -> Callable[[], None]:
    """A function that runs a process to its end."""

    def run() -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    return run


def main() -> None:
    bench = Benchmark.from_command_line("startup", __doc__)
    contestants = {name: start(arguments) for name, arguments in STARTS.items()}
    seconds = bench.row("starts", lambda: race(contestants, repeats=3 if bench.quick else 7))
    if seconds:
        bench.show("Start-up", [{"start": name, "time": in_words(value)} for name, value in seconds.items()])


if __name__ == "__main__":
    main()
