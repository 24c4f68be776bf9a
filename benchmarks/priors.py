"""Which prior on lengthscales predicts best: held-out density and error of one process under several priors.

A Matérn-5/2 kernel with a lengthscale for each column and learnt noise, on 300 rows of the training part of 22 tables
whose columns are numbers (the first two splits of `table_sets.py`), and on Friedman-1 with columns that do nothing (150
rows, five draws, 1,000 rows to test). In D columns:

- ml: the evidence alone.
- narrow: log-normal around the start values, which are √D spreads of a column, with σ = 0.7 on the log.
- botorch: LogNormal(√2 + ½ log D, √3) on inputs scaled to the unit cube.
- default: `GPRegressor()` as it is.
- stack: `StrataRegressor()` with 60 seconds, on Friedman-1 alone.
- bayes: averaged over 30 draws by NUTS under the default priors; at most 200 training rows and ten columns.

    STRATAGP_DATA=… python benchmarks/priors.py
    STRATAGP_DATA=… python benchmarks/priors.py --fresh --only default
    python benchmarks/priors.py --markdown
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import make_friedman1

from harness import RESULTS, Benchmark, command_line, in_subprocess, markdown_table, refresh
from stratagp import GPRegressor, StrataRegressor
from stratagp.kernels import Matern
from stratagp.metrics import nlpd, rmse
from stratagp.parameters import positive
from stratagp.priors import LogNormal
from table_sets import TABLES, parts

ROWS, LIMIT = 300, 300.0
BAYES_ROWS, BAYES_COLUMNS, DRAWS = 200, 10, 30
NARROW = 0.7
TABLE_SPLITS, DRAWN = 2, 5
NUMERIC = ["servo", "yacht", "autompg", "housing", "stock", "energy", "concrete", "airfoil", "wine", "pumadyn32nm"]
NUMERIC += ["pol", "protein", "winequality_red", "powerplant", "naval", "sarcos", "esol", "quakes", "airquality"]
NUMERIC += ["diabetes", "cpus", "meats"]
IDLE = {f"Friedman-1 and {idle} idle": idle for idle in (0, 5, 20, 100)}

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Means = dict[str, dict[str, float]]  # of each table, for each prior


def data(name: str, split: int) -> Arrays:
    """Training and test rows, targets standardised by those of training."""
    if name in IDLE:
        X, y = make_friedman1(1150, 10 + IDLE[name] - 5, noise=1.0, random_state=split)
        x, y, x_test, y_test = X[:150], y[:150], X[150:], y[150:]
    else:
        rows, text = parts(name, split), list(TABLES[name].text)
        chosen = np.random.default_rng(split).permutation(len(rows.y))[:ROWS]
        x, y = rows.X.drop(columns=text).values[chosen], rows.y[chosen]
        x_test, y_test = rows.X_test.drop(columns=text).values, rows.y_test
    moves = x.std(0) > 0
    return x[:, moves], (y - y.mean()) / y.std(), x_test[:, moves], (y_test - y.mean()) / y.std()


Scaled = Callable[[np.ndarray], np.ndarray]
Learner = GPRegressor | StrataRegressor


def with_prior(start: float, prior: LogNormal, columns: int) -> GPRegressor:
    return GPRegressor(Matern(2.5, positive(np.full(columns, start), prior=prior)), random_state=0)


def narrow(x: np.ndarray) -> tuple[GPRegressor, Scaled]:
    """A Gaussian density of the log, σ = 0.7, as a density of the value: its median is larger by a factor exp σ²."""
    centre, spread, start = x.mean(0), x.std(0), math.sqrt(x.shape[1])
    prior = LogNormal(start * math.exp(NARROW**2), NARROW)
    return with_prior(start, prior, x.shape[1]), lambda rows: (rows - centre) / spread


def botorch(x: np.ndarray) -> tuple[GPRegressor, Scaled]:
    """It starts at the mode of the prior, as BoTorch does."""
    low, width, sigma = x.min(0), np.ptp(x, 0), math.sqrt(3)
    median = math.exp(math.sqrt(2)) * math.sqrt(x.shape[1])
    model = with_prior(median * math.exp(-(sigma**2)), LogNormal(median, sigma), x.shape[1])
    return model, lambda rows: (rows - low) / width


def plain(**options: Any) -> Callable[[np.ndarray], tuple[GPRegressor, Scaled]]:
    return lambda x: (GPRegressor(random_state=0, **options), lambda rows: rows)


PRIORS: dict[str, Callable[[np.ndarray], tuple[Learner, Scaled]]] = {
    "ml": plain(hyperparameters="ml"),
    "narrow": narrow,
    "botorch": botorch,
    "default": plain(),
    "bayes": plain(hyperparameters="bayes", n_draws=DRAWS),
    "stack": lambda x: (StrataRegressor(time_limit=60, random_state=0), lambda rows: rows),
}


def prepare(which: str, name: str, split: int) -> Any:
    """For :func:`harness.in_subprocess`: fit, predict, score."""
    x, y, x_test, y_test = data(name, split)

    def run() -> dict[str, Any]:
        warnings.simplefilter("ignore")
        if which == "bayes" and (len(y) > BAYES_ROWS or x.shape[1] > BAYES_COLUMNS):
            return {"too large": len(y)}
        model, scaled = PRIORS[which](x)
        start = time.perf_counter()
        mean, std = model.fit(scaled(x), y).predict(scaled(x_test), return_std=True)
        seconds = time.perf_counter() - start
        density = model.log_density(scaled(x_test), y_test)
        assert which in ("bayes", "stack") or np.isclose(-density.mean(), nlpd(y_test, mean, std), rtol=1e-6)
        return {
            "nlpd": float(-density.mean()),
            "rmse": rmse(y_test, mean),
            "seconds": seconds,
            "rows": len(y),
            "columns": x.shape[1],
        }

    return run


def measured(which: str, name: str, split: int, threads: int) -> dict[str, Any]:
    try:
        return in_subprocess("priors:prepare", which, name, split, threads=threads, peaks=False, limit=LIMIT).result
    except TimeoutError:
        return {"unfinished": LIMIT}


def entries(quick: bool, only: list[str] | None) -> Iterator[tuple[str, str, int]]:
    names = ["servo", "Friedman-1 and 5 idle"] if quick else [*IDLE, *NUMERIC]
    chosen = only or (["ml", "default"] if quick else list(PRIORS))
    for split in range(1 if quick else DRAWN):
        for name in names:
            if split < TABLE_SPLITS or name in IDLE:
                yield from ((which, name, split) for which in chosen if which != "stack" or name in IDLE)


def key_of(which: str, name: str, split: int) -> str:
    return f"{name}, split {split}, {which}"


def means(rows: dict[str, Any], measure: str) -> Means:
    """Over the splits of each table, for each prior that has done all that others have."""
    found: dict[str, dict[str, list[float]]] = {}
    for key, row in rows.items():
        name, _, which = key.split(", ")
        if measure in row["values"]:
            found.setdefault(name, {}).setdefault(which, []).append(row["values"][measure])
    most = {name: max(map(len, each.values())) for name, each in found.items()}
    return {
        name: {which: float(np.mean(each[which])) for which in PRIORS if len(each.get(which, ())) == most[name]}
        for name, each in found.items()
    }


def lines(rows: dict[str, Any], measure: str) -> list[dict[str, str]]:
    """A row for each table; then, over those that all but bayes have done, mean losses to the best and mean ranks."""
    found = means(rows, measure)
    shown = [
        {"table": name, **{which: f"{value:.3f}" for which, value in each.items()}} for name, each in found.items()
    ]
    compared = [which for which in PRIORS if which not in ("bayes", "stack")]
    for title, chosen in (("tables", NUMERIC), ("Friedman-1", list(IDLE))):
        full = [[found[n][w] for w in compared] for n in chosen if n in found and found[n].keys() >= set(compared)]
        if full:
            gap = np.mean(np.array(full) - np.min(full, 1, keepdims=True), 0)
            rank = np.mean(stats.rankdata(full, axis=1), 0)
            for words, each in (("mean loss to the best", gap), ("mean rank", rank)):
                cells = dict(zip(compared, (f"{value:.3f}" for value in each), strict=True))
                shown.append({"table": f"{len(full)} {title}: {words}", **cells})
    return shown


def options() -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"some of {', '.join(PRIORS)}, with commas")
    given = parser.parse_args()
    if not set(given.only or ()) <= PRIORS.keys():
        parser.error(f"--only takes some of {', '.join(PRIORS)}")
    return given


def main() -> None:
    given = options()
    if given.markdown:
        rows = json.loads((RESULTS / "priors.json").read_text())["rows"]
        tables = [f"{m.upper()}:\n\n{markdown_table(lines(rows, m))}" for m in ("nlpd", "rmse")]
        refresh("priors", "\n\n".join(tables))
        return
    bench = Benchmark("priors", given.quick, threads=given.threads)
    chosen = list(entries(given.quick, given.only))
    if given.fresh:
        bench.forget(key_of(*entry) for entry in chosen)
    for entry in chosen:
        bench.row(key_of(*entry), lambda entry=entry: measured(*entry, bench.threads))
    if bench.path.exists():
        for measure in ("nlpd", "rmse"):
            bench.show(measure.upper(), lines(json.loads(bench.path.read_text())["rows"], measure))


if __name__ == "__main__":
    main()
