"""Multiple kernel learning by a deep feed-forward process: eight views of digits, one digit against the rest.

Views of MNIST images (`views.py`): pixels, intensities, local binary patterns, oriented gradients, projections, zones,
frequencies, profiles. Few labels: 300 training images, 2,000 to test, ten times, each time another digit against the
rest. F1 of that digit, and the negative log probability (NLP) of the test labels. Every model has an RBF kernel on each
view that starts from, or is fixed at, the median distance.

- DFGP: a hidden process for each view, the variational bound by samples; point: hidden values as points, as in the
  paper; moments: the bound from moments.
- BEMKL (Gönen 2012), MKGP (Lázaro-Gredilla and Titsias 2011), an SVM on the average kernel, one on the view that is
  best in cross-validation.

The paper has other images and eight views too: DFGP 0.80 ± 0.09, BEMKL 0.79 ± 0.11, MKGP 0.70 ± 0.18, SVM 0.77 ± 0.12.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from datasets import mnist
from harness import Benchmark, in_words, peer
from stratagp.baselines import AverageKernelSVC, BEMKLClassifier, MKGPClassifier
from stratagp.estimators import DFGPClassifier
from stratagp.kernels import RBF
from views import views

TRAIN, TEST, INDUCING, EPOCHS = 300, 2000, 30, 400
MODELS = ("DFGP", "DFGP, point", "DFGP, moments", "BEMKL", "MKGP", "SVM, average", "SVM, best view")


def data(digit: int) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, np.ndarray], np.ndarray]:
    split, rng = mnist(), np.random.default_rng(digit)
    train = rng.choice(len(split.y_train), TRAIN, replace=False)
    test = rng.choice(len(split.y_test), TEST, replace=False)
    labels = [np.where(part == digit, 1, -1) for part in (split.y_train[train], split.y_test[test])]
    return views(split.X_train[train]), labels[0], views(split.X_test[test]), labels[1]


def measure(digit: int, quick: bool) -> dict[str, Any]:
    x, y, x_test, y_test = data(digit)

    def deep(**given: str) -> np.ndarray:
        options = {"n_inducing": INDUCING, "max_epochs": 1 if quick else EPOCHS, "random_state": 0}
        model = DFGPClassifier(kernel=RBF(), **given, **options).fit(x, y)
        return model.predict_proba(x_test)[:, 1]

    def best_view() -> np.ndarray:
        """What the machine says on the view with the best F1 in cross-validation."""
        tried = {name: AverageKernelSVC(random_state=0).fit(part, y) for name, part in x.items()}
        name = max(tried, key=lambda each: tried[each].score_)
        return tried[name].predict(x_test[name])

    contestants: dict[str, Callable[[], Any]] = {
        "DFGP": lambda: deep(),
        "DFGP, point": lambda: deep(hidden="point"),
        "DFGP, moments": lambda: deep(propagate="moments"),
        "BEMKL": lambda: BEMKLClassifier().fit(x, y).predict_proba(x_test)[:, 1],
        "MKGP": lambda: MKGPClassifier().fit(x, y).predict_proba(x_test)[:, 1],
        "SVM, average": lambda: AverageKernelSVC(random_state=0).fit(x, y).predict(x_test),
        "SVM, best view": best_view,
    }
    found: dict[str, Any] = {}
    for name, run in contestants.items():
        start = time.perf_counter()
        result = run()
        found[name] = {**judge(result, y_test), "seconds": time.perf_counter() - start}
    return found


def judge(result: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """F1 and NLP; a machine names classes, −1 and 1, and has no probabilities."""
    f1_score = peer("sklearn.metrics").f1_score
    if (np.abs(result) == 1).all():
        return {"f1": float(f1_score(y, result)), "nlp": float("nan")}
    likely = np.where(y > 0, result, 1 - result).clip(1e-12)
    return {"f1": float(f1_score(y, np.where(result > 0.5, 1, -1))), "nlp": float(-np.log(likely).mean())}


def main() -> None:
    bench = Benchmark.from_command_line("dfgp_mkl", __doc__)
    digits = range(1 if bench.quick else 10)
    rows = [
        bench.row(f"{digit}: {TRAIN}, {TEST}, {INDUCING}, {EPOCHS}", lambda d=digit: measure(d, bench.quick))
        for digit in digits
    ]
    if not all(rows):
        return
    shown = []
    for model in MODELS:
        f1, nlp, seconds = (np.array([row[model][key] for row in rows]) for key in ("f1", "nlp", "seconds"))
        shown.append(
            {
                "model": model,
                "F1": f"{f1.mean():.3f} ± {f1.std():.3f}",
                "NLP": "–" if np.isnan(nlp).any() else f"{nlp.mean():.3f} ± {nlp.std():.3f}",
                "training": in_words(float(seconds.mean())),
            }
        )
    bench.show(f"Eight views of digits, {TRAIN} labels, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
