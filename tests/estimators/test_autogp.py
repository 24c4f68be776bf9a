"""The estimators of AutoGP: scikit-learn's checks, known truths for many likelihoods, options and their errors."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from stratagp import kernels as k
from stratagp import likelihoods as lik
from stratagp import positive
from stratagp.errors import InputError
from stratagp.estimators import AutoGPClassifier, AutoGPRegressor
from stratagp.likelihoods.named import NUMBERS
from stratagp.posteriors import DiagonalGaussian, MixturePosterior
from stratagp.priors import Normal
from tests.training_length import make_steps

STEPS = 12


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Toys need no thousand steps."""
    make_steps(monkeypatch, STEPS)


def regressor(**options):
    return AutoGPRegressor(**{"n_inducing": 15, "max_epochs": 5, "rate": 0.05, "random_state": 0, **options})


def classifier(**options):
    return AutoGPClassifier(**{"n_inducing": 15, "max_epochs": 5, "rate": 0.05, "random_state": 0, **options})


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [AutoGPRegressor(n_inducing=6, max_epochs=5, rate=0.05), AutoGPClassifier(n_inducing=6, max_epochs=5, rate=0.05)]
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, size=(200, 1)), axis=0)
F = np.sin(X[:, 0])
NEW = np.linspace(0.2, 5.8, 40)[:, None]
TRUTH = np.sin(NEW[:, 0])


def hurdle(law, new, rng):
    """Counts of which a fifth is zero, the others drawn from a law without its zeros; and their expectation."""
    some = law.ppf(law.pmf(0) + (1 - law.pmf(0)) * rng.uniform(size=200))
    return some * (rng.uniform(size=200) < 0.8), 0.8 * new.mean() / (1 - new.pmf(0))


def draws(name):
    """Observations of the likelihood with that name around sin x, and their expectation at ``NEW``."""
    rng = np.random.default_rng(1)
    rate, new = np.exp(1 + F), np.exp(1 + TRUTH)
    return {
        "gaussian": lambda: (F + 0.1 * rng.normal(size=200), TRUTH),
        "student-t": lambda: (F + 0.1 * rng.standard_t(3, size=200), TRUTH),
        "laplace": lambda: (F + rng.laplace(scale=0.1, size=200), TRUTH),
        "heteroscedastic": lambda: (F + 0.1 * np.exp(0.3 * X[:, 0] - 1) * rng.normal(size=200), TRUTH),
        "gprn": lambda: (np.outer(F, [1.0, -2.0]) + 0.1 * rng.normal(size=(200, 2)), np.outer(TRUTH, [1.0, -2.0])),
        "poisson": lambda: (rng.poisson(rate), new),
        "negative-binomial": lambda: (rng.poisson(rate * rng.gamma(5, 0.2, size=200)), new),
        "zero-inflated-poisson": lambda: (rng.poisson(rate) * (rng.uniform(size=200) < 0.8), 0.8 * new),
        "zero-inflated-negative-binomial": lambda: (
            rng.poisson(rate * rng.gamma(5, 0.2, size=200)) * (rng.uniform(size=200) < 0.8),
            0.8 * new,
        ),
        "hurdle-poisson": lambda: hurdle(stats.poisson(rate), stats.poisson(new), rng),
        "hurdle-negative-binomial": lambda: hurdle(
            stats.nbinom(5, 5 / (5 + rate)), stats.nbinom(5, 5 / (5 + new)), rng
        ),
        "gamma": lambda: (rate * rng.gamma(5, 0.2, size=200), new),
        "exponential": lambda: (rate * rng.exponential(size=200), new),
        "beta": lambda: (rng.beta(10 / (1 + np.exp(-F)), 10 / (1 + np.exp(F))), 1 / (1 + np.exp(-TRUTH))),
        "weibull": lambda: (rate * rng.weibull(3, size=200), new * 0.893),
        "log-normal": lambda: (rate * np.exp(0.2 * rng.normal(size=200)), new * np.exp(0.02)),
    }[name]()


def test_every_name_has_a_toy():
    for name in NUMBERS:
        assert len(draws(name)[0]) == 200


