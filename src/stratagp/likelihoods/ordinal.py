"""Ordered categories: a latent function with noise, cut into intervals."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.special import log_ndtr

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood, at_nodes
from stratagp.parameters import positive, real
from stratagp.types import Gaussian

_LINKS = ("logit", "probit")
_FAR = 1e3  # a cut beyond everything, whose square is safe in single precision


class Ordinal(Likelihood):
    """``P(y ≤ k | f) = σ(b_k − f)`` for categories 0 … K − 1 and learnt cuts ``b₀ < … < b_{K−2}``.

    ``σ`` is the normal distribution ``Φ`` or the logistic function: ``y`` tells between which cuts ``f`` plus noise of
    unit scale lies. With the probit link probabilities have the closed form ``E σ(b − f) = Φ((b − mean)/√(1 + var))``.
    Predictions are the mean and variance of the category's number; :meth:`probabilities` are those of each category.

    Arguments:
        n_classes: the number K of categories.
        cuts: K − 1 increasing start values; by default quantiles of ``N(0, 2)``, so that all categories are
            equally probable for ``f ~ N(0, 1)`` and the probit link.
        link: ``"probit"`` or ``"logit"``.

    Parameters are the ``first`` cut and the positive ``gaps`` between cuts.

    >>> Ordinal(3, cuts=[0.0, 1.0]).probabilities(Gaussian(torch.zeros(1, 1), torch.zeros(1, 1))).detach()
    tensor([[0.5000, 0.3413, 0.1587]])
    """

    of_classes = one_score = ordered = True

    discrete = True
    first: Any
    gaps: Any

    def __init__(self, n_classes: int, cuts: Any = None, link: str = "probit") -> None:
        super().__init__()
        if link not in _LINKS:
            raise InputError(f"link must be one of {', '.join(_LINKS)}, got {link!r}")
        if n_classes < 2:
            raise InputError(f"n_classes must be at least 2, got {n_classes}")
        start = _default_cuts(n_classes) if cuts is None else torch.as_tensor(cuts, dtype=torch.float64)
        if start.shape != (n_classes - 1,) or not bool((start.diff() > 0).all()):
            raise InputError(f"cuts must be {n_classes - 1} increasing numbers, one less than classes, got {cuts!r}")
        self.n_classes, self.link = n_classes, link
        self.first = real(start[0], name="the first cut")
        self.gaps = positive(start.diff(), name="the gaps between cuts")

    def functions(self, outputs: int) -> int:
        """One, for any number of categories."""
        return 1

    @property
    def cuts(self) -> Float[Tensor, " c"]:
        """The K − 1 cuts in increasing order."""
        return torch.cat([self.first[None], self.first + self.gaps.cumsum(0)])

    def log_prob(self, y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log[σ(b_y − f) − σ(b_{y−1} − f)]``."""
        return self._log_between(self._codes(y), f, torch.ones_like(f))

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """Mean and variance of the number of the category."""
        return _moments(self._link(f - self.cuts.to(f)))

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """``σ(b_k − f)`` from ``k`` to ``k + 1``."""
        padded = torch.nn.functional.pad(self.cuts.to(f), (1, 1), value=_FAR)
        padded[0] = -_FAR
        index = y.floor().clamp(-1, self.n_classes - 1).long() + 1
        return self._link(padded[index] - f)

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """The number of cuts below ``f`` plus noise."""
        if self.link == "probit":
            noise = torch.randn(f.shape, generator=generator, dtype=f.dtype).to(f)
        else:
            draws = torch.empty(2, *f.shape, dtype=f.dtype).exponential_(generator=generator).to(f)
            noise = draws[0].log() - draws[1].log()
        return (f + noise > self.cuts.to(f)).sum(-1, keepdim=True).to(f)

    def log_predictive(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E p(y | f)``; for the probit link, its value at the mean with noise of variance ``1 + var``."""
        if self.link == "logit":
            return super().log_predictive(y, q)
        return self._log_between(self._codes(y), q.mean, (1 + q.var).sqrt())

    def predict(self, q: Gaussian) -> Gaussian:
        """Mean and variance of the number of the category."""
        return _moments(self._probability_above(q))

    def probabilities(self, q: Gaussian) -> Float[Tensor, "*s n c"]:
        """The probability of each category."""
        above = self._probability_above(q)
        ends = torch.ones_like(above[..., :1]), torch.zeros_like(above[..., :1])
        return -torch.cat([ends[0], above, ends[1]], -1).diff(dim=-1)

    def _probability_above(self, q: Gaussian) -> Float[Tensor, "*s n c"]:
        """``P(y > k)`` under the belief, for each cut."""
        if self.link == "probit":
            return self._link((q.mean - self.cuts.to(q.mean)) / (1 + q.var).sqrt())
        f, log_weights = at_nodes(q)
        return torch.tensordot(log_weights.exp(), self._link(f - self.cuts.to(f)), 1).clamp(0, 1)

    def _log_between(self, code: Int[Tensor, "n 1"], mean: Tensor, scale: Tensor) -> Float[Tensor, "*s n"]:
        """``log[σ((b_y − mean)/scale) − σ((b_{y−1} − mean)/scale)]``, mirrored to the side of small probabilities."""
        cuts = self.cuts.to(mean)
        far = cuts.new_full((1,), _FAR)
        low = (torch.cat([-far, cuts])[code] - mean) / scale
        high = (torch.cat([cuts, far])[code] - mean) / scale
        mirrored = low + high > 0
        low, high = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
        below, above = self._log_link(low), self._log_link(high)
        return (above + torch.log(-torch.expm1(below - above))).squeeze(-1)

    def _log_link(self, f: Tensor) -> Tensor:
        return logsigmoid(f) if self.link == "logit" else log_ndtr(f)

    def _link(self, f: Tensor) -> Tensor:
        return f.sigmoid() if self.link == "logit" else torch.special.ndtr(f)

    def _codes(self, y: Float[Tensor, "n 1"]) -> Int[Tensor, "n 1"]:
        code = y.long()
        wrong = (code != y) | (code < 0) | (code >= self.n_classes)
        if wrong.any():
            raise InputError(f"y must be categories 0 … {self.n_classes - 1}, got {y[wrong][0].item():g}")
        return code


def _default_cuts(n_classes: int) -> Float[Tensor, " c"]:
    """``√2 Φ⁻¹(k/K)``."""
    return 2 * torch.erfinv(2 * torch.arange(1, n_classes, dtype=torch.float64) / n_classes - 1)


def _moments(above: Float[Tensor, "*s n c"]) -> Gaussian:
    """Mean ``Σ_k P(y > k)`` and variance, with ``E y² = Σ_k (2k + 1) P(y > k)``."""
    mean = above.sum(-1, keepdim=True)
    odd = 2 * torch.arange(above.shape[-1]).to(above) + 1
    return Gaussian(mean, ((above * odd).sum(-1, keepdim=True) - mean.square()).clamp_min(0))
