"""A first hour: every command of the command line on twelve tables as they come, with the clock.

Tables of R packages, written as CSV files with what they hold: names, dates, zip codes, gaps. A tenth of rows, drawn
by seed 0, is new to the model. On each: `fit` with nothing but the target, `info`, `predict` and `evaluate` of the new
rows, `report` about them, `export`. Stored are the seconds of each command, what it answered where it refused, what
`fit` has assumed, and how the model compares with the better baseline on the rows that `fit` has held out.

    python benchmarks/first_hour.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from datasets import from_r
from harness import Benchmark, in_words

TABLES = {
    "economics": ("ggplot2", "unemploy"),
    "Sacramento": ("modeldata", "price"),
    "Chicago": ("modeldata", "ridership"),
    "Arrests": ("carData", "released"),
    "SLID": ("carData", "wages"),
    "Chile": ("carData", "vote"),
    "Affairs": ("AER", "affairs"),
    "BankWages": ("AER", "job"),
    "survey": ("MASS", "Pulse"),
    "possum": ("DAAG", "age"),
    "Auto": ("ISLR", "mpg"),
    "Orthodont": ("nlme", "distance"),
}
QUICK = ("Orthodont",)
COMMANDS: dict[str, list[str]] = {
    "fit": ["fit", "all.csv", "--target", "{target}", "--drop-missing", "-o", "model"],
    "info": ["info", "model"],
    "predict": ["predict", "model", "new.csv"],
    "evaluate": ["evaluate", "model", "new.csv"],
    "report": ["report", "model", "--data", "new.csv"],
    "export": ["export", "model", "-o", "model.onnx"],
}


def measure(name: str, threads: int) -> dict[str, Any]:
    """Every command on one table."""
    package, target = TABLES[name]
    frame = from_r(package, name).dropna(subset=[target])
    new = frame.sample(frac=0.1, random_state=0)
    found: dict[str, Any] = {"rows": len(frame) - len(new), "columns": frame.shape[1]}
    with tempfile.TemporaryDirectory() as folder:
        frame.drop(index=new.index).to_csv(Path(folder) / "all.csv", index=False)
        new.to_csv(Path(folder) / "new.csv", index=False)
        for command, words in COMMANDS.items():
            run = [sys.executable, "-m", "stratagp", *(word.format(target=target) for word in words), "--json"]
            start = time.perf_counter()
            done = subprocess.run(
                run, cwd=folder, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)}
            )
            found[command] = {"seconds": round(time.perf_counter() - start, 2)}
            if warned := [text for text in done.stderr.splitlines() if text.startswith("warning: ")]:
                found[command]["warnings"] = warned
            if done.returncode:
                found[command]["refused"] = done.stderr.strip().splitlines()[-1]
            elif command in ("fit", "evaluate"):
                found[command] |= told(json.loads(done.stdout))
    return found


def told(said: dict[str, Any]) -> dict[str, Any]:
    """What a command has assumed and measured."""
    return {
        key: said[key]
        for key in ("model", "task", "said", "assumptions", "verdict", "metrics", "baselines")
        if key in said
    }


def line(name: str, row: dict[str, Any]) -> dict[str, str]:
    fit = row["fit"]
    shown = {"table": name, "rows": f"{row['rows']:,}", "columns": str(row["columns"])}
    if "refused" in fit:
        return {**shown, "NLPD": "refused"}
    ours = fit["metrics"].get("nlpd", fit["metrics"].get("log_loss"))
    others = [each.get("nlpd", each.get("log_loss")) for each in fit["baselines"].values()]
    seconds = {command: in_words(row[command]["seconds"]) for command in COMMANDS}
    refused = [command for command in COMMANDS if "refused" in row[command]]
    return {
        **shown,
        "NLPD": f"{ours:.3f}",
        "better baseline": f"{min(others):.3f}",
        **seconds,
        **({"refused": ", ".join(refused)} if refused else {}),
    }


def main() -> None:
    bench = Benchmark.from_command_line("first_hour", __doc__)
    names = QUICK if bench.quick else TABLES
    tried = {name: bench.row(name, partial(measure, name, bench.threads)) for name in names}
    bench.show("Twelve tables as they come", [line(name, row) for name, row in tried.items() if row])


if __name__ == "__main__":
    main()
