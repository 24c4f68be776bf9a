"""Gaussian-process classification: a latent function behind a sigmoid, its posterior approximated by a Gaussian."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.likelihoods.bernoulli import PROBIT_SLOPE, averaged_sigmoid
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.linalg import cholesky
from stratagp.models.data_checks import check_data
from stratagp.models.memory import check_memory
from stratagp.objectives.ep import ep_log_evidence
from stratagp.objectives.evidence import CovarianceOf
from stratagp.objectives.laplace import laplace_log_evidence
from stratagp.objectives.local_bound import local_evidence_bound
from stratagp.objectives.sites import Sites, WarmStart
from stratagp.objectives.softmax_laplace import Curvature, softmax_curvature, softmax_log_evidence
from stratagp.parameterised import Parameterised
from stratagp.types import Gaussian, PointsLike

LINKS_OF = {"laplace": ("logit", "probit"), "ep": ("probit",), "variational": ("logit",)}
_MATRICES = 3  # of size n × n that the evidence of one latent function needs at least


class GPClassification(Parameterised):
    """``f ~ GP(0, kernel + intercept)`` and ``p(t = 1 | f) = σ(f)`` or ``Φ(f)``, for labels ``t`` that are 0 or 1.

    Arguments:
        kernel: the covariance function, bound to its columns.
        inference: ``"laplace"``, ``"ep"`` (the most accurate, probit only) or ``"variational"``
            (the evidence is a true lower bound, logit only).
        link: ``"logit"`` or ``"probit"``; by default the first that the inference supports.
        intercept: the variance of a constant that is added to the function and integrated out: far from all rows the
            function then returns to what gives classes their base rates, instead of to one half.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(-3, 3, 20, dtype=torch.float64)[:, None]
    >>> posterior = GPClassification(k.RBF(variance=4.0)).condition(x, x[:, 0] > 0)
    >>> posterior.probabilities(torch.tensor([[-2.0], [0.0], [2.0]], dtype=torch.float64))
    tensor([0.1161, 0.5000, 0.8839], dtype=torch.float64)
    """

    def __init__(
        self, kernel: Kernel, inference: str = "laplace", link: str | None = None, intercept: float = 0.0
    ) -> None:
        super().__init__()
        if inference not in LINKS_OF:
            raise InputError(f"inference must be one of {', '.join(LINKS_OF)}; got {inference!r}")
        link = LINKS_OF[inference][0] if link is None else link
        if link not in LINKS_OF[inference]:
            choice = " or ".join(map(repr, LINKS_OF[inference]))
            raise InputError(f"inference={inference!r} needs link={choice}, got {link!r}")
        if kernel.functions is not None:
            raise InputError(f"two classes need one latent function, but the kernel has {kernel.functions}")
        self.kernel, self.inference, self.link = kernel, inference, link
        self.intercept = _check_intercept(intercept)

    def log_evidence(self, x: PointsLike, t: PointsLike, start: WarmStart | None = None) -> Float[Tensor, ""]:
        """The approximate ``log p(t | x)``: the score of the hyperparameters.

        ``start`` stores where the iteration ended, so that the next call with the same data begins there.
        """
        x, t = _check_binary(self.kernel, x, t)
        value, sites = self._approximate(x, t, _earlier(start, t.shape))
        if start is not None:
            start.state = sites
        return value

    def condition(self, x: PointsLike, t: PointsLike) -> BinaryPosterior:
        """The process given the labels."""
        x, t = _check_binary(self.kernel, x, t)
        with torch.no_grad():
            _, sites = self._approximate(x, t, None)
            root = sites.precision.sqrt()
            scaled = root[:, None] * (self.kernel(x) + self.intercept) * root
            factor = cholesky(
                scaled + torch.eye(len(t), dtype=root.dtype, device=root.device), CovarianceOf(self.kernel)
            )
        return BinaryPosterior(copy.deepcopy(self), x, sites, factor)

    def _approximate(self, x: PointsLike, t: Tensor, start: Sites | None) -> tuple[Tensor, Sites]:
        covariance = self.kernel(x) + self.intercept
        t = t.to(covariance)
        if self.inference == "ep":
            return ep_log_evidence(covariance, t, start, CovarianceOf(self.kernel))
        if self.inference == "variational":
            return local_evidence_bound(covariance, t, start, CovarianceOf(self.kernel))
        return laplace_log_evidence(covariance, t, self.link, start, CovarianceOf(self.kernel))


@dataclass(frozen=True)
class BinaryPosterior:
    """A latent process given labels: Gaussian sites, and the factor of ``B = I + √τ K √τ``.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(-3, 3, 20, dtype=torch.float64)[:, None]
    >>> posterior = GPClassification(k.RBF(variance=4.0), "ep").condition(x, x[:, 0] > 0)
    >>> posterior.probabilities(torch.tensor([[0.0]], dtype=torch.float64)).round(decimals=4)
    tensor([0.5000], dtype=torch.float64)
    """

    prior: GPClassification
    x: Any  # points `n d`, or a list of objects
    sites: Sites
    factor: Float[Tensor, "n n"]

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean ``kᵀα`` and variance ``k(x, x) − |L⁻¹√τ k|²`` of the latent function at each row, as ``n 1``."""
        with torch.no_grad():
            cross = self.prior.kernel(self.x, x) + self.prior.intercept
            right = self.sites.precision.sqrt()[:, None] * cross
            half = torch.linalg.solve_triangular(self.factor, right, upper=False)
            own = self.prior.kernel.diag(x) + self.prior.intercept
            var = (own - half.square().sum(0)).clamp_min(0)
            return Gaussian((cross.mT @ self.sites.weights)[:, None], var[:, None])

    def probabilities(self, x: PointsLike, method: str = "quadrature") -> Float[Tensor, " m"]:
        """``p(t = 1)`` at each row of ``x``, averaged over the latent function.

        ``"quadrature"`` is exact for the probit link and accurate for the logistic one; ``"kappa"`` is the cheap
        ``σ(κ mean)`` with ``κ = (1 + π var/8)^(−½)``, within 0.02 (equal for the probit link).
        """
        return linked(self.marginals(x), self.prior.link, method)


