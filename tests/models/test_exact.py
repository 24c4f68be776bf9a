import numpy as np
import pandas
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import InputError, UnsupportedError
from stratagp.parameters import positive
from stratagp.priors import LogNormal
from stratagp.training import maximise


def data(n=40, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=n)


def test_posterior_and_evidence_agree_with_scikit_learn():
    x, y = data()
    new = np.random.default_rng(1).normal(size=(7, 2))
    theirs = GaussianProcessRegressor(1.7 * sk.RBF([0.8, 1.5]), alpha=0.05, optimizer=None).fit(x, y)
    gp = ExactGP(k.RBF([0.8, 1.5], 1.7), noise=0.05)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    assert gp.log_evidence(tx, ty).item() == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-9)
    belief = gp.condition(tx, ty).marginals(torch.from_numpy(new))
    mean, std = theirs.predict(new, return_std=True)
    np.testing.assert_allclose(belief.mean[:, 0].numpy(), mean, atol=1e-8)
    np.testing.assert_allclose(belief.var[:, 0].sqrt().numpy(), std, atol=1e-7)


def test_mean_function_is_added_back():
    x, y = (torch.from_numpy(part) for part in data())
    gp = ExactGP(k.RBF(0.1), means.Polynomial([0.5, -0.3], 2.0), noise=1e-6)
    far = torch.tensor([[50.0, 10.0]], dtype=torch.float64)
    assert gp.condition(x, y).marginals(far).mean.item() == pytest.approx(0.5 * 50 - 3.0 + 2.0, abs=1e-9)


def test_components_of_a_sum_add_up():
    x, y = (torch.from_numpy(part) for part in data())
    parts = [k.RBF(0.7), k.Linear(0.5)]
    posterior = ExactGP(parts[0] + parts[1], noise=0.05).condition(x, y)
    whole = posterior.marginals(x[:5]).mean
    torch.testing.assert_close(sum(posterior.component(p, x[:5]).mean for p in parts), whole, rtol=1e-9, atol=1e-9)


def test_maximised_evidence_is_not_below_scikit_learns():
    x, y = data(60)
    kernel = sk.ConstantKernel() * sk.RBF([1.0, 1.0]) + sk.WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, n_restarts_optimizer=0).fit(x, y)
    gp = ExactGP(k.RBF(ard=2), noise=0.1)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    result = maximise(lambda: gp.log_evidence(tx, ty), gp.parameters())
    assert result.value >= theirs.log_marginal_likelihood_value_ - 1e-3
    assert gp.log_evidence(tx, ty).item() == pytest.approx(result.value, rel=1e-10)


def fitted(noise=0.05, kernel=None, seed=0):
    x, y = (torch.from_numpy(part) for part in data(seed=seed))
    return ExactGP(kernel or k.RBF([0.8, 1.5], 1.7), noise=noise), x, y


