"""A million rows and more in constant memory: flight delays by stochastic variational regression.

Delays from month, day, minute of the day, distance and the places of origin and destination in the list of airports,
each row of inputs in a memory map on disk. One epoch by natural gradients and Adam, 200 inducing points, float32, in
a process of its own whose peak memory is measured above what it held before training. NLPD and RMSE are of 100,000
rows that were not trained on, in minutes, beside the mean and deviation of the training rows alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from datasets import flights
from harness import Benchmark, in_subprocess, in_words
from stratagp.kernels import RBF
from stratagp.likelihoods import GaussianNoise, StudentT
from stratagp.metrics import nlpd, rmse
from stratagp.models import StochasticGP
from stratagp.training.inducing_points import kmeans_points

SIZES = (100_000, 1_000_000, 2_900_000)
QUICK = (20_000,)
TEST, INDUCING, BATCH = 100_000, 200, 1000
COLUMNS = ("month", "day", "minute_of_day", "distance", "origin", "dest")


def store(folder: Path, n: int) -> None:
    """``n`` training rows and the test rows, standardised by the former, as memory maps."""
    source = flights()
    order = np.random.default_rng(0).permutation(len(source["delay"]))
    for name, rows in (("train", order[TEST : TEST + n]), ("test", order[:TEST])):
        x = np.stack([source[column][rows] for column in COLUMNS], 1).astype(np.float32)
        y = source["delay"][rows].astype(np.float32)
        if name == "train":
            centre, spread, middle, scale = x.mean(0), x.std(0), y.mean(), y.std()
            np.save(folder / "scale.npy", np.array([middle, scale]))
        np.save(folder / f"{name}_x.npy", (x - centre) / spread)
        np.save(folder / f"{name}_y.npy", (y - middle) / scale)


def prepare(n: int, likelihood: str) -> Callable[[], dict[str, float]]:
    """For :func:`harness.in_subprocess`: training from disk, and the scores of the test rows."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name)
    store(path, n)
    x, y = (np.load(path / f"train_{part}.npy", mmap_mode="r") for part in "xy")
    observed = StudentT(scale=0.3) if likelihood == "student-t" else GaussianNoise(0.8)
    z = kmeans_points(torch.from_numpy(x[:20_000].copy()), INDUCING)
    gp = StochasticGP(RBF(ard=len(COLUMNS)).set(lengthscale=2.0, variance=0.5), z, observed)

    def train() -> dict[str, float]:
        history = gp.fit(x, y, epochs=1, batch_size=BATCH, natural=likelihood == "gaussian")
        return {**scores(gp, path, folder), "seconds": history.seconds}

    return train


def scores(gp: StochasticGP, path: Path, folder: tempfile.TemporaryDirectory) -> dict[str, float]:
    x, y = (np.load(path / f"test_{part}.npy") for part in "xy")
    middle, scale = np.load(path / "scale.npy")
    found = gp.predict(x)
    targets = middle + scale * y
    density = -gp.log_predictive(x, y).double().mean().item() + np.log(scale)
    trivial = nlpd(targets, np.full(len(y), targets.mean()), np.full(len(y), targets.std()))
    folder.cleanup()
    return {
        "rmse": rmse(targets, middle + scale * found.mean[:, 0].double().numpy()),
        "nlpd": float(density),
        "rmse of the mean": float(targets.std()),
        "nlpd of the mean": float(trivial),
    }


def measure(bench: Benchmark, n: int, likelihood: str) -> dict[str, float]:
    flights()  # skips here where the data are absent
    start = time.perf_counter()
    found = in_subprocess("autogp_flights:prepare", n, likelihood, threads=bench.threads)
    return {**found.result, "memory": found.peak_bytes, "all": time.perf_counter() - start}


def main() -> None:
    bench = Benchmark.from_command_line("autogp_flights", __doc__)
    lines = []
    for likelihood in ("gaussian", "student-t"):
        for n in QUICK if bench.quick else SIZES:
            row = bench.row(f"{n} rows, {likelihood}", lambda n=n, k=likelihood: measure(bench, n, k))
            if row:
                lines.append(
                    {
                        "rows": f"{n:,}",
                        "likelihood": likelihood,
                        "an epoch": in_words(row["seconds"]),
                        "rows a second": f"{n / row['seconds']:,.0f}",
                        "peak memory": f"{row['memory'] / 2**20:.0f} MB",
                        "RMSE (of the mean)": f"{row['rmse']:.2f} ({row['rmse of the mean']:.2f})",
                        "NLPD (of the mean)": f"{row['nlpd']:.3f} ({row['nlpd of the mean']:.3f})",
                    }
                )
    bench.show(f"Flights, {INDUCING} inducing points, batches of {BATCH}, {bench.threads} threads", lines)


if __name__ == "__main__":
    main()
