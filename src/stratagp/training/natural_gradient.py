"""Natural gradients for Gaussian posteriors: steps in the geometry of distributions, not of their parameters.

For ``q = N(m, S)`` the natural gradient with respect to the natural parameters ``(S⁻¹m, −½S⁻¹)`` is the plain gradient
with respect to the expectation parameters ``(m, S + mmᵀ)``. A step of size ρ up the bound ``ℒ`` is therefore

    S⁻¹ ← S⁻¹ − 2ρ ∂ℒ/∂S,        m ← m + ρ S ∂ℒ/∂m        (with the new S),

which for a Gaussian likelihood and ρ = 1 is optimal in one step (Hensman et al. 2013; Salimbeni et al. 2018).

The posterior is kept as its factor, ``S = T Tᵀ``. From the gradient ``T̄`` of the factor, and ``P`` the lower triangle
of ``TᵀT̄`` with half its diagonal, ``∂ℒ/∂S = ½ T⁻ᵀ (P + Pᵀ) T⁻¹``, so that

    S⁻¹ ← T⁻ᵀ B T⁻¹,    B = I − ρ (P + Pᵀ) = V Vᵀ  with V upper triangular,    T ← T V⁻ᵀ,

without an inverse of ``S``. If ``B`` is not positive definite (a likelihood that is not log-concave), ρ is halved.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.posteriors import FullGaussian

_HALVINGS = 20


def natural_step(posterior: FullGaussian, rate: float = 1.0) -> float:
    """One natural-gradient step of size ``rate`` down the loss whose gradients ``posterior`` holds; returns the size.

    The loss must be the negative bound itself, not a multiple of it. ``rate`` is in (0, 1]; the returned size is
    smaller if the step would leave the positive definite matrices, and 0 if the gradient is not finite.

    >>> posterior = FullGaussian(1)
    >>> fit = -0.5 * ((posterior.mean - 2).square() + posterior.scale.square()).sum()  # y = 2 with unit noise, m = 1
    >>> (posterior.kl() - fit).backward()
    >>> natural_step(posterior)
    1.0
    >>> round(posterior.mean.item(), 6), round(posterior.scale.item() ** 2, 6)  # the posterior is N(1, ½)
    (1.0, 0.5)
    """
    if not 0 < rate <= 1:
        raise InputError(f"rate must be above 0 and at most 1, got {rate}")
    if posterior.mean.grad is None or posterior.scale.grad is None:
        raise InputError("posterior has no gradients: call backward() on the negative bound first")
    with torch.no_grad():
        scale = posterior.scale.double().tril()
        slope = _symmetric(scale, -posterior.scale.grad.double().tril())
        for halving in range(_HALVINGS):
            taken = rate * 0.5**halving
            root = _reverse_cholesky(torch.eye(scale.shape[-1]).to(scale) - taken * slope)
            if root is not None:
                new = torch.linalg.solve_triangular(root.mT, scale, upper=False, left=False)
                uphill = -posterior.mean.grad.double()[..., None]
                posterior.mean.add_(taken * (new @ (new.mT @ uphill)).squeeze(-1))
                posterior.scale.copy_(new)
                return taken
    return 0.0


def _symmetric(scale: Float[Tensor, "q m m"], gradient: Float[Tensor, "q m m"]) -> Float[Tensor, "q m m"]:
    """``P + Pᵀ`` for the lower triangle ``P`` of ``TᵀT̄`` with half its diagonal."""
    lower = (scale.mT @ gradient).tril()
    return lower + lower.mT - torch.diag_embed(lower.diagonal(dim1=-2, dim2=-1))


def _reverse_cholesky(b: Float[Tensor, "q m m"]) -> Float[Tensor, "q m m"] | None:
    """Upper triangular ``V`` with ``V Vᵀ = B``: the Cholesky factor from the other end. None if there is none."""
    factor, info = torch.linalg.cholesky_ex(b.flip(-2, -1))
    if bool((info != 0).any()) or not bool(factor.diagonal(dim1=-2, dim2=-1).isfinite().all()):
        return None
    return factor.flip(-2, -1)
