"""The collapsed bound of sparse regression (SGPR) beside its peers: one value and gradient.

An RBF kernel with 8 lengthscales and 500 inducing points, which are the first rows of the data, in float64. The
gradient is with respect to inducing points, lengthscales, variance and noise. Beside the peers stands the bare time
of the two products that nobody can avoid, Kzx Kxz and m × m times Kzx. The difference is the largest relative one of
a peer's value or gradient (without the inducing points) from ours; peers add jitter to Kzz. The peak memory of one
call is measured in a process of its own. FITC, of which the peers have no like form, is ours alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evidence import COLUMNS, Answer, Contestant, Problem, difference, problem
from harness import Benchmark, beside_peers, in_subprocess, peer, race
from stratagp.kernels import RBF
from stratagp.models.sparse import SparseGP

INDUCING = 500
SIZES = {10_000: 5, 50_000: 3}  # rows, and how often each contestant runs


def stratagp_bound(p: Problem, m: int, bound: str = "sgpr") -> Contestant:
    kernel = RBF(ard=COLUMNS).set(lengthscale=p.lengthscale, variance=p.variance)
    model = SparseGP(kernel, p.x[:m], noise=p.noise, bound=bound)
    leaves = [model.parameter(name).raw for name in ("kernel.variance", "kernel.lengthscale", "noise", "z")]

    def run() -> tuple[Tensor, tuple[Tensor, ...]]:
        value = model.log_evidence(p.x, p.y)
        return value, torch.autograd.grad(value, leaves)

    return Contestant(run, lambda out: Answer(out[0].item(), np.concatenate([g.numpy().ravel() for g in out[1][:3]])))


def gpytorch_bound(p: Problem, m: int) -> Contestant:
    gpytorch = peer("gpytorch")

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(p.x, p.y, likelihood)
            self.mean = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=COLUMNS))
            self.kernel = gpytorch.kernels.InducingPointKernel(base, p.x[:m].clone(), likelihood)

        def forward(self, x: Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    model = Model(gpytorch.likelihoods.GaussianLikelihood()).double()
    base = model.kernel.base_kernel
    base.outputscale, base.base_kernel.lengthscale, model.likelihood.noise = p.variance, p.lengthscale, p.noise
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    leaves = [base.raw_outputscale, base.base_kernel.raw_lengthscale, model.likelihood.noise_covar.raw_noise]
    values = [base.outputscale, base.base_kernel.lengthscale, model.likelihood.noise]
    every = [*leaves, model.kernel.inducing_points]

    def run() -> tuple[Tensor, tuple[Tensor, ...]]:
        # the low-rank form needs Cholesky factors of m × m only; fast_computations(False) would build n × n
        with gpytorch.settings.max_cholesky_size(10**6):
            value = bound(model(p.x), p.y) * len(p.x)
            return value, torch.autograd.grad(value, every)

    def read(out: tuple[Tensor, tuple[Tensor, ...]]) -> Answer:
        logs = [g * v / torch.sigmoid(raw) for g, v, raw in zip(out[1], values, leaves, strict=False)]
        return Answer(out[0].item(), np.concatenate([g.detach().numpy().ravel() for g in logs]))

    return Contestant(run, read)


def gpflow_bound(p: Problem, m: int) -> Contestant:
    gpflow, tf = peer("gpflow"), peer("tensorflow")
    kernel = gpflow.kernels.SquaredExponential(variance=p.variance.item(), lengthscales=p.lengthscale.numpy())
    data = p.x.numpy(), p.y[:, None].numpy()
    model = gpflow.models.SGPR(data, kernel, p.x[:m].numpy(), noise_variance=p.noise.item())
    parameters = [kernel.variance, kernel.lengthscales, model.likelihood.variance]
    leaves = [parameter.unconstrained_variable for parameter in parameters]
    every = [*leaves, model.inducing_variable.Z.unconstrained_variable]

    @tf.function
    def run() -> Any:
        with tf.GradientTape() as tape:
            value = model.elbo()
        return value, tape.gradient(value, every)

    def read(out: Any) -> Answer:
        slopes = [np.exp(q.transform.forward_log_det_jacobian(v, 0)) for q, v in zip(parameters, leaves, strict=True)]
        logs = [g.numpy() * q.numpy() / s for g, q, s in zip(out[1], parameters, slopes, strict=False)]
        return Answer(float(out[0]), np.concatenate([np.ravel(g) for g in logs]))

    return Contestant(run, read)


PEERS = {"GPyTorch": gpytorch_bound, "GPflow": gpflow_bound}


def bare_products(p: Problem, m: int) -> Callable[[], Any]:
    kxz = torch.rand(len(p.x), m, dtype=torch.float64)
    return lambda: kxz @ (kxz.mT @ kxz)


def bound_row(bench: Benchmark, n: int, m: int = INDUCING) -> dict[str, Any]:
    p = problem(n)
    ours, peers = stratagp_bound(p, m), bench.available(PEERS, p, m)
    truth = ours.read(ours.run())
    apart = [difference(contestant.read(contestant.run()), truth) for contestant in peers.values()]
    runs = {"StrataGP": ours.run, **{name: contestant.run for name, contestant in peers.items()}}
    runs |= {"bare products": bare_products(p, m), "StrataGP, FITC": stratagp_bound(p, m, "fitc").run}
    peak = in_subprocess("sparse:prepare_memory", n, m, threads=bench.threads).peak_bytes
    seconds = race(runs, SIZES.get(n, 1))
    return {"n": n, "seconds": seconds, "difference": max(apart, default=None), "memory": peak}


def prepare_memory(n: int, m: int) -> Callable[[], float]:
    """For :func:`harness.in_subprocess`: one evaluation, after a small one that loads the libraries."""
    stratagp_bound(problem(200), 20).run()
    contestant = stratagp_bound(problem(n), m)
    return lambda: contestant.run()[0].item()


def show(bench: Benchmark, rows: list[dict[str, Any]]) -> None:
    shown = beside_peers(rows, PEERS, lambda row: f"{row['memory'] / 2**20:.0f} MB")
    title = f"SGPR bound with gradient, RBF, D = {COLUMNS}, m = {INDUCING}, float64, {bench.threads} threads"
    bench.show(title, shown, "faster: SGPR than the fastest peer. memory: peak of one call of ours")


def main() -> None:
    bench = Benchmark.from_command_line("sparse", __doc__)
    sizes = [n for n in SIZES if n <= 10_000 or not bench.quick]
    rows = [bench.row(f"collapsed bound, n = {n}", lambda n=n: bound_row(bench, n)) for n in sizes]
    show(bench, [row for row in rows if row])


if __name__ == "__main__":
    main()
