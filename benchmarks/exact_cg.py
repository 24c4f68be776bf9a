"""The exact process of many rows by conjugate gradients, beside its Cholesky factor and beside inducing points.

Regression on the protein set (9 columns, 45,730 rows), columns and target standardised, a Matérn-5/2 kernel with a
lengthscale for each column; 1000 rows to test. `GPRegressor` with `inference`:

- exact: by a Cholesky factor, up to 5000 rows (its training takes hours beyond).
- cg: by conjugate gradients, with five steps up the evidence of all rows after a start by 2000 of them.
- sparse: the collapsed bound with 500 inducing points.

RMSE and NLPD are of the standardised target. The residual is |y − C α| / |y| in double precision. Predictions are those
of all test rows, with deviations.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from datasets import uci_regression
from harness import Benchmark, in_subprocess, in_words
from stratagp.metrics import nlpd, rmse

SIZES, QUICK, TEST, FACTORED = (5000, 10_000, 20_000, 40_000), (1000,), 1000, 5000


def data(rows: int) -> tuple[np.ndarray, ...]:
    whole = uci_regression("protein")
    x, y = np.concatenate([whole.X_train, whole.X_test]), np.concatenate([whole.y_train, whole.y_test])
    x, y = (x - x.mean(0)) / x.std(0), (y.ravel() - y.mean()) / y.std()
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:TEST], order[TEST : TEST + rows]
    return x[train], y[train], x[test], y[test]


def prepare(how: str, rows: int) -> Any:
    """For :func:`harness.in_subprocess`: fit and predict."""
    from stratagp.estimators import GPRegressor

    x, y, x_test, y_test = data(rows)

    def run() -> dict[str, Any]:
        start = time.perf_counter()
        model = GPRegressor(inference=how, standardise="none", max_epochs=5, random_state=0).fit(x, y)
        fitted = time.perf_counter()
        mean, std = model.predict(x_test, return_std=True)
        return {
            "fit": fitted - start,
            "predict": time.perf_counter() - fitted,
            "rmse": rmse(y_test, mean),
            "nlpd": nlpd(y_test, mean, std),
            "residual": model.residual_ if how == "cg" else None,
        }

    return run


def line(how: str, rows: int, found: Any) -> dict[str, str]:
    row = found["result"]
    return {
        "rows": f"{rows:,}",
        "inference": how,
        "training": in_words(row["fit"]),
        "prediction": in_words(row["predict"]),
        "memory": f"{found['memory'] / 1e9:.1f} GB" if found["memory"] else "–",
        "RMSE": f"{row['rmse']:.4f}",
        "NLPD": f"{row['nlpd']:.4f}",
        "residual": f"{row['residual']:.0e}" if row["residual"] else "–",
    }


def measure(how: str, rows: int, threads: int) -> dict[str, Any]:
    found = in_subprocess("exact_cg:prepare", how, rows, threads=threads)
    return {"result": found.result, "memory": found.peak_bytes}


def main() -> None:
    bench = Benchmark.from_command_line("exact_cg", __doc__)
    shown = []
    for rows in QUICK if bench.quick else SIZES:
        for how in ("exact", "cg", "sparse"):
            if how == "exact" and rows > FACTORED:
                continue
            found = bench.row(f"{rows} rows, {how}", lambda h=how, n=rows: measure(h, n, bench.threads))
            shown += [line(how, rows, found)] if found else []
    bench.show(f"Protein, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
