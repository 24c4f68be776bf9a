"""The estimators of deep feed-forward processes: scikit-learn's checks, known truths, views and errors."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from stratagp import kernels as k
from stratagp import positive
from stratagp.errors import InputError
from stratagp.estimators import DFGPClassifier, DFGPRegressor, WishartProcessRegressor
from stratagp.likelihoods import GaussianNoise
from tests.training_length import make_steps

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 3))
F = np.tanh(4 * X[:, 0]) * X[:, 1]
Y = F + 0.05 * RNG.normal(size=300)
COLOURS = np.where(X[:, 0] * X[:, 1] > 0, "red", np.where(X[:, 2] > 0, "green", "blue"))
SMALL = {"n_inducing": 12, "random_state": 0}
ONCE = {**SMALL, "n_starts": 1}

pytestmark = pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")  # stopped early on purpose


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Toys need no thousand steps."""
    make_steps(monkeypatch, 12)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        DFGPRegressor(n_hidden=2, n_inducing=6, n_starts=1, max_iterations=2, random_state=0),
        DFGPClassifier(n_hidden=2, n_inducing=6, max_epochs=15, rate=0.2, propagate="moments", random_state=0),
        WishartProcessRegressor(dof=2, n_inducing=6, n_starts=1, max_iterations=2, random_state=0),
    ]
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "options",
    [
        {"max_iterations": 60},
        {"hidden": "point", "max_iterations": 60},
        {"output_kernel": "linear", "max_iterations": 60},
        {"output_kernel": k.RBF() + k.Linear(), "max_iterations": 60},
        {"n_layers": 3, "max_iterations": 60},
        {"inference": "batches", "max_epochs": 120, "batch_size": 150},
        {"propagate": "samples", "max_epochs": 120, "batch_size": 150, "rate": 0.03},
    ],
    ids=str,
)
def test_a_function_is_found_with_honest_intervals(options):
    dfgp = DFGPRegressor(**ONCE, **options).fit(X[:200], Y[:200])
    assert np.sqrt(np.mean((dfgp.predict(X[200:]) - F[200:]) ** 2)) < 0.15  # of 0.46
    low, high = dfgp.predict_interval(X[200:])
    assert 0.88 < np.mean((low < Y[200:]) & (Y[200:] < high)) <= 1
    assert dfgp.log_density(X[200:], Y[200:]).mean() > 0.2  # a constant has -0.65


@pytest.mark.parametrize("propagate", ["samples", "moments"])
@pytest.mark.parametrize("classes", [2, 3])
def test_classes(propagate, classes):
    y = COLOURS if classes == 3 else COLOURS == "red"
    dfgp = DFGPClassifier(**SMALL, propagate=propagate, max_epochs=100, batch_size=200, rate=0.1)
    found = dfgp.fit(X[:200], y[:200]).predict_proba(X[200:])
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-9)
    chosen = found[np.arange(100), np.searchsorted(dfgp.classes_, y[200:])]
    assert -np.log(chosen).mean() < 0.6 * np.log(classes)
    assert dfgp.score(X[200:], y[200:]) > 0.8


