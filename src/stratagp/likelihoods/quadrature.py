"""Nodes and weights for expectations under a standard normal distribution."""

import math
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

HERMITE_NODES = 20
SOBOL_NODES = 512


def normal_nodes(dim: int, like: Tensor, count: int = SOBOL_NODES) -> tuple[Float[Tensor, "s q"], Float[Tensor, " s"]]:
    """Points and log weights with ``E g(ε) ≈ Σ wₛ g(εₛ)`` for ``ε ~ N(0, I)`` in ``dim`` dimensions.

    Gauss-Hermite in one dimension (20 nodes) and two (their product); ``count`` quasi-random points above that.

    >>> points, log_weights = normal_nodes(1, torch.zeros(()))
    >>> (log_weights.exp() * points[:, 0] ** 4).sum()  # the fourth moment of a standard normal
    tensor(3.0000)
    """
    points, log_weights = _nodes(dim, count)
    return points.to(like), log_weights.to(like)


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
