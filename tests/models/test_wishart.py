import numpy as np
import pytest
import torch
from scipy import stats

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import InputError, NotPositiveDefiniteError, NumericalWarning
from stratagp.models import InverseWishartProcess, WishartProcess

X = torch.tensor([[0.0, 0.1], [0.6, -0.4], [1.1, 0.9]], dtype=torch.float64)
Y = torch.tensor([0.7, -0.2, 1.9], dtype=torch.float64)
K = 1.7 * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1).numpy() / 0.8**2) + 0.05 * np.eye(3)
N = 60_000  # draws for Monte Carlo; seeds are fixed, and a true value within 4 standard errors passes


def wishart(dof=6, noise=0.05):
    return WishartProcess(k.RBF(0.8, 1.7), dof, noise)


def inverse(dof=12.0, noise=0.05):
    return InverseWishartProcess(k.RBF(0.8, 1.7), dof, noise)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def assert_mean(values, expected, error=4.0):
    """The mean over the first axis is the expected one, within so many standard errors."""
    values = values.detach().numpy()
    distance = np.abs(values.mean(0) - expected) / (values.std(0) / np.sqrt(len(values)))
    assert np.max(distance) < error


BOTH = pytest.mark.parametrize("prior", [wishart(), inverse()], ids=["wishart", "inverse"])


@pytest.mark.parametrize("dof", [3, 4, 11])
def test_wishart_density_agrees_with_scipy(dof):
    prior = wishart(dof)
    sigma = prior.sample(X, 5, seeded())
    expected = stats.wishart(df=dof, scale=K / dof).logpdf(np.moveaxis(sigma.numpy(), 0, -1))
    np.testing.assert_allclose(prior.log_density(sigma, X).detach(), expected, rtol=1e-9, atol=1e-9)
    assert prior.log_density(sigma[0], X).item() == pytest.approx(expected[0], abs=1e-9)


@pytest.mark.parametrize("dof", [2.1, 3.5, 40.0])
def test_inverse_density_agrees_with_scipy(dof):
    prior = inverse(dof)
    sigma = prior.sample(X, 5, seeded())
    expected = [stats.invwishart(df=dof + 2, scale=(dof - 2) * K).logpdf(one) for one in sigma.numpy()]
    np.testing.assert_allclose(prior.log_density(sigma, X).detach(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "name"),
    [(wishart, "lengthscale"), (wishart, "noise"), (inverse, "lengthscale"), (inverse, "noise"), (inverse, "dof")],
)
def test_density_has_the_gradients_of_finite_differences(make, name):
    prior = make()
    sigma, parameter, step = prior.sample(X, 1, seeded())[0], prior.parameter(name), 1e-5
    (exact,) = torch.autograd.grad(prior.log_density(sigma, X), parameter.raw)
    ends = []
    for move in (step, -2 * step):
        with torch.no_grad():
            parameter.raw += move
            ends.append(prior.log_density(sigma, X).item())
    assert exact.item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


@BOTH
def test_moments_are_those_of_the_draws(prior):
    sigma = prior.sample(X, N, seeded())
    np.testing.assert_allclose(prior.mean(X).detach(), K, rtol=1e-12)
    assert_mean(sigma, K)
    assert_mean((sigma - torch.as_tensor(K)).square(), prior.variance(X).detach().numpy())


def test_variances_agree_with_scipy():
    truth = stats.wishart(df=6, scale=K / 6).var()
    np.testing.assert_allclose(wishart().variance(X).detach(), truth, rtol=1e-12)
    truth = stats.invwishart(df=4.5 + 2, scale=2.5 * K).var()
    np.testing.assert_allclose(inverse(4.5).variance(X).detach(), truth, rtol=1e-12)


def test_density_at_one_point_is_a_gamma_and_an_inverse_gamma():
    sigma = torch.linspace(0.2, 5, 9, dtype=torch.float64)
    of_one = [p.log_density(sigma[:, None, None], X[2:]).detach().numpy() for p in (wishart(), inverse())]
    np.testing.assert_allclose(of_one[0], stats.gamma(6 / 2, scale=2 * K[2, 2] / 6).logpdf(sigma), atol=1e-9)
    np.testing.assert_allclose(of_one[1], stats.invgamma(12 / 2, scale=10 * K[2, 2] / 2).logpdf(sigma), atol=1e-9)


