"""Fitted regressors as models of BoTorch, beside predict, update, finite differences and formulas of BoTorch."""

import numpy as np
import pandas as pd
import pytest
import torch

from stratagp import GPRegressor
from stratagp import kernels as k
from stratagp.errors import InputError

pytest.importorskip("botorch", exc_type=ImportError)
pytestmark = pytest.mark.peer

from botorch.acquisition import qKnowledgeGradient  # noqa: E402
from botorch.acquisition.analytic import LogExpectedImprovement  # noqa: E402
from botorch.acquisition.logei import qLogExpectedImprovement  # noqa: E402
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement  # noqa: E402
from botorch.models.model import ModelList  # noqa: E402
from botorch.optim import optimize_acqf  # noqa: E402
from botorch.sampling import ListSampler, SobolQMCNormalSampler  # noqa: E402

QUICK = {"n_restarts": 0, "max_iterations": 0, "random_state": 0}
WAYS = {
    "exact": {"inference": "exact", "standardise": "both"},
    "sparse": {"inference": "sparse", "n_inducing": 20},
    "vecchia": {"inference": "vecchia", "n_neighbours": 25},
    "draws": {},
}


def rows(n=40, seed=0, targets=1):
    random = np.random.default_rng(seed)
    X = random.uniform(0, 1, (n, 2)) * [1.0, 50.0]
    y = 100 + 10 * np.sin(4 * X[:, :1] + np.arange(targets)) + 0.1 * X[:, 1:] + 0.5 * random.normal(size=(n, targets))
    return X, y[:, 0] if targets == 1 else y


def fitted(way, targets=1):
    X, y = rows(targets=targets)
    gp = GPRegressor(k.RBF([0.5, 30.0]), **WAYS[way], **QUICK).fit(X, y)
    if way == "draws":  # as hyperparameters="bayes" has them
        gp.fitted_.draws += GPRegressor(k.RBF([0.3, 50.0]), **QUICK).fit(X, y).fitted_.draws
    return gp