def test_joint_covariance_and_samples():
    gp, x, y = fitted()
    posterior, new = gp.condition(x, y), x[:6] + 0.3
    c = gp.kernel(x) + 0.05 * torch.eye(len(x))
    expected = gp.kernel(new) - gp.kernel(new, x) @ torch.linalg.solve(c, gp.kernel(x, new))
    torch.testing.assert_close(posterior.covariance(new), expected.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(posterior.covariance(new, new[:2]), expected[:, :2].detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(posterior.variance(new), expected.diagonal().detach(), rtol=1e-9, atol=1e-9)
    for process, cov in ((posterior, expected), (gp, gp.kernel(new))):
        for method in ("cholesky", "eigen", "pivoted"):
            draws = process.sample(new, 20_000, method, torch.Generator().manual_seed(0))
            torch.testing.assert_close(torch.cov(draws.mT), cov.detach(), rtol=0, atol=0.1)
            torch.testing.assert_close(draws.mean(0), process.mean(new), rtol=0, atol=0.05)


def test_conditioning_in_two_steps_is_conditioning_at_once():
    gp, x, y = fitted()
    noise = torch.linspace(0.01, 0.2, len(y), dtype=torch.float64)
    whole = gp.condition(x, y, noise)
    steps = gp.condition(x[:25], y[:25], noise[:25]).condition(x[25:30], y[25:30], noise[25:30])
    steps = steps.condition(x[30:], y[30:], noise[30:])
    new = x[:5] + 0.4
    torch.testing.assert_close(steps.factor, whole.factor, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(tuple(steps.marginals(new)), tuple(whole.marginals(new)), rtol=1e-10, atol=1e-10)
    assert steps.log_evidence().item() == pytest.approx(gp.log_evidence(x, y, noise).item(), rel=1e-10)


def test_leave_one_out_equals_refits():
    gp, x, y = fitted()
    gp.mean = means.Constant(0.7)
    loo = gp.condition(x, y).leave_one_out()
    total = 0.0
    for i in range(len(y)):
        rest = [j for j in range(len(y)) if j != i]
        belief = gp.condition(x[rest], y[rest]).marginals(x[i : i + 1])
        assert loo.mean[i].item() == pytest.approx(belief.mean.item(), abs=1e-9)
        assert loo.var[i].item() == pytest.approx(belief.var.item() + 0.05, abs=1e-9)
        total += torch.distributions.Normal(loo.mean[i], loo.var[i].sqrt()).log_prob(y[i]).item()
    assert gp.log_leave_one_out(x, y).item() == pytest.approx(total, abs=1e-8)


def test_gradient_of_the_posterior():
    gp, x, y = fitted(noise=1e-3)
    posterior = gp.condition(x, y)
    new = (x[:4] + 0.3).requires_grad_()
    (slope,) = torch.autograd.grad(posterior.mean(new).sum(), new)
    mean, cov = posterior.gradient(new.detach())
    torch.testing.assert_close(mean, slope, rtol=1e-8, atol=1e-8)
    step = 1e-4
    for j in range(2):
        shift = torch.zeros(2, dtype=torch.float64)
        shift[j] = step
        pair = torch.cat([new.detach() + shift, new.detach() - shift])
        joint = posterior.covariance(pair)
        quotient = (joint[:4, :4] + joint[4:, 4:] - 2 * joint[:4, 4:]).diagonal() / (2 * step) ** 2
        torch.testing.assert_close(cov[:, j, j], quotient, rtol=1e-3, atol=1e-4)


def test_noise_free_interpolation():
    gp, x, y = fitted(noise=0)
    posterior = gp.condition(x, y)
    torch.testing.assert_close(posterior.mean(x), y, rtol=0, atol=1e-5)
    assert posterior.variance(x).max().item() < 1e-6
    assert [item.name for item in gp.named_values()] == ["kernel.lengthscale", "kernel.variance"]


def test_drawn_functions_follow_the_posterior():
    gp, x, y = fitted(noise=0.02)
    posterior, new = gp.condition(x[:15], y[:15]), x[20:26]
    generator = torch.Generator().manual_seed(0)
    function = posterior.draw(500, generator)
    torch.testing.assert_close(function(new)[:2], function(new[:2]))
    values = torch.stack([posterior.draw(500, generator)(new) for _ in range(300)])
    error = (values.mean(0) - posterior.mean(new)).abs() / (posterior.variance(new) / 300).sqrt()
    assert error.max() < 5
    torch.testing.assert_close(torch.cov(values.mT), posterior.covariance(new), rtol=0, atol=0.25)
    prior = torch.stack([gp.draw(500, generator)(new) for _ in range(300)])
    torch.testing.assert_close(torch.cov(prior.mT), gp.covariance(new).detach(), rtol=0, atol=0.5)


def test_prediction_is_chunked_without_a_change(monkeypatch):
    gp, x, y = fitted()
    posterior = gp.condition(x, y)
    whole = posterior.marginals(x)
    monkeypatch.setattr("stratagp.models.exact_posterior._CHUNK", 7 * len(y))
    torch.testing.assert_close(tuple(posterior.marginals(x)), tuple(whole), rtol=1e-12, atol=1e-12)


def test_slopes_and_outputs_are_kernels():
    places = torch.linspace(0, 6, 9, dtype=torch.float64)[:, None]
    x = k.stack_values_and_slopes(torch.zeros(1, 1, dtype=torch.float64), places)
    y = torch.cat([torch.zeros(1, dtype=torch.float64), places.cos().squeeze(-1)])
    noise = torch.tensor([1e-6] + [1e-4] * 9, dtype=torch.float64)
    gp = ExactGP(k.Derivatives(k.RBF()))
    new = k.with_derivatives(torch.linspace(0, 6, 50, dtype=torch.float64)[:, None], 0)
    error = gp.condition(x, y, noise).mean(new) - new[:, 0].sin()
    assert error.abs().max() < 0.03


def test_objects():
    words = ["gaussian", "process", "kernel", "gauss", "processes"]
    kernel = k.PairFunction(lambda a, b: len(set(a) & set(b)))
    y = torch.tensor([1.0, 0.0, 0.5, 1.0, 0.0], dtype=torch.float64)
    posterior = ExactGP(kernel, noise=1e-4).condition(words[:3], y[:3]).condition(words[3:], y[3:])
    torch.testing.assert_close(posterior.mean(words), y, rtol=0, atol=0.02)


def test_a_posterior_does_not_change_when_its_prior_does():
    gp, x, y = fitted()
    posterior = gp.condition(x, y)
    before = posterior.mean(x[:3] + 0.2)
    gp.kernel.set(variance=50.0)
    torch.testing.assert_close(posterior.mean(x[:3] + 0.2), before, rtol=0, atol=0)


def test_arrays_frames_and_single_precision():
    gp, x, y = fitted()
    truth = gp.condition(x, y).mean(x[:3])
    frame = pandas.DataFrame(x.numpy(), columns=["a", "b"])
    torch.testing.assert_close(gp.condition(frame, pandas.Series(y.numpy())).mean(frame[:3]), truth)
    torch.testing.assert_close(gp.condition(x.numpy(), y.numpy()).mean(x[:3].numpy()), truth)
    single = gp.condition(x.float(), y.float())
    torch.testing.assert_close(single.mean(x[:3].float()), truth, rtol=1e-4, atol=1e-4)
    gp.float()
    assert gp.condition(x, y).mean(x[:3]).dtype == torch.float32


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda gp, x, y: ExactGP(k.RBF(), 0.1), "pass noise by keyword"),
        (lambda gp, x, y: ExactGP(k.RBF), r"must be a kernel such as RBF\(\)"),
        (lambda gp, x, y: ExactGP(k.RBF(), noise=-1.0), "noise must be positive"),
    ],
)
def test_misuse_is_explained(act, message):
    with pytest.raises(InputError, match=message):
        act(*fitted())


