"""A whole fit of an exact Gaussian process with an RBF kernel: ours, and that of each peer.

Each maker returns a function from a :class:`Task` to a :class:`Fitted` that is ready to predict, or skips where its
library is absent. All start from the same hyperparameters and maximise the evidence by L-BFGS until it converges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from threadpoolctl import ThreadpoolController
from torch import Tensor

from harness import Skip, in_words, peer
from stratagp.estimators import GPRegressor
from stratagp.kernels import RBF
from stratagp.models.exact import ExactGP
from stratagp.training import maximise
from stratagp.training.start import start_from_data

COLUMNS = 8
BOUNDS = (1e-5, 1e5)
MEMORY = {"maxcor": 20}  # of L-BFGS, as in our training
BUDGET = 2 * 3600.0  # seconds after which a fit is given up

Prediction = tuple[np.ndarray, np.ndarray]  # mean and standard deviation of new observations


class Task(NamedTuple):
    """Standardised data, and the hyperparameters from which everybody starts."""

    x: np.ndarray
    y: np.ndarray
    lengthscale: np.ndarray
    variance: float = 1.0
    noise: float = 0.1


class Fitted(NamedTuple):
    """What a fit ends with."""

    lengthscale: np.ndarray
    variance: float
    noise: float
    evaluations: int
    predict: Callable[[np.ndarray], Prediction]


Fit = Callable[[Task], Fitted]


def task(n: int) -> Task:
    """A smooth function in which each of the columns matters, and noise of a sixth of its spread."""
    x, random = places(n, seed=n), np.random.default_rng(2 * n)
    f = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + np.cos(x[:, 3] + 0.5 * x[:, 4])
    f += np.tanh(x[:, 5] - x[:, 6]) + 0.5 * np.sin(0.8 * x[:, 7])
    y = f + 0.2 * random.standard_normal(n)
    y = (y - y.mean()) / y.std()
    kernel = start_from_data(RBF(ard=COLUMNS), torch.from_numpy(x), torch.from_numpy(y))
    return Task(x, y, kernel.lengthscale.detach().numpy().ravel())


def places(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, COLUMNS))


def log_evidence(t: Task, at: Fitted) -> float:
    """``log N(y; 0, K + noise I)`` in plain NumPy: the one judge of all contestants."""
    covariance = at.variance * np.exp(-0.5 * cdist(t.x / at.lengthscale, t.x / at.lengthscale, "sqeuclidean"))
    factor = cholesky(covariance + at.noise * np.eye(len(t.y)), lower=True)
    white = solve_triangular(factor, t.y, lower=True)
    return float(-0.5 * white @ white - np.log(factor.diagonal()).sum() - 0.5 * len(t.y) * np.log(2 * np.pi))


# --- ours ---


def stratagp() -> Fit:
    def fit(t: Task) -> Fitted:
        x, y = torch.from_numpy(t.x), torch.from_numpy(t.y)
        model = ExactGP(_kernel(t), noise=t.noise)
        evaluations = maximise(lambda: model.log_evidence(x, y), model.parameters()).evaluations
        posterior = model.condition(x, y)

        def predict(new: np.ndarray) -> Prediction:
            mean, var = posterior.marginals(torch.from_numpy(new))
            return mean[:, 0].numpy(), (var[:, 0] + posterior.prior.noise.detach()).sqrt().numpy()

        return _read(model, evaluations, predict)

    return fit


def regressor() -> Fit:
    def fit(t: Task) -> Fitted:
        model = GPRegressor(_kernel(t), hyperparameters="ml", inference="exact", n_restarts=0).fit(t.x, t.y)
        return _read(model.model_, model.result_.evaluations, lambda new: model.predict(new, return_std=True))

    return fit


def _kernel(t: Task) -> RBF:
    return RBF(ard=COLUMNS).set(lengthscale=t.lengthscale, variance=t.variance)


def _read(model: ExactGP, evaluations: int, predict: Callable) -> Fitted:
    scales = _flat([model.kernel.lengthscale])
    return Fitted(scales, model.kernel.variance.item(), model.noise.item(), evaluations, predict)


# --- peers ---


class Watch:
    """Counts evaluations, tells every half minute how far a fit is, and gives up one that takes longer than BUDGET."""

    def __init__(self) -> None:
        self.start = self.told = time.monotonic()
        self.count = 0

    def __call__(self, *_: Any) -> None:
        """One step more."""
        self.count += 1
        now = time.monotonic()
        if now - self.start > BUDGET:
            raise Skip(f"not finished after {in_words(BUDGET)} and {self.count} steps")
        if now - self.told > 30:
            self.told = now
            print(f"  … {self.count} steps in {in_words(now - self.start)}", flush=True)

    def around(self, objective: Callable[..., Any]) -> Callable[..., Any]:
        """The objective, watched."""

        def watched(*args: Any) -> Any:
            self()
            return objective(*args)

        return watched


@contextmanager
def calm_scipy() -> Iterator[None]:
    """Without scipy's own BLAS threads, which would fight a peer's for the cores; our training does the same."""
    with ThreadpoolController().select(prefix="libscipy_openblas").limit(limits=1):
        yield


def scikit_learn() -> Fit:
    gp = peer("sklearn.gaussian_process")

    def fit(t: Task) -> Fitted:
        signal = gp.kernels.ConstantKernel(t.variance, BOUNDS) * gp.kernels.RBF(t.lengthscale, BOUNDS)
        model, watch = sklearn_model(signal + gp.kernels.WhiteKernel(t.noise, BOUNDS))
        model.fit(t.x, t.y)
        signal, white = model.kernel_.k1, model.kernel_.k2
        values = signal.k2.length_scale, signal.k1.constant_value, white.noise_level
        return Fitted(*values, watch.count, lambda new: model.predict(new, return_std=True))

    return fit


def sklearn_model(kernel: Any, **options: Any) -> tuple[Any, Watch]:
    """scikit-learn's regressor with the optimiser that it has by default, watched."""
    watch = Watch()

    def by_lbfgs(objective: Callable[..., Any], theta: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, float]:
        end = minimize(watch.around(objective), theta, method="L-BFGS-B", jac=True, bounds=bounds)
        return end.x, end.fun

    regressor = peer("sklearn.gaussian_process").GaussianProcessRegressor
    return regressor(kernel, alpha=0.0, optimizer=by_lbfgs, **options), watch


