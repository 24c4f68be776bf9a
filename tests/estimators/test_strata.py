"""The stack: what it chooses, that it repeats, and that its answers agree."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import make_friedman1
from sklearn.utils.estimator_checks import parametrize_with_checks

from stratagp import StrataClassifier, StrataRegressor, load
from stratagp.errors import InputError
from stratagp.estimators.regression import is_of_counts
from stratagp.recipes import stack

PLAN = ["Matérn 5/2, noise varies", "boosted trees", "squared exponential"]


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (150, 2))
    y = 5 + np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=150)
    return X, y, StrataRegressor(plan=PLAN, random_state=0).fit(X[:120], y[:120])


def test_a_smooth_function_goes_to_processes(fitted):
    X, y, model = fitted
    board = model.leaderboard_
    assert board.weight.sum() == pytest.approx(1, abs=1e-12)
    assert board.set_index("candidate").weight["boosted trees"] < 0.3
    assert np.sqrt(np.mean((model.predict(X[120:]) - y[120:]) ** 2)) < 0.2
    assert "of the weight" in model.explain()
    assert model.plan_ == PLAN


def test_held_out_density_foretells_that_of_new_rows(fitted):
    X, y, model = fitted
    best = model.leaderboard_.density.max() - np.log(y[:120].std())
    assert model.log_density(X[120:], y[120:]).mean() > best - 0.3


def test_answers_are_those_of_one_mixture(fitted):
    X, _, model = fitted
    found, rows = model.predictive(X[120:125]), X[120:125]
    weights, parts = model.fitted_.weights.numpy(), model.fitted_.members
    inside = [part.predictive(model._points(rows).values) for part in parts]
    mean = sum(w * part.mean[:, 0] for w, part in zip(weights, inside, strict=True))
    assert model.predict(rows) == pytest.approx(model.scale_.back(mean[:, None])[:, 0], rel=1e-12)
    low, high = model.predict_interval(rows, 0.9)
    assert found.cdf(high[:, None]) - found.cdf(low[:, None]) == pytest.approx(0.9, abs=1e-6)
    drawn = model.sample_y(rows, 4000, random_state=0)
    assert drawn.mean(1) == pytest.approx(model.predict(rows), abs=0.05)


def test_a_plan_repeats_to_the_last_bit(fitted):
    X, y, model = fitted
    again = StrataRegressor(plan=model.plan_, random_state=0).fit(X[:120], y[:120])
    assert (again.predict(X) == model.predict(X)).all()


def test_saved_and_loaded(fitted, tmp_path):
    X, _, model = fitted
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.predict(X, return_std=True)[1] == model.predict(X, return_std=True)[1]).all()
    assert again.explain() == model.explain()


def test_a_skewed_positive_target_is_learnt_by_its_log(tmp_path):
    random = np.random.default_rng(1)
    X = random.uniform(-1, 1, (90, 1))
    y = np.exp(2 * X[:, 0] + 0.2 * random.normal(size=90))
    model = StrataRegressor(plan=["log target, Matérn 5/2", "Matérn 5/2, noise varies"], random_state=0).fit(X, y)
    assert model.leaderboard_.candidate[0] == "log target, Matérn 5/2"
    assert model.leaderboard_.weight[0] > 0.5
    assert model.predict([[0.5]])[0] == pytest.approx(np.exp(1 + 0.02), rel=0.1)


def test_shares_are_learnt_by_their_log_odds():
    random = np.random.default_rng(7)
    X = random.uniform(-1, 1, (120, 1))
    y = 1 / (1 + np.exp(-(4 * X[:, 0] + 2 + 0.5 * random.normal(size=120))))
    model = StrataRegressor(plan=["log odds, Matérn 5/2", "squared exponential"], random_state=0).fit(X[:90], y[:90])
    assert model.leaderboard_.candidate[0] == "log odds, Matérn 5/2"
    truth = 1 / (1 + np.exp(-(4 * X[90:, 0] + 2)))
    assert np.abs(model.predict(X[90:]) - truth).max() < 0.1
    odds = StrataRegressor(plan=["log odds, Matérn 5/2"], random_state=0).fit(X[:90], y[:90])
    assert odds.log_density(X[:2], [-0.1, 1.1]).tolist() == [-np.inf, -np.inf]
    with pytest.raises(InputError, match=r"for these rows there are '.*', 'squared exponential'"):  # two is no share
        StrataRegressor(plan=["log odds, Matérn 5/2"], random_state=0).fit(X[:90], y[:90] + 1)


COUNT_PLAN = ["negative binomial, Matérn 5/2", "boosted counts", "squared exponential", "log target, Matérn 5/2"]


@pytest.fixture(scope="module")
def counted():
    random = np.random.default_rng(8)
    X = random.uniform(-2, 2, (170, 2))
    rate = np.exp(0.3 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1])
    y = random.poisson(rate)
    return X, y, rate, StrataRegressor(plan=COUNT_PLAN, random_state=0).fit(X[:130], y[:130])


def test_counts_get_probabilities_that_sum_to_one_and_have_the_predicted_moments(counted):
    X, _, _, model = counted
    rows, every = X[130:134], np.arange(200)
    p = np.exp([model.log_density(rows, np.full(4, count)) for count in every])
    assert p.sum(0) == pytest.approx(np.ones(4), abs=1e-4)
    mean, std = model.predict(rows, return_std=True)
    assert every @ p == pytest.approx(mean, rel=2e-3)
    assert np.sqrt(every**2 @ p - mean**2) == pytest.approx(std, rel=5e-3)
    assert model.cdf(rows, np.full(4, 3)) == pytest.approx(p[:4].sum(0), abs=2e-3)  # the likelihoods' is on a grid
    low, high = model.predict_interval(rows, 0.8)
    for i in range(4):
        assert p[: int(high[i]) + 1, i].sum() >= 0.9 - 2e-3 > p[: int(high[i]), i].sum() - 4e-3
        assert p[: int(low[i]), i].sum() < 0.1 + 2e-3
    drawn = model.sample_y(rows, 4000, random_state=0)
    assert (drawn == np.floor(drawn)).all()
    assert drawn.mean(1) == pytest.approx(mean, abs=6 * std.max() / np.sqrt(4000))
    assert is_of_counts(model)


def test_counts_are_learnt_by_their_likelihood(counted):
    X, y, rate, model = counted
    board = model.leaderboard_.set_index("candidate")
    assert set(board.index) == set(COUNT_PLAN)
    assert board.weight["negative binomial, Matérn 5/2"] > 0.3
    truth = stats.poisson(rate[130:]).logpmf(y[130:]).mean()
    assert truth + 0.05 > model.log_density(X[130:], y[130:]).mean() > truth - 0.2
    assert model.predict(X, of="f") == pytest.approx(model.predict(X), rel=0.5, abs=0.5)
    with pytest.raises(InputError, match="y must be counts"):
        model.log_density(X[:2], [0.5, 1.0])


def test_counts_with_missing_inputs_and_numbers_that_are_no_counts(counted):
    X, y, _, model = counted
    rows = X[130:133].copy()
    rows[1, 1] = np.nan
    low, high = model.predict_interval(rows)
    assert (high == np.floor(high)).all()
    assert (low >= 0).all()
    years = StrataRegressor(plan=["squared exponential"], random_state=0).fit(X, 1990 + y)
    assert not is_of_counts(years)
    with pytest.raises(InputError, match="plan has 'boosted counts'"):
        StrataRegressor(plan=["boosted counts"], random_state=0).fit(X, 1990 + y)


def test_classes_and_missing_inputs():
    random = np.random.default_rng(2)
    X = random.normal(size=(120, 3))
    y = np.array(["no", "yes"])[(X[:, 0] + 0.3 * random.normal(size=120) > 0).astype(int)]
    X[::10, 1] = np.nan
    model = StrataClassifier(plan=["Matérn 5/2", "extra trees"], random_state=0).fit(X[:90], y[:90])
    assert model.log_density(X[90:], y[90:]).mean() > -0.45
    assert model.predict_proba(X[90:]).sum(1) == pytest.approx(np.ones(30), abs=1e-12)


def test_classes_are_the_product_of_members_each_with_its_width():
    random = np.random.default_rng(3)
    X = random.normal(size=(90, 2))
    y = (X[:, 0] + random.normal(size=90) > 0).astype(int)
    model = StrataClassifier(plan=["squared exponential", "extra trees", "Gaussian classes"], random_state=0).fit(X, y)
    members, weights = model.fitted_.members, model.fitted_.weights.numpy()
    assert len(members) > 1
    assert any(member.width != 1 for member in members)
    points, logs = model._points(X[:20]).values, 0.0
    for member, weight in zip(members, weights, strict=True):
        logs += weight / member.width * np.log(replace(member, width=1.0).predictive(points).probabilities)
    product = np.exp(logs) / np.exp(logs).sum(1, keepdims=True)
    assert model.predict_proba(X[:20]) == pytest.approx(product, abs=1e-5)  # but for a floor of one in a million


def test_a_candidate_whose_numbers_overflow_is_left_out():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] > 0
    X[7, 1] = 1e160
    with np.errstate(over="ignore", invalid="ignore"):
        model = StrataClassifier(plan=["boosted trees", "Gaussian classes"], random_state=0).fit(X, y)
    assert model.leaderboard_.candidate.tolist() == ["boosted trees"]
    assert np.isfinite(model.predict_proba(X)).all()


def test_more_rows_are_screened_first_and_a_limit_is_kept():
    X, y = make_friedman1(2100, 6, noise=1.0, random_state=0)
    model = StrataRegressor(time_limit=4, random_state=0).fit(X, y)
    board = model.leaderboard_
    assert board.rows.min() == 800  # processes saw few rows first
    assert board.weight.sum() == pytest.approx(1, abs=1e-12)


def test_a_process_stays_as_few_rows_left_it_where_time_is_short_and_the_plan_repeats_that(monkeypatch):
    for name, value in {"_FOLD_ROWS": 400, "_MOST_HELD": 3000, "_SCREENED": 150}.items():
        monkeypatch.setattr(stack, name, value)
    monkeypatch.setattr(stack, "seconds_of", lambda way, n, columns: 1e6)
    X, y = make_friedman1(500, 5, noise=1.0, random_state=0)
    model = StrataRegressor(time_limit=8, random_state=0).fit(X[:450], y[:450])
    board = model.leaderboard_.set_index("candidate")
    few = [name for name in board.index if name.endswith(", few rows")]
    assert set(board.rows[few]) == {150}
    assert board.weight[few].sum() > 0.3  # 150 rows of a smooth function tell a process more than all rows tell trees
    again = StrataRegressor(plan=model.plan_, random_state=0).fit(X[:450], y[:450])
    assert (again.predict(X[450:]) == model.predict(X[450:])).all()
    with pytest.raises(InputError, match="plan has 'squared exponential, few rows'"):  # few rows are all rows
        StrataRegressor(plan=["squared exponential, few rows"], random_state=0).fit(X[:300], y[:300])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plan": ["no such"]}, "plan has 'no such'"),
        ({"plan": "Matérn 5/2"}, "plan must be a list"),
        ({"time_limit": -1}, "time_limit must be positive"),
    ],
)
def test_bad_options(options, message):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(InputError, match=message):
        StrataRegressor(**options).fit(X, X[:, 0])


def test_there_is_no_kernel_of_the_whole(fitted):
    model = fitted[2]
    assert not hasattr(model, "kernel_")
    assert not hasattr(model, "hyperparameters_")
    assert model.relevance_.sum() == pytest.approx(1)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([StrataRegressor(plan=["squared exponential"]), StrataClassifier(plan=["extra trees"])])
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


def test_trees_alone_are_drawn_from_and_know_few_rows():
    random = np.random.default_rng(3)
    X = random.uniform(-1, 1, (60, 1))
    model = StrataRegressor(plan=["boosted trees"], random_state=0)
    model.fit(X, np.sign(X[:, 0]) + 0.1 * random.normal(size=60))
    drawn = model.sample_y([[0.5], [-0.5]], 2000, random_state=0)
    assert drawn.mean(1) == pytest.approx(model.predict([[0.5], [-0.5]]), abs=0.05)


def test_equal_rows_do_not_betray_their_targets():
    random = np.random.default_rng(4)
    X = random.integers(0, 4, (400, 2)).astype(float)
    y = 0.3 * X[:, 0] + random.normal(size=400)
    model = StrataRegressor(plan=["Matérn 5/2, long tails"], random_state=0).fit(X[:200], y[:200])
    assert model.log_density(X[200:], y[200:]).mean() > -1.6  # the truth is −1.42


def test_a_log_target_knows_what_is_impossible():
    X = np.linspace(0, 1, 40)[:, None]
    y = np.exp(3 * X[:, 0] + 0.1 * np.random.default_rng(5).normal(size=40))
    model = StrataRegressor(plan=["log target, Matérn 5/2"], random_state=0).fit(X, y)
    assert model.log_density(X[:2], [-1.0, 0.0]).tolist() == [-np.inf, -np.inf]
    assert model.cdf(X[:1], [-1.0]).tolist() == [0.0]


def test_a_class_with_one_row_keeps_processes_in_the_race():
    X = np.random.default_rng(6).normal(size=(40, 2))
    y = np.r_[np.zeros(39), 1]
    model = StrataClassifier(plan=["Matérn 5/2", "extra trees"], random_state=0).fit(X, y)
    assert set(model.leaderboard_.candidate) == {"Matérn 5/2", "extra trees"}


def test_classes_of_unlike_members_have_no_function():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = StrataClassifier(plan=["squared exponential", "extra trees"], random_state=0).fit(X, X[:, 0] > 0)
    with pytest.raises(InputError, match="no function of its own"):
        model.certainty(X)


def molecules(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Chains of letters whose target counts the letters O, and a number that adds to it."""
    rng = np.random.default_rng(seed)
    texts = ["".join(rng.choice(list("CNO"), rng.integers(4, 14))) for _ in range(n)]
    size = rng.normal(size=n)
    y = np.array([text.count("O") for text in texts]) + size
    return pd.DataFrame({"formula": texts, "size": size}), y + rng.normal(0, 0.1, n)