def test_priors_enter_the_log_posterior():
    x, y = (torch.from_numpy(part) for part in data())
    gp = ExactGP(k.RBF(positive(1.0, prior=LogNormal(3.0, 0.01))), noise=0.05)
    maximise(lambda: gp.log_posterior(x, y), gp.parameters())
    assert gp.kernel.lengthscale.item() == pytest.approx(3.0, rel=0.05)


# --- several targets at the same places ---


@pytest.mark.parametrize("given", [False, True])
def test_several_targets_add_up(given):
    gp, x, y = fitted()
    gp.mean = means.Constant(0.7)
    noise = torch.linspace(0.01, 0.2, len(y), dtype=torch.float64) if given else None
    several = torch.stack([y, y.square(), -2 * y], 1)
    for score in (gp.log_evidence, gp.log_leave_one_out):
        singly = sum(score(x, column, noise) for column in several.mT)
        together = score(x, several, noise)
        assert together.item() == pytest.approx(singly.item(), rel=1e-11)
        gradients = [
            torch.autograd.grad(value, list(gp.parameters()), allow_unused=True) for value in (singly, together)
        ]
        torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-8, atol=1e-8)
        assert score(x, y[:, None], noise).item() == pytest.approx(score(x, y, noise).item(), rel=1e-12)


