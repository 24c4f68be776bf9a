"""Vecchia's process behind any likelihood: each latent value is conditioned on a few near ones."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.kernels import Kernel
from stratagp.likelihoods import Likelihood
from stratagp.likelihoods.bernoulli import PROBIT_SLOPE
from stratagp.linalg.conditional_precision import ConditionalPrecision
from stratagp.means import Mean, Zero
from stratagp.models.data_checks import check_data, check_points
from stratagp.models.neighbours import NeighbourSearch, nearest_before
from stratagp.objectives.row_sites import RowSites, expected_sites, laplace_sites, matched_sites
from stratagp.objectives.vecchia import Conditionals, local_regression, vecchia
from stratagp.parameterised import Parameterised
from stratagp.parameters import real
from stratagp.types import Gaussian, PointsLike

NUGGET = 1e-6  # of the kernel's variance: what a latent value has of its own, so that equal rows may stand together
_CHUNK = 2**18  # numbers of the covariances that are held at once
_MAX_SWEEPS = 100


class Latent(NamedTuple):
    """What is believed about one latent function at its rows: the mean less the prior's, and sites.

    The variational bound asks for the belief as it was when sites were found, ``n 1``.
    """

    values: Float[Tensor, " n"]
    sites: RowSites
    belief: Gaussian | None = None


@dataclass(frozen=True)
class Neighbourhood:
    """The prior of the latent values at some rows, under the values that the kernel had: a sparse precision.

    Arguments:
        precision: that of the values.
        others: the nearest other rows of each, for cavities.
        own: the variance of each value that no other shares.
    """

    precision: ConditionalPrecision
    others: Int[Tensor, "n m"]
    own: Float[Tensor, " n"]


class VecchiaLatentGP(Parameterised):
    """``f ~ GP(mean, kernel)`` and ``p(y | f)`` of any likelihood with one function, O(n m³).

    The prior of the latent values at the rows is Vecchia's: each given the nearest before it. All rows share in the
    posterior mean, which conjugate gradients find; variances come from the nearest rows and their sites. Where the
    neighbours are all rows, it is Laplace's method, or expectation propagation, exactly.

    Arguments:
        kernel: a covariance function of columns, bound to them.
        likelihood: of one latent function.
        mean: the prior mean, a :class:`~stratagp.means.Mean` or any torch module from ``n d`` to ``n`` or ``n q``.
        inference: ``"laplace"``; ``"ep"``: better probabilities, for log-concave likelihoods; or ``"variational"``, the
            best Gaussian bound, whose gradient has the values of the likelihood, too.
        n_neighbours: how many rows a row is conditioned on.
        seed: of the order of the rows, which is random.

    Each column of observations has a function of its own; all have one kernel.

    >>> from stratagp import kernels as k, likelihoods
    >>> x = torch.linspace(-3, 3, 40, dtype=torch.float64)[:, None]
    >>> gp = VecchiaLatentGP(k.RBF(variance=4.0), likelihoods.Bernoulli("probit"), inference="ep", n_neighbours=10)
    >>> belief = gp.condition(x, (x[:, 0] > 0).double()).marginals(x[[0, -1]])
    >>> gp.likelihood.predict(belief).mean.ravel()
    tensor([0.0..., 0.9...], dtype=torch.float64)
    """

    def __init__(
        self,
        kernel: Kernel,
        likelihood: Likelihood,
        mean: Any = None,
        inference: str = "laplace",
        n_neighbours: int = 60,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not kernel.takes_tensors:
            raise InputError(f"kernel must be over columns of numbers, got {kernel}: for objects take ExactGP")
        if inference not in ("laplace", "ep", "variational"):
            raise InputError(f"inference must be 'laplace', 'ep' or 'variational', got {inference!r}")
        if likelihood.functions(1) != 1:
            raise InputError(f"likelihood must have one latent function, got {likelihood}")
        if n_neighbours < 1:
            raise InputError(f"n_neighbours must be at least 1, got {n_neighbours}")
        self.kernel, self.likelihood, self.inference = kernel, likelihood, inference
        self.mean = Zero() if mean is None else mean
        self.n_neighbours, self.seed = n_neighbours, seed

    def prior_mean(self, x: Float[Tensor, "n d"], functions: int = 1) -> Float[Tensor, "n q"]:
        """The mean of each function at each row."""
        mean = self.mean(x)
        return mean if mean.dim() == 2 else mean[:, None].expand(len(x), functions)

    def neighbourhood(self, x: Float[Tensor, "n d"], n_neighbours: int | None = None) -> Neighbourhood:
        """The prior of the values at the rows, under the values that the kernel has now."""
        m = min(n_neighbours or self.n_neighbours, max(1, len(x) - 1))
        with torch.no_grad():
            own = NUGGET * self.kernel.diag(x)
            sets = nearest_before(self.kernel, x, m, self.seed)
            found = [local_regression(self.kernel, own, x, x[rows], given) for rows, given in _chunks(sets)]
            weights, var = (torch.cat([each[i] for each in found]) for i in range(2))
            precision = ConditionalPrecision(sets.rows, sets.given, weights, var + own[sets.rows])
            others = NeighbourSearch(self.kernel, x).nearest(x, m, but=torch.arange(len(x), device=x.device))
        return Neighbourhood(precision, others, own)

    def latents(
        self,
        x: Any,
        y: Any,
        start: list[Latent] | None = None,
        near: Neighbourhood | None = None,
        tolerance: float = 1e-6,
    ) -> list[Latent]:
        """Each function's values and sites at the rows.

        Arguments:
            start: where to start from, such as what was found under other values of the kernel.
            near: the :meth:`neighbourhood`, where it is known.
            tolerance: how far sites may still move, in standard deviations, on average.
        """
        x, y = self._data(x, y)
        with torch.no_grad():
            near = self.neighbourhood(x) if near is None else near
            means = self.prior_mean(x, y.shape[1]).detach()
            starts: list[Any] = [None] * y.shape[1] if start is None else start
            find = self._mode if self.inference == "laplace" else self._matched
            parts = zip(y.mT, means.mT, starts, strict=True)
            return [find(x, own[:, None], mean, near, begin, tolerance) for own, mean, begin in parts]

    def log_evidence(
        self, x: Any, y: Any, latents: list[Latent] | None = None, sets: Conditionals | None = None
    ) -> Float[Tensor, ""]:
        """``Σ log p(zᵢ | z_{N(i)}) + Σ log cᵢ``: that of the sites, which stand for the likelihood.

        Its gradient leaves sites where they are. For converged expectation propagation and the variational bound that
        is the whole gradient; for Laplace's method the part by which sites move is missing. ``sets`` are conditionals
        of some rows, or of other values of the kernel: then it is an estimate.
        """
        x, y = self._data(x, y)
        latents = self.latents(x, y) if latents is None else latents
        sets = nearest_before(self.kernel, x, self.n_neighbours, self.seed) if sets is None else sets
        means, own = self.prior_mean(x, y.shape[1]), NUGGET * self.kernel.diag(x)
        values = []
        for mean, targets, latent in zip(means.mT, y.mT, latents, strict=True):
            sites, share = latent.sites, sets.total / len(sets.rows)
            scale = share * self._log_scales(targets[:, None], latent)[sets.rows].sum()
            values.append(vecchia(self.kernel, 1 / sites.precision + own, x, sites.observed - mean, sets) + scale)
        return torch.stack(values).sum()

    def _log_scales(self, y: Tensor, latent: Latent) -> Float[Tensor, " n"]:
        """``log c``; for the bound with ``E log p``, which depends on the values that the likelihood has now."""
        scales = latent.sites.log_scale
        return scales if latent.belief is None else scales + self.likelihood.expected_log_prob(y, latent.belief)

    def condition(self, x: Any, y: Any, tolerance: float = 1e-6) -> LatentPosterior:
        """The processes given observations."""
        x, y = self._data(x, y)
        found = self.latents(x, y, tolerance=tolerance)
        values = torch.stack([each.values for each in found], 1)
        precision = torch.stack([each.sites.precision for each in found], 1)
        return LatentPosterior(copy.deepcopy(self), x, values, precision, self.n_neighbours)

    def _mode(
        self, x: Tensor, y: Tensor, mean: Tensor, near: Neighbourhood, start: Latent | None, tolerance: float
    ) -> Latent:
        """Newton's method, halving steps that would lower ``log p(y | f) − ½ (f − m)ᵀ Q (f − m)``."""

        def psi(values: Tensor) -> float:
            return float(self.likelihood.log_prob(y, (mean + values)[:, None]).sum()) - 0.5 * near.precision.square(
                values
            )

        values = torch.zeros_like(mean) if start is None else start.values
        before, change = psi(values), math.inf
        for _ in range(_MAX_SWEEPS):
            sites = laplace_sites(self.likelihood, y, mean + values)
            if change < tolerance:
                return Latent(values, sites)
            right = sites.shift - sites.precision * mean
            step = near.precision.solve(sites.precision, right, values, min(1e-3, tolerance)) - values
            for _ in range(30):
                after = psi(values + step)
                if after >= before - 1e-12 * abs(before):
                    break
                step = 0.5 * step
            values, before = values + step, after
            change = float((step.abs() * (sites.precision + 1 / self.kernel.diag(x)).sqrt()).mean())
        self._warn(change)
        return Latent(values, sites)

    def _matched(
        self, x: Tensor, y: Tensor, mean: Tensor, near: Neighbourhood, start: Latent | None, tolerance: float
    ) -> Latent:
        """Sites of all rows move at once to where they match moments or expectations, half as far when they diverge."""
        bound = self.inference == "variational"
        if start is None:
            prior = Gaussian(mean[:, None], self.kernel.diag(x)[:, None])
            first = laplace_sites(self.likelihood, y, mean) if bound else matched_sites(self.likelihood, y, prior)
            start = Latent(torch.zeros_like(mean), first)
        (values, sites, _), step, last = start, 1.0, math.inf
        for _ in range(_MAX_SWEEPS):
            right = sites.shift - sites.precision * mean
            values = near.precision.solve(sites.precision, right, values, min(1e-3, tolerance))
            var = self._cavity_variances(x, near, sites.precision)
            spread = var / (1 + var * sites.precision)
            belief = Gaussian((mean + values)[:, None], spread[:, None])
            if bound:
                goal = expected_sites(self.likelihood, y, belief)
            else:
                centre = mean + values + var * (sites.precision * (mean + values) - sites.shift)
                goal = matched_sites(self.likelihood, y, Gaussian(centre[:, None], var[:, None]))
            moved = (goal.precision - sites.precision).abs() * spread + (goal.shift - sites.shift).abs() * spread.sqrt()
            change = float(moved.mean())
            if change < tolerance:
                return Latent(values, goal, belief if bound else None)
            step, last = step if change < last else max(0.5 * step, 0.05), change
            sites = RowSites(*(old + step * (new - old) for old, new in zip(sites, goal, strict=True)))
        self._warn(change)
        return Latent(values, goal, belief if bound else None)

    def _cavity_variances(self, x: Tensor, near: Neighbourhood, precision: Tensor) -> Float[Tensor, " n"]:
        """How uncertain each value is to its nearest other rows with their sites."""
        level = 1 / precision + near.own
        sets = Conditionals(torch.arange(len(x), device=x.device), near.others, len(x))
        found = [local_regression(self.kernel, level, x, x[rows], given).var for rows, given in _chunks(sets)]
        return torch.cat(found) + near.own

    def _warn(self, change: float) -> None:
        warnings.warn(
            f"the sites under {self.kernel} still moved by {change:.1e} deviations after {_MAX_SWEEPS} sweeps: "
            "lower the kernel variance",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _data(self, x: Any, y: Any) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n q"]]:
        x, y = check_data(self.kernel, x, y, several=True)
        return x, y if y.dim() == 2 else y[:, None]


class BaseRate(Mean):
    """The mean of latent functions under which each class has its base rate where nothing else is known.

    ``m(x) = Φ⁻¹(rate) √(1 + k(x, x))``, so that ``E Φ(f) = rate``; for the logit link nearly so.

    Arguments:
        kernel: that of the latent functions.
        rates: one for each function.
        link: "probit" or "logit".
        middle: the mean and the spread of each column, for slopes that are learnt besides; without it there are none.

    >>> from stratagp import kernels as k
    >>> mean = BaseRate(k.RBF(variance=3.0), [0.05])(torch.zeros(1, 1))
    >>> torch.special.ndtr(mean / 2)  # √(1 + 3) = 2
    tensor([[0.0500]], ...)
    """

    def __init__(
        self,
        kernel: Kernel,
        rates: Sequence[float],
        link: str = "probit",
        middle: tuple[Float[Tensor, " d"], Float[Tensor, " d"]] | None = None,
    ) -> None:
        super().__init__()
        self.kernel, self.rates, self.link, self.middle = kernel, list(rates), link, middle
        if middle is not None:
            self.slopes = real(torch.zeros(len(middle[0]), len(self.rates), dtype=torch.float64), name="slopes")

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n q"]:
        """The means ``n q``."""
        rates, var = torch.tensor(self.rates, dtype=torch.float64, device=x.device), self.kernel.diag(x)[:, None]
        if self.link == "probit":
            level = torch.special.ndtri(rates) * (1 + var).sqrt()
        else:
            level = rates.logit() * (1 + PROBIT_SLOPE**2 * var).sqrt()
        if self.middle is None:
            return level
        centre, spread = (part.to(x) for part in self.middle)
        return level + (x - centre) / spread @ self.slopes


@dataclass(frozen=True)
class LatentPosterior:
    """Latent functions given observations, asked through the nearest rows.

    Arguments:
        prior: the process as it was when conditioned.
        values: the posterior means at the rows, less the prior's.
        precision: that of the sites.

    >>> from stratagp import kernels as k, likelihoods
    >>> x = torch.linspace(0, 3, 40, dtype=torch.float64)[:, None]
    >>> posterior = VecchiaLatentGP(k.RBF(), likelihoods.Poisson(), n_neighbours=10).condition(x, x[:, 0].exp().round())
    >>> posterior.marginals(x[20:21]).mean.item()  # the logarithm of 4.66
    1.49...
    """

    prior: Any
    x: Float[Tensor, "n d"] = field(repr=False)
    values: Float[Tensor, "n q"] = field(repr=False)
    precision: Float[Tensor, "n q"] = field(repr=False)
    n_neighbours: int = 60

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean ``m + aᵀ(f̂ − m)_{N(x)}`` and variance ``k(x, x) − kᵀ(K_N + τ⁻¹)⁻¹ k`` of each function, as ``n q``."""
        points: Tensor = check_points(self.prior.kernel, x, self.x.shape[1])
        with torch.no_grad():
            step = max(1, _CHUNK // (min(self.n_neighbours, len(self.x)) + 1) ** 2)
            parts = [self._local(rows, self._search.nearest(rows, self.n_neighbours)) for rows in points.split(step)]
            mean, var = (torch.cat(each) for each in zip(*parts, strict=True))
            return Gaussian(self.prior.prior_mean(points, mean.shape[1]) + mean, var)

    def _local(self, z: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        kernel, own = self.prior.kernel, NUGGET * self.prior.kernel.diag(self.x)
        weights = local_regression(kernel, own, self.x, z, given).weights
        mean = torch.einsum("bm,bmq->bq", weights, self.values[given])
        levels = (1 / self.precision + own[:, None]).mT
        return mean, torch.stack([local_regression(kernel, level, self.x, z, given).var for level in levels], 1)

    @cached_property
    def _search(self) -> NeighbourSearch:
        return NeighbourSearch(self.prior.kernel, self.x)


def _chunks(sets: Conditionals) -> Iterator[tuple[Tensor, Tensor]]:
    step = max(1, _CHUNK // (sets.given.shape[1] + 1) ** 2)
    yield from zip(sets.rows.split(step), sets.given.split(step), strict=True)
