"""A Gaussian process regression network on SARCOS beside independent processes, in closed form and by samples.

Seven joint torques from 21 positions, velocities and accelerations; 3,559 rows to train, 890 to test, which are not
in the training part (of the original only its test file is used). All models have 50 inducing points for each latent
function, RBF kernels with lengthscales of their own, and batches of 1000. The network mixes two node functions by
weights that change with the input, 16 latent functions in all. In closed form posteriors move by natural gradients, by
samples all parameters move by Adam. The paper (Krauth et al. 2016, Figure 1) asks
whether the optimum depends on the number of samples. The error is the mean square error of each joint as a share of
the variance of its test targets, averaged over joints (MSSE); NLPD is of all joints of a row together.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from datasets import sarcos
from harness import PAUSE, Benchmark, in_words
from stratagp.estimators import AutoGPRegressor
from stratagp.likelihoods import GPRN

INDUCING, EPOCHS = 50, 300
OUTPUTS = 7
NETWORK = GPRN(2, [0.1] * OUTPUTS)
MODELS: dict[str, dict[str, Any]] = {
    "independent": {"n_samples": None},
    "network, closed form": {"n_samples": None, "likelihood": NETWORK},
    **{f"network, {s} samples": {"n_samples": s, "likelihood": NETWORK} for s in (10, 100)},
}


def split(rows: int = 4449) -> tuple[np.ndarray, ...]:
    x, y = sarcos()
    order = np.random.default_rng(0).permutation(len(x))[:rows]
    test = rows // 5 + 1
    return x[order[test:]], y[order[test:]], x[order[:test]], y[order[:test]]


def measure(bench: Benchmark, options: dict[str, Any]) -> dict[str, float]:
    x, y, x_test, y_test = split(1000 if bench.quick else 4449)
    time.sleep(PAUSE)
    start = time.perf_counter()
    epochs = 20 if bench.quick else EPOCHS
    model = AutoGPRegressor(n_inducing=INDUCING, max_epochs=epochs, random_state=0, **options).fit(x, y)
    seconds = time.perf_counter() - start
    shares = ((model.predict(x_test) - y_test) ** 2).mean(0) / y_test.var(0)
    nlpd = -model.log_density(x_test, y_test).mean()
    bound = model.log_marginal_likelihood()
    return {"msse": float(shares.mean()), "nlpd": float(nlpd), "bound": bound, "seconds": seconds}


def main() -> None:
    bench = Benchmark.from_command_line("autogp_sarcos", __doc__)
    rows = {name: bench.row(f"{name}, {EPOCHS} epochs", lambda o=o: measure(bench, o)) for name, o in MODELS.items()}
    lines = [
        {
            "model": name,
            "MSSE": f"{row['msse']:.4f}",
            "NLPD": f"{row['nlpd']:.3f}",
            "bound on the evidence": f"{row['bound']:.0f}",
            "training": in_words(row["seconds"]),
        }
        for name, row in rows.items()
        if row
    ]
    bench.show(f"SARCOS, {INDUCING} inducing points, {bench.threads} threads", lines)


if __name__ == "__main__":
    main()
