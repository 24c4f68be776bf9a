"""Vecchia's process: each row is conditioned on a few near ones, so that cost grows with the number of rows alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.models.data_checks import check_data, check_points, row_noise, wants_gradient
from stratagp.models.neighbours import NeighbourSearch, nearest_before
from stratagp.models.observed import ObservedProcess
from stratagp.models.process import Process
from stratagp.objectives.vecchia import Conditionals, local_regression, vecchia
from stratagp.parameters import Parameter, Value
from stratagp.types import Gaussian, NumbersLike, PointsLike

_CHUNK = 2**18  # numbers of the covariances that are held at once when predicting: they stay in the cache
_ROWS = 4096  # whose neighbours are looked for at once
_KNOWN = 1e-8  # of the variance: how exactly values at new points are known to later ones of a joint distribution


class VecchiaGP(ObservedProcess):
    """``f ~ GP(mean, kernel)``, observed as ``y = f(x) + ε``, each row given its nearest rows alone: O(n m³).

    Arguments:
        kernel: a covariance function of columns, bound to them.
        mean: the prior mean, a :class:`~stratagp.means.Mean` or any torch module from ``n d`` to ``n``.
        noise: the noise variance.
        n_neighbours: how many rows a row is conditioned on; with all of them the process is exact.
        seed: of the order of the rows, which is random.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 50, dtype=torch.float64)[:, None]
    >>> posterior = VecchiaGP(k.RBF(), noise=1e-4, n_neighbours=10).condition(x, x.sin().squeeze())
    >>> posterior.mean(torch.tensor([[1.0]], dtype=torch.float64)).item()  # sin 1 = 0.8415
    0.841...
    """

    def __init__(
        self,
        kernel: Kernel,
        mean: Any = None,
        noise: Value | Parameter = 0.1,
        n_neighbours: int = 100,
        seed: int = 0,
    ) -> None:
        super().__init__(kernel, mean, noise)
        if not self.kernel.takes_tensors:
            raise InputError(f"kernel must be over columns of numbers, got {kernel}: for objects take ExactGP")
        if n_neighbours < 1:
            raise InputError(f"n_neighbours must be at least 1, got {n_neighbours}")
        self.n_neighbours, self.seed = n_neighbours, seed

    def conditionals(
        self,
        x: Float[Tensor, "n d"],
        n_rows: int | None = None,
        n_neighbours: int | None = None,
        others: bool = False,
        late: bool = False,
    ) -> Conditionals:
        """The nearest rows before each row, in a random order, under the values that the kernel has now.

        For a kernel that is not stationary, such as a product over columns, the time for all rows grows with ``n²``.

        Arguments:
            n_rows: of how many rows, chosen at random; of all where it is left out.
            n_neighbours: where it is not the number of the process.
            others: whether to take the nearest of all other rows, for the leave-one-out density.
            late: whether to choose among the later half of the order alone.
        """
        return nearest_before(self.kernel, x, n_neighbours or self.n_neighbours, self.seed, n_rows, others, late)

    def log_evidence(self, x: Any, y: Any, noise: Any = None, sets: Conditionals | None = None) -> Float[Tensor, ""]:
        """``Σ log p(yᵢ | y_{N(i)})``; ``noise`` gives each row its own variance.

        ``sets`` are :meth:`conditionals` of other values of the kernel, or of some rows: then it is an estimate.
        """
        x, y, given = self._data(x, y, noise, several=False)
        return vecchia(self.kernel, given, x, y - self.mean(x), self.conditionals(x) if sets is None else sets)

    def log_leave_one_out(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> Float[Tensor, ""]:
        """``Σ log p(yᵢ | y₋ᵢ)``, each row from the nearest of all others."""
        return self.log_evidence(x, y, noise, self.conditionals(self._points(x), others=True))

    def condition(self, x: Any, y: Any, noise: Any = None) -> VecchiaPosterior:
        """The process given observations; nothing is factored before somebody asks."""
        x, y, given = self._data(x, y, noise, several=False)
        with torch.no_grad():
            return VecchiaPosterior(
                copy.deepcopy(self), x, y - self.mean(x), given.detach().expand(len(y)).clone(), self.n_neighbours
            )


class _Local(NamedTuple):
    """Points given their neighbours: weights ``a`` of these, what they expect, and the variance that is left."""

    weights: Float[Tensor, "b m"]
    mean: Float[Tensor, " b"]
    var: Float[Tensor, " b"]


@dataclass(frozen=True)
class VecchiaPosterior(Process):
    """Vecchia's process given data: every answer comes from the nearest observations.

    ``prior`` is the :class:`VecchiaGP` as it was when conditioned. Gradients with respect to points pass through where
    the points ask for them; neighbours are fixed.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 50, dtype=torch.float64)[:, None]
    >>> posterior = VecchiaGP(k.RBF(), noise=1e-4, n_neighbours=10).condition(x, x.sin().squeeze())
    >>> posterior.covariance(x[:2]).shape, posterior.leave_one_out().mean.shape
    (torch.Size([2, 2]), torch.Size([50, 1]))
    """

    prior: Any
    x: Float[Tensor, "n d"] = field(repr=False)
    residual: Float[Tensor, " n"] = field(repr=False)
    noise: Float[Tensor, " n"] = field(repr=False)
    n_neighbours: int = 100

    def mean(self, x: PointsLike) -> Float[Tensor, " b"]:
        """``m(x) + aᵀ(y − m)_{N(x)}`` with the weights ``a`` of the nearest rows."""
        return self.marginals(x).mean[:, 0]

    def variance(self, x: PointsLike) -> Float[Tensor, " b"]:
        """``k(x, x) − aᵀ k(N(x), x)`` at each row."""
        return self.marginals(x).var[:, 0]

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance at each row, as ``n 1``."""
        x = self._points(x)
        with torch.set_grad_enabled(wants_gradient(x)):
            mean, var = self._function(x)
            return Gaussian((self.prior.mean(x) + mean)[:, None], var[:, None])

    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "b p"]:
        """The joint covariance of new points, each given the nearest of the data and the nearest points before it.

        With the weights of earlier points in ``A`` and what is left in ``s``, ``f = A f + … + √s ε``, so that
        ``cov f = (I − A)⁻¹ diag(s) (I − A)⁻ᵀ``.
        """
        points = self._points(x)
        joint = points if z is None else torch.cat([points, self._points(z)])
        with torch.set_grad_enabled(wants_gradient(joint)):
            n, t = len(self.x), len(joint)
            every = torch.cat([self.x, joint])
            known = _KNOWN * self.prior.kernel.diag(joint).detach()
            together = replace(self, x=every, residual=every.new_zeros(n + t), noise=torch.cat([self.noise, known]))
            among = NeighbourSearch(self.prior.kernel, joint)
            earlier = among.nearest(joint, self.n_neighbours, before=torch.arange(t, device=every.device))
            of_data = self._search.nearest(joint, self.n_neighbours)  # dense points must not crowd out the data
            found = torch.cat([of_data, earlier.add(n).masked_fill(earlier < 0, -1)], 1)
            parts = together._locals(joint, found)
            weights = torch.cat([part.weights for part in parts])
            of_new = weights.masked_fill(found < n, 0.0)
            a = every.new_zeros(t, t).scatter_add_(1, (found - n).clamp_min(0), of_new)
            left = torch.cat([part.var for part in parts])
            spread = torch.linalg.solve_triangular(torch.eye(t).to(a) - a, torch.eye(t).to(a), upper=False)
            cov = (spread * left) @ spread.mT
            return cov if z is None else cov[: len(points), len(points) :]

    def leave_one_out(self, rows: Int[Tensor, " r"] | None = None) -> Gaussian:
        """Each observation, or some of them, predicted from the nearest of all others, noise included: ``n 1``."""
        rows = torch.arange(len(self.x), device=self.x.device) if rows is None else rows
        with torch.no_grad():
            mean, var = self._function(self.x[rows], but=rows)
            return Gaussian((self.prior.mean(self.x[rows]) + mean)[:, None], (var + self.noise[rows])[:, None])

    def log_evidence(self) -> Float[Tensor, ""]:
        """``log p(y)`` of the data this posterior has seen."""
        with torch.no_grad():
            sets = self.prior.conditionals(self.x)
            return vecchia(self.prior.kernel, self.noise, self.x, self.residual, sets)

    def condition(self, x: Any, y: Any, noise: Any = None) -> VecchiaPosterior:
        """The posterior with more data: new rows join those that neighbours are chosen from."""
        x, y = check_data(self.prior.kernel, self._points(x), y)
        with torch.no_grad():
            level = row_noise(self.prior, y, noise).detach().expand(len(y))
            residual = torch.cat([self.residual, y - self.prior.mean(x)])
        return replace(self, x=torch.cat([self.x, x]), residual=residual, noise=torch.cat([self.noise, level]))

    def seen_from(self, n_neighbours: int) -> VecchiaPosterior:
        """The same data, with so many neighbours for each prediction."""
        return self._of_same_rows(n_neighbours=n_neighbours)

    def without(self, rows: Int[Tensor, " r"]) -> VecchiaPosterior:
        """The posterior without some of its data, given by their places."""
        left = rows.new_ones(len(self.x), dtype=torch.bool).index_fill(0, rows, False)
        return replace(self, x=self.x[left], residual=self.residual[left], noise=self.noise[left])

    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """One function by Matheron's rule: a prior draw ``g``, corrected by the neighbours of each point.

        f(x) = g(x) + aᵀ (y − g(X) − ε)_{N(x)},   ε ~ N(0, noise)
        """
        prior = self.prior.draw(n_features, generator)
        with torch.no_grad():
            normal = torch.randn(self.noise.shape, generator=generator, dtype=self.noise.dtype).to(self.noise)
            gap = self.residual + self.prior.mean(self.x) - prior(self.x) - normal * self.noise.sqrt()
        corrected = self._of_same_rows(residual=gap)
        return lambda x: prior(x) + corrected.mean(x) - self.prior.mean(x)

    @cached_property
    def _search(self) -> NeighbourSearch:
        return NeighbourSearch(self.prior.kernel, self.x)

    def _of_same_rows(self, **changes: Any) -> VecchiaPosterior:
        changed = replace(self, **changes)
        vars(changed)["_search"] = self._search  # which takes seconds to make for a million rows
        return changed

    def _function(self, z: Tensor, but: Tensor | None = None) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Mean, beside that of the prior, and variance at each point; memory does not grow with their number."""
        found = [(z.new_empty(0), z.new_empty(0))]
        for rows in torch.arange(len(z), device=z.device).split(_ROWS):
            near = self._search.nearest(z[rows], self.n_neighbours, but=None if but is None else but[rows])
            found += [(part.mean, part.var) for part in self._locals(z[rows], near)]
        mean, var = (torch.cat(each) for each in zip(*found, strict=True))
        return mean, var

    def _locals(self, z: Float[Tensor, "b d"], given: Int[Tensor, "b m"]) -> list[_Local]:
        """The same for many points, a few after others."""
        step = max(1, _CHUNK // (given.shape[1] + 1) ** 2)
        return [self._local(*some) for some in zip(z.split(step), given.split(step), strict=True)]

    def _local(self, z: Float[Tensor, "b d"], given: Int[Tensor, "b m"]) -> _Local:
        """What the neighbours of some points say about the function there."""
        found = local_regression(self.prior.kernel, self.noise, self.x, z, given)
        return _Local(found.weights, (found.weights * self.residual[given.clamp_min(0)]).sum(1), found.var)

    def _points(self, x: PointsLike) -> Float[Tensor, "b d"]:
        return check_points(self.prior.kernel, x, self.x.shape[1])
