"""GP-DRF on the data of its paper (Laradji et al. 2019) beside its first layer alone, and deep random features alone.

POWERPLANT, PROTEIN, SPAM and EEG are the fold of the paper, MNIST its split. REUTERS are documents of the ModApte split
with topics, "earn" against all other topics, words as symbols; SCOP are protein domains of seven classes, a fixed tenth
of them to test: both differ from the paper's, which does not say how they were made.

- GP: sparse processes, one for each class, under the likelihood: the first layer alone.
- DRF: layers of random features of the columns; of sequences, of their whitened similarities to anchors.
- GP-DRF: sparse processes with layers of random features on top.
- n-grams: tf-idf of words, or of one to three amino acids, and logistic regression (scikit-learn), for sequences.
- boosting: scikit-learn's HistGradientBoosting with its defaults, on the four small sets; the density of numbers is
  normal, with the deviation of errors in five folds.

The kernels of REUTERS (single words, not pairs of them) and of the layers of POWERPLANT (Matérn-1/2, not 3/2) were
chosen by a tenth of the training rows.

The folds of the paper have 69 to 215 test rows. All rows of the four sets are therefore also split at random, three
times, with a tenth to test: means of the splits, and ± twice their standard error.

Test error of classes with NLP, or RMSE of standardised targets with NLPD; ± is half of a 95 % interval, for errors that
of Wilson, for RMSE by a bootstrap of test rows. Certainty is the mean Bhattacharyya distance between the two most
probable classes, of test rows that are right / wrong, as in Table II of the paper. `--quick` runs the small sets with
fewer epochs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from datasets import Split, gp_drf_fold, mnist, reuters, scop
from harness import Benchmark, in_words, peer
from stratagp import kernels as k
from stratagp.estimators import DRFClassifier, DRFRegressor, GPDRFClassifier, GPDRFRegressor
from stratagp.metrics import nlpd

OURS, SPLITS = ("GP", "DRF", "GP-DRF"), 3
PAPER = {
    "POWERPLANT": (0.207, 0.201, 0.194),
    "PROTEIN": (0.737, 0.613, 0.652),
    "SPAM": (0.043, 0.029, 0.001),
    "EEG": (0.114, 0.106, 0.016),
    "MNIST": (0.059, 0.045, 0.033),
    "REUTERS": (0.050, 0.020, 0.017),
    "SCOP": (0.301, 0.381, 0.286),
}
PAPERS_CERTAINTY = {"EEG": "37.4 / 6.4, 6.2 / 2.2, 110.5 / 5.5", "MNIST": "18.9 / 0.8, 0.3 / 0.2, 50.2 / 4.7"}


class Task(NamedTuple):
    """A data set, and how its models are trained."""

    read: Callable[[], Split]
    epochs: int
    kernel: k.Kernel | None = None
    deep: Mapping[str, Any] = MappingProxyType({})  # options of GP-DRF
    features: Mapping[str, Any] = MappingProxyType({})  # of DRF
    n_grams: dict[str, Any] | None = None
    inducing: int = 200
    processes: Mapping[str, Any] = MappingProxyType({})  # of GP and of GP-DRF

    @property
    def settings(self) -> str:
        """What a stored row depends on."""
        more = f", {dict(self.processes)}" if self.processes else ""
        return f"{self.epochs}, {self.inducing}, {self.kernel}, {dict(self.deep)}, {dict(self.features)}{more}"


def fold(name: str) -> Callable[[], Split]:
    """A fold of the paper; columns are cut at five deviations, as some values of EEG are 100 away."""

    def read() -> Split:
        split = gp_drf_fold(name)
        x, x_test = (np.clip(part, -5, 5) for part in (split.X_train, split.X_test))
        return Split(x, split.y_train.ravel(), x_test, split.y_test.ravel())

    return read


def tenth(name: str, number: int) -> Split:
    """All rows of a fold, split anew."""
    whole = TASKS[name].read()
    x, y = (np.concatenate(parts) for parts in ((whole.X_train, whole.X_test), (whole.y_train, whole.y_test)))
    test, train = np.split(np.random.default_rng(number).permutation(len(y)), [len(y) // 10])
    return Split(x[train], y[train], x[test], y[test])


def documents() -> Split:
    parts = []
    for name in ("train", "test"):
        rows = reuters()[name]
        texts = [re.findall(r"[a-z]+", f"{row['title']} {row['text']}".lower()) for row in rows]
        parts += [objects(texts), np.array(["earn" in row["topics"] for row in rows]).astype(int)]
    return Split(*parts)


def proteins() -> Split:
    z = scop()
    order = np.random.default_rng(0).permutation(len(z["sequence"]))
    sequences, labels = objects(z["sequence"].tolist()), z["scop_class"]
    test, train = np.split(order, [len(order) // 10])
    return Split(sequences[train], labels[train], sequences[test], labels[test])


def objects(items: list[Any]) -> np.ndarray:
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found


WORDS = {"analyzer": lambda words: words, "sublinear_tf": True}
ACIDS = {"analyzer": "char", "ngram_range": (1, 3), "lowercase": False, "sublinear_tf": True}
ROUGH = {"layer_kernel": k.Matern(nu=1.5, ard=True), "n_features": 300}
ROUGHER = {"layer_kernel": k.Matern(nu=0.5, ard=True), "n_features": 500}
TASKS = {
    "SPAM": Task(fold("spam"), 60, features={"n_features": 300}),
    "EEG": Task(fold("eeg"), 100, deep={"n_processes": 14}, features=ROUGH),
    "POWERPLANT": Task(fold("powerplant"), 100, deep=ROUGHER, features=ROUGHER),
    "SCOP by similar pairs": Task(proteins, 30, k.SimilarPairs(lengthscale=0.4), n_grams=ACIDS, inducing=1000),
    "SCOP by pairs at a distance": Task(
        proteins, 30, k.Double(1, 5, lengthscale=1.0, unknown={"X", "Z"}), n_grams=ACIDS, inducing=400
    ),
    "REUTERS": Task(documents, 20, k.Spectrum(1, lengthscale=1.0), n_grams=WORDS, inducing=400),
    "PROTEIN": Task(fold("protein"), 40, deep=ROUGH, features=ROUGH),
    "MNIST": Task(
        mnist,
        20,
        deep={"n_processes": 10},
        features={"n_features": 500, "width": 20},
        processes={"standardise": "none"},
    ),
}
QUICK = ("SPAM", "EEG")
REPEATED = ("SPAM", "EEG", "POWERPLANT", "PROTEIN")


def set_of(name: str) -> str:
    """The data set, whose rows several kernels may be put on."""
    return name.partition(" by ")[0]


def key(task: Task, model: str) -> str:
    """Under which a row is stored."""
    return model if model == "boosting" else f"{model}: {task.settings}"


def contestants(name: str) -> list[str]:
    """The models of a data set, ours first."""
    return [*OURS, *(["n-grams"] if TASKS[name].n_grams else []), *(["boosting"] if name in REPEATED else [])]


def measure(task: Task, data: Split, model: str, quick: bool) -> dict[str, Any]:
    classes = len(np.unique(data.y_train)) if len(np.unique(data.y_train)) < 20 else 0
    start = time.perf_counter()
    if model == "n-grams":
        assert task.n_grams is not None
        found = by_n_grams(data, task.n_grams)
    elif model == "boosting":
        found = by_boosting(data, bool(classes))
    else:
        estimator = make(task, model, bool(classes), 2 if quick else task.epochs)
        x, x_test = similarities(task, data) if model == "DRF" and task.kernel else (data.X_train, data.X_test)
        found = judged(estimator.fit(x, data.y_train), x_test, data.y_test, bool(classes))
    return {**found, "rows": len(data.y_test), "seconds": time.perf_counter() - start}


def make(task: Task, model: str, classes: bool, epochs: int) -> Any:
    options = {"max_epochs": epochs, "random_state": 0}
    if model == "DRF":
        return (DRFClassifier if classes else DRFRegressor)(**options, **task.features)
    deep = {**task.processes, **({"n_layers": 0} if model == "GP" else task.deep)}
    kind = GPDRFClassifier if classes else GPDRFRegressor
    return kind(task.kernel, n_inducing=task.inducing, **options, **deep)


def similarities(task: Task, data: Split) -> tuple[np.ndarray, np.ndarray]:
    """Sequences as vectors: similarities to anchors, whitened, so that their inner products are kernels of anchors."""
    sequences = list(data.X_train)
    chosen = k.choose_anchors(task.kernel, sequences, task.inducing, torch.Generator().manual_seed(0))
    anchors = [sequences[i] for i in chosen]
    with torch.no_grad():
        value, vector = torch.linalg.eigh(task.kernel(anchors))
        root = vector / value.clamp_min(1e-6).sqrt()
        return tuple((task.kernel(list(part), anchors) @ root).numpy() for part in (sequences, data.X_test))


def judged(model: Any, x: Any, y: np.ndarray, classes: bool) -> dict[str, float]:
    if not classes:
        errors = (model.predict(x) - y) ** 2
        return {
            "error": float(np.sqrt(errors.mean())),
            "half": bootstrap(errors),
            "nlp": -model.log_density(x, y).mean(),
        }
    p, certainty = model.predict_proba(x), model.certainty(x)
    found = scores(p, np.searchsorted(model.classes_, y))
    right = p.argmax(1) == np.searchsorted(model.classes_, y)
    means = {
        name: float(certainty[rows].mean()) if rows.any() else None
        for name, rows in (("right", right), ("wrong", ~right))
    }
    return {**found, **means}


def by_n_grams(data: Split, options: dict[str, Any]) -> dict[str, float]:
    vectors = peer("sklearn.feature_extraction.text").TfidfVectorizer(**options)
    regression = peer("sklearn.linear_model").LogisticRegressionCV(Cs=[1, 10, 100], cv=3, max_iter=300)
    regression.fit(vectors.fit_transform(data.X_train), data.y_train)
    p = regression.predict_proba(vectors.transform(data.X_test))
    return scores(p, np.searchsorted(regression.classes_, data.y_test))


def by_boosting(data: Split, classes: bool) -> dict[str, float]:
    trees, selection = peer("sklearn.ensemble"), peer("sklearn.model_selection")
    kind = trees.HistGradientBoostingClassifier if classes else trees.HistGradientBoostingRegressor
    model = kind(random_state=0).fit(data.X_train, data.y_train)
    if classes:
        return scores(model.predict_proba(data.X_test), np.searchsorted(model.classes_, data.y_test))
    left_out = selection.cross_val_predict(kind(random_state=0), data.X_train, data.y_train, cv=5)
    mean = model.predict(data.X_test)
    errors, std = (mean - data.y_test) ** 2, np.full(len(mean), np.std(left_out - data.y_train))
    return {
        "error": float(np.sqrt(errors.mean())),
        "half": bootstrap(errors),
        "nlp": nlpd(data.y_test, mean, std),
    }


def scores(p: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    chosen = p[np.arange(len(p)), codes].clip(1e-12)
    error, n, z = float(np.mean(p.argmax(1) != codes)), len(codes), 1.96
    half = z / (1 + z**2 / n) * np.sqrt(error * (1 - error) / n + z**2 / (4 * n**2))
    return {"error": error, "half": float(half), "nlp": float(-np.log(chosen).mean())}


def bootstrap(errors: np.ndarray) -> float:
    rows = np.random.default_rng(0).integers(len(errors), size=(1000, len(errors)))
    low, high = np.quantile(np.sqrt(errors[rows].mean(1)), [0.025, 0.975])
    return float((high - low) / 2)


def line(name: str, found: dict[str, dict[str, Any]]) -> dict[str, str]:
    layer = TASKS[name].deep.get("layer_kernel")
    kernels = type(TASKS[name].kernel or k.RBF()).__name__, "RBF" if layer is None else f"Matérn {layer.nu:g}"
    shown = {"data": set_of(name), "test rows": str(found["GP"]["rows"]), "kernels": " / ".join(kernels)}
    for model in (*OURS, "n-grams", "boosting"):
        row = found.get(model)
        shown[model] = f"{row['error']:.3f} ± {row['half']:.3f}, {row['nlp']:.3f}" if row else "–"
    shown["the paper's"] = " / ".join(f"{value:.3f}" for value in PAPER[set_of(name)])
    pairs = [(found[model].get("right"), found[model].get("wrong")) for model in OURS]
    told = [f"{right:.1f} / {wrong:.1f}" if right and wrong else "–" for right, wrong in pairs]
    shown["certainty"] = ", ".join(told) if any(right for right, _ in pairs) else "–"
    shown["certainty, the paper's"] = PAPERS_CERTAINTY.get(name, "–")
    shown["training"] = " / ".join(in_words(found[model]["seconds"]) for model in OURS)
    return shown


def repeated(name: str, found: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """A line about random tenths: each model's mean, and twice its standard error."""
    shown = {"data": f"{name}, tenths", "test rows": f"{len(found['GP'])} × {found['GP'][0]['rows']}"}
    for model, rows in found.items():
        errors, nlp = ([row[key] for row in rows] for key in ("error", "nlp"))
        half = 2 * np.std(errors, ddof=1) / np.sqrt(len(errors))
        shown[model] = f"{np.mean(errors):.3f} ± {half:.3f}, {np.mean(nlp):.3f}"
    return shown


