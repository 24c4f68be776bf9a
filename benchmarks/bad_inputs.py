"""Fourteen kinds of difficult input to every regressor and classifier: the right answer, or a clear error.

Rows are two columns and `y = 3 sin(2 x₁) + x₂ + noise`; classes say whether the first two exceed a half. Each case
changes the training rows (and, where units change, the new rows) in one way. Stored is what came of it: the message of
an error, or the root mean square error on 400 new rows over their standard deviation and the share of new targets
inside intervals of 95 % (of classes: the share of wrong ones, and the log loss), with warnings and seconds. Models have
their defaults, but a stack has one candidate, sparse processes 50 inducing points, and GP-DRF makes 500 epochs.

    python benchmarks/bad_inputs.py --threads 1
    python benchmarks/bad_inputs.py --only DKLRegressor
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import stratagp as s
from harness import Benchmark
from stratagp.errors import InputError

ROWS, NEW = 200, 400


class Task(NamedTuple):
    """Rows to learn from, and new ones."""

    X: Any
    y: Any
    new: np.ndarray
    truth: np.ndarray


def clean(rows: int, noise: float = 0.3, of_classes: bool = False) -> Task:
    """What all cases start from; noise has a tenth of the deviation of the targets."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (rows + NEW, 2))
    y = 3 * np.sin(2 * X[:, 0]) + X[:, 1] + noise * random.normal(size=len(X))
    y = (y > 0.5).astype(float) if of_classes else y
    return Task(X[:rows], y[:rows], X[rows:], y[rows:])


def _replaced(where: str, value: float, task: Task) -> Task:
    bad = getattr(task, where).copy()
    bad[(3, 1) if where == "X" else 3] = value
    return task._replace(**{where: bad})


def _columns(change: Callable[[np.ndarray], np.ndarray], task: Task) -> Task:
    return task._replace(X=change(task.X), new=change(task.new))


def _targets(change: Callable[[np.ndarray], np.ndarray], task: Task) -> Task:
    return task._replace(y=change(task.y), truth=change(task.truth))


def _constant(task: Task) -> Task:
    return _targets(lambda y: np.full_like(y, 7.0), task)


CASES: dict[str, Callable[[Task], Task]] = {
    "clean": lambda task: task,
    "duplicates without noise": lambda task: task._replace(X=np.repeat(task.X, 2, 0), y=np.repeat(task.y, 2)),
    "no noise": lambda task: task,
    "constant y": _constant,
    "one row": lambda task: task._replace(X=task.X[:1], y=task.y[:1]),
    "NaN in X": partial(_replaced, "X", np.nan),
    "infinity in X": partial(_replaced, "X", np.inf),
    "NaN in y": partial(_replaced, "y", np.nan),
    "infinity in y": partial(_replaced, "y", np.inf),
    "y × 1e6": partial(_targets, lambda y: y * 1e6),
    "y + 1e6": partial(_targets, lambda y: y + 1e6),
    "columns × 1e4, 1e-3": partial(_columns, lambda X: X * [1e4, 1e-3]),
    "X + 1e5": partial(_columns, lambda X: X + 1e5),
    "y as a column": lambda task: task._replace(y=task.y[:, None]),
}
REFUSED = ("NaN in X", "infinity in X", "NaN in y", "infinity in y")  # by all; stacks fill what is NaN in X
ONE_CLASS = ("constant y", "one row")  # refused by classifiers
OWN_SHAPE = ("one row", "y as a column")  # may be refused; the latter by calibration, which takes one target


def case(name: str, rows: int = ROWS, of_classes: bool = False) -> Task:
    """The rows of a case."""
    noiseless = name in ("duplicates without noise", "no noise")
    return CASES[name](clean(rows, 0.0 if noiseless else 0.3, of_classes))


def on_half(base: Any, cls: Any) -> Any:
    """A fit that learns from half of the rows and corrects by the others."""
    return _OnHalf(base, cls)


