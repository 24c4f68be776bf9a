"""Does leave-one-out training help AutoGP? The bound, and Algorithm 1 by closed forms and by samples.

Test error and NLP of classes, RMSE and NLPD of numbers, standardised by the training part, averaged over random splits.
100 inducing points for each function; all other options are the defaults, so that all ways make the same number of
steps. "Closed" and "sampled" are the two estimates of the leave-one-out density (`loo_estimate`), which moves
hyperparameters and inducing points in turns with the bound.

digits and cancer are those of scikit-learn, a fifth of the rows to test; rectangles are 5,000 images of
`autogp_rectangles.py`, and 5,000 to test; concrete and energy are two small UCI tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from autogp_rectangles import rectangles
from datasets import Split, uci_regression
from harness import Benchmark, in_words, peer
from stratagp import kernels as k
from stratagp.estimators import AutoGPClassifier, AutoGPRegressor

INDUCING, SPLITS = 100, 3
WAYS: dict[str, dict[str, Any]] = {
    "bound": {"objective": "elbo"},
    "closed": {"objective": "loo", "loo_estimate": "closed"},
    "sampled": {"objective": "loo", "loo_estimate": "sampled"},
    "sampled, 100 samples": {"objective": "loo", "loo_estimate": "sampled", "n_samples": 100},
}


def of_scikit(name: str, scale: bool) -> Callable[[int], Split]:
    """A set of scikit-learn, split at random into classes of equal shares."""

    def read(split: int) -> Split:
        x, y = getattr(peer("sklearn.datasets"), f"load_{name}")(return_X_y=True)
        cut = peer("sklearn.model_selection").train_test_split
        x_train, x_test, y_train, y_test = cut(x, y, test_size=0.2, random_state=split, stratify=y)
        mean, std = (x_train.mean(0), x_train.std(0)) if scale else (0.0, 16.0)
        return Split((x_train - mean) / std, y_train, (x_test - mean) / std, y_test)

    return read


def images(split: int) -> Split:
    return Split(*rectangles(5000, 2 * split), *rectangles(5000, 2 * split + 1))


def numbers(name: str) -> Callable[[int], Split]:
    """A table of numbers, standardised by its training part."""

    def read(split: int) -> Split:
        x, y, x_test, y_test = uci_regression(name, split)
        (mean, std), (level, unit) = (x.mean(0), x.std(0)), (y.mean(), y.std())
        return Split((x - mean) / std, (y - level) / unit, (x_test - mean) / std, (y_test - level) / unit)

    return read


SETS: dict[str, tuple[Callable[[int], Split], int, list[str]]] = {  # how they are read, splits, ways
    "digits": (of_scikit("digits", False), SPLITS, list(WAYS)[:3]),
    "cancer": (of_scikit("breast_cancer", True), SPLITS, list(WAYS)),
    "rectangles": (images, 1, list(WAYS)[:3]),
    "concrete": (numbers("concrete"), SPLITS, list(WAYS)),
    "energy": (numbers("energy"), SPLITS, list(WAYS)[:3]),
}


def measure(read: Callable[[int], Split], split: int, options: dict[str, Any], quick: bool) -> dict[str, float]:
    x, y, x_test, y_test = read(split)
    own: dict[str, Any] = {
        "n_inducing": INDUCING,
        "random_state": 0,
        **({"max_epochs": 20} if quick else {}),
        **options,
    }
    if read is images:
        own["kernel"] = k.RBF(lengthscale=10.0, ard=True)
    start = time.perf_counter()
    if y.dtype.kind == "f":
        model: Any = AutoGPRegressor(**own).fit(x, y)
        seconds, density = time.perf_counter() - start, model.log_density(x_test, y_test)
        error = float(np.sqrt(np.mean((model.predict(x_test) - y_test) ** 2)))
        return {"error": error, "nlp": -float(np.mean(density)), "seconds": seconds}
    model = AutoGPClassifier(**own).fit(x, y)
    seconds, p = time.perf_counter() - start, model.predict_proba(x_test)
    nlp = -float(np.log(p[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]).mean())
    return {"error": float((model.classes_[p.argmax(1)] != y_test).mean()), "nlp": nlp, "seconds": seconds}


def line(name: str, way: str, rows: list[dict[str, float]]) -> dict[str, str]:
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    error = f"{mean['error']:.3f}" if name in ("concrete", "energy") else f"{100 * mean['error']:.2f} %"
    nlp = ", ".join(f"{row['nlp']:.3f}" for row in rows)
    return {"data": name, "way": way, "error": error, "NLP, each split": nlp, "training": in_words(mean["seconds"])}


def main() -> None:
    bench = Benchmark.from_command_line("autogp_loo", __doc__)
    shown = []
    for name in ["cancer"] if bench.quick else SETS:
        read, splits, ways = SETS[name]
        for way in ways:
            rows = []
            for split in range(1 if bench.quick else splits):
                key, options = f"{name}, {way}, {split}", WAYS[way]
                rows.append(bench.row(key, lambda o=options, i=split, r=read: measure(r, i, o, bench.quick)))
            if all(rows):
                shown.append(line(name, way, rows))
    bench.show(f"AutoGP by leave-one-out, {INDUCING} inducing points, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
