"""Classes of many rows: ways of inference of `GPClassifier` beside boosted trees.

Sets: adult (one-hot; the official training and test parts), covtype (class 2 or not, and all seven classes; 20,000 rows
to test, by seed 1), connect4 (one-hot, three classes; the same), spam and eeg (a fifth of the rows to test). From each,
the first `n` rows of a permutation of the training part by seed 0.

Contestants, all with their defaults unless it says otherwise:

- vecchia, stochastic: `GPClassifier(inference=…)`; laplace: the same on 2,500 rows at most (over the classes, if more
  than two).
- HistGradientBoosting of scikit-learn, with early stopping; LightGBM: 400 trees at a rate of 0.05.

Log loss, error and expected calibration error (15 bins of the highest probability) are of at most 10,000 test rows, and
seconds to predict are for these. Each contest runs in a process of its own and is ended after 400 seconds.

    STRATAGP_DATA=… python benchmarks/classes.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from datasets import Table, adult, connect4, covtype, gp_drf_fold
from harness import Benchmark, in_subprocess, in_words, peer

TESTED = 10_000
LIMIT = 400  # seconds of a contest
DENSE = 2500  # rows of Laplace's method
ROWS: dict[str, list[int]] = {  # of each set; 0 stands for all
    "adult": [5000, 20_000, 0],
    "covtype, two classes": [10_000, 50_000],
    "covtype": [10_000, 50_000],
    "connect4": [20_000],
    "spam": [0],
    "eeg": [0],
}
QUICK = {"spam": [500]}


def data(name: str, n: int) -> tuple[np.ndarray, ...]:
    """Training and test rows; columns have the mean 0 and the deviation 1 in training."""
    x, y, x_test, y_test = parts(name)
    chosen = np.random.default_rng(0).permutation(len(y))[: n or len(y)]
    x, y = x[chosen], y[chosen]
    centre, scale = x.mean(0), x.std(0)
    scale[scale == 0] = 1
    shown = slice(0, TESTED)
    return (x - centre) / scale, y, (x_test[shown] - centre) / scale, y_test[shown]


def parts(name: str) -> tuple[np.ndarray, ...]:
    if name == "adult":
        table = adult()
        x, cut = one_hot(table), table.n_train
        return x[:cut], table.y[:cut], x[cut:], table.y[cut:]
    if name in ("spam", "eeg"):
        split = gp_drf_fold(name)  # whose test parts are small
        x, y = np.concatenate([split.X_train, split.X_test]), np.concatenate([split.y_train, split.y_test]).ravel()
    elif name == "connect4":
        x, y = one_hot(connect4()), connect4().y
    else:
        table = covtype()
        x, y = table.X.astype(float), (table.y == 1).astype(int) if "two" in name else table.y
    test, train = np.split(np.random.default_rng(1).permutation(len(y)), [min(20_000, len(y) // 5)])
    return x[train], y[train], x[test], y[test]


def one_hot(table: Table) -> np.ndarray:
    parts = []
    for column, name in enumerate(table.columns):
        values = table.X[:, column]
        parts.append(np.eye(len(table.categories[name]))[values] if table.is_categorical[column] else values[:, None])
    return np.concatenate(parts, 1).astype(float)


def ours(inference: str) -> Callable[[np.ndarray, np.ndarray], Any]:
    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        from stratagp import GPClassifier

        classes = len(np.unique(y))
        most = DENSE // (classes if classes > 2 else 1) if inference == "laplace" else len(y)
        return GPClassifier(inference=inference, random_state=0).fit(x[:most], y[:most])

    return fit


def hist(x: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(early_stopping=True, random_state=0).fit(x, y)


def lightgbm(x: np.ndarray, y: np.ndarray) -> Any:
    options = {"n_estimators": 400, "learning_rate": 0.05, "num_leaves": 31, "verbose": -1, "random_state": 0}
    return peer("lightgbm").LGBMClassifier(**options).fit(x, y)


CONTESTANTS = {
    "vecchia": ours("vecchia"),
    "stochastic": ours("stochastic"),
    "laplace": ours("laplace"),
    "HistGradientBoosting": hist,
    "LightGBM": lightgbm,
}


def prepare(who: str, name: str, n: int) -> Any:
    """For :func:`harness.in_subprocess`: fit and predict."""
    x, y, x_test, y_test = data(name, n)

    def run() -> dict[str, float]:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = CONTESTANTS[who](x, y)
        fitted = time.perf_counter()
        p = model.predict_proba(x_test)
        took = time.perf_counter() - fitted
        return {"rows": len(y), "fit": fitted - start, "predict": took, **scores(p, model.classes_, y_test)}

    return run


def scores(p: np.ndarray, classes: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Log loss, error, and how far the highest probability is from the share of rows where it is right."""
    own = np.where(classes == y[:, None], p, 0.0).sum(1)
    best, right = p.max(1), classes[p.argmax(1)] == y
    bins = np.minimum((best * 15).astype(int), 14)
    gaps = [abs(best[bins == b].sum() - right[bins == b].sum()) for b in range(15)]
    return {
        "log_loss": float(-np.log(np.clip(own, 1e-15, 1)).mean()),
        "error": float(1 - right.mean()),
        "ece": float(np.sum(gaps) / len(y)),
    }


def measured(who: str, name: str, n: int, threads: int) -> dict[str, Any]:
    """A contest in a process of its own; that it did not end in time is a result, too."""
    try:
        return in_subprocess("classes:prepare", who, name, n, threads=threads, peaks=False, limit=LIMIT)._asdict()
    except TimeoutError:
        return {"result": None, "limit": LIMIT}


def line(who: str, name: str, n: int, found: dict[str, Any]) -> dict[str, str]:
    row = found["result"]
    if row is None:
        return {"set": f"{name}, {n:,} rows", "by": who, "fit": f"not finished in {found['limit']} s"}
    return {
        "set": f"{name}, {row['rows']:,} rows",
        "by": who,
        "fit": in_words(row["fit"]),
        "predict": in_words(row["predict"]),
        "log loss": f"{row['log_loss']:.4f}",
        "error": f"{100 * row['error']:.2f} %",
        "ECE": f"{row['ece']:.3f}",
    }


def main() -> None:
    bench = Benchmark.from_command_line("classes", __doc__)
    shown = []
    for who in CONTESTANTS:
        for name, sizes in (QUICK if bench.quick else ROWS).items():
            for n in sizes:
                found = bench.row(f"{name}, {n or 'all'}, {who}", partial(measured, who, name, n, bench.threads))
                if found is not None:
                    shown.append(line(who, name, n, found))
    bench.show("Classes of many rows", sorted(shown, key=lambda row: row["set"]))


if __name__ == "__main__":
    main()