class _OnHalf:
    """A calibrated model in the manner of a plain one: the first half of the rows is for the model itself."""

    def __init__(self, base: Any, cls: Any) -> None:
        self.base, self.cls = base, cls

    def fit(self, X: Any, y: Any) -> Any:
        few = (len(X) + 1) // 2
        return self.cls(self.base.fit(X[:few], y[:few])).fit(X[few:], y[few:])


REGRESSORS: dict[str, Callable[[], Any]] = {
    "GPRegressor": lambda: s.GPRegressor(random_state=0),
    "GPRegressor vecchia": lambda: s.GPRegressor(inference="vecchia", random_state=0),
    "GPRegressor sparse": lambda: s.GPRegressor(inference="sparse", n_inducing=50, random_state=0),
    "GPRegressor stochastic": lambda: s.GPRegressor(inference="stochastic", n_inducing=50, random_state=0),
    "GPRegressor heteroscedastic": lambda: s.GPRegressor(noise="heteroscedastic", random_state=0),
    "StudentTProcessRegressor": lambda: s.StudentTProcessRegressor(random_state=0),
    "AutoGPRegressor": lambda: s.AutoGPRegressor(random_state=0),
    "DKLRegressor": lambda: s.DKLRegressor(random_state=0),
    "DFGPRegressor": lambda: s.DFGPRegressor(random_state=0),
    "WishartProcessRegressor": lambda: s.WishartProcessRegressor(random_state=0),
    "DRFRegressor": lambda: s.DRFRegressor(random_state=0),
    "GPDRFRegressor": lambda: s.GPDRFRegressor(max_epochs=500, random_state=0),
    "StrataRegressor": lambda: s.StrataRegressor(plan=["Matérn 5/2, noise varies"], random_state=0),
    "ConformalRegressor": lambda: on_half(s.GPRegressor(random_state=0), s.ConformalRegressor),
    "RecalibratedRegressor": lambda: on_half(s.GPRegressor(random_state=0), s.RecalibratedRegressor),
}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "GPClassifier laplace": lambda: s.GPClassifier(inference="laplace", random_state=0),
    "GPClassifier ep": lambda: s.GPClassifier(inference="ep", random_state=0),
    "GPClassifier variational": lambda: s.GPClassifier(inference="variational", random_state=0),
    "GPClassifier vecchia": lambda: s.GPClassifier(inference="vecchia", random_state=0),
    "GPClassifier stochastic": lambda: s.GPClassifier(inference="stochastic", n_inducing=50, random_state=0),
    "AutoGPClassifier": lambda: s.AutoGPClassifier(random_state=0),
    "DKLClassifier": lambda: s.DKLClassifier(random_state=0),
    "DFGPClassifier": lambda: s.DFGPClassifier(random_state=0),
    "DRFClassifier": lambda: s.DRFClassifier(random_state=0),
    "GPDRFClassifier": lambda: s.GPDRFClassifier(max_epochs=500, random_state=0),
    "StrataClassifier": lambda: s.StrataClassifier(plan=["Matérn 5/2"], random_state=0),
    "ConformalClassifier": lambda: on_half(s.GPClassifier(random_state=0), s.ConformalClassifier),
    "RecalibratedClassifier": lambda: on_half(s.GPClassifier(random_state=0), s.RecalibratedClassifier),
}