class MulticlassLaplace(Parameterised):
    """``f_c ~ GP(0, kernel + intercept)`` for each class, ``p(t = c | f) = softmax(f)_c``, for labels from 0.

    Arguments:
        kernel: the covariance function of all classes, or one with a function axis: ``kernel.replicate(n_classes)``.
        n_classes: the number of classes.
        intercept: the variance of a constant of each function, as for :class:`GPClassification`.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(-3, 3, 21, dtype=torch.float64)[:, None]
    >>> t = (x[:, 0] > -1).int() + (x[:, 0] > 1).int()
    >>> posterior = MulticlassLaplace(k.RBF(variance=9.0), 3).condition(x, t)
    >>> posterior.probabilities(x[::10]).argmax(-1)
    tensor([0, 1, 2])
    """

    def __init__(self, kernel: Kernel, n_classes: int, intercept: float = 0.0) -> None:
        super().__init__()
        if n_classes < 2:
            raise InputError(f"n_classes must be at least 2, got {n_classes}")
        if kernel.functions not in (None, n_classes):
            raise InputError(
                f"the kernel has {kernel.functions} functions for {n_classes} classes: use one kernel for all, or "
                f"kernel.replicate({n_classes})"
            )
        self.kernel, self.n_classes, self.intercept = kernel, n_classes, _check_intercept(intercept)

    def log_evidence(self, x: PointsLike, t: PointsLike, start: WarmStart | None = None) -> Float[Tensor, ""]:
        """Laplace's ``log p(t | x)``; ``start`` as for :class:`GPClassification`."""
        x, labels = _check_classes(self.kernel, x, t, self.n_classes)
        covariance = self.kernel(x) + self.intercept
        rows = self._rows(labels, covariance)
        value, weights = softmax_log_evidence(covariance, rows, _earlier(start, rows.shape), CovarianceOf(self.kernel))
        if start is not None:
            start.state = weights
        return value

    def condition(self, x: Any, t: Any) -> MulticlassPosterior:
        """The processes given the labels."""
        x, labels = _check_classes(self.kernel, x, t, self.n_classes)
        with torch.no_grad():
            covariance = (self.kernel(x) + self.intercept).expand(self.n_classes, len(x), len(x))
            _, weights = softmax_log_evidence(
                covariance, self._rows(labels, covariance), None, CovarianceOf(self.kernel)
            )
            f = (covariance @ weights[..., None]).squeeze(-1)
            return MulticlassPosterior(
                copy.deepcopy(self), x, weights, softmax_curvature(covariance, f, CovarianceOf(self.kernel))
            )

    def _rows(self, labels: Tensor, like: Tensor) -> Float[Tensor, "c n"]:
        return torch.nn.functional.one_hot(labels, self.n_classes).mT.to(like)


