"""How long a deep feed-forward process trains and predicts, on a problem of the size that its paper timed.

1800 rows, 50 columns, 12 hidden processes, 10 inducing points, 100 iterations; 4800 rows to predict. Kandemir and
Hamprecht (2015) report 161 s and 0.06 s for two classes, on a machine of their time. Here: two classes by the bound
from moments, 100 steps with all rows; and regression by 100 iterations of L-BFGS on the collapsed bound. The data are
made up: what is measured is time.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from harness import Benchmark, in_words
from stratagp.estimators import DFGPClassifier, DFGPRegressor

ROWS, COLUMNS, HIDDEN, INDUCING, ITERATIONS, NEW = 1800, 50, 12, 10, 100, 4800


def data(quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(200 if quick else ROWS, COLUMNS)), rng.normal(size=(NEW, COLUMNS))
    return x, np.sin(x[:, 0]) + np.tanh(x[:, 1] * x[:, 2]) + 0.1 * rng.normal(size=len(x)), new


def classes(quick: bool) -> dict[str, float]:
    x, y, new = data(quick)
    model = DFGPClassifier(
        n_hidden=HIDDEN,
        n_inducing=INDUCING,
        propagate="moments",
        batch_size=len(x),
        max_epochs=ITERATIONS,
        random_state=0,
    )
    return timed(lambda: model.fit(x, y > 0), lambda: model.predict_proba(new))


def regression(quick: bool) -> dict[str, float]:
    x, y, new = data(quick)
    model = DFGPRegressor(n_hidden=HIDDEN, n_inducing=INDUCING, max_iterations=ITERATIONS, n_starts=1, random_state=0)
    return timed(lambda: model.fit(x, y), lambda: model.predict(new))


def timed(fit: Any, predict: Any) -> dict[str, float]:
    start = time.perf_counter()
    fit()
    trained = time.perf_counter()
    predict()
    return {"train": trained - start, "predict": time.perf_counter() - trained}


def main() -> None:
    bench = Benchmark.from_command_line("dfgp_speed", __doc__)
    shown = [{"model": "the paper's, two classes", "training": "161 s", f"{NEW} predictions": "60 ms"}]
    for name, measure in (("two classes", classes), ("regression", regression)):
        row = bench.row(f"{name}: {ROWS}, {COLUMNS}, {HIDDEN}, {INDUCING}", lambda m=measure: m(bench.quick))
        if row:
            train, predict = in_words(row["train"]), in_words(row["predict"])
            shown.append({"model": name, "training": train, f"{NEW} predictions": predict})
    bench.show(f"{ROWS} rows, {COLUMNS} columns, {HIDDEN} hidden processes, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