@pytest.mark.parametrize("name", NUMBERS)
def test_every_likelihood_finds_the_expectation(name):
    y, truth = draws(name)
    gp = regressor(likelihood=name, max_epochs=25).fit(X, y)
    mean, deviation = gp.predict(NEW, return_std=True)
    assert mean.shape == deviation.shape == truth.shape
    assert (deviation > 0).all()
    # an exponential has a relative noise of 1, others of a third or less: 200 rows tell the mean to a tenth or so
    off = np.sqrt(np.mean((mean - truth) ** 2)) / truth.std()
    assert off < {"exponential": 0.5, "negative-binomial": 0.35, "hurdle-negative-binomial": 0.35}.get(name, 0.25)
    low, middle, high = np.moveaxis(gp.predict_quantiles(NEW, [0.05, 0.5, 0.95]), 1, 0)
    assert (low <= middle).all()
    assert (middle <= high).all()
    assert (low < high).all()
    assert np.isfinite(gp.log_density(X, y)).all()
    assert gp.sample_y(NEW, 2).shape == (*truth.shape, 2)


def test_a_gaussian_likelihood_is_near_the_truth_and_calibrated():
    y, _ = draws("gaussian")
    gp = regressor(max_epochs=200, rate=0.1).fit(X, y)
    mean, deviation = gp.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, TRUTH, atol=0.08)
    np.testing.assert_allclose(deviation, 0.1, rtol=0.25)
    low, high = gp.predict_interval(X, 0.9)
    np.testing.assert_allclose(low, gp.predict(X) - 1.6449 * gp.predict(X, return_std=True)[1], rtol=0, atol=1e-4)
    assert np.mean((low < y) & (y < high)) == pytest.approx(0.9, abs=0.06)
    by_hand = stats.norm.logpdf(y, *gp.predict(X, return_std=True))
    np.testing.assert_allclose(gp.log_density(X, y), by_hand, rtol=0, atol=2e-3)
    bound = gp.log_marginal_likelihood()
    assert bound < by_hand.sum()  # below the evidence, which is below what is told with the targets at hand
    assert bound == pytest.approx(by_hand.sum(), abs=40)


def test_poisson_quantiles_are_whole_numbers_and_calibrated():
    rng = np.random.default_rng(2)
    rows = rng.uniform(0, 6, size=(600, 1))
    counts = rng.poisson(np.exp(2 + np.sin(rows[:, 0])))
    gp = regressor(likelihood="poisson", max_epochs=120).fit(rows, counts)
    fresh = rng.poisson(np.exp(2 + np.sin(NEW[:, 0])), size=(500, 40))
    levels = [0.1, 0.5, 0.9]
    found = gp.predict_quantiles(NEW, levels)
    np.testing.assert_array_equal(found, np.round(found))
    for level, column in zip(levels, found.T, strict=True):
        assert np.mean(fresh < column) < level + 0.04
        assert np.mean(fresh <= column) > level - 0.04
    mean, deviation = gp.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, np.exp(2 + np.sin(NEW[:, 0])), rtol=0.15)
    np.testing.assert_allclose(deviation**2, mean, rtol=0.2)  # and a little more, for what is not known of the rate
    density = gp.log_density(NEW, fresh[0])
    np.testing.assert_allclose(density, stats.poisson.logpmf(fresh[0], mean), atol=0.3)


def test_draws_have_the_moments_of_the_prediction():
    y, _ = draws("gaussian")
    gp = regressor(max_epochs=50).fit(X, 5 + 3 * y)
    drawn = gp.sample_y(NEW[::8], 300, random_state=1)
    mean, deviation = gp.predict(NEW[::8], return_std=True)
    np.testing.assert_allclose(drawn.mean(1), mean, rtol=0, atol=4.5 * deviation.max() / 300**0.5)
    np.testing.assert_allclose(drawn.std(1), deviation, rtol=0.15)
    again, other = (gp.sample_y(NEW, 2, random_state=seed) for seed in (1, 2))
    np.testing.assert_array_equal(again, gp.sample_y(NEW, 2, random_state=1))
    assert np.abs(again - other).min() > 0


