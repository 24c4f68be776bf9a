"""The engine that a regressor runs on: chosen by its options and the size of the data, then put together."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.cokriging import co_kriging
from stratagp.estimators.engines import Data, Engine, Exact, Heteroscedastic, Sparse, learnt_noise, some_rows
from stratagp.estimators.hyperparameters import Centres, Criterion, train
from stratagp.estimators.iterative import Iterative
from stratagp.estimators.stochastic import StochasticRegression
from stratagp.kernels import RBF, Kernel
from stratagp.likelihoods import GaussianNoise
from stratagp.models import ExactGP, HeteroscedasticGP, IterativeGP, SparseGP, StochasticGP
from stratagp.parameters import positive, real
from stratagp.training.inducing_points import greedy_points
from stratagp.training.start import start_from_data
from stratagp.training.world import join

EXACT_ROWS = 4000  # up to which "auto" is exact: some minutes on two cores
SPARSE_ROWS = 200_000  # up to which "auto" takes the collapsed bound
_SMALL = 1000  # rows of the exact process from whose values sparse inference starts
_SOME = 2000  # of that from which conjugate gradients start
_CANDIDATES = 10_000  # rows that compete for inducing points


def varying_noise(options: Any) -> bool:
    """Whether a second process shall model the noise."""
    return isinstance(options.noise, str) and options.noise == "heteroscedastic"


def choose(options: Any, n: int, kernel: Kernel) -> tuple[str, str]:
    """The way of inference for ``n`` rows, and why; options that do not go with it are refused."""
    inference, reason = _choice(options, n, kernel)
    if inference != "exact" and options.hyperparameters == "loo":
        raise InputError(
            f"hyperparameters='loo' needs inference='exact', but {n} rows take {inference!r}: ask for exact"
        )
    if inference in ("stochastic", "cg") and options.hyperparameters == "bayes":
        raise InputError(
            f"hyperparameters='bayes' needs inference='exact' or 'sparse': {inference!r} knows the evidence by samples"
        )
    return inference, reason


def _choice(options: Any, n: int, kernel: Kernel) -> tuple[str, str]:
    only_exact = {
        "correlated outputs are one exact process": options.outputs == "correlated",
        "noise that varies is integrated over with the exact process": varying_noise(options),
        "kernels over objects have no inducing points": not kernel.takes_tensors,
    }
    for reason, applies in only_exact.items():
        if applies and options.inference == "cg" and not kernel.takes_tensors:
            continue
        if applies:
            if options.inference not in ("auto", "exact"):
                raise InputError(f"inference must be 'exact' or 'auto' here, got {options.inference!r}: {reason}")
            return "exact", reason
    if options.inference != "auto":
        return options.inference, "as asked for"
    if n <= EXACT_ROWS:
        return "exact", f"{n} rows are at most {EXACT_ROWS}"
    points = f"with {options.n_inducing} inducing points"
    if n <= SPARSE_ROWS:
        return "sparse", f"{n} rows are more than {EXACT_ROWS}: collapsed bound {points}"
    return "stochastic", f"{n} rows are more than {SPARSE_ROWS}: mini-batches {points}"


def assemble(options: Any, inference: str, kernel: Kernel, data: Data, columns: list[str], centres: Centres) -> Engine:
    """An engine with start values from the data, for a kernel that knows its columns."""
    if options.outputs == "correlated":
        return co_kriging(None if options.kernel is None else kernel, columns, data)
    start_from_data(kernel, data.x, data.y.mean(1))
    mean = copy.deepcopy(options.mean)
    if varying_noise(options):
        return _heteroscedastic(kernel, mean, data)
    noise: Any = learnt_noise(data.y.shape[1])
    if data.noise is not None:
        level = data.noise.mean(0) if data.y.shape[1] > 1 else data.noise.mean()
        noise = 0 if not data.noise.any() else positive(level, trainable=False, name="noise")
    if inference == "exact":
        return Exact(ExactGP(kernel, mean, noise), data)
    if data.noise is not None and not bool((data.noise > 0).all()):
        raise InputError(f"inference={inference!r} needs noise above 0; without noise use inference='exact'")
    if inference == "cg":
        seed = int(join().from_first(options._seed()))  # processes that torchrun has started share the work
        _learn_from_some(options, ExactGP(kernel, mean, noise), data, _SOME, centres, seed)
        return Iterative(IterativeGP(kernel, mean, noise), data)
    return _with_inducing_points(options, inference, kernel, mean, noise, data, centres)


def _learn_from_some(options: Any, model: ExactGP, data: Data, most: int, centres: Centres, seed: int) -> None:
    """Values of a model near the best, by the exact process of at most ``most`` rows."""
    small = Exact(model, data.rows(some_rows(len(data.y), most, seed)))
    train(Criterion("map", small.module, small.score, centres), options, seed)


def _with_inducing_points(
    options: Any, inference: str, kernel: Kernel, mean: Any, noise: Any, data: Data, centres: Centres
) -> Engine:
    """Kernel and noise near their best values by the exact process on some rows, then points that suit them."""
    seed = options._seed()
    _learn_from_some(options, ExactGP(kernel, mean, noise), data, _SMALL, centres, seed)
    points = inducing_points(kernel, data.x, options.n_inducing, seed)
    if inference == "sparse":
        return Sparse(SparseGP(kernel, real(points, trainable=False, name="z"), mean, noise), data)
    model = StochasticGP(kernel, points, GaussianNoise(noise), mean, data.y.shape[1], dtype=torch.float64)
    return StochasticRegression(model, data)


def inducing_points(kernel: Kernel, x: Tensor, m: int, seed: int) -> Tensor:
    """The rows about which the others say least, under the kernel as it is."""
    return greedy_points(kernel, x[some_rows(len(x), _CANDIDATES, seed)], m)[0]


def _heteroscedastic(kernel: Kernel, mean: Any, data: Data) -> Engine:
    if data.y.shape[1] > 1 or data.weights is not None:
        raise InputError("noise='heteroscedastic' takes one target, and no sample weights")
    noise_kernel = None
    if kernel.takes_tensors:
        noise_kernel = start_from_data(RBF(ard=data.x.shape[1]), data.x, data.y[:, 0])
    return Heteroscedastic(HeteroscedasticGP(kernel, noise_kernel, mean, learnt_noise()), data)