def gpytorch() -> Fit:
    library = peer("gpytorch")

    def fit(t: Task) -> Fitted:
        logs = library.constraints.Positive(transform=torch.exp, inv_transform=torch.log)  # fewer steps than softplus
        kernel = library.kernels.RBFKernel(ard_num_dims=COLUMNS, lengthscale_constraint=logs)
        model = gpytorch_model(t.x, t.y, kernel, library.means.ZeroMean())
        model.kernel.outputscale, model.likelihood.noise = t.variance, t.noise
        model.kernel.base_kernel.lengthscale = torch.from_numpy(t.lengthscale)
        evaluations, predict = gpytorch_lbfgs(model), gpytorch_predictor(model)
        scales, variances = _flat([kernel.lengthscale]), (model.kernel.outputscale, model.likelihood.noise)
        return Fitted(scales, *(value.item() for value in variances), evaluations, predict)

    return fit


def gpytorch_model(x: np.ndarray, y: np.ndarray, kernel: Any, mean: Any) -> Any:
    library = peer("gpytorch")

    class Model(library.models.ExactGP):
        def __init__(self, *data: Any) -> None:
            super().__init__(*data, library.likelihoods.GaussianLikelihood())
            self.mean, self.kernel = mean, library.kernels.ScaleKernel(kernel)

        def forward(self, points: Tensor) -> Any:
            return library.distributions.MultivariateNormal(self.mean(points), self.kernel(points))

    return Model(torch.from_numpy(x), torch.from_numpy(y)).double()