def test_each_target_has_its_posterior_and_they_share_a_factor():
    gp, x, y = fitted()
    gp.mean = means.Polynomial([0.5, -0.3], 2.0)
    several = torch.stack([y, y.square()], 1)
    posteriors = gp.condition_each(x, several)
    assert posteriors[0].factor is posteriors[1].factor
    for posterior, column in zip(posteriors, several.mT, strict=True):
        alone = gp.condition(x, column)
        torch.testing.assert_close(tuple(posterior.marginals(x[:5] + 0.2)), tuple(alone.marginals(x[:5] + 0.2)))
        torch.testing.assert_close(posterior.leave_one_out().mean, alone.leave_one_out().mean)
        assert posterior.log_evidence().item() == pytest.approx(gp.log_evidence(x, column).item(), rel=1e-10)
    assert len(gp.condition_each(x, y)) == 1


# --- slopes ---


class Bumpy(torch.nn.Module):
    def forward(self, x):
        return (2 * x[:, 0]).sin() * x[:, 1].square()


KERNELS = {
    "closed form": lambda: k.RBF([0.8, 1.5], 1.7),
    "Matern": lambda: k.Matern(2.5, [0.8, 1.5], 1.7),
    "autograd": lambda: k.RBF(0.9) * k.Periodic(1.2, 3.0).on(0) + k.Linear(0.5),
}
STEP = 1e-3


