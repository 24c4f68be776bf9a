"""Scores of predictions on one split of a table, and what many of them say together: ranks, wins, a picture.

Standardised scores are of targets in units of the deviation of the training targets. CRPS is twice the mean quantile
loss over the probabilities of :data:`LEVELS`, for every contestant alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from stratagp.metrics import ece
from table_contestants import Answer
from table_sets import TABLES, Task

CENTRAL = (50, 80, 95)  # per cent inside
SURE = 1e-6  # the smallest probability that log loss knows
BINS = 15
_nodes, _weights = np.polynomial.legendre.leggauss(99)
LEVELS, WEIGHTS = 0.5 + 0.5 * _nodes, 0.5 * _weights

MEASURES: dict[Task, dict[str, str]] = {
    "regression": {"nlpd": "NLPD", "rmse": "RMSE", "crps": "CRPS"},
    "classification": {"log_loss": "log loss", "error": "error", "ece": "ECE"},
}
TABPFN = {  # NLPD in the units of the target: Probabilistic_Point_Estimations, 20 splits of its own
    "concrete": 2.215,
    "energy": 0.150,
    "naval": -7.33,
    "powerplant": 2.278,
    "protein": 1.732,
    "yacht": -0.731,
}

Row = dict[str, Any]
Results = dict[tuple[str, str], dict[int, Row]]  # of a table and a contestant: the rows of its splits


def of_numbers(answer: Any, y: np.ndarray, scale: float) -> Row:
    """Scores of distributions of targets; ``scale`` is the deviation of the training targets."""
    quantiles = answer.quantiles(LEVELS)
    inside = {}
    for percent in CENTRAL:
        low, high = answer.quantiles(np.array([0.5 - percent / 200, 0.5 + percent / 200])).T
        inside[f"inside_{percent}"] = float(np.mean((low <= y) & (y <= high)))
    return {
        "nlpd": float(-np.mean(answer.log_density(y)) - math.log(scale)),
        "rmse": float(np.sqrt(np.mean((y - answer.mean) ** 2)) / scale),
        "crps": crps(y, quantiles) / scale,
        **inside,
        "scale": scale,
    }


def crps(y: np.ndarray, quantiles: np.ndarray) -> float:
    """``∫ 2 (1{y ≤ q_α} − α)(q_α − y) dα`` by the quantiles at :data:`LEVELS`, one column for each."""
    gap = quantiles - y[:, None]
    return float(np.mean((2 * ((gap >= 0) - LEVELS) * gap) @ WEIGHTS))


def of_classes(answer: np.ndarray, y: np.ndarray) -> Row:
    """Scores of probabilities ``n c`` of codes from 0."""
    p = np.asarray(answer, dtype=float)
    p = p / p.sum(1, keepdims=True)  # some libraries round
    return {
        "log_loss": float(-np.mean(np.log(np.maximum(p[np.arange(len(y)), y], SURE)))),
        "error": float(np.mean(p.argmax(1) != y)),
        "ece": ece(y, p, bins=BINS),
    }


def scores(answer: Answer, y: np.ndarray, scale: float | None) -> Row:
    return of_classes(answer, y) if scale is None else of_numbers(answer, y, scale)


# Of many tables


def tables_of(results: Results, task: Task) -> list[str]:
    return [name for name in TABLES if TABLES[name].task == task and any(name == each for each, _ in results)]


def contestants_of(results: Results, task: Task) -> list[str]:
    names = tables_of(results, task)
    return list(dict.fromkeys(who for name, who in results if name in names))


def values(results: Results, name: str, who: str, measure: str) -> dict[int, float]:
    """One score by split; none of a contestant that did not finish every split it began."""
    found = results.get((name, who), {})
    return (
        {split: row[measure] for split, row in found.items()} if all(measure in row for row in found.values()) else {}
    )


def compared(results: Results, name: str, measure: str, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Scores on the splits that all have done who finished what they began: one number for each split."""
    by_split = {who: found for who in names if (found := values(results, name, who, measure))}
    shared = sorted(set.intersection(*(set(found) for found in by_split.values()))) if by_split else []
    return {who: np.array([found[split] for split in shared]) for who, found in by_split.items()} if shared else {}


def ranks(results: Results, task: Task, measure: str) -> dict[str, np.ndarray]:
    """The rank of each contestant on every table, by means over splits; who did not finish comes last."""
    names = contestants_of(results, task)
    found = []
    for name in tables_of(results, task):
        scored = compared(results, name, measure, names)
        if len(scored) > 1:
            found.append(stats.rankdata([scored[who].mean() if who in scored else math.inf for who in names]))
    return dict(zip(names, np.array(found).T, strict=True)) if found else {}


def near_best(scored: dict[str, np.ndarray]) -> dict[str, bool]:
    """Whether each is the best, or at most a standard error of the differences over splits behind the best."""
    best = min(scored, key=lambda who: scored[who].mean())
    return {who: _behind(own - scored[best]) for who, own in scored.items()}


def _behind(gaps: np.ndarray) -> bool:
    error = gaps.std(ddof=1) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return bool(gaps.mean() <= error)


def shares(results: Results, task: Task, measure: str) -> dict[str, tuple[int, int]]:
    """On how many tables each contestant is the best or within one standard error of the best, of how many."""
    names, good, total = contestants_of(results, task), {}, 0
    for name in tables_of(results, task):
        scored = compared(results, name, measure, names)
        if len(scored) > 1:
            total += 1
            for who, near in near_best(scored).items():
                good[who] = good.get(who, 0) + near
    return {who: (good.get(who, 0), total) for who in names}


def critical_difference(contestants: int, tables: int) -> float:
    """The difference of mean ranks that chance exceeds once in twenty: Nemenyi's ``q √(k (k + 1) / 6 N)``.

    >>> round(critical_difference(5, 30), 3)  # q = 2.728, Demšar 2006
    1.114
    """
    q = stats.studentized_range.ppf(0.95, contestants, np.inf) / math.sqrt(2)
    return float(q * math.sqrt(contestants * (contestants + 1) / (6 * tables)))


def draw(results: Results, path: Path) -> None:
    """Mean ranks in every measure, with Nemenyi's critical difference as a bar."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = [
        (t, m, title) for t, measures in MEASURES.items() for m, title in measures.items() if ranks(results, t, m)
    ]
    rows = math.ceil(len(panels) / 3)
    figure, axes = plt.subplots(rows, 3, figsize=(11, 2.6 * rows), layout="constrained", squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (task, measure, title) in zip(axes.flat, panels, strict=False):
        found = ranks(results, task, measure)
        means = dict(sorted(((who, each.mean()) for who, each in found.items()), key=lambda pair: -pair[1]))
        count = len(next(iter(found.values())))
        reach = critical_difference(len(found), count)
        colours = ["tab:blue" if who.startswith("Strata") else "tab:grey" for who in means]
        axis.scatter(means.values(), range(len(means)), c=colours, zorder=3)
        axis.plot([min(means.values()), min(means.values()) + reach], [-0.8, -0.8], c="black", lw=2)
        axis.set_yticks(range(len(means)), list(means))
        axis.set_title(f"{title}: mean rank on {count} tables", fontsize=10)
        axis.grid(axis="x", alpha=0.3)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=80)
    plt.close(figure)
