"""Gaussian classes, against scikit-learn's discriminant analysis and the truth about simulated clouds."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from stratagp.errors import InputError
from stratagp.recipes.base import FitContext
from stratagp.recipes.fold_classes import FoldClassesRecipe
from stratagp.recipes.gaussian_classes import _Moments
from tests.recipes.test_trees import rows_of


def clouds(n, seed):
    """Three classes with unlike covariances, in columns of unlike units, and the truth about them."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, 3, n)
    roots = np.array([[[1.0, 0], [0.9, 0.3]], [[0.5, 0], [0, 1]], [[1, 0], [-0.8, 0.5]]]) * [[1.0], [100.0]]
    middles = np.array([[0.0, 0], [2, 100], [-1, 150]])
    x = middles[codes] + np.einsum("nij,nj->ni", roots[codes], random.normal(size=(n, 2)))
    pairs = zip(middles, roots, strict=True)
    density = np.stack([stats.multivariate_normal.pdf(x, middle, root @ root.T) for middle, root in pairs], 1)
    return x, codes, density / density.sum(1, keepdims=True)


def test_probabilities_come_close_to_the_truth():
    x, codes, _ = clouds(1000, 0)
    new, new_codes, truth = clouds(2000, 1)
    found = FoldClassesRecipe("Gaussians").fit(rows_of(x, codes, 3), FitContext()).predictive(torch.from_numpy(new))
    best = np.log(truth[np.arange(2000), new_codes]).mean()
    assert found.log_density(new_codes).mean() > best - 0.02  # lines between classes lose 0.15


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_covariance_for_all_is_linear_discriminant_analysis(n_classes):
    x, codes, _ = clouds(200, 2)
    x, codes = x[codes < n_classes], codes[codes < n_classes]
    scores = _Moments(x, codes, None).scores(1.0, 0.0)(torch.from_numpy(x)).numpy()
    truth = LinearDiscriminantAnalysis(solver="lsqr").fit(x, codes).decision_function(x).reshape(scores.shape[0], -1)
    gaps = scores - scores[:, :1] - truth + truth[:, :1] if n_classes == 3 else scores - truth
    assert np.abs(gaps).max() < 1e-8


def test_weights_count_rows_several_times():
    x, codes, _ = clouds(60, 3)
    weights = np.random.default_rng(0).integers(1, 4, 60)
    one = _Moments(x, codes, weights.astype(float)).scores(0.3, 0.1)
    other = _Moments(np.repeat(x, weights, 0), np.repeat(codes, weights), None).scores(0.3, 0.1)
    x = torch.from_numpy(x)
    np.testing.assert_allclose(one(x).softmax(1), other(x).softmax(1), atol=1e-10)


def test_columns_too_large_for_covariances_are_refused():
    x, codes, _ = clouds(60, 0)
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(InputError, match="scale them"):
        FoldClassesRecipe("Gaussians").fit(rows_of(1e200 * x, codes, 3), FitContext())
