"""Deep feed-forward processes as one would use them, beside an exact process and gradient boosting.

The sets and halves of `dfgp.py`, without its limits: 50 inducing points and 150 iterations from each of two starts. The
exact process has an RBF kernel with a lengthscale for each column (`GPRegressor`). Boosting is scikit-learn's with
histograms, its rate, leaves and number of trees chosen by three folds of the training half. NMSE is the mean square
error as a share of the variance of the test targets, NLPD the mean negative log density of standardised test targets;
boosting has no density.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from dfgp import SETS, data, mark
from harness import Benchmark, in_words, peer
from stratagp.estimators import DFGPRegressor, GPRegressor
from stratagp.kernels import RBF

SPLITS, INDUCING, ITERATIONS = 5, 50, 150
GRID = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [8, 31], "max_iter": [100, 400], "min_samples_leaf": [5]}
MODELS = ("DFGP", "exact", "boosting")


def boosting() -> Any:
    regressor = peer("sklearn.ensemble").HistGradientBoostingRegressor(random_state=0)
    return peer("sklearn.model_selection").GridSearchCV(regressor, GRID, cv=3, scoring="neg_mean_squared_error")


def measure(name: str, split: int, quick: bool) -> dict[str, Any]:
    x, y, x_test, y_test = data(name, split)
    if quick:
        x, y = x[:100], y[:100]
    iterations = 5 if quick else ITERATIONS
    models = {
        "DFGP": DFGPRegressor(n_inducing=INDUCING, max_iterations=iterations, random_state=0),
        "exact": GPRegressor(RBF(ard=True), inference="exact"),
        "boosting": boosting(),
    }
    found: dict[str, Any] = {}
    for model, estimator in models.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # training ends after a number of iterations
            estimator.fit(x, y)
        seconds = time.perf_counter() - start
        nmse = float(np.mean((estimator.predict(x_test) - y_test) ** 2) / np.var(y_test))
        nlpd = float("nan") if model == "boosting" else -float(estimator.log_density(x_test, y_test).mean())
        found[model] = {"nmse": nmse, "nlpd": nlpd, "seconds": seconds}
    return found


def main() -> None:
    bench = Benchmark.from_command_line("dfgp_best", __doc__)
    shown = []
    for name in SETS[:1] if bench.quick else SETS:
        rows = [
            bench.row(f"{name}, {i}: {INDUCING}, {ITERATIONS}", lambda n=name, i=i: measure(n, i, bench.quick))
            for i in range(1 if bench.quick else SPLITS)
        ]
        if not all(rows):
            continue
        values = {(m, key): np.array([row[m][key] for row in rows]) for m in MODELS for key in ("nmse", "nlpd")}
        ours, line = values["DFGP", "nmse"], {"set": name}
        for m in MODELS:
            line[m] = f"{values[m, 'nmse'].mean():.3f} ± {values[m, 'nmse'].std():.3f}{mark(ours, values[m, 'nmse'])}"
        for m in MODELS[:2]:
            line[f"NLPD, {m}"] = f"{values[m, 'nlpd'].mean():.2f}"
        line["training"] = " / ".join(in_words(float(np.mean([row[m]["seconds"] for row in rows]))) for m in MODELS)
        shown.append(line)
    bench.show(f"NMSE, {SPLITS} splits, {INDUCING} inducing points, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
