"""Deep feed-forward processes beside sparse and Student-t ones: the protocol of Kandemir and Hamprecht (2015).

2000 rows of each set at random (all, where there are fewer), one half to train and one to test, 20 times; 10 inducing
points for every sparse process, 100 iterations of L-BFGS for every model, RBF kernels with a lengthscale for each
column. NMSE is the mean square error as a share of the variance of the test targets. A star marks what a paired t-test
(p < 0.05) tells apart from DFGP; the stars of better models are in brackets.

- DFGP: as many hidden processes as columns, at most 8; hidden inducing values as Gaussians (a true bound).
- DFGP, point: hidden values as points, as in the paper.
- DFGP-WP: a linear output kernel, the Wishart-process prior.
- SGPR, FITC: one sparse process.
- Student-t: the exact Student-t process.

The paper's data (SO₂, 27 columns) are not public: DFGP 0.59 ± 0.03, DFGP-WP 0.68 ± 0.04, SGP 0.61 ± 0.03,
Student-t 0.67 ± 0.04.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from datasets import uci_extra, uci_regression
from harness import Benchmark, in_words, peer
from stratagp.estimators import DFGPRegressor, StudentTProcessRegressor
from stratagp.kernels import RBF
from stratagp.models import SparseGP
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.lbfgs import maximise
from stratagp.training.start import spreads, start_from_data

SETS = ("pol", "pumadyn32nm", "protein", "airfoil", "concrete", "energy", "wine", "powerplant")
ROWS, SPLITS, INDUCING, ITERATIONS = 2000, 20, 10, 100
Predict = Callable[[np.ndarray], np.ndarray]


def data(name: str, split: int) -> tuple[np.ndarray, ...]:
    """Two halves of rows drawn at random, standardised by the first."""
    if name == "powerplant":
        x, y = uci_extra(name)
    else:
        parts = uci_regression(name)
        x, y = np.concatenate([parts.X_train, parts.X_test]), np.concatenate([parts.y_train, parts.y_test])
    order = np.random.default_rng(split).permutation(len(y))[:ROWS]
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    centre, scale = x[train].mean(0), spreads(torch.from_numpy(x[train])).numpy()
    mean, spread = y[train].mean(), y[train].std()
    halves = [((x[part] - centre) / scale, (y[part].ravel() - mean) / spread) for part in (train, test)]
    return (*halves[0], *halves[1])


def sparse(x: np.ndarray, y: np.ndarray, bound: str, iterations: int) -> Predict:
    points, targets = torch.from_numpy(x), torch.from_numpy(y)
    kernel = start_from_data(RBF(ard=x.shape[1]), points, targets)
    gp = SparseGP(kernel, kmeans_points(points, INDUCING), bound=bound)
    maximise(lambda: gp.log_evidence(points, targets), gp.parameters(), iterations)
    posterior = gp.condition(points, targets)
    return lambda new: posterior.mean(torch.from_numpy(new)).numpy()


def deep(x: np.ndarray, y: np.ndarray, iterations: int, **options: Any) -> Predict:
    model = DFGPRegressor(n_inducing=INDUCING, max_iterations=iterations, random_state=0, **options)
    return model.fit(x, y).predict


MODELS: dict[str, Callable[..., Predict]] = {
    "DFGP": lambda x, y, n: deep(x, y, n),
    "DFGP, point": lambda x, y, n: deep(x, y, n, hidden="point"),
    "DFGP-WP": lambda x, y, n: deep(x, y, n, output_kernel="linear"),
    "SGPR": lambda x, y, n: sparse(x, y, "sgpr", n),
    "FITC": lambda x, y, n: sparse(x, y, "fitc", n),
    "Student-t": lambda x, y, n: StudentTProcessRegressor(RBF(ard=True), max_iterations=n).fit(x, y).predict,
}


def measure(name: str, split: int, quick: bool) -> dict[str, Any]:
    x, y, x_test, y_test = data(name, split)
    if quick:
        x, y = x[:100], y[:100]
    found: dict[str, Any] = {}
    for model, fit in MODELS.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the protocol stops every model after 100 iterations
            predict = fit(x, y, 5 if quick else ITERATIONS)
        seconds = time.perf_counter() - start
        error = float(np.mean((predict(x_test) - y_test) ** 2) / np.var(y_test))
        found[model] = {"nmse": error, "seconds": seconds}
    return found


def mark(ours: np.ndarray, others: np.ndarray) -> str:
    """A star for a model that is worse than DFGP, one in brackets for a better one, by a paired t-test."""
    if len(ours) < 2 or np.array_equal(ours, others):
        return ""
    test = peer("scipy.stats").ttest_rel(ours, others)
    return "" if test.pvalue >= 0.05 else " *" if ours.mean() < others.mean() else " (*)"


def main() -> None:
    bench = Benchmark.from_command_line("dfgp", __doc__)
    shown = []
    for name in SETS[:1] if bench.quick else SETS:
        splits = range(1 if bench.quick else SPLITS)
        tried = [
            bench.row(f"{name}, {i}: {ROWS}, {INDUCING}, {ITERATIONS}", lambda n=name, i=i: measure(n, i, bench.quick))
            for i in splits
        ]
        rows = [row for row in tried if row]
        if not rows:
            continue
        errors = {model: np.array([row[model]["nmse"] for row in rows]) for model in MODELS}
        line = {"set": name, "splits": str(len(rows))}
        for model, values in errors.items():
            spread = f" ± {values.std():.3f}" if len(values) > 1 else ""
            line[model] = f"{values.mean():.3f}{spread}{mark(errors['DFGP'], values)}"
        seconds = float(np.mean([row["DFGP"]["seconds"] for row in rows]))
        shown.append({**line, "DFGP trains": in_words(seconds)})
    bench.show(f"NMSE, {INDUCING} inducing points, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
