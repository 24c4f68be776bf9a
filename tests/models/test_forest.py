"""Forests say what scikit-learn says."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from stratagp.errors import InputError
from stratagp.models import forest
from stratagp.models.forest import Forest, of_boosting, of_extra_trees
from tests.persistence.test_parts import back

random = np.random.default_rng(0)
X = random.normal(size=(120, 3)).round(1)  # with equal values, at which thresholds may lie
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=120)
NEW = torch.from_numpy(np.concatenate([X, random.normal(size=(200, 3))]))
HALVES = (np.arange(120) < 80, np.arange(120) >= 40)


@pytest.mark.parametrize("few", [2**21, 700], ids=["all rows", "chunks"])
def test_boosting_of_numbers(few, monkeypatch):
    monkeypatch.setattr(forest, "_AT_ONCE", few)
    models = [HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=3).fit(X[half], Y[half]) for half in HALVES]
    found = of_boosting(models)(NEW).numpy()
    np.testing.assert_allclose(found, np.stack([model.predict(NEW) for model in models], 1), rtol=0, atol=1e-12)
    some = of_boosting(models, 7)(NEW).numpy()
    stages = [list(model.staged_predict(NEW))[6] for model in models]
    np.testing.assert_allclose(some, np.stack(stages, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_boosting_of_classes(n_classes):
    codes = np.digitize(Y, np.quantile(Y, np.arange(1, n_classes) / n_classes))
    models = [HistGradientBoostingClassifier(max_iter=15).fit(X[half], codes[half]) for half in HALVES]
    expected = [model.decision_function(NEW).reshape(len(NEW), -1) for model in models]
    np.testing.assert_allclose(of_boosting(models)(NEW).numpy(), np.hstack(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("leaf", [1, 5])
def test_extra_trees(leaf):
    codes = np.digitize(Y, [-0.5, 0.5])
    numbers = [ExtraTreesRegressor(12, min_samples_leaf=leaf, random_state=i).fit(X, Y) for i in range(2)]
    expected = np.stack([model.predict(NEW) for model in numbers], 1)
    np.testing.assert_allclose(of_extra_trees(numbers)(NEW).numpy(), expected, rtol=0, atol=1e-12)
    classes = [ExtraTreesClassifier(12, min_samples_leaf=leaf, random_state=i).fit(X, codes) for i in range(2)]
    expected = np.hstack([model.predict_proba(NEW) for model in classes])
    np.testing.assert_allclose(of_extra_trees(classes)(NEW).numpy(), expected, rtol=0, atol=1e-12)


def test_a_forest_comes_back_from_a_file():
    found = of_extra_trees([ExtraTreesRegressor(5, random_state=0).fit(X, Y)])
    again = back(found)
    assert again.depth == found.depth
    assert torch.equal(again(NEW), found(NEW))


def test_a_tree_that_goes_round_in_circles_is_refused():
    one, two = torch.tensor([0, 0]), torch.tensor([[1, 1], [0, 0]])
    with pytest.raises(InputError, match="children must come after their parents"):
        Forest(one, one.double(), two, one.double()[:, None], torch.tensor([[0]]), torch.zeros(1).double())
