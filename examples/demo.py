"""The whole workflow on the command line: fit a table, predict new rows, evaluate, and write a report.

Run it with ``make demo``. It learns the disease progression of 442 patients, a table that ships with the package, from
ten measurements. Patients 401 to 442 are kept apart as new ones; ``fit`` itself holds out a fifth of the others.
Everything goes to ``out/demo``.
"""

import shutil
from importlib import resources
from pathlib import Path

from stratagp.cli import main as stratagp

OUT = Path("out/demo")


def call(*words: object) -> None:
    """Show a command and run it."""
    print(f"\n$ stratagp {' '.join(map(str, words))}", flush=True)
    stratagp([str(word) for word in words], standalone_mode=False)


def main() -> None:
    """Split the table and run one command after another."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    lines = (resources.files("stratagp") / "examples" / "diabetes.csv").read_text("utf-8").splitlines(keepends=True)
    (OUT / "patients.csv").write_text("".join(lines[:401]), "utf-8")
    (OUT / "new.csv").write_text("".join([lines[0], *lines[401:]]), "utf-8")
    call("fit", OUT / "patients.csv", "--target", "progression", "--out", OUT / "model", "--verbose")
    call("predict", OUT / "model", OUT / "new.csv", "--out", OUT / "predictions.csv")
    call("evaluate", OUT / "model", OUT / "new.csv")
    call("info", OUT / "model")
    if (OUT / "model" / "results.json").exists():
        call("report", OUT / "model")
        print(f"\nThe report is {(OUT / 'model' / 'report.html').absolute()}")


if __name__ == "__main__":
    main()
