"""Deep random features, alone and on processes over columns and objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn.utils.estimator_checks import parametrize_with_checks

from stratagp import kernels as k
from stratagp import likelihoods as lik
from stratagp.errors import ConvergenceWarning, InputError
from stratagp.estimators import (
    AutoGPClassifier,
    DRFClassifier,
    DRFRegressor,
    GPDRFClassifier,
    GPDRFRegressor,
)
from stratagp.metrics import bhattacharyya_margin
from tests.training_length import make_steps

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(300, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.05 * RNG.normal(size=300)
WORDS = ["".join(RNG.choice(list("abcd"), size=RNG.integers(6, 14))) for _ in range(200)]
PAIRS = np.array([word.count("a") / len(word) for word in WORDS])
LABELS = np.where(np.median(PAIRS) < PAIRS, "many", "few")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toys need no thousands of steps."""
    make_steps(monkeypatch, 80)


def small(**given: Any) -> dict[str, Any]:
    return {"width": 3, "n_features": 30, "n_samples": 2, "max_epochs": 2, "random_state": 0, **given}


def small_gp(**given: Any) -> dict[str, Any]:
    return small(n_processes=3, n_inducing=30, **given)


CHECKED = {"width": 2, "n_features": 8, "n_samples": 1, "max_epochs": 1, "rate": 0.03, "random_state": 0}


