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
