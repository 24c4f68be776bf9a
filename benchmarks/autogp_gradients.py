"""Gradients of AutoGP's bound through samples, and from scores with control variates: a network on SARCOS.

Krauth et al. (2016, Figure 1) find the same optimum with any number of samples, where the black-box estimator of
Bonilla et al. needs 10,000: it knows the likelihood by its values alone, and control variates lessen its noise
(`gradients="score"`). Rows, network and error as in `autogp_sarcos.py`: the regression network of one node, 50 inducing
points for each of eight functions, batches of 1000, RMSProp at a rate of 0.003, all parameters. MSSE is the mean square
error as a share of the variance, averaged over joints.
"""

from __future__ import annotations

import time
from typing import Any

from autogp_sarcos import INDUCING, split
from harness import PAUSE, Benchmark, in_words
from stratagp.estimators import AutoGPRegressor

EPOCHS = (100, 400)
WAYS: dict[str, dict[str, Any]] = {
    f"{way}, {count} samples": {"gradients": way, "n_samples": count}
    for way in ("pathwise", "score")
    for count in (10, 100)
}


def measure(epochs: int, options: dict[str, Any]) -> dict[str, float]:
    x, y, x_test, y_test = split()
    time.sleep(PAUSE)
    start = time.perf_counter()
    paper: dict[str, Any] = {"likelihood": "gprn", "optimiser": "rmsprop", "rate": 0.003, "random_state": 0}
    model = AutoGPRegressor(n_inducing=INDUCING, max_epochs=epochs, **paper, **options).fit(x, y)
    seconds = time.perf_counter() - start
    shares = ((model.predict(x_test) - y_test) ** 2).mean(0) / y_test.var(0)
    return {"msse": float(shares.mean()), "bound": model.log_marginal_likelihood(), "seconds": seconds}


def main() -> None:
    bench = Benchmark.from_command_line("autogp_gradients", __doc__)
    shown = []
    for name, options in WAYS.items():
        line, last = {"gradients": name}, None
        for epochs in (2,) if bench.quick else EPOCHS:
            last = bench.row(f"{name}, {epochs} epochs", lambda o=options, e=epochs: measure(e, o))
            if last:
                line[f"MSSE, {epochs} epochs"] = f"{last['msse']:.4f}"
        if last:
            line |= {"bound at the end": f"{last['bound']:.0f}", "training": in_words(last["seconds"])}
        shown.append(line)
    bench.show(f"A network on SARCOS by RMSProp, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
