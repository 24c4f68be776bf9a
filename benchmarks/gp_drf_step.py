"""One step of a deep process beside GPyTorch: the bound of a batch, its gradient, a step of Adam, in float32.

Two layers in both, with the same hidden width, batch and number of samples of hidden values, Gaussian noise, and all
parameters trained. Ours are layers of random features whose frequencies are learnt (and, for comparison, drawn anew at
each step and for each sample). GPyTorch's is the deep process of its documentation: DeepGPLayer, doubly stochastic, RBF
kernels with a lengthscale for each column, whitened full Gaussian posteriors, as many inducing points as we have
frequencies, a linear mean in the hidden layer and a constant one in the last. The models are not the same; what is
compared is the price of a deep Gaussian process. A step is the fastest of several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness import Benchmark, in_words, peer, race
from stratagp.likelihoods import GaussianNoise
from stratagp.models import drf
from stratagp.objectives import elbo

ROWS, REPEATS = 60_000, 9


@dataclass(frozen=True)
class Setting:
    """What a step works on; ``features`` are frequencies of ours, inducing points of GPyTorch's."""

    columns: int
    width: int
    features: int
    batch: int
    samples: int

    def __str__(self) -> str:
        return (
            f"D = {self.columns}, {self.width} hidden units, {self.features} features or inducing points, "
            f"batch {self.batch}, {self.samples} samples"
        )


SETTINGS = [Setting(8, 3, 100, 200, 100), Setting(8, 5, 128, 1024, 10)]
QUICK = [Setting(4, 2, 20, 50, 10)]


def batch(s: Setting) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(s.batch, s.columns, generator=generator)
    return x, torch.sin(2 * x[:, 0]) + 0.1 * torch.randn(s.batch, generator=generator)


def stratagp(s: Setting, frequencies: str = "var-fixed") -> Callable[[], Any]:
    x, y = batch(s)
    model = drf(
        s.columns,
        1,
        GaussianNoise(0.1),
        width=s.width,
        n_features=s.features,
        feed_forward=False,
        frequencies=frequencies,
        n_samples=s.samples,
        generator=torch.Generator().manual_seed(0),
    ).float()
    optimiser = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        (-elbo(model.layer, model.likelihood, x, y[:, None], ROWS).value).backward()
        optimiser.step()

    return step


def resampled(s: Setting) -> Callable[[], Any]:
    return stratagp(s, "var-resampled")


def gpytorch(s: Setting) -> Callable[[], Any]:
    library = peer("gpytorch")
    x, y = batch(s)
    torch.manual_seed(0)
    model = gpytorch_model(library, s)
    bound = library.mlls.VariationalELBO(model.likelihood, model, num_data=ROWS)
    bound = library.mlls.DeepApproximateMLL(bound)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        with library.settings.num_likelihood_samples(s.samples):
            (-bound(model(x), y)).backward()
        optimiser.step()

    return step


def gpytorch_model(library: Any, s: Setting) -> Any:
    layer = gpytorch_layer(library)

    class Model(library.models.deep_gps.DeepGP):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = layer(s.columns, s.width, s.features, library.means.LinearMean(s.columns))
            self.last = layer(s.width, None, s.features, library.means.ConstantMean())
            self.likelihood = library.likelihoods.GaussianLikelihood()

        def forward(self, x: Tensor) -> Any:
            return self.last(self.hidden(x))

    return Model()


def gpytorch_layer(library: Any) -> Any:
    variational = library.variational

    class Layer(library.models.deep_gps.DeepGPLayer):
        def __init__(self, columns: int, outputs: int | None, inducing: int, mean: Any) -> None:
            functions = torch.Size([] if outputs is None else [outputs])
            q = variational.CholeskyVariationalDistribution(inducing, batch_shape=functions)
            points = torch.randn(*functions, inducing, columns)
            strategy = variational.VariationalStrategy(self, points, q, learn_inducing_locations=True)
            super().__init__(strategy, columns, outputs)
            base = library.kernels.RBFKernel(batch_shape=functions, ard_num_dims=columns)
            self.kernel, self.mean = library.kernels.ScaleKernel(base, batch_shape=functions), mean

        def forward(self, x: Tensor) -> Any:
            return library.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    return Layer


def measure(bench: Benchmark, s: Setting) -> dict[str, float]:
    makers = {"StrataGP": stratagp, "resampled": resampled, "GPyTorch": gpytorch}
    return race(bench.available(makers, s), 2 if bench.quick else REPEATS)


def main() -> None:
    bench = Benchmark.from_command_line("gp_drf_step", __doc__)
    lines = []
    for setting in QUICK if bench.quick else SETTINGS:
        row = bench.row(str(setting), lambda s=setting: measure(bench, s))
        faster = f"{row['GPyTorch'] / row['StrataGP']:.1f}×" if "GPyTorch" in row else "–"
        lines.append({"a step of": str(setting), **{n: in_words(t) for n, t in row.items()}, "faster": faster})
    bench.show(f"Seconds a step, float32, {bench.threads} threads", lines)


if __name__ == "__main__":
    main()
