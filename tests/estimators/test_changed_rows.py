"""Rows that come and go, beside a process that is conditioned on what is left with the same values."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch

from stratagp import AutoGPRegressor, ExactGP, GPRegressor, load, means
from stratagp import kernels as k
from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.models import exact, noisy_covariance
from stratagp.models.exact_posterior import ExactPosterior

QUICK = {"n_restarts": 0, "max_iterations": 0, "random_state": 0}
WAYS = {
    "exact": {"inference": "exact"},
    "sparse": {"inference": "sparse", "n_inducing": 25},
    "vecchia": {"inference": "vecchia", "n_neighbours": 80},
}


def rows(n=80, seed=0, targets=1):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, 2)) * [1.0, 100.0] + [0.0, 1e4]
    f = 500 + 30 * np.sin(2 * X[:, 0]) + 0.1 * (X[:, 1] - 1e4)
    y = f[:, None] * np.arange(1, targets + 1) + 3 * random.normal(size=(n, targets))
    return X, y[:, 0] if targets == 1 else y


def answers(gp, X):
    return [*gp.predict(X, return_std=True), gp.predict(X, return_cov=True)[1]]


def conditioned(gp, places, X, y, weights=None, noise=None):
    """The same values and inducing points, conditioned at once on some rows in the scale of the fit."""
    prior, scale = copy.deepcopy(gp.model_), gp.scale_
    posteriors, unit = [], gp.weight_unit_
    for j in range(len(scale.mean)):
        target = (y.reshape(len(y), -1)[:, j] - scale.mean[j]) / scale.scale[j]
        own = prior.noise.detach().expand(len(scale.mean))[j].item()
        level = np.full(len(y), own) if noise is None else noise / scale.scale[j] ** 2
        level = level if weights is None else level * unit / weights
        posteriors.append((prior.condition(X[places], target[places], level[places]), own))
    return posteriors


def check(gp, truth, X, tolerance=1e-8):
    mean, std = (part.reshape(len(X), -1) for part in gp.predict(X, return_std=True))
    for j, (posterior, noise) in enumerate(truth):
        scale, points = gp.scale_, torch.from_numpy(X)
        belief = posterior.marginals(points)
        expected = belief.mean[:, 0].numpy() * scale.scale[j] + scale.mean[j]
        spread = np.sqrt(belief.var[:, 0].numpy() + noise) * scale.scale[j]
        np.testing.assert_allclose(mean[:, j], expected, rtol=0, atol=tolerance * 500)
        np.testing.assert_allclose(std[:, j], spread, rtol=tolerance)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("targets", [1, 2])
def test_rows_that_come_and_go_leave_what_conditioning_at_once_says(way, targets):
    X, y = rows(targets=targets)
    new = rows(15, 1)[0]
    gp = GPRegressor(k.RBF(ard=True), mean=means.Constant(), **WAYS[way], **QUICK).fit(X[:50], y[:50])
    values, scale = gp.theta_, copy.deepcopy(gp.scale_)
    assert gp.update(X[50:70], y[50:70]) is gp
    check(gp.update(X[70:], y[70:]), conditioned(gp, np.arange(80), X, y), new)
    gone = [0, 3, 49, 50, 72]
    check(gp.forget(gone), conditioned(gp, np.delete(np.arange(80), gone), X, y), new)
    np.testing.assert_array_equal(gp.theta_, values)
    np.testing.assert_array_equal(gp.scale_.mean, scale.mean)
    assert len(gp.fitted_.points) == len(gp.fitted_.data) == 75


@pytest.mark.parametrize("way", WAYS)
def test_weights_keep_their_unit(way):
    X, y = rows()
    weights = np.random.default_rng(1).uniform(1, 9, 80)
    weights[[4, 60]] = 0
    gp = GPRegressor(k.RBF(ard=True), **WAYS[way], **QUICK).fit(X[:50], y[:50], sample_weight=weights[:50])
    gp.update(X[50:70], y[50:70], sample_weight=weights[50:70]).update(X[70:], y[70:])
    weights[70:] = 1.0
    kept = np.flatnonzero(weights)
    check(gp, conditioned(gp, kept, X, y, np.where(weights, weights, 1)), rows(15, 1)[0])
    left = np.delete(kept, [0, 52])
    check(gp.forget([0, 52]), conditioned(gp, left, X, y, np.where(weights, weights, 1)), rows(15, 1)[0])


@pytest.mark.parametrize("way", WAYS)
def test_known_noise_is_in_units_of_the_targets(way):
    X, y = rows()
    noise = np.random.default_rng(1).uniform(4, 16, 80)
    gp = GPRegressor(k.RBF(ard=True), noise=noise[:60], **WAYS[way], **QUICK).fit(X[:60], y[:60])
    with pytest.raises(InputError, match="give it for each of the new rows too"):
        gp.update(X[60:], y[60:])
    gp.update(X[60:], y[60:], noise=noise[60:]).forget(slice(10))
    check(gp, conditioned(gp, np.arange(10, 80), X, y, noise=noise), rows(15, 1)[0])
    one = GPRegressor(k.RBF(ard=True), noise=9.0, **WAYS[way], **QUICK).fit(X[:60], y[:60]).update(X[60:], y[60:])
    check(one, conditioned(one, np.arange(80), X, y, noise=np.full(80, 9.0)), rows(15, 1)[0])


def test_frames_with_categories_and_gaps_are_read_as_in_fit():
    X, y = rows(60)
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": random.choice(["red", "blue"], 60)})
    frame.loc[[3, 45], "b"] = np.nan
    gp = GPRegressor(missing="impute", **QUICK).fit(frame[:40], y[:40])
    gp.update(frame[40:], y[40:])
    points, data = gp.inputs_.points(gp, frame).values, gp.fitted_.data
    torch.testing.assert_close(data.x, points)
    assert data.extra[45] > 0
    assert data.extra[44] == 0
    target = (torch.from_numpy(y) - gp.scale_.mean[0]) / gp.scale_.scale[0]
    truth = gp.model_.condition(points, target, (gp.model_.noise + data.extra).detach())
    expected = truth.mean(points).numpy() * gp.scale_.scale[0] + gp.scale_.mean[0]
    whole = frame["b"].notna().to_numpy()
    np.testing.assert_allclose(gp.predict(frame)[whole], expected[whole], rtol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        GPRegressor(**QUICK).fit(frame[["a"]], y).update(frame[["a"]].rename(columns={"a": "z"}), y)


def test_lists_of_objects():
    texts = ["abba", "baba", "abab", "bbbb", "aaaa", "abbb"]
    y = np.array([1.0, 2, 1.5, 4, 0, 3])
    gp = GPRegressor(k.Spectrum(2), **QUICK).fit(texts[:4], y[:4]).update(texts[4:], y[4:]).forget([0])
    target = torch.from_numpy((y - gp.scale_.mean[0]) / gp.scale_.scale[0])
    truth = gp.model_.condition(texts[1:], target[1:])
    np.testing.assert_allclose(gp.fitted_.function(texts)[:, 0], truth.mean(texts).numpy(), atol=1e-10)


def test_draws_of_hyperparameters_see_the_new_rows_each():
    X, y = rows(30)
    gp, other = (GPRegressor(k.RBF([length, 100.0]), **QUICK).fit(X[:20], y[:20]) for length in (1.0, 2.0))
    gp.fitted_.draws += other.fitted_.draws  # as hyperparameters="bayes" has them
    gp.update(X[20:], y[20:])
    target = torch.from_numpy((y - gp.scale_.mean[0]) / gp.scale_.scale[0])
    each = [row[0].process.prior.condition(X, target).mean(torch.from_numpy(X)).numpy() for row in gp.fitted_.draws]
    np.testing.assert_allclose(gp.fitted_.function(torch.from_numpy(X))[:, 0], np.mean(each, 0), atol=1e-9)


def test_a_changed_model_is_saved_and_this_one_may_stay(tmp_path):
    X, y = rows()
    gp = GPRegressor(**QUICK).fit(X[:60], y[:60])
    before, share = answers(gp, X[:5]), gp.relevance_
    later = copy.copy(gp).update(X[60:], y[60:])
    for own, was in zip(answers(gp, X[:5]), before, strict=True):
        np.testing.assert_array_equal(own, was)
    assert (later.relevance_ != share).any()
    later.save(tmp_path / "model")
    again = load(tmp_path / "model").forget([0])
    np.testing.assert_allclose(again.predict(X[:9]), later.forget([0]).predict(X[:9]), rtol=1e-12)


def test_rows_are_conditioned_on_anew_where_rounding_forbids_a_change(monkeypatch):
    X, y = rows()

    def fails(*_):
        raise NotPositiveDefiniteError

    gp = GPRegressor(**QUICK).fit(X[:60], y[:60])
    monkeypatch.setattr(ExactPosterior, "condition", fails)
    monkeypatch.setattr(ExactPosterior, "without", fails)
    gp.update(X[60:], y[60:]).forget(slice(5))
    monkeypatch.undo()
    check(gp, conditioned(gp, np.arange(5, 80), X, y), rows(15, 1)[0])


def test_conditionals_are_found_anew():
    X, y = rows(400)
    gp = GPRegressor(k.RBF(ard=True), inference="vecchia", n_neighbours=20, **QUICK).fit(X[:300], y[:300])
    gp.update(X[300:], y[300:]).forget(slice(50))
    data = gp.fitted_.data
    sets = gp.model_.conditionals(data.x, len(gp.fitted_.sets.rows), gp.fitted_.sets.given.shape[1], late=True)
    expected = gp.model_.log_evidence(data.x, data.y[:, 0], None, sets).item()
    assert gp.fitted_.score().item() == pytest.approx(expected, rel=1e-10)
    assert int(gp.fitted_.sets.rows.max()) < 350


def test_a_factor_in_single_precision_loses_and_gains_rows(monkeypatch):
    monkeypatch.setattr(exact, "LARGE_ROWS", 600)
    X, y = rows(900)
    X, y = torch.from_numpy(X), torch.from_numpy((y - 500) / 20)
    prior = ExactGP(k.RBF([1.0, 100.0], variance=2.0), noise=0.02).requires_grad_(False)
    new, gone = torch.from_numpy(rows(30, 1)[0]), torch.tensor([0, 5, 640, 699, 700])
    left = [i for i in range(900) if i not in gone]
    double = prior.condition(X[:700], y[:700]).condition(X[700:], y[700:]).without(gone)
    anew = prior.condition(X[left], y[left])
    assert double.factor.dtype == torch.float64
    torch.testing.assert_close(double.leave_one_out(), anew.leave_one_out(), rtol=1e-8, atol=1e-9)
    monkeypatch.setattr(noisy_covariance, "DOUBLE_ROWS", 0)
    single = prior.condition(X[:700], y[:700])
    assert single.factor.dtype == torch.float32
    found = single.condition(X[700:], y[700:]).without(gone)
    torch.testing.assert_close(found.mean(new), anew.mean(new), rtol=0, atol=1e-5)
    torch.testing.assert_close(found.variance(new) + 0.02, anew.variance(new) + 0.02, rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    "options", [{"noise": "heteroscedastic"}, {"inference": "stochastic", "max_epochs": 1}, {"outputs": "correlated"}]
)
def test_models_that_must_learn_again_say_so(options):
    X, y = rows(30)
    gp = GPRegressor(**{**QUICK, **options}).fit(X, y)
    with pytest.raises(InputError, match="update needs inference"):
        gp.update(X, y)
    with pytest.raises(InputError, match="forget needs"):
        gp.forget([0])


def test_mistakes_are_named():
    X, y = rows(30)
    gp = GPRegressor(**QUICK).fit(X, y)
    for bad in ([30], [-31], ["a"], [True] * 29, 1.5):
        with pytest.raises(InputError, match="rows must be places from 0 to 29"):
            gp.forget(bad)
    with pytest.raises(InputError, match="all 30 rows"):
        gp.forget(slice(None))
    with pytest.raises(InputError, match="noise is learnt"):
        gp.update(X, y, noise=1.0)
    with pytest.raises(InputError, match="columns that were learnt"):
        gp.update(X, np.stack([y, y], 1))
    with pytest.raises(InputError, match="y has 29"):
        gp.update(X, y[:29])
    still = GPRegressor(noise=0.0, **QUICK).fit(X, y)
    with pytest.raises(InputError, match="rows 0 and 30 of x are equal"):
        still.update(X[:1], y[:1] + 1)
    assert len(still.fitted_.data) == 30
    assert not hasattr(AutoGPRegressor(), "update")