def batches(b=3, q=4, seed=1):
    return torch.from_numpy(rows(b * q, seed)[0]).reshape(b, q, 2)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_each_batch_is_what_predict_says(way, targets):
    gp = fitted(way, targets)
    model, X = gp.to_botorch(), batches()
    assert model.num_outputs == targets
    for of in ("f", "y"):
        posterior = model.posterior(X, observation_noise=of == "y")
        for j in range(targets):
            normal = model.posterior(X, [j], of == "y").distribution
            for b in range(3):
                mean, cov = gp.predict(X[b].numpy(), return_cov=True, of=of)
                mean, cov = mean.reshape(4, -1)[:, j], cov.reshape(4, 4, -1)[..., j]
                np.testing.assert_allclose(posterior.mean[b, :, j].detach(), mean, rtol=1e-10)
                np.testing.assert_allclose(normal.covariance_matrix[b].detach(), cov, rtol=1e-8, atol=1e-8)
        alone = model.posterior(X[:, :1], observation_noise=of == "y")
        mean, std = (part.reshape(3, -1) for part in gp.predict(X[:, 0].numpy(), return_std=True, of=of))
        np.testing.assert_allclose(alone.mean[:, 0].detach(), mean, rtol=1e-10)
        np.testing.assert_allclose(alone.variance[:, 0].detach(), std**2, rtol=1e-8)


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_those_of_finite_differences(way):
    model = fitted(way).to_botorch()

    def both(X):
        normal = model.posterior(X).distribution
        return normal.mean, normal.covariance_matrix

    for q in (1, 2):
        X = batches(2, q).requires_grad_()
        assert torch.autograd.gradcheck(both, (X,), eps=1e-5, atol=1e-4, rtol=1e-4)
    seen = model.condition_on_observations(batches(1, 2, 5)[0], torch.tensor([[100.0], [110.0]]))
    assert torch.autograd.gradcheck(
        lambda X: seen.posterior(X).mean, (batches(2, 2).requires_grad_(),), eps=1e-5, atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("targets", [1, 2])
def test_new_observations_are_an_update(targets):
    X, y = rows(50, targets=targets)
    gp = GPRegressor(**QUICK).fit(X[:40], y[:40])
    new, Y = torch.from_numpy(X), torch.from_numpy(y).reshape(50, -1)
    model = gp.to_botorch().condition_on_observations(new[40:45], Y[40:45])
    model = model.condition_on_observations(new[45:], Y[45:])
    assert model.batch_shape == torch.Size([])
    mean, cov = gp.update(X[40:], y[40:]).predict(batches()[0].numpy(), return_cov=True, of="f")
    found = model.posterior(batches())
    np.testing.assert_allclose(found.mean[0].detach(), mean.reshape(4, -1), rtol=1e-8)
    own = model.subset_output([targets - 1]).posterior(batches()).distribution.covariance_matrix[0]
    np.testing.assert_allclose(own.detach(), cov.reshape(4, 4, -1)[..., -1], rtol=1e-6, atol=1e-8)


def test_known_variances_of_new_observations():
    X, y = rows(45)
    gp = GPRegressor(noise=np.full(40, 0.25), **QUICK).fit(X[:40], y[:40])
    level = torch.full((5, 1), 4.0, dtype=torch.float64)
    model = gp.to_botorch().condition_on_observations(torch.from_numpy(X[40:]), torch.from_numpy(y[40:, None]), level)
    mean = gp.update(X[40:], y[40:], noise=np.full(5, 4.0)).predict(batches()[0].numpy())
    np.testing.assert_allclose(model.posterior(batches()[0]).mean[:, 0].detach(), mean, rtol=1e-8)


def test_each_fantasy_is_an_update():
    X, y = rows()
    gp = GPRegressor(**QUICK).fit(X, y)
    model, new = gp.to_botorch(), batches(2, 3)
    fantasies = model.fantasize(new, SobolQMCNormalSampler(torch.Size([4]), seed=0))
    assert fantasies.batch_shape == torch.Size([4, 2])
    found, at = fantasies.posterior(batches(2, 2, 7)), batches(2, 2, 7)
    assert found.mean.shape == (4, 2, 2, 1)
    drawn = fantasies.seen.y[3, 1, :, 0].detach().numpy()
    mean, cov = gp.update(new[1].numpy(), drawn).predict(at[1].numpy(), return_cov=True, of="f")
    np.testing.assert_allclose(found.mean[3, 1, :, 0].detach(), mean, rtol=1e-8)
    np.testing.assert_allclose(found.distribution.covariance_matrix[3, 1].detach(), cov, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("way", ["exact", "vecchia"])
def test_expected_improvement_finds_the_best_of_a_grid(way):
    X, y = rows()
    gp = GPRegressor(k.RBF(ard=True), **WAYS[way], **QUICK).fit(X, y)
    model, best = gp.to_botorch(), float(y.max())
    bounds = torch.tensor([[0.0, 0.0], [1.0, 50.0]], dtype=torch.float64)
    sampler = SobolQMCNormalSampler(torch.Size([128]), seed=0)
    gain = qLogExpectedImprovement(model, best_f=best, sampler=sampler)
    torch.manual_seed(0)
    found, value = optimize_acqf(gain, bounds, q=1, num_restarts=2, raw_samples=16, options={"maxiter": 30})
    grid = torch.cartesian_prod(torch.linspace(0, 1, 15), torch.linspace(0, 50, 15)).double()
    exact = LogExpectedImprovement(model, best_f=best)
    truth = exact(grid[:, None]).max().item()
    assert exact(found[None]).item() > truth - 0.05
    assert value.item() == pytest.approx(exact(found[None]).item(), abs=0.1)  # 128 samples


def test_hypervolume_of_two_outputs():
    X, y = rows(8, targets=2)
    joint = GPRegressor(**QUICK).fit(X, y).to_botorch()
    apart = ModelList(*(GPRegressor(**QUICK).fit(X, y[:, j]).to_botorch() for j in range(2)))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 50.0]], dtype=torch.float64)
    samplers = [SobolQMCNormalSampler(torch.Size([8]), seed=seed) for seed in range(3)]
    for model, sampler in ((joint, samplers[0]), (apart, ListSampler(*samplers[1:]))):
        gain = qLogNoisyExpectedHypervolumeImprovement(
            model,
            ref_point=[95.0, 95.0],
            X_baseline=torch.from_numpy(X),
            sampler=sampler,
            prune_baseline=True,
            cache_root=False,
        )
        starts = batches(4, 2)
        values = gain(starts)
        first = starts[values.argmax()][None]
        found, value = optimize_acqf(
            gain,
            bounds,
            q=2,
            num_restarts=1,
            batch_initial_conditions=first,
            options={"maxiter": 4},
            retry_on_optimization_warning=False,  # four steps need not end, and other starts take most of a minute
        )
        assert found.shape == (2, 2)
        assert value.item() > values.max().item() + 0.01


def test_knowledge_gradient_runs_through_fantasies():
    model = GPRegressor(k.RBF(ard=True), **QUICK).fit(*rows(15)).to_botorch()
    gain = qKnowledgeGradient(model, num_fantasies=4)
    X = batches(2, 1 + 4).requires_grad_()
    (slope,) = torch.autograd.grad(gain(X).sum(), X)
    assert slope.isfinite().all()
    assert slope.abs().min() > 0


def test_models_without_such_answers_say_so():
    X, y = rows(20)
    with pytest.raises(InputError, match="to_botorch needs inference"):
        GPRegressor(noise="heteroscedastic", **QUICK).fit(X, y).to_botorch()
    table = pd.DataFrame({"a": X[:, 0], "kind": np.tile(["one", "two"], 10)})
    with pytest.raises(InputError, match="columns of numbers"):
        GPRegressor(**QUICK).fit(table, y).to_botorch()
    model = GPRegressor(**QUICK).fit(X, y).to_botorch()
    with pytest.raises(InputError, match="X has 3 columns"):
        model.posterior(torch.zeros(1, 3))
    with pytest.raises(InputError, match="Y must have 4 rows and 1 columns"):
        model.condition_on_observations(batches()[0], torch.zeros(4, 2))