def test_events_that_were_not_observed():
    rng = np.random.default_rng(3)
    times = np.exp(1 + F) * rng.weibull(3, size=200)
    limit = np.full(200, 3.0)
    observed = times <= limit
    table = np.column_stack([np.minimum(times, limit), observed])
    assert 0.3 < observed.mean() < 0.9
    gp = regressor(likelihood="weibull", max_epochs=80, rate=0.1).fit(X, table)
    expected = np.exp(1 + TRUTH) * 0.893
    assert gp.predict(NEW).shape == (40,)
    censored = regressor(likelihood="weibull", max_epochs=80, rate=0.1).fit(X, table[:, 0])  # as if all had happened
    known = np.abs(gp.predict(NEW) - expected).mean()
    assert known < 0.6 * np.abs(censored.predict(NEW) - expected).mean()
    assert np.isfinite(gp.log_density(X, table)).all()


def test_sampled_likelihoods_start_where_their_own_do():
    counts = torch.from_numpy(draws("poisson")[0]).double()[:, None]
    start = lik.Sampled(lik.Poisson(), 5).start(counts)
    assert start == pytest.approx(np.log(counts.mean().item()), abs=1e-5)
    gp = regressor(likelihood=lik.Sampled(lik.Poisson(), 5), rate=1e-6).fit(X, counts[:, 0].numpy())
    far = gp.predict([[1e6]])
    assert far[0] == pytest.approx(np.exp(start + 0.5), rel=0.01)  # of latent variance 1


def test_heteroscedastic_noise_is_found():
    rng = np.random.default_rng(4)
    rows = rng.uniform(0, 6, size=(600, 1))
    spread = np.where(rows[:, 0] < 3, 0.05, 0.5)
    y = np.sin(rows[:, 0]) + spread * rng.normal(size=600)
    gp = regressor(likelihood="heteroscedastic", max_epochs=100).fit(rows, y)
    _, deviation = gp.predict(NEW, return_std=True)
    assert deviation[NEW[:, 0] > 3.5].min() > 2.5 * deviation[NEW[:, 0] < 2.5].max()
    assert deviation[NEW[:, 0] > 3.5].mean() == pytest.approx(0.5, rel=0.25)


@pytest.mark.parametrize("shared", [False, True])
def test_several_targets_in_their_own_units(shared):
    y = np.column_stack([F, 100 * np.cos(X[:, 0]) + 1000]) + np.random.default_rng(5).normal(size=(200, 2)) * [0.1, 1]
    gp = regressor(shared=shared, max_epochs=200, rate=0.1).fit(X, y)
    truth = np.column_stack([TRUTH, 100 * np.cos(NEW[:, 0]) + 1000])
    mean, deviation = gp.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean[:, 0], truth[:, 0], atol=0.15)
    np.testing.assert_allclose(mean[:, 1], truth[:, 1], atol=6)
    assert deviation[:, 0].mean() == pytest.approx(0.1, rel=0.3)
    assert (gp.kernel_.functions is None) == shared
    assert gp.predict_quantiles(NEW, [0.1, 0.9]).shape == (40, 2, 2)
    assert gp.sample_y(NEW, 3).shape == (40, 2, 3)
    assert gp.log_density(X, y).shape == (200,)
    assert gp.score(X, y) > 0.95


def test_the_units_of_the_targets_do_not_matter():
    y, _ = draws("gaussian")
    one, other = regressor().fit(X, y), regressor().fit(X, 1e4 * y - 3e4)
    np.testing.assert_allclose(other.predict(NEW), 1e4 * one.predict(NEW) - 3e4, rtol=0, atol=30)
    shift = other.log_density(X, 1e4 * y - 3e4) + np.log(1e4)
    np.testing.assert_allclose(shift, one.log_density(X, y), rtol=0, atol=0.02)
    gap = other.log_marginal_likelihood() + 200 * np.log(1e4) - one.log_marginal_likelihood()
    assert abs(gap) < 0.5


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_the_units_of_the_inputs_do_not_matter(unit):
    y, _ = draws("gaussian")
    one, other = regressor().fit(X, y), regressor().fit(unit * X, y)
    np.testing.assert_allclose(other.predict(unit * NEW), one.predict(NEW), rtol=0, atol=0.02)
    assert other.log_marginal_likelihood() == pytest.approx(one.log_marginal_likelihood(), abs=1.0)