def tried(model: Any, task: Task, of_classes: bool) -> dict[str, Any]:
    """What a model makes of a case."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = (_classes if of_classes else _numbers)(model.fit(task.X, task.y), task)
        except InputError as error:
            found = {"refused": str(error)}
        except Exception as error:  # what no user should see
            found = {"failed": f"{type(error).__name__}: {error}"}
    said = list(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))
    return {**found, **({"warnings": said} if said else {}), "seconds": round(time.perf_counter() - start, 3)}


def _numbers(model: Any, task: Task) -> dict[str, float]:
    mean, std = model.predict(task.new, return_std=True)
    low, high = model.predict_interval(task.new, 0.95)
    answers = [np.asarray(each).reshape(NEW) for each in (mean, std, low, high)]
    mean, std, low, high = answers
    scale = float(np.std(task.truth)) or 1.0
    return {
        "finite": bool(np.isfinite(answers).all() and (std >= 0).all()),
        "error": float(np.sqrt(np.mean((mean - task.truth) ** 2)) / scale),
        "inside": float(np.mean((low <= task.truth) & (task.truth <= high))),
        "width": float(np.mean(high - low) / scale),
    }


def _classes(model: Any, task: Task) -> dict[str, float]:
    found = model.predict_proba(task.new)
    column = (task.truth == model.classes_[1]).astype(int)
    true = np.clip(found[np.arange(NEW), column], 1e-300, None)
    return {
        "finite": bool(np.isfinite(found).all() and np.allclose(found.sum(1), 1)),
        "error": float(np.mean(model.predict(task.new) != task.truth)),
        "loss": float(-np.log(true).mean()),
    }


def verdict(found: dict[str, Any], name: str, of_classes: bool) -> str:
    """ "right", "refused", or what is wrong; the bounds that the page states."""
    if "failed" in found:
        return "failed"
    if "refused" in found:
        return "refused" if name in REFUSED or (of_classes and name in ONE_CLASS) or name in OWN_SHAPE else "refused!"
    if not found["finite"]:
        return "NaN"
    if name in REFUSED and not (name == "NaN in X" and "warnings" not in found):
        return "silent"
    if of_classes:
        return "right" if found["error"] <= 0.15 and found["loss"] <= 0.4 else "wrong"
    if name == "constant y":
        return "right" if found["error"] < 1e-3 and found["inside"] == 1 else "wrong"
    if name == "one row":
        return "right" if found["inside"] >= 0.5 else "too sure"
    return "wrong" if found["error"] > 0.4 else "right" if found["inside"] >= 0.85 else "too sure"


def tried_case(make: Callable[[], Any], name: str, of_classes: bool) -> dict[str, Any]:
    """What a new model makes of a case."""
    return tried(make(), case(name, of_classes=of_classes), of_classes)


def line(model: str, rows: dict[str, dict[str, Any]], of_classes: bool) -> dict[str, str]:
    """A line of the table: the clean case, how many of the others ended well, and those that did not."""
    words = {name: verdict(found, name, of_classes) for name, found in rows.items()}
    clean, answered = rows["clean"], [rows[name]["seconds"] for name, word in words.items() if word == "right"]
    second = f"{clean['loss']:.2f}" if of_classes else f"{100 * clean['inside']:.0f} %"
    return {
        "model": model,
        "clean": f"{clean['error']:.2f}, {second}",
        "seconds": f"{clean['seconds']:.2g}",
        "longest": f"{max(answered, default=0.0):.2g}",
        "right": str(sum(word == "right" for word in words.values())),
        "refused": str(sum(word == "refused" for word in words.values())),
        "neither": ", ".join(f"{name}: {_shown(rows[name], word)}" for name, word in words.items() if _bad(word))
        or "–",
    }


def _bad(word: str) -> bool:
    return word not in ("right", "refused")


def _shown(found: dict[str, Any], word: str) -> str:
    if "error" not in found:
        return word
    second = f"{100 * found['inside']:.0f} %" if "inside" in found else f"{found['loss']:.2f}"
    return f"{found['error']:.2f}, {second}, {word}"


def main() -> None:
    bench = Benchmark.from_command_line("bad_inputs", __doc__)
    names = ("clean", "one row", "NaN in X") if bench.quick else tuple(CASES)
    for title, models, of_classes in (("Regressors", REGRESSORS, False), ("Classifiers", CLASSIFIERS, True)):
        lines = []
        for model, make in models.items():
            tries = {name: bench.row(f"{model}, {name}", partial(tried_case, make, name, of_classes)) for name in names}
            rows = {name: row for name, row in tries.items() if row}
            if len(rows) == len(names):
                lines.append(line(model, rows, of_classes))
        bench.show(f"{title}: difficult input", lines)


if __name__ == "__main__":
    main()
