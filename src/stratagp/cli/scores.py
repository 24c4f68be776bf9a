"""Scores as a table for people."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stratagp.cli.console import aligned

_HEADINGS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "nlpd": "NLPD",
    "coverage95": "in 95 %",
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "brier": "Brier",
    "ece": "ECE",
}
ROUNDING = 1e-12  # errors below which are none

Scores = dict[str, float]


def as_table(found: Mapping[str, Scores]) -> str:
    """Scores with one row for each predictor.

    >>> print(as_table({"StrataGP": {"rmse": 1.234, "coverage95": 0.95}}))
               RMSE  in 95 %
    StrataGP  1.234     95 %
    """
    names = list(next(iter(found.values())))
    rows = [["", *(_HEADINGS[name] for name in names)]]
    for who, each in found.items():
        rows.append([who, *(_shown(name, each[name]) for name in names)])
    return aligned(rows, numbers=True)


def _shown(name: str, value: float) -> str:
    """A score; a dash where it is not known.

    >>> _shown("log_loss", float("nan")), _shown("log_loss", float("inf")), _shown("nlpd", 1e-15)
    ('–', 'inf', '0')
    """
    if math.isnan(value):
        return "–"
    if name in ("coverage95", "accuracy"):
        return f"{100 * value:.3g} %"
    return f"{0 if abs(value) <= ROUNDING else value:.4g}"
