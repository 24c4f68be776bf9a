"""Estimators over objects: what they tell of themselves, and what they say of lists that they cannot use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators import (
    BayesianGPLVM,
    DFGPRegressor,
    DKLRegressor,
    DRFRegressor,
    GPClassifier,
    GPDRFRegressor,
    GPRegressor,
)
from tests.training_length import make_steps

RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("abcd"), size=8)) for _ in range(60)]
SHARE = np.array([word.count("a") / 8 for word in WORDS])
NUMBERS = RNG.normal(size=(60, 2))


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages need no training."""
    make_steps(monkeypatch, 10)


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


def test_a_column_is_no_list_of_objects() -> None:
    for wrong in (np.array(WORDS)[:, None], np.array(WORDS, dtype=object)[:, None]):
        with pytest.raises(InputError, match=r"X has shape \(60, 1\): give the column itself, X\[:, 0\]"):
            GPRegressor(k.Spectrum(2)).fit(wrong, SHARE)
    with pytest.raises(InputError, match=rf"X has a list of one text in each row, such as \['{WORDS[0]}'\]"):
        small(k.Spectrum(2)).fit([[word] for word in WORDS], SHARE)


@pytest.mark.parametrize("model", [small(k.Spectrum(2)), GPRegressor(k.Spectrum(2), max_iterations=0)])
def test_new_objects_are_of_the_sort_of_fit(model: Any) -> None:
    model.fit(WORDS, SHARE)
    with pytest.raises(InputError, match=r"X has \['ab', 'c'\] in row 1, but in fit all objects were texts"):
        model.predict(["abc", ["ab", "c"]])
    model.fit([list(word) for word in WORDS], SHARE)
    with pytest.raises(InputError, match="X has 'abc' in row 0, but in fit none was a text: prepare it"):
        model.predict(["abc"])
    model.fit([*map(list, WORDS[:30]), *WORDS[30:]], SHARE)  # both sorts, as string kernels may
    np.testing.assert_allclose(model.predict(["abcd"]), model.predict([list("abcd")]))


@pytest.mark.parametrize("model", [small(k.Spectrum(2)), GPRegressor(k.Spectrum(2), max_iterations=0)])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, r"X has no object in row 3 \(None\): drop"),
        (float("nan"), r"X has no object in row 3 \(nan\)"),
        (7.5, "X has 7.5 in row 3, among texts"),
        (np.int64(7), "X has 7 in row 3, among texts"),
    ],
)
def test_the_row_of_an_object_that_is_none(model: Any, value: Any, message: str) -> None:
    wrong: list[Any] = list(WORDS)
    wrong[3] = value
    with pytest.raises(InputError, match=message):
        model.fit(wrong, SHARE)


@pytest.mark.parametrize("model", [small(k.Spectrum(2)), GPRegressor(k.Spectrum(2), max_iterations=0)])
def test_objects_that_do_not_differ_are_mentioned(model: Any) -> None:
    for same in ([""] * 60, ["abc"] * 60, list("abcd") * 15):  # letters have no words of two
        with pytest.warns(UserWarning, match=r"X: no two of the 60 objects differ for Spectrum\(k=2"):
            model.fit(same, SHARE)
    model.fit(["abc"] * 59 + ["abd"], SHARE)


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (GPRegressor(), r"kernel=kernels\.Spectrum\(3\)"),
        (GPClassifier(), r"kernel=kernels\.Spectrum\(3\)"),
        (GPDRFRegressor(), r"kernel=kernels\.Spectrum\(3\)"),
        (GPDRFRegressor(view_kernels={"text": k.Spectrum(2)}), r"kernel=kernels\.Spectrum\(3\)"),
        (DRFRegressor(), r"take GPDRFRegressor or GPDRFClassifier with kernel=kernels\.Spectrum\(3\)"),
        (DKLRegressor(), "take GPDRFRegressor"),
        (DFGPRegressor(), r"give X=\[texts\] and view_kernels=\[kernels\.Spectrum\(3\)\]"),
    ],
)
def test_texts_without_a_kernel(model: Any, remedy: str) -> None:
    for texts in (WORDS, np.array(WORDS), pd.Series(WORDS)):
        with pytest.raises(InputError, match=f"X is a list of texts, which need a kernel over objects: {remedy}"):
            model.fit(texts, SHARE > 0.2)


def test_a_kernel_of_texts_and_numbers_at_once() -> None:
    message = r"mixes Spectrum, which acts on objects, with RBF, which acts on numbers: .*view_kernels=\{'text': Spec"
    for model in (GPRegressor(k.Spectrum(2) + k.RBF()), small(k.Spectrum(2) * (1.0 + k.RBF()))):
        with pytest.raises(InputError, match=f"kernel {message}"):
            model.fit(WORDS, SHARE)
    with pytest.raises(InputError, match=f"view_kernels {message}"):
        small(view_kernels={"text": k.Spectrum(2) + k.RBF()}).fit(pd.DataFrame({"text": WORDS}), SHARE)
    GPRegressor(2.0 * k.Spectrum(2) + 1.0, max_iterations=0).fit(WORDS, SHARE)  # numbers go with either


@pytest.mark.parametrize("bounds", [[0.2], [0.15, 0.3]])
def test_exact_classes_of_words_are_those_of_their_rows(bounds: list[float]) -> None:
    """A kernel over objects gives what its matrix gives on row numbers."""
    kernel, labels = k.Spectrum(2, variance=2.0, lengthscale=0.8), np.digitize(SHARE, bounds)
    words = GPClassifier(kernel, max_iterations=0).fit(WORDS, labels)
    matrix = kernel(WORDS).detach().numpy() / 2
    rows = GPClassifier(k.Precomputed(matrix, variance=2.0), max_iterations=0).fit(np.arange(60.0)[:, None], labels)
    np.testing.assert_allclose(words.predict_proba(WORDS[:9]), rows.predict_proba(np.arange(9.0)[:, None]), rtol=1e-6)
    assert words.score(WORDS, labels) > 0.8
