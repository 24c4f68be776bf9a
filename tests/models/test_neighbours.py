"""Nearest rows against a full sort of correlations and distances."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.linalg import boxes
from stratagp.models import neighbours
from stratagp.models.neighbours import NeighbourSearch


def points(n, seed=0):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


KERNELS = {
    "stationary": lambda: k.Matern(1.5, lengthscale=[0.5, 2.0, 1.0]),
    "composed": lambda: k.RBF(0.7).on([0, 1]) * k.Exponential(2.0).on(2),
}


def by_sorting(kernel, x, z, m):
    correlation = kernel(z, x) / (kernel.diag(z)[:, None] * kernel.diag(x)).sqrt()
    return correlation.argsort(1, descending=True)[:, :m]


@pytest.mark.parametrize("name", KERNELS)
def test_the_nearest_have_the_highest_correlation(name):
    kernel, x, z = KERNELS[name](), points(50), points(8, 1)
    assert torch.equal(NeighbourSearch(kernel, x).nearest(z, 7), by_sorting(kernel, x, z, 7))


@pytest.mark.parametrize("name", KERNELS)
def test_rows_see_only_rows_before_them(name, monkeypatch):
    monkeypatch.setattr(neighbours, "_CHUNK", 120)  # three points at a time
    kernel, x = KERNELS[name](), points(40)
    rows = torch.arange(40)
    found = NeighbourSearch(kernel, x).nearest(x, 5, before=rows)
    assert torch.equal((found >= 0).sum(1), rows.clamp_max(5))
    for i in range(1, 40):
        truth = by_sorting(kernel, x[:i], x[i : i + 1], 5)[0]
        assert found[i][found[i] >= 0].tolist() == truth.tolist()


@pytest.fixture
def small_boxes(monkeypatch):
    """Boxes of few points for few rows, which are asked however many of them must be looked at."""
    monkeypatch.setattr(boxes, "_SIZE", 8)
    monkeypatch.setattr(boxes, "_PAIRS", 50)  # so that the best are chosen on the way
    monkeypatch.setattr(neighbours, "_BOX_ROWS", 2)
    monkeypatch.setattr(neighbours, "_BOX_POINTS", 0)
    monkeypatch.setattr(neighbours, "_FEW_BOXES", 2)


@pytest.mark.parametrize("n", [3, 40, 301])
def test_boxes_find_the_same_rows(n, small_boxes, monkeypatch):
    kernel, x, z, rows = KERNELS["stationary"](), points(n), points(9, 1), torch.arange(n)
    questions = [(z, 6, None, None), (x, 6, None, rows), (x, 6, rows, None), (x, 50, rows, None)]
    found = [NeighbourSearch(kernel, x).nearest(*question) for question in questions]
    monkeypatch.setattr(neighbours, "_BOX_ROWS", 10**9)
    by_products = [NeighbourSearch(kernel, x).nearest(*question) for question in questions]
    assert all(torch.equal(a, b) for a, b in zip(found, by_products, strict=True))


def test_near_points_share_few_boxes():
    x = torch.rand(20_000, 2, generator=torch.Generator().manual_seed(0))
    assert boxes.Boxes(x).share(x[:50], 20) < 0.2  # of sixteen boxes, one to three


@pytest.mark.parametrize("by", ["products", "boxes"])
def test_equal_rows_do_not_see_themselves(by, request):
    if by == "boxes":
        request.getfixturevalue("small_boxes")
    x = points(4).repeat(3, 1)
    rows = torch.arange(12)
    found = NeighbourSearch(k.RBF(), x).nearest(x, 12, but=rows)
    assert found.shape == (12, 12)
    assert bool((found[:, -1] == -1).all())  # eleven others, and no more
    for i in range(12):
        assert sorted(found[i, :-1].tolist()) == [j for j in range(12) if j != i]


def test_sorting_by_groups_finds_the_same():
    far = torch.rand(5, 1003, generator=torch.Generator().manual_seed(0))
    values, places = neighbours._smallest(far, 7)
    assert torch.equal(places, far.argsort(1)[:, :7])
    assert torch.equal(values, far.sort(1).values[:, :7])


def test_blocks_of_rows_find_the_same(monkeypatch):
    kernel, x, z = KERNELS["stationary"](), points(50), points(8, 1)
    search, rows = NeighbourSearch(kernel, x), torch.arange(50)
    whole = search.nearest(z, 7), search.nearest(x, 7, before=rows), search.nearest(x, 7, but=rows)
    monkeypatch.setattr(neighbours, "_BLOCK", 11)
    parts = search.nearest(z, 7), search.nearest(x, 7, before=rows), search.nearest(x, 7, but=rows)
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


def test_one_value_far_off_does_not_cost_the_others_their_digits():
    x = points(400)
    x[0, 0] = 1e9
    kernel = KERNELS["stationary"]()
    assert torch.equal(NeighbourSearch(kernel, x).nearest(x[5:8], 6), by_sorting(kernel, x, x[5:8], 6))


def test_rows_without_variance_hide_no_others():
    x = points(400)
    x[::4, 0] = 0
    kernel = k.Linear().on(0) * k.RBF(0.5).on([1, 2])
    found, chosen = NeighbourSearch(kernel, x).nearest(x[1:2], 5), x[:, 0] != 0
    correlated = kernel(x[1:2], x[chosen]) / (kernel.diag(x[1:2])[:, None] * kernel.diag(x[chosen])).sqrt()
    assert torch.equal(found[0], chosen.nonzero()[:, 0][correlated.abs().argsort(1, descending=True)[0, :5]])
