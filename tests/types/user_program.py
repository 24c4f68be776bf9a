"""What a type checker says to a user: right calls pass, and each wrong one is an error.

``make check`` runs mypy on this file. It reports an ``ignore`` that is not needed, so a wrong call that no longer is an
error is found as well.
"""

from __future__ import annotations

import numpy as np

from stratagp import AutoGPClassifier, DKLRegressor, GPClassifier, GPRegressor, kernels

X = np.zeros((10, 2))
y = np.zeros(10)


def right() -> float:
    """Calls that users make."""
    gp: GPRegressor = GPRegressor(kernels.RBF(), inference="exact", n_restarts=2, noise=0.1).fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    only: np.ndarray = gp.predict(X)
    low, high = gp.predict_interval(X, level=0.9, of="f")
    classes: GPClassifier = GPClassifier(link="probit").fit(X, y > 0)
    deep: DKLRegressor = DKLRegressor([32, 4], max_epochs=3, standardise="targets").fit(X, y)
    batches = AutoGPClassifier(objective="loo", likelihood="softmax").fit("rows.parquet", "label", checkpoint="run")
    certain: np.ndarray = batches.certainty(X, of="probabilities")
    sums = [part.sum() for part in (mean, std, only, low, high, classes.predict_proba(X), deep.cdf(X, y), certain)]
    return float(sum(sums))


def wrong() -> None:
    """Mistakes that a type checker finds before a fit does."""
    GPRegressor(inference="exat")  # type: ignore[arg-type]
    GPRegressor(n_inducing="many")  # type: ignore[arg-type]
    GPClassifier(link="logistic")  # type: ignore[arg-type]
    DKLRegressor(last="top")  # type: ignore[arg-type]
    AutoGPClassifier(objective="elbow")  # type: ignore[arg-type]
    GPRegressor().fit(X, y).predict(X, of="g")  # type: ignore[call-overload]
