"""The choice of inducing points against dense conditional variances."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.training import inducing_points
from stratagp.training.inducing_points import greedy_points, kmeans_points


def points(n=200, d=2, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def missing(kernel, x, z):
    """``tr(K − Q)``, densely."""
    kxz = kernel(x, z)
    return (kernel.diag(x) - (kxz * torch.linalg.solve(kernel(z), kxz.mT).mT).sum(1)).sum().item()


def test_greedy_takes_the_row_of_largest_conditional_variance_each_time():
    x, kernel = points(50), k.RBF([0.8, 1.2], 1.7)
    z, chosen = greedy_points(kernel, x, 8)
    torch.testing.assert_close(z, x[chosen])
    for step in range(1, 8):
        known = x[chosen[:step]]
        left = kernel.diag(x) - (kernel(x, known) * torch.linalg.solve(kernel(known), kernel(known, x)).mT).sum(1)
        assert left[chosen[step]].item() == pytest.approx(left.max().item(), abs=1e-10)


def test_greedy_explains_more_than_random_rows_once_the_corners_are_taken():
    generator = torch.Generator().manual_seed(1)
    x, kernel = 3 * torch.rand(200, 2, generator=generator, dtype=torch.float64), k.RBF(0.7)
    _, chosen = greedy_points(kernel, x, 40)
    for m in (15, 20, 30, 40):
        greedy = missing(kernel, x, x[chosen[:m]])
        drawn = [missing(kernel, x, x[torch.randperm(200, generator=generator)[:m]]) for _ in range(5)]
        assert greedy < min(drawn)


def test_greedy_stops_where_nothing_is_left_and_skips_duplicates():
    x = points(6).repeat(4, 1)
    z, chosen = greedy_points(k.RBF(0.5), x, 20)
    assert len(z) == 6
    assert sorted(i % 6 for i in chosen) == list(range(6))
    assert len(greedy_points(k.Linear(), points(40, 3), 10)[1]) == 3  # the rank of the kernel


def test_kmeans_centres_lie_in_their_clusters_and_repeat_with_the_seed():
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], dtype=torch.float64)
    x = torch.cat([centre + 0.1 * points(30, seed=i) for i, centre in enumerate(centres)])
    z = kmeans_points(x, 3)
    assert z.dtype == torch.float64
    nearest = torch.cdist(z, centres)
    assert nearest.argmin(1).unique().tolist() == [0, 1, 2]
    assert nearest.amin(1).max() < 0.1
    torch.testing.assert_close(z, kmeans_points(x, 3), rtol=0, atol=0)


def test_kmeans_with_few_distinct_rows_returns_them_once():
    x = points(4).repeat(5, 1)
    z = kmeans_points(x, 10)
    assert sorted(map(tuple, z.tolist())) == sorted(map(tuple, points(4).tolist()))


def test_kmeans_in_mini_batches(monkeypatch):
    monkeypatch.setattr(inducing_points, "_MINI_BATCHES_ABOVE", 100)
    x = points(400)
    z = kmeans_points(x, 12)
    assert z.shape == (12, 2)
    spread = torch.cdist(x, z).amin(1).square().sum()
    assert spread < 0.25 * (x - x.mean(0)).square().sum()


@pytest.mark.parametrize(
    ("x", "m", "message"),
    [(torch.zeros(3, 1), 0, "m must be at least 1"), (torch.tensor([[torch.nan]]), 1, "only finite values")],
)
def test_bad_arguments_are_named(x, m, message):
    for choose in (kmeans_points, lambda x, m: greedy_points(k.RBF(), x, m)):
        with pytest.raises(InputError, match=message):
            choose(x, m)
