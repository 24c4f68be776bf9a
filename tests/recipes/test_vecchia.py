"""Values of Vecchia's process: which rows they come from."""

import numpy as np
import pytest
import torch

from stratagp import GPRegressor
from stratagp.kernels import RBF, Matern
from stratagp.models.neighbours import nearest_before
from stratagp.objectives.vecchia import log_conditionals
from stratagp.recipes import vecchia
from stratagp.recipes.base import Data, FitContext, Rows
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.search import Search
from stratagp.recipes.vecchia import VecchiaRecipe


def twins(n=600):
    """Rows in pairs of equal ones, whose targets agree but for every hundredth pair, which is far apart."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n // 2, 2, generator=generator, dtype=torch.float64)
    y = torch.sin(6 * x[:, 0]) + x[:, 1]
    other = y.clone()
    other[::100] += 2.0
    return Data(x.repeat(2, 1), torch.cat([y, other])[:, None])


def test_the_noise_comes_from_many_more_rows_than_other_values(monkeypatch):
    """Few rows hold too few pairs that disagree, or too many."""
    monkeypatch.setattr(vecchia, "CONDITIONALS", 60)
    monkeypatch.setattr(vecchia, "_SEARCH", ((60, 10),))
    monkeypatch.setattr(vecchia, "_COMPARE", (60, 10))
    monkeypatch.setattr(vecchia, "_POLISH", ((60, 10),))
    monkeypatch.setattr(vecchia, "_NOISE", (600, 10))
    monkeypatch.setattr(VecchiaRecipe, "_by_evidence", lambda recipe, model, rows, context: model)
    recipe = VecchiaRecipe(Matern(2.5, ard=True).bind(2), 10)
    settled = recipe.fit(Rows(twins()), FitContext())
    monkeypatch.setattr(vecchia._Way, "settle_noise", lambda way: None)
    few = recipe.fit(Rows(twins()), FitContext())

    def density(model):
        model.sets = model.prior.conditionals(model.data.x, 600, 10, late=True)
        with torch.no_grad():
            return model.score().item() / len(model.data)

    best = density(settled)
    assert best > density(few) + 0.05
    for factor in (0.8, 1.25):  # the noise is where these rows want it, but for the tolerance and a weak prior
        settled.prior.parameter("noise").assign(factor * settled.prior.noise.item())
        assert density(settled) < best + 1e-3
        settled.prior.parameter("noise").assign(settled.prior.noise.item() / factor)


def test_searches_are_judged_by_rows_that_they_have_not_seen(monkeypatch):
    monkeypatch.setattr(VecchiaRecipe, "_by_evidence", lambda recipe, model, rows, context: model)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.uniform(-2, 2, (1500, 2)))
    y = torch.sin(3 * x[:, :1]) * x[:, 1:]
    said = []
    rows = Rows(Data(x, y), bind=lambda own, default: (own or default).bind(2))
    model = VecchiaRecipe(n_neighbours=30).fit(rows, FitContext(log=said.append))
    assert model.prior.kernel.nu == 2.5
    kept = [line for line in said if line.endswith("nats a row")]
    assert len(kept) == 3
    assert not any("nu=0.5" in line for line in kept)
    sets = nearest_before(model.prior.kernel, x, 30, 1, late=True)  # seed 1: an order that no climb has seen
    truth = log_conditionals(model.prior.kernel, model.prior.noise, x, y[:, 0], sets).mean().item()
    assert model.judged() == pytest.approx(truth, rel=1e-9)


def test_rows_left_out_choose_between_values_of_conditionals_and_of_the_evidence():
    """The better of two is kept; with all neighbours its density of left-out rows is that of dense algebra."""
    generator = torch.Generator().manual_seed(2)
    x = torch.rand(150, 2, generator=generator, dtype=torch.float64)
    y = torch.sin(5 * x[:, :1]) * x[:, 1:] + 0.05 * torch.randn(150, 1, generator=generator, dtype=torch.float64)
    said = []
    model = VecchiaRecipe(RBF(ard=2), 149).fit(Rows(Data(x, y)), FitContext(log=said.append))
    worth = [float(word.strip(",")) for word in said[-1].split() if word.strip(",").replace(".", "").isdigit()]
    with torch.no_grad():
        inverse = torch.linalg.inv(model.prior.kernel(x) + model.prior.noise * torch.eye(150))
    var = 1 / inverse.diagonal()
    truth = torch.distributions.Normal(y[:, 0] - var * (inverse @ y[:, 0]), var.sqrt()).log_prob(y[:, 0]).mean()
    assert model.foretold() == pytest.approx(truth.item(), rel=1e-6)
    assert model.foretold() == pytest.approx(max(worth), abs=1e-3)
    assert len(worth) == 2


def test_the_evidence_is_that_of_the_whole_order():
    """All rows of a small set: log p(y) by dense algebra, not the density of the later half."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(80, 1, generator=generator, dtype=torch.float64)
    y = torch.sin(5 * x) + 0.1 * torch.randn(80, 1, generator=generator, dtype=torch.float64)
    model = VecchiaRecipe(Matern(2.5).bind(1), 79).fit(Rows(Data(x, y)), FitContext())
    model.sets = model.prior.conditionals(x, 80, 79, late=True)
    model.sets = model.sets._replace(rows=model.sets.rows.repeat(2), given=model.sets.given.repeat(2, 1))  # 80 rows
    with torch.no_grad():
        cov = model.prior.kernel(x, x) + model.prior.noise * torch.eye(80, dtype=torch.float64)
        truth = torch.distributions.MultivariateNormal(torch.zeros(80).double(), cov).log_prob(y[:, 0])
        assert model.evidence().item() == pytest.approx(truth.item(), rel=1e-8)
        assert model.score().item() != pytest.approx(truth.item(), rel=1e-3)


