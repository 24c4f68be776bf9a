"""Estimators over objects: what they tell of themselves, and what they say of lists that they cannot use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators import BayesianGPLVM, DRFRegressor, GPClassifier, GPDRFRegressor, GPRegressor

RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("abcd"), size=8)) for _ in range(60)]
SHARE = np.array([word.count("a") / 8 for word in WORDS])
NUMBERS = RNG.normal(size=(60, 2))


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages need no training."""
    monkeypatch.setattr("stratagp.estimators.deep_features.DeepFeaturesEstimator.least_steps", 10)


def small(*kernel: Any, **given: Any) -> GPDRFRegressor:
    options = {"n_processes": 2, "n_inducing": 15, "n_layers": 1, "n_features": 10, "max_epochs": 1, "random_state": 0}
    return GPDRFRegressor(*kernel, **{**options, **given})


@pytest.mark.parametrize("model", [small(k.Spectrum(2)), GPRegressor(k.Spectrum(2), max_iterations=0)])
def test_objects_have_no_relevance_and_say_so_as_an_attribute_does(model: Any) -> None:
    model.fit(WORDS, SHARE)
    assert not hasattr(model, "relevance_")
    with pytest.raises(InputError, match="objects and images have none"):
        _ = model.relevance_
    assert "<div" in model._repr_html_()


def test_a_list_of_names_computes_nothing() -> None:
    model = GPRegressor(max_iterations=0).fit(NUMBERS, SHARE)
    assert {"relevance_", "hyperparameters_", "kernel_", "predict"} <= set(dir(model))
    assert not {"relevance_", "hyperparameters_"} & set(vars(model))


def test_latent_dimensions_without_lengthscales_have_no_relevance() -> None:
    model = BayesianGPLVM(n_components=1, n_inducing=5, max_iterations=2).fit(NUMBERS)
    model.model_.layer.layers[-1].kernel = k.Linear()
    assert not hasattr(model, "relevance_")


@pytest.mark.parametrize("n_layers", [0, 1, 2])
def test_hidden_layers_have_no_units(n_layers: int) -> None:
    """Targets in another unit change the variances of the last layer and the noise by its square, and nothing else."""
    one, other = (small(k.Spectrum(2), n_layers=n_layers).fit(WORDS, unit * SHARE) for unit in (1.0, 1000.0))
    last = "layer.kernel" if n_layers == 0 else f"layer.layers.{n_layers}.kernel"
    for before, after in zip(one.hyperparameters_, other.hyperparameters_, strict=True):
        scaled = after.name == "likelihood.noise" or (after.name.startswith(last) and "variance" in after.name)
        assert after.value == pytest.approx(before.value * (1e6 if scaled else 1.0), rel=1e-4), after.name
    assert np.isnan([row.std for row in one.hyperparameters_]).all()


def test_views_have_a_table_of_hyperparameters() -> None:
    model = small(views={"left": [0], "right": [1]}).fit(NUMBERS, SHARE)
    assert len(model.kernel_) == 2
    names = [row.name for row in model.hyperparameters_]
    assert {"layer.layers.0.layers.0.kernel.base.lengthscale[1, 0]", "layer.layers.1.kernel.variance"} <= set(names)


def test_deep_random_features_scale_the_last_variance() -> None:
    model = DRFRegressor(n_layers=2, width=2, n_features=5, max_epochs=1, random_state=0).fit(NUMBERS, 1000 * SHARE)
    table, unit = model.hyperparameters_, model.scale_.scale[0]
    first, last = (float(layer.kernel.variance.detach()) for layer in model.model_.layer.layers)
    assert table["layer.layers.0.kernel.variance"].value == pytest.approx(first)
    assert table["layer.layers.1.kernel.variance"].value == pytest.approx(last * unit**2)


def test_the_kernel_is_printed_shortly() -> None:
    assert repr(small(k.Spectrum(2)).fit(WORDS, SHARE).kernel_).startswith("Spectrum(k=2, variance=[")
    assert ".on(" not in repr(small(k.Spectrum(2)).fit(WORDS, SHARE).kernel_)
    both = repr(small(k.Spectrum(2) + k.Spectrum(1)).fit(WORDS, SHARE).kernel_)
    assert ".on([0, 1 … 16]) + Spectrum(k=1" in both
    assert both.endswith(".on([0, 17 … 32])")


def test_one_class_is_named_plainly() -> None:
    with pytest.raises(InputError, match="got only one class: 'u' in all 60 rows"):
        GPClassifier().fit(NUMBERS, np.full(60, "u"))