def test_columns_that_single_precision_rounds_are_told_of():
    y, _ = draws("gaussian")
    far = X + 1e8
    with pytest.warns(UserWarning, match=r"single precision rounds 'x0'.*standardise='both'"):
        regressor().fit(far, y)
    scaled = regressor(standardise="both")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled.fit(far, y)
    assert scaled.score(far, y) > 0.9


@pytest.mark.parametrize(
    ("objective", "loo_parameters"), [("elbo", "all"), ("loo", "all"), ("loo", "hyper"), ("ppgpr", "all")]
)
def test_objectives_and_their_phases(objective, loo_parameters):
    y, truth = draws("gaussian")
    gp = regressor(
        objective=objective, loo_parameters=loo_parameters, max_epochs=60, batch_size=100, rate=0.04, phase_epochs=20
    )
    gp.fit(X, y)
    count = {"elbo": 1, "ppgpr": 1, "loo": 2 if loo_parameters == "all" else 3}[objective]
    assert len(gp.histories_) == count
    assert sum(history.steps for history in gp.histories_) == 2 * 60
    mean, deviation = gp.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, truth, atol=0.25)
    assert 0.09 < deviation.mean() < 0.3


@pytest.mark.parametrize(("n_samples", "taken"), [("auto", 10), (7, 7)])
def test_leave_one_out_by_samples(n_samples, taken):
    y, truth = draws("gaussian")
    gp = regressor(objective="loo", loo_parameters="all", n_samples=n_samples, max_epochs=60)
    gp.fit(X, y)
    assert gp.model_.likelihood.n_samples == taken
    assert gp.model_.likelihood.what == "reciprocal"  # the bound keeps its closed form, and natural gradients
    np.testing.assert_allclose(gp.predict(NEW), truth, atol=0.25)


@pytest.mark.parametrize(
    ("likelihood", "estimate", "what"),
    [("softmax", "sampled", "both"), ("softmax", "closed", "bound"), ("robust-max", "sampled", None)],
)
def test_what_leave_one_out_of_classes_samples(likelihood, estimate, what):
    gp = classifier(likelihood=likelihood, objective="loo", loo_estimate=estimate, max_epochs=4).fit(BLOBS, NAMES)
    sampler = gp.model_.likelihood
    assert (sampler.what if isinstance(sampler, lik.Sampled) else None) == what


