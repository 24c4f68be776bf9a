"""The choice of inducing points: a few points that represent all the data."""

import warnings

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.linalg.pivoted import pivoted_rows

_MINI_BATCHES_ABOVE = 50_000  # rows
_DUPLICATES_BELOW = 10_000  # rows up to which distinct ones are counted before clustering


def kmeans_points(x: Float[Tensor, "n d"], m: int, seed: int = 0) -> Float[Tensor, "m2 d"]:
    """``m`` cluster centres of the rows of ``x`` by k-means, in mini-batches above 50,000 rows.

    Coinciding centres are returned once. If up to 10,000 rows have at most ``m`` distinct ones, these are the
    points: there may be fewer than ``m``. Scale the columns first: k-means ignores lengthscales.

    >>> kmeans_points(torch.tensor([[0.0], [0.1], [5.0], [5.1]]), 2).sort(0).values
    tensor([[0.0500],
            [5.0500]])
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans  # slow to load, and only needed here
    from sklearn.exceptions import ConvergenceWarning as ScikitConvergenceWarning

    _check(x, m)
    rows = x.detach().cpu().numpy()
    if len(rows) <= _DUPLICATES_BELOW or len(rows) <= m:
        distinct = np.unique(rows, axis=0)
        if len(distinct) <= m:
            return torch.from_numpy(distinct).to(x)
    large = len(rows) > _MINI_BATCHES_ABOVE
    cluster = (MiniBatchKMeans if large else KMeans)(m, n_init=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScikitConvergenceWarning)  # fewer clusters than requested: handled here
        centres = cluster.fit(rows).cluster_centers_
    return torch.from_numpy(np.unique(centres, axis=0)).to(x)


def greedy_points(
    kernel: Kernel, x: Float[Tensor, "n d"], m: int, tolerance: float = 1e-10
) -> tuple[Float[Tensor, "m2 d"], list[int]]:
    """Rows of ``x``, each the one that those before it determine least, and their indices.

    The next row has the largest conditional variance ``k(x, x | z)``: a pivoted Cholesky factorisation of ``k(x, x)``
    (Burt, Rasmussen and van der Wilk 2020), in O(n m²) operations and O(n m) memory. It stops before ``m`` rows if
    no remaining variance exceeds ``tolerance`` of the largest: more points would only make matrices singular.

    >>> from stratagp import kernels as k
    >>> x = torch.tensor([[0.0], [0.1], [5.0], [0.0]], dtype=torch.float64)
    >>> greedy_points(k.RBF(), x, 4)[1]
    [0, 2, 1]
    """
    _check(x, m)
    with torch.no_grad():
        _, chosen = pivoted_rows(kernel.diag(x), lambda i: kernel(x[i : i + 1], x)[0], m, tolerance)
    return x[chosen], chosen


def _check(x: Tensor, m: int) -> None:
    if m < 1:
        raise InputError(f"m must be at least 1 inducing point, got {m}")
    if not len(x) or not bool(x.isfinite().all()):
        raise InputError("x must have at least one row and only finite values to choose inducing points from")
