"""What others offer for regression with error bars, as `benchmarks/sizes.py` runs it.

A contestant takes rows and standardised targets, and returns a function from new rows to means and deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from harness import peer

Answer = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
STEPS, BATCH = 2000, 1024  # of GPyTorch's variational processes


def lightgbm(x: np.ndarray, y: np.ndarray) -> Answer:
    made = peer("lightgbm").LGBMRegressor
    cut = len(y) // 5
    options = {"n_estimators": 400, "learning_rate": 0.05, "num_leaves": 63, "verbose": -1, "random_state": 0}
    held = made(**options).fit(x[cut:], y[cut:])
    std = float(np.sqrt(np.mean((y[:cut] - held.predict(x[:cut])) ** 2)))
    model = made(**options).fit(x, y)
    return lambda new: (model.predict(new), np.full(len(new), std))


def gpboost(x: np.ndarray, y: np.ndarray, approximation: str = "vecchia", n_neighbours: int = 20) -> Answer:
    module, mean, scale = peer("gpboost"), x.mean(0), x.std(0)
    model = module.GPModel(
        gp_coords=(x - mean) / scale,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        likelihood="gaussian",
        gp_approx=approximation,
        num_neighbors=n_neighbours,
        seed=0,
    )
    model.fit(y=y)

    def answer(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = model.predict(gp_coords_pred=(new - mean) / scale, predict_var=True, predict_response=True)
        return found["mu"], np.sqrt(found["var"])

    return answer


def svgp(x: np.ndarray, y: np.ndarray, n_inducing: int = 500) -> Answer:
    """GPyTorch's stochastic variational process."""
    gp, (points, targets, scaled) = peer("gpytorch"), _prepared(x, y)
    z = points[torch.randperm(len(points))[:n_inducing]].clone()
    q = gp.variational.CholeskyVariationalDistribution(len(z))
    model = _model(lambda own: gp.variational.VariationalStrategy(own, z, q, learn_inducing_locations=True), x.shape[1])

    def batch() -> tuple[Any, torch.Tensor]:
        rows = torch.randint(len(targets), (BATCH,))
        return model(points[rows]), targets[rows]

    return _trained(model, batch, len(targets), scaled)


def vnngp(x: np.ndarray, y: np.ndarray, n_neighbours: int = 32) -> Answer:
    """GPyTorch's variational nearest-neighbour process: all rows are inducing points, in a random order."""
    gp, (points, targets, scaled) = peer("gpytorch"), _prepared(x, y)
    order = torch.randperm(len(points))
    points, targets = points[order], targets[order]
    q = gp.variational.MeanFieldVariationalDistribution(len(points))
    size = min(BATCH, len(points))
    strategy = gp.variational.NNVariationalStrategy
    model = _model(lambda own: strategy(own, points, q, n_neighbours, training_batch_size=size), x.shape[1])

    def batch() -> tuple[Any, torch.Tensor]:
        found = model(None)
        return found, targets[model.variational_strategy.current_training_indices]

    return _trained(model, batch, len(targets), scaled)


def _prepared(x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, Callable[[np.ndarray], torch.Tensor]]:
    """Rows and targets in single precision, and how new rows are scaled."""
    torch.manual_seed(0)
    mean, scale = x.mean(0), x.std(0)
    scaled = lambda new: torch.tensor((new - mean) / scale, dtype=torch.float32)  # noqa: E731
    return scaled(x), torch.tensor(y, dtype=torch.float32), scaled


def _model(strategy: Callable[[Any], Any], columns: int) -> Any:
    """A process with a Matérn-5/2 kernel and a lengthscale for each column."""
    gp = peer("gpytorch")

    class Model(gp.models.ApproximateGP):
        def __init__(self) -> None:
            super().__init__(strategy(self))
            self.mean_module = gp.means.ConstantMean()
            self.covar_module = gp.kernels.ScaleKernel(gp.kernels.MaternKernel(2.5, ard_num_dims=columns))

        def forward(self, rows: torch.Tensor) -> Any:
            return gp.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

        def __call__(self, rows: torch.Tensor | None, prior: bool = False, **more: Any) -> Any:
            return self.variational_strategy(rows, prior=prior, **more)

    return Model()


def _trained(
    model: Any, batch: Callable[[], tuple[Any, torch.Tensor]], n: int, scaled: Callable[[np.ndarray], torch.Tensor]
) -> Answer:
    """Steps of Adam up the bound, and predictions with noise."""
    gp = peer("gpytorch")
    noise = gp.likelihoods.GaussianLikelihood()
    bound = gp.mlls.VariationalELBO(noise, model, n)
    optimiser = torch.optim.Adam([*model.parameters(), *noise.parameters()], 0.01)
    for _ in range(STEPS):
        optimiser.zero_grad()
        (-bound(*batch())).backward()
        optimiser.step()
    model.eval()

    def answer(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            found = [noise(model(rows)) for rows in scaled(new).split(BATCH)]
        mean, std = (torch.cat([getattr(each, name) for each in found]).double() for name in ("mean", "stddev"))
        return mean.numpy(), std.numpy()

    return answer
