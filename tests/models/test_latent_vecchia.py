"""Vecchia's process behind other likelihoods, against dense algebra written out here and the dense inferences."""

import pytest
import torch

from stratagp import kernels as k
from stratagp import likelihoods as lik
from stratagp import means
from stratagp.errors import InputError
from stratagp.models.latent_vecchia import NUGGET, VecchiaLatentGP
from stratagp.models.neighbours import nearest_before
from stratagp.objectives.ep import ep_log_evidence
from stratagp.objectives.laplace import laplace_log_evidence
from stratagp.types import Gaussian


def data(n=40, d=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    f = 2 * x.sum(1).sin() + 0.3 * torch.randn(n, generator=generator, dtype=torch.float64)
    return x, f, torch.randn(5, d, generator=generator, dtype=torch.float64)


def kernel():
    return k.Matern(2.5, lengthscale=[1.0, 1.5], variance=3.0)


def covariance(own, x):
    """That of the latent values, with what each has of its own."""
    return own(x) + NUGGET * torch.diag(own.diag(x))


def dense_mode(likelihood, y, mean, cov):
    """Newton's method with damping for the mode, and minus the second derivatives there."""
    f, inverse = mean.clone(), torch.linalg.inv(cov)

    def psi(f):
        return likelihood.log_prob(y[:, None], f[:, None]).sum() - 0.5 * (f - mean) @ inverse @ (f - mean)

    for _ in range(200):
        f = f.detach().requires_grad_()
        (slope,) = torch.autograd.grad(psi(f), f)
        minus = -torch.autograd.functional.hessian(
            lambda f: likelihood.log_prob(y[:, None], f[:, None]).sum(), f
        ).diag()
        step = torch.linalg.solve(inverse + minus.clamp_min(1e-10).diag(), slope)
        while psi(f + step) < psi(f) - 1e-12:
            step = 0.5 * step
        f = f + step
        if step.abs().max() < 1e-12:
            break
    return f.detach(), minus


def dense_answers(own, x, z, mean, f, precision):
    """Mean and variance at new points, from the mode and the curvature there."""
    cov, cross = covariance(own, x), own(x, z)
    var = own.diag(z) - (cross * torch.linalg.solve(cov + torch.diag(1 / precision), cross)).sum(0)
    return mean + cross.mT @ torch.linalg.solve(cov, f - mean), var


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_with_all_rows_as_neighbours_it_is_laplaces_method(link):
    x, f, z = data()
    t = (f > 0).double()
    gp = VecchiaLatentGP(kernel(), lik.Bernoulli(link), n_neighbours=40)
    latents = gp.latents(x, t, tolerance=1e-9)
    with torch.no_grad():
        truth, sites = laplace_log_evidence(covariance(gp.kernel, x), t, link)
        assert gp.log_evidence(x, t, latents).item() == pytest.approx(truth.item(), abs=1e-6)
        torch.testing.assert_close(latents[0].sites.precision, sites.precision, rtol=0, atol=1e-7)
        mode = covariance(gp.kernel, x) @ sites.weights
        mean, var = dense_answers(gp.kernel, x, z, 0.0, mode, sites.precision)
    found = gp.condition(x, t, tolerance=1e-9).marginals(z)
    torch.testing.assert_close(found.mean[:, 0], mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.var[:, 0], var, rtol=0, atol=1e-6)


def test_with_all_rows_as_neighbours_it_is_expectation_propagation():
    x, f, z = data()
    t = (f > 0).double()
    gp = VecchiaLatentGP(kernel(), lik.Bernoulli("probit"), inference="ep", n_neighbours=40)
    cov = covariance(gp.kernel, x)
    truth, sites = ep_log_evidence(cov, t)
    truth.backward()
    slopes = [p.grad.clone() for p in gp.parameters()]
    gp.zero_grad()
    latents = gp.latents(x, t, tolerance=1e-9)
    found = gp.log_evidence(x, t, latents)
    found.backward()
    assert found.item() == pytest.approx(truth.item(), abs=1e-6)
    for p, slope in zip(gp.parameters(), slopes, strict=True):
        torch.testing.assert_close(p.grad, slope, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        mean, var = dense_answers(gp.kernel, x, z, 0.0, cov @ sites.weights, sites.precision)
    belief = gp.condition(x, t, tolerance=1e-9).marginals(z)
    torch.testing.assert_close(belief.mean[:, 0], mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(belief.var[:, 0], var, rtol=0, atol=1e-6)


def dense_bound(likelihood, y, mean, cov, values):
    """``E log p(y | f) − KL(N(m, S) ‖ N(mean, cov))``, from ``m`` and the lower factor of ``S`` in one vector."""
    n = len(y)
    factor = torch.zeros(n, n).double()
    factor[tuple(torch.tril_indices(n, n))] = values[n:]
    q = torch.distributions.MultivariateNormal(values[:n], scale_tril=factor)
    belief = Gaussian(values[:n, None], factor.square().sum(1, keepdim=True))
    divergence = torch.distributions.kl_divergence(q, torch.distributions.MultivariateNormal(mean, cov))
    return likelihood.expected_log_prob(y[:, None], belief).sum() - divergence


@pytest.mark.parametrize("likelihood", [lik.Poisson(), lik.NegativeBinomial(0.3), lik.ZeroInflated(lik.Poisson(), 0.1)])
def test_with_all_rows_as_neighbours_it_is_the_best_gaussian_bound(likelihood):
    x, f, _ = data(12)
    y = f.exp().round()
    gp = VecchiaLatentGP(kernel(), likelihood, means.Constant(0.5), inference="variational", n_neighbours=12)
    latents = gp.latents(x, y, tolerance=1e-9)
    with torch.no_grad():
        cov, mean = covariance(gp.kernel, x), torch.full_like(y, 0.5)
    free = torch.cat([mean, torch.linalg.cholesky(cov)[tuple(torch.tril_indices(12, 12))]]).requires_grad_()
    climb = torch.optim.LBFGS([free], max_iter=3000, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def cost():
        climb.zero_grad()
        loss = -dense_bound(likelihood, y, mean, cov, free)
        loss.backward(inputs=[free])
        return loss

    climb.step(cost)
    assert gp.log_evidence(x, y, latents).item() == pytest.approx(-cost().item(), abs=5e-5)  # of quadrature
    torch.testing.assert_close(0.5 + latents[0].values, free[:12].detach(), rtol=0, atol=1e-3)


@pytest.mark.parametrize("likelihood", [lik.NegativeBinomial(0.3), lik.ZeroInflated(lik.Poisson(), 0.1)])
def test_the_gradient_of_the_bound_is_that_of_finite_differences_with_new_sites(likelihood):
    x, f, _ = data(15)
    y = f.exp().round()
    gp = VecchiaLatentGP(kernel(), likelihood, means.Constant(0.5), inference="variational", n_neighbours=15)
    gp.log_evidence(x, y, gp.latents(x, y, tolerance=1e-10)).backward()
    for p in gp.parameters():
        slope = p.grad.clone().ravel()
        for i in range(p.numel()):
            values = []
            for step in (1e-3, -1e-3):
                with torch.no_grad():
                    p.view(-1)[i] += step
                values.append(gp.log_evidence(x, y, gp.latents(x, y, tolerance=1e-10)).item())
                with torch.no_grad():
                    p.view(-1)[i] -= step
            assert slope[i].item() == pytest.approx((values[0] - values[1]) / 2e-3, rel=3e-3, abs=1e-4)


@pytest.mark.parametrize("name", ["Poisson", "Student-t"])
def test_other_likelihoods_with_a_mean(name):
    x, f, z = data()
    likelihood, y = {
        "Poisson": (lik.Poisson(), f.exp().round()),
        "Student-t": (lik.StudentT(dof=4.0, scale=0.3), torch.cat([f[:-2], f[-2:] + 8])),
    }[name]
    gp = VecchiaLatentGP(kernel(), likelihood, means.Constant(0.5), n_neighbours=40)
    with torch.no_grad():
        cov = covariance(gp.kernel, x)
    mode, curvature = dense_mode(likelihood, y, torch.full_like(y, 0.5), cov)
    (found,) = gp.latents(x, y, tolerance=1e-9)
    torch.testing.assert_close(0.5 + found.values, mode, rtol=0, atol=1e-6)
    with torch.no_grad():
        mean, var = dense_answers(gp.kernel, x, z, 0.5, mode, curvature.clamp_min(1e-10))
        belief = gp.condition(x, y, tolerance=1e-9).marginals(z)
        torch.testing.assert_close(belief.mean[:, 0], mean, rtol=0, atol=1e-6)
        torch.testing.assert_close(belief.var[:, 0], var, rtol=0, atol=1e-5)
        if name == "Poisson":  # Laplace's evidence, for a log-concave likelihood
            gap = mode - 0.5
            truth = likelihood.log_prob(y[:, None], mode[:, None]).sum() - 0.5 * gap @ torch.linalg.solve(cov, gap)
            truth = truth - 0.5 * torch.logdet(torch.eye(len(y)).double() + cov * curvature)
            assert gp.log_evidence(x, y, [found]).item() == pytest.approx(truth.item(), abs=1e-6)


def test_more_neighbours_come_nearer_to_all():
    """Variances come from the nearest sites alone, so they fall with the neighbours."""
    x, f, z = data(200)
    t = (f > 0).double()
    few, more, every = (
        VecchiaLatentGP(kernel(), lik.Bernoulli("probit"), inference="ep", n_neighbours=m).condition(x, t).marginals(z)
        for m in (15, 60, 200)
    )
    errors = [((each.mean - every.mean) / every.var.sqrt()).abs().max() for each in (few, more)]
    assert errors[1] < errors[0] < 0.3
    assert bool((few.var > more.var).all() and (more.var > every.var).all())
    torch.testing.assert_close(more.var, every.var, rtol=0.4, atol=0)


def test_each_column_has_its_own_function():
    x, f, z = data()
    y = torch.stack([(f > 0).double(), (f > 1).double()], 1)
    gp = VecchiaLatentGP(kernel(), lik.Bernoulli("probit"), inference="ep", n_neighbours=12)
    both = gp.condition(x, y).marginals(z)
    for j in range(2):
        alone = gp.condition(x, y[:, j]).marginals(z)
        torch.testing.assert_close(both.mean[:, j : j + 1], alone.mean, rtol=0, atol=1e-9)
        torch.testing.assert_close(both.var[:, j : j + 1], alone.var, rtol=0, atol=1e-9)
    assert gp.log_evidence(x, y).item() == pytest.approx(
        sum(gp.log_evidence(x, y[:, j]).item() for j in range(2)), abs=1e-8
    )


@pytest.mark.parametrize("inference", ["ep", "variational"])
def test_the_gradient_at_fixed_sites_is_that_of_finite_differences(inference):
    x, f, _ = data(30)
    t = (f > 0).double()
    likelihood = lik.Bernoulli("probit") if inference == "ep" else lik.NegativeBinomial(0.3)
    gp = VecchiaLatentGP(kernel(), likelihood, means.Constant(0.2), inference=inference, n_neighbours=5)
    latents, sets = gp.latents(x, t), nearest_before(gp.kernel, x, 5, 0, 12)
    gp.log_evidence(x, t, latents, sets).backward()
    for p in gp.parameters():
        slope = p.grad.clone().ravel()
        for i in range(p.numel()):
            with torch.no_grad():
                values = []
                for step in (1e-5, -1e-5):
                    p.view(-1)[i] += step
                    values.append(gp.log_evidence(x, t, latents, sets))
                    p.view(-1)[i] -= step
            assert slope[i].item() == pytest.approx(((values[0] - values[1]) / 2e-5).item(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("case", ["duplicates", "ties", "constant column", "one row", "far from the origin", "far off"])
def test_odd_rows(case):
    x, f, z = data()
    if case == "duplicates":
        x, f = x[:8].repeat(5, 1), f
    elif case == "ties":
        x = x.round()
    elif case == "constant column":
        x[:, 1] = z[:, 1] = 3.0
    elif case == "one row":
        x, f = x[:1], f[:1]
    elif case == "far from the origin":
        x, z = x + 1e5, z + 1e5
    else:
        z = z + 1e6
    t = (f > 0).double()
    gp = VecchiaLatentGP(kernel(), lik.Bernoulli("probit"), inference="ep", n_neighbours=60)
    with torch.no_grad():
        cov = covariance(gp.kernel, x)
        truth, sites = ep_log_evidence(cov, t)
        cross = gp.kernel(x, z)
        assert gp.log_evidence(x, t, gp.latents(x, t, tolerance=1e-8)).item() == pytest.approx(truth.item(), abs=1e-4)
        found = gp.condition(x, t, tolerance=1e-8).marginals(z)
        torch.testing.assert_close(found.mean[:, 0], cross.mT @ sites.weights, rtol=0, atol=1e-4)


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="kernel must be over columns"):
        VecchiaLatentGP(k.Spectrum(2), lik.Bernoulli())
    with pytest.raises(InputError, match="inference must be 'laplace', 'ep' or 'variational'"):
        VecchiaLatentGP(k.RBF(), lik.Bernoulli(), inference="exact")
    with pytest.raises(InputError, match="n_neighbours must be at least 1"):
        VecchiaLatentGP(k.RBF(), lik.Bernoulli(), n_neighbours=0)
    with pytest.raises(InputError, match="one latent function"):
        VecchiaLatentGP(k.RBF(), lik.Heteroscedastic())