@pytest.mark.parametrize("prior", [wishart(), inverse(), inverse(2.5)], ids=["wishart", "inverse", "heavy"])
@pytest.mark.parametrize("rows", [[0], [2], [1, 2]])
def test_part_of_the_points_has_the_process_at_that_part(prior, rows):
    """Kolmogorov and Smirnov's test of two samples: the last entry of the block's first row."""
    whole = prior.sample(X, N, seeded(1))[:, rows[0], rows[-1]]
    part = prior.sample(X[rows], N, seeded(2))[:, 0, -1]
    assert stats.ks_2samp(whole.numpy(), part.numpy()).pvalue > 0.01


def test_each_variance_is_a_gamma_or_an_inverse_gamma():
    """At any place among the points, although the draws treat the points one after the other."""
    for i in range(3):
        direct = stats.gamma(6 / 2, scale=2 * K[i, i] / 6)
        assert stats.kstest(wishart().sample(X, N, seeded(i))[:, i, i].numpy(), direct.cdf).pvalue > 0.01
        direct = stats.invgamma(2.5 / 2, scale=0.5 * K[i, i] / 2)
        assert stats.kstest(inverse(2.5).sample(X, N, seeded(i))[:, i, i].numpy(), direct.cdf).pvalue > 0.01


@pytest.mark.parametrize("prior", [wishart(10**5), inverse(1e5)], ids=["wishart", "inverse"])
def test_many_degrees_of_freedom_leave_the_mean(prior):
    distance = (prior.sample(X, 5, seeded()) - torch.as_tensor(K)).abs()
    assert (distance < 5 * prior.variance(X).sqrt()).all()
    assert distance.max() < 0.05


def test_many_degrees_of_freedom_leave_the_gaussian_process():
    gp = ExactGP(k.RBF(0.8, 1.7), noise=0.05)
    limit = inverse(1e9).functions().log_evidence(X, Y)
    assert limit.item() == pytest.approx(gp.log_evidence(X, Y).item(), abs=1e-5)


@pytest.mark.parametrize("noise", [0.05, 0.0])
def test_functions_are_the_average_over_covariances(noise):
    """``E_Σ N(y; 0, Σ)`` by Monte Carlo, to 0.5 % of itself, and the density of the Student-t process."""
    prior = inverse(5.0, noise)
    sigma = prior.sample(X, N, seeded())
    gaussians = torch.distributions.MultivariateNormal(torch.zeros(3, dtype=torch.float64), sigma)
    density = gaussians.log_prob(Y).exp()
    assert density.std() / N**0.5 < 0.005 * density.mean()
    assert_mean(density, prior.functions().log_evidence(X, Y).exp().item())


def test_functions_share_their_parameters_with_the_prior():
    prior = inverse(5.0)
    student = prior.functions()
    prior.set(dof=7.0, noise=0.3, lengthscale=2.0)
    assert (student.dof.item(), student.gaussian.noise.item(), student.kernel.lengthscale.item()) == pytest.approx(
        (7.0, 0.3, 2.0)
    )


def test_drawn_functions_have_student_tails():
    values = inverse(3.0).sample_functions(X, N, generator=seeded())[:, 0]
    for i in range(3):
        direct = stats.t(df=3.0, scale=np.sqrt(K[i, i] / 3))
        assert stats.kstest(values[:, i].numpy(), direct.cdf).pvalue > 0.01


def test_drawn_functions_of_few_columns_have_heavy_tails():
    """``cov f = K``, and ``E fᵢ⁴ = 3 E Σᵢᵢ² = 3 Kᵢᵢ² (1 + 2/ν)``; a Gaussian has 3 Kᵢᵢ²."""
    values = wishart(4).sample_functions(X, N, generator=seeded())[:, 0]
    assert_mean(values[:, :, None] * values[:, None, :], K)
    assert_mean(values**4, 3 * np.diag(K) ** 2 * (1 + 2 / 4))


@BOTH
def test_functions_of_one_draw_have_its_covariance(prior):
    sigma = prior.sample(X, 2, seeded(3)).numpy()
    values = prior.sample_functions(X, 2, N, seeded(3))
    for one, functions in zip(sigma, values, strict=True):
        assert_mean(functions[:, :, None] * functions[:, None, :], one)


def test_wishart_process_is_a_linear_kernel_on_gaussian_processes():
    """The theorem: with columns ``b_r ~ GP``, a process with the kernel ``bᵀb′/ν`` has the covariance ``B Bᵀ/ν``."""
    dof, noise = 4, 0.3
    columns = ExactGP(k.RBF(0.8, 1.7)).sample(X, dof, generator=seeded()).mT
    upper = ExactGP(k.Linear(1 / dof), noise=noise)
    sigma = (columns @ columns.mT / dof).numpy()
    np.testing.assert_allclose(upper.covariance(columns).detach(), sigma, rtol=1e-12)
    expected = stats.multivariate_normal(np.zeros(3), sigma + noise * np.eye(3)).logpdf(Y.numpy())
    assert upper.log_evidence(columns, Y).item() == pytest.approx(expected, abs=1e-9)
    draws = ExactGP(k.RBF(0.8, 1.7)).sample(X, dof * N, generator=seeded(5)).reshape(N, dof, 3)
    products = (draws.mT @ draws / dof).numpy()
    ours = wishart(dof, noise=0.0).sample(X, N, seeded(6)).numpy()
    for i, j in [(0, 0), (0, 1), (1, 2)]:
        assert stats.ks_2samp(products[:, i, j], ours[:, i, j]).pvalue > 0.01


