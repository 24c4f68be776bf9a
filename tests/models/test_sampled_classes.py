"""Sampled latent values of classes against importance sampling from the prior."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.models import GPClassification, MulticlassLaplace, sample_classes

X = torch.tensor([[-1.5], [-0.4], [0.2], [0.9], [2.0]], dtype=torch.float64)
NEW = torch.tensor([[-2.0], [0.0], [1.4], [5.0]], dtype=torch.float64)
DRAWS = 60_000


def weighted(kernel, log_prob, functions, intercept):
    """Draws of the functions at new rows from the prior, and their weights given the labels."""
    both = torch.cat([X, NEW])
    K = kernel(both).detach() + intercept + 1e-9 * torch.eye(len(both))
    noise = torch.randn(DRAWS, functions, len(both), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    f = (noise @ torch.linalg.cholesky(K).mT).mT
    return f[:, len(X) :], log_prob(f[:, : len(X)]).softmax(0)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_two_classes(link):
    kernel, t = k.RBF(1.0, 6.0), torch.tensor([0, 0, 1, 1, 0])
    cdf = torch.sigmoid if link == "logit" else torch.special.ndtr
    f, weights = weighted(kernel, lambda f: cdf((2 * t - 1) * f[..., 0]).log().sum(1), 1, 0.5)
    prior = GPClassification(kernel, link=link, intercept=0.5)
    found = sample_classes(prior, X, t, 8000, 40, 2, 200, torch.Generator().manual_seed(1))
    assert found.r_hat < 1.12  # of short chains
    expected = (weights[:, None] * cdf(f[..., 0])).sum(0)
    torch.testing.assert_close(found.probabilities(NEW)[:, 1], expected, atol=0.025, rtol=0)
    mean = (weights[:, None] * f[..., 0]).sum(0)
    belief = found.marginals(NEW)
    torch.testing.assert_close(belief.mean[:, 0], mean, atol=0.2, rtol=0)
    var = (weights[:, None] * (f[..., 0] - mean).square()).sum(0)
    torch.testing.assert_close(belief.var[:, 0], var, rtol=0.15, atol=0)


def test_three_classes():
    kernel, t = k.RBF(1.0, 4.0), torch.tensor([0, 1, 1, 2, 0])
    rows = torch.arange(len(X))
    f, weights = weighted(kernel, lambda f: f.log_softmax(-1)[:, rows, t].sum(1), 3, 0.0)
    found = sample_classes(MulticlassLaplace(kernel, 3), X, t, 8000, 40, 2, 200, torch.Generator().manual_seed(1))
    expected = (weights[:, None, None] * f.softmax(-1)).sum(0)
    torch.testing.assert_close(found.probabilities(NEW), expected, atol=0.025, rtol=0)


def test_rows_and_labels_belong_together():
    with pytest.raises(InputError, match="equally many rows, got 5 and 3"):
        sample_classes(GPClassification(k.RBF()), X, [0, 1, 1])