@parametrize_with_checks(
    [
        DRFRegressor(**CHECKED),
        DRFClassifier(**CHECKED),
        GPDRFRegressor(n_processes=2, n_inducing=6, n_layers=1, **CHECKED),
        GPDRFClassifier(n_processes=2, n_inducing=6, n_layers=1, **CHECKED),
    ]
)
def test_scikit_learn_accepts_them(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_steps(monkeypatch, 10)
    check(estimator)


@pytest.mark.parametrize("frequencies", ["prior-fixed", "var-fixed", "var-resampled"])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_regression_of_columns(frequencies: str, n_layers: int) -> None:
    model = DRFRegressor(frequencies=frequencies, n_layers=n_layers, **small(max_epochs=40)).fit(X, Y)
    assert model.score(X, Y) > 0.9
    low, high = model.predict_interval(X, level=0.9)
    assert 0.8 < np.mean((low < Y) & (high > Y)) <= 1.0
    np.testing.assert_allclose(model.predict(X[:7]), model.predict(X)[:7], rtol=1e-9)


@pytest.mark.parametrize("process", [False, True])
def test_few_rows_are_trained_until_little_is_gained(process: bool) -> None:
    """Targets are normal noise: intervals hold 95 % of it once training is over, 72 to 86 % before."""
    noise = np.random.default_rng(1).normal(size=150)
    own = {"n_layers": 0, "n_inducing": 15} if process else {"n_layers": 1}
    make: Any = GPDRFRegressor if process else DRFRegressor
    model = make(**small(max_epochs=None, rate=0.03, **own)).fit(X[:150], noise)
    assert 2 <= len(model.histories_) < 8
    low, high = model.predict_interval(X[150:])
    assert 0.91 < np.mean(norm.cdf(high) - norm.cdf(low)) < 0.99


def test_a_search_that_is_cut_short_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratagp.recipes.drf._ROUNDS", 2)
    with pytest.warns(ConvergenceWarning, match=r"steps gained .* nats a row: raise min_steps \(now 500\) or rate"):
        model = DRFRegressor(**small(max_epochs=None, n_layers=1, rate=0.003)).fit(X, Y)
    assert len(model.histories_) == 2


def test_a_penalty_on_parameters_is_a_ridge() -> None:
    """For one layer with fixed frequencies and noise, weights solve ((1 + n l2) I + φᵀφ/σ²) m = φᵀy/σ²."""
    noise, l2 = 0.1, 0.05
    fixed = {"frequencies": "prior-fixed", "hyperparameters_after": 1.0, "likelihood": lik.GaussianNoise(noise)}
    options = {**small(n_layers=1, max_epochs=300, batch_size=300, rate=0.05), **fixed}
    model = DRFRegressor(l2=l2, **options).fit(X, Y)
    (layer,), data = model.model_.layer.sequence, model.fitted_.data
    with torch.no_grad():
        phi, y = layer.features(data.x), data.y.double()
        precision = (1 + len(X) * l2) * torch.eye(phi.shape[1]).double() + phi.mT @ phi / noise
        wanted = torch.linalg.solve(precision, phi.mT @ y / noise)
        torch.testing.assert_close(layer.posterior.mean.double().mT, wanted, rtol=0, atol=0.02)


def test_functions_may_have_priors_of_their_own() -> None:
    """The first hidden function sees one column, the second the other: their lengthscales part."""
    model = DRFRegressor(own_priors=True, **small(width=2, max_epochs=150)).fit(X, Y)
    assert model.score(X, Y) > 0.9
    scales = [kernel.lengthscale.detach() for kernel in model.kernel_]
    assert len(scales) == 2
    assert (scales[0] / scales[1]).log().abs().max() > 0.01
    names = [row.name for row in model.hyperparameters_.rows]
    assert sum("lengthscale" in name for name in names) == 2 * 2 + 4
    with pytest.raises(InputError, match="own_priors is for layers of random features"):
        GPDRFRegressor(own_priors=True, n_layers=0).fit(X, Y)


def test_the_seed_decides() -> None:
    models = [GPDRFRegressor(n_layers=1, **{**small_gp(), "random_state": seed}).fit(X, Y) for seed in (0, 0, 1)]
    first, again, other = (model.predict(X) for model in models)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-6


def test_processes_of_columns_below_random_features() -> None:
    model = GPDRFRegressor(n_layers=2, feed_forward=True, **small_gp(max_epochs=40)).fit(X, Y)
    assert model.score(X, Y) > 0.95
    assert model.log_density(X, Y).mean() > -0.5


def test_no_random_features_are_the_sparse_process() -> None:
    """The chain is an inducing layer under the noise, and its predictions are those of that layer."""
    model = GPDRFRegressor(n_layers=0, **small_gp(max_epochs=40)).fit(X, Y)
    layer, x = model.model_.layer, model.inputs_.points(model, X[:5]).values
    with torch.no_grad():
        expected = layer(x).mean[:, 0].numpy() * model.scale_.scale + model.scale_.mean
    np.testing.assert_allclose(model.predict(X[:5]), expected, rtol=1e-10)
    assert model.score(X, Y) > 0.95


@pytest.mark.parametrize("anchors", ["random", "medoids", "greedy"])
def test_classes_of_words(anchors: str) -> None:
    model = GPDRFClassifier(k.Spectrum(1), n_layers=1, anchors=anchors, **small_gp(max_epochs=20)).fit(WORDS, LABELS)
    assert model.score(WORDS, LABELS) > 0.9
    proba = model.predict_proba(["aabacaad", "zzz", ""])  # also letters that were never seen, and no letters at all
    assert proba[0, list(model.classes_).index("many")] > 0.7
    np.testing.assert_allclose(proba.sum(1), 1.0)


def test_regression_of_words() -> None:
    model = GPDRFRegressor(k.Spectrum(1), n_layers=1, **small_gp(max_epochs=40)).fit(WORDS, PAIRS)
    assert model.score(WORDS, PAIRS) > 0.9


def test_variational_processes_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    make_steps(monkeypatch, 60)
    model = AutoGPClassifier(k.Spectrum(1), n_inducing=40, max_epochs=30, rate=0.05, random_state=0).fit(WORDS, LABELS)
    assert model.score(WORDS, LABELS) > 0.9
    assert model.predict(["aaaaa"]) == ["many"]


def test_a_frame_with_a_column_of_words() -> None:
    """The target needs the words, a number and a category; columns may come in another order."""
    frame = pd.DataFrame({"size": RNG.normal(size=200), "word": WORDS, "town": RNG.choice(["Bonn", "Oslo"], 200)})
    y = 3 * PAIRS + np.sin(frame["size"]) + (frame["town"] == "Oslo")
    model = GPDRFRegressor(view_kernels={"word": k.Spectrum(1)}, n_layers=1, **small_gp(max_epochs=60)).fit(frame, y)
    assert model.score(frame, y) > 0.9
    np.testing.assert_allclose(
        model.predict(frame[["word", "town", "size"]].iloc[:4]), model.predict(frame)[:4], rtol=1e-9
    )
    frame.loc[3, "word"] = None
    with pytest.raises(InputError, match="column 'word' has missing objects, the first in row 3"):
        model.predict(frame)
    with pytest.raises(InputError, match="no column 'text'"):
        GPDRFRegressor(view_kernels={"text": k.Spectrum(1)}).fit(frame, y)


def test_certainty_is_the_distance_of_the_two_most_probable_classes() -> None:
    labels = np.digitize(X[:, 0], [-0.7, 0.7])
    model = DRFClassifier(n_layers=1, **small(max_epochs=40)).fit(X, labels)
    with torch.no_grad():
        belief = model.model_.marginals(model.inputs_.points(model, X[:20]).values)
    mean, var = belief.mean.numpy(), belief.var.numpy()
    first, second = np.argsort(model.predict_proba(X[:20]), axis=1)[:, ::-1][:, :2].T
    rows = np.arange(20)
    v1, v2 = var[rows, first], var[rows, second]
    apart = (mean[rows, first] - mean[rows, second]) ** 2
    expected = 0.25 * np.log(0.25 * (v1 / v2 + v2 / v1 + 2)) + 0.25 * apart / (v1 + v2)
    np.testing.assert_allclose(model.certainty(X[:20]), expected, rtol=1e-8, atol=1e-12)
    middle, border = [[0.0, 0.0]], [[0.7, 0.0]]
    for of in ("scores", "probabilities"):
        assert model.certainty(middle, of) > model.certainty(border, of)


def test_draws_of_functions_of_words_have_the_moments_of_predictions() -> None:
    """600 draws: means within 0.15 deviations, deviations within 15 %."""
    model = GPDRFRegressor(k.Spectrum(1), n_layers=1, **small_gp(max_epochs=10)).fit(WORDS, PAIRS)
    mean, std = model.predict(WORDS[:8], return_std=True)
    drawn = model.sample_y(WORDS[:8], 600, random_state=1)
    np.testing.assert_allclose(drawn.mean(1), mean, atol=0.15 * std.min())
    np.testing.assert_allclose(drawn.std(1), std, rtol=0.15)


def test_certainty_of_probabilities_knows_that_scores_share_hidden_values() -> None:
    """Against the mean and variance of probabilities over 3000 draws of whole functions."""
    labels = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=300), [-0.7, 0.7])
    model = DRFClassifier(**small(max_epochs=40, prediction_samples=256)).fit(X, labels)
    rows, generator = model.inputs_.points(model, X[:40]).values, torch.Generator().manual_seed(1)
    with torch.no_grad():
        drawn = torch.stack([model.model_.layer.draw(generator)(rows).softmax(-1) for _ in range(3000)])
    mean, var = drawn.mean(0).numpy(), drawn.var(0).numpy()
    np.testing.assert_allclose(model.predict_proba(X[:40]), mean, atol=0.03)
    expected, found = bhattacharyya_margin(mean, mean, var), model.certainty(X[:40], "probabilities")
    clear = expected > 0.5
    assert clear.sum() > 15
    assert abs(np.log(found[clear] / expected[clear])).mean() < 0.1