def test_views_by_columns_names_and_arrays_are_the_same():
    options = {**SMALL, "max_iterations": 20}
    by_slice = DFGPRegressor(views=[slice(0, 2), slice(2, 3)], **options).fit(X, Y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = DFGPRegressor(views={"first": ["a", "b"], "last": "c"}, **options).fit(frame, Y)
    by_array = DFGPRegressor(**options).fit([X[:, :2], X[:, 2:]], Y)
    expected = by_slice.predict(X)
    np.testing.assert_allclose(by_name.predict(frame), expected, atol=1e-8)
    np.testing.assert_allclose(by_array.predict([X[:, :2], X[:, 2:]]), expected, atol=1e-8)
    assert by_slice.transform(X).shape == (300, 2)
    influence = by_name.influence(frame)
    assert influence["first"] > 0.9
    assert abs(sum(influence.values()) - 1) < 1e-9


def test_views_may_differ_in_kernels():
    dfgp = DFGPRegressor(views=[[0, 1], [2]], view_kernels=[k.Matern(ard=True), k.Linear()], max_iterations=30, **SMALL)
    assert dfgp.fit(X, Y).score(X, Y) > 0.5


PAPER = {"hidden": "point", "hidden_points": "fixed", "hidden_start": "targets", "output_kernel": "rbf"}


def test_the_model_of_the_paper_starts_at_the_targets_and_keeps_its_inducing_rows():
    """All hidden processes start at the smooth target, from other rows each; trained, they explain it."""
    smooth = np.sin(2 * X[:, 0]) + X[:, 1]
    start = DFGPRegressor(n_hidden=3, max_iterations=0, **PAPER, **ONCE).fit(X, smooth)
    found = start.transform(X)
    assert (np.abs(np.corrcoef(found.T, smooth)[-1, :3]) > 0.95).all()
    np.testing.assert_allclose(found.std(0), 1, atol=0.1)
    dfgp = DFGPRegressor(n_hidden=3, max_iterations=60, **PAPER, **ONCE).fit(X, Y)
    z, rows = dfgp.model_.layer.layers[0].z.numpy(), dfgp.inputs_.points(dfgp, X).values.numpy()
    nearest = ((z[:, :, None] - rows) ** 2).sum(-1)
    assert nearest.min(2).max() < 1e-20
    assert len({tuple(sorted(each)) for each in nearest.argmin(2).tolist()}) == 3
    assert dfgp.score(X, F) > 0.9


def test_the_precision_of_the_classification_bound():
    """A larger β weighs the variance of the function more, and so leaves less of it; only moments know it."""
    quick = {"propagate": "moments", "max_epochs": 40, "rate": 0.1, **SMALL}
    spreads = []
    for beta in (0.0, 4.0):
        dfgp = DFGPClassifier(n_hidden=2, beta=beta, **quick).fit(X, F > 0)
        spreads.append(dfgp.predictive(X, of="f").var.mean())
    assert spreads[1] < 0.7 * spreads[0]
    with pytest.raises(InputError, match="also give propagate='moments'"):
        DFGPClassifier(beta=0.5).fit(X, F > 0)


def test_several_targets_and_categories():
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "kind": COLOURS})
    dfgp = DFGPRegressor(max_iterations=30, **SMALL).fit(frame, np.stack([Y, -2 * Y], 1))
    mean, std = dfgp.predict(frame[:4], return_std=True)
    assert mean.shape == std.shape == (4, 2)
    assert dfgp.sample_y(frame[:4], 3).shape == (4, 2, 3)


def test_counts():
    counts = RNG.poisson(np.exp(1 + F))
    dfgp = DFGPRegressor(likelihood="poisson", max_epochs=150, batch_size=300, rate=0.05, **SMALL).fit(X, counts)
    rates = dfgp.predict(X)
    assert np.mean(np.abs(rates - np.exp(1 + F))) < 0.6 * np.mean(np.abs(np.exp(1 + F) - counts.mean()))


def test_a_given_noise_is_kept():
    noise = GaussianNoise(positive(0.37, trainable=False))
    dfgp = DFGPRegressor(likelihood=noise, max_iterations=4, **SMALL).fit(X, Y)
    assert abs(dfgp.model_.likelihood.noise.item() - 0.37) < 1e-9


def test_no_iterations_leave_the_start():
    dfgp = DFGPRegressor(n_hidden=2, n_starts=1, max_iterations=0, **SMALL).fit(X, Y)
    np.testing.assert_allclose(dfgp.kernel_.lengthscale.detach().numpy(), 2 * 2**0.5, rtol=0.1)
    assert dfgp.result_.evaluations == 1


def test_tables_of_values_and_columns_by_category():
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "kind": COLOURS})
    options = {**SMALL, "max_iterations": 4}
    dfgp = DFGPRegressor(views=[["x", "z"], ["kind"]], **options).fit(frame, Y)
    assert any("lengthscale" in row.name for row in dfgp.hyperparameters_.rows)
    on_category = DFGPRegressor(kernel=k.RBF().on("kind"), **options).fit(frame, Y)
    assert on_category.predict(frame[:2]).shape == (2,)
    with pytest.raises(InputError, match="view_kernels are for views"):
        DFGPRegressor(view_kernels=[k.RBF()]).fit(X, Y)


def test_the_latent_coordinates_and_their_doubt():
    dfgp = DFGPRegressor(n_hidden=2, max_iterations=20, **SMALL).fit(X, Y)
    mean, std = dfgp.transform(X[:5], return_std=True)
    assert mean.shape == (5, 2)
    assert bool((std > 0).all())
    np.testing.assert_allclose(dfgp.transform(X[:1]), mean[:1], atol=1e-10)
    assert dfgp.transform(100 + X[:5], return_std=True)[1].min() > std.max()


