"""Vecchia's process against the exact one, dense algebra and samples."""

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import InputError, NumericalWarning
from stratagp.models.vecchia import VecchiaGP
from stratagp.objectives.vecchia import Conditionals, local_covariance, log_conditionals


def data(n=50, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = x.sum(1).sin() + 0.2 * torch.randn(n, generator=generator, dtype=torch.float64)
    return x, y, torch.randn(6, d, generator=generator, dtype=torch.float64)


KERNELS = {
    "Matérn with own lengthscales": lambda: k.Matern(2.5, lengthscale=[1.0, 2.0, 0.7], variance=1.3),
    "exponential": lambda: k.Exponential(1.5),
    "sum": lambda: k.RBF(1.2) + k.Linear(),
    "product on columns": lambda: k.RBF(0.8).on(0) * k.Matern(1.5).on([1, 2]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_with_all_rows_as_neighbours_it_is_the_exact_process(name):
    x, y, z = data()
    level = torch.linspace(0.02, 0.3, len(y), dtype=torch.float64)
    exact, ours = (kind(KERNELS[name](), means.Constant(0.4), noise=0.05) for kind in (ExactGP, VecchiaGP))
    for noise in (None, level):
        truth, found = exact.log_evidence(x, y, noise), ours.log_evidence(x, y, noise)
        assert found.item() == pytest.approx(truth.item(), abs=1e-8)
        exact.zero_grad(), ours.zero_grad()
        truth.backward(), found.backward()
        for p, q in zip(exact.parameters(), ours.parameters(), strict=True):
            slope = torch.zeros_like(p) if p.grad is None else p.grad  # known noise leaves that of the process alone
            torch.testing.assert_close(q.grad if q.grad is not None else 0 * q, slope, rtol=1e-8, atol=1e-8)
        truth, found = exact.condition(x, y, noise), ours.condition(x, y, noise)
        assert found.log_evidence().item() == pytest.approx(truth.log_evidence().item(), abs=1e-8)
        for right, own in zip(truth.marginals(z), found.marginals(z), strict=True):
            torch.testing.assert_close(own, right, rtol=0, atol=1e-8)
        for right, own in zip(truth.leave_one_out(), found.leave_one_out(), strict=True):
            torch.testing.assert_close(own, right, rtol=0, atol=1e-8)
        torch.testing.assert_close(found.covariance(z), truth.covariance(z), rtol=0, atol=1e-6)
        torch.testing.assert_close(found.covariance(z[:2], z[2:]), truth.covariance(z[:2], z[2:]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_a_point_has_the_whole_variance_to_the_bit(nu):
    points = data(200, 3)[0].unflatten(0, (4, 50))
    kernel = k.Matern(nu, lengthscale=[0.3, 1.7, 0.9], variance=1.3)
    for x, own in zip(points, local_covariance(kernel, points), strict=True):
        assert (own.diagonal() == kernel.variance).all()
        torch.testing.assert_close(own, kernel(x), rtol=0, atol=1e-13)


def test_the_score_of_all_conditionals_is_their_sum_one_by_one():
    x, y, _ = data(20)
    gp = VecchiaGP(k.RBF(1.1), noise=0.1, n_neighbours=3)
    sets = gp.conditionals(x)
    one_by_one = []
    for row, given in zip(sets.rows.tolist(), sets.given.tolist(), strict=True):
        some = [j for j in given if j >= 0]
        joint = k.RBF(1.1)(x[[*some, row]]) + 0.1 * torch.eye(len(some) + 1).double()
        density = MultivariateNormal(torch.zeros(len(joint)).double(), joint).log_prob(y[[*some, row]])
        if some:
            density -= MultivariateNormal(torch.zeros(len(some)).double(), joint[:-1, :-1]).log_prob(y[some])
        one_by_one.append(density)
    assert sorted(sets.rows.tolist()) == list(range(20))
    assert gp.log_evidence(x, y).item() == pytest.approx(torch.stack(one_by_one).sum().item(), abs=1e-9)


def test_some_conditionals_estimate_the_whole_without_bias():
    x, y, _ = data(60)
    gp = VecchiaGP(k.RBF(1.1), noise=0.1, n_neighbours=5)
    every = gp.conditionals(x)
    with torch.no_grad():
        parts = []
        for start in range(4):
            some = Conditionals(every.rows[start::4], every.given[start::4], every.total)
            parts.append(gp.log_evidence(x, y, sets=some))
        assert torch.stack(parts).mean().item() == pytest.approx(gp.log_evidence(x, y, sets=every).item(), abs=1e-9)


def test_the_divergence_from_the_exact_process_falls_with_neighbours():
    """KL(exact ‖ ours), from the joint covariance that the conditionals imply."""
    x, _, _ = data(40, 2)
    kernel, noise = k.Matern(1.5, 0.8), 0.01
    truth = MultivariateNormal(torch.zeros(40).double(), kernel(x).detach() + noise * torch.eye(40).double())
    found = []
    for m in (1, 3, 8, 20, 39):
        sets = VecchiaGP(kernel, noise=noise, n_neighbours=m).conditionals(x)
        a, s = torch.zeros(40, 40).double(), torch.zeros(40).double()
        for row, given in zip(sets.rows.tolist(), sets.given.tolist(), strict=True):
            some = [j for j in given if j >= 0]
            c = truth.covariance_matrix[some][:, some]
            weights = torch.linalg.solve(c, truth.covariance_matrix[some, row]) if some else torch.zeros(0).double()
            a[row, some] = weights
            s[row] = truth.covariance_matrix[row, row] - weights @ truth.covariance_matrix[some, row]
        half = (torch.eye(40).double() - a) / s.sqrt()[:, None]
        ours = MultivariateNormal(torch.zeros(40).double(), precision_matrix=half.mT @ half)
        found.append(kl_divergence(truth, ours).item())
    assert found == sorted(found, reverse=True)
    assert found[0] > 1
    assert found[-1] == pytest.approx(0, abs=1e-8)


def test_a_joint_draw_has_the_moments_that_are_said():
    x, y, z = data()
    posterior = VecchiaGP(k.Matern(2.5, 1.0), noise=0.05, n_neighbours=12).condition(x, y)
    generator = torch.Generator().manual_seed(1)
    draws = torch.stack([posterior.draw(400, generator)(z) for _ in range(600)])
    belief = posterior.marginals(z)
    error = (draws.mean(0) - belief.mean[:, 0]) / (belief.var[:, 0] / 600).sqrt()
    assert bool((error.abs() < 4).all())
    torch.testing.assert_close(draws.var(0), belief.var[:, 0], rtol=0.23, atol=0)  # four standard errors


def test_gradients_pass_to_points():
    x, y, z = data()
    posterior = VecchiaGP(k.RBF(1.0), noise=0.05, n_neighbours=10).condition(x, y)
    assert torch.autograd.gradcheck(lambda p: tuple(posterior.marginals(p)), (z[:2].clone().requires_grad_(),))


def test_more_rows_join_those_that_were_there():
    x, y, z = data()
    gp = VecchiaGP(k.RBF(1.0), means.Constant(0.3), noise=0.05, n_neighbours=10)
    whole, later = gp.condition(x, y), gp.condition(x[:30], y[:30]).condition(x[30:], y[30:])
    torch.testing.assert_close(later.mean(z), whole.mean(z), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::stratagp.errors.NumericalWarning")
@pytest.mark.parametrize("case", ["duplicates", "constant column", "one row", "far from the origin"])
def test_odd_rows(case):
    x, y, z = data()
    if case == "duplicates":
        x, y = x[:10].repeat(5, 1), y[:10].repeat(5)
    elif case == "constant column":
        x[:, 1] = z[:, 1] = 3.0
    elif case == "one row":
        x, y = x[:1], y[:1]
    else:
        x, z = x + 1e5, z + 1e5
    kernel = k.Matern(2.5, lengthscale=[1.0, 1.0, 1.0])
    exact, ours = ExactGP(kernel, noise=0.01), VecchiaGP(kernel, noise=0.01, n_neighbours=60)
    assert ours.log_evidence(x, y).item() == pytest.approx(exact.log_evidence(x, y).item(), abs=1e-5)
    truth, found = exact.condition(x, y).marginals(z), ours.condition(x, y).marginals(z)
    torch.testing.assert_close(found.mean, truth.mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.var, truth.var, rtol=0, atol=1e-6)


def test_duplicates_without_noise_are_repaired_by_the_stated_policy():
    x, y, _ = data()
    gp = VecchiaGP(k.RBF(1.0), noise=0, n_neighbours=20)
    with pytest.warns(NumericalWarning, match="numerically singular"):
        mean = gp.condition(x.repeat(2, 1), y.repeat(2)).mean(x[:3])
    torch.testing.assert_close(mean, y[:3], rtol=0, atol=1e-3)


def test_first_derivatives_only():
    x, y, _ = data(10)
    gp = VecchiaGP(k.RBF(1.0), noise=0.1, n_neighbours=3)
    with pytest.raises(Exception, match="first derivatives only"):
        torch.autograd.grad(gp.log_evidence(x, y), list(gp.parameters()), create_graph=True)


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="kernel must be over columns of numbers"):
        VecchiaGP(k.Spectrum(2))
    with pytest.raises(InputError, match="n_neighbours must be at least 1"):
        VecchiaGP(k.RBF(), n_neighbours=0)


def test_padded_neighbours_tell_nothing():
    x, y, _ = data(5)
    sets = Conditionals(torch.tensor([4, 4]), torch.tensor([[0, -1, 1], [1, 0, -1]]), 5)
    first, second = log_conditionals(k.RBF(), torch.tensor(0.1).double(), x, y, sets)
    assert first.item() == pytest.approx(second.item(), abs=1e-12)


def test_points_denser_than_the_data_are_still_told_by_the_data():
    """The variances of a joint distribution on a fine grid are those of the points one by one."""
    x, grid = (torch.linspace(0, 10, n, dtype=torch.float64)[:, None] for n in (40, 300))
    posterior = VecchiaGP(k.Matern(2.5, 1.0), noise=0.01, n_neighbours=12).condition(x, x[:, 0].sin())
    alone, joint = posterior.marginals(grid).var[:, 0], posterior.covariance(grid).diagonal()
    torch.testing.assert_close(joint, alone, rtol=0.05, atol=0)


def test_the_sample_of_conditionals_has_no_bias():
    """Systematic samples of a random order, over many seeds: the mean is that of all conditionals."""
    x, y, _ = data(200, 2)
    found = []
    for seed in range(60):
        gp = VecchiaGP(k.Matern(1.5), noise=0.1, n_neighbours=5, seed=seed)
        with torch.no_grad():
            some, every = (gp.log_evidence(x, y, sets=gp.conditionals(x, n)) for n in (20, None))
        found.append((some - every).item() / 200)
    found = torch.tensor(found)
    assert abs(found.mean()) < 3 * found.std() / 60**0.5
    whole = gp.conditionals(x)
    assert sorted(whole.rows.tolist()) == list(range(200))


def test_late_conditionals_are_the_density_of_the_second_half_given_the_first():
    """With all rows before as neighbours, they sum to log p(y) − log p(first half), by dense algebra."""
    x, y, _ = data(40, 2)
    gp = VecchiaGP(k.Matern(1.5, 0.7), noise=0.1, n_neighbours=39)
    late = gp.conditionals(x, late=True)
    rest = torch.tensor(sorted(set(range(40)) - set(late.rows.tolist())))
    with torch.no_grad():
        cov = gp.kernel(x, x) + 0.1 * torch.eye(40, dtype=torch.float64)
        whole, first = (
            torch.distributions.MultivariateNormal(torch.zeros(len(r)).double(), cov[r][:, r]).log_prob(y[r])
            for r in (torch.arange(40), rest)
        )
        assert len(late.rows) == 20
        assert gp.log_evidence(x, y, sets=late).item() == pytest.approx(2 * (whole - first).item(), rel=1e-10)
