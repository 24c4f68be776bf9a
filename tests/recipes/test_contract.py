"""Every recipe of the library satisfies the contract that is shipped for others."""

import copy

import pytest
import torch

from stratagp import kernels as k
from stratagp import likelihoods as lik
from stratagp.recipes.autogp import AutoGPOptions, AutoGPRecipe
from stratagp.recipes.base import FitContext, Rows
from stratagp.recipes.classes import ClassRecipe
from stratagp.recipes.cokriging import CoKrigingRecipe
from stratagp.recipes.dfgp import DFGPOptions, DFGPRecipe
from stratagp.recipes.dkl import DKLOptions, DKLRecipe
from stratagp.recipes.drf import DRFRecipe, FeatureOptions, GPDRFOptions
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.noisy_inputs import NoisyInputRecipe
from stratagp.recipes.robust import HeteroscedasticRecipe, StudentTRecipe
from stratagp.recipes.sparse import SparseRecipe
from stratagp.recipes.stochastic import StochasticRecipe
from stratagp.recipes.vecchia import VecchiaRecipe
from stratagp.recipes.vecchia_classes import VecchiaClassRecipe
from stratagp.testing import check_recipe
from stratagp.testing.recipe import toy_rows

FEW = {"max_epochs": 5, "batch_size": 20}


def kernel():
    return k.Matern(2.5, ard=2)


def observed(likelihood, n_classes=0):
    rows = toy_rows(n_classes=n_classes)
    bind = lambda own, default: (default if own is None else own).bind(["a", "b"])  # noqa: E731
    return Rows(rows.data, n_classes, likelihood, rows.columns, bind)


CLOSED = {
    "exact": lambda: ExactRecipe(kernel()),
    "Vecchia": lambda: VecchiaRecipe(kernel(), 10),
    "sparse": lambda: SparseRecipe(kernel(), 10),
    "stochastic": lambda: StochasticRecipe(kernel(), 10, max_epochs=20),
    "heteroscedastic": lambda: HeteroscedasticRecipe(kernel()),
    "Student-t": lambda: StudentTRecipe(kernel()),
    "noisy inputs": lambda: NoisyInputRecipe(k.RBF(ard=2), torch.tensor([0.1, 0.0]).double(), True, 10),
    "co-kriging": lambda: CoKrigingRecipe(),
}
BATCHES = {
    "AutoGP": lambda: AutoGPRecipe(AutoGPOptions(n_inducing=8, **FEW)),
    "mixtures": lambda: AutoGPRecipe(AutoGPOptions(n_inducing=8, n_components=2, **FEW)),
    "DKL": lambda: DKLRecipe(DKLOptions([8, 2], pretrain_epochs=2, **FEW)),
    "DFGP": lambda: DFGPRecipe(DFGPOptions(n_inducing=6, max_iterations=10)),
    "DFGP by batches": lambda: DFGPRecipe(DFGPOptions(n_inducing=6, inference="batches", **FEW)),
    "DRF": lambda: DRFRecipe(FeatureOptions(width=2, n_features=8, **FEW)),
    "GP-DRF": lambda: DRFRecipe(GPDRFOptions(n_processes=2, n_inducing=6, n_features=8, **FEW)),
}
CLASSES = {
    "two by Laplace": (lambda: ClassRecipe(kernel()), 2),
    "three by Laplace": (lambda: ClassRecipe(kernel()), 3),
    "expectation propagation": (lambda: ClassRecipe(kernel(), "ep"), 3),
    "two by Vecchia": (lambda: VecchiaClassRecipe(kernel(), 10), 2),
    "three by Vecchia": (lambda: VecchiaClassRecipe(kernel(), 10, "logit"), 3),
    "stochastic": (lambda: StochasticRecipe(kernel(), 10, max_epochs=5), 3),
}


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", CLOSED)
def test_processes(name):
    check_recipe(CLOSED[name]())


def test_a_recipe_leaves_its_kernel_as_it_was():
    recipe = ExactRecipe(kernel())
    before = copy.deepcopy(recipe.kernel.state_dict())
    first, second = (recipe.fit(toy_rows(20), FitContext()).result.value for _ in range(2))
    assert first == second
    assert all(torch.equal(value, before[name]) for name, value in recipe.kernel.state_dict().items())


def test_smoothness_is_chosen_where_no_kernel_is_given():
    model = check_recipe(VecchiaRecipe(n_neighbours=50), observed(None))
    assert isinstance(model.module.kernel, (k.Matern, k.RBF))


@pytest.mark.parametrize("name", BATCHES)
def test_chains(name):
    check_recipe(BATCHES[name](), observed(lik.GaussianNoise(0.1)), chunk_tolerance=1e-5)


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    recipe, n_classes = CLASSES[name]
    check_recipe(recipe(), toy_rows(n_classes=n_classes))


def test_counts():
    rows = observed(lik.Poisson())
    rows.data.y = torch.round(rows.data.y.exp())
    model = check_recipe(BATCHES["AutoGP"](), rows)
    found = model.predictive(rows.data.x[:5])
    assert found.discrete
    levels = found.quantile([0.2, 0.8])
    assert ((found.cdf(levels[1]) >= 0.8) & (found.cdf(levels[1] - 1) < 0.8)).all()


def test_a_wrong_density_is_found():
    class Wrong(ExactRecipe):
        def fit(self, rows, context):
            model = super().fit(rows, context)
            asked = model.predictive

            def predictive(x, of="y"):
                found = asked(x, of)
                object.__setattr__(found, "log_density", lambda y: 0 * y)
                return found

            model.predictive = predictive
            return model

    with pytest.raises(AssertionError, match="slope of the cdf"):
        check_recipe(Wrong(kernel()))
