"""Exact models against scikit-learn and GPyTorch, to 1e-6: mean, covariance, evidence and its gradient."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from stratagp import ExactGP, GPClassification
from stratagp import kernels as k

TOLERANCE = 1e-6
ELL = [0.8, 1.5]
F64 = torch.float64


def data(n=35, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(2 * x[:, 0]) + 0.3 * x[:, -1] + 0.1 * rng.normal(size=n)


def gradient(value, model, names):
    """By the logarithms of the named parameters, in this order."""
    raws = [model.parameter(name).raw for name in names]
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, raws)]).numpy()


def close(ours, theirs):
    ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else ours
    theirs = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else theirs
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)


# Ours, scikit-learn's with the noise outside, and our names in the order of its theta.
REGRESSIONS = {
    "ARD": (lambda: k.RBF(ELL, 1.7), 1.7 * sk.RBF(ELL), ["variance", "lengthscale"]),
    "Exponential": (lambda: k.Exponential(ELL, 1.7), 1.7 * sk.Matern(ELL, nu=0.5), ["variance", "lengthscale"]),
    "Matern 3/2": (lambda: k.Matern(1.5, ELL, 1.7), 1.7 * sk.Matern(ELL, nu=1.5), ["variance", "lengthscale"]),
    "Matern 5/2": (lambda: k.Matern(2.5, ELL, 1.7), 1.7 * sk.Matern(ELL, nu=2.5), ["variance", "lengthscale"]),
    "rational quadratic": (
        lambda: k.RationalQuadratic(0.8, 0.6, 1.7),
        1.7 * sk.RationalQuadratic(0.8, 0.6),
        ["variance", "alpha", "lengthscale"],
    ),
    "sum": (
        lambda: k.RBF(ELL, 1.7) + k.Matern(1.5, 2.0, 0.4) + k.Constant(0.9),
        1.7 * sk.RBF(ELL) + 0.4 * sk.Matern(2.0, nu=1.5) + sk.ConstantKernel(0.9),
        ["0.variance", "0.lengthscale", "1.variance", "1.lengthscale", "2.variance"],
    ),
    "product": (
        lambda: k.RBF(ELL, 1.7) * k.RationalQuadratic(0.8, 0.6),
        1.7 * sk.RBF(ELL) * sk.RationalQuadratic(0.8, 0.6),
        ["0.variance", "0.lengthscale", "1.alpha", "1.lengthscale"],
    ),
}


def compare(gp, theirs, x, y, new, names, noise=None):
    value, slope = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    ours = gp.log_evidence(x, y, noise)
    close(ours, value)
    close(gradient(ours, gp, names), slope)
    posterior = gp.condition(x, y, noise)
    mean, covariance = theirs.predict(new, return_cov=True)
    close(posterior.mean(new), mean)
    return posterior, covariance


@pytest.mark.parametrize("name", REGRESSIONS)
def test_regression_agrees_with_scikit_learn(name):
    make, peer, names = REGRESSIONS[name]
    (x, y), new = data(), data(9, seed=1)[0]
    theirs = GaussianProcessRegressor(peer + sk.WhiteKernel(0.05), alpha=0, optimizer=None).fit(x, y)
    gp = ExactGP(make(), noise=0.05)
    posterior, covariance = compare(gp, theirs, x, y, new, [*(f"kernel.{part}" for part in names), "noise"])
    close(posterior.covariance(new) + 0.05 * torch.eye(9, dtype=F64), covariance)  # theirs is of observations
    close(posterior.variance(new) + 0.05, covariance.diagonal())


@pytest.mark.parametrize("name", ["ARD", "Matern 5/2", "sum"])
def test_noise_of_each_row_agrees_with_scikit_learn(name):
    make, peer, names = REGRESSIONS[name]
    (x, y), new = data(), data(9, seed=1)[0]
    noise = np.linspace(0.01, 0.3, len(y))
    theirs = GaussianProcessRegressor(peer, alpha=noise, optimizer=None).fit(x, y)
    gp = ExactGP(make())
    posterior, covariance = compare(gp, theirs, x, y, new, [f"kernel.{part}" for part in names], noise)
    close(posterior.covariance(new), covariance)


def test_a_season_agrees_with_scikit_learn():
    (x, y), new = data(d=1), data(9, d=1, seed=1)[0]
    season = 1.7 * sk.ExpSineSquared(0.9, 2.3) * sk.RBF(3.0) + sk.WhiteKernel(0.05)
    theirs = GaussianProcessRegressor(season, alpha=0, optimizer=None).fit(x, y)
    gp = ExactGP(k.Periodic(0.9, 2.3, 1.7) * k.RBF(3.0), noise=0.05)
    names = ["0.variance", "0.lengthscale", "0.period", "1.lengthscale"]
    posterior, covariance = compare(gp, theirs, x, y, new, [*(f"kernel.{part}" for part in names), "noise"])
    close(posterior.variance(new) + 0.05, covariance.diagonal())


def test_classification_with_a_composed_kernel_agrees_with_scikit_learn():
    x, y = data(50)
    t, new = (y > 0).astype(float), data(9, seed=1)[0]
    peer = 2.5 * sk.Matern(ELL, nu=2.5) + sk.ConstantKernel(0.9)
    theirs = GaussianProcessClassifier(peer, optimizer=None).fit(x, t)
    model = GPClassification(k.Matern(2.5, ELL, 2.5) + k.Constant(0.9))
    ours = model.log_evidence(torch.from_numpy(x), torch.from_numpy(t))
    value, slope = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    close(ours, value)
    close(gradient(ours, model, ["kernel.0.variance", "kernel.0.lengthscale", "kernel.1.variance"]), slope)
    belief = model.condition(torch.from_numpy(x), torch.from_numpy(t)).marginals(torch.from_numpy(new))
    pytest.importorskip("sklearn", minversion="1.7")  # has the moments below
    mean, var = theirs.latent_mean_and_variance(new)
    close(belief.mean[:, 0], mean)
    close(belief.var[:, 0], var)


# --- GPyTorch ---


@pytest.fixture
def gpytorch():
    """The library, with its iterative computations off."""
    library = pytest.importorskip("gpytorch")
    with (
        library.settings.fast_computations(False, False, False),
        library.settings.fast_pred_var(False),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield library


def peer_model(gpytorch, x, y, likelihood, forward, **parts):
    """An exact model of theirs whose prior is ``forward(model, *inputs)``."""

    class Peer(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(x, y, likelihood)
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, *inputs):
            return forward(self, *inputs)

    return Peer().double()


def peer_evidence(gpytorch, model, x, y):
    model.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    return marginal(model(*x), y) * y.numel()  # theirs is a mean over the targets


def log_slope(value, parameter, raw):
    """Their gradient by the logarithm of a parameter, from that by its raw form (softplus)."""
    (slope,) = torch.autograd.grad(value, raw, retain_graph=True)
    natural = parameter.detach()
    return (slope / (1 - torch.exp(-natural)) * natural).reshape(-1)


@pytest.mark.peer
def test_derivative_observations_agree_with_gpytorch(gpytorch):
    x = torch.from_numpy(data(8)[0])
    new = torch.from_numpy(data(5, seed=1)[0])
    slopes = torch.stack([2 * (2 * x[:, 0]).cos(), torch.full((8,), 0.3, dtype=F64)], 1)
    y = torch.cat([(2 * x[:, :1]).sin() + 0.3 * x[:, 1:], slopes], 1)
    kernel = gpytorch.kernels.RBFKernelGrad(ard_num_dims=2)
    likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=3)

    def forward(model, x):
        joint = gpytorch.distributions.MultitaskMultivariateNormal
        return joint(model.mean(x), model.kernel(x))

    mean = gpytorch.means.ConstantMeanGrad()
    model = peer_model(gpytorch, x, y, likelihood, forward, mean=mean, kernel=kernel)
    kernel.lengthscale = torch.tensor(ELL, dtype=F64)
    likelihood.task_noises, likelihood.noise = torch.tensor([0.01, 0.05, 0.2], dtype=F64), 0.02
    noise = (likelihood.task_noises + likelihood.noise).detach()

    rows = k.with_derivatives(x.repeat_interleave(3, 0), torch.arange(3).repeat(8))
    gp = ExactGP(k.RBF(ELL)).with_slopes()
    theirs, ours = peer_evidence(gpytorch, model, [x], y), gp.log_evidence(rows, y.reshape(-1), noise.repeat(8))
    close(ours, theirs)
    mine = gradient(ours, gp, ["lengthscale"])
    close(mine, log_slope(theirs, kernel.lengthscale, kernel.raw_lengthscale))

    model.eval()
    belief = model(new)
    posterior = gp.condition(rows, y.reshape(-1), noise.repeat(8))
    asked = k.with_derivatives(new.repeat_interleave(3, 0), torch.arange(3).repeat(5))
    close(posterior.mean(asked), belief.mean.reshape(-1))
    close(posterior.covariance(asked), belief.covariance_matrix)


def coregionalised(gpytorch):
    weights, kappa = np.array([[0.9], [-0.4]]), np.array([0.3, 0.6])
    index = gpytorch.kernels.IndexKernel(num_tasks=2, rank=1).double()
    index.initialize(covar_factor=torch.tensor(weights), var=torch.tensor(kappa))
    base = gpytorch.kernels.RBFKernel(ard_num_dims=2).double()
    base.lengthscale = torch.tensor(ELL, dtype=F64)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = 0.05
    kernel = k.Coregionalised(k.RBF(ELL), 2, rank=1, weights=weights, kappa=kappa)
    return index, base, likelihood, ExactGP(kernel, noise=0.05)


@pytest.mark.peer
def test_outputs_at_their_own_places_agree_with_gpytorch(gpytorch):
    x, y = (torch.from_numpy(part) for part in data(20))
    task = torch.arange(20) % 3 // 2  # the second output is seen at every third place only
    index, base, likelihood, gp = coregionalised(gpytorch)

    def forward(model, x, i):
        return gpytorch.distributions.MultivariateNormal(
            torch.zeros(len(x), dtype=F64), model.base(x).mul(model.index(i))
        )

    model = peer_model(gpytorch, (x, task[:, None]), y, likelihood, forward, index=index, base=base)
    rows = torch.cat([x, task[:, None]], 1)
    theirs, ours = peer_evidence(gpytorch, model, [x, task[:, None]], y), gp.log_evidence(rows, y)
    close(ours, theirs)
    close(gradient(ours, gp, ["lengthscale"]), log_slope(theirs, base.lengthscale, base.raw_lengthscale))
    close(gradient(gp.log_evidence(rows, y), gp, ["kappa"]), log_slope(theirs, index.var, index.raw_var))
    close(gradient(gp.log_evidence(rows, y), gp, ["noise"]), log_slope_above(theirs, likelihood))
    (factor,) = torch.autograd.grad(theirs, index.covar_factor)
    close(gradient(gp.log_evidence(rows, y), gp, ["weights"]), factor.reshape(-1))

    model.eval()
    new, other = torch.from_numpy(data(6, seed=1)[0]), torch.tensor([0, 1, 1, 0, 1, 0])
    belief = model(new, other[:, None])
    asked = torch.cat([new, other[:, None]], 1)
    posterior = gp.condition(rows, y)
    close(posterior.mean(asked), belief.mean)
    close(posterior.covariance(asked), belief.covariance_matrix)


def log_slope_above(value, likelihood):
    """Their noise is 1e-4 + softplus(raw)."""
    noise = likelihood.noise_covar
    (slope,) = torch.autograd.grad(value, noise.raw_noise, retain_graph=True)
    return (slope / (1 - torch.exp(-(noise.noise.detach() - 1e-4))) * noise.noise.detach()).reshape(-1)


@pytest.mark.peer
def test_complete_outputs_agree_with_gpytorch(gpytorch):
    x, y = (torch.from_numpy(part) for part in data(15))
    both = torch.stack([y, y.square() - 0.5], 1)
    index, base, _, gp = coregionalised(gpytorch)
    kernel = gpytorch.kernels.MultitaskKernel(base, num_tasks=2, rank=1).double()
    kernel.task_covar_module.initialize(covar_factor=index.covar_factor.detach(), var=index.var.detach())
    likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2, has_task_noise=False).double()
    likelihood.noise = 0.05

    def forward(model, x):
        joint = gpytorch.distributions.MultitaskMultivariateNormal
        return joint(torch.zeros(len(x), 2, dtype=F64), model.kernel(x))

    model = peer_model(gpytorch, x, both, likelihood, forward, kernel=kernel)
    rows = k.stack_outputs([x, x])
    theirs, ours = peer_evidence(gpytorch, model, [x], both), gp.log_evidence(rows, both.mT.reshape(-1))
    close(ours, theirs)
    model.eval()
    new = torch.from_numpy(data(6, seed=1)[0])
    belief = gp.condition(rows, both.mT.reshape(-1)).marginals(k.stack_outputs([new, new]))
    close(belief.mean.reshape(2, 6).mT, model(new).mean)
    close(belief.var.reshape(2, 6).mT, model(new).variance)
