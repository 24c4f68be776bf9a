"""What a new user does first, with the installed package alone: import, fit a CSV file, predict, report, load.

``python tools/smoke.py`` works in any environment in which StrataGP is installed, in a folder that it removes again.
"""

import csv
import importlib.metadata
import json
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

STRATAGP = shutil.which("stratagp", path=sysconfig.get_path("scripts")) or "stratagp"
ROWS = 60


def run(*command: object) -> str:
    """What a command prints; where it fails, its own words."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def check(holds: object, what: str) -> None:
    """Print what holds, and stop at what does not."""
    print(f"  {'ok' if holds else 'FAILED'}: {what}", flush=True)
    if not holds:
        sys.exit(1)


def write_table(path: Path) -> None:
    """A made-up table of a number, a word and a target that depends on both."""
    rows = [
        (i / 10, ("Bonn", "Oslo")[i % 2], 5 * math.sin(i / 10) + 3 * (i % 2) + 0.1 * math.cos(37 * i))
        for i in range(ROWS)
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("day", "town", "price"), *rows])


def check_import(tests_beside: Path) -> None:
    """The package comes from the environment, knows its version, and loads nothing heavy before it is asked."""
    code = (
        "import sys, stratagp; print(stratagp.__file__, stratagp.__version__, *({'torch', 'pandas'} & {*sys.modules}))"
    )
    file, version, *heavy = run(sys.executable, "-c", code).split()
    check(not Path(file).is_relative_to(tests_beside), "the installed package is imported, not the checkout")
    check(version == importlib.metadata.version("stratagp"), f"version {version}")
    check(not heavy, "import stratagp loads neither torch nor pandas")


def check_commands() -> None:
    """Get a table that ships with the package; fit, predict, evaluate, report and describe, on the command line."""
    run(STRATAGP, "data", "get", "diabetes")
    check(len(Path("diabetes.csv").read_text("utf-8").splitlines()) == 443, "stratagp data get diabetes: 442 rows")
    write_table(Path("prices.csv"))
    run(STRATAGP, "fit", "prices.csv", "--target", "price", "--out", "model", "--time-limit", "20")
    run(STRATAGP, "predict", "model", "prices.csv", "--out", "predictions.csv")
    with Path("predictions.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    check(len(found) == ROWS, f"stratagp fit and predict answer {ROWS} rows with the columns {', '.join(found[0])}")
    scores = json.loads(run(STRATAGP, "evaluate", "model", "prices.csv", "--json"))["metrics"]
    check(scores["rmse"] < 1, f"stratagp evaluate --json: RMSE {scores['rmse']:.2g} where targets range over 13")
    check("town" in run(STRATAGP, "info", "model"), "stratagp info names the columns")
    run(STRATAGP, "report", "model")
    page = Path("model/report.html").read_text(encoding="utf-8")
    check("<html" in page and "price" in page, f"stratagp report writes a page of {len(page) // 1000} kB")


def check_library() -> None:
    """The saved model, loaded in Python, predicts what the command line predicted."""
    import pandas as pd

    import stratagp

    model = stratagp.load("model")
    mean = model.predict(pd.read_csv("prices.csv").drop(columns="price"))
    written = pd.read_csv("predictions.csv")["mean"].to_numpy()
    check(abs(mean - written).max() < 1e-6, "stratagp.load predicts the same in Python")


def main() -> None:
    """Every check in turn, in a new folder."""
    checkout = Path(__file__).resolve().parents[1]
    print(f"Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_import(checkout / "src")
        check_commands()
        check_library()
        os.chdir(checkout)


if __name__ == "__main__":
    main()