def main() -> None:
    bench = Benchmark.from_command_line("gp_drf", __doc__, portable=True)
    shown = []
    for name in QUICK if bench.quick else TASKS:
        task = TASKS[name]

        def row(model: str, task: Task = task, name: str = name) -> Any:
            return bench.row(
                f"{set_of(name)}, {key(task, model)}", lambda: measure(task, task.read(), model, bench.quick)
            )

        found = {model: row(model) for model in contestants(name)}
        if all(row is not None for row in found.values()):
            shown.append(line(name, found))
    bench.show(f"Error and NLP, {bench.threads} threads", shown)
    if not bench.quick:
        show_repeated(bench)


def show_repeated(bench: Benchmark) -> None:
    """The second table: random tenths of the small folds."""
    shown = []
    for name in REPEATED:
        task = TASKS[name]

        def row(model: str, number: int, task: Task = task, name: str = name) -> Any:
            return bench.row(
                f"{name}, tenth {number}, {key(task, model)}", lambda: measure(task, tenth(name, number), model, False)
            )

        found = {model: [row(model, number) for number in range(SPLITS)] for model in contestants(name)}
        if all(row is not None for rows in found.values() for row in rows):
            shown.append(repeated(name, found))
    bench.show("Random tenths, three times", shown)


if __name__ == "__main__":
    main()
