"""Processes given data as plain torch modules: weights and factors are constants, and kernels are graphs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.errors import UnsupportedError
from stratagp.kernels import Constant as ConstantKernel
from stratagp.kernels import Kernel
from stratagp.layers import Inducing
from stratagp.linalg.lower import lower_inverse
from stratagp.means import Constant, Zero
from stratagp.models import (
    BinaryPosterior,
    ExactPosterior,
    GPClassification,
    MulticlassLaplace,
    StudentTPosterior,
)
from stratagp.models.sparse import SparsePosterior
from stratagp.posteriors import Delta, DiagonalGaussian, FullGaussian, MixturePosterior
from stratagp.types import Gaussian, Mixture


class ProcessGraph(nn.Module):
    """``m(x) + k(x, z) w`` and ``s {k(x, x) − |A k(z, x)|² + |B k(z, x)|²}``, each ``*s n q``.

    Arguments:
        z: points ``m d``, or ``q m d`` for each function.
        weights: ``w``, ``q m``.
        narrow, widen: ``A`` and ``B``, ``m m`` or ``q m m``; the exact process has no ``B``.
        scale: ``s``, of a Student-t process.
        log_weights: of the components of a mixture, whose functions stand side by side.
    """

    z: Tensor
    weights: Tensor
    narrow: Tensor
    widen: Tensor | None
    level: Tensor
    log_weights: Tensor | None

    def __init__(
        self,
        kernel: Kernel,
        mean: Any,
        z: Tensor,
        weights: Tensor,
        narrow: Tensor,
        widen: Tensor | None = None,
        scale: float = 1.0,
        log_weights: Tensor | None = None,
    ) -> None:
        super().__init__()
        self._kernel, self.scale = [frozen_kernel(kernel, z)], scale
        fixed = isinstance(mean, (Constant, Zero))
        self._mean = [] if fixed else [copy.deepcopy(mean)]  # in a list: its parameters are constants of the graph
        self.register_buffer("level", mean.value.detach().clone() if isinstance(mean, Constant) else torch.zeros(()))
        constants = {"z": z, "weights": weights, "narrow": narrow, "widen": widen, "log_weights": log_weights}
        for name, value in constants.items():
            self.register_buffer(name, None if value is None else value.detach().double().contiguous().clone())

    def forward(self, x: Tensor) -> Gaussian | Mixture:
        """The belief at points ``*s n d``."""
        rows = x.reshape(-1, x.shape[-1])
        kernel = self._kernel[0]
        cross, own = kernel.plain(rows, self.z), kernel.diag(rows)  # n m, or q n m
        if self.log_weights is not None and cross.dim() == 3:
            cross, own = (part.repeat(len(self.log_weights), *[1] * (part.dim() - 1)) for part in (cross, own))
        mean = cross @ self.weights[..., None]  # q n 1
        var = own[..., None] - (cross @ self.narrow.mT).square().sum(-1, keepdim=True)
        if self.widen is not None:
            var = var + (cross @ self.widen.mT).square().sum(-1, keepdim=True)
        prior = self._mean[0].forward(rows)[:, None] if self._mean else self.level
        found = prior + mean.squeeze(-1).mT, self.scale * (var.clamp_min(0) + 0 * mean).squeeze(-1).mT
        if self.log_weights is None:
            return Gaussian(*(part.reshape(*x.shape[:-1], -1) for part in found))
        k = len(self.log_weights)
        parts = (part.unflatten(-1, (k, -1)).movedim(-2, 0).reshape(k, *x.shape[:-1], -1) for part in found)
        return Mixture(self.log_weights, Gaussian(*parts))


def frozen_kernel(kernel: Kernel, z: Tensor) -> Kernel:
    """A copy of a kernel whose parameters are constants, for a list that hides them; refuses one without a formula."""
    frozen = copy.deepcopy(kernel).cpu().double().requires_grad_(False)
    row = z.detach().cpu().double()[..., :1, :]
    try:
        frozen.plain(row, row)
    except UnsupportedError as error:
        raise UnsupportedError(
            "export knows RBF, RationalQuadratic, Matern of ν = ½, 1½ and 2½, Periodic, Linear, Polynomial and "
            f"Constant kernels, their sums and products and .on(columns), but not {kernel}: save the model instead"
        ) from error
    return frozen


def process_of_posterior(posterior: Any) -> ProcessGraph:
    """The process of one target of a regressor in closed form."""
    if isinstance(posterior, StudentTPosterior):
        return _of_exact(posterior.gaussian, posterior.scale)
    if isinstance(posterior, ExactPosterior):
        if posterior.factor.dtype != torch.float64:
            raise UnsupportedError("export is for a factor in double precision, of 20,000 rows at most: fit fewer rows")
        return _of_exact(posterior)
    if isinstance(posterior, SparsePosterior):
        narrow = _inverse(posterior.factor)
        widen = _inverse(posterior.inner) @ narrow
        prior, weights = posterior.prior, widen.mT @ posterior.alpha
        return ProcessGraph(prior.kernel, prior.mean, posterior.z, weights[None], narrow, widen)
    raise UnsupportedError(
        "export is for exact, sparse and stochastic inference of independent targets: Vecchia's process and correlated "
        "targets have no constants to export; save the model instead"
    )


def _of_exact(posterior: ExactPosterior, scale: float = 1.0) -> ProcessGraph:
    prior, narrow = posterior.prior, _inverse(posterior.factor)
    return ProcessGraph(prior.kernel, prior.mean, posterior.x, posterior.alpha[None], narrow, scale=scale)


def process_of_classes(posterior: BinaryPosterior) -> ProcessGraph:
    """The latent function of two classes: ``A = L⁻¹√τ`` for the factor of ``I + √τ K √τ``."""
    narrow = _inverse(posterior.factor) * posterior.sites.precision.sqrt()
    return ProcessGraph(with_intercept(posterior.prior), Zero(), posterior.x, posterior.sites.weights[None], narrow)


def with_intercept(prior: GPClassification | MulticlassLaplace) -> Kernel:
    """The kernel of the latent functions with their constant."""
    return prior.kernel + ConstantKernel(prior.intercept) if prior.intercept else prior.kernel


def process_of_layer(layer: Inducing) -> ProcessGraph:
    """The processes of a layer of inducing points."""
    with torch.no_grad():
        narrow, z = layer.whitener(), layer.z
        mean, root, log_weights = _whitened(layer.posterior)
        if log_weights is not None and narrow.dim() == 3:
            narrow = narrow.repeat(len(log_weights), 1, 1)
        weights = (narrow.mT @ mean[..., None]).squeeze(-1)
        widen = None if root is None else root.mT @ narrow
        return ProcessGraph(layer.kernel, layer.mean, z, weights, narrow, widen, log_weights=log_weights)


def _whitened(posterior: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Mean, root of the covariance and log weights of whitened values; without a root where they are points."""
    if isinstance(posterior, MixturePosterior):
        mean, root, _ = _whitened(posterior.components)
        return mean, root, posterior.log_weights
    if isinstance(posterior, FullGaussian):
        return posterior.mean.double(), posterior.scale.double().tril(), None
    if isinstance(posterior, DiagonalGaussian):
        return posterior.mean.double(), posterior.scale.double().diag_embed(), None
    if isinstance(posterior, Delta):
        return posterior.mean.double(), None, None
    raise UnsupportedError(
        f"export does not know posteriors of type {type(posterior).__name__}: save the model instead"
    )


def _inverse(factor: Tensor) -> Tensor:
    return lower_inverse(factor.detach().double())
