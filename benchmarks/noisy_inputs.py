"""Columns measured with known errors: the function of the true columns, and predictions from measured ones.

Functions of one column: 200 rows, the true column standard normal or even over −2 to 2, errors of a known deviation,
noise of 0.1; ten draws. Tables: 500 rows of each, to which errors of 0.3 deviations are added in all columns; as many
others to test; five splits. "function" is the root mean square error of the expected target at true columns, "target"
that at measured ones, NLPD the negative log density of targets at measured ones, all in the units of the function or in
deviations of the target.

- noisy inputs: NoisyInputRegressor; "flat" with truth="flat"; 50 inducing points.
- exact, varying noise: GPRegressor with an RBF kernel, and with noise="heteroscedastic".
- paper's: the noisy-input sparse process, whose belief about the columns stays where they were measured.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from datasets import uci_regression
from harness import Benchmark, in_words
from stratagp import GPRegressor, NoisyInputRegressor
from stratagp import kernels as k
from stratagp.layers import Noisy
from stratagp.models.random_inputs import RandomInputGP
from stratagp.parameters import positive
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.lbfgs import maximise
from stratagp.training.start import start_from_data

FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, bool]] = {
    "sine": (lambda t: np.sin(2 * t), 0.3, True),
    "step": (lambda t: np.tanh(4 * t), 0.3, True),
    "line": (lambda t: t, 0.5, True),
    "even sine": (lambda t: np.sin(2 * t), 0.2, False),
}
TABLES, ERROR = ("airfoil", "concrete", "energy"), 0.3
DRAWS, SPLITS, ROWS, INDUCING = 10, 5, 500, 50
Answers = tuple[np.ndarray, np.ndarray, np.ndarray]  # at true columns, at measured ones, log densities


def noisy(x: np.ndarray, y: np.ndarray, s: float, truth: str, at: tuple[np.ndarray, ...]) -> Answers:
    gp = NoisyInputRegressor(s, n_inducing=INDUCING, truth=truth).fit(x, y)  # type: ignore[arg-type]
    true, measured, targets = at
    return gp.with_known_inputs().predict(true), gp.predict(measured), gp.log_density(measured, targets)


def plain(x: np.ndarray, y: np.ndarray, s: float, noise: str, at: tuple[np.ndarray, ...]) -> Answers:
    gp = GPRegressor(k.RBF(ard=True), noise=noise).fit(x, y)  # type: ignore[arg-type]
    true, measured, targets = at
    return gp.predict(true), gp.predict(measured), gp.log_density(measured, targets)


def paper(x: np.ndarray, y: np.ndarray, s: float, at: tuple[np.ndarray, ...]) -> Answers:
    mean, spread = y.mean(), y.std()
    points, targets = torch.from_numpy(x), torch.from_numpy((y - mean) / spread)[:, None]
    kernel = start_from_data(k.RBF(ard=x.shape[1]), points, targets[:, 0])
    layer = Noisy(positive(s**2, trainable=False, name="variance"))
    gp = RandomInputGP(layer, kernel, kmeans_points(points, INDUCING))
    maximise(lambda: gp.log_evidence(points, targets), gp.parameters(), 200)
    chain = gp.condition(points, targets)
    true, measured, new = (torch.from_numpy(part) for part in at)
    with torch.no_grad():
        found = chain.layer.layers[-1](true).mean[:, 0], chain.predict(measured).mean[:, 0]  # type: ignore[index]
        density = chain.log_predictive(measured, (new - mean) / spread)
    return found[0].numpy() * spread + mean, found[1].numpy() * spread + mean, density.numpy() - np.log(spread)


MODELS: dict[str, Callable[..., Answers]] = {
    "noisy inputs": partial(noisy, truth="normal"),
    "noisy inputs, flat": partial(noisy, truth="flat"),
    "exact": partial(plain, noise="learn"),
    "varying noise": partial(plain, noise="heteroscedastic"),
    "paper's": paper,
}


def compared(x: np.ndarray, y: np.ndarray, s: float, at: tuple[np.ndarray, ...], truth: np.ndarray) -> dict[str, Any]:
    """Every model on the same rows; ``at`` has true columns, measured ones and their targets."""
    found = {}
    for name, fit in MODELS.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function, target, density = fit(x, y, s=s, at=at)
        errors = [float(np.sqrt(np.mean((a - b) ** 2))) for a, b in ((function, truth), (target, at[2]))]
        seconds = time.perf_counter() - start
        found[name] = {"function": errors[0], "target": errors[1], "nlpd": -float(density.mean()), "seconds": seconds}
    return found


def on_function(name: str, draw: int) -> dict[str, Any]:
    """200 rows to learn from, 500 to test, and the function itself at its truth."""
    function, s, normal = FUNCTIONS[name]
    random = np.random.default_rng(100 + draw)  # settings were chosen on other draws
    true = random.normal(size=(700, 1)) if normal else random.uniform(-2, 2, (700, 1))
    y = function(true[:, 0]) + 0.1 * random.normal(size=700)
    x = true + s * random.normal(size=true.shape)
    return compared(x[:200], y[:200], s, (true[200:], x[200:], y[200:]), function(true[200:, 0]))


def on_table(name: str, split: int) -> dict[str, Any]:
    """Standardised columns with errors; the function's truth is not known, so targets at true columns stand for it."""
    parts = uci_regression(name)
    x, y = np.concatenate([parts.X_train, parts.X_test]), np.concatenate([parts.y_train, parts.y_test]).ravel()
    random = np.random.default_rng(split)
    order = random.permutation(len(y))[: 2 * ROWS]
    x, y = x[order], y[order]
    train, test = slice(0, len(y) // 2), slice(len(y) // 2, None)
    x = (x - x[train].mean(0)) / x[train].std(0)
    y = (y - y[train].mean()) / y[train].std()
    measured = x + ERROR * random.normal(size=x.shape)
    return compared(measured[train], y[train], ERROR, (x[test], measured[test], y[test]), y[test])


def main() -> None:
    bench = Benchmark.from_command_line("noisy_inputs", __doc__)
    shown = []
    tasks = [(name, partial(on_function, name), DRAWS) for name in FUNCTIONS]
    tasks += [(name, partial(on_table, name), SPLITS) for name in TABLES]
    for name, measure, count in tasks[:1] if bench.quick else tasks:
        tried = [bench.row(f"{name}, {i}", partial(measure, i)) for i in range(1 if bench.quick else count)]
        rows = [row for row in tried if row]
        for model in MODELS if rows else ():
            mean = {key: float(np.mean([row[model][key] for row in rows])) for key in rows[0][model]}
            line = {
                "data": name,
                "model": model,
                "function": f"{mean['function']:.3f}",
                "target": f"{mean['target']:.3f}",
            }
            shown.append({**line, "NLPD": f"{mean['nlpd']:.2f}", "time": in_words(mean["seconds"])})
    bench.show("Columns with known errors", shown)


if __name__ == "__main__":
    main()
