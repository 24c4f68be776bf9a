"""Which kernel is chosen where nobody gave one: that which the rows were drawn from."""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from stratagp import GPRegressor
from stratagp.errors import NumericalWarning
from stratagp.kernels import RBF, Matern
from stratagp.recipes import smoothness
from stratagp.recipes.base import Data, FitContext, Rows
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.smoothness import best_of_walk, kernels_of_all, smoothest

TRUTHS = {0.5: Matern(nu=0.5), math.inf: RBF()}


def nu_of(kernel):
    return getattr(kernel, "nu", math.inf)


def drawn(nu, n=250, width=30.0):
    """A line of rows, and values of a process of this smoothness with a little noise, drawn in plain NumPy."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, width, n)
    r = np.abs(x[:, None] - x)
    covariance = (np.exp(-r) if nu == 0.5 else np.exp(-0.5 * r**2)) + 1e-4 * np.eye(n)
    return x[:, None], rng.multivariate_normal(np.zeros(n), covariance)


def rows_of(x, y):
    bind = lambda own, default: (own or default).bind(x.shape[1])  # noqa: E731
    return Rows(Data(torch.from_numpy(x), torch.from_numpy(y)[:, None]), bind=bind)


@pytest.mark.parametrize("nu", [0.5, math.inf])
def test_the_smoothness_is_that_of_the_process_that_rows_come_from(nu):
    x, y = drawn(nu)
    model = ExactRecipe().fit(rows_of(x, y), FitContext())
    assert nu_of(model.prior.kernel) == nu
    kernel = model.prior.kernel  # of a rough process near rows tell the ratio alone
    known = kernel.variance / kernel.lengthscale if nu == 0.5 else kernel.lengthscale
    assert known.item() == pytest.approx(1.0, rel=0.3)


def test_of_more_rows_than_candidates_learn_from_the_evidence_decides(monkeypatch):
    """Values from 60 rows; which kernel is best is said by the evidence of 200, here by scipy."""
    monkeypatch.setattr(smoothness, "_SEARCH", 60)
    monkeypatch.setattr(smoothness, "_JUDGE", 200)
    x, y = drawn(0.5)
    rows, said, made = rows_of(x, y), [], []

    def start(kernel):
        made.append(recipe.start(rows.data, FitContext(), kernel))
        return made[-1]

    recipe = ExactRecipe()
    search = recipe.search.__class__("ml")
    model, known, _ = smoothest(kernels_of_all(rows), start, search, FitContext(log=said.append))
    assert known.rows == 60
    part = rows.data.some(200, 0)

    def evidence(each):
        with torch.no_grad():
            covariance = each.prior.kernel(part.x) + each.prior.noise * torch.eye(200)
        return multivariate_normal(np.zeros(200), covariance.numpy()).logpdf(part.y[:, 0].numpy())

    assert model is max(made, key=evidence)
    assert said[-1].endswith(f"{evidence(made[-1]):.3f}")


def test_a_walk_turns_where_neighbours_are_worse():
    def tried(best):
        return best_of_walk(4, lambda place, before: place, lambda found: -abs(found - best))

    assert tried(3) == [2, 3]
    assert tried(2) == [2, 3, 1]
    assert tried(0) == [2, 3, 1, 0]
    assert best_of_walk(1, lambda place, before: place, float) == [0]


def test_a_regressor_without_a_kernel_chooses_too_and_a_given_kernel_stays():
    x, y = drawn(math.inf, 100, 12.0)
    assert isinstance(GPRegressor(random_state=0).fit(x, y).kernel_, RBF)
    assert GPRegressor(Matern(nu=2.5), random_state=0).fit(x, y).kernel_.nu == 2.5


def test_a_kernel_whose_covariance_is_singular_is_worth_nothing():
    def jittered():
        warnings.warn("numerically singular", NumericalWarning, stacklevel=1)
        return 1.0

    assert smoothness._without_jitter(jittered) == -math.inf
    assert smoothness._without_jitter(lambda: 1.0) == 1.0


def test_rows_without_noise_are_learnt_without_a_warning():
    """In the tests a warning is an error: one climb after another ends where rounding allows no further step."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (300, 2))
    y = np.sin(3 * x[:, 0]) * x[:, 1]
    gp = GPRegressor(random_state=0).fit(x[:250], y[:250])
    np.testing.assert_allclose(gp.predict(x[250:]), y[250:], atol=1e-3)