def test_rank_is_the_number_of_columns():
    x = torch.linspace(0, 5, 6, dtype=torch.float64)[:, None]
    assert torch.linalg.matrix_rank(wishart(2).sample(x, 4, seeded()), hermitian=True).tolist() == [2] * 4
    assert torch.linalg.matrix_rank(inverse(2.5).sample(x, 4, seeded()), hermitian=True).tolist() == [6] * 4


@BOTH
def test_seed_decides(prior):
    assert prior.sample(X, 2, seeded()).equal(prior.sample(X, 2, seeded()))
    assert prior.sample_functions(X, 2, 3, seeded()).equal(prior.sample_functions(X, 2, 3, seeded()))
    assert prior.sample_functions(X, 2, 3).shape == (2, 3, 3)
    assert not prior.sample(X, 2, seeded()).requires_grad


@pytest.mark.parametrize("prior", [wishart(noise=0.0), inverse(noise=0.0)], ids=["wishart", "inverse"])
def test_equal_points_are_repaired_aloud(prior):
    with pytest.warns(NumericalWarning, match="the covariance of RBF"):
        sigma = prior.sample(X[[0, 0, 1]], 3, seeded())
    torch.testing.assert_close(sigma[:, 0], sigma[:, 1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dof", [0, -1, 2.5, True, None])
def test_columns_are_counted(dof):
    with pytest.raises(InputError, match="dof must be a whole number ≥ 1"):
        wishart(dof)


@pytest.mark.parametrize("dof", [2.0, -1.0, np.nan])
def test_degrees_of_freedom_are_checked(dof):
    with pytest.raises(InputError, match="dof must be above 2"):
        inverse(dof)


def test_what_does_not_exist_is_refused():
    with pytest.raises(InputError, match="at most dof = 2 rows, got 3: Σ has rank 2 at most"):
        wishart(2).log_density(wishart(2).sample(X)[0], X)
    with pytest.raises(InputError, match=r"dof must be above 4 for entries of finite variance, got 3\.5"):
        inverse(3.5).variance(X)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[:, 0], "x must have one point in each row"),
        (X[:0], "at least one row"),
        (X / 0, "x has NaN or infinite values"),
    ],
)
@BOTH
def test_points_are_checked(prior, x, message):
    for ask in (prior.mean, prior.variance, prior.sample, prior.sample_functions):
        with pytest.raises(InputError, match=message):
            ask(x)


@pytest.mark.parametrize(
    ("sigma", "message"),
    [
        (np.eye(2), r"sigma must be \(…, 3, 3\)"),
        (np.ones(3), r"sigma must be \(…, 3, 3\)"),
        (np.triu(np.ones((3, 3))), "sigma must be finite and symmetric"),
        (np.full((3, 3), np.nan), "sigma must be finite and symmetric"),
        ([["a"]], "sigma must hold numbers"),
    ],
)
@BOTH
def test_matrices_are_checked(prior, sigma, message):
    with pytest.raises(InputError, match=message):
        prior.log_density(sigma, X)
    with pytest.raises(NotPositiveDefiniteError, match="sigma, 3 × 3, is not positive definite"):
        prior.log_density(-np.eye(3), X)


@BOTH
def test_numbers_of_draws_are_checked(prior):
    with pytest.raises(InputError, match="n_samples must be at least 1, got 0"):
        prior.sample(X, 0)
    with pytest.raises(InputError, match="n_samples and n_functions must be at least 1, got 1 and 0"):
        prior.sample_functions(X, 1, 0)


@pytest.mark.parametrize("model", [WishartProcess, InverseWishartProcess])
def test_kernels_are_checked(model):
    with pytest.raises(InputError, match="kernel must be a kernel"):
        model("rbf", 5)
    with pytest.raises(InputError, match="kernel must be a single covariance function, got 2 of them"):
        model(k.RBF().replicate(2), 5)
    with pytest.raises(InputError, match="noise must be positive"):
        model(k.RBF(), 5, noise=-1.0)
