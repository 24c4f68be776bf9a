"""AutoGP against exact inference and Monte Carlo, its regression network, and its phases of training."""

import copy

import pytest
import torch

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.likelihoods import GPRN, Bernoulli, GaussianNoise, Sampled, Softmax
from stratagp.models import Phase, StochasticGP, autogp, fit_phases, phases
from stratagp.objectives import elbo, leave_one_out, predictive_bound
from stratagp.posteriors import DiagonalGaussian, FullGaussian, MixturePosterior
from tests.posteriors.test_gaussian import moved

G = torch.Generator().manual_seed(0)
X = 4 * torch.rand(60, 1, generator=G, dtype=torch.float64)
Y = torch.sin(3 * X) + 0.1 * torch.randn(60, 1, generator=G, dtype=torch.float64)
NEW = torch.linspace(0, 4, 50, dtype=torch.float64)[:, None]
LABELS = Y.gt(-0.4).double() + Y.gt(0.4).double()


def regression(**options):
    return autogp(k.RBF(0.5, variance=1.0), X[::6], GaussianNoise(0.05), dtype=torch.float64, **options)


def state(module):
    return {name: t.clone() for name, t in module.state_dict().items()}


def same(module, before):
    return [torch.equal(t, before[name]) for name, t in module.state_dict().items()]


def test_all_points_are_the_exact_process():
    kernel = k.Matern(1.5, 0.5, variance=1.0)
    gp = autogp(kernel, X, GaussianNoise(0.05), dtype=torch.float64)
    gp.layer.jitter = 0.0
    gp.fit(X, Y, batch_size=60, steps=1, natural_rate=1.0, parameters=list(gp.layer.posterior.parameters()))
    exact = ExactGP(k.Matern(1.5, 0.5, variance=1.0), noise=0.05)
    truth = exact.condition(X, Y[:, 0]).marginals(NEW)
    torch.testing.assert_close(tuple(gp.marginals(NEW)), tuple(truth), rtol=0, atol=1e-7)
    assert gp.elbo(X, Y).value.item() == pytest.approx(exact.log_evidence(X, Y[:, 0]).item(), abs=1e-5)


@pytest.mark.parametrize("objective", [elbo, leave_one_out, predictive_bound])
@pytest.mark.parametrize("full", [True, False])
def test_a_mixture_of_one_is_the_gaussian(objective, full):
    values, gradients = [], []
    for posterior in (FullGaussian(10, 3) if full else DiagonalGaussian(10, 3), MixturePosterior(10, 3, 1, full)):
        own = posterior.components if isinstance(posterior, MixturePosterior) else posterior
        with torch.no_grad():
            scale = moved(10, 3).scale.tril()
            own.mean.copy_(moved(10, 3).mean)
            own.scale.copy_(scale) if full else own.log_scale.copy_(scale.diagonal(dim1=-2, dim2=-1).abs().log())
        gp = StochasticGP(k.RBF(0.5, variance=1.0), X[::6], Softmax(), None, 3, posterior, torch.float64)
        value = objective(gp.layer, gp.likelihood, X, LABELS, 100).value
        values.append(value.item())
        gradients.append(torch.autograd.grad(value, [*own.parameters(), *gp.kernel.parameters()]))
    assert values[0] == pytest.approx(values[1], rel=1e-13)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_functions_have_their_own_parts_or_share_them():
    g = torch.Generator().manual_seed(0)
    kernel = k.RBF(0.5, variance=1.0)
    own = autogp(kernel, X[::6], Softmax(), 3, n_components=2, n_samples=5, generator=g)
    assert own.kernel.functions == 3
    assert own.layer.z.shape == (3, 10, 1)
    assert kernel.functions is None
    assert isinstance(own.likelihood, Sampled)
    assert own.belief(X).parts.mean.shape == (2, 60, 3)
    assert own.predict(X).mean.shape == (60, 3)
    shared = autogp(kernel, X[::6], Softmax(), 3, shared=True, full=False)
    assert shared.kernel.functions is None
    assert shared.layer.z.shape == (10, 1)
    assert isinstance(shared.layer.posterior, DiagonalGaussian)
    assert autogp(kernel, X[::6], Bernoulli()).layer.z.shape == (10, 1)


def test_own_parts_start_alike_and_part_ways():
    generator = torch.Generator().manual_seed(0)
    own = autogp(k.RBF(0.5, variance=1.0), X[::6], Softmax(), 3, n_samples=20, dtype=torch.float64, generator=generator)
    shared = autogp(k.RBF(0.5, variance=1.0), X[::6], Softmax(), 3, n_samples=20, shared=True, dtype=torch.float64)
    torch.testing.assert_close(tuple(own.marginals(NEW)), tuple(shared.marginals(NEW)), rtol=0, atol=1e-9)
    own.fit(X, LABELS, batch_size=60, steps=20, rate=0.05, generator=generator)
    scales = own.kernel.lengthscale.flatten()
    assert (scales[:, None] - scales).abs().fill_diagonal_(1.0).min() > 1e-4
    assert not torch.equal(own.layer.z[0], own.layer.z[1])


