"""The sampler against posteriors that are known: closed forms and quadrature."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import constraints

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError, UnsupportedError
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, bounded, lower_cholesky, positive, real, simplex
from stratagp.priors import LogNormal
from stratagp.training.free import log_jacobian, log_joint
from stratagp.training.hamiltonian import MarkovChain
from stratagp.training.nuts import _windows, ess, r_hat, sample


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def free(*values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def gaussian(seed=1, size=5):
    """A mean, a covariance with standard deviations from 0.3 to 3 and correlations, and the log density."""
    root = torch.randn(size, size, generator=seeded(seed), dtype=torch.float64)
    covariance = root @ root.mT / size + 0.3 * torch.eye(size, dtype=torch.float64)
    scale = torch.logspace(-0.5, 0.5, size, dtype=torch.float64) / covariance.diagonal().sqrt()
    covariance = scale[:, None] * covariance * scale
    precision, mean = torch.linalg.inv(covariance), torch.arange(float(size), dtype=torch.float64)
    return mean, covariance, lambda x: -((x - mean) @ precision @ (x - mean)) / 2


def test_correlated_gaussian_within_monte_carlo_error():
    mean, covariance, density = gaussian()
    a, b = free(0.0, 0.0), free(0.0, 0.0, 0.0)
    chains = [sample(lambda: density(torch.cat([a, b])), [a, b], 200, 80, seeded(seed), 0.7) for seed in (0, 1)]
    theta = torch.stack([chain.theta for chain in chains])
    std, size = covariance.diagonal().sqrt(), ess(theta)
    assert size.min() > 200
    assert r_hat(theta).max() < 1.03
    pooled = theta.flatten(0, 1)
    assert ((pooled.mean(0) - mean).abs() < 3 * std / size.sqrt()).all()
    error = (pooled.T.cov() - covariance) / torch.outer(std, std)
    assert error.abs().max() < 3 * (2 / 200) ** 0.5  # the variance of a product of standard normals is at most 2
    torch.testing.assert_close(chains[0].log_density[7], density(chains[0].theta[7]))
    assert sum(chain.divergences for chain in chains) == 0
    assert 0.6 < chains[0].acceptance < 0.95
    assert a.tolist() == [0, 0]  # back where they were


def test_moments_of_a_gamma_in_log_space():
    shape, rate = 3.0, 2.0
    x = free(0.0)
    draws = sample(lambda: (shape * x - rate * x.exp()).sum(), [x], 800, 80, seeded(2))  # with the Jacobian eˣ
    value = draws.theta[:, 0].exp()
    error = 3 / ess(draws.theta[None]).item() ** 0.5
    assert value.mean().item() == pytest.approx(shape / rate, abs=error * shape**0.5 / rate)
    assert draws.theta.mean().item() == pytest.approx(0.92278433509847 - np.log(rate), abs=error * 0.63)  # ψ(3), √ψ′(3)
    assert value.var().item() == pytest.approx(shape / rate**2, rel=error * 2)  # √(kurtosis − 1) = √(2 + 6/3)
    skewness = ((value - value.mean()) / value.std()).pow(3).mean().item()
    assert skewness == pytest.approx(2 / shape**0.5, rel=0.3)


def process():
    """Twenty observations, a process with a free lengthscale and noise, and its joint density written densely."""
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.uniform(0, 5, size=(20, 1)))
    y = torch.from_numpy(np.sin(x[:, 0].numpy()) + 0.2 * rng.normal(size=20))
    kernel = k.RBF(positive(1.0, prior=LogNormal(1.0, 0.7)), positive(1.0, trainable=False))
    gp = ExactGP(kernel, noise=positive(0.1, prior=LogNormal(0.1, 1.0)))
    square = (x - x.T).square()

    def dense(logs):  # of (log lengthscale, log noise), on which the priors are normal
        noise = logs[..., 1, None, None].exp() * torch.eye(20, dtype=torch.float64)
        factor = torch.linalg.cholesky((-square / 2 * (-2 * logs[..., 0, None, None]).exp()).exp() + noise)
        half = torch.linalg.solve_triangular(factor, y[:, None], upper=False).square().sum((-1, -2)) / 2
        prior = -0.5 * (logs[..., 0] / 0.7) ** 2 - 0.5 * (logs[..., 1] - np.log(0.1)) ** 2
        return prior - half - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    return gp, lambda: log_joint(gp.log_evidence(x, y), gp), dense


def quadrature(dense):
    grid = torch.cartesian_prod(
        *(torch.linspace(*ends, 61, dtype=torch.float64) for ends in ((-2.5, 2.5), (-6.0, 1.0)))
    )
    weight = torch.softmax(dense(grid), 0)
    mean = weight @ grid
    return mean, (grid - mean).T @ (weight[:, None] * (grid - mean))


def test_hyperparameters_of_a_process_agree_with_quadrature():
    _, _, dense = process()
    mean, covariance = quadrature(dense)
    logs = free(0.0, -2.0)
    draws = sample(lambda: dense(logs), [logs], 1000, 150, seeded(4))
    std = covariance.diagonal().sqrt()
    error = 3 / ess(draws.theta[None]).sqrt()  # 500 effective draws or so
    assert ((draws.theta.mean(0) - mean).abs() < error * std).all()
    torch.testing.assert_close(draws.theta.std(0), std, rtol=0.1, atol=0)
    found = draws.theta.T.corrcoef()[0, 1]
    assert found.item() == pytest.approx((covariance[0, 1] / std.prod()).item(), abs=0.1)


def test_the_joint_density_of_a_process_is_the_dense_one_but_for_a_constant():
    gp, joint, dense = process()
    gap = []
    for values in ([0.3, 0.1], [1.4, 0.02], [0.8, 0.7]):
        gp.set(lengthscale=values[0], noise=values[1])
        gap.append(joint().item() - dense(torch.tensor(values, dtype=torch.float64).log()).item())
    assert gap == pytest.approx([gap[0]] * 3, abs=1e-9)


def test_draws_of_a_process_and_how_to_set_them():
    gp, joint, dense = process()
    draws = sample(joint, gp.parameters(), 40, 30, seeded(4), max_depth=3)
    mean, covariance = quadrature(dense)
    error = (draws.theta.mean(0) - mean) / covariance.diagonal().sqrt()
    assert error.abs().max() < 3 / ess(draws.theta[None]).min().sqrt()
    assert gp.noise.item() == pytest.approx(0.1)
    with draws.at(5):
        assert gp.noise.item() == pytest.approx(draws.theta[5, 1].exp().item())
        assert joint().item() == pytest.approx(draws.log_density[5].item(), abs=1e-9)
    assert gp.noise.item() == pytest.approx(0.1)
    draws.assign(5)
    assert gp.kernel.lengthscale.item() == pytest.approx(draws.theta[5, 0].exp().item())


def test_leapfrog_is_reversible_and_keeps_the_energy_to_second_order():
    _, _, density = gaussian()
    x = free(0.0, 1.0, 2.0, 3.0, 4.0)
    chain = MarkovChain(lambda: density(x), [x], seeded(5), 7)
    chain.inverse_mass = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    start = chain.kick(chain.start(x.detach().numpy().copy()))

    def walk(point, step, steps):
        for _ in range(steps):
            point = chain.leapfrog(point, step)
        return point

    end = walk(start, 0.02, 50)
    back = walk(end, -0.02, 50)
    np.testing.assert_allclose(back.theta, start.theta, atol=1e-10)
    np.testing.assert_allclose(back.momentum, start.momentum, atol=1e-10)
    assert np.abs(end.theta - start.theta).max() > 0.1
    coarse, fine = (abs(chain.energy(walk(start, 0.02 / n, 50 * n)) - chain.energy(start)) for n in (1, 4))
    assert coarse < 0.1
    assert fine == pytest.approx(coarse / 16, rel=0.2)


def test_draws_stop_at_walls():
    x = free(0.5)

    def log_density():  # a half normal, with every kind of wall below zero
        if x.item() < -0.4:
            torch.linalg.cholesky(-torch.eye(2))
        if x.item() < -0.2:
            raise NotPositiveDefiniteError("too far")
        return -x.square().sum() / 2 if x.item() > 0 else x.sum() * torch.nan

    with pytest.warns(ConvergenceWarning, match=r"paths of the sampler diverged.*raise target_acceptance"):
        draws = sample(log_density, [x], 400, 60, seeded(6), max_depth=5)
    assert draws.divergences > 0
    assert (draws.theta > 0).all()
    error = 3 / ess(draws.theta[None]).item() ** 0.5
    assert draws.theta.mean().item() == pytest.approx((2 / np.pi) ** 0.5, abs=error * (1 - 2 / np.pi) ** 0.5)
    assert draws.theta.square().mean().item() == pytest.approx(1.0, abs=error * 2**0.5)


def test_the_seed_decides():
    x = free(0.5)
    first, second = (sample(lambda: -x.square().sum(), [x], 20, 60, seeded(7)) for _ in range(2))
    torch.testing.assert_close(first.theta, second.theta, rtol=0, atol=0)
    assert first.evaluations == second.evaluations > 80
    assert len(first) == 20


def test_windows_of_the_warm_up():
    assert _windows(500) == [75, 100, 150, 250, 450]
    assert _windows(60) == [9, 54]
    assert _windows(20) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples and max_depth must be at least 1"),
        ({"max_depth": 0}, "n_samples and max_depth must be at least 1"),
        ({"n_warmup": -1}, "n_warmup at least 0"),
        ({"target_acceptance": 1.0}, "target_acceptance must be between 0 and 1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    x = free(0.5)
    with pytest.raises(InputError, match=message):
        sample(lambda: -x.square().sum(), [x], **arguments)


def test_a_start_without_density_is_an_error_and_changes_nothing():
    x = free(0.5)
    with pytest.raises(InputError, match="not finite at the start"):
        sample(lambda: x.sum() * torch.inf, [x])
    with pytest.raises(InputError, match="no trainable entry"):
        sample(lambda: x.sum(), [])
    assert x.item() == 0.5


def test_effective_size_and_r_hat_of_chains_with_known_correlation():
    noise = torch.randn(4, 5000, 2, generator=seeded(8), dtype=torch.float64)
    chains = [noise[:, 0]]
    for t in range(1, 5000):
        chains.append(torch.tensor([0.0, 0.8]) * chains[-1] + noise[:, t] * torch.tensor([1.0, 0.6]))
    theta = torch.stack(chains, 1)
    independent, correlated = ess(theta).tolist()
    assert independent == pytest.approx(20000, rel=0.1)
    assert correlated == pytest.approx(20000 * (1 - 0.8) / (1 + 0.8), rel=0.15)
    torch.testing.assert_close(r_hat(theta), torch.ones(2, dtype=torch.float64), rtol=0, atol=5e-3)
    apart = theta + torch.arange(4.0)[:, None, None]
    expected = (1 + (apart[:, :2500].mean(1)[:, 0].var().item() * 6 / 7)) ** 0.5  # eight halves, means in pairs
    assert r_hat(apart)[0].item() == pytest.approx(expected, rel=0.02)
    assert ess(apart)[0] < 10
    with pytest.raises(InputError, match="at least 4 draws"):
        ess(theta[:, :3])


class Everything(Parameterised):
    def __init__(self):
        super().__init__()
        self.scale = positive([0.3, 2.0])
        self.share = bounded(0.3, 0.2, 0.9)
        self.dof = Parameter(5.0, constraints.greater_than(2.0))
        self.weights = simplex([0.2, 0.5, 0.3])
        self.root = lower_cholesky([[1.5, 0.0], [0.4, 0.7]])
        self.shift = real(0.3)
        self.known = positive(3.0, trainable=False)


def test_jacobian_against_finite_differences():
    module, total = Everything(), 0.0
    for item in module.named_values():
        parameter, raw = item.parameter, item.parameter.raw
        if not parameter.trainable:
            continue
        columns = []
        start = raw.detach().clone()
        for i in range(raw.numel()):
            ends = []
            for sign in (1, -1):
                raw.data = start.clone()
                raw.data.view(-1)[i] += sign * 1e-5
                ends.append(parameter.natural.detach().flatten())
            columns.append((ends[0] - ends[1]) / 2e-5)
        raw.data = start
        jacobian = torch.stack(columns, 1)
        if item.name == "weights":
            jacobian = jacobian[:-1]
        if item.name == "root":
            jacobian = jacobian[[0, 2, 3]][:, [0, 2, 3]]
        total += torch.linalg.slogdet(jacobian).logabsdet.item()
    assert log_jacobian(module).item() == pytest.approx(total, abs=1e-8)


def test_unread_entries_of_a_triangle_keep_the_density_proper():
    module = Everything()
    base = log_joint(torch.zeros((), dtype=torch.float64), module)
    assert base.item() == pytest.approx(log_jacobian(module).item())
    module.parameter("root").raw.data[0, 1] = 2.0
    assert log_joint(torch.zeros((), dtype=torch.float64), module).item() == pytest.approx(base.item() - 2.0)


def test_a_constraint_without_jacobian_is_named():
    module = Parameterised()
    module.matrix = Parameter(torch.eye(2), constraints.real)
    module.parameter("matrix").constraint = constraints.positive_definite
    with pytest.raises(UnsupportedError, match="bijection has no known Jacobian"):
        log_jacobian(module)
