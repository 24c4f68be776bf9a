"""Mixtures of Gaussians against a single one as posteriors, on counts: British coal-mining disasters.

A log-Gaussian Cox process: 811 intervals of time with the number of disasters in each, Poisson, an RBF kernel, 30
inducing points. Hyperparameters are those that a single full Gaussian learns, and stay fixed, so that bounds are
comparable. Each posterior is trained from three starts, of which the best bound counts; the predictive density is of
every fifth interval, held out.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import torch

from datasets import classic
from harness import Benchmark, in_words
from stratagp.kernels import RBF
from stratagp.likelihoods import Poisson
from stratagp.means import Constant
from stratagp.models import StochasticGP, autogp

INDUCING, STARTS = 30, 3
MODELS = {
    "1 full": (1, True),
    "2 full": (2, True),
    "3 full": (3, True),
    "1 diagonal": (1, False),
    "2 diagonal": (2, False),
    "3 diagonal": (3, False),
}


def data() -> tuple[torch.Tensor, ...]:
    table = torch.from_numpy(np.asarray(classic("coal_mining_counts")["data"], dtype=float))
    counts, time = table[:, :1], (table[:, 1:] - table[:, 1].mean()) / table[:, 1].std()
    held = torch.arange(len(table)) % 5 == 2
    return time[~held], counts[~held], time[held], counts[held]


def hyperparameters(steps: int) -> StochasticGP:
    """A single full Gaussian with everything learnt."""
    x, y, _, _ = data()
    z = torch.linspace(float(x.min()), float(x.max()), INDUCING, dtype=torch.float64)[:, None]
    mean = Constant(Poisson().start(y))
    gp = autogp(RBF(0.5, variance=1.0), z, Poisson(), mean=mean, dtype=torch.float64)
    gp.fit(x, y, batch_size=len(x), steps=steps, rate=0.05, natural_rate=0.5)
    return gp


def measure(bench: Benchmark, components: int, full: bool) -> dict[str, float]:
    steps = 50 if bench.quick else 1500
    learnt = hyperparameters(steps // 3)
    x, y, x_test, y_test = data()
    results: list[dict[str, float]] = []
    for seed in range(1 if components == 1 else STARTS):
        start = time.perf_counter()
        gp = posterior_alone(learnt, components, full, seed)
        gp.fit(x, y, natural=False, batch_size=len(x), steps=steps, rate=0.02)
        with torch.no_grad():
            bound = gp.elbo(x, y).value.item()
        density = gp.log_predictive(x_test, y_test).mean().item()
        results.append({"bound": bound, "density": density, "seconds": time.perf_counter() - start})
    return max(results, key=lambda result: result["bound"])


def posterior_alone(learnt: StochasticGP, components: int, full: bool, seed: int) -> StochasticGP:
    """A new posterior under hyperparameters that stay."""
    kernel, mean = copy.deepcopy(learnt.kernel), copy.deepcopy(learnt.layer.mean)
    generator: Any = torch.Generator().manual_seed(seed)
    gp = autogp(
        kernel, learnt.layer.z.detach(), Poisson(), 1, components, full, False, mean, None, generator, torch.float64
    )
    gp.requires_grad_(False)
    gp.layer.posterior.requires_grad_(True)
    return gp


def main() -> None:
    bench = Benchmark.from_command_line("autogp_mixture", __doc__)
    rows = {name: bench.row(name, lambda o=o: measure(bench, *o)) for name, o in MODELS.items()}
    lines = [
        {
            "components": name,
            "bound on the log evidence": f"{row['bound']:.3f}",
            "held-out log density": f"{row['density']:.4f}",
            "training": in_words(row["seconds"]),
        }
        for name, row in rows.items()
        if row
    ]
    bench.show("Coal-mining disasters: Poisson counts", lines)


if __name__ == "__main__":
    main()