@dataclass(frozen=True)
class MulticlassPosterior:
    """Latent processes given labels: the weights of their means and the curvature of the likelihood at the mode.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(-3, 3, 21, dtype=torch.float64)[:, None]
    >>> posterior = MulticlassLaplace(k.RBF(variance=9.0), 2).condition(x, (x[:, 0] > 0).int())
    >>> posterior.probabilities(x[:1]).sum(-1).round(decimals=6)
    tensor([1.], dtype=torch.float64)
    """

    prior: MulticlassLaplace
    x: Any  # points `n d`, or a list of objects
    weights: Float[Tensor, "c n"]
    curvature: Curvature

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance of each latent function at each row of ``x``, as ``n c``; classes are correlated."""
        mean, covariance = self.joint(x)
        return Gaussian(mean, covariance.diagonal(dim1=-2, dim2=-1))

    def joint(self, x: PointsLike) -> tuple[Float[Tensor, "m c"], Float[Tensor, "m c c"]]:
        """Mean and covariance over the classes at each row: ``δ(k − kᵀE_c k) + kᵀE_c (ΣE)⁻¹ E_c' k``."""
        with torch.no_grad():
            cross = self.prior.kernel(self.x, x) + self.prior.intercept
            cross = cross.expand(self.prior.n_classes, *cross.shape[-2:])
            blocks = self.curvature.blocks @ cross
            own = self.prior.kernel.diag(x) + self.prior.intercept - (blocks * cross).sum(1)
            half = torch.linalg.solve_triangular(self.curvature.factor, blocks, upper=False)
            covariance = torch.diag_embed(own.clamp_min(0).mT) + torch.einsum("cnm,dnm->mcd", half, half)
            return (cross.mT @ self.weights[..., None]).squeeze(-1).mT, covariance

    def probabilities(self, x: PointsLike) -> Float[Tensor, "m c"]:
        """``p(t = c)`` at each row of ``x``: the softmax averaged over quadrature nodes of the latent values."""
        mean, covariance = self.joint(x)
        points, log_weights = normal_nodes(self.prior.n_classes, mean)
        root = cholesky(covariance + 1e-10 * torch.eye(len(mean.mT), dtype=mean.dtype, device=mean.device))
        f = mean + torch.einsum("mcd,sd->smc", root, points)
        return (f.softmax(-1) * log_weights.exp()[:, None, None]).sum(0)


def linked(belief: Gaussian, link: str, method: str = "quadrature") -> Float[Tensor, " n"]:
    """``E σ(f)`` or ``E Φ(f)`` for beliefs ``n 1`` about the latent function; ``method`` as above.

    >>> linked(Gaussian(torch.ones(1, 1), 3 * torch.ones(1, 1)), "probit")  # Φ(½)
    tensor([0.6915])
    """
    if method not in ("quadrature", "kappa"):
        raise InputError(f"method must be 'quadrature' or 'kappa', got {method!r}")
    if link == "probit":
        return torch.special.ndtr(belief.mean / (1 + belief.var).sqrt()).squeeze(-1)
    if method == "kappa":
        return torch.sigmoid(belief.mean * (1 + PROBIT_SLOPE**2 * belief.var).rsqrt()).squeeze(-1)
    return averaged_sigmoid(belief)


def _check_intercept(variance: float) -> float:
    if not 0 <= variance < torch.inf:
        raise InputError(f"intercept must be a variance, 0 or more, got {variance}")
    return variance


def _check_binary(kernel: Kernel, x: PointsLike, t: PointsLike) -> tuple[Any, Tensor]:
    x, t = check_data(kernel, x, t, "t")
    wrong = ~((t == 0) | (t == 1))
    if wrong.any():
        raise InputError(f"labels t must be 0 or 1, got {t[wrong][0].item()} in row {int(wrong.nonzero()[0, 0])}")
    check_memory(len(t), "classification", _MATRICES)
    return x, _check_two_seen(t).to(torch.float64)


def _check_classes(kernel: Kernel, x: PointsLike, t: PointsLike, n_classes: int) -> tuple[Any, Tensor]:
    x, t = check_data(kernel, x, t, "t")
    wrong = ~((t >= 0) & (t < n_classes) & (t == t.round()))
    if wrong.any():
        row = int(wrong.nonzero()[0, 0])
        raise InputError(f"labels t must be whole numbers from 0 to {n_classes - 1}, got {t[row].item()} in row {row}")
    check_memory(len(t), "classification", _MATRICES * n_classes)
    return x, _check_two_seen(t).long()


def _check_two_seen(t: Tensor) -> Tensor:
    if not t.max() > t.min():
        raise InputError(f"labels t must contain at least two classes; all {len(t)} are {t[0].item():g}")
    return t


def _earlier(start: WarmStart | None, shape: torch.Size) -> Any:
    """The end of an earlier call, if its labels had the same shape."""
    state = None if start is None else start.state
    weights = state.weights if isinstance(state, Sites) else state
    return state if weights is not None and weights.shape == shape else None