def test_the_ways_of_the_paper():
    y, truth = draws("gaussian")
    ways = {"n_samples": 100, "gradients": "score", "optimiser": "rmsprop", "rate": 0.01}
    scored = regressor(**ways, max_epochs=300, batch_size=200).fit(X, y)
    assert scored.model_.likelihood.gradients == "score"
    np.testing.assert_allclose(scored.predict(NEW), truth, atol=0.25)
    mixed = regressor(n_components=2, entropy="jensen", max_epochs=5).fit(X, y)
    assert mixed.model_.layer.posterior.entropy == "jensen"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"entropy": "jensen"}, "n_components"),
        ({"gradients": "score"}, "n_samples"),
        ({"gradients": "score", "n_samples": 1}, "n_samples"),
        ({"gradients": "score", "n_samples": 10, "objective": "loo"}, "objective='elbo'"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        regressor(**options).fit(X, draws("gaussian")[0])


def test_posteriors_precision_and_kernels():
    y, truth = draws("gaussian")
    options = {"n_components": 2, "covariance": "diagonal", "n_samples": 10, "precision": "float64"}
    mixed = regressor(**options, max_epochs=60, rate=0.1)
    mixed.fit(X, y)
    assert isinstance(mixed.model_.layer.posterior, MixturePosterior)
    assert isinstance(mixed.model_.layer.posterior.components, DiagonalGaussian)
    assert isinstance(mixed.model_.likelihood, lik.Sampled)
    assert mixed.model_.predict(torch.from_numpy(NEW)).mean.dtype == torch.float64
    np.testing.assert_allclose(mixed.predict(NEW), truth, atol=0.25)
    deep = regressor(kernel=k.ArcCosine(degree=1, depth=2), standardise="both", max_epochs=40).fit(X, y)
    assert deep.score(NEW, truth) > 0.5
    given = lik.StudentT(scale=0.2)
    gp = regressor(likelihood=given).fit(X, y)
    assert gp.model_.likelihood is not given  # a copy is trained
    assert given.scale.item() == pytest.approx(0.2)


def test_validation_holds_rows_out_and_patience_ends_early():
    y, _ = draws("gaussian")
    gp = regressor(validation=0.25, patience=3, max_epochs=300).fit(X, y)
    (history,) = gp.histories_
    assert len(gp.fitted_.data.y) == 150
    assert history.ending == "no more progress"
    assert len(history.scores) < 300
    assert int(np.argmax(history.scores)) == len(history.scores) - 101  # the best, and 100 steps that were waited for
    held = np.setdiff1d(X[:, 0], gp.fitted_.data.x[:, 0].numpy())
    rows = np.isin(X[:, 0], held)
    kept = gp.log_density(X[rows], y[rows]).mean() + np.log(gp.scale_.scale[0])
    assert kept == pytest.approx(max(history.scores), abs=1e-4)


def test_seeds_reproduce():
    y, _ = draws("gaussian")
    options = {"batch_size": 40, "n_samples": 3, "n_components": 2}
    one, two, other = (regressor(**options, random_state=seed).fit(X, y).predict(NEW) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 1e-6
    state = torch.random.get_rng_state()
    regressor(**options).fit(X, y)
    assert torch.equal(torch.random.get_rng_state(), state)  # torch's own stream is left alone


def test_frames_with_categories():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"where": rng.choice(["north", "south"], 200), "when": X[:, 0]})
    y = np.where(frame["where"] == "north", F, -F) + 0.1 * rng.normal(size=200)
    gp = regressor(max_epochs=80, rate=0.1).fit(frame, y)
    new = pd.DataFrame({"where": ["north", "south"] * 20, "when": NEW[:, 0]})
    truth = np.where(new["where"] == "north", TRUTH, -TRUTH)
    np.testing.assert_allclose(gp.predict(new), truth, atol=0.3)
    assert list(gp.feature_names_in_) == ["where", "when"]
    assert (gp.relevance_ > 0.1).all()
    labels = np.where(y > 0, "up", "down")
    found = classifier(max_epochs=60, rate=0.1).fit(frame, labels)
    assert np.mean(found.predict(new) == np.where(truth > 0, "up", "down")) > 0.85


def test_life_after_fitting():
    y, _ = draws("gaussian")
    gp = regressor().fit(X, y)
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict(NEW), gp.predict(NEW))
    fresh = clone(gp)
    with pytest.raises(NotFittedError):
        fresh.predict(NEW)
    assert "lengthscale" in str(gp.hyperparameters_)
    assert gp.relevance_.sum() == pytest.approx(1)


BLOBS, COLOURS = make_blobs(300, centers=[[0, 0], [3, 0], [0, 3]], cluster_std=0.7, random_state=0)
NAMES = np.array(["red", "green", "blue"])[COLOURS]


@pytest.mark.parametrize("likelihood", ["auto", "softmax", "robust-max"])
def test_three_classes(likelihood):
    gp = classifier(likelihood=likelihood, max_epochs=60, rate=0.1).fit(BLOBS[:200], NAMES[:200])
    probabilities = gp.predict_proba(BLOBS[200:])
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
    assert list(gp.classes_) == ["blue", "green", "red"]
    assert gp.score(BLOBS[200:], NAMES[200:]) > 0.9
    chosen = probabilities[np.arange(100), np.searchsorted(gp.classes_, NAMES[200:])]
    assert -np.log(chosen).mean() < (0.5 if likelihood == "robust-max" else 0.3)  # it is sure, or at a loss
    assert gp.kernel_.functions == 3


