"""Which rows are held out together, by plain counting, and what a stack says about later rows and other groups."""

import numpy as np
import pandas as pd
import pytest
import torch

from stratagp import StrataClassifier, StrataRegressor
from stratagp.errors import InputError
from stratagp.recipes import folds as module
from stratagp.recipes.base import Data, FitContext, Rows
from stratagp.recipes.fold_classes import FoldClassesRecipe
from stratagp.recipes.folds import even_folds, folds_of, later_folds, random_folds, whole_groups
from stratagp.recipes.trees import TreesRecipe


def series(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A line with noise of deviation 0.3, at dates that are mixed up."""
    rng = np.random.default_rng(seed)
    y = 0.1 * np.arange(n) + 0.3 * rng.normal(size=n)
    order = rng.permutation(n)
    frame = pd.DataFrame({"month": pd.date_range("2001-01-01", periods=n, freq="MS"), "idle": rng.normal(size=n)})
    return frame.iloc[order].reset_index(drop=True), y[order]


def test_no_fold_misses_a_class():
    codes = np.array([0] * 7 + [1] * 2 + [2] * 9 + [3])
    folds = even_folds(codes, seed=1)
    assert folds.number[-1] == -1
    for one in folds.numbers:
        assert set(codes[folds.seen(one)]) == {0, 1, 2, 3}


def test_later_rows_are_predicted_from_earlier_ones_alone():
    order = torch.from_numpy(np.random.default_rng(0).integers(0, 12, 60).astype(float))
    order[3] = torch.nan
    folds = later_folds(order)
    assert len(folds.numbers) == 3
    assert folds.number[3] == -1
    for fold in folds.numbers:
        seen, held = order[torch.from_numpy(folds.seen(fold))], order[torch.from_numpy(folds.held(fold))]
        assert seen.nan_to_num(-1).max() < held.min()
    assert folds.seen(len(folds.numbers)).all()
    assert later_folds(torch.tensor([1.0, 2, 2, 2])).number.tolist() == [-1, 0, 0, 0]
    with pytest.raises(InputError, match="order has one value for all rows"):
        later_folds(torch.ones(5))


def test_many_rows_have_one_fold_of_the_latest(monkeypatch):
    monkeypatch.setattr(module, "MANY_ROWS", 40)
    number = later_folds(torch.arange(50.0)).number
    assert number.tolist() == [-1] * 40 + [0] * 10


def test_groups_stay_whole_and_folds_are_of_one_size():
    groups = torch.from_numpy(np.random.default_rng(0).integers(0, 20, 200))
    folds = whole_groups(groups, seed=0)
    for group in groups.unique():
        assert len(set(folds.number[groups == group])) == 1
    sizes = np.bincount(folds.number)
    assert len(sizes) == 5
    assert sizes.max() - sizes.min() <= groups.bincount().max()
    with pytest.raises(InputError, match="groups has one value"):
        whole_groups(torch.zeros(4).long(), seed=0)


def test_the_last_fold_alone():
    assert random_folds(50, seed=0).last(4).held(0).sum() == 4
    folds = later_folds(torch.arange(10.0)).last(100)
    assert folds.number.tolist() == [-1] * 8 + [0] * 2


def test_every_fold_sees_every_class_however_late_it_comes():
    codes = np.array([0] * 10 + [1] * 6 + [2] * 4)
    data = Data(torch.zeros(20, 1), torch.from_numpy(codes)[:, None].double(), order=torch.arange(20.0))
    folds = folds_of(data, 3, seed=0)
    assert folds.number[[10, 16]].tolist() == [-1, -1]
    for fold in folds.numbers:
        assert set(codes[folds.seen(fold)]) == {0, 1, 2}
    for kind in ("boosting", "extra trees", "Gaussians"):
        x = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 1)))
        model = FoldClassesRecipe(kind).fit(Rows(Data(x, data.y, order=data.order), 3), FitContext())
        assert np.isfinite(model.held_out().log_density(codes)).all()


@pytest.mark.parametrize("kind", ["boosting", "extra trees"])
def test_trees_of_later_rows_know_that_they_cannot_go_on(kind):
    """Along a line the next third of the rows lies above all that trees have seen: by half of its height on average."""
    n = 120
    x = torch.linspace(0, 1, n, dtype=torch.float64)[:, None]
    y = 3 * x + 0.1 * torch.from_numpy(np.random.default_rng(0).normal(size=(n, 1)))
    new = torch.linspace(1, 1.2, 20, dtype=torch.float64)[:, None]
    found = TreesRecipe(kind).fit(Rows(Data(x, y, order=x[:, 0])), FitContext()).predictive(new)
    assert 0.2 < found.var.mean() ** 0.5 < 0.6  # the root mean square of 3 · (0 to 0.2) is 0.35
    blind = TreesRecipe(kind).fit(Rows(Data(x, y)), FitContext()).predictive(new)
    assert blind.var.mean() ** 0.5 < 0.2
    np.testing.assert_allclose(found.mean.max(), 3.0, atol=0.2)  # the forest that predicts has seen all rows


def test_a_stack_of_trees_is_told_that_new_rows_are_later():
    """The last 30 months lie up to 3 above all that trees have seen."""
    X, y = series(150)
    early = (X.month < "2011-01-01").to_numpy()
    plan = ["extra trees", "boosted trees"]
    said = {}
    for order in ("month", None):
        model = StrataRegressor(plan=plan, order=order, random_state=0).fit(X[early], y[early])
        low, high = model.predict_interval(X[~early])
        inside = np.mean((low <= y[~early]) & (y[~early] <= high))
        said[order] = -model.log_density(X[~early], y[~early]).mean(), inside
    assert said["month"][0] < said[None][0] - 1
    assert said["month"][0] < 2.3  # a Gaussian around the last level with a deviation of 1.75: 1.98
    assert said["month"][1] >= 0.9
    assert said[None][1] < 0.6


def test_a_stack_is_told_that_new_rows_are_of_other_groups():
    """Each group has a level of its own, which its number in a column tells of rows of known groups alone."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(30), 5)
    code, level = rng.normal(size=30), rng.normal(size=30)
    X, y = code[group][:, None], level[group] + 0.1 * rng.normal(size=150)
    known = group < 24
    plan = ["extra trees", "Matérn 1/2, noise varies"]
    densities = []
    for groups in (group[known], None):
        model = StrataRegressor(plan=plan, random_state=0).fit(X[known], y[known], groups=groups)
        densities.append(model.log_density(X[~known], y[~known]).mean())
    assert densities[0] > -1.8  # a Gaussian with the deviation of the levels: −1.4
    assert densities[0] > densities[1] + 0.5
    with pytest.raises(InputError, match="groups must have a label for each of 150 rows"):
        StrataRegressor(plan=plan).fit(X, y, groups=group[:10])
    with pytest.raises(InputError, match="groups does not go with order"):
        StrataRegressor(plan=plan, order=0).fit(X, y, groups=group)


def test_classes_that_become_frequent():
    rng = np.random.default_rng(0)
    time = np.arange(200.0)
    y = (rng.uniform(size=200) < np.where(time > 80, 0.9, 0.1)).astype(int)
    X = np.stack([time, rng.normal(size=200)], 1)
    model = StrataClassifier(plan=["extra trees", "Matérn 1/2"], order=0, random_state=0).fit(X[:160], y[:160])
    assert model.log_density(X[160:], y[160:]).mean() > -0.55  # the true rates, for 32 of 40: −0.545


def test_an_order_that_is_no_column_of_numbers():
    X, y = series(30)
    with pytest.raises(InputError, match=r"order must be a column of numbers or dates of X.*got 'year'"):
        StrataRegressor(order="year").fit(X, y)
    with pytest.raises(InputError, match="got 7"):
        StrataRegressor(order=7).fit(X, y)
