"""Regression from a thousand to a million rows: every way of inference, and what others offer.

Sets: protein, pol and pumadyn32nm (first standard split), powerplant (a tenth of the rows to test, by seed 0), a smooth
function of eight columns with little noise, and flights (delays of 3,000,000 US flights by four columns; 20,000 rows to
test). From each, the first `n` rows of a permutation by seed 0.

Contestants, all with their defaults unless it says otherwise:

- exact, vecchia, sparse, stochastic: `GPRegressor(inference=…)`, a Matérn kernel with a lengthscale for each column.
- LightGBM: 400 trees at a rate of 0.05, and a Gaussian around them with the deviation of a fifth of the rows, held out.
- GPBoost: `GPModel` by Vecchia's approximation, 20 neighbours, a Matérn-3/2 kernel, a lengthscale for each column.
- GPyTorch: a stochastic variational process with 500 inducing points, 2,000 steps of Adam on batches of 1,024.

RMSE and NLPD are of targets in units of the deviation of the training targets; coverage is that of 95 % intervals.
Predictions with deviations are of all test rows, at most 10,000. Each contest runs in a process of its own.

    STRATAGP_DATA=… python benchmarks/sizes.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from datasets import flights, uci_extra, uci_regression
from harness import Benchmark, in_subprocess, in_words, peer

TESTED = 10_000
ROWS: dict[str, list[int]] = {  # of each set; 0 stands for all
    "protein": [1000, 4000, 10_000, 0],
    "pol": [1000, 4000, 0],
    "pumadyn32nm": [1000, 4000, 0],
    "powerplant": [1000, 4000, 0],
    "smooth": [1000, 4000, 10_000, 36_000],
    "flights": [10_000, 50_000, 200_000, 1_000_000],
}
QUICK = {"smooth": [500]}
MOST = {"exact": 10_000, "sparse": 60_000, "stochastic": 60_000, "GPBoost": 60_000, "GPyTorch": 60_000}  # rows


def data(name: str, n: int) -> tuple[np.ndarray, ...]:
    """Training and test rows, targets standardised by those of training."""
    if name in ("protein", "pol", "pumadyn32nm"):
        split = uci_regression(name)
        x, y, x_test, y_test = split.X_train, split.y_train.ravel(), split.X_test, split.y_test.ravel()
    else:
        x, y = {"powerplant": powerplant, "smooth": smooth, "flights": delays}[name]()
        order = np.random.default_rng(1).permutation(len(y))
        test, train = np.split(order, [min(20_000, len(y) // 10)])
        x, y, x_test, y_test = x[train], y[train], x[test], y[test]
    chosen = np.random.default_rng(0).permutation(len(y))[: n or len(y)]
    x, y = x[chosen], y[chosen]
    mean, scale = y.mean(), y.std()
    return x, (y - mean) / scale, x_test[:TESTED], (y_test[:TESTED] - mean) / scale


def powerplant() -> tuple[np.ndarray, np.ndarray]:
    x, y = uci_extra("powerplant")
    return x, y.ravel()


def smooth() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (40_000, 8))
    f = np.sin(3 * x[:, 0] + x[:, 1]) + x[:, 2] * np.cos(2 * x[:, 3]) + np.exp(-4 * (x[:, 4] ** 2 + x[:, 5] ** 2))
    return x, f + 0.03 * rng.normal(size=len(f))


def delays() -> tuple[np.ndarray, np.ndarray]:
    table = flights()
    columns = [table[name].astype(float) for name in ("month", "day", "minute_of_day", "distance")]
    return np.stack(columns, 1), np.clip(table["delay"].astype(float), -60, 240)


Answer = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def ours(inference: str) -> Callable[[np.ndarray, np.ndarray], Answer]:
    def fit(x: np.ndarray, y: np.ndarray) -> Answer:
        from stratagp import GPRegressor

        model = GPRegressor(inference=inference, standardise="none", random_state=0).fit(x, y)
        return lambda new: model.predict(new, return_std=True)

    return fit


def lightgbm(x: np.ndarray, y: np.ndarray) -> Answer:
    made = peer("lightgbm").LGBMRegressor
    cut = len(y) // 5
    options = {"n_estimators": 400, "learning_rate": 0.05, "num_leaves": 63, "verbose": -1, "random_state": 0}
    held = made(**options).fit(x[cut:], y[cut:])
    std = float(np.sqrt(np.mean((y[:cut] - held.predict(x[:cut])) ** 2)))
    model = made(**options).fit(x, y)
    return lambda new: (model.predict(new), np.full(len(new), std))


def gpboost(x: np.ndarray, y: np.ndarray) -> Answer:
    module, mean, scale = peer("gpboost"), x.mean(0), x.std(0)
    model = module.GPModel(
        gp_coords=(x - mean) / scale,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        likelihood="gaussian",
        gp_approx="vecchia",
        num_neighbors=20,
        seed=0,
    )
    model.fit(y=y)

    def answer(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = model.predict(gp_coords_pred=(new - mean) / scale, predict_var=True, predict_response=True)
        return found["mu"], np.sqrt(found["var"])

    return answer


def gpytorch_svgp(x: np.ndarray, y: np.ndarray) -> Answer:
    import torch

    gp = peer("gpytorch")
    torch.manual_seed(0)
    mean, scale = x.mean(0), x.std(0)
    points, targets = (torch.tensor(v, dtype=torch.float32) for v in ((x - mean) / scale, y))

    class Model(gp.models.ApproximateGP):
        def __init__(self, z: torch.Tensor) -> None:
            q = gp.variational.CholeskyVariationalDistribution(len(z))
            super().__init__(gp.variational.VariationalStrategy(self, z, q, learn_inducing_locations=True))
            self.mean_module = gp.means.ConstantMean()
            self.kernel = gp.kernels.ScaleKernel(gp.kernels.MaternKernel(2.5, ard_num_dims=z.shape[1]))

        def forward(self, rows: torch.Tensor) -> Any:
            return gp.distributions.MultivariateNormal(self.mean_module(rows), self.kernel(rows))

    model = Model(points[torch.randperm(len(points))[:500]].clone())
    noise = gp.likelihoods.GaussianLikelihood()
    bound = gp.mlls.VariationalELBO(noise, model, len(y))
    optimiser = torch.optim.Adam([*model.parameters(), *noise.parameters()], 0.01)
    for _ in range(2000):
        rows = torch.randint(len(y), (1024,))
        optimiser.zero_grad()
        (-bound(model(points[rows]), targets[rows])).backward()
        optimiser.step()

    def answer(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            found = noise(model.eval()(torch.tensor((new - mean) / scale, dtype=torch.float32)))
            return found.mean.double().numpy(), found.stddev.double().numpy()

    return answer


CONTESTANTS = {
    "vecchia": ours("vecchia"),
    "LightGBM": lightgbm,
    "exact": ours("exact"),
    "GPBoost": gpboost,
    "sparse": ours("sparse"),
    "GPyTorch": gpytorch_svgp,
    "stochastic": ours("stochastic"),
}


def prepare(who: str, name: str, n: int) -> Any:
    """For :func:`harness.in_subprocess`: fit and predict."""
    x, y, x_test, y_test = data(name, n)

    def run() -> dict[str, float]:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        answer = CONTESTANTS[who](x, y)
        fitted = time.perf_counter()
        mean, std = answer(x_test)
        e = (y_test - mean) / std
        return {
            "rows": len(y),
            "fit": fitted - start,
            "predict": time.perf_counter() - fitted,
            "tested": len(y_test),
            "rmse": float(np.sqrt(np.mean((y_test - mean) ** 2))),
            "nlpd": float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * e**2)),
            "coverage": float(np.mean(np.abs(e) < 1.96)),
        }

    return run


def line(who: str, name: str, found: dict[str, Any]) -> dict[str, str]:
    row = found["result"]
    return {
        "set": f"{name}, {row['rows']:,} rows",
        "by": who,
        "fit": in_words(row["fit"]),
        "predict": in_words(row["predict"]),
        "RMSE": f"{row['rmse']:.3f}",
        "NLPD": f"{row['nlpd']:.3f}",
        "inside 95 %": f"{100 * row['coverage']:.1f} %",
        "memory": f"{(found['peak_bytes'] or 0) / 1e9:.2f} GB",
    }


def main() -> None:
    bench = Benchmark.from_command_line("sizes", __doc__)
    shown = []
    for who in CONTESTANTS:
        for name, sizes in (QUICK if bench.quick else ROWS).items():
            for n in sizes:
                if (n or 42_000) > MOST.get(who, 10**9):
                    continue
                key = f"{name}, {n or 'all'}, {who}"
                measure = lambda who=who, name=name, n=n: in_subprocess(  # noqa: E731
                    "sizes:prepare", who, name, n, threads=bench.threads, peaks=False
                )._asdict()
                found = bench.row(key, measure)
                if found is not None:
                    shown.append(line(who, name, found))
    bench.show("Regression by size", sorted(shown, key=lambda row: row["set"]))


if __name__ == "__main__":
    main()