@pytest.mark.parametrize("likelihood", ["auto", "bernoulli", "softmax", "robust-max", lik.Bernoulli("probit")])
def test_two_classes(likelihood):
    inside = np.hypot(*(BLOBS - 1).T) < 1.6
    gp = classifier(likelihood=likelihood, max_epochs=60, rate=0.1).fit(BLOBS[:200], inside[:200])
    assert gp.predict_proba(BLOBS).shape == (300, 2)
    assert gp.score(BLOBS[200:], inside[200:]) > 0.88
    one = isinstance(likelihood, lik.Bernoulli) or likelihood in ("auto", "bernoulli")
    assert gp.model_.layer.posterior.shape[0] == (1 if one else 2)


def test_probabilities_are_calibrated():
    rng = np.random.default_rng(7)
    rows = rng.uniform(0, 6, size=(1500, 1))
    labels = rng.uniform(size=1500) < 1 / (1 + np.exp(-2 * np.sin(rows[:, 0])))
    gp = classifier(max_epochs=40, batch_size=500).fit(rows, labels)
    np.testing.assert_allclose(gp.predict_proba(NEW)[:, 1], 1 / (1 + np.exp(-2 * TRUTH)), atol=0.12)


BAD = {
    "objective": "map",
    "loo_parameters": "some",
    "loo_estimate": "some",
    "gradients": "some",
    "entropy": "some",
    "optimiser": "sgd",
    "covariance": "banded",
    "precision": "float16",
    "standardise": "all",
    "encoding": "hash",
    "n_components": 0,
    "n_inducing": 2.5,
    "batch_size": True,
    "max_epochs": 0,
    "phase_epochs": "many",
    "n_samples": -1,
    "patience": 0,
    "rate": -0.1,
    "validation": 1.0,
    "categorical": "x0",
    "likelihood": "cauchy",
    "kernel": "rbf",
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("make", [regressor, classifier])
def test_bad_options_are_named(make, name):
    with pytest.raises(InputError, match=f"^{name} must be"):
        make(**{name: BAD[name]}).fit(X, COLOURS[:200])


@pytest.mark.parametrize(
    ("gp", "y", "message"),
    [
        (regressor(patience=3), F, "give validation"),
        (regressor(likelihood="poisson"), F, "y must"),
        (regressor(likelihood="poisson"), np.ones((200, 3)), "columns"),
        (regressor(likelihood="beta"), F, "y must"),
        (regressor(likelihood="gamma"), F, "y must"),
        (regressor(), np.full(200, np.nan), "y contains NaN"),
        (classifier(likelihood="bernoulli"), COLOURS[:200], "take 'softmax'"),
    ],
)
def test_bad_targets_are_refused(gp, y, message):
    with pytest.raises(InputError, match=message):
        gp.fit(X, y)


def test_bad_questions_are_refused():
    gp = regressor().fit(X, F)
    for ask, name in (
        (lambda: gp.predict_quantiles(NEW, [0.0, 0.5]), "quantiles"),
        (lambda: gp.predict_interval(NEW, 95), "level"),
        (lambda: gp.sample_y(NEW, 0), "n_samples"),
        (lambda: gp.log_marginal_likelihood(gp.theta_), "theta"),
    ):
        with pytest.raises(InputError, match=name):
            ask()


def test_a_failed_fit_leaves_the_estimator_as_it_was():
    counts, _ = draws("poisson")
    gp = regressor(likelihood="poisson", standardise="both").fit(X, counts)
    before = gp.predict(NEW)
    with pytest.raises(InputError, match="y must"):
        gp.fit(100 * np.column_stack([X, X]), counts - 50)
    np.testing.assert_array_equal(gp.predict(NEW), before)
    new = regressor(likelihood="poisson")
    with pytest.raises(InputError):
        new.fit(X, counts - 50)
    assert not hasattr(new, "inputs_")
    with pytest.raises(NotFittedError):
        new.predict(NEW)


def test_priors_of_the_kernel_hold():
    y, _ = draws("gaussian")
    kernel = k.RBF(lengthscale=positive(7.0, prior=Normal(7.0, 1e-3)))
    assert regressor(kernel=kernel, max_epochs=100).fit(X, y).kernel_.lengthscale.item() == pytest.approx(7.0, abs=0.01)


@pytest.mark.parametrize(("n_samples", "noise"), [(None, "likelihood.noise"), (20, "likelihood.given.noise")])
def test_variances_are_in_the_units_of_their_own_target(n_samples, noise):
    y, _ = draws("gaussian")
    table = regressor(max_epochs=40, n_samples=n_samples).fit(X, np.column_stack([1000 * y, y])).hyperparameters_
    rows = {row.name: row.value for row in table.rows}
    for name in ("layer.kernel.variance", noise):
        assert rows[f"{name}[0]"] / rows[f"{name}[1]"] == pytest.approx(1e6, rel=0.3)


def test_asking_for_the_evidence_changes_nothing():
    labels = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))
    gp = classifier().fit(X, labels)
    before = gp.predict_proba(NEW)
    assert np.isfinite(gp.log_marginal_likelihood())
    assert isinstance(gp.model_.likelihood, lik.Sampled)
    np.testing.assert_array_equal(before, gp.predict_proba(NEW))


