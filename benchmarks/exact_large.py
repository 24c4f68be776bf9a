"""The exact process of many rows: seconds, memory, and how far single precision is from double.

The smooth function of eight columns of `sizes.py`, 36,000 rows to learn from and 4,000 to predict, with deviations.
`GPRegressor(inference="exact")`, whose factor is in single precision here, whatever the number of rows. The error of
means is the bound |y − m − C α| / √noise, in deviations of an observation. That of deviations, relative to themselves,
is at 16 of the predicted rows, against solutions refined in double precision.

    python benchmarks/exact_large.py --threads 2
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np

from harness import Benchmark, in_subprocess, in_words
from sizes import data

ROWS, QUICK, TESTED, COMPARED = (12_000, 36_000), (6000,), 4000, 16


def prepare(rows: int) -> Any:
    """For :func:`harness.in_subprocess`: fit, predict, compare."""
    from stratagp import GPRegressor

    x, y, new, truth = data("smooth", rows)
    new, truth = new[:TESTED], truth[:TESTED]

    def run() -> dict[str, Any]:
        start = time.perf_counter()
        with mock.patch("stratagp.models.noisy_covariance.DOUBLE_ROWS", 0):
            model = GPRegressor(inference="exact", random_state=0).fit(x, y)
        fitted = time.perf_counter()
        mean, std = model.predict(new, return_std=True)
        found = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
        quality = {"rmse": float(np.sqrt(np.mean((mean - truth) ** 2))), "nlpd": _nlpd(truth, mean, std)}
        return found | quality | errors(model, new[:COMPARED])

    return run


def _nlpd(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    return float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * ((y - mean) / std) ** 2))


def errors(model: Any, new: np.ndarray) -> dict[str, Any]:
    """The largest errors of mean and deviation, and the precision of the factor."""
    import torch

    target = model.fitted_.draws[0][0]
    posterior, noise, points = target.process, target.noise, torch.from_numpy(new)
    c, kernel = posterior._observed, posterior.prior.kernel
    with torch.no_grad():
        cross, belief, least = kernel(posterior.x, points), posterior.marginals(points), c.noise.min()
        x, left = c._refined(posterior.factor.mT, cross, (1e-3 * least).expand(len(points)))
        var = kernel.diag(points) - (x * (cross + left)).sum(0) + noise
        rest = posterior.residual[:, None] - c @ posterior.alpha[:, None]
    return {
        "precision": str(posterior.factor.dtype).removeprefix("torch."),
        "mean_error": float(rest.norm() / least.sqrt()),
        "std_error": float((((belief.var[:, 0] + noise) / var).sqrt() - 1).abs().max()),
    }


def line(rows: int, found: Any) -> dict[str, str]:
    row = found["result"]
    return {
        "rows": f"{rows:,}",
        "precision": row["precision"],
        "fit": in_words(row["fit"]),
        f"predict {TESTED:,}": in_words(row["predict"]),
        "memory": f"{found['memory'] / 1e9:.1f} GB" if found["memory"] else "–",
        "RMSE": f"{row['rmse']:.4f}",
        "NLPD": f"{row['nlpd']:.3f}",
        "error of means": f"{row['mean_error']:.0e}",
        "of deviations": f"{row['std_error']:.0e}",
    }


def measure(rows: int, threads: int) -> dict[str, Any]:
    found = in_subprocess("exact_large:prepare", rows, threads=threads)
    return {"result": found.result, "memory": found.peak_bytes}


def main() -> None:
    bench = Benchmark.from_command_line("exact_large", __doc__)
    shown = []
    for rows in QUICK if bench.quick else ROWS:
        found = bench.row(f"{rows} rows", lambda n=rows: measure(n, bench.threads))
        shown += [line(rows, found)] if found else []
    bench.show(f"The exact process of many rows, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
