"""Nodes and weights for expectations under a standard normal distribution."""

import math
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import chdtri
from torch import Tensor

HERMITE_NODES = 20
SOBOL_NODES = 512
_REST = 6.334e-5  # of the belief, beyond four standard deviations of one function
_LINE, _SQUARE = 49, 17  # points of an even grid along one axis, for one and for two dimensions


def normal_nodes(dim: int, like: Tensor, count: int = SOBOL_NODES) -> tuple[Float[Tensor, "s q"], Float[Tensor, " s"]]:
    """Points and log weights with ``E g(ε) ≈ Σ wₛ g(εₛ)`` for ``ε ~ N(0, I)`` in ``dim`` dimensions.

    Gauss-Hermite in one dimension (20 nodes) and two (their product); ``count`` quasi-random points above that.

    >>> points, log_weights = normal_nodes(1, torch.zeros(()))
    >>> (log_weights.exp() * points[:, 0] ** 4).sum()  # the fourth moment of a standard normal
    tensor(3.0000)
    """
    points, log_weights = _nodes(dim, count)
    return points.to(like), log_weights.to(like)


def central_nodes(dim: int, like: Tensor, count: int = SOBOL_NODES) -> tuple[Float[Tensor, "s q"], Float[Tensor, " s"]]:
    """As :func:`normal_nodes`, but within a ball, for integrands whose expectation may be infinite.

    It holds as much of the belief as four standard deviations of one function. There is an even grid in one and two
    dimensions; above that quasi-random points further out are moved to its surface.

    >>> points, log_weights = central_nodes(1, torch.zeros(()))
    >>> points.max(), log_weights.exp().sum()
    (tensor(4.0000), tensor(1.0000))
    """
    points, log_weights = _grid(dim) if dim <= 2 else _nodes(dim, count)
    if dim > 2:
        points = points * (_radius(dim) / points.norm(dim=1, keepdim=True)).clamp_max(1.0)
    return points.to(like), log_weights.to(like)


def _radius(dim: int) -> float:
    """Of the ball."""
    return math.sqrt(float(chdtri(dim, _REST)))


@cache
def _grid(dim: int) -> tuple[Float[Tensor, "s q"], Float[Tensor, " s"]]:
    limit = _radius(dim)
    axis = torch.linspace(-limit, limit, _LINE if dim == 1 else _SQUARE, dtype=torch.float64)
    points = torch.cartesian_prod(*[axis] * dim).reshape(-1, dim)
    radius = points.norm(dim=1)
    inside = radius <= limit * (1 + 1e-9)
    rim = torch.where(radius[inside] > limit * (1 - 1e-9), math.log(0.5), 0.0)  # the trapezoidal rule
    return points[inside], (rim - 0.5 * radius[inside].square()).log_softmax(0)


@cache
def _nodes(dim: int, count: int) -> tuple[Float[Tensor, "s q"], Float[Tensor, " s"]]:
    if dim > 2:
        uniform = torch.quasirandom.SobolEngine(dim).draw(count, dtype=torch.float64) + 0.5 / count
        points = math.sqrt(2) * torch.erfinv(2 * uniform - 1)
        points = points - points.mean(0)
        scale = torch.linalg.cholesky(points.mT @ points / count)
        points = torch.linalg.solve_triangular(scale, points.mT, upper=False).mT  # makes the first two moments exact
        return points, torch.full((count,), -math.log(count), dtype=torch.float64)
    nodes, weights = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
    axes = np.meshgrid(*[nodes] * dim, indexing="ij")
    logs = np.meshgrid(*[np.log(weights / math.sqrt(2 * math.pi))] * dim, indexing="ij")
    points = torch.as_tensor(np.stack([axis.ravel() for axis in axes], -1))
    return points, torch.as_tensor(np.sum(logs, 0).ravel())
