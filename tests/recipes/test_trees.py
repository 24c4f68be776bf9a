"""Forests with a density around them, against what is known of simulated rows."""

import numpy as np
import pytest
import torch
from scipy import stats

from stratagp import kernels as k
from stratagp.errors import InputError, NoAttributeError
from stratagp.models.observations import Data
from stratagp.recipes.base import FitContext, Rows
from stratagp.recipes.boosted_mean import BoostedMeanRecipe
from stratagp.recipes.candidates import of_classes
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.fold_classes import FoldClassesRecipe
from stratagp.recipes.spread import SpreadRecipe, density_of
from stratagp.recipes.trees import TreesRecipe
from stratagp.testing import check_recipe
from stratagp.testing.recipe import toy_rows
from tests.persistence.test_parts import back

KINDS = ("boosting", "extra trees")
CLASS_KINDS = (*KINDS, "Gaussians")
NUMBERS = {
    "boosting": TreesRecipe("boosting"),
    "extra trees": TreesRecipe("extra trees"),
    "boosted mean": BoostedMeanRecipe(ExactRecipe(k.Matern(2.5, ard=2))),
    "spread": SpreadRecipe(ExactRecipe(k.Matern(2.5, ard=2))),
}


def rows_of(x, y, n_classes=0, weights=None):
    y = np.asarray(y, dtype=float).reshape(len(x), -1)
    return Rows(Data(torch.from_numpy(np.asarray(x, dtype=float)), torch.from_numpy(y), weights), n_classes)


