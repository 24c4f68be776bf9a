"""The exact Gaussian log density beside its peers, and what each fused function gains over plain autograd.

First table: one log marginal likelihood of an RBF kernel with 8 lengthscales, and its gradient with respect
to lengthscales, variance and noise, in float64. Beside the peers stands the bare time of LAPACK's potrf and
potri, the factor and the inverse of a covariance that is given. The peak memory of one call is measured in a
process of its own and counted in n × n matrices. The difference is the largest relative one of a peer's value
or gradient from ours.

Second table: value and gradient of the fused functions of stratagp.linalg, and of the same formulas in plain
torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from evidence import COLUMNS, PEERS, bare_lapack, difference, problem, stratagp_evidence
from harness import Benchmark, beside_peers, in_subprocess, in_words, race
from stratagp.linalg import gaussian_kernel, gaussian_log_density, matern_kernel, scaled_sqdist, whitened_marginals

SIZES = {500: 20, 1000: 10, 2000: 5, 5000: 3}  # rows, and how often each contestant runs


def evidence_row(bench: Benchmark, n: int) -> dict[str, Any]:
    p = problem(n)
    ours, peers = stratagp_evidence(p), bench.available(PEERS, p)
    runs = {"StrataGP": ours.run, **{name: contestant.run for name, contestant in peers.items()}}
    truth = ours.read(ours.run())
    apart = [difference(contestant.read(contestant.run()), truth) for contestant in peers.values()]
    peak = in_subprocess("linalg:prepare_memory", n, threads=bench.threads).peak_bytes
    return {
        "n": n,
        "seconds": race({**runs, **bare_lapack(p)}, SIZES[n]),
        "difference": max(apart, default=None),
        "memory": peak / (8 * n * n) if peak is not None else None,
    }


def prepare_memory(n: int) -> Callable[[], float]:
    """For :func:`harness.in_subprocess`: one evaluation, after a small one that loads the libraries."""
    stratagp_evidence(problem(200)).run()
    contestant = stratagp_evidence(problem(n))
    return lambda: contestant.run()[0].item()


def show_evidence(bench: Benchmark, rows: list[dict[str, Any]]) -> None:
    shown = beside_peers(rows, PEERS, lambda row: f"{row['memory']:.2f} n²")
    title = f"Log marginal likelihood with gradient, RBF, D = {COLUMNS}, float64, {bench.threads} threads"
    note = "bare: potrf + potri only. faster: than the fastest peer. memory: peak of one call of ours"
    bench.show(title, shown, note)


# --- the gain of each fused function ---

Runs = dict[str, Callable[[], tuple[Tensor, ...]]]


def log_density_gain(n: int) -> Runs:
    p = problem(n)
    noise = p.noise.clone().requires_grad_()
    covariance = gaussian_kernel(p.x, p.x, 1 / p.lengthscale, p.variance).requires_grad_()

    def plain(y: Tensor, covariance: Tensor, noise: Tensor) -> Tensor:
        factor = torch.linalg.cholesky(covariance + noise * torch.eye(n, dtype=y.dtype))
        white = torch.linalg.solve_triangular(factor, y, upper=False)
        return -0.5 * white.square().sum() - factor.diagonal().log().sum()

    functions = {"fused": gaussian_log_density, "autograd": plain}
    return with_gradients(functions, (p.y[:, None], covariance, noise))


def distance_gain(inputs: tuple[Tensor, ...], gaussian: bool) -> Runs:
    """``inputs`` are x, z and weight, and for the Gaussian kernel its variance."""
    squares = {"cdist": by_cdist, "products": by_products}
    if inputs[1].dim() == 2:  # with a function axis the differences would take gigabytes
        squares["broadcasting"] = by_broadcasting
    if not gaussian:
        return with_gradients({"fused": scaled_sqdist, **squares}, inputs)
    kernels = {name: as_kernel(square) for name, square in squares.items()}
    return with_gradients({"fused": gaussian_kernel, **kernels}, inputs)


def matern_gain(inputs: tuple[Tensor, ...]) -> Runs:
    """The Matérn kernel of order 5/2 for x, z, weight and variance."""

    def plain(x: Tensor, z: Tensor, weight: Tensor, variance: Tensor) -> Tensor:
        r = torch.cdist(x * weight, z * weight)
        return variance * (1 + r + r.square() / 3) * torch.exp(-r)

    return with_gradients({"fused": lambda *values: matern_kernel(*values, order=2), "cdist": plain}, inputs)


def by_cdist(x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
    return torch.cdist(x * weight, z * weight).square()


def by_products(x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
    x, z = x * weight, z * weight
    norms = x.square().sum(-1)[..., :, None] + z.square().sum(-1)[..., None, :]
    return norms - 2 * x @ z.mT


def by_broadcasting(x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
    return ((x[:, None] - z[None]) * weight).square().sum(-1)


def as_kernel(square: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, z, weight, variance: variance * torch.exp(-0.5 * square(x, z, weight))


def shared_points(n: int) -> tuple[Tensor, ...]:
    """As in exact regression: gradients of 8 lengthscales and a variance."""
    p = problem(n)
    weight = (1 / p.lengthscale).requires_grad_()
    return p.x, p.x, weight, p.variance.clone().requires_grad_()


def many_functions(n: int = 1000, m: int = 200, d: int = 784, q: int = 10) -> tuple[Tensor, ...]:
    """As in a batch of digits: each function has inducing points, lengthscales and a variance of its own."""
    generator = torch.Generator().manual_seed(0)
    x, z = torch.rand(n, d, generator=generator), torch.rand(q, m, d, generator=generator)
    weight, variance = torch.full((q, 1, d), 0.2, requires_grad=True), torch.ones(q, 1, 1, requires_grad=True)
    return x, z.requires_grad_(), weight, variance


def marginals_gain(n: int = 1000, m: int = 200, q: int = 10) -> Runs:
    generator = torch.Generator().manual_seed(0)
    a = (torch.randn(q, m, n, generator=generator) / m**0.5).requires_grad_()
    mean = torch.randn(q, m, generator=generator).requires_grad_()
    scale = (0.05 * torch.randn(q, m, m, generator=generator)).tril().requires_grad_()

    def plain(a: Tensor, kdiag: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        var = kdiag - a.square().sum(-2) + (scale.tril().mT @ a).square().sum(-2)
        return (a.mT @ mean[..., None]).squeeze(-1).mT, var.clamp_min(1e-10).mT

    functions = {"fused": whitened_marginals, "autograd": plain}
    return with_gradients(functions, (a, torch.full((q, n), 3.0), mean, scale))


def with_gradients(functions: dict[str, Callable[..., Any]], inputs: tuple[Tensor, ...]) -> Runs:
    """Each function followed by the gradient of one random combination of its outputs."""
    leaves = [value for value in inputs if value.requires_grad]
    outputs = _as_tuple(functions["fused"](*inputs))
    generator = torch.Generator().manual_seed(1)
    to_outputs = [torch.rand(out.shape, generator=generator, dtype=out.dtype) for out in outputs]

    def run(function: Callable[..., Any]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(_as_tuple(function(*inputs)), leaves, to_outputs)

    return {name: lambda function=function: run(function) for name, function in functions.items()}


def gain_row(runs: Runs, repeats: int) -> dict[str, Any]:
    truth, *others = [run() for run in runs.values()]
    apart = [
        float((ours - theirs).abs().max() / ours.abs().max())
        for other in others
        for ours, theirs in zip(truth, other, strict=True)
    ]
    return {"seconds": race(runs, repeats), "difference": max(apart)}


def show_gains(bench: Benchmark, rows: dict[str, dict[str, Any]]) -> None:
    shown = []
    for name, row in rows.items():
        plain = min(value for kind, value in row["seconds"].items() if kind != "fused")
        gain, apart = f"{plain / row['seconds']['fused']:.2f}×", f"{row['difference']:.0e}"
        times = {kind: in_words(value) for kind, value in row["seconds"].items()}
        shown.append({"function": name, "gain": gain, "difference": apart, **times})
    bench.show("Value and gradient, fused and left to autograd", shown, "gain: over the fastest plain form")


def gains(n: int) -> dict[str, Callable[[], Runs]]:
    large = "10 functions, 1000 × 200, d = 784, float32"
    return {
        f"gaussian_log_density, n = {n}": lambda: log_density_gain(n),
        f"scaled_sqdist, n = {n}, d = 8": lambda: distance_gain(shared_points(n)[:3], gaussian=False),
        f"gaussian_kernel, n = {n}, d = 8": lambda: distance_gain(shared_points(n), gaussian=True),
        f"matern_kernel, ν = 5/2, n = {n}, d = 8": lambda: matern_gain(shared_points(n)),
        f"scaled_sqdist, {large}": lambda: distance_gain(many_functions()[:3], gaussian=False),
        f"gaussian_kernel, {large}": lambda: distance_gain(many_functions(), gaussian=True),
        f"matern_kernel, ν = 5/2, {large}": lambda: matern_gain(many_functions()),
        "whitened_marginals, 10 functions, m = 200, n = 1000, float32": marginals_gain,
    }


def _as_tuple(value: Any) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def main() -> None:
    bench = Benchmark.from_command_line("linalg", __doc__)
    sizes = [n for n in SIZES if n <= 1000 or not bench.quick]
    rows = [bench.row(f"log marginal likelihood, n = {n}", lambda n=n: evidence_row(bench, n)) for n in sizes]
    show_evidence(bench, [row for row in rows if row])
    made = gains(1000 if bench.quick else 2000)
    repeats = 3 if bench.quick else 5
    found = {key: bench.row(key, lambda make=make: gain_row(make(), repeats)) for key, make in made.items()}
    show_gains(bench, {key: row for key, row in found.items() if row})


if __name__ == "__main__":
    main()