def test_ordered_classes():
    labels = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))
    gp = classifier(likelihood=lik.Ordinal(3), max_epochs=100).fit(X, labels)
    assert gp.score(X, labels) > 0.9
    np.testing.assert_allclose(gp.predict_proba(NEW).sum(1), 1.0, atol=1e-9)
    with pytest.raises(InputError, match="likelihood must be one of classes"):
        classifier(likelihood=lik.Poisson()).fit(X, labels)


def test_scores_of_censored_times_are_densities():
    times = np.random.default_rng(0).weibull(2.0, len(X))
    y = np.column_stack([np.minimum(times, 1.0), times < 1])
    gp = regressor(likelihood="weibull").fit(X, y)
    assert gp.score(X, y) == pytest.approx(gp.log_density(X, y).mean())
    with pytest.raises(InputError, match=r"y must have the 2 columns.*got 1"):
        gp.score(X, y[:, 0])


@pytest.mark.parametrize("likelihood", ["weibull", "log-normal"])
def test_survival_curves(likelihood):
    """The share of draws that live longer, half at the median, and log S(t) is the score of a censored row."""
    times = np.exp(F) * np.random.default_rng(0).weibull(2.0, len(X))
    gp = regressor(likelihood=likelihood).fit(X, np.column_stack([times, np.ones(len(X))]))
    new = NEW[::5]
    curves = gp.predict_survival(new, [0.5, 1.0, 2.0])
    assert curves.shape == (len(new), 3)
    draws = gp.sample_y(new, 300, random_state=0)
    for j, time in enumerate((0.5, 1.0, 2.0)):
        np.testing.assert_allclose(curves[:, j], (draws > time).mean(1), atol=0.1)  # 300 draws: 0.03 each
        censored = np.tile([time, 0.0], (len(new), 1))
        np.testing.assert_allclose(np.log(curves[:, j]), gp.log_density(new, censored), atol=1e-4)
    median = gp.predict_quantiles(new, [0.5])[:, 0]
    np.testing.assert_allclose(np.diag(gp.predict_survival(new, median)), 0.5, atol=1e-3)


def test_survival_of_what_is_no_time():
    gp = regressor().fit(X, F)
    with pytest.raises(InputError, match="predict_survival is for times of events"):
        gp.predict_survival(NEW, [1.0])
    gp = regressor(likelihood="weibull").fit(X, np.exp(F))
    with pytest.raises(InputError, match="times must be positive"):
        gp.predict_survival(NEW, [0.0, 1.0])


def test_leave_one_out_of_few_rows_stays_honest():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-2, 2, size=(400, 2))
    labels = rng.random(400) < 1 / (1 + np.exp(-2 * rows[:, 0]))
    options = {"n_inducing": 60, "max_epochs": 150, "random_state": 0}
    scores = [
        log_loss(
            labels[200:],
            AutoGPClassifier(objective=o, **options).fit(rows[:200], labels[:200]).predict_proba(rows[200:]),
        )
        for o in ("elbo", "loo")
    ]
    assert scores[1] < scores[0] + 0.05