def steps(n, seed):
    """A step with noise whose deviation is 0.1 on the left and 0.5 on the right, and the truth about it."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, 2))
    mean, sd = np.where(x[:, 1] > 0.3, 1.0, -1.0), np.where(x[:, 0] > 0, 0.5, 0.1)
    return x, mean + sd * random.normal(size=n), mean, sd


@pytest.fixture(scope="module")
def stepped():
    x, y, _, _ = steps(600, 0)
    return {name: TreesRecipe(name).fit(rows_of(x, y), FitContext(seed=3)) for name in KINDS}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_contract_of_numbers(name):
    model = check_recipe(NUMBERS[name])
    mean, var = model.leave_one_out()
    assert mean.shape == var.shape == (40, 1)
    assert (var > 0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", CLASS_KINDS)
def test_the_contract_of_classes(kind, n_classes):
    check_recipe(FoldClassesRecipe(kind), toy_rows(n_classes=n_classes))


@pytest.mark.parametrize("kind", KINDS)
def test_noise_that_varies_is_found(kind, stepped):
    x, y, mean, sd = steps(2000, 1)
    found = stepped[kind].predictive(torch.from_numpy(x))
    truth = stats.norm(mean, sd).logpdf(y).mean()
    assert (
        found.log_density(y[:, None]).mean() > truth - 0.2
    )  # one deviation for all rows loses 0.45, even around the true mean
    u = found.cdf(y[:, None])
    for level in (0.5, 0.8, 0.95):
        assert abs((np.abs(u - 0.5) < level / 2).mean() - level) < 0.06
    assert stepped[kind].spread.forest is not None


@pytest.mark.parametrize("kind", KINDS)
def test_the_held_out_density_foretells_that_of_new_rows(kind, stepped):
    x, y, _, _ = steps(2000, 2)
    new = stepped[kind].predictive(torch.from_numpy(x)).log_density(y[:, None]).mean()
    assert abs(float(stepped[kind].score()) / 600 - new) < 0.12  # the standard error of 600 rows is 0.04


def test_the_shape_of_errors():
    random = np.random.default_rng(0)
    slope = random.normal(size=4000)
    errors = np.exp(0.5 * slope) * random.standard_t(4, size=4000)
    level, found, dof = density_of(errors**2, slope)
    assert abs(found - 1) < 0.1
    assert 3 < dof < 5.5
    assert abs(np.exp(level) - 2) < 0.5  # the variance of t with four degrees of freedom
    level, found, dof = density_of(random.normal(size=4000) ** 2, slope)
    assert (found, dof) == (0.0, None)
    assert abs(level) < 0.1


@pytest.mark.parametrize("name", NUMBERS)
def test_few_rows_a_constant_target_and_a_seed(name):
    rows = toy_rows(20)
    one, two = (NUMBERS[name].fit(rows, FitContext(seed=5)).predictive(rows.data.x) for _ in range(2))
    np.testing.assert_array_equal(one.means, two.means)
    np.testing.assert_array_equal(one.variances, two.variances)
    if name != "spread":  # a process of zeros is the business of its own recipe
        found = NUMBERS[name].fit(rows_of(rows.data.x, np.zeros(20)), FitContext()).predictive(rows.data.x)
        np.testing.assert_allclose(found.mean, 0, atol=1e-6)
        assert (found.var > 0).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_a_model_comes_back_from_a_file(name):
    rows = toy_rows()
    model = NUMBERS[name].fit(rows, FitContext())
    again = back(model)
    for of in ("y", "f"):
        one, two = (each.predictive(rows.data.x, of) for each in (model, again))
        np.testing.assert_array_equal(one.means, two.means)
        np.testing.assert_array_equal(one.variances, two.variances)


@pytest.mark.parametrize("kind", CLASS_KINDS)
def test_classes_come_back_from_a_file(kind):
    rows = toy_rows(n_classes=3)
    model = FoldClassesRecipe(kind).fit(rows, FitContext())
    np.testing.assert_array_equal(
        back(model).predictive(rows.data.x).probabilities, model.predictive(rows.data.x).probabilities
    )


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_of_noisy_classes(kind):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (1600, 2))
    p = np.where(x[:, 0] > 0, 0.9, 0.3)
    y = random.uniform(size=1600) < p
    model = FoldClassesRecipe(kind).fit(rows_of(x[:600], y[:600], 2), FitContext())
    found = model.predictive(torch.from_numpy(x[600:]))
    truth = np.where(y, np.log(p), np.log1p(-p))[600:].mean()
    assert found.log_density(y[600:].astype(int)).mean() > truth - 0.05  # base rates alone lose 0.2
    assert abs(float(model.score()) / 600 - truth) < 0.08


@pytest.mark.parametrize("kind", CLASS_KINDS)
def test_rare_and_absent_classes_have_some_probability(kind):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(30, 2)), np.arange(30) % 2 * 2
    y[7] = 4
    found = FoldClassesRecipe(kind).fit(rows_of(x, y, 5), FitContext()).predictive(torch.from_numpy(x))
    assert found.probabilities.shape == (30, 5)
    assert (found.probabilities > 0).all()
    alone = FoldClassesRecipe(kind).fit(rows_of(x, 0 * y + 1, 3), FitContext()).predictive(torch.from_numpy(x))
    assert (alone.probabilities[:, 1] > 0.9).all()
    assert (alone.probabilities > 0).all()


def test_weights_matter():
    x = np.tile([[0.0], [1.0]], (30, 1))
    y = np.tile([0.0, 1.0, 4.0, 1.0], 15)
    weights = torch.from_numpy(np.tile([3.0, 1.0, 1.0, 1.0], 15))
    model = TreesRecipe().fit(rows_of(x, y, weights=weights), FitContext())
    assert abs(model.function(torch.zeros(1, 1)).item() - 1) < 0.1  # (3·0 + 4)/4


def test_draws_of_a_wider_model_have_its_moments():
    x, y, _, _ = steps(60, 3)
    model = SpreadRecipe(ExactRecipe(k.Matern(2.5, ard=2))).fit(rows_of(x, y), FitContext())
    some = torch.from_numpy(x[:5])
    drawn = model.draw(some, 20000, "y", torch.Generator().manual_seed(0))[..., 0]
    mean, cov = model.joint(some, "y")
    found = model.predictive(some)
    np.testing.assert_allclose(np.diag(cov[..., 0]), found.var[:, 0], rtol=1e-10)
    np.testing.assert_allclose(drawn.mean(0), mean[:, 0], atol=6 * np.sqrt(found.var.max() / 20000))
    levels = found.quantile([0.25, 0.75])[:, :, 0]
    for level, values in zip((0.25, 0.75), levels, strict=True):
        np.testing.assert_allclose((drawn < values).mean(0), level, atol=0.015)


def test_a_boosted_mean_is_left_out_row_by_row():
    rows = toy_rows()
    model = BoostedMeanRecipe(ExactRecipe(k.Matern(2.5, ard=2))).fit(rows, FitContext())
    mean, var = model.leave_one_out()
    expected = stats.norm(mean, np.sqrt(var)).logpdf(rows.data.y.numpy()).sum()
    np.testing.assert_allclose(float(model.score(leave_one_out=True).detach()), expected, rtol=1e-8)


def test_what_trees_cannot_do_is_said():
    rows = toy_rows()
    model = TreesRecipe().fit(rows, FitContext())
    with pytest.raises(NoAttributeError, match="a model of trees has no kernel"):
        _ = model.module.kernel
    with pytest.raises(InputError, match="one target of numbers, got 2"):
        TreesRecipe().fit(rows_of(rows.data.x, np.zeros((40, 2))), FitContext())
    with pytest.raises(InputError, match="at least 4 rows, got 3"):
        TreesRecipe().fit(toy_rows(3), FitContext())
    with pytest.raises(InputError, match="this recipe learns classes"):
        FoldClassesRecipe().fit(rows, FitContext())
    with pytest.raises(InputError, match="not objects"):
        TreesRecipe().fit(Rows(Data(["a", "b"] * 5, torch.zeros(10, 1))), FitContext())


@pytest.mark.parametrize(("n_classes", "names"), [(31, ["extra trees", "boosted trees"]), (101, ["extra trees"])])
def test_trees_alone_compete_for_many_classes(n_classes, names):
    x = torch.zeros(2 * n_classes, 2).double()
    assert [each.name for each in of_classes(x, n_classes)] == names
