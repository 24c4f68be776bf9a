"""Plain results about a fitted model, for its page: only numbers, lists and strings."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.plotting.plot_data import labels, name_of, numbers
from stratagp.report.answers import ClassAnswers, NumberAnswers
from stratagp.report.learnt import describe, effects, histories
from stratagp.report.summary import MOST_COLUMNS, InputSummary, describe_column, describe_target, read_inputs
from stratagp.report.values import plain, some

FORMAT = 1  # of the dict; pages are made from this one alone
_MOST_ROWS = 20_000  # held-out rows that figures come from
_MOST_TRAINING = 2000  # training rows, if there are no others
_WORST, _WORST_COLUMNS = 10, 6
_PACKAGES = ("stratagp", "torch", "numpy", "scipy", "scikit-learn")


def gather(
    model: Any,
    X_train: Any,
    y_train: Any,
    X_test: Any,
    y_test: Any,
    *,
    baselines: Any,
    settings: Any,
    assumptions: Any,
    title: Any,
    seed: Any,
) -> dict[str, Any]:
    """Everything that a page tells about a fitted regressor of one target, or a classifier, as a dict for JSON.

    Arguments:
        model: a fitted estimator of the library.
        X_train, y_train: what it has learnt from: frames, arrays, or lists of objects.
        X_test, y_test: rows that it has not learnt from. If both are None, each training row is predicted from all
            others where the model can do that in closed form; otherwise figures are about training rows, and the page
            tells so.
        baselines: scores of simple models on the same rows, such as ``{"mean": {"rmse": 4.2}}``: "rmse", "mae", "r2"
            and "nlpd" for numbers, "accuracy", "log_loss" and "brier" for classes.
        settings: how to repeat the fit; "command" or "call" is shown as code.
        assumptions: what was assumed about the data, in sentences.
        title: of the page.
        seed: for the choice of rows, if there are more than a page needs.

    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> gp = GPRegressor(max_iterations=0).fit(X, np.sin(X[:, 0]))
    >>> plainly = {"baselines": {}, "settings": {}, "assumptions": [], "title": "Waves", "seed": 0}
    >>> found = gather(gp, X, np.sin(X[:, 0]), None, None, **plainly)
    >>> found["performance"]["evidence"], found["data"]["rows"]
    ('leave-one-out', 20)
    """
    _check(model, X_test, y_test, baselines, settings, assumptions, title, seed)
    task = "classification" if is_classifier(model) else "regression"
    inputs = read_inputs(X_train, model)
    n = len(inputs.labels)
    y = _targets(task, y_train, n)
    columns = [describe_column(*each) for each in zip(inputs.fields[:MOST_COLUMNS], inputs.columns, strict=False)]
    classes = None
    if task == "classification":
        classes = [str(label) for label in np.asarray(model.classes_).tolist()]
    more = len(inputs.fields) - len(columns)
    versions = {"Python": platform.python_version()} | {name: importlib.metadata.version(name) for name in _PACKAGES}
    driven = effects(model, X_train, inputs, seed)
    results = {
        "format": FORMAT,
        "task": task,
        "title": title,
        "made": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "target": name_of(y_train, settings.get("target"), "the target"),
        "model": describe(model, inputs, n),
        "data": {"rows": n, "columns": columns, "more_columns": more, "target": describe_target(y, classes)},
        **_evaluated(task, model, (X_train, y, inputs), (X_test, y_test), driven["order"], seed),
        "effects": {name: value for name, value in driven.items() if name != "order"},
        "history": histories(model),
        "repeat": {"settings": settings, "assumptions": assumptions, "seed": seed, "versions": versions},
    }
    results["performance"]["baselines"] = baselines
    results["data"]["test_rows"] = None if X_test is None else results["performance"]["of"]
    return plain(results)


def _evaluated(
    task: str,
    model: BaseEstimator,
    training: tuple[Any, np.ndarray, InputSummary],
    test: tuple[Any, Any],
    order: list[int],
    seed: int,
) -> dict[str, Any]:
    """Scores, calibration and the worst rows, on rows that were held out, left out one by one, or learnt from."""
    X, y, inputs = training
    evidence, most = "training", _MOST_TRAINING
    found = NumberAnswers.left_out(model, y) if task == "regression" and test[0] is None else None
    if test[0] is not None:
        evidence, most, X = "held-out", _MOST_ROWS, test[0]
        inputs = read_inputs(X, model)
        y = _targets(task, test[1], len(inputs.labels), "y_test")
    n = len(y)
    chosen = np.arange(n)
    if found is not None:
        evidence = "leave-one-out"
    elif n > most:
        chosen = some(n, most, seed)
        X, y = _take(X, chosen), y[chosen]
    head = {"evidence": evidence, "rows": len(chosen), "of": n}
    scores: dict[str, Any] = {"confusion": None, "points": None}
    if task == "regression":
        answers = NumberAnswers.of(model, X, y) if found is None else found
        scores |= {"scores": answers.performance(), "points": answers.points(seed)}
        calibration, bad, level = answers.calibration(), answers.worst(_WORST), max(answers.ends, default=None)
    else:
        classes = ClassAnswers.of(model, X, y)
        scores |= {"scores": classes.performance(), "confusion": classes.confusion()}
        calibration, bad, level = classes.calibration(seed), classes.worst(_WORST), None
    columns = order[:_WORST_COLUMNS]
    rows = [
        {"row": inputs.labels[chosen[i]], "inputs": inputs.row(int(chosen[i]), columns), **values} for i, values in bad
    ]
    worst = {"columns": [inputs.names[j] for j in columns], "rows": rows, "level": level}
    return {"performance": {**head, **scores}, "calibration": calibration, "worst": worst}


def _targets(task: str, y: Any, n: int, name: str = "y_train") -> np.ndarray:
    if task == "classification":
        return labels(y, n)
    values = numbers(y, n, name)
    if not np.isfinite(values).all():
        raise InputError(f"{name} has missing or infinite values: drop such rows")
    return values


def _take(X: Any, rows: np.ndarray) -> Any:
    if isinstance(X, Mapping):
        return {name: _take(part, rows) for name, part in X.items()}
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[i] for i in rows] if isinstance(X, (list, tuple)) else X[rows]


def _check(
    model: Any, X_test: Any, y_test: Any, baselines: Any, settings: Any, assumptions: Any, title: Any, seed: Any
) -> None:
    if not isinstance(model, BaseEstimator) or not (is_regressor(model) or is_classifier(model)):
        raise InputError(f"model must be a fitted regressor or classifier, got {type(model).__name__}")
    check_is_fitted(model)
    if (X_test is None) != (y_test is None):
        raise InputError("give both X_test and y_test, or None for both")
    if not isinstance(baselines, Mapping) or not all(isinstance(each, Mapping) for each in baselines.values()):
        raise InputError("baselines must be a dict of dicts of numbers, such as {'mean': {'rmse': 4.2}}")
    if not isinstance(settings, Mapping):
        raise InputError(f"settings must be a dict, got {type(settings).__name__}")
    if isinstance(assumptions, str) or not all(isinstance(each, str) for each in assumptions):
        raise InputError("assumptions must be a list of sentences")
    if not isinstance(title, str):
        raise InputError(f"title must be a string, got {type(title).__name__}")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
