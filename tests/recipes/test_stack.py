"""How held-out rows are scored."""

import numpy as np
import pytest
import torch

from stratagp.predictive import LocationScale
from stratagp.recipes.judging import scores


@pytest.mark.parametrize("mean", [1e300, np.inf, np.nan])
def test_a_model_that_explodes_has_a_finite_error_and_the_least_density(mean):
    said = LocationScale(np.array([[[mean], [0.5]]]), np.ones((1, 2, 1)), np.zeros(1))
    densities, wrong = scores(said, torch.zeros(2, 1, dtype=torch.float64))
    assert wrong.tolist() == pytest.approx([1e100, 0.25])
    assert densities[0].tolist() == [-30.0] * densities.shape[1]
    assert torch.isfinite(densities).all()


def test_the_lowest_level_has_no_lower_end():
    said = LocationScale(np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1), dof=3.0)
    assert said.quantile([0.0, 0.5, 1.0]).ravel().tolist() == [-np.inf, 0.0, np.inf]
