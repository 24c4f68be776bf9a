import pytest
import torch

from stratagp.linalg import lower
from stratagp.linalg.lower import lower_inverse, lower_part, lower_product, lower_times, mirror_, transposed_times


@pytest.fixture(params=["one block", "small blocks", "blocks"])
def m(request, monkeypatch):
    """A size, and blocks that it does not fill evenly."""
    if request.param == "small blocks":
        monkeypatch.setattr(lower, "_BLOCK", 3)
    return 400 if request.param == "blocks" else 11


@pytest.mark.parametrize("functions", [((), ()), ((2,), (2,)), ((2,), ()), ((), (2,))])
def test_products_agree_with_dense_ones(m, functions):
    g = torch.Generator().manual_seed(0)
    triangle = torch.randn(*functions[0], m, m, generator=g, dtype=torch.float64).tril()
    x = torch.randn(*functions[1], m, 7, generator=g, dtype=torch.float64)
    y = torch.randn(*functions[0], m, 7, generator=g, dtype=torch.float64)
    torch.testing.assert_close(lower_times(triangle, x), triangle @ x, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(transposed_times(triangle, x), triangle.mT @ x, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(lower_product(x, y), (x @ y.mT).tril(), rtol=1e-13, atol=1e-13)


def test_the_lower_part_of_a_product_and_its_mirror_image(m):
    g = torch.Generator().manual_seed(2)
    triangle = torch.randn(m, m, generator=g, dtype=torch.float64).tril()
    gram = triangle @ triangle.mT
    found = lower_part(triangle, triangle.mT)
    torch.testing.assert_close(found, gram.tril(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mirror_(found), gram, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("functions", [(), (2,)])
def test_inverse_times_the_matrix_is_one(m, functions):
    g = torch.Generator().manual_seed(1)
    triangle = torch.randn(*functions, m, m, generator=g, dtype=torch.float64).tril() / m
    triangle.diagonal(dim1=-2, dim2=-1).abs_().add_(1)
    inverse = lower_inverse(triangle)
    eye = torch.eye(m, dtype=torch.float64).expand_as(triangle)
    torch.testing.assert_close(inverse @ triangle, eye, rtol=0, atol=1e-12)
    torch.testing.assert_close(inverse, inverse.tril(), rtol=0, atol=0)
