"""One step of stochastic variational training beside its peers: the bound of a batch, its gradient, a step of Adam.

The same model in each library, in float32: latent GPs with an RBF kernel, lengthscales for each column and inducing
points of their own, whitened full Gaussian posteriors; all parameters are trained. Ten GPs under a softmax on 784
columns with batches of 1000, by reparameterised samples; one GP with Gaussian noise on 8 columns with batches of 1024.
Peers run as their manuals say: GPyTorch with a batch of kernels in one strategy, GPflow with a kernel and a set of
points for each function under tf.function. GPflow runs in a process of its own, where TensorFlow's threads disturb
nobody, between two runs of the others. A step is the fastest of several; steps of one GP are timed by tens.

Beside them stand some bare products: Kzx and its gradient, and four of m × m with m × b, zeros of triangles included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness import Benchmark, best_of, in_a_row, in_subprocess, in_words, peer, race
from stratagp.kernels import RBF
from stratagp.layers import Inducing
from stratagp.likelihoods import GaussianNoise, Sampled, Softmax
from stratagp.objectives.elbo import elbo

ROWS = 60_000  # of the data that a batch stands for
REPEATS = 7


@dataclass(frozen=True)
class Setting:
    """What a step works on; one function means Gaussian noise, more a softmax by samples."""

    functions: int
    columns: int
    inducing: int
    batch: int
    samples: int = 0

    @property
    def at_once(self) -> int:
        """Steps that are timed together."""
        return 10 if self.functions == 1 else 1

    def __str__(self) -> str:
        what = f"softmax, {self.samples} samples" if self.samples else "Gaussian noise"
        return f"{self.functions} GPs, D = {self.columns}, m = {self.inducing}, batch {self.batch}, {what}"


SETTINGS = [Setting(10, 784, m, 1000, s) for m in (200, 1000) for s in (10, 100)] + [Setting(1, 8, 500, 1024)]
QUICK = [Setting(10, 784, 50, 200, 10), Setting(1, 8, 100, 256)]


def data(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A batch, its targets, inducing points of all functions, and a lengthscale."""
    rng = np.random.default_rng(0)
    x = rng.random((s.batch, s.columns), dtype=np.float32)
    z = rng.random((s.functions, s.inducing, s.columns), dtype=np.float32)
    y = rng.integers(s.functions, size=(s.batch, 1)) if s.samples else np.sin(5 * x[:, :1])
    return x, y.astype(np.float32), z, 0.5 * s.columns**0.5


def stratagp(s: Setting) -> Callable[[], Any]:
    x, y, z, lengthscale = data(s)
    kernel = RBF(ard=s.columns).set(lengthscale=lengthscale, variance=1.0)
    layer = Inducing(kernel.replicate(s.functions), z)
    likelihood = Sampled(Softmax(), s.samples) if s.samples else GaussianNoise(0.1)
    layer.float(), likelihood.float()  # parameters too, as in the peers
    batch, targets = torch.from_numpy(x), torch.from_numpy(y)
    optimiser = torch.optim.Adam([*layer.parameters(), *likelihood.parameters()], 1e-4, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        (-elbo(layer, likelihood, batch, targets, ROWS).value).backward()
        optimiser.step()

    return step


def gpytorch(s: Setting) -> Callable[[], Any]:
    library = peer("gpytorch")
    x, y, z, lengthscale = (torch.from_numpy(t) if isinstance(t, np.ndarray) else t for t in data(s))
    model, likelihood = gpytorch_model(library, s, z), gpytorch_likelihood(library, s)
    model.kernel.base_kernel.lengthscale, model.kernel.outputscale = lengthscale, 1.0
    bound = library.mlls.VariationalELBO(likelihood, model, num_data=ROWS)
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], 1e-4, fused=True)
    targets = y[:, 0].long() if s.samples else y[:, 0]

    def step() -> None:
        optimiser.zero_grad()
        with library.settings.num_likelihood_samples(s.samples or 10), library.settings.max_cholesky_size(10**6):
            (-bound(model(x), targets)).backward()
        optimiser.step()

    return step


