import pytest
import torch
from torch.distributions import MultivariateNormal

from stratagp.errors import InputError
from stratagp.likelihoods import (
    Bernoulli,
    GaussianNoise,
    Heteroscedastic,
    LaplaceNoise,
    Likelihood,
    Mixed,
    Poisson,
    RobustMax,
    Sampled,
    Softmax,
    StudentT,
)
from stratagp.likelihoods import mixed as module
from stratagp.types import Gaussian, Mixture


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def belief(rows, functions, spread=1.0):
    var = torch.rand(rows, functions, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return Gaussian(0.5 * normal(rows, functions, seed=6), spread * (0.1 + 0.4 * var))


def mixed(given, scores, functions=3):
    made = Mixed(given, scores, functions, torch.Generator().manual_seed(1))
    made.set(weight=normal(scores, functions, seed=2), offset=normal(scores, seed=3))
    return made


CASES = {
    "gaussian": (GaussianNoise([0.5, 0.8]), 2, normal(6, 2, seed=5)),
    "logit": (Bernoulli(), 1, torch.tensor([0.0, 1, 1, 0, 1, 0]).double()[:, None]),
    "poisson": (Poisson(), 1, torch.tensor([0.0, 1, 3, 0, 1, 2]).double()[:, None]),
    "softmax": (Softmax(), 4, torch.tensor([0.0, 1, 2, 3, 0, 1]).double()[:, None]),
}


@pytest.mark.parametrize("name", CASES)
def test_integrals_agree_with_samples_of_the_functions(name):
    given, scores, y = CASES[name]
    likelihood = mixed(given, scores)
    q = Gaussian(0.5 * normal(6, 3, seed=6), 0.1 + 0.3 * torch.rand(6, 3, generator=torch.Generator().manual_seed(7)))
    f = q.sample(normal(400_000, 1, 3, seed=8))
    with torch.no_grad():
        logs = likelihood.log_prob(y, f)
        torch.testing.assert_close(likelihood.expected_log_prob(y, q), logs.mean(0), rtol=0, atol=0.02)
        moments = likelihood.moments(f)
        found = likelihood.predict(q)
    torch.testing.assert_close(found.mean, moments.mean.mean(0), rtol=0.01, atol=0.01)
    whole = moments.var.mean(0) + moments.mean.var(0)
    torch.testing.assert_close(found.var, whole, rtol=0.03, atol=0.01)
    density = logs.exp().mean(0).log()
    torch.testing.assert_close(likelihood.log_predictive(y, q), density, rtol=0, atol=0.02)


def test_samples_of_the_softmax():
    _, _, y = CASES["softmax"]
    likelihood = mixed(Softmax(), 4)
    q = Gaussian(normal(6, 3, seed=6), torch.full((6, 3), 0.4, dtype=torch.float64))
    sampled = Sampled(likelihood, 50_000, torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(
            sampled.expected_log_prob(y, q), likelihood.expected_log_prob(y, q), rtol=0, atol=0.02
        )


def test_functions_and_scores_as_many_start_unmixed():
    likelihood = Mixed(Softmax(), 3, 3)
    f = normal(5, 3)
    torch.testing.assert_close(likelihood.scores(f), f)
    assert likelihood.functions(1) == 3


def test_quantiles_are_those_of_the_score():
    likelihood = mixed(GaussianNoise(0.5), 1)
    q = Gaussian(normal(4, 3), torch.full((4, 3), 0.2, dtype=torch.float64))
    belief = likelihood.belief(q)
    with torch.no_grad():
        found = likelihood.quantiles(q, [0.5, 0.975])
        deviation = (belief.var + 0.5).sqrt()
        torch.testing.assert_close(found[0], belief.mean, rtol=0, atol=1e-6)
        torch.testing.assert_close(found[1], belief.mean + 1.959964 * deviation, rtol=0, atol=1e-5)


def test_sizes_are_checked():
    with pytest.raises(InputError, match="scores and functions"):
        Mixed(Softmax(), 0, 3)


@pytest.mark.parametrize("given", [RobustMax(), Sampled(RobustMax(), 4)])
def test_a_step_is_refused(given):
    with pytest.raises(InputError, match=r"given must .*: use Softmax"):
        Mixed(given, 3, 5)


@pytest.mark.parametrize(("scores", "functions"), [(2, 5), (3, 3), (4, 2)])
def test_gaussian_outputs_have_a_joint_density(scores, functions):
    noise = torch.linspace(0.3, 0.8, scores, dtype=torch.float64)
    likelihood, q, y = mixed(GaussianNoise(noise), scores, functions), belief(6, functions), normal(6, scores, seed=5)
    a = likelihood.weight
    covariance = a @ torch.diag_embed(q.var) @ a.mT + noise.diag()
    truth = MultivariateNormal(q.mean @ a.mT + likelihood.offset, covariance).log_prob(y)
    torch.testing.assert_close(likelihood.log_predictive(y, q), truth, rtol=1e-10, atol=1e-10)
    stacked = Gaussian(*(torch.stack([t, 1.5 * t]) for t in q))
    torch.testing.assert_close(likelihood.log_predictive(y, stacked)[0], truth, rtol=1e-10, atol=1e-10)
    in_single = likelihood.log_predictive(y, Gaussian(*(t.float() for t in q)))
    torch.testing.assert_close(in_single.double(), truth, rtol=1e-4, atol=1e-4)


SEVERAL = [GaussianNoise([0.5, 0.8]), StudentT(0.7), LaplaceNoise(0.8)]


def along(given, functions):
    """Two scores of one sign in every function, so that they are far from independent."""
    return mixed(given, 2, functions).set(weight=1.0 + 0.3 * normal(2, functions, seed=2))


@pytest.mark.parametrize("given", SEVERAL)
@pytest.mark.parametrize("functions", [1, 2, 4])
def test_densities_of_several_outputs_are_joint(given, functions):
    likelihood, q, y = along(given, functions), belief(6, functions), normal(6, 2, seed=5)
    with torch.no_grad():
        density = likelihood.log_prob(y, q.sample(normal(400_000, 1, functions, seed=8))).exp().mean(0).log()
        torch.testing.assert_close(likelihood.log_predictive(y, q), density, rtol=0, atol=0.05)
        scores = likelihood.belief(q)
        assert (given.log_predictive(y, scores) - density).abs().max() > 0.09  # what marginals alone would say
        torch.testing.assert_close(likelihood.expected_log_prob(y, q), given.expected_log_prob(y, scores))
        torch.testing.assert_close(tuple(likelihood.predict(q)), tuple(given.predict(scores)))


@pytest.mark.parametrize(("given", "error"), [*zip(SEVERAL, [1e-7, 0.01, 0.01], strict=True)])
def test_reciprocals_of_several_outputs_are_joint(given, error):
    likelihood, q, y = along(given, 2), belief(6, 2, 0.3), normal(6, 2, seed=5)
    axis = torch.linspace(-20, 20, 601, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis)
    log_weights = (-0.5 * points.square().sum(-1)).log_softmax(0)
    with torch.no_grad():
        truth = (log_weights[:, None] - likelihood.log_prob(y, q.sample(points[:, None]))).logsumexp(0)
        torch.testing.assert_close(likelihood.log_reciprocal(y, q), truth, rtol=0, atol=error)
        assert (given.log_reciprocal(y, likelihood.belief(q)) - truth).abs().max() > 10 * error + 0.05


def test_nodes_see_noise_that_is_narrower_than_the_belief():
    likelihood, q = mixed(StudentT(0.3), 2, 4), belief(6, 4, 0.5)
    y = likelihood.scores(q.mean + 0.5 * normal(6, 4, seed=11)).detach()
    with torch.no_grad():
        density = likelihood.log_prob(y, q.sample(normal(400_000, 1, 4, seed=8))).exp().mean(0).log()
        torch.testing.assert_close(likelihood.log_predictive(y, q), density, rtol=0, atol=0.06)


def test_the_reciprocal_of_unmixed_outputs_is_that_of_each():
    given, y = GaussianNoise([0.5, 0.8, 0.2]), normal(6, 3, seed=5)
    likelihood = Mixed(given, 3, 3)
    leaves = belief(6, 3, 1.2)  # variances on both sides of the noise: some shares are held at 0.99
    assert (leaves.var[:, 2] > 0.2).any()
    assert (leaves.var[:, 0] < 0.5).any()
    for leaf in leaves:
        leaf.requires_grad_()
    found, truth = likelihood.log_reciprocal(y, leaves), given.log_reciprocal(y, leaves)
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)
    gradients = [torch.autograd.grad(value.sum(), leaves) for value in (found, truth)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-7, atol=1e-7)


def test_the_reciprocal_is_finite_for_any_belief_and_never_sampled_for_gaussian_noise():
    likelihood, y = mixed(GaussianNoise([0.5, 0.8]), 2, 5), normal(6, 2, seed=5)
    closed = {likelihood: True, mixed(StudentT(), 2): False, mixed(Bernoulli(), 1): True, mixed(Softmax(), 3): False}
    assert all(each.closed_reciprocal == whether for each, whether in closed.items())
    for var in (0.0, 1e-3, 1.0, 1e6):
        mean, var = normal(6, 5).float().requires_grad_(), torch.full((6, 5), var, requires_grad=True)
        value = likelihood.log_reciprocal(y.float(), Gaussian(mean, var))
        value.sum().backward()
        assert all(each.isfinite().all() for each in (value, mean.grad, var.grad))


def test_quantiles_at_nodes_hold_their_share_of_draws():
    likelihood = mixed(Heteroscedastic(), 4, 6)
    log_weights = torch.tensor([0.3, 0.7], dtype=torch.float64).log()
    q = belief(5, 6)
    parts = Gaussian(torch.stack([q.mean, q.mean + 0.5]), torch.stack([q.var, 0.5 * q.var]))
    levels, generator = [0.05, 0.5, 0.9], torch.Generator().manual_seed(4)
    with torch.no_grad():
        drawn = [
            likelihood.sample(Gaussian(*p).sample(normal(200_000, 5, 6, seed=9)), generator)
            for p in zip(*parts, strict=True)
        ]
        one, both = likelihood.quantiles(q, levels), likelihood.quantiles(Mixture(log_weights, parts), levels)
    for level, single, whole in zip(levels, one, both, strict=True):
        shares = [(each <= single).double().mean(0) for each in drawn[:1]]
        torch.testing.assert_close(shares[0], torch.full_like(single, level), rtol=0, atol=0.006)
        share = sum(w.exp() * (each <= whole).double().mean(0) for w, each in zip(log_weights, drawn, strict=True))
        torch.testing.assert_close(share, torch.full_like(whole, level), rtol=0, atol=0.006)


@pytest.mark.parametrize(("functions", "log_noise"), [(1, -4.0), (2, 0.0), (5, 0.0), (5, -9.0)])
def test_quantiles_solve_for_their_levels_in_any_chunks(functions, log_noise, monkeypatch):
    likelihood = mixed(Heteroscedastic(), 2, functions).set(offset=torch.tensor([0.0, log_noise]).double())
    q, levels = belief(7, functions), [1e-4, 0.5, 0.975]
    with torch.no_grad():
        found = likelihood.quantiles(q, levels)
        reached = torch.stack([likelihood.predictive_cdf(y, q) for y in found])
        torch.testing.assert_close(
            reached, torch.tensor(levels, dtype=torch.float64)[:, None, None].expand(3, 7, 1), rtol=1e-7, atol=1e-7
        )
        slow = Likelihood.quantiles(likelihood, q, levels)  # the base class's bisection
        monkeypatch.setattr(module, "_CHUNK", 2 * 512 * 2)
        torch.testing.assert_close(likelihood.quantiles(q, levels), found, rtol=0, atol=1e-5)
    torch.testing.assert_close(found, slow, rtol=0, atol=1e-5)


def test_quantiles_ask_for_the_scores_once(monkeypatch):
    likelihood, q = mixed(Heteroscedastic(), 2, 16), belief(50, 16)
    calls = {"nodes": 0, "cdf": 0}
    at_nodes, cdf = likelihood._at_nodes, likelihood.given.cdf
    monkeypatch.setattr(
        likelihood, "_at_nodes", lambda *a, **k: (calls.update(nodes=calls["nodes"] + 1), at_nodes(*a, **k))[1]
    )
    monkeypatch.setattr(likelihood.given, "cdf", lambda *a: (calls.update(cdf=calls["cdf"] + 1), cdf(*a))[1])
    with torch.no_grad():
        likelihood.quantiles(q, [0.1, 0.9])
    assert calls["nodes"] == 2  # for the distribution and for the moments that the search starts from
    assert calls["cdf"] <= 50


class Rounded(Heteroscedastic):
    """Whole numbers of two scores."""

    discrete = True

    def cdf(self, y, f):
        return super().cdf(y.floor() + 0.5, f)


def test_quantiles_of_whole_numbers():
    likelihood, q = mixed(Rounded(), 2, 4).set(offset=torch.tensor([20.0, 3.0]).double()), belief(6, 4)
    with torch.no_grad():
        for level, y in zip([0.1, 0.8], likelihood.quantiles(q, [0.1, 0.8]), strict=True):
            assert (y == y.round()).all()
            assert (likelihood.predictive_cdf(y, q) >= level).all()
            assert (likelihood.predictive_cdf(y - 1, q) < level).all()


def test_levels_are_checked():
    with pytest.raises(InputError, match="levels must lie between 0 and 1"):
        mixed(Heteroscedastic(), 2).quantiles(belief(2, 3), [0.0, 0.5])


def test_two_classes_of_many_functions_are_a_logit_of_their_difference():
    likelihood, q = mixed(Softmax(), 2, 6), belief(6, 6)
    y = torch.tensor([0.0, 1, 1, 0, 1, 0], dtype=torch.float64)[:, None]
    a, b = likelihood.weight.diff(dim=0), likelihood.offset.diff()
    z = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    weights = (-0.5 * z.square()).softmax(0)
    difference = (q.mean @ a.mT + b) + (q.var @ a.square().mT).sqrt() * z  # n × nodes of a fine grid
    right = torch.where(y == 1, difference, -difference)
    torch.testing.assert_close(likelihood.predict(q).mean[:, 1], difference.sigmoid() @ weights, rtol=0, atol=1e-5)
    torch.testing.assert_close(likelihood.log_predictive(y, q), (right.sigmoid() @ weights).log(), rtol=0, atol=1e-5)
    expected = torch.nn.functional.logsigmoid(right) @ weights
    torch.testing.assert_close(likelihood.expected_log_prob(y, q), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("functions", [16, 3])
def test_the_softmax_over_nodes_in_either_space(functions):
    likelihood, q = mixed(Softmax(), 4, functions), belief(6, functions, 0.5)
    y = CASES["softmax"][2]
    with torch.no_grad():
        assert likelihood._at_nodes(q)[0].shape == (512, 6, 4)
        assert likelihood._root(q).shape == (6, 4, min(4, functions))
        f = q.sample(normal(200_000, 6, functions, seed=8))
        logs = likelihood.log_prob(y, f)
        torch.testing.assert_close(likelihood.predict(q).mean, likelihood.moments(f).mean.mean(0), rtol=0, atol=0.005)
        torch.testing.assert_close(likelihood.log_predictive(y, q), logs.exp().mean(0).log(), rtol=0, atol=0.02)
        torch.testing.assert_close(likelihood.expected_log_prob(y, q), logs.mean(0), rtol=0, atol=0.02)
        root = likelihood._root(q)
        a = likelihood.weight
        torch.testing.assert_close(root @ root.mT, a @ torch.diag_embed(q.var) @ a.mT, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(likelihood.covariance(q), a @ torch.diag_embed(q.var) @ a.mT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dependent_scores_of_any_scale_have_finite_gradients(dtype):
    likelihood = mixed(Softmax(), 3, 5)
    row = normal(1, 5)
    likelihood.set(weight=torch.cat([row, row, 1e-4 * row]))  # of rank one
    noise, y = normal(8, 6, 5, seed=3).to(dtype), torch.tensor([0.0, 1, 2, 0, 1, 2], dtype=dtype)[:, None]
    for spread in (1e-8, 1.0, 1e4):
        mean, var = normal(6, 5).to(dtype).requires_grad_(), torch.full((6, 5), spread, dtype=dtype, requires_grad=True)
        q = Gaussian(mean, var)
        for value in (likelihood.expected_log_prob(y, q), likelihood.sampled_log_prob(y, q, noise)):
            gradients = torch.autograd.grad(value.sum(), [mean, var, *likelihood.parameters()], retain_graph=True)
            assert all(each.isfinite().all() for each in (value, *gradients))


@pytest.mark.parametrize("functions", [3, 4, 9])
@pytest.mark.parametrize("scale", [0.0, 1.0, 6.0])
def test_samples_of_the_softmax_vary_less_than_plain_ones(functions, scale):
    likelihood, (mean, var) = mixed(Softmax(), 4, functions), belief(6, functions)
    q, noise = Gaussian(scale * mean, var), normal(8, 1500, 6, functions, seed=13)  # 1500 times 8 samples
    y = likelihood.scores(q.mean).argmax(-1, keepdim=True).double()  # the larger the scale, the surer of the label
    y[::3] = 2.0
    many = Gaussian(*(t.expand(1500, -1, -1) for t in q))
    with torch.no_grad():
        found, plain = likelihood.sampled_log_prob(y, many, noise), likelihood.log_prob(y, many.sample(noise)).mean(0)
        error = (found.var(0) / 1500).sqrt()
        exact = likelihood.log_prob(y, q.sample(normal(400_000, 1, functions, seed=8))).mean(0)
        assert ((found.mean(0) - exact).abs() < 5 * error + 0.01).all()
        assert (found.var(0) < 1.05 * plain.var(0)).all()
        assert found.var(0).mean() < 0.4 * plain.var(0).mean()


def test_samples_of_an_unmixed_softmax_vary_less_than_those_of_the_softmax_itself():
    given, q, y = Softmax(), belief(6, 4), CASES["softmax"][2]
    noise, many = normal(8, 1500, 6, 4, seed=13), Gaussian(*(t.expand(1500, -1, -1) for t in q))
    with torch.no_grad():
        ours, own = Mixed(given, 4, 4).sampled_log_prob(y, many, noise), given.sampled_log_prob(y, many, noise)
    torch.testing.assert_close(ours.mean(0), own.mean(0), rtol=0, atol=0.02)
    assert ours.var(0).mean() < 0.5 * own.var(0).mean()


GIVEN = {
    "softmax": (Softmax(), 4, torch.ones(2, 1, dtype=torch.float64)),
    "heteroscedastic": (Heteroscedastic(), 4, normal(2, 2)),
    "gaussian": (GaussianNoise(0.5), 2, normal(2, 2)),
    "student": (StudentT(0.5), 2, normal(2, 2)),
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("functions", [1, 3, 7])
def test_gradients_of_samples_have_no_bias(name, functions):
    given, scores, y = GIVEN[name]
    likelihood = mixed(given, scores, functions)
    likelihood.set(weight=0.5 * normal(scores, functions, seed=2))
    q = Gaussian(*(t.requires_grad_() for t in belief(2, functions, 0.3)))
    leaves = [*q, *(p for n, p in likelihood.named_parameters() if not n.startswith("given"))]
    first, second = normal(200_000, 2, functions, seed=3), normal(200_000, 2, functions, seed=4)
    ours = likelihood.sampled_log_prob(y, q, first)
    plain = likelihood.log_prob(y, q.sample(second)).mean(0)
    torch.testing.assert_close(ours, plain, rtol=0, atol=0.02)
    pairs = zip(torch.autograd.grad(ours.sum(), leaves), torch.autograd.grad(plain.sum(), leaves), strict=True)
    for found, truth in pairs:
        torch.testing.assert_close(found, truth, rtol=0.05, atol=0.05)
