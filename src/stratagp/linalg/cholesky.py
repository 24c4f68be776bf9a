"""Cholesky factors with a policy for matrices that are not quite positive definite.

The policy: factor the matrix as it is; if that fails add jitter to the diagonal, from 1e-10 (float64) or 1e-7
(float32) of the mean diagonal up to 1e-3, ten times more at each try, and warn how much was needed; if that fails too,
raise an error that names the kernel, the likely cause and the remedy. NaN and infinity raise an error at once.
"""

import warnings

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError, NotPositiveDefiniteError, NumericalWarning
from stratagp.linalg import blocked

LARGEST_JITTER = 1e-3
_EIGENVALUE_LIMIT = 2000  # above this many rows a failed matrix is reported without its smallest eigenvalue


def cholesky(a: Float[Tensor, "..."], name: object = "the matrix") -> Float[Tensor, "*q n n"]:
    """Lower triangular ``L`` with ``L Lᵀ = A``, by the jitter policy of this module.

    ``name`` identifies the matrix in warnings and errors. Gradients flow to ``a``. In a batch only the matrices
    that need jitter get it.

    >>> cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    check_square(a, name)
    factor, info = torch.linalg.cholesky_ex(a)
    failed = _failed(factor, info)
    if not failed.any():
        return factor
    _refuse_bad_entries(a, name)
    level = a.diagonal(dim1=-2, dim2=-1).mean(-1)
    jitter = torch.zeros_like(level)
    for relative in jitter_steps(a.dtype):
        jitter = torch.where(failed, relative * level, jitter)
        factor, info = torch.linalg.cholesky_ex(a + torch.diag_embed(jitter[..., None].expand(a.shape[:-1])))
        failed = _failed(factor, info)
        if not failed.any():
            warn_jitter(name, relative)
            return factor
    raise NotPositiveDefiniteError(diagnose(a.reshape(-1, *a.shape[-2:])[failed.reshape(-1)][0], name))


def blocked_factor(
    covariance: Float[Tensor, "n n"], noise: Float[Tensor, "..."], name: object = "the covariance"
) -> tuple[Float[Tensor, "n n"], list[Tensor]]:
    """The same policy for large matrices: the factor of ``covariance + diag(noise)`` as in ``blocked.factor_``.

    Returns one new n × n buffer with ``U`` in its upper triangle, and the inverses of its diagonal blocks.
    """
    buffer = torch.empty_like(covariance, memory_format=torch.contiguous_format)
    for relative in [0.0, *jitter_steps(covariance.dtype)]:
        buffer.copy_(covariance)
        buffer.diagonal().add_(noise)
        if relative:
            buffer.diagonal().add_(relative * float(covariance.diagonal().mean()))
        inverses = blocked.factor_(buffer)
        if inverses is not None:
            if relative:
                warn_jitter(name, relative)
            return buffer, inverses
        if not relative:
            _refuse_bad_entries(covariance + torch.diag(noise.expand(len(covariance))), name)
    raise NotPositiveDefiniteError(diagnose(covariance + torch.diag(noise.expand(len(covariance))), name))


def check_square(a: Tensor, name: object) -> None:
    """Refuse matrices that are not square, or whose first row and first column differ (a cheap sign of asymmetry)."""
    if a.dim() < 2 or a.shape[-1] != a.shape[-2]:
        raise InputError(f"{name} must be square to have a Cholesky factor, got shape {tuple(a.shape)}")
    row, column = a.detach()[..., :1, :].mT.nan_to_num(), a.detach()[..., :, :1].nan_to_num()
    if a.numel() and not torch.allclose(row, column, rtol=1e-3, atol=1e-3 * float(row.abs().max())):
        raise NotPositiveDefiniteError(
            f"{name} is not symmetric: its first row and first column differ. A covariance matrix needs "
            "k(x, z) = k(z, x); check the kernel with stratagp.testing.check_kernel"
        )


def jitter_steps(dtype: torch.dtype) -> list[float]:
    """The relative jitters to try, in order."""
    first = -10 if dtype == torch.float64 else -7
    return [10.0**power for power in range(first, -2)]


def warn_jitter(name: object, relative: float) -> None:
    """Warn that jitter was needed."""
    warnings.warn(
        f"{name} is numerically singular; {relative:.0e} of its mean diagonal was added to factor it. To avoid this, "
        "use more noise, fewer near-duplicate rows or shorter lengthscales",
        NumericalWarning,
        stacklevel=4,
    )


def _failed(factor: Tensor, info: Tensor) -> Tensor:
    return (info != 0) | ~factor.diagonal(dim1=-2, dim2=-1).isfinite().all(-1)


def _refuse_bad_entries(a: Tensor, name: object) -> None:
    bad = ~a.detach().isfinite()
    if bad.any():
        row = int(bad.nonzero()[0, -2])
        raise NotPositiveDefiniteError(
            f"{name} has NaN or infinite entries, the first in row {row}. Look for missing values in that row of the "
            "inputs, or for a hyperparameter that diverged (use a smaller learning rate or a prior)"
        )


def diagnose(a: Float[Tensor, "n n"], name: object) -> str:
    """The likely reason why a matrix failed, with the remedy."""
    first = a.detach().double()
    diagonal = first.diagonal()
    low, high = float(diagonal.min()), float(diagonal.max())
    asymmetry = float((first - first.mT).abs().max())
    if asymmetry > 1e-6 * max(high, 1e-300):
        cause = f"it is not symmetric (largest difference {asymmetry:.2g}): check that k(x, z) = k(z, x)"
    elif low <= 0:
        cause = f"its diagonal falls to {low:.3g}: a variance must be positive"
    elif high / low > 1e8:
        cause = f"its diagonal spans {low:.1e} to {high:.1e}: standardise the inputs or bound the kernel's variances"
    elif _duplicate_rows(first):
        cause = "some rows of the data are equal or nearly so: remove duplicates or give the model noise"
    else:
        cause = "the kernel may not be positive definite: test it with stratagp.testing.check_kernel"
    eigenvalue = ""
    if len(first) <= _EIGENVALUE_LIMIT:
        eigenvalue = f" (smallest eigenvalue {float(torch.linalg.eigvalsh(first)[0]):.3g})"
    return (
        f"{name}, {len(first)} × {len(first)}, is not positive definite{eigenvalue}, even with jitter of "
        f"{LARGEST_JITTER:.0e} of its mean diagonal. Likely cause: {cause}"
    )


def _duplicate_rows(a: Float[Tensor, "n n"]) -> bool:
    scale = a.diagonal().rsqrt()
    correlation = (a * scale * scale[:, None]).fill_diagonal_(0)
    return bool((correlation > 1 - 1e-7).any())
