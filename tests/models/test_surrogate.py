"""Uncertain inputs, partial dependence, Sobol indices and expected improvement, against quadrature and Monte Carlo."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import InputError, NumericalWarning, UnsupportedError
from stratagp.models import surrogate
from stratagp.models.sobol import sobol_indices
from stratagp.models.surrogate import expected_improvement, partial_dependence, predict_uncertain
from stratagp.parameters import positive
from stratagp.training import maximise
from stratagp.types import Gaussian


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def posterior_of(kernel, n=30, noise=0.01, mean=None, d=2):
    x = 4 * rand(n, d)
    return ExactGP(kernel, mean, noise=noise).condition(x, x[:, 0].sin() + 0.3 * x[:, -1])


def uncertain(n=4, d=2, var=0.1):
    return Gaussian(4 * rand(n, d, seed=1), var * (0.5 + rand(n, d, seed=2)))


def by_quadrature(posterior, q, nodes=40):
    """Mean and variance of f(x) on a Gauss-Hermite grid of two columns."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    grid = torch.as_tensor(np.stack([a.ravel() for a in np.meshgrid(points, points, indexing="ij")], 1))
    share = torch.as_tensor(np.outer(weights, weights).ravel() / weights.sum() ** 2)
    answers = []
    for mean, var in zip(*q, strict=True):
        belief = posterior.marginals(mean + var.sqrt() * grid)
        centre = share @ belief.mean
        answers.append(torch.cat([centre, share @ (belief.var + (belief.mean - centre) ** 2)]))
    return torch.stack(answers)