def test_the_same_seed_gives_the_same_model():
    one, two = (DFGPRegressor(max_iterations=10, **SMALL).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.predict(X), one.predict(X))
    assert clone(one).get_params() == one.get_params()


BAD = {
    "n_hidden": 0,
    "n_layers": 1,
    "hidden": "map",
    "output_kernel": "matern",
    "inference": "laplace",
    "propagate": "both",
    "n_samples": 0,
    "views": "all",
    "view_kernels": [k.RBF()],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options(name):
    views = {"views": [[0], [1]]} if name == "view_kernels" else {}
    with pytest.raises(InputError, match=name):
        DFGPRegressor(**{**views, name: BAD[name]}).fit(X, Y)


def test_bad_views():
    with pytest.raises(InputError, match="there is no column 7"):
        DFGPRegressor(views=[[0], [7]]).fit(X, Y)
    with pytest.raises(InputError, match="same rows in each view"):
        DFGPRegressor().fit([X[:, :2], X[:10, 2:]], Y)
    with pytest.raises(InputError, match="leave out views"):
        DFGPRegressor(views=[[0]]).fit([X[:, :2], X[:, 2:]], Y)
    fitted = DFGPRegressor(max_iterations=2, **SMALL).fit([X[:, :2], X[:, 2:]], Y)
    with pytest.raises(InputError, match="an array for each view, as in fit: view 0 with 2 columns"):
        fitted.predict(X)
    with pytest.raises(InputError, match="is for Gaussian noise"):
        DFGPRegressor(inference="collapsed", likelihood="laplace").fit(X, Y)


def test_the_better_start_is_kept():
    """Four of 20 columns matter, and none of them linearly: the second start finds them."""
    x = np.random.default_rng(0).normal(size=(300, 20))
    y = np.sin(2 * x[:, 0]) * np.cos(2 * x[:, 1]) + np.sin(3 * x[:, 2])
    options = {"n_inducing": 30, "max_iterations": 60, "random_state": 0}
    both = DFGPRegressor(**options).fit(x, y)
    first = DFGPRegressor(n_starts=1, **options).fit(x, y)
    assert len(both.bounds_) == 2
    assert both.bounds_[0] == pytest.approx(first.bounds_[0])
    assert both.result_.value == max(both.bounds_)
    assert both.score(x, y) > first.score(x, y) + 0.1


def test_kernels_on_some_columns_start_at_their_own():
    """The second start stretches columns by their relevance: the kernel must get those that it sees."""
    x = np.random.default_rng(0).normal(size=(150, 3))
    y = np.sin(3 * x[:, 2])
    for columns in ([0, 2], [2, 1, 0], 2):
        dfgp = DFGPRegressor(kernel=k.RBF(ard=True).on(columns), n_hidden=2, max_iterations=0, **SMALL).fit(x, y)
        lengthscale = dfgp.model_.layer.layers[0].kernel.base.lengthscale.detach().numpy()
        assert np.isfinite(lengthscale).all()
        if len(dfgp.bounds_) == 2 and dfgp.bounds_[1] > dfgp.bounds_[0] and columns == [2, 1, 0]:
            assert lengthscale[0].ravel().argmin() == 0


def test_a_constant_target_beside_another():
    with pytest.raises(InputError, match=r"target 1 of y .* is constant"):
        DFGPRegressor(**SMALL).fit(X, np.column_stack([Y, np.ones(len(Y))]))


def test_names_of_latent_coordinates():
    dfgp = DFGPRegressor(n_hidden=2, n_starts=1, max_iterations=2, **SMALL).fit(X, Y).set_output(transform="pandas")
    assert list(dfgp.transform(X).columns) == ["dfgpregressor0", "dfgpregressor1"]


def test_survival_curves_average_over_hidden_values():
    times = np.exp(F) * RNG.weibull(2.0, len(X))
    dfgp = DFGPRegressor(likelihood="weibull", max_epochs=60, rate=0.05, **SMALL)
    dfgp.fit(X, np.column_stack([times, np.ones(len(X))]))
    curves = dfgp.predict_survival(X[:20], [0.5, 1.0, 2.0])
    for j, time in enumerate((0.5, 1.0, 2.0)):
        censored = np.tile([time, 0.0], (20, 1))
        np.testing.assert_allclose(curves[:, j], np.exp(dfgp.log_density(X[:20], censored)), atol=1e-3)