def test_texts_take_part_by_their_ngrams(tmp_path):
    (X, y), (new, truth) = molecules(150), molecules(50, seed=1)
    model = StrataRegressor(plan=["Matérn 5/2, noise varies", "boosted trees"], random_state=0).fit(X, y)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.35 * truth.std()
    assert model.relevance_.shape == (2,)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(new), model.predict(new))


def test_texts_that_are_named_by_a_word_alone_are_refused():
    X, y = molecules(30)
    with pytest.raises(InputError, match=r"texts must be 'auto' or a list of columns, got 'formula': write"):
        StrataRegressor(texts="formula").fit(X, y)


def test_a_list_of_texts_is_told_to_be_a_frame():
    X, y = molecules(30)
    with pytest.raises(InputError, match="give a data frame with a column of texts"):
        StrataRegressor().fit(X.formula.tolist(), y)


def test_counts_may_be_read_as_numbers_and_the_other_way_round(counted):
    X, y = counted[0], counted[1].astype(float)
    plan = ["squared exponential"]
    numbers = StrataRegressor(plan=plan, targets="numbers", random_state=0).fit(X, y)
    assert not is_of_counts(numbers)
    assert np.isfinite(numbers.log_density(X[:1], y[:1] + 0.5)).all()
    with pytest.raises(InputError, match="targets='counts' needs whole numbers"):
        StrataRegressor(plan=plan, targets="counts", random_state=0).fit(X, y - 0.5)
    with pytest.raises(InputError, match="targets must be"):
        StrataRegressor(plan=plan, targets="integers").fit(X, y)
