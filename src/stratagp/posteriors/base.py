"""What a variational posterior is: a belief about whitened inducing values, its marginals, its cost and its draws."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg.triangular import Whitening, whiten
from stratagp.parameterised import Parameterised
from stratagp.types import Gaussian, Mixture


class Posterior(Parameterised, ABC):
    """``q(v)`` for the whitened values ``v = L⁻¹u`` of ``q`` functions at ``m`` inducing points, prior ``N(0, I)``.

    With ``A = L⁻¹ Kzx`` the function values at row ``n`` are ``aₙᵀv + N(0, kₙₙ − |aₙ|²)``: a posterior needs to know
    nothing else about the kernel.

    >>> from stratagp.posteriors import FullGaussian
    >>> belief = FullGaussian(5, 2)
    >>> belief.shape, belief.kl().item()  # it starts at the prior
    ((2, 5), 0.0)
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The numbers of functions and of inducing values, ``(q, m)``."""

    @abstractmethod
    def marginals(self, a: Float[Tensor, "*q m n"], kdiag: Float[Tensor, "*q n"]) -> Gaussian | Mixture:
        """The belief about the functions at ``n`` rows, in the precision of ``a``; functions may share both."""

    def from_covariance(
        self, kzx: Float[Tensor, "*q m n"], kdiag: Float[Tensor, "*q n"], whitening: Whitening
    ) -> Gaussian | Mixture:
        """The same from ``Kzx`` and its whitening."""
        return self.marginals(whiten(kzx, whitening), kdiag)

    @abstractmethod
    def kl(self) -> Float[Tensor, ""]:
        """What the bound subtracts: ``KL(q(v) ‖ N(0, I))``, or an upper bound on it. In float64."""

    @abstractmethod
    def draw(self, generator: torch.Generator | None = None) -> Float[Tensor, "q m"]:
        """One draw of ``v``, in float64."""
