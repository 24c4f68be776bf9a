"""Do intervals hold as many new targets as they say? Twenty tasks whose truth is known, every regressor and classifier.

A task is a draw from a Gaussian process of two columns, RBF or Matérn-5/2 in turn, with random lengthscales and noise:
100 rows to learn from and 100 new ones. Of regressors the table has the share of new targets inside intervals of 50,
80 and 95 %; of classifiers the share of right classes and the probability that they gave to their answers, on average.
Errors are standard errors over tasks: rows of one task share a function. A model is calibrated where each share is
within three standard errors and 0.03 of what is claimed; values are learnt from 100 rows, which no table forgives.

    python benchmarks/calibration.py --threads 1
    python benchmarks/calibration.py --only AutoGPRegressor
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from bad_inputs import CLASSIFIERS, REGRESSORS
from harness import Benchmark

TASKS, QUICK_TASKS, ENOUGH = 20, 3, 10  # below the last a table does not judge
ROWS, NEW = 100, 100
LEVELS = (0.5, 0.8, 0.95)
SLACK, ERRORS = 0.03, 3.0


def task(seed: int, rows: int = ROWS, of_classes: bool = False) -> tuple[np.ndarray, ...]:
    """Rows to learn from and new ones, of a function that is drawn from a process."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (rows + NEW, 2))
    lengthscale = random.uniform(0.7, 2.0, 2)
    r = np.sqrt((((X[:, None] - X) / lengthscale) ** 2).sum(-1))
    near = np.exp(-0.5 * r**2) if seed % 2 else (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r)
    f = np.linalg.cholesky(near + 1e-9 * np.eye(len(X))) @ random.normal(size=len(X))
    if of_classes:
        y = (random.random(len(X)) < stats.norm.cdf(2 * f)).astype(int)
        y[:2] = 0, 1
    else:
        y = 5 + 3 * (f + random.uniform(0.1, 0.5) * random.normal(size=len(X)))
    return X[:rows], y[:rows], X[rows:], y[rows:]


def measured(make: Callable[[], Any], seed: int, of_classes: bool, rows: int = ROWS) -> dict[str, Any]:
    """What one model claims about one task, and what is true."""
    X, y, new, truth = task(seed, rows, of_classes)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make().fit(X, y)
    if of_classes:
        found = model.predict_proba(new)
        right = float(np.mean(model.classes_[found.argmax(1)] == truth))
        shown: dict[str, Any] = {"right": right, "claimed": float(found.max(1).mean())}
    else:
        ends = [model.predict_interval(new, level) for level in LEVELS]
        shown = {"inside": [float(np.mean((low <= truth) & (truth <= high))) for low, high in ends]}
    return {**shown, "seconds": round(time.perf_counter() - start, 2)}


def gaps(rows: list[dict[str, Any]]) -> list[tuple[float, float, float]]:
    """What was claimed, what held on average, and the standard error of the difference over tasks."""
    if "inside" in rows[0]:
        pairs = [(np.full(len(rows), level), [row["inside"][i] for row in rows]) for i, level in enumerate(LEVELS)]
    else:
        pairs = [(np.array([row["claimed"] for row in rows]), [row["right"] for row in rows])]
    return [
        (
            float(np.mean(claimed)),
            float(np.mean(held)),
            float(np.std(np.subtract(held, claimed), ddof=1) / len(rows) ** 0.5),
        )
        for claimed, held in pairs
    ]


def sureness(rows: list[dict[str, Any]]) -> str:
    """Whether the claims hold within three standard errors and ``SLACK``; in which direction they do not."""
    wrong = [held - claimed for claimed, held, error in gaps(rows) if abs(held - claimed) > ERRORS * error + SLACK]
    if not wrong:
        return "yes"
    return "too sure" if max(wrong, key=abs) < 0 else "too cautious"


def line(model: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    names = [f"{100 * level:.0f} %" for level in LEVELS] if "inside" in rows[0] else ["right"]
    shown = {name: f"{held:.3f} ± {error:.3f}" for name, (_, held, error) in zip(names, gaps(rows), strict=True)}
    claimed = {} if "inside" in rows[0] else {"claimed": f"{gaps(rows)[0][0]:.3f}"}
    seconds = np.mean([row["seconds"] for row in rows])
    return {
        "model": model,
        "tasks": str(len(rows)),
        **shown,
        **claimed,
        "calibrated": sureness(rows) if len(rows) >= ENOUGH else "–",
        "s a task": f"{seconds:.2g}",
    }


def main() -> None:
    bench = Benchmark.from_command_line("calibration", __doc__)
    for title, models, of_classes in (("Regressors", REGRESSORS, False), ("Classifiers", CLASSIFIERS, True)):
        lines = []
        for model, make in models.items():
            seeds = range(QUICK_TASKS if bench.quick else TASKS)
            found = [bench.row(f"{model}, {seed}", partial(measured, make, seed, of_classes)) for seed in seeds]
            rows = [row for row in found if row]
            if len(rows) > 1:
                lines.append(line(model, rows))
        bench.show(f"{title}: calibration on draws from processes", lines)


if __name__ == "__main__":
    main()
