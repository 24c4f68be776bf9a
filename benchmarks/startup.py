"""How long it takes to start: the command line, its answers, the package, its estimators, and torch alone.

Each is a fresh process of Python; the fastest of several turns counts, with files in the system's cache. The time of an
empty process is beside them. ``stratagp --help`` must stay below half a second, ``predict`` and ``evaluate`` of ten
rows below two and a half. What they ask is the mixture that ``stratagp fit`` keeps of 400 rows with a category, a date,
gaps and a positive target.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from harness import Benchmark, in_words, race

STARTS = {
    "nothing": ["-c", "pass"],
    "stratagp --help": ["-m", "stratagp", "--help"],
    "import stratagp": ["-c", "import stratagp"],
    "import torch": ["-c", "import torch"],
    "stratagp predict, ten rows": ["-m", "stratagp", "predict", "model", "new.csv"],
    "stratagp evaluate, ten rows": ["-m", "stratagp", "evaluate", "model", "new.csv"],
    "from stratagp import kernels": ["-c", "from stratagp import kernels"],
    "from stratagp import GPRegressor": ["-c", "from stratagp import GPRegressor"],
}


def start(arguments: list[str], folder: str, threads: int) -> Callable[[], None]:
    """A function that runs a process to its end."""

    def run() -> None:
        own = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        subprocess.run([sys.executable, *arguments], cwd=folder, env=own, check=True, capture_output=True)

    return run


def learn(folder: str, threads: int) -> None:
    """``model`` and ``new.csv`` in a folder."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"town": rng.choice(list("ABCD"), 400), "size": rng.normal(100, 20, 400).round(1)})
    table["price"] = np.exp(0.01 * table["size"] + 0.3 * (table["town"] == "A") + rng.normal(0, 0.2, 400)).round(3)
    table["sold"] = pd.date_range("2024-01-01", periods=400)
    table.loc[rng.random(400) < 0.1, "size"] = np.nan
    table.to_csv(Path(folder) / "all.csv", index=False)
    table.tail(10).to_csv(Path(folder) / "new.csv", index=False)
    start(["-m", "stratagp", "fit", "all.csv", "-t", "price", "-o", "model", "--no-report"], folder, threads)()


def measure(repeats: int, threads: int) -> dict[str, float]:
    """Seconds of each start."""
    with tempfile.TemporaryDirectory() as folder:
        learn(folder, threads)
        return race({name: start(arguments, folder, threads) for name, arguments in STARTS.items()}, repeats)


def main() -> None:
    bench = Benchmark.from_command_line("startup", __doc__)
    seconds = bench.row("starts", lambda: measure(3 if bench.quick else 7, bench.threads))
    if seconds:
        bench.show("Start-up", [{"start": name, "time": in_words(value)} for name, value in seconds.items()])


if __name__ == "__main__":
    main()