def test_many_rows_with_missing_inputs_settle_their_noise_twice(monkeypatch):
    """The second round goes on with the curvature of all values, not with that of the noise alone."""
    for name, value in {
        "CONDITIONALS": 50,
        "_SEARCH": ((50, 10),),
        "_COMPARE": (50, 10),
        "_POLISH": ((50, 10),),
        "_NOISE": (200, 10),
    }.items():
        monkeypatch.setattr(vecchia, name, value)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)
    X[::20, 1] = np.nan
    gp = GPRegressor(Matern(2.5, ard=True), inference="vecchia", n_neighbours=20, missing="impute", random_state=0)
    gp.fit(X, y)
    assert gp.score(X, y) > 0.95
    assert all(value.requires_grad for value in gp.model_.parameters())


def test_values_of_few_rows_are_polished_on_many():
    """From an exact process of 500 rows to all: as good as a search of its own, at rows that neither has seen."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.uniform(-2, 2, (3000, 2)))
    y = torch.sin(2 * x[:, :1]) * x[:, 1:] + 0.1 * torch.from_numpy(rng.normal(size=(3000, 1)))
    kernel, every = Matern(2.5, ard=True).bind(2), Rows(Data(x[:2500], y[:2500]))
    recipe = VecchiaRecipe(kernel, 60)
    few = ExactRecipe(kernel).fit(Rows(every.data.take(torch.arange(500))), FitContext())
    polished, searched = recipe.again(few, every, FitContext()), recipe.fit(every, FitContext())

    def density(model):
        return model.predictive(x[2500:]).log_density(y[2500:].numpy()).mean()

    assert density(polished) == pytest.approx(density(searched), abs=0.01)
    assert polished.prior.noise.item() == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize(("lengthscale", "noise", "most"), [(3.0, 1e-3, 120), (0.3, 0.1, 60)])
def test_more_neighbours_are_asked_where_they_foretell_better(lengthscale, noise, most, monkeypatch):
    """Of a smooth function each row more tells something; of a rough one the near ones tell all."""
    monkeypatch.setattr(vecchia, "_FEW", 60)
    monkeypatch.setattr(vecchia, "_MANY", 120)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 6, generator=generator, dtype=torch.float64)
    kernel = RBF(lengthscale=lengthscale)
    with torch.no_grad():
        factor = torch.linalg.cholesky(kernel(x) + noise * torch.eye(300))
        y = factor @ torch.randn(300, generator=generator, dtype=torch.float64)
    known = torch.full((300, 1), noise, dtype=torch.float64)
    rows = Rows(Data(x, y[:, None], noise=known), bind=lambda own, default: own)
    found = VecchiaRecipe(kernel, search=Search(max_iterations=0)).fit(rows, FitContext())
    assert found.prior.n_neighbours == found.draws[0][0].process.n_neighbours == most
    gain = found.seen_from(120).foretold() - found.seen_from(60).foretold()
    assert (gain > 0.01) == (most == 120)
