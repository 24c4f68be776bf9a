"""Regression from a thousand to a million rows: every way of inference, and what others offer.

Sets: protein, pol and pumadyn32nm (first standard split), sarcos (the first torque of the test file), powerplant, a
smooth function of eight columns with little noise, and flights (delays of 3,000,000 US flights by four columns). Of the
last four a tenth of the rows, at most 20,000, is held out, by seed 1. From each, the first `n` rows of a permutation by
seed 0.

Contestants, all with their defaults unless it says otherwise:

- exact, vecchia, sparse, stochastic: `GPRegressor(inference=…)`, a Matérn kernel with a lengthscale for each column.
- LightGBM: 400 trees at a rate of 0.05, and a Gaussian around them with the deviation of a fifth of the rows, held out.
- GPBoost 20, GPBoost 60: `GPModel` by Vecchia's approximation with so many neighbours, a Matérn-3/2 kernel, a
  lengthscale for each column. GPBoost full-scale: the same with 20 neighbours beside inducing points, where there are
  20 columns or more.
- SVGP, VNNGP: GPyTorch's variational processes with 500 inducing points, and with all rows as inducing points and 32
  neighbours; Matérn-5/2, 2,000 steps of Adam on batches of 1,024.

RMSE and NLPD are of targets in units of the deviation of the training targets; coverage is that of 95 % intervals.
Seconds to predict are those of 10,000 rows with deviations; where a set has fewer test rows, they are repeated. Imports
of libraries do not count. Each contest runs in a process of its own and is ended after 400 seconds. The most telling
ones come first.

    STRATAGP_DATA=… python benchmarks/sizes.py
    … --only vecchia,LightGBM --only protein,pol    # some contestants on some sets
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from datasets import flights, sarcos, uci_extra, uci_regression
from harness import Benchmark, Skip, in_subprocess, in_words
from sizes_peers import Answer, gpboost, lightgbm, svgp, vnngp

TESTED = 10_000
LIMIT = 400  # seconds of a contest
ROWS: dict[str, list[int]] = {  # of each set; 0 stands for all
    "protein": [1000, 4000, 10_000, 0],
    "pol": [1000, 4000, 0],
    "pumadyn32nm": [1000, 4000, 0],
    "powerplant": [1000, 4000, 0],
    "smooth": [1000, 4000, 10_000, 36_000, 200_000, 1_000_000],
    "flights": [10_000, 50_000, 200_000, 1_000_000],
    "sarcos": [1000, 0],
}
QUICK = {"smooth": [500]}
LARGEST = {"protein": 41_157, "pol": 13_500, "pumadyn32nm": 7373, "powerplant": 8612, "sarcos": 4005}  # rows of a set
MANY_COLUMNS = ("pol", "pumadyn32nm", "sarcos")
MOST = {  # rows that a contestant is given
    "exact": 45_000,
    "sparse": 60_000,
    "stochastic": 1_000_000,
    "GPBoost 20": 200_000,
    "GPBoost 60": 60_000,
    "GPBoost full-scale": 60_000,
    "SVGP": 200_000,
    "VNNGP": 200_000,
}
LEAST = {"SVGP": 4000, "VNNGP": 4000, "stochastic": 4000}  # fewer rows need none of these
SLOW = ("SVGP", "VNNGP")  # left out of quick runs


def data(name: str, n: int) -> tuple[np.ndarray, ...]:
    """Training and test rows, targets standardised by those of training."""
    if name in ("protein", "pol", "pumadyn32nm"):
        split = uci_regression(name)
        x, y, x_test, y_test = split.X_train, split.y_train.ravel(), split.X_test, split.y_test.ravel()
    else:
        x, y = {"powerplant": powerplant, "smooth": smooth, "flights": delays, "sarcos": torque}[name]()
        order = np.random.default_rng(1).permutation(len(y))
        test, train = np.split(order, [min(20_000, len(y) // 10)])
        x, y, x_test, y_test = x[train], y[train], x[test], y[test]
    chosen = np.random.default_rng(0).permutation(len(y))[: n or len(y)]
    x, y = x[chosen], y[chosen]
    mean, scale = y.mean(), y.std()
    return x, (y - mean) / scale, x_test[:TESTED], (y_test[:TESTED] - mean) / scale


def powerplant() -> tuple[np.ndarray, np.ndarray]:
    x, y = uci_extra("powerplant")
    return x, y.ravel()


def torque() -> tuple[np.ndarray, np.ndarray]:
    x, y = sarcos()
    return x, y[:, 0]


def smooth() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (1_020_000, 8))
    f = np.sin(3 * x[:, 0] + x[:, 1]) + x[:, 2] * np.cos(2 * x[:, 3]) + np.exp(-4 * (x[:, 4] ** 2 + x[:, 5] ** 2))
    return x, f + 0.03 * rng.normal(size=len(f))


def delays() -> tuple[np.ndarray, np.ndarray]:
    table = flights()
    columns = [table[name].astype(float) for name in ("month", "day", "minute_of_day", "distance")]
    return np.stack(columns, 1), np.clip(table["delay"].astype(float), -60, 240)


def ours(inference: str) -> Callable[[np.ndarray, np.ndarray], Answer]:
    def fit(x: np.ndarray, y: np.ndarray) -> Answer:
        from stratagp import GPRegressor

        model = GPRegressor(inference=inference, standardise="none", random_state=0).fit(x, y)
        return lambda new: model.predict(new, return_std=True)

    return fit


CONTESTANTS: dict[str, Callable[[np.ndarray, np.ndarray], Answer]] = {
    "vecchia": ours("vecchia"),
    "LightGBM": lightgbm,
    "GPBoost 20": gpboost,
    "GPBoost 60": partial(gpboost, n_neighbours=60),
    "exact": ours("exact"),
    "sparse": ours("sparse"),
    "SVGP": svgp,
    "VNNGP": vnngp,
    "stochastic": ours("stochastic"),
    "GPBoost full-scale": partial(gpboost, approximation="full_scale_vecchia"),
}


def contests() -> list[tuple[str, str, int]]:
    """Who, which set and how many rows (0 for all), the most telling first."""
    found = [
        (who, name, n)
        for who in CONTESTANTS
        for name, sizes in ROWS.items()
        for n in sizes
        if LEAST.get(who, 0) <= (n or LARGEST[name]) <= MOST.get(who, 10**9)
        and (name in MANY_COLUMNS or who != "GPBoost full-scale")
    ]
    first = ("vecchia", "LightGBM", "GPBoost 20", "GPBoost 60")

    def rank(contest: tuple[str, str, int]) -> tuple[bool, bool, bool]:
        who, name, n = contest
        return who not in first, name in ("flights", "sarcos") or n > 60_000, who not in first[:2]

    return sorted(found, key=rank)


def prepare(who: str, name: str, n: int) -> Any:
    """For :func:`harness.in_subprocess`: fit and predict."""
    x, y, x_test, y_test = data(name, n)
    tested = len(y_test)
    for library in ("stratagp.estimators", "lightgbm", "gpboost", "gpytorch"):
        with suppress(ImportError):
            import_module(library)
    asked = np.resize(x_test, (TESTED, x.shape[1]))

    def run() -> dict[str, float]:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        answer = CONTESTANTS[who](x, y)
        fitted = time.perf_counter()
        mean, std = (each[:tested] for each in answer(asked))
        e = (y_test - mean) / std
        return {
            "rows": len(y),
            "columns": x.shape[1],
            "fit": fitted - start,
            "predict": time.perf_counter() - fitted,
            "tested": tested,
            "rmse": float(np.sqrt(np.mean((y_test - mean) ** 2))),
            "nlpd": float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * e**2)),
            "coverage": float(np.mean(np.abs(e) < 1.96)),
        }

    return run


def measured(who: str, name: str, n: int, threads: int) -> dict[str, Any]:
    """A contest in a process of its own; that it did not end in time is a result, too."""
    try:
        return in_subprocess("sizes:prepare", who, name, n, threads=threads, peaks=False, limit=LIMIT)._asdict() | {
            "threads": threads
        }
    except TimeoutError:
        return {"result": None, "limit": LIMIT}
    except RuntimeError as error:
        raise Skip(f"it failed: {str(error).strip().splitlines()[-1]}") from error


def line(who: str, name: str, n: int, found: dict[str, Any]) -> dict[str, str]:
    row, shown = found["result"], {"set": f"{name}, {n or LARGEST[name]:,} rows", "by": who}
    if row is None:
        return shown | {"fit": f"not finished in {found['limit']} s"}
    return shown | {
        "threads": str(found.get("threads", 2)),
        "fit": in_words(row["fit"]),
        "predict": in_words(row["predict"]),
        "RMSE": f"{row['rmse']:.3f}",
        "NLPD": f"{row['nlpd']:.3f}",
        "inside 95 %": f"{100 * row['coverage']:.1f} %",
        "memory": f"{(found['peak_bytes'] or 0) / 1e9:.2f} GB",
    }


def main() -> None:
    bench = Benchmark.from_command_line("sizes", __doc__, portable=True)
    quick = [(who, name, n) for name, sizes in QUICK.items() for n in sizes for who in CONTESTANTS if who not in SLOW]
    shown = []
    for who, name, n in quick if bench.quick else contests():
        found = bench.row(f"{name}, {n or 'all'}, {who}", partial(measured, who, name, n, bench.threads))
        if found is not None:
            shown.append(line(who, name, n, found))
    bench.show("Regression by size", sorted(shown, key=lambda row: row["set"]))


if __name__ == "__main__":
    main()