def gpytorch_model(library: Any, s: Setting, z: Tensor) -> Any:
    batch = torch.Size([s.functions]) if s.functions > 1 else torch.Size()
    variational = library.variational

    class Model(library.models.ApproximateGP):
        def __init__(self) -> None:
            q = variational.CholeskyVariationalDistribution(s.inducing, batch_shape=batch)
            points = z if s.functions > 1 else z[0]
            strategy = variational.VariationalStrategy(self, points.clone(), q, learn_inducing_locations=True)
            if s.functions > 1:
                strategy = variational.IndependentMultitaskVariationalStrategy(strategy, num_tasks=s.functions)
            super().__init__(strategy)
            self.mean = library.means.ZeroMean(batch_shape=batch)
            base = library.kernels.RBFKernel(ard_num_dims=s.columns, batch_shape=batch)
            self.kernel = library.kernels.ScaleKernel(base, batch_shape=batch)

        def forward(self, x: Tensor) -> Any:
            return library.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    return Model()


def gpytorch_likelihood(library: Any, s: Setting) -> Any:
    if s.samples:
        return library.likelihoods.SoftmaxLikelihood(num_features=10, num_classes=10, mixing_weights=False)
    return library.likelihoods.GaussianLikelihood()


def gpflow(s: Setting) -> Callable[[], Any]:
    library, tf = peer("gpflow"), peer("tensorflow")
    library.config.set_default_float(np.float32)
    library.config.set_default_jitter(1e-4)
    x, y, z, lengthscale = data(s)
    kernels = [library.kernels.SquaredExponential(1.0, np.full(s.columns, lengthscale)) for _ in range(s.functions)]
    points = [library.inducing_variables.InducingPoints(each) for each in z]
    if s.samples:
        kernel: Any = library.kernels.SeparateIndependent(kernels)
        inducing: Any = library.inducing_variables.SeparateIndependentInducingVariables(points)
        likelihood: Any = library.likelihoods.Softmax(s.functions)
        likelihood.num_monte_carlo_points = s.samples
    else:
        kernel, inducing, likelihood = kernels[0], points[0], library.likelihoods.Gaussian(0.1)
    model = library.models.SVGP(kernel, likelihood, inducing, num_latent_gps=s.functions, num_data=ROWS, whiten=True)
    optimiser = tf.keras.optimizers.Adam(1e-4)
    batch = tf.constant(x), tf.constant(y if not s.samples else y.astype(np.int32))

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = -model.elbo(batch)
        variables = model.trainable_variables
        optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: float(step())


def prepare_gpflow(setting: dict[str, int]) -> Callable[[], float]:
    """For :func:`harness.in_subprocess`: seconds of a step."""
    s = Setting(**setting)
    step = in_a_row(gpflow(s), s.at_once)
    return lambda: best_of(step, REPEATS) / s.at_once


def bare_products(s: Setting) -> Callable[[], Any]:
    x, _, z, _ = data(s)
    x, points = torch.from_numpy(x), torch.from_numpy(z).flatten(0, 1)
    square = torch.rand(s.functions, s.inducing, s.inducing)

    def multiply() -> None:
        k = (points @ x.mT).unflatten(0, (s.functions, -1))
        a = square @ k
        square @ a, a @ k.mT, square @ a
        k.flatten(0, 1) @ x

    return multiply


def measure(bench: Benchmark, s: Setting) -> dict[str, float]:
    makers = {"StrataGP": stratagp, "GPyTorch": gpytorch, "bare products": bare_products}
    seconds = run(bench, makers, s)
    try:
        found = in_subprocess("autogp_step:prepare_gpflow", asdict(s), threads=bench.threads, peaks=False)
        seconds["GPflow"] = found.result
    except Exception as reason:
        bench.console.print(f"GPflow: left out, {str(reason).splitlines()[-1]}")
    again = run(bench, makers, s)
    return {name: min(value, again.get(name, value)) for name, value in seconds.items()}


def run(bench: Benchmark, makers: dict[str, Callable[[Setting], Any]], s: Setting) -> dict[str, float]:
    steps = {name: in_a_row(step, s.at_once) for name, step in bench.available(makers, s).items()}
    return {name: value / s.at_once for name, value in race(steps, REPEATS).items()}


def line(s: Setting, seconds: dict[str, float]) -> dict[str, str]:
    fastest = min((seconds[name] for name in ("GPyTorch", "GPflow") if name in seconds), default=None)
    faster = {"faster": f"{fastest / seconds['StrataGP']:.2f}×" if fastest else "–"}
    return {"setting": str(s), **{name: in_words(value) for name, value in sorted(seconds.items())}, **faster}


def main() -> None:
    bench = Benchmark.from_command_line("autogp_step", __doc__)
    settings = QUICK if bench.quick else SETTINGS
    rows = [(s, bench.row(str(s), lambda s=s: measure(bench, s))) for s in settings]
    bench.show(f"Seconds a step, float32, {bench.threads} threads", [line(s, row) for s, row in rows if row])


if __name__ == "__main__":
    main()