def test_more_samples_at_prediction_come_closer() -> None:
    """Expected targets by 64 and by 1024 samples, of hidden values and of frequencies, against 8192."""
    model = DRFRegressor(frequencies="var-resampled", prediction_samples=64, **small(max_epochs=10)).fit(X, Y)
    stack, found = model.model_.layer, []
    assert stack.n_nodes == 64
    assert DRFRegressor(frequencies="var-resampled", **small(max_epochs=1)).fit(X, Y).model_.layer.n_nodes == 256
    for count in (8192, 64, 1024):
        stack.n_nodes = count
        found.append(model.predict(X[:20]))
    few, many = (np.abs(each - found[0]).max() for each in found[1:])
    assert many < 0.02 < few


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_layers": 0}, "n_layers must be a whole number of at least 1"),
        ({"layer_kernel": "cubic"}, "layer_kernel must be one of rbf, arc-cosine"),
        ({"frequencies": "fixed"}, "frequencies must be one of"),
        ({"draws": "sobol"}, "draws must be one of"),
        ({"feed_forward": 1}, "feed_forward must be True or False"),
        ({"hyperparameters_after": 2.0}, "hyperparameters_after must be a share"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DRFRegressor(**options).fit(X, Y)


def test_objects_that_are_none() -> None:
    with pytest.raises(InputError, match=r"got ndarray; objects to learn from are a list: X=\[text"):
        GPDRFClassifier(k.Spectrum(1)).fit("abc", LABELS)
    with pytest.raises(InputError, match="several views need n_layers of at least 1"):
        GPDRFRegressor(n_layers=0, views=[[0], [1]], **small_gp()).fit(X, Y)


@pytest.mark.parametrize("views", [None, [[0], [1]]])
@pytest.mark.parametrize("anchors", ["random", "greedy"])
def test_anchors_are_for_objects(anchors: str, views: Any) -> None:
    with pytest.raises(InputError, match="anchors chooses among objects"):
        GPDRFRegressor(anchors=anchors, views=views, **small_gp()).fit(X, Y)


def test_a_regression_network_leaves_its_saddle() -> None:
    both = np.column_stack([Y, np.cos(2 * X[:, 0])])
    model = DRFRegressor(likelihood="gprn", n_layers=1, **small(max_epochs=60)).fit(X, both)
    assert model.score(X, both) > 0.7


def test_inputs_that_are_no_list_of_objects() -> None:
    frame = pd.DataFrame({"word": WORDS})
    with pytest.raises(InputError, match="give one column of it"):
        GPDRFRegressor(k.Spectrum(1)).fit(frame, PAIRS)
    with pytest.raises(InputError, match="leave out views and view_kernels"):
        GPDRFRegressor(k.Spectrum(1), view_kernels={"word": k.Spectrum(1)}).fit(WORDS, PAIRS)
    with pytest.raises(InputError, match="view_kernels are for views"):
        GPDRFRegressor(view_kernels=[k.RBF(), k.Linear()]).fit(X, Y)
    with pytest.raises(InputError, match="n_processes must be a whole number"):
        GPDRFRegressor(n_processes=0).fit(X, Y)
    with pytest.raises(InputError, match="must not be called 'columns'"):
        GPDRFRegressor(view_kernels={"columns": k.Spectrum(1)}).fit(frame.rename(columns={"word": "columns"}), PAIRS)
