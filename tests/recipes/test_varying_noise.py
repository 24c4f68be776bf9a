"""Noise from leave-one-out residuals against the noise that made the rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.recipes.base import FitContext, Rows
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.varying_noise import _CENTRE, _LEAST, _VARIANCE, VaryingNoiseRecipe
from stratagp.recipes.vecchia import VecchiaRecipe
from stratagp.testing import check_recipe
from stratagp.testing.recipe import toy_rows


def rows(n=400):
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, (n, 1))
    y = np.sin(2 * x) + np.exp(x - 2) * random.normal(size=(n, 1))
    return Rows(replace(toy_rows().data, x=torch.from_numpy(x), y=torch.from_numpy(y)))


def test_moments_of_the_log_of_a_squared_normal_number():
    logs = np.log(np.maximum(np.random.default_rng(0).normal(size=4_000_000) ** 2, _LEAST))
    assert logs.mean() == pytest.approx(_CENTRE, abs=5e-3)
    assert logs.var() == pytest.approx(_VARIANCE, abs=2e-2)


@pytest.mark.parametrize(
    "function", [ExactRecipe(k.Matern(2.5, ard=1)), VecchiaRecipe(k.Matern(2.5, ard=1), 40)], ids=["exact", "Vecchia"]
)
def test_the_noise_is_found(function):
    model = VaryingNoiseRecipe(function).fit(rows(), FitContext())
    x = torch.linspace(-1.5, 1.5, 7, dtype=torch.float64)[:, None]
    spread = np.sqrt(model.predictive(x).var[:, 0])
    assert np.log(spread) == pytest.approx((x[:, 0] - 2).numpy(), abs=0.4)


def test_from_where_it_ended():
    recipe, every = VaryingNoiseRecipe(ExactRecipe(k.Matern(2.5, ard=1))), rows(150)
    first = recipe.fit(every, FitContext())
    again = recipe.again(first, every, FitContext())
    x = every.data.x[:20]
    assert again.predictive(x).mean == pytest.approx(first.predictive(x).mean, abs=0.02)
    assert np.log(again.predictive(x).var) == pytest.approx(np.log(first.predictive(x).var), abs=0.15)


def test_more_rows_after_few_keep_what_is_known_of_the_noise():
    """Vecchia's process of many rows goes on from an exact one of few; a last fit keeps the noise as it is."""
    every, x = rows(3000), torch.linspace(-1.5, 1.5, 7, dtype=torch.float64)[:, None]
    few = replace(every, data=every.data.take(torch.arange(600)))
    many = VaryingNoiseRecipe(VecchiaRecipe(k.Matern(2.5, ard=1), 40))
    first = VaryingNoiseRecipe(ExactRecipe(k.Matern(2.5, ard=1))).fit(few, FitContext())
    second = many.again(first, every, FitContext())
    third = many.again(second, every, FitContext())
    for model in (second, third):
        said = model.predictive(x)
        assert np.log(np.sqrt(said.var[:, 0])) == pytest.approx((x[:, 0] - 2).numpy(), abs=0.25)
        assert said.mean == pytest.approx(np.sin(2 * x.numpy()), abs=0.06)
    here = second.draws[0][0].process.log_variance.mean(x)
    assert torch.equal(third.draws[0][0].process.log_variance.mean(x), here)


def test_contract():
    check_recipe(VaryingNoiseRecipe(ExactRecipe(k.Matern(2.5, ard=2))))


def test_weights_are_refused():
    weighted = replace(rows(20), data=replace(rows(20).data, weights=torch.ones(20)))
    with pytest.raises(InputError, match="without weights"):
        VaryingNoiseRecipe(ExactRecipe(k.RBF(ard=1))).fit(weighted, FitContext())
