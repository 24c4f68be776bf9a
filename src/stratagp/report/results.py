"""Plain results about a fitted model, for its page: only numbers, lists and strings."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.plotting.plot_data import labels, name_of, numbers
from stratagp.report.answers import ClassAnswers, NumberAnswers
from stratagp.report.learnt import describe, effects, histories, inner
from stratagp.report.places import place_map, series
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
    judges: Sequence[tuple[Any, Any, Any]] = (),
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
        judges: in place of X_test and y_test: ``(model, X, y)`` for each model of the same kind that has not seen some
            rows, with these rows. Scores are theirs, and ``model`` may have learnt from all rows.

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
    over = {}
    if task == "regression":
        about = inner(model), X_train, y, inputs, seed
        over = {"series": series(*about), "map": place_map(*about)}
    held = [Judge(*each) for each in judges] if X_test is None else [Judge(model, X_test, y_test)]
    results = {
        "format": FORMAT,
        "task": task,
        "title": title,
        "made": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "target": name_of(y_train, settings.get("target"), "the target"),
        "model": describe(model, inputs, n),
        "data": {"rows": n, "columns": columns, "more_columns": more, "target": describe_target(y, classes)},
        **_evaluated(task, model, (X_train, y, inputs), held, driven["order"], seed),
        "effects": {name: value for name, value in driven.items() if name != "order"} | over,
        "history": histories(model),
        "repeat": {"settings": settings, "assumptions": assumptions, "seed": seed, "versions": versions},
    }
    results["performance"]["baselines"] = baselines
    results["data"]["test_rows"] = results["performance"]["of"] if held else None
    return plain(results)


class Judge(NamedTuple):
    """A model, and rows with targets that it has not seen."""

    model: Any
    X: Any
    y: Any


def _evaluated(
    task: str,
    model: BaseEstimator,
    training: tuple[Any, np.ndarray, InputSummary],
    held: Sequence[Judge],
    order: list[int],
    seed: int,
) -> dict[str, Any]:
    """Scores, calibration and the worst rows, on rows that were held out, left out one by one, or learnt from."""
    answers: NumberAnswers | ClassAnswers | None = None
    if held:
        evidence = "held-out" if len(held) == 1 else "cross-validated"
        read = [read_inputs(each.X, each.model) for each in held]
        parts = [
            each._replace(y=_targets(task, each.y, len(own.labels), "y_test"))
            for each, own in zip(held, read, strict=True)
        ]
        n = sum(len(each.y) for each in parts)
        chosen = some(n, _MOST_ROWS, seed)
    else:
        X, y, inputs = training
        read, parts, n = [inputs], [Judge(model, X, y)], len(y)
        answers = NumberAnswers.left_out(model, y) if task == "regression" else None
        evidence = "training" if answers is None else "leave-one-out"
        chosen = some(n, _MOST_TRAINING, seed) if answers is None else np.arange(n)
    if answers is None:
        answers = _answers(task, parts, chosen)
    head = {"evidence": evidence, "rows": len(chosen), "of": n}
    scores: dict[str, Any] = {"scores": answers.performance(), "confusion": None, "points": None}
    if isinstance(answers, NumberAnswers):
        scores |= {"points": answers.points(seed)}
        calibration, bad, level = answers.calibration(), answers.worst(_WORST), max(answers.ends, default=None)
    else:
        scores |= {"confusion": answers.confusion()}
        calibration, bad, level = answers.calibration(seed), answers.worst(_WORST), None
    columns = order[:_WORST_COLUMNS]
    places = [(own, i) for own in read for i in range(len(own.labels))]
    rows = []
    for i, values in bad:
        own, place = places[chosen[i]]
        rows.append({"row": own.labels[place], "inputs": own.row(place, columns), **values})
    worst = {"columns": [read[0].names[j] for j in columns], "rows": rows, "level": level}
    return {"performance": {**head, **scores}, "calibration": calibration, "worst": worst}


def _answers(task: str, parts: Sequence[Judge], chosen: np.ndarray) -> NumberAnswers | ClassAnswers:
    """What models say of the chosen rows, which are counted over all of them."""
    kind: Any = NumberAnswers if task == "regression" else ClassAnswers
    found, start = list[Any](), 0
    for each in parts:
        own = chosen[(chosen >= start) & (chosen < start + len(each.y))] - start
        start += len(each.y)
        whole = len(own) == len(each.y)
        if len(own):
            found.append(kind.of(each.model, each.X if whole else _take(each.X, own), each.y[own]))
    return found[0] if len(found) == 1 else kind.joined(found)


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