@contextmanager
def gpytorch_exact() -> Iterator[None]:
    """Cholesky at every size, and its factor kept for all predictions."""
    settings = peer("gpytorch").settings
    exact = settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False)
    with exact, settings.max_cholesky_size(10**6), settings.fast_pred_var():
        yield


def gpytorch_lbfgs(model: Any) -> int:
    """Maximise the evidence of a GPyTorch model by scipy's L-BFGS; how many evaluations it took."""
    evidence = peer("gpytorch").mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    leaves, watch = list(model.parameters()), Watch()

    def place(theta: np.ndarray) -> None:
        torch.nn.utils.vector_to_parameters(torch.from_numpy(theta), leaves)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        place(theta)
        value = -evidence(model(*model.train_inputs), model.train_targets)  # a row: takes fewer steps than the sum
        return value.item(), _flat(torch.autograd.grad(value, leaves))

    model.train()
    with gpytorch_exact(), calm_scipy():
        end = minimize(watch.around(loss), _flat(leaves), jac=True, method="L-BFGS-B", options=MEMORY)
    place(end.x)
    return watch.count


def gpytorch_predictor(model: Any) -> Callable[[np.ndarray], Prediction]:
    """Mean and standard deviation of observations, with what all predictions share computed already."""
    model.eval()

    def predict(new: np.ndarray) -> Prediction:
        with torch.no_grad(), gpytorch_exact():  # a thousand rows at a time: it builds their joint covariance
            beliefs = [model.likelihood(model(rows)) for rows in torch.from_numpy(new).split(1000)]
            return tuple(torch.cat([getattr(b, name) for b in beliefs]).numpy() for name in ("mean", "stddev"))

    predict(model.train_inputs[0][:1].numpy())
    return predict


def _flat(tensors: Iterable[Tensor]) -> np.ndarray:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).numpy().copy()


def gpflow() -> Fit:
    library, tf = peer("gpflow"), peer("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(torch.get_num_threads())
    tf.config.threading.set_inter_op_parallelism_threads(1)

    def fit(t: Task) -> Fitted:
        kernel = library.kernels.SquaredExponential(t.variance, t.lengthscale)
        model = library.models.GPR((t.x, t.y[:, None]), kernel, noise_variance=t.noise)
        with calm_scipy():
            search, variables = library.optimizers.Scipy(), model.trainable_variables
            end = search.minimize(model.training_loss, variables, step_callback=Watch(), options=MEMORY)
        posterior = model.posterior()

        def predict(new: np.ndarray) -> Prediction:
            mean, var = posterior.predict_f(new)
            return mean.numpy()[:, 0], np.sqrt(var.numpy()[:, 0] + model.likelihood.variance.numpy())

        variances = (float(p.numpy()) for p in (kernel.variance, model.likelihood.variance))
        return Fitted(kernel.lengthscales.numpy(), *variances, int(end.nfev), predict)

    return fit


def gpy() -> Fit:
    library = peer("GPy")

    def fit(t: Task) -> Fitted:
        kernel = library.kern.RBF(COLUMNS, t.variance, t.lengthscale, ARD=True)
        model = library.models.GPRegression(t.x, t.y[:, None], kernel, noise_var=t.noise)
        run = model.optimize("lbfgsb")

        def predict(new: np.ndarray) -> Prediction:
            mean, var = model.predict(new)
            return mean[:, 0], np.sqrt(var[:, 0])

        noise = float(model.likelihood.variance[0])
        return Fitted(np.array(kernel.lengthscale), float(kernel.variance[0]), noise, int(run.funct_eval), predict)

    return fit


OURS = {"StrataGP": stratagp, "GPRegressor": regressor}
PEERS = {"GPyTorch": gpytorch, "scikit-learn": scikit_learn, "GPflow": gpflow, "GPy": gpy}