def test_moments_of_a_mixture_are_those_of_its_draws():
    gp = regression(n_components=3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        gp.layer.posterior.components.mean.mul_(10)
        gp.layer.posterior.logits.copy_(torch.tensor([0.0, 1.0, -1.0]))
    belief, moments = gp.belief(NEW), gp.marginals(NEW)
    n, g = 40_000, torch.Generator().manual_seed(2)
    which = torch.multinomial(belief.log_weights.exp(), n, replacement=True, generator=g)
    noise = torch.randn(n, *belief.parts.mean.shape[1:], generator=g, dtype=torch.float64)
    f = belief.parts.mean[which] + belief.parts.var[which].sqrt() * noise
    error = f.std(0) / n**0.5
    assert (f.mean(0) - moments.mean).abs().le(5 * error).all()
    torch.testing.assert_close(f.var(0), moments.var, rtol=0.05, atol=0)
    torch.testing.assert_close(gp.predict(NEW).var, moments.var + 0.05, rtol=1e-9, atol=0)
    low, high = gp.quantiles(NEW, [0.1, 0.9])
    y = f + 0.05**0.5 * torch.randn(f.shape, generator=g, dtype=torch.float64)
    torch.testing.assert_close((y < low).double().mean(0), torch.full_like(low, 0.1), rtol=0, atol=0.01)
    torch.testing.assert_close((y > high).double().mean(0), torch.full_like(high, 0.1), rtol=0, atol=0.01)


def network_data():
    truth = torch.cat([torch.sin(2 * X) * (1 + 0.5 * X), torch.sin(2 * X) * (2 - X)], 1)  # one node, two weights
    noise = torch.randn(truth.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return truth, truth + 0.05 * noise


def network(components=1):
    g = torch.Generator().manual_seed(0)
    return autogp(k.RBF(1.0, variance=1.0), X[::4], GPRN(1, [0.1, 0.1]), 2, components, generator=g)


@pytest.mark.parametrize("components", [1, 2])
def test_a_network_starts_off_the_saddle(components):
    gp, (_, y) = network(components), network_data()
    assert gp.layer.posterior.shape == (3, 15)
    mean = gp.layer.posterior.components.mean if components > 1 else gp.layer.posterior.mean
    belief = gp.belief(X.float())
    values = belief.parts.mean if components > 1 else belief.mean[None]
    torch.testing.assert_close(values[..., 2], torch.ones_like(values[..., 2]), rtol=0, atol=0.1)  # the node at one
    assert values[..., :2].abs().amax((0, 1)).min() > 0.01
    gp.elbo(X, y).value.backward()
    assert mean.grad.reshape(components, 3, 15).norm(dim=-1).min() > 1.0
    with torch.no_grad():
        mean.zero_()
    gp.zero_grad()
    gp.elbo(X, y).value.backward()
    assert mean.grad.abs().max() < 1e-4  # the saddle


def test_a_network_learns_two_outputs():
    gp, (truth, y) = network(), network_data()
    fit_phases(gp, X, y, phases("elbo", 250), batch_size=60, rate=0.05)
    error = (gp.predict(X).mean - truth).square().mean(0) / truth.var(0)
    assert (error < 0.02).all()
    noise = torch.randn(40_000, *gp.belief(X).mean.shape, generator=torch.Generator().manual_seed(1))
    w1, w2, f = gp.belief(X).sample(noise).double().unbind(-1)
    draws, found = torch.stack([w1 * f, w2 * f], -1), gp.predict(X)
    assert (draws.mean(0) - found.mean).abs().le(5 * draws.std(0) / 200).all()
    torch.testing.assert_close(draws.var(0), (found.var - gp.likelihood.noise).double(), rtol=0.1, atol=1e-6)


def test_leave_one_out_does_not_spoil_a_network():
    """Where ``E 1/p`` is infinite, its closed form used to dominate training."""
    y = network_data()[1]
    new = torch.cat([torch.sin(2 * NEW) * (1 + 0.5 * NEW), torch.sin(2 * NEW) * (2 - NEW)], 1)
    new = new + 0.05 * torch.randn(new.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = {}
    for objective in ("elbo", "loo"):
        gp = network()
        fit_phases(gp, X, y, phases(objective, 200), batch_size=60, rate=0.05)
        found[objective] = gp.log_predictive(NEW, new).mean().item()
    assert found["loo"] > found["elbo"] - 0.5


def test_plans():
    assert phases("elbo", 7) == [Phase("elbo", 7)]
    assert phases("ppgpr", 7, phase_epochs=2) == [Phase("ppgpr", 7)]
    assert phases("loo", 8, "all", phase_epochs=3) == [Phase("elbo", 3), Phase("loo", 5)]
    for how, shortest in (("all", 6), ("hyper", 11)):
        assert any(phase.objective == "loo" for phase in phases("loo", shortest, how, 5))
        with pytest.raises(InputError, match="leave none for leave-one-out"):
            phases("loo", shortest - 1, how, 5)
    for epochs in (3, 7, 40):
        plan = phases("loo", epochs, "hyper")
        each = max(1, epochs // 4)
        assert sum(phase.epochs for phase in plan) == epochs
        assert plan[-1] == Phase("elbo", each, "posterior")
        assert [phase.objective for phase in plan[:-1]] == ["elbo", "loo"] * ((len(plan) - 1) // 2)
        assert {phase.parameters for phase in plan if phase.objective == "loo"} <= {"hyper"}


@pytest.mark.parametrize(("arguments", "name"), [(("map", 3), "objective"), (("loo", 3, "some"), "loo_parameters")])
def test_plans_refuse_bad_names(arguments, name):
    with pytest.raises(InputError, match=f"^{name} must be one of"):
        phases(*arguments)


@pytest.mark.parametrize("objective", ["elbo", "loo", "ppgpr"])
@pytest.mark.parametrize("components", [1, 2])
def test_phases_move_what_they_say(objective, components):
    gp = regression(n_components=components, generator=torch.Generator().manual_seed(0))
    fit_phases(gp, X, Y, [Phase("elbo", 5)], batch_size=20, rate=0.05)  # away from the prior, where slopes vanish
    for what in ("hyper", "posterior", "all"):
        before, posterior = state(gp), state(gp.layer.posterior)
        fit_phases(gp, X, Y, [Phase(objective, 3, what)], batch_size=20)
        assert set(same(gp.layer.posterior, posterior)) == {what == "hyper"}
        hyper = [torch.equal(t, before[name]) for name, t in gp.named_parameters() if "posterior" not in name]
        assert len(hyper) == 4  # variance, lengthscale, noise, inducing points
        assert hyper == [what == "posterior"] * 4
        assert all(p.requires_grad for p in gp.parameters())


def test_algorithm_one_ends_with_the_bound():
    gp = regression()
    histories = fit_phases(gp, X, Y, phases("loo", 12, "hyper", 4), batch_size=20, rate=0.02)
    assert [history.steps for history in histories] == [12, 12, 12]
    # the last phase has fitted the posterior to the hyperparameters that it found
    before = gp.elbo(X, Y).value
    optimal = copy.deepcopy(gp)
    optimal.fit(X, Y, batch_size=60, steps=1, natural_rate=1.0, parameters=list(optimal.layer.posterior.parameters()))
    assert optimal.elbo(X, Y).value >= before
    assert optimal.elbo(X, Y).value - before < 10


def test_each_objective_climbs_itself():
    for name, objective in (("elbo", elbo), ("loo", leave_one_out), ("ppgpr", predictive_bound)):
        gp = regression()
        first = objective(gp.layer, gp.likelihood, X, Y).value
        fit_phases(gp, X, Y, [Phase(name, 50)], batch_size=60, rate=0.02)
        assert objective(gp.layer, gp.likelihood, X, Y).value > first + 10


def test_an_interrupted_phase_is_the_last():
    gp, calls = regression(), []

    def score():
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return 0.0

    plan = [Phase("elbo", 3), Phase("loo", 4), Phase("elbo", 3, "posterior")]
    histories = fit_phases(gp, X, Y, plan, batch_size=30, score=score)
    assert [history.ending for history in histories] == ["finished", "interrupted"]
    assert gp.predict(NEW).mean.isfinite().all()
    assert all(p.requires_grad for p in gp.parameters())


def test_a_phase_out_of_time_is_the_last_and_empty_ones_are_left_out():
    histories = fit_phases(regression(), X, Y, [Phase("elbo", 5), Phase("loo", 5)], batch_size=30, seconds=1e-6)
    assert [history.ending for history in histories] == ["out of time"]
    histories = fit_phases(regression(), X, Y, [Phase("elbo", 1), Phase("loo", 0)], batch_size=30)
    assert len(histories) == 1


def test_samples_and_mixtures_move_by_adam():
    plan, optimal = [Phase("elbo", 1, "posterior")], regression()
    fit_phases(optimal, X, Y, plan, batch_size=60, natural_rate=1.0)
    assert optimal.layer.posterior.mean.abs().max() > 0.5  # one natural step is the optimum
    for gp in (regression(n_samples=5), regression(full=False)):
        fit_phases(gp, X, Y, plan, batch_size=60, rate=0.01)
        assert gp.layer.posterior.mean.abs().max().item() == pytest.approx(0.01, rel=0.01)  # the first step of Adam
    gp = regression(n_components=2, generator=torch.Generator().manual_seed(0))
    before = gp.layer.posterior.components.mean.detach().clone()
    fit_phases(gp, X, Y, plan, batch_size=60, rate=0.01)
    assert (gp.layer.posterior.components.mean - before).abs().max().item() == pytest.approx(0.01, rel=0.01)