@pytest.mark.parametrize(
    "kernel", [k.RBF([0.8, 1.5], 1.7), k.RBF(0.9) + k.Linear(0.5) + 0.3, k.RBF(0.7).on(0) * k.RBF(1.1).on(1)]
)
@pytest.mark.parametrize("mean", [None, means.Constant(0.7)])
def test_uncertain_inputs_in_closed_form_against_quadrature(kernel, mean):
    posterior, q = posterior_of(kernel, mean=mean), uncertain()
    belief = predict_uncertain(posterior, q, "exact")
    expected = by_quadrature(posterior, q).detach()
    torch.testing.assert_close(torch.cat(belief, 1), expected, rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(predict_uncertain(posterior, q), belief, rtol=0, atol=0)


def test_uncertain_inputs_against_monte_carlo():
    posterior, q = posterior_of(k.RBF(0.9)), uncertain(2)
    belief = predict_uncertain(posterior, q)
    noise = torch.randn(2, 20_000, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    points = q.mean[:, None] + q.var.sqrt()[:, None] * noise
    at = posterior.marginals(points.flatten(0, 1))
    f = (at.mean + at.var.sqrt() * torch.randn(40_000, 1, generator=torch.Generator().manual_seed(4))).reshape(2, -1)
    torch.testing.assert_close(belief.mean[:, 0], f.mean(1), rtol=0, atol=4 * (belief.var.max() / 20_000).sqrt().item())
    torch.testing.assert_close(belief.var[:, 0], f.var(1), rtol=0.05, atol=0)


def test_known_inputs_give_the_plain_marginals():
    for kernel in (k.RBF(0.9), k.Matern(1.5)):
        posterior = posterior_of(kernel)
        x = 4 * rand(5, 2, seed=1)
        belief = predict_uncertain(posterior, Gaussian(x, torch.zeros_like(x)))
        torch.testing.assert_close(belief, posterior.marginals(x), rtol=1e-8, atol=1e-9)


def test_samples_serve_where_there_is_no_closed_form():
    q = uncertain()
    for posterior in (posterior_of(k.Matern(2.5)), posterior_of(k.RBF(), mean=means.Polynomial([1.0, -0.5]))):
        with pytest.raises(UnsupportedError):
            predict_uncertain(posterior, q, "exact")
        belief = predict_uncertain(posterior, q, n_samples=4096)
        torch.testing.assert_close(torch.cat(belief, 1), by_quadrature(posterior, q), rtol=5e-3, atol=1e-4)
        torch.testing.assert_close(predict_uncertain(posterior, q, n_samples=4096), belief, rtol=0, atol=0)


def test_blocks_and_chunks_do_not_change_the_answer(monkeypatch):
    posterior, q = posterior_of(k.RBF(0.9), n=31), uncertain(7)
    whole = predict_uncertain(posterior, q)
    sampled = predict_uncertain(posterior, q, "samples", 64)
    for block, chunk in ((4, 200), (15, 2000), (100, 1)):
        monkeypatch.setattr(surrogate, "_BLOCK", block)
        monkeypatch.setattr(surrogate, "_CHUNK", chunk)
        torch.testing.assert_close(predict_uncertain(posterior, q), whole, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(predict_uncertain(posterior, q, "samples", 64), sampled, rtol=1e-9, atol=1e-11)
    one = posterior_of(k.RBF(0.9), n=1)
    torch.testing.assert_close(torch.cat(predict_uncertain(one, q), 1), by_quadrature(one, q), rtol=1e-7, atol=1e-8)


def test_rounding_is_noticed_where_noise_is_tiny():
    posterior = posterior_of(k.RBF(1.5), n=150, noise=1e-9)
    x = 4 * rand(6, 2, seed=1)
    q = Gaussian(x, torch.zeros_like(x))
    with pytest.warns(NumericalWarning, match='use method="samples"'):
        predict_uncertain(posterior, q, "exact")
    torch.testing.assert_close(predict_uncertain(posterior, q), posterior.marginals(x), rtol=1e-3, atol=1e-12)


def test_partial_dependence_against_joint_draws():
    posterior, x, grid = posterior_of(k.RBF(0.9), n=12), 4 * rand(10, 2, seed=5), torch.tensor([0.5, 2.0, 6.0])
    belief = partial_dependence(posterior, 0, grid, x)
    for i, value in enumerate(grid):
        points = torch.stack([value.expand(10).double(), x[:, 1]], 1)
        draws = posterior.sample(points, 20_000, "eigen", torch.Generator().manual_seed(6)).mean(1)
        std = draws.std().item()
        assert belief.mean[i].item() == pytest.approx(draws.mean().item(), abs=4 * std / math.sqrt(20_000))
        assert belief.var[i].sqrt().item() == pytest.approx(std, rel=0.03)


def test_partial_dependence_on_every_column_is_the_function():
    posterior = posterior_of(k.RBF(0.9))
    grid = 4 * rand(5, 2, seed=1)
    belief = partial_dependence(posterior, [1, 0], grid.flip(1), rand(7, 2))
    torch.testing.assert_close(belief, posterior.marginals(grid), rtol=1e-7, atol=1e-9)


def test_partial_dependence_takes_some_rows_of_many():
    posterior, x = posterior_of(k.RBF(0.9)), 4 * rand(500, 2, seed=5)
    few, same = (partial_dependence(posterior, 0, [1.0, 2.0], x) for _ in range(2))
    all_rows = partial_dependence(posterior, 0, [1.0, 2.0], x, max_rows=500)
    torch.testing.assert_close(few, same, rtol=0, atol=0)
    torch.testing.assert_close(few.mean, all_rows.mean, rtol=0, atol=0.1)
    assert not torch.equal(few.mean, all_rows.mean)


def ishigami(x, a=7.0, b=0.1):
    return x[:, 0].sin() + a * x[:, 1].sin() ** 2 + b * x[:, 2] ** 4 * x[:, 0].sin()


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")  # rounding may end the climb, at its top
def test_sobol_indices_of_ishigami():
    x = math.pi * (2 * torch.quasirandom.SobolEngine(3, scramble=True, seed=1).draw(200, dtype=torch.float64) - 1)
    y = ishigami(x)
    kernel = k.anova_kernel([k.Measure.uniform(-math.pi, math.pi)] * 3)
    gp = ExactGP(kernel, noise=positive(1e-3, bounds=(1e-6, 1.0)))
    maximise(lambda: gp.log_evidence(x, y), gp.parameters())
    indices = sobol_indices(gp.condition(x, y))
    np.testing.assert_allclose(indices.first, [0.3139, 0.4424, 0.0], atol=0.002)
    np.testing.assert_allclose(indices.total, [0.5576, 0.4424, 0.2437], atol=0.002)
    assert indices.effects[0, 2] == pytest.approx(0.2437, abs=0.002)
    assert indices.variance == pytest.approx(13.8446, rel=0.002)
    assert sum(indices.effects.values()) == pytest.approx(1.0, abs=1e-12)
    assert 0 < indices.unresolved < 1e-3


def test_sobol_indices_of_an_additive_function():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 2, 1])
    y = 5 + 3 * x[:, 0].sin() + x[:, 1] + 0.1 * torch.randn(60, generator=generator, dtype=torch.float64)
    parts = np.array([9 * (1 - math.exp(-2)) / 2, 4.0, 0.0])  # var sin x₀ = (1 − e⁻²)/2
    measures = [k.Measure.normal(), k.Measure.normal(0, 2), k.Measure.normal()]
    gp = ExactGP(k.anova_kernel(measures, order=2), noise=0.1)
    maximise(lambda: gp.log_evidence(x, y), gp.parameters())
    indices = sobol_indices(gp.condition(x, y), order=1)
    np.testing.assert_allclose(indices.first, parts / parts.sum(), atol=0.02)
    np.testing.assert_allclose(indices.total, indices.first, atol=0.01)
    assert set(indices.effects) == {(0,), (1,), (2,)}


def test_sobol_indices_against_the_mean_on_a_grid():
    """Four columns and every order; the effects of the mean by averaging it over a full grid of the nodes."""
    measures = [k.Measure.uniform(0, 4, 5), k.Measure.normal(2, 1, 4), k.Measure.sample([0.3, 1.0, 2.5]),
                k.Measure.uniform(0, 4, 3)]  # fmt: skip
    x = 4 * rand(40, 4)
    y = x[:, 0].sin() * x[:, 1] + x[:, 2] * x[:, 3] * x[:, 0]
    kernel = k.anova_kernel(measures, k.RBF(1.5)).set(**{"0.variance": [2.0, 1.0, 0.5, 0.3]})
    posterior = ExactGP(kernel, means.Constant(0.3), noise=0.01).condition(x, y)
    grid = torch.stack([axis.flatten() for axis in torch.meshgrid(*(m.points for m in measures), indexing="ij")], 1)
    values = posterior.mean(grid).reshape([len(m.points) for m in measures])

    def average(columns):  # E f given the columns, with ones for the axes that are averaged
        f = values
        for i, measure in enumerate(measures):
            if i not in columns:
                f = torch.tensordot(f, measure.weights, ([i], [0])).unsqueeze(-1).movedim(-1, i)
        return f

    def variance(f):
        for measure in reversed(measures):
            f = (f.expand(*f.shape[:-1], len(measure.points)) * measure.weights).sum(-1)
        return f.item()

    indices = sobol_indices(posterior)
    whole = variance(values**2) - average(()).item() ** 2
    assert indices.variance == pytest.approx(whole, rel=1e-9)
    for i in range(4):
        assert indices.first[i].item() == pytest.approx(
            (variance(average([i]) ** 2) - average(()).item() ** 2) / whole, rel=1e-7, abs=1e-9
        )
        others = variance(average([j for j in range(4) if j != i]) ** 2) - average(()).item() ** 2
        assert indices.total[i].item() == pytest.approx(1 - others / whole, rel=1e-7, abs=1e-9)
    pair = average([0, 1]) - average([0]) - average([1]) + average(())
    assert indices.effects[0, 1] == pytest.approx(variance(pair**2) / whole, rel=1e-7)
    assert len(indices.effects) == 15
    doubt = posterior.component(kernel.parts[0], grid).var.reshape(values.shape)
    assert indices.unresolved == pytest.approx(variance(doubt), rel=0.03)  # by 1024 quasi-random inputs


def test_expected_improvement_against_quadrature():
    for mean, std, best in [(0.3, 1.2, 0.1), (-1.0, 0.5, 0.4), (2.0, 0.4, 0.0), (30.0, 1.0, 0.0)]:
        u = (best - mean) / std
        width = 40 / max(1.0, abs(u))
        density = lambda t: t * std * stats.norm.pdf(t - u)  # noqa: B023, E731
        truth = integrate.quad(density, 0, max(width, u + 12), epsabs=0, epsrel=1e-11, limit=200)[0]
        args = [torch.tensor([v], dtype=torch.float64) for v in (mean, std)]
        assert expected_improvement(*args, best).item() == pytest.approx(truth, rel=1e-8, abs=0)
        assert expected_improvement(-args[0], args[1], -best, maximise=True).item() == pytest.approx(truth, rel=1e-8)


def test_expected_improvement_against_monte_carlo():
    draws = 0.3 + 1.2 * torch.randn(200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gain = (0.1 - draws).clamp_min(0)
    value = expected_improvement(torch.tensor(0.3), torch.tensor(1.2), 0.1).item()
    assert value == pytest.approx(gain.mean().item(), abs=4 * gain.std().item() / math.sqrt(200_000))


def test_expected_improvement_has_gradients_and_limits():
    mean = torch.tensor([0.0, 3.0, -5.0, 40.0], dtype=torch.float64, requires_grad=True)
    std = torch.tensor([1.0, 0.7, 0.3, 1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, s: expected_improvement(m, s, 0.2), (mean, std))
    known = expected_improvement(mean[:3], torch.zeros(3, dtype=torch.float64), 0.2)
    torch.testing.assert_close(known, torch.tensor([0.2, 0.0, 5.2], dtype=torch.float64))
    known.sum().backward()
    assert mean.grad.isfinite().all()


RBF, Q = posterior_of(k.RBF()), uncertain()
ANOVA = k.anova_kernel([k.Measure.uniform(0, 4)] * 2)
WIDE = k.anova_kernel([k.Measure.uniform(0, 4)] * 8, k.RBF(0.3))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: predict_uncertain(RBF, Q, "moments"), "method must be"),
        (lambda: predict_uncertain(RBF, Q, n_samples=1), "n_samples must be at least 2"),
        (lambda: predict_uncertain(RBF, Gaussian(Q.mean, -Q.var)), "q.var must not be negative"),
        (lambda: predict_uncertain(RBF, Gaussian(Q.mean * math.nan, Q.var)), "q.mean has NaN"),
        (lambda: predict_uncertain(RBF, Gaussian(Q.mean[:, :1], Q.var[:, :1])), "each of 2 columns"),
        (lambda: partial_dependence(RBF, 2, [0.0], RBF.x), "columns must be indices of the 2 columns"),
        (
            lambda: partial_dependence(RBF, [0, 1], [0.0, 1.0], RBF.x),
            "each row of grid must have a value for each of 2 columns",
        ),
        (lambda: partial_dependence(RBF, 0, [math.inf], RBF.x), "grid has NaN or infinite"),
        (lambda: partial_dependence(RBF, 0, [0.0], RBF.x[:, 0]), "x must have shape"),
        (lambda: partial_dependence(RBF, 0, [0.0], RBF.x, max_rows=0), "max_rows must be at least 1"),
        (lambda: expected_improvement(Q.mean, -Q.var, 0.0), "std must not be negative"),
        (lambda: sobol_indices(RBF), "need an Additive kernel of Centred kernels"),
        (lambda: sobol_indices(posterior_of(k.Additive(k.RBF(), dim=2))), "need an Additive kernel of Centred kernels"),
        (lambda: sobol_indices(RBF, order=0), "order must be at least 1"),
        (
            lambda: sobol_indices(posterior_of(ANOVA, mean=means.Polynomial([1.0, 0.0]))),
            "mean must be zero or constant",
        ),
        (lambda: sobol_indices(ExactGP(ANOVA).condition(RBF.x, torch.zeros(30))), "mean is constant"),
        (lambda: sobol_indices(posterior_of(WIDE, d=8)), "lower orders"),
    ],
)
def test_bad_arguments(ask, message):
    with pytest.raises(InputError, match=message):
        ask()
