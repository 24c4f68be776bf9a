"""How long an exact process takes to see ten more rows, and to forget ten, compared with a fit that learns no values.

Each answer includes mean and deviation at one new point. The peer is ``condition_on_observations`` of BoTorch's
``SingleTaskGP`` with the same values; it cannot forget. ``gap`` is the largest difference of means at 50 points between
rows that came and went and conditioning on what is left.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from harness import Benchmark, Skip, in_words, peer, race
from stratagp import GPRegressor
from stratagp import kernels as k

SIZES = (1000, 2000, 4000)
BATCH, LENGTH, NOISE = 10, 0.5, 0.01


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of two of four columns, with noise."""
    random = np.random.default_rng(0)
    X = random.uniform(size=(n, 4))
    return X, np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=n)


def fitted(X: np.ndarray, y: np.ndarray) -> GPRegressor:
    """An exact process with the values that are given."""
    kernel = k.Matern(2.5, lengthscale=[LENGTH] * 4, variance=1.0)
    gp = GPRegressor(kernel, noise=NOISE, inference="exact", standardise="none", max_iterations=0, n_restarts=0)
    return gp.fit(X, y)


def botorch_model(X: np.ndarray, y: np.ndarray) -> Any:
    """The same in BoTorch, with what it keeps for new rows computed."""
    models, kernels = peer("botorch") and peer("botorch.models"), peer("gpytorch").kernels
    covariance = kernels.ScaleKernel(kernels.MaternKernel(nu=2.5, ard_num_dims=4))
    train, targets = torch.from_numpy(X), torch.from_numpy(y)[:, None]
    mean = peer("gpytorch").means.ZeroMean()
    model = models.SingleTaskGP(train, targets, covar_module=covariance, mean_module=mean, outcome_transform=None)
    covariance.outputscale, covariance.base_kernel.lengthscale, model.likelihood.noise = 1.0, LENGTH, NOISE
    with torch.no_grad():
        _ = model.posterior(train[:1]).variance
    return model


def measured(n: int, repeats: int) -> dict[str, float]:
    """Seconds of each way, and how far the answers are from those of conditioning anew."""
    X, y = rows(n + BATCH)
    new = np.full((1, 4), 0.5)
    gp = fitted(X[:n], y[:n])
    contestants: dict[str, Any] = {
        "fit anew": lambda: fitted(X, y).predict(new, return_std=True),
        "update": lambda: copy.copy(gp).update(X[n:], y[n:]).predict(new, return_std=True),
        "forget the oldest": lambda: copy.copy(gp).forget(slice(BATCH)).predict(new, return_std=True),
    }
    try:
        model, more = botorch_model(X[:n], y[:n]), (torch.from_numpy(X[n:]), torch.from_numpy(y[n:, None]))
    except Skip as reason:
        print(reason)
    else:

        def conditioned() -> Any:
            with torch.no_grad():
                found = model.condition_on_observations(*more).posterior(torch.from_numpy(new))
                return found.mean, found.variance.sqrt()

        contestants["BoTorch"] = conditioned
    seconds = race(contestants, repeats)
    later = copy.copy(gp).update(X[n:], y[n:]).forget(slice(BATCH))
    anew, few = fitted(X[BATCH:], y[BATCH:]), rows(50)[0]
    return {**seconds, "gap": float(np.abs(later.predict(few) - anew.predict(few)).max())}


def main() -> None:
    bench = Benchmark.from_command_line("changed_rows", __doc__)
    shown = []
    for n in SIZES[:1] if bench.quick else SIZES:
        found = bench.row(f"n={n}", lambda n=n: measured(n, 3 if bench.quick else 5))
        if found:
            times = {name: in_words(value) for name, value in found.items() if name != "gap"}
            shown.append({"rows": f"{n:,}", **times, "gap": f"{found['gap']:.0e}"})
    bench.show("Ten rows more, ten rows less", shown)


if __name__ == "__main__":
    main()