def moved(x, column, h):
    shift = torch.zeros_like(x)
    shift[:, column] = h
    return x + shift


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("conditioned", [False, True])
def test_derivative_is_the_limit_of_difference_quotients(name, column, conditioned):
    gp, x, y = fitted(noise=0.05, kernel=KERNELS[name]())
    gp.mean = Bumpy()
    process = gp.condition(x, y) if conditioned else gp
    slope, new, other = process.derivative(column), x[:4] + 0.3, x[5:8] - 0.2
    up, down, right, left = (moved(at, column, h) for at in (new, other) for h in (STEP, -STEP))
    with torch.no_grad():
        quotient = (process.mean(up) - process.mean(down)) / (2 * STEP)
        cov = process.covariance
        second = (cov(up, right) - cov(up, left) - cov(down, right) + cov(down, left)) / (2 * STEP) ** 2
        torch.testing.assert_close(slope.mean(new), quotient, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(slope.covariance(new, other), second, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(slope.variance(new), slope.covariance(new).diagonal(), rtol=1e-9, atol=1e-9)
    if conditioned:
        mean, covariance = process.gradient(new)
        torch.testing.assert_close(mean[:, column], slope.mean(new), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(covariance[:, column, column], slope.variance(new), rtol=1e-9, atol=1e-9)


def test_derivative_of_the_prior_in_closed_form():
    """``k (1/ℓ² − (x − z)²/ℓ⁴)``, and the slope of the mean."""
    gp, x, _ = fitted()
    gp.mean = means.Polynomial([[0.5, -0.3], [0.2, 0.1]], 2.0)
    slope, z = gp.derivative(1), x[:7] + 0.1
    gap = x[:, None, 1] - z[:, 1]
    expected = gp.kernel(x, z) * (1 / 1.5**2 - gap.square() / 1.5**4)
    torch.testing.assert_close(slope.covariance(x, z), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(slope.mean(x), -0.3 + 0.2 * x[:, 1], rtol=1e-12, atol=1e-12)
    gp.kernel.set(variance=17.0)  # the prior's derivative follows its parameters
    torch.testing.assert_close(slope.variance(x), torch.full((40,), 17 / 1.5**2, dtype=torch.float64))


def test_samples_of_the_slope_are_quotients_of_samples():
    gp, x, y = fitted()
    posterior, new, h = gp.condition(x, y), x[:3] + 0.3, 0.02
    generator = torch.Generator().manual_seed(0)
    joint = posterior.sample(torch.cat([moved(new, 0, h), moved(new, 0, -h)]), 20_000, "eigen", generator)
    quotients = (joint[:, :3] - joint[:, 3:]) / (2 * h)
    draws = posterior.derivative(0).sample(new, 20_000, generator=generator)
    scale = posterior.derivative(0).variance(new).max().item()
    torch.testing.assert_close(torch.cov(draws.mT), torch.cov(quotients.mT), rtol=0, atol=0.05 * scale)
    torch.testing.assert_close(draws.mean(0), quotients.mean(0), rtol=0, atol=0.05 * scale**0.5)


@pytest.mark.parametrize("conditioned", [False, True])
def test_drawn_slope_is_the_slope_of_the_drawn_function(conditioned):
    gp, x, y = fitted()
    gp.mean = Bumpy()
    process = gp.condition(x, y) if conditioned else gp
    function, slope = (p.draw(200, torch.Generator().manual_seed(3)) for p in (process, process.derivative(1)))
    quotient = (function(moved(x, 1, STEP)) - function(moved(x, 1, -STEP))) / (2 * STEP)
    torch.testing.assert_close(slope(x), quotient, rtol=1e-5, atol=1e-5)
    assert not slope(x).requires_grad
    assert slope(x.clone().requires_grad_()).requires_grad


def test_slopes_can_be_observed_after_values():
    gp, x, y = fitted()
    gp.mean = Bumpy()
    at, slopes = k.with_derivatives(x[:5] + 0.5, 2), y[:5]
    steps = gp.condition(x, y).with_slopes().condition(at, slopes, torch.full((5,), 0.3))
    noise = torch.cat([torch.full((40,), 0.05), torch.full((5,), 0.3)])
    whole = gp.with_slopes().condition(torch.cat([k.with_derivatives(x, 0), at]), torch.cat([y, slopes]), noise)
    new = k.with_derivatives(x[:6] - 0.1, [0, 1, 2, 0, 1, 2])
    torch.testing.assert_close(tuple(steps.marginals(new)), tuple(whole.marginals(new)), rtol=1e-6, atol=1e-6)
    assert gp.with_slopes().parameter("noise") is gp.parameter("noise")


def test_slopes_differentiate_with_respect_to_points():
    gp, x, y = fitted(kernel=KERNELS["autograd"]())
    slope, new = gp.condition(x, y).derivative(0), (x[:4] + 0.3).requires_grad_()
    (curvature,) = torch.autograd.grad(slope.mean(new).sum(), new)
    quotient = (slope.mean(moved(new, 1, STEP)) - slope.mean(moved(new, 1, -STEP))) / (2 * STEP)
    torch.testing.assert_close(curvature[:, 1], quotient.detach(), rtol=1e-4, atol=1e-4)
    with torch.inference_mode():
        torch.testing.assert_close(slope.mean(x[:4] + 0.3), slope.mean(new).detach())


def test_rough_processes_have_no_derivative():
    gp, x, y = fitted(kernel=k.RBF() + k.Exponential())
    for process in (gp, gp.condition(x, y)):
        with pytest.raises(UnsupportedError, match=r"because Exponential.* is not mean-square differentiable"):
            process.derivative(0)
    with pytest.raises(InputError, match="column must be at most 1, because x has 2 columns; got 2"):
        fitted()[0].derivative(2).mean(x)
    with pytest.raises(InputError, match="x has 3 columns, but the training data had 2"):
        fitted()[0].condition(x, y).derivative(1).mean(torch.zeros(2, 3))
