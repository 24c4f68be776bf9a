"""One step of deep kernel learning beside GPyTorch: the bound of a batch, its gradient, a step of Adam, in float32.

The same model in both: a network 784-256-64-10 with rectifiers, ten Gaussian processes on grids of 64 points, one for
each feature, a mixing matrix, a softmax over ten classes by 8 samples, batches of 256. GPyTorch as its example has
it: GridInterpolationVariationalStrategy under IndependentMultitaskVariationalStrategy, features scaled to the bounds
of the grid. Steps are timed by tens, as training takes them, and the fastest ten count. Beside them stands the network
alone, with the same loss and optimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from harness import Benchmark, in_a_row, in_words, peer, race
from stratagp.layers import Features
from stratagp.likelihoods import Mixed, Softmax
from stratagp.models import svdkl
from stratagp.networks import fully_connected
from stratagp.objectives import elbo

ROWS, BATCH, COLUMNS, FEATURES, CLASSES, GRID, SAMPLES = 60_000, 256, 784, 10, 10, 64, 8
WIDTHS = [256, 64, FEATURES]
STEPS, REPEATS = 10, 9


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(BATCH, COLUMNS, generator=generator)
    return x, torch.randint(CLASSES, (BATCH,), generator=generator)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return fully_connected(COLUMNS, WIDTHS, batch_norm=False)


def stratagp() -> Callable[[], Any]:
    x, y = batch()
    head = Mixed(Softmax(), CLASSES, FEATURES)
    model = svdkl(Features(network(), FEATURES), head, grid_size=GRID, n_samples=SAMPLES).train()
    optimiser = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    targets = y.float()[:, None]

    def step() -> None:
        optimiser.zero_grad()
        (-elbo(model.layer, model.likelihood, x, targets, ROWS).value).backward()
        optimiser.step()

    return step


def network_alone() -> Callable[[], Any]:
    x, y = batch()
    net = network()
    optimiser = torch.optim.Adam(net.parameters(), 1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()

    return step


def gpytorch() -> Callable[[], Any]:
    library = peer("gpytorch")
    x, y = batch()
    model = gpytorch_model(library)
    likelihood = library.likelihoods.SoftmaxLikelihood(num_features=FEATURES, num_classes=CLASSES)
    bound = library.mlls.VariationalELBO(likelihood, model.gp, num_data=ROWS)
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], 1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        with library.settings.num_likelihood_samples(SAMPLES):
            (-bound(model(x), y)).backward()
        optimiser.step()

    return step


def gpytorch_model(library: Any) -> nn.Module:
    variational = library.variational

    class Processes(library.models.ApproximateGP):
        def __init__(self) -> None:
            q = variational.CholeskyVariationalDistribution(GRID, batch_shape=torch.Size([FEATURES]))
            grid = variational.GridInterpolationVariationalStrategy(self, GRID, [(-10.0, 10.0)], q)
            super().__init__(variational.IndependentMultitaskVariationalStrategy(grid, num_tasks=FEATURES))
            self.kernel = library.kernels.ScaleKernel(library.kernels.RBFKernel())
            self.mean = library.means.ConstantMean()

        def forward(self, x: Tensor) -> Any:
            return library.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    class Model(library.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.gp = network(), Processes()
            self.scale = library.utils.grid.ScaleToBounds(-10.0, 10.0)

        def forward(self, x: Tensor) -> Any:
            features = self.scale(self.network(x))
            return self.gp(features.mT.unsqueeze(-1))

    return Model()


def measure(bench: Benchmark) -> dict[str, float]:
    makers = {"StrataGP": lambda _: stratagp(), "GPyTorch": lambda _: gpytorch(), "network": lambda _: network_alone()}
    steps = bench.available(makers, None)
    seconds = race({name: in_a_row(step, STEPS) for name, step in steps.items()}, 2 if bench.quick else REPEATS)
    return {name: value / STEPS for name, value in seconds.items()}


def main() -> None:
    bench = Benchmark.from_command_line("svdkl_step", __doc__)
    row = bench.row("step", lambda: measure(bench))
    if not row:
        return
    faster = f"{row['GPyTorch'] / row['StrataGP']:.1f}×" if "GPyTorch" in row else "–"
    line = {**{name: in_words(value) for name, value in row.items()}, "faster": faster}
    bench.show(f"Seconds a step, float32, {bench.threads} threads", [line])


if __name__ == "__main__":
    main()
