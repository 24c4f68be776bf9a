"""SV-DKL on four tables of the paper (Wilson et al. 2016) beside its baselines: accuracy and NLP over five folds.

Categories are embedded, numbers standardised; the network is d-256-128-50-c with rectifiers, batch normalisation and
dropout, smaller than the paper's d-1000-1000-500-50-c. A tenth of the training rows is held out; every model ends in
the state with the best log density of them.

- network: d-256-128-50-c, trained alone.
- DNN+: the 50 features standardised and bounded, mixed into scores as in SV-DKL, without Gaussian processes.
- DNN+GP: Gaussian processes on the 50 features of DNN+, which stay as they are.
- SV-DKL: a process for each of the 50 features; the network is trained alone first, and then all together, the network
  with a tenth of its rate on Adult. On the other tables, where no model is at its best before the end, the network is
  trained alone for few epochs only, and then with all of its rate.
- SVM: RBF, on 10,000 of the training rows; C and γ chosen by 2,000 held-out rows. It has no probabilities, does without
  columns of more than 50 categories, and is judged on at most 20,000 of the test rows.

SV-DKL and DNN+ start from the same network; all are trained for the same number of epochs in all, but for DNN+GP, whose
processes come after them. The paper's figures for Diabetes are of 25 classes; this copy has the three of readmission.
Seconds are of training.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from datasets import Table, adult, connect4, covtype, diabetes130
from harness import Benchmark, in_words, peer
from stratagp.layers import Features
from stratagp.likelihoods import Mixed, Softmax
from stratagp.models import Chain, pretrain, svdkl
from stratagp.networks import Embedded, fully_connected

FOLDS, GRID, SAMPLES, WIDTHS = 5, 64, 10, [256, 128, 50]
FROZEN = 8  # epochs of processes on features that stay, at most
RATE, DECAY = 0.01, 0.1  # of processes and mixing; of the network
SETTLE = 10_000  # rows that moments of features are taken of
PAPER = {"Adult": (0.857, 0.312), "Connect-4": (0.841, 0.449), "Covertype": (0.860, 0.365), "Diabetes": None}
CONSTANTS = (GRID, SAMPLES, WIDTHS, RATE, DECAY)
MODELS = ("network", "DNN+", "DNN+GP", "SV-DKL", "SVM")
SVM_ROWS, SVM_CATEGORIES = 10_000, 50


class Task(NamedTuple):
    """A table, and how its models are trained."""

    read: Callable[[], Table]
    alone: int  # epochs of the network
    together: int  # epochs of everything
    batch: int
    rate: float
    dropout: float
    tuning: float  # the factor of the network's rate in the epochs of everything


TASKS = {
    "Adult": Task(adult, 12, 8, 256, 1e-3, 0.3, 0.1),
    "Connect-4": Task(connect4, 3, 32, 256, 2e-3, 0.2, 1.0),
    "Diabetes": Task(diabetes130, 1, 19, 512, 1e-3, 0.5, 1.0),
    "Covertype": Task(covtype, 1, 8, 1024, 3e-3, 0.0, 1.0),
}


class Fold(NamedTuple):
    """Rows to train on, to choose the state by, and to be judged on."""

    x: Tensor
    y: Tensor
    x_held: Tensor
    y_held: Tensor
    x_test: Tensor
    y_test: Tensor
    sizes: dict[int, int]
    classes: int


def fold(table: Table, number: int, rows: int | None) -> Fold:
    order = np.random.default_rng(0).permutation(len(table.y))[:rows]
    test = order[number::FOLDS]
    rest = np.setdiff1d(order, test)
    np.random.default_rng(number).shuffle(rest)
    held, train = np.split(rest, [len(rest) // 10])
    x = torch.from_numpy(table.X.astype(np.float32))
    numbers = torch.from_numpy(~table.is_categorical)
    centre, spread = x[train].mean(0), x[train].std(0)
    x = torch.where(numbers, (x - centre) / torch.where(spread > 0, spread, 1.0), x)
    y = torch.from_numpy(table.y).float()
    sizes = {int(i): int(x[:, i].max()) + 1 for i in np.flatnonzero(table.is_categorical)}
    parts = [part[index] for index in (train, held, test) for part in (x, y)]
    return Fold(*parts, sizes, int(table.y.max()) + 1)


def network(task: Task, data: Fold, widths: list[int]) -> nn.Module:
    embedded = Embedded(data.x.shape[1], data.sizes)
    return nn.Sequential(embedded, fully_connected(embedded.outputs, widths, dropout=task.dropout))


def scores(p: Tensor, y: Tensor) -> dict[str, float]:
    chosen = p[torch.arange(len(p)), y.long()].clamp_min(1e-12)
    return {"accuracy": (p.argmax(1) == y).double().mean().item(), "nlp": -chosen.log().mean().item()}


def probabilities(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(part).double() for part in x.split(1000)])


def train_network(
    task: Task, data: Fold, features: Features, head: Mixed, epochs: int, seed: int, factor: float = 1.0
) -> None:
    def score() -> float:
        features.settle(data.x[:: 1 + len(data.x) // SETTLE])
        features.eval()
        value = -scores(probabilities(lambda x: head.moments(features(x)).mean, data.x_held), data.y_held)["nlp"]
        features.train()
        return value

    options = {**options_of(task, features, seed), "rate": factor * task.rate, "epochs": epochs, "score": score}
    pretrain(features, head, data.x, data.y, **options)


def train_all(task: Task, data: Fold, features: Features, head: Mixed, seed: int) -> Chain:
    """Everything from where the network stands."""
    generator = torch.Generator().manual_seed(seed)
    model = svdkl(features, head, grid_size=GRID, n_samples=SAMPLES, generator=generator)
    return train_model(task, data, features, model, seed)


def train_model(task: Task, data: Fold, features: Features, model: Chain, seed: int) -> Chain:
    def score() -> float:
        features.settle(data.x[:: 1 + len(data.x) // SETTLE])
        return -scores(model.predict(data.x_held).mean.double(), data.y_held)["nlp"]

    rates = [(features.network.parameters(), task.tuning * task.rate / RATE)]
    options = {**options_of(task, features, seed), "rate": RATE, "rates": rates, "epochs": task.together}
    model.fit(data.x, data.y, score=score, **options)
    return model


def train_processes(task: Task, data: Fold, features: Features, head: Mixed, seed: int) -> Callable[[Tensor], Tensor]:
    """Processes and mixing alone, on features that are computed once; probabilities of rows."""
    generator = torch.Generator().manual_seed(seed)
    whole = svdkl(features, head, grid_size=GRID, n_samples=SAMPLES, generator=generator).eval()
    model = Chain(whole.layer.layers[1], whole.likelihood)
    h, h_held = (probabilities(features, x).float() for x in (data.x, data.x_held))

    def score() -> float:
        return -scores(model.predict(h_held).mean.double(), data.y_held)["nlp"]

    options = {"batch_size": task.batch, "generator": torch.Generator().manual_seed(seed), "score": score}
    model.fit(h, data.y, rate=RATE, epochs=min(FROZEN, task.together), natural=False, **options)
    return lambda x: model.predict(probabilities(features, x).float()).mean.double()


def options_of(task: Task, features: Features, seed: int) -> dict[str, Any]:
    matrices = [p for p in features.network.parameters() if p.dim() > 1]
    return {
        "batch_size": task.batch,
        "generator": torch.Generator().manual_seed(seed),
        "decays": [(matrices, DECAY)],
    }


def measure(task: Task, number: int, quick: bool) -> dict[str, Any]:
    """Every model on one fold: accuracy, NLP and seconds."""
    data = fold(task.read(), number, 3000 if quick else None)
    torch.manual_seed(number)
    alone, together = (1, 1) if quick else (task.alone, task.together)
    task = task._replace(together=together)
    found: dict[str, Any] = {}

    def note(name: str, seconds: float, predict: Callable[[Tensor], Tensor]) -> None:
        found[name] = {**scores(predict(data.x_test), data.y_test), "seconds": seconds}

    plain = Features(network(task, data, [*WIDTHS, data.classes]), data.classes, bound=None)
    identity = Mixed(Softmax(), data.classes, data.classes).fix()
    seconds, _ = timed(lambda: train_network(task, data, plain, identity, alone + together, number))
    note("network", seconds, by_network(plain, identity))

    features = Features(network(task, data, WIDTHS), WIDTHS[-1])
    head = Mixed(Softmax(), data.classes, WIDTHS[-1], torch.Generator().manual_seed(number))
    first, _ = timed(lambda: train_network(task, data, features, head, alone, number))
    parts = copy.deepcopy((features, head))
    seconds, _ = timed(lambda: train_network(task, data, *parts, together, number, factor=task.tuning))
    note("DNN+", first + seconds, by_network(*parts))
    after, frozen = timed(lambda: train_processes(task, data, *copy.deepcopy(parts), number))
    note("DNN+GP", first + seconds + after, frozen)
    seconds, model = timed(lambda: train_all(task, data, features, head, number))
    note("SV-DKL", first + seconds, lambda x: model.predict(x).mean.double())
    found["SVM"] = svm(data)
    return found


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def by_network(features: Features, head: Mixed) -> Callable[[Tensor], Tensor]:
    return lambda x: probabilities(lambda part: head.moments(features.eval()(part)).mean, x)


def svm(data: Fold) -> dict[str, float]:
    svc = peer("sklearn.svm").SVC
    start = time.perf_counter()
    x, held, test = (one_hot(part, data.sizes) for part in (data.x[:SVM_ROWS], data.x_held[:2000], data.x_test))
    scale = 1 / (x.shape[1] * x.var())
    fits = [svc(C=c, gamma=g * scale).fit(x, data.y[:SVM_ROWS]) for c in (1.0, 10.0) for g in (0.3, 1.0)]
    best = max(fits, key=lambda model: model.score(held, data.y_held[:2000]))
    accuracy = float(np.mean(best.predict(test[:20_000]) == data.y_test[:20_000].numpy()))
    return {"accuracy": accuracy, "nlp": float("nan"), "seconds": time.perf_counter() - start}


def one_hot(x: Tensor, sizes: dict[int, int]) -> np.ndarray:
    numbers = [i for i in range(x.shape[1]) if i not in sizes]
    codes = [nn.functional.one_hot(x[:, i].long(), size) for i, size in sizes.items() if size <= SVM_CATEGORIES]
    return torch.cat([x[:, numbers], *codes], 1).numpy()


def lines(name: str, rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    shown = []
    for model in MODELS:
        accuracy, nlp, seconds = (np.array([row[model][key] for row in rows]) for key in ("accuracy", "nlp", "seconds"))
        paper = PAPER[name] if model == "SV-DKL" else None
        shown.append(
            {
                "table": name,
                "model": model,
                "accuracy": f"{accuracy.mean():.4f} ± {accuracy.std():.4f}",
                "NLP": "–" if np.isnan(nlp).any() else f"{nlp.mean():.4f} ± {nlp.std():.4f}",
                "the paper's": f"{paper[0]:.3f}, {paper[1]:.3f}" if paper else "–",
                "training": in_words(float(seconds.mean())),
            }
        )
    return shown


def main() -> None:
    bench = Benchmark.from_command_line("svdkl_uci", __doc__)
    shown: list[dict[str, str]] = []
    for name, task in TASKS.items():
        folds = range(1 if bench.quick else FOLDS)
        rows = [
            bench.row(f"{name}, fold {i}: {task[1:]}, {CONSTANTS}", lambda t=task, i=i: measure(t, i, bench.quick))
            for i in folds
        ]
        shown += lines(name, [row for row in rows if row]) if all(rows) else []
    bench.show(f"SV-DKL and its baselines, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
