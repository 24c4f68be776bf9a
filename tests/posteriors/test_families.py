"""Every family of posteriors against dense algebra, torch's distributions, Monte Carlo and finite differences."""

import inspect
import math

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal, kl_divergence

from stratagp import kernels as k
from stratagp import posteriors
from stratagp.errors import InputError
from stratagp.layers import Inducing
from stratagp.likelihoods import Likelihood
from stratagp.linalg import cholesky
from stratagp.linalg.kronecker import kron
from stratagp.objectives.elbo import elbo
from stratagp.parameters import real
from stratagp.posteriors import Delta, DiagonalGaussian, FullGaussian, KroneckerGaussian, MixturePosterior
from stratagp.testing import check_posterior
from stratagp.types import Gaussian

F64 = torch.float64
BOUNDS = ["jensen", "bhattacharyya"]


def moved(posterior, size=0.4, seed=0):
    """The posterior with noise on all its parameters."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in posterior.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=g, dtype=F64))
    return posterior


def mixture(m=3, q=2, n_components=3, size=0.4, seed=0, **options):
    return moved(
        MixturePosterior(m, q, n_components, generator=torch.Generator().manual_seed(1), **options), size, seed
    )


CASES = {
    "FullGaussian": lambda: FullGaussian(3, 2),
    "DiagonalGaussian": lambda: DiagonalGaussian(3, 2),
    "Delta": lambda: Delta(3, 2),
    "KroneckerGaussian": lambda: KroneckerGaussian([2, 3], 2),
    "KroneckerGaussian of three axes": lambda: KroneckerGaussian([2, 1, 3]),
    "MixturePosterior": lambda: MixturePosterior(3, 2, 3, entropy="jensen"),
    "MixturePosterior by Bhattacharyya": lambda: MixturePosterior(3, 2, 3, entropy="bhattacharyya"),
    "MixturePosterior with diagonals": lambda: MixturePosterior(3, 2, 2, full=False, entropy="jensen"),
    "MixturePosterior, diagonals by Bhattacharyya": lambda: MixturePosterior(
        3, 2, 2, full=False, entropy="bhattacharyya"
    ),
    "MixturePosterior of one": lambda: MixturePosterior(3, 2, 1),
}


def projections(m, q=None, n=5, seed=3):
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(*([] if q is None else [q]), m, n, generator=g, dtype=F64)
    rest = torch.randn(n, n, generator=g, dtype=F64)
    return a, a.mT @ a + rest @ rest.mT / n + 0.1 * torch.eye(n, dtype=F64)


def diagonal(matrix):
    return matrix.diagonal(dim1=-2, dim2=-1)


def test_every_posterior_has_an_entry():
    ours = {name for name, cls in vars(posteriors).items() if inspect.isclass(cls) and not inspect.isabstract(cls)}
    assert ours - {name.split()[0].rstrip(",") for name in CASES} == set()


@pytest.mark.parametrize("name", CASES)
def test_check(name):
    check_posterior(moved(CASES[name]()), n_draws=2_000)
    check_posterior(CASES[name](), n_draws=200)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("own", [False, True])
def test_gradients(name, own):
    posterior = moved(CASES[name]())
    q, m = posterior.shape
    a, covariance = projections(m, q if own else None, n=2)

    class Terms(nn.Module):
        def __init__(self):
            super().__init__()
            self.posterior = posterior

        def forward(self, a, kdiag):
            belief = self.posterior.marginals(a, kdiag)
            return *(belief if isinstance(belief, Gaussian) else (belief[0], *belief.parts)), self.posterior.kl()

    names, values = zip(*((f"posterior.{name}", p) for name, p in posterior.named_parameters()), strict=True)

    def terms(a, kdiag, *new):
        return torch.func.functional_call(Terms(), dict(zip(names, new, strict=True)), (a, kdiag))

    leaves = [t.detach().clone().requires_grad_() for t in (a, diagonal(covariance), *values)]
    assert torch.autograd.gradcheck(terms, leaves)


@pytest.mark.parametrize("name", CASES)
def test_the_cost_does_not_depend_on_the_storage(name):
    posterior = moved(CASES[name]())
    cost = posterior.kl().item()
    assert posterior.float().kl().dtype == F64
    assert posterior.kl().item() == pytest.approx(cost, rel=1e-5)


# Diagonal


def test_diagonal_cost_is_that_of_torch():
    posterior = moved(DiagonalGaussian(4, 3))
    ours = Normal(posterior.mean.detach(), posterior.scale.detach())
    prior = Normal(torch.zeros(1, dtype=F64), torch.ones(1, dtype=F64))
    assert posterior.kl().item() == pytest.approx(kl_divergence(ours, prior).sum().item(), rel=1e-12)


@pytest.mark.parametrize("own", [False, True])
def test_diagonal_is_a_full_gaussian(own):
    posterior, full = moved(DiagonalGaussian(4, 3)), FullGaussian(4, 3)
    full.load_state_dict({"mean": posterior.mean, "scale": torch.diag_embed(posterior.scale)})
    a, covariance = projections(4, 3 if own else None)
    same_belief(posterior, full, a, covariance)


def same_belief(ours, theirs, a, covariance):
    """Marginals, joint covariance and cost, to 1e-12."""
    kdiag = diagonal(covariance)
    torch.testing.assert_close(ours.marginals(a, kdiag), theirs.marginals(a, kdiag), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.covariance(a, covariance), theirs.covariance(a, covariance), rtol=1e-12, atol=1e-12)
    assert ours.kl().item() == pytest.approx(theirs.kl().item(), rel=1e-12)


# Kronecker


@pytest.mark.parametrize("sizes", [[2, 3], [2, 1, 3], [4]])
@pytest.mark.parametrize("own", [False, True])
def test_kronecker_is_the_full_gaussian_of_its_product(sizes, own):
    posterior = moved(KroneckerGaussian(sizes, 2))
    q, m = posterior.shape
    full = FullGaussian(m, q)
    scale = kron([t.tril() for t in posterior.scales])
    full.load_state_dict({"mean": posterior.mean, "scale": scale})
    same_belief(posterior, full, *projections(m, q if own else None))
    drawn = [p.draw(torch.Generator().manual_seed(5)) for p in (posterior, full)]
    torch.testing.assert_close(*drawn, rtol=1e-12, atol=1e-12)


# Delta


def test_delta_is_the_conditional_and_its_cost_the_map_penalty():
    posterior = moved(Delta(3, 2))
    v = posterior.mean.detach()
    log_prior = Normal(0.0, 1.0).log_prob(v).sum().item() + v.numel() / 2 * math.log(2 * math.pi)
    assert posterior.kl().item() == pytest.approx(-log_prior, rel=1e-12)
    full = FullGaussian(3, 2)
    full.load_state_dict({"mean": v, "scale": torch.zeros(2, 3, 3)})
    a, covariance = projections(3, 2)
    kdiag = diagonal(covariance)
    torch.testing.assert_close(posterior.marginals(a, kdiag), full.marginals(a, kdiag))
    torch.testing.assert_close(posterior.covariance(a, covariance), full.covariance(a, covariance))
    torch.testing.assert_close(posterior.draw(), v)


# Mixture


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("entropy", BOUNDS)
def test_one_component_is_the_gaussian_exactly(full, own, entropy):
    posterior = moved(MixturePosterior(3, 2, 1, full=full, entropy=entropy))
    gaussian = (FullGaussian if full else DiagonalGaussian)(3, 2)
    gaussian.load_state_dict(posterior.components.state_dict())
    a, covariance = projections(3, 2 if own else None)
    log_weights, parts = posterior.marginals(a, diagonal(covariance))
    assert log_weights.item() == 0.0
    for part, same in zip(parts, gaussian.marginals(a, diagonal(covariance)), strict=True):
        assert torch.equal(part, same[None])
    assert posterior.kl().item() == gaussian.kl().item()
    torch.testing.assert_close(posterior.covariance(a, covariance), gaussian.covariance(a, covariance))


def covariances(posterior):
    """Means ``k q m`` and covariances ``k q m m``, from the parameters by plain algebra."""
    count, (q, m) = len(posterior.logits), posterior.shape
    scale = posterior.components.scale.detach()
    scale = torch.diag_embed(scale) if scale.dim() == 2 else scale.tril()
    return posterior.components.mean.detach().reshape(count, q, m), (scale @ scale.mT).reshape(count, q, m, m)


def density(posterior):
    """The mixture over all values of all functions, as torch knows it."""
    means, own = covariances(posterior)
    joint = torch.stack([torch.block_diag(*matrices) for matrices in own])
    return MixtureSameFamily(
        Categorical(logits=posterior.logits.detach()), MultivariateNormal(means.flatten(1), covariance_matrix=joint)
    )


def estimate(posterior, n=100_000):
    """Entropy and divergence from the prior by Monte Carlo, each with its standard error."""
    torch.manual_seed(0)
    q = density(posterior)
    v = q.sample((n,))
    log_q, log_p = q.log_prob(v), Independent(Normal(torch.zeros_like(v[0]), 1.0), 1).log_prob(v)
    return [(float(t.mean()), float(t.std()) / n**0.5) for t in (-log_q, log_q - log_p)]


@pytest.mark.parametrize("full", [True, False])
def test_jensen_is_its_formula(full):
    posterior = mixture(full=full, entropy="jensen")
    (means, own), weights = covariances(posterior), posterior.logits.detach().softmax(0)
    value = 0.0
    for i, weight in enumerate(weights):
        inner = 0.0
        for j, other in enumerate(weights):
            parts = [MultivariateNormal(means[j, f], own[i, f] + own[j, f]).log_prob(means[i, f]) for f in range(2)]
            inner = inner + other * sum(parts).exp()
        value -= float(weight * inner.log())
        cross = means[i].square().sum() + diagonal(own[i]).sum() + 6 * math.log(2 * math.pi)
        value -= float(weight * cross / 2)
    assert posterior.kl().item() == pytest.approx(-value, rel=1e-12)


def test_bhattacharyya_is_its_integral():
    """One inducing value: the overlaps ∫ √(qₖ qₗ) on a fine grid."""
    posterior = mixture(1, 1, size=1.0, entropy="bhattacharyya")
    (means, own), weights = covariances(posterior), posterior.logits.detach().softmax(0)
    grid = torch.linspace(-30, 30, 60_001, dtype=F64)
    q = Normal(means[..., 0], own[..., 0, 0].sqrt())
    densities = q.log_prob(grid).exp()
    overlap = torch.trapezoid((densities[:, None] * densities).sqrt(), grid)
    entropy = weights @ (q.entropy()[:, 0] - (overlap @ weights).log())
    cross = 0.5 * (weights @ (means.square() + own[..., 0]).flatten() + math.log(2 * math.pi))
    assert posterior.kl().item() == pytest.approx(float(cross - entropy), rel=1e-9)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("entropy", BOUNDS)
@pytest.mark.parametrize("size", [0.1, 0.5, 1.5])
def test_bounds_are_on_the_right_side_of_monte_carlo(full, entropy, size):
    posterior = mixture(full=full, entropy=entropy, size=size)
    (h, h_error), (kl, kl_error) = estimate(posterior)
    means, own = covariances(posterior)
    cross = means.square().sum((1, 2)) + diagonal(own).sum((1, 2)) + 6 * math.log(2 * math.pi)
    bound = 0.5 * float(posterior.logits.detach().softmax(0) @ cross) - posterior.kl().item()
    assert bound <= h + 4 * h_error
    assert posterior.kl().item() >= kl - 4 * kl_error
    if entropy == "bhattacharyya":  # at most 0.2 above the truth here, while Jensen loses 0.92 for six values
        assert posterior.kl().item() <= kl + 0.2 + 4 * kl_error


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(("entropy", "loss"), [("jensen", 0.5 * (1 - math.log(2))), ("bhattacharyya", 0.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_equal_components_cost_the_same_for_every_weight(full, entropy, loss, seed):
    gaussian = moved((FullGaussian if full else DiagonalGaussian)(3, 2))
    posterior = mixture(full=full, entropy=entropy, seed=seed)
    with torch.no_grad():
        for name, value in gaussian.named_parameters():
            getattr(posterior.components, name).copy_(value.repeat(3, *[1] * (value.dim() - 1)))
    assert posterior.kl().item() == pytest.approx(gaussian.kl().item() + 6 * loss, rel=1e-12)


@pytest.mark.parametrize("entropy", BOUNDS)
def test_distant_components_cost_their_average_less_the_entropy_of_the_weights(entropy):
    posterior = mixture(entropy=entropy)
    with torch.no_grad():
        posterior.components.mean.add_(torch.arange(6.0)[:, None] // 2 * 50)
    weights = posterior.logits.detach().softmax(0)
    alone = []
    for part in range(3):
        one = FullGaussian(3, 2)
        own = {name: value[2 * part : 2 * part + 2] for name, value in posterior.components.named_parameters()}
        one.load_state_dict(own)
        alone.append(one.kl().item())
    expected = float(weights @ torch.tensor(alone, dtype=F64) + (weights * weights.log()).sum())
    loss = 3 * (1 - math.log(2)) if entropy == "jensen" else 0.0
    assert posterior.kl().item() == pytest.approx(expected + loss, rel=1e-12)


@pytest.mark.parametrize("full", [True, False])
def test_covariance_of_a_mixture_is_its_second_moment_less_its_mean(full):
    posterior = mixture(size=1.0, full=full)
    (means, own), weights = covariances(posterior), posterior.logits.detach().softmax(0)
    second = torch.einsum("k,kqij->qij", weights, own + means[..., None] * means[..., None, :])
    mean = torch.einsum("k,kqi->qi", weights, means)
    total = second - mean[..., None] * mean[:, None]
    a, covariance = projections(3, 2)
    expected = covariance - a.mT @ a + a.mT @ total @ a
    torch.testing.assert_close(posterior.covariance(a, covariance), expected, rtol=1e-12, atol=1e-12)


def test_means_start_apart_and_reproducibly():
    first, same, other = (MixturePosterior(200, 2, 3, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(first.components.mean, same.components.mean)
    assert not torch.equal(first.components.mean, other.components.mean)
    assert first.components.mean.std().item() == pytest.approx(0.1, rel=0.1)
    assert not MixturePosterior(3, 2, 1).components.mean.any()


# Two modes


class Square(Likelihood):
    """``y = f² + N(0, noise)``: the sign of ``f`` cannot be seen."""

    noise = 0.1

    def log_prob(self, y, f):
        return Normal(f.square(), self.noise**0.5).log_prob(y.expand_as(f)).sum(-1)

    def moments(self, f):
        return Gaussian(f.square(), torch.full_like(f, self.noise))


Z = torch.tensor([[0.0], [0.6], [1.2]], dtype=F64)
Y = torch.tensor([[1.2], [2.0], [1.0]], dtype=F64)


def by_grid(kernel):
    """``log ∫ N(v; 0, I) Π p(yₙ | (Lv)ₙ) dv``, and the mean of ``f`` where ``f(0) > 0``."""
    axis = torch.linspace(-5, 5, 81, dtype=F64)
    v = torch.cartesian_prod(axis, axis, axis)
    with torch.no_grad():
        f = v @ cholesky(kernel(Z)).mT
    log_joint = Square().log_prob(Y, f[..., None]).sum(-1) + Normal(0.0, 1.0).log_prob(v).sum(-1)
    weights = (log_joint - log_joint.max()).exp() * (f[:, 0] > 0)
    return float(log_joint.logsumexp(0) + 3 * axis.diff()[0].log()), weights @ f / weights.sum()


def trained(kernel, posterior, steps=150, rate=0.1):
    layer = Inducing(kernel, real(Z, trainable=False), posterior, jitter=1e-9)
    optimiser = torch.optim.Adam(posterior.parameters(), rate)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * (1 - step / steps)
        optimiser.zero_grad()
        (-elbo(layer, Square(), Z, Y).value).backward()
        optimiser.step()
    return layer, elbo(layer, Square(), Z, Y).value.item()


def test_two_components_find_both_modes():
    kernel = k.RBF(lengthscale=1.0, variance=1.0).requires_grad_(False)
    truth, mode = by_grid(kernel)
    start = FullGaussian(3)
    start.mean.data.add_(0.1)
    _, single = trained(kernel, start)
    bounds = {}
    for entropy in BOUNDS:
        posterior = MixturePosterior(3, 1, 2, entropy=entropy, generator=torch.Generator().manual_seed(3))
        layer, bounds[entropy] = trained(kernel, posterior)
        log_weights, parts = layer(Z)
        means = parts.mean[parts.mean[:, 0, 0].argsort(), :, 0]
        torch.testing.assert_close(means, torch.stack([-mode, mode]), rtol=0, atol=0.05)
        torch.testing.assert_close(log_weights.exp(), torch.full((2,), 0.5, dtype=F64), rtol=0, atol=0.01)
    assert single + 0.1 < bounds["jensen"] < bounds["bhattacharyya"] < truth
    assert bounds["bhattacharyya"] == pytest.approx(truth, abs=0.05)
    assert bounds["bhattacharyya"] - single == pytest.approx(math.log(2), abs=0.01)


# Faults and errors


class DoubleCost(DiagonalGaussian):
    def kl(self):
        return 2 * super().kl()


class NoPenalty(Delta):
    def kl(self):
        return 0 * super().kl()


class OneComponent(MixturePosterior):
    def draw(self, generator=None):
        return self._apart(self.components.draw(generator))[0]


class HalfMixture(MixturePosterior):
    def kl(self):
        return 0.5 * super().kl()


class NoSpread(MixturePosterior):
    def covariance(self, a, k):
        return self._apart(self.components.covariance(a, k)).mean(0)


FAULTS = {
    "draws have the cost": lambda: DoubleCost(3, 2),
    "cost": lambda: NoPenalty(3, 2),
    "standard errors": lambda: OneComponent(3, 2, 2),
    "at least": lambda: HalfMixture(3, 2, 2),
    "diagonal of covariance": lambda: NoSpread(3, 2, 2),
}


@pytest.mark.parametrize("message", FAULTS)
def test_faults_are_found(message):
    with pytest.raises(AssertionError, match=message):
        check_posterior(moved(FAULTS[message](), 1.0), n_draws=1_000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiagonalGaussian(0), "m=0"),
        (lambda: Delta(3, 0), "q=0"),
        (lambda: MixturePosterior(3, 1, 0), "n_components=0"),
        (lambda: MixturePosterior(3, entropy="exact"), "jensen, bhattacharyya"),
        (lambda: KroneckerGaussian([]), "each axis"),
        (lambda: KroneckerGaussian([3, 0]), "each axis"),
        (lambda: KroneckerGaussian(3), "each axis"),
        (lambda: KroneckerGaussian([3], 0), "q=0"),
    ],
)
def test_sizes_are_checked(make, message):
    with pytest.raises(InputError, match=message):
        make()
