"""SV-DKL on MNIST with a convolutional network: error, NLP, and how sure it is of what it has not seen.

A LeNet-style network (32 and 64 convolutions of 5 × 5, 256 hidden units, batch norm, dropout) with 10 features;
5,000 of the 60,000 training images are held out to choose the state by. The network is trained alone first, then
everything together with a tenth of its rate. DNN+ goes on alone with that rate instead, with the same standardised
and mixed features; the plain network is trained for as many epochs. Twice: all ten digits, and odd against even ones.
Seconds are of training. The paper (Wilson et al. 2016) has an NLP of 0.028 for the digits and of 0.018 for
odd against even.

The picture shows the mean predictive entropy of test digits that are turned, and of images without digits: shuffled
pixels and uniform noise. Processes of all ten features with 200 inducing points, in place of the grids, are shown with
them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datasets import mnist
from harness import RESULTS, Benchmark, in_words, peer
from stratagp.layers import Features
from stratagp.likelihoods import Mixed, Softmax
from stratagp.models.svdkl import inducing_dkl
from stratagp.networks import lenet
from svdkl_uci import (
    CONSTANTS,
    SAMPLES,
    Fold,
    Task,
    by_network,
    scores,
    timed,
    train_all,
    train_model,
    train_network,
)

TASK = Task(read=lambda: None, alone=9, together=4, batch=128, rate=2e-3, dropout=0.4)
HELD, FEATURES, INDUCING = 5000, 10, 200
COLOURS = {"network": "tab:grey", "DNN+": "tab:orange", "SV-DKL": "tab:blue", "inducing points": "tab:green"}
PAPER = {"digits": 0.028, "odd or even": 0.018}
ANGLES = tuple(range(0, 181, 15))


def data(quick: bool, binary: bool) -> Fold:
    split = mnist()
    x, x_test = (torch.from_numpy(part).reshape(-1, 1, 28, 28) for part in (split.X_train, split.X_test))
    y, y_test = (torch.from_numpy(part % 2 if binary else part).float() for part in (split.y_train, split.y_test))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    held, train = order[:HELD], order[HELD : HELD + 2000] if quick else order[HELD:]
    return Fold(x[train], y[train], x[held], y[held], x_test, y_test, {}, 2 if binary else 10)


def new_parts(classes: int, bound: float | None) -> tuple[Features, Mixed]:
    features = Features(lenet(1, FEATURES, dropout=TASK.dropout), FEATURES, bound=bound)
    return features, Mixed(Softmax(), classes, FEATURES, torch.Generator().manual_seed(0))


def measure(binary: bool, quick: bool) -> dict[str, Any]:
    parts = data(quick, binary)
    task = TASK._replace(alone=1, together=1) if quick else TASK
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    plain = new_parts(parts.classes, None)
    seconds, _ = timed(lambda: train_network(task, parts, *plain, task.alone + task.together, 0))
    found["network"] = {**judge(by_network(*plain), parts, binary), "seconds": seconds}

    features, head = new_parts(parts.classes, 3.0)
    first, _ = timed(lambda: train_network(task, parts, features, head, task.alone, 0))
    mixed = copy.deepcopy((features, head))
    seconds, _ = timed(lambda: train_network(task, parts, *mixed, task.together, 0, factor=0.1))
    found["DNN+"] = {**judge(by_network(*mixed), parts, binary), "seconds": first + seconds}
    seconds, model = timed(lambda: train_all(task, parts, features, head, 0))
    predict = lambda x: model.predict(x).mean.double()  # noqa: E731
    found["SV-DKL"] = {**judge(predict, parts, binary), "seconds": first + seconds}
    return found


def measure_inducing(quick: bool) -> dict[str, Any]:
    """Inducing points in place of grids, behind a network that is trained alone first as before."""
    parts = data(quick, False)
    task = TASK._replace(alone=1, together=1) if quick else TASK
    torch.manual_seed(0)
    features, head = new_parts(parts.classes, 3.0)
    first, _ = timed(lambda: train_network(task, parts, features, head, task.alone, 0))
    generator = torch.Generator().manual_seed(0)
    model = inducing_dkl(features, head, parts.x, n_inducing=INDUCING, n_samples=SAMPLES, generator=generator)
    seconds, _ = timed(lambda: train_model(task, parts, features, model, 0))
    predict = lambda x: model.predict(x).mean.double()  # noqa: E731
    return {"inducing points": {**judge(predict, parts, False), "seconds": first + seconds}}


def judge(predict: Callable[[Tensor], Tensor], parts: Fold, binary: bool) -> dict[str, Any]:
    """Error and NLP of the test images, and for the ten digits the entropies of other images."""
    found: dict[str, Any] = scores(predict(parts.x_test), parts.y_test)
    if binary:
        return found
    images = parts.x_test[:2000]
    rng = np.random.default_rng(0)
    shuffled = torch.from_numpy(rng.permuted(images.flatten(1).numpy(), axis=1)).reshape(images.shape)
    uniform = torch.from_numpy(rng.random(images.shape, dtype=np.float32))
    found["entropy"] = {str(angle): entropy(predict(turned(images, angle))) for angle in ANGLES}
    found["entropy"] |= {"shuffled": entropy(predict(shuffled)), "uniform": entropy(predict(uniform))}
    return found


def turned(images: Tensor, angle: float) -> Tensor:
    found = peer("scipy.ndimage").rotate(images.numpy(), angle, axes=(2, 3), reshape=False, order=1)
    return torch.from_numpy(found)


def entropy(p: Tensor) -> float:
    return -torch.special.xlogy(p, p).sum(1).mean().item()


def draw(row: dict[str, Any]) -> None:
    pyplot = peer("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(7, 3.5), layout="constrained")
    for name, colour in COLOURS.items():
        values = row[name]["entropy"]
        axes.plot(ANGLES, [values[str(angle)] for angle in ANGLES], "o-", color=colour, label=name)
        axes.plot([200, 220], [values["shuffled"], values["uniform"]], "s", color=colour)
    axes.axhline(np.log(10), color="black", lw=0.8, ls=":")
    axes.set_xticks([*range(0, 181, 30), 200, 220], [*map(str, range(0, 181, 30)), "shuffled", "noise"], rotation=30)
    axes.set(xlabel="test digits turned by degrees", ylabel="mean predictive entropy", ylim=(0, 2.4))
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(RESULTS / "svdkl_entropy.png", dpi=150)


def main() -> None:
    bench = Benchmark.from_command_line("svdkl_mnist", __doc__)
    shown, settings = [], f"{TASK[1:]}, {HELD}, {FEATURES}, {CONSTANTS}"
    rows = {
        "digits": bench.row(f"digits: {settings}", lambda: measure(False, bench.quick)),
        "odd or even": bench.row(f"odd or even: {settings}", lambda: measure(True, bench.quick)),
    }
    inducing = bench.row(f"digits, {INDUCING} inducing points: {settings}", lambda: measure_inducing(bench.quick))
    if rows["digits"] and inducing:
        rows["digits"] |= inducing
        draw(rows["digits"])
    for name, row in rows.items():
        for model, values in (row or {}).items():
            shown.append(
                {
                    "classes": name,
                    "model": model,
                    "error": f"{100 * (1 - values['accuracy']):.2f} %",
                    "NLP": f"{values['nlp']:.4f}",
                    "the paper's": f"{PAPER[name]:.3f}" if model == "SV-DKL" else "–",
                    "training": in_words(values["seconds"]),
                }
            )
    bench.show(f"MNIST, LeNet features, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
