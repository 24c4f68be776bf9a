import pytest
import torch

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.linalg import pivoted_cholesky, root


def low_rank(n=30, rank=4, seed=0):
    b = torch.randn(n, rank, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return b @ b.mT


@pytest.mark.parametrize("method", ["cholesky", "eigen", "pivoted"])
def test_roots_of_a_definite_matrix(method):
    a = low_rank(20, 40)
    r = root(a, method)
    torch.testing.assert_close(r @ r.mT, a, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["eigen", "pivoted"])
def test_roots_of_a_semi_definite_matrix(method):
    a = low_rank()
    r = root(a, method)
    torch.testing.assert_close(r @ r.mT, a, rtol=1e-9, atol=1e-9)
    if method == "pivoted":
        assert r.shape == (30, 4)


def test_incomplete_factor_takes_the_largest_variances_first():
    a = torch.diag(torch.tensor([1.0, 9.0, 4.0], dtype=torch.float64))
    r = pivoted_cholesky(a, max_rank=2)
    assert (r @ r.mT).diagonal().tolist() == [0.0, 9.0, 4.0]


def test_errors():
    with pytest.raises(NotPositiveDefiniteError, match="eigenvalue -1"):
        root(-torch.eye(2).double() + torch.diag(torch.tensor([3.0, 0.0])), "eigen")
    with pytest.raises(InputError, match="one of cholesky, eigen, pivoted"):
        root(torch.eye(2), "qr")
