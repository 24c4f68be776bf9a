"""Gaussian sites: what Laplace, EP and the local bound substitute for a likelihood.

Each replaces ``p(tᵢ | fᵢ)`` by ``exp(νᵢ fᵢ − ½ τᵢ fᵢ²)`` times a constant. With a prior ``f ~ N(0, K)``,

    B = I + √τ K √τ,   R = √τ B⁻¹ √τ = (K + τ⁻¹)⁻¹,   α = (I − R K) ν,   q(f) = N(Kα, K − K R K).

The eigenvalues of ``B`` are at least 1, so ``K`` may be singular and precisions may vanish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg import blocked
from stratagp.linalg.cholesky import blocked_factor, check_square
from stratagp.linalg.once import first_derivative_only


class Sites(NamedTuple):
    """Precisions ``τ``, shifts ``ν`` and the weights ``α`` of the posterior mean ``Kα``.

    >>> Sites(torch.ones(2), torch.zeros(2), weights=torch.zeros(2)).precision.tolist()
    [1.0, 1.0]
    """

    precision: Float[Tensor, " n"]
    shift: Float[Tensor, " n"]
    weights: Float[Tensor, " n"]


@dataclass
class WarmStart:
    """Stores where the last evaluation ended, which saves the next one most of its iterations.

    >>> start = WarmStart()  # maximise(lambda: model.log_evidence(x, t, start), model.parameters())
    """

    state: Any = None


class SiteSystem:
    """The matrices of this module for one covariance, in a single buffer: ``B``, then its factor, then ``R``."""

    def __init__(self, covariance: Float[Tensor, "n n"], name: object) -> None:
        check_square(covariance, name)
        self.covariance, self.name = covariance, name
        self.buffer = torch.empty_like(covariance, memory_format=torch.contiguous_format)
        self.inverses: list[Tensor] = []
        self.root = covariance.diagonal()

    def factor_(self, precision: Float[Tensor, " n"]) -> None:
        """Factor ``B = UᵀU`` at these precisions; the policy of ``linalg.cholesky`` applies to an indefinite ``K``."""
        self.root = precision.sqrt()
        self._scale_().diagonal().add_(1)
        inverses = blocked.factor_(self.buffer)
        if inverses is None:
            one = torch.ones((), dtype=precision.dtype, device=precision.device)
            self.buffer, inverses = blocked_factor(self._scale_().clone(), one, self.name)
        self.inverses = inverses

    def _scale_(self) -> Tensor:
        return torch.mul(self.covariance, self.root, out=self.buffer).mul_(self.root[:, None])

    def log_det(self) -> Float[Tensor, ""]:
        """``log |B|``."""
        return 2 * self.buffer.diagonal().log().sum()

    def weights(self, shift: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """``α = (I − R K) ν``."""
        right = self.root * (self.covariance @ shift)
        return shift - self.root * blocked.solve(self.buffer, right[:, None]).squeeze(-1)

    def variances(self) -> Float[Tensor, " n"]:
        """The diagonal of ``K − K R K``, without a difference of inverses."""
        half = torch.linalg.solve_triangular(self.buffer.mT, self.root[:, None] * self.covariance, upper=False)
        return self.covariance.diagonal() - half.square_().sum(0)

    def invert_(self) -> Float[Tensor, " n"]:
        """Turn the buffer into ``R`` and return the diagonal of ``B⁻¹``."""
        blocked.invert_(self.buffer, self.inverses)
        diagonal = self.buffer.diagonal().clone()
        self.buffer.mul_(self.root).mul_(self.root[:, None])
        return diagonal

    def fixed_site_gradient_(self, weights: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
        """``½ (ααᵀ − R)``: the derivative of the evidence by ``K`` at stationary sites."""
        self.invert_()
        return self.buffer.addr_(weights, weights, beta=-0.5, alpha=0.5)


def with_gradient(
    value: Float[Tensor, ""], covariance: Float[Tensor, "n n"], gradient: Float[Tensor, "n n"] | None
) -> Float[Tensor, ""]:
    """``value`` as a function of ``covariance`` with its known derivative; first order only."""
    return value if gradient is None else _WithGradient.apply(covariance, value, gradient)


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, covariance: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient if grad.item() == 1 else grad * gradient, None, None


def climb(
    psi: Callable[[Tensor, Tensor], Tensor], here: tuple[Tensor, Tensor], there: tuple[Tensor, Tensor]
) -> tuple[tuple[Tensor, Tensor], float]:
    """Move from ``here`` to the Newton point ``there``, half as far each time ``psi`` would fall; also the gain."""
    before, length = float(psi(*here)), 1.0
    for _ in range(30):
        point = here[0] + length * (there[0] - here[0]), here[1] + length * (there[1] - here[1])
        gain = float(psi(*point)) - before
        if gain >= -1e-12 * (1 + abs(before)):
            return point, gain
        length /= 2
    return here, 0.0
