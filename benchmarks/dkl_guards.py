"""What keeps deep kernels from being surer than they should: decay, held-out rows, spectral norms, beside exact GPs.

A network fits its features to the training targets, and the process behind it then believes that little noise is left
(Ober, Rasmussen and van der Wilk 2021). Test RMSE, negative log predictive density (NLPD) and the share of test targets
inside the 95 % interval, over splits of two small UCI sets: for an exact Gaussian process without a network, an exact
one behind a network (50-10-2, tanh, marginal likelihood by L-BFGS), and `DKLRegressor` with its guards switched on one
after another.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from datasets import uci_regression
from harness import Benchmark, in_words
from stratagp.estimators import DKLRegressor, GPRegressor
from stratagp.kernels import RBF
from stratagp.metrics import rmse

SETS, SPLITS = ("concrete", "energy"), 3
BARE: dict[str, Any] = {"network": [64, 32, 8], "validation": 0.0, "weight_decay": 0.0, "max_epochs": 200}
DECAY = {**BARE, "weight_decay": 0.1}
MODELS: dict[str, dict[str, Any]] = {
    "no guard": BARE,
    "decay": DECAY,
    "decay, spectral": {**DECAY, "spectral": True},
    "decay, validation": {**DECAY, "validation": 0.1},
    "decay, validation, inducing points": {**DECAY, "validation": 0.1, "last": "inducing", "n_inducing": 100},
}


def model(name: str, columns: int, quick: bool) -> Any:
    if name == "exact GP":
        return GPRegressor(RBF(ard=True), random_state=0)
    if name == "exact GP behind a network":
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(columns, 50), nn.Tanh(), nn.Linear(50, 10), nn.Tanh(), nn.Linear(10, 2))
        return GPRegressor(RBF(1.0, variance=1.0).warp(network), standardise="both", random_state=0)
    return DKLRegressor(**{**MODELS[name], **({"max_epochs": 1} if quick else {})}, random_state=0)


def measure(name: str, table: str, split: int, quick: bool) -> dict[str, float]:
    x, y, x_test, y_test = uci_regression(table, split)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # L-BFGS is stopped early on purpose: a network never converges
        fitted = model(name, x.shape[1], quick).fit(x, y)
    seconds = time.perf_counter() - start
    low, high = fitted.predict_interval(x_test)
    return {
        "rmse": rmse(y_test, fitted.predict(x_test)),
        "nlpd": -float(np.mean(fitted.log_density(x_test, y_test))),
        "inside": float(np.mean((low < y_test) & (y_test < high))),
        "seconds": seconds,
    }


def main() -> None:
    bench = Benchmark.from_command_line("dkl_guards", __doc__)
    shown = []
    for table in SETS[:1] if bench.quick else SETS:
        for name in ("exact GP", "exact GP behind a network", *MODELS):
            splits = range(1 if bench.quick else SPLITS)
            key = f"{table}, {name}"
            rows = [
                bench.row(f"{key}, {i}", lambda i=i, n=name, t=table: measure(n, t, i, bench.quick)) for i in splits
            ]
            if not all(rows):
                continue
            mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
            shown.append(
                {
                    "table": table,
                    "model": name,
                    "RMSE": f"{mean['rmse']:.3f}",
                    "NLPD": f"{mean['nlpd']:.3f}",
                    "inside 95 %": f"{100 * mean['inside']:.0f} %",
                    "training": in_words(mean["seconds"]),
                }
            )
    bench.show(f"Guards of deep kernels, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
