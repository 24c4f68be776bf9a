"""A whole fit of an exact Gaussian process beside its peers: seconds, evidence reached, seconds to predict.

RBF kernel with 8 lengthscales, a variance and noise, float64. All see the same standardised data, start from the same
hyperparameters and maximise the evidence by L-BFGS until they call it converged:

- StrataGP: ExactGP and training.maximise; GPRegressor: the same by the estimator, with hyperparameters="ml" and one
  start, as the others have;
- scikit-learn: its own L-BFGS, within bounds from 1e-5 to 1e5;
- GPyTorch: Cholesky at every size. Its tutorials train by Adam, which takes more evaluations, so it gets scipy's L-BFGS
  with as long a memory as ours, on logs of lengthscales and the evidence a row: the fewest steps of all we tried;
- GPflow and GPy: their own, which are scipy's too, the first with the same memory.

A fit ends when the model is ready to predict. The evidence is evaluated at the hyperparameters that each one reached by
the same plain formula. Predictions are mean and standard deviation of new observations. Contestants take turns and are
timed alone; each has fitted a small problem before.
"""

from __future__ import annotations

import time
from typing import Any

from fits import COLUMNS, OURS, PEERS, Fit, log_evidence, places, task
from harness import PAUSE, Benchmark, best_of, in_words

SIZES = {500: 5, 1000: 3, 2000: 2, 5000: 1}  # rows, and how often each contestant runs
QUICK = {200: 2, 500: 1}
NEW_ROWS = (1000, 10_000)
SAME = 0.1  # nats within which two evidences count as the same


def fit_row(name: str, fit: Fit, n: int) -> dict[str, Any]:
    """One fit and its predictions, timed."""
    t = task(n)
    print(f"{name}, n = {n}", flush=True)
    time.sleep(PAUSE)
    start = time.perf_counter()
    fitted = fit(t)
    seconds = time.perf_counter() - start
    new = {m: places(m, seed=m) for m in NEW_ROWS}
    predict = {str(m): best_of(lambda m=m: fitted.predict(new[m]), 2) for m in NEW_ROWS}
    values = {"variance": fitted.variance, "noise": fitted.noise, "lengthscale": fitted.lengthscale.tolist()}
    reached = log_evidence(t, fitted)
    return {"fit": seconds, "predict": predict, "evidence": reached, "evaluations": fitted.evaluations, **values}


def best_runs(bench: Benchmark, fits: dict[str, Fit], n: int, runs: int) -> dict[str, dict[str, Any]]:
    """Each contestant's fastest run; they take turns."""
    best: dict[str, dict[str, Any]] = {}
    for run in range(runs):
        for name, fit in fits.items():
            row = bench.row(f"{name}, n = {n}, run {run + 1}", lambda name=name, fit=fit: fit_row(name, fit, n))
            if row and (name not in best or row["fit"] < best[name]["fit"]):
                best[name] = row
    return best


def compared(n: int, best: dict[str, dict[str, Any]]) -> tuple[list[dict[str, str]], str]:
    """The lines of one size, and how we stand to the fastest peer that reached the best evidence."""
    top = max(row["evidence"] for row in best.values())
    able = {name: row for name, row in best.items() if top - row["evidence"] <= SAME}
    rival = min((name for name in able if name in PEERS), key=lambda name: able[name]["fit"], default=None)
    lines = []
    for name, row in best.items():
        faster = best[rival]["fit"] / row["fit"] if rival and name in OURS and name in able else None
        lines.append(
            {
                "n": str(n),
                "fit by": name,
                "fit": in_words(row["fit"]),
                "evidence": f"{row['evidence']:.3f}",
                "short by": f"{top - row['evidence']:.1g}" + ("" if name in able else " (!)"),
                "evaluations": str(row["evaluations"]),
                "each": in_words(row["fit"] / row["evaluations"]),
                **{f"predict {m:,}": in_words(row["predict"][str(m)]) for m in NEW_ROWS},
                "faster": f"{faster:.2f}×" if faster else "–",
            }
        )
    return lines, verdict(n, best, able, rival)


def verdict(n: int, best: dict[str, dict], able: dict[str, dict], rival: str | None) -> str:
    wanted = 3.0 if n >= 1000 else 1.0
    missed = [f"{name} ({best[name]['evidence']:.3f})" for name in best if name not in able]
    words = f"; not within {SAME} nats of the best evidence: {', '.join(missed)}" if missed else ""
    if rival is None or "StrataGP" not in able:
        return f"n = {n}: no comparison{words}"
    faster = best[rival]["fit"] / best["StrataGP"]["fit"]
    reached = "reached" if faster >= wanted else "MISSED"
    return f"n = {n}: {faster:.2f} times as fast as {rival}, the goal of {wanted:g} is {reached}{words}"


def main() -> None:
    bench = Benchmark.from_command_line("exact", __doc__)
    fits: dict[str, Fit] = bench.available({**OURS, **PEERS})
    for fit in [] if bench.markdown else fits.values():
        fit(task(60))
    sizes = QUICK if bench.quick else SIZES
    best = {n: best_runs(bench, fits, n, runs) for n, runs in sizes.items()}
    found = [compared(n, runs) for n, runs in best.items() if runs]
    title = f"Exact regression, RBF, D = {COLUMNS}, float64, {bench.threads} threads: a whole fit from the same start"
    note = "faster: than the fastest peer within 0.1 nats of the best evidence. predict: mean and deviation of new rows"
    bench.show(title, [line for lines, _ in found for line in lines], note)
    for _, words in found:
        bench.console.print(words)


if __name__ == "__main__":
    main()
