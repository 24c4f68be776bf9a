import warnings

import pytest
import torch
from torch.autograd import gradcheck

from stratagp.errors import InputError, NotPositiveDefiniteError, NumericalWarning
from stratagp.linalg import blocked, cholesky


def spd(n, *batch, seed=0, dtype=torch.float64):
    b = torch.randn(*batch, n, n + 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (b @ b.mT).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factor_of_a_batch(dtype):
    a = spd(6, 3, dtype=dtype)
    factor = cholesky(a)
    torch.testing.assert_close(factor @ factor.mT, a)
    assert torch.equal(factor, factor.tril())


def test_gradient():
    b = spd(4, 2).requires_grad_()
    assert gradcheck(lambda b: cholesky(b @ b.mT + torch.eye(4)), b)


@pytest.mark.parametrize(("dtype", "jitter"), [(torch.float64, 1e-10), (torch.float32, 1e-7)])
def test_singular_matrix_gets_the_first_jitter_and_a_warning(dtype, jitter):
    good, singular = spd(4, dtype=dtype), torch.ones(4, 4, dtype=dtype) * 4
    singular[0, 0] -= 1e-3 * jitter
    singular = singular - 1e-2 * jitter * torch.eye(4, dtype=dtype)
    with pytest.warns(NumericalWarning, match="the test matrix is numerically singular"):
        factor = cholesky(torch.stack([good, singular]), "the test matrix")
    assert torch.equal(factor[0], torch.linalg.cholesky(good))  # untouched
    error = (factor[1] @ factor[1].mT - singular).abs().max()
    assert 0 < error <= 1e-3 * 4


def test_no_warning_where_none_is_due():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cholesky(spd(5))


def put(a, i, j, value):
    a = a.clone()
    a[i, j] = value
    return a


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda a: put(a, 3, 2, torch.nan), "NaN or infinite.*row 3"),
        (lambda a: put(a, 0, 0, torch.nan), "NaN or infinite.*row 0"),
        (lambda a: torch.stack([torch.eye(6).double(), a - 50 * torch.eye(6)]), "smallest eigenvalue -"),
        (lambda a: a - 50 * torch.eye(6), "smallest eigenvalue -"),
        (lambda a: put(a, 1, 1, -1.0), "diagonal falls to -1"),
        (lambda a: put(a, 0, 4, 900.0), "not symmetric"),
        (lambda a: put(a, 4, 3, 900.0), "not symmetric"),
    ],
)
def test_error_names_the_cause(spoil, message):
    with pytest.raises(NotPositiveDefiniteError, match=f"RBF kernel.*{message}"):
        cholesky(spoil(spd(6)), "the RBF kernel matrix")


def test_duplicate_rows_and_scale_are_recognised():
    row = torch.tensor([[1.0, 1.0, 0.3], [1.0, 1.0, -0.3], [0.3, -0.3, 1.0]]).double()
    with pytest.raises(NotPositiveDefiniteError, match="remove duplicates or give the model noise"):
        cholesky(row)
    scaled = torch.tensor([[1e-10, 1.0], [1.0, 1.0]]).double()
    with pytest.raises(NotPositiveDefiniteError, match="standardise the inputs"):
        cholesky(scaled)


def test_shape_is_checked():
    with pytest.raises(InputError, match="must be square"):
        cholesky(torch.ones(3, 2))


@pytest.mark.parametrize("block", [7, 32, 100])
@pytest.mark.parametrize("n", [1, 31, 64, 100])
def test_blocked_factor_and_inverse(n, block):
    a = spd(n)
    buffer = a.clone()
    inverses = blocked.factor_(buffer, block)
    u = buffer.triu()
    torch.testing.assert_close(u.mT @ u, a)
    b = torch.randn(n, 2, dtype=torch.float64)
    torch.testing.assert_close(blocked.solve(buffer, b), torch.linalg.solve(a, b), rtol=1e-7, atol=1e-9)
    blocked.invert_(buffer, inverses)
    torch.testing.assert_close(buffer, buffer.mT, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(buffer @ a, torch.eye(n).double(), rtol=0, atol=1e-8)


def test_blocked_inverse_is_as_accurate_as_lapack_when_ill_conditioned():
    n = 300
    q, _ = torch.linalg.qr(torch.randn(n, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    spectrum = torch.logspace(0, -10, n, dtype=torch.float64)
    a, truth = (q * spectrum) @ q.mT, (q / spectrum) @ q.mT
    a = (a + a.mT) / 2
    buffer = a.clone()
    blocked.invert_(buffer, blocked.factor_(buffer, 32))
    ours = (buffer - truth).abs().max()
    lapack = (torch.cholesky_inverse(torch.linalg.cholesky(a)) - truth).abs().max()
    assert ours <= 10 * lapack


def test_blocked_factor_reports_failure():
    a = spd(50)
    a[40, 40] = -1.0
    assert blocked.factor_(a.clone(), 16) is None
    a[3, 4] = a[4, 3] = torch.nan
    assert blocked.factor_(a.clone(), 16) is None
