"""Which objects shall stand for all: anchors at random, in the middle of clusters, or far from one another.

Objects cannot be moved by gradients, so that what is chosen here stays. No two anchors may be alike: their covariance
would be singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.linalg.pivoted import pivoted_rows

WAYS = ("random", "medoids", "greedy")
_ALIKE = 1 - 1e-10  # the cosine above which two objects are one
_POOL = 3000  # objects at random that medoids and greedy anchors are chosen among, or three times the anchors
_ROUNDS = 20  # of medoids
_NOTHING_NEW = 1e-10  # the share of the variance below which a greedy anchor adds nothing


def choose_anchors(
    kernel: Kernel,
    objects: Sequence[Any],
    count: int,
    generator: torch.Generator | None = None,
    way: str = "random",
) -> Int[Tensor, " m"]:
    """Numbers of at most ``count`` objects, no two of which the kernel takes for the same.

    Objects without any similarity to themselves tell nothing, and are taken only where there are no others.

    Arguments:
        way: "random"; "medoids", each the object with the least squared distance
            ``k(a, a) − 2 k(a, b) + k(b, b)`` to those that are nearer to it than to other medoids; or "greedy", each
            the object about which those before it say least (a pivoted Cholesky factorisation). The last two choose
            among 3000 objects at random, or three times ``count``.

    >>> from stratagp import kernels as k
    >>> letters = k.PairFunction(lambda a, b: len(set(a) & set(b)))
    >>> 3 in choose_anchors(letters, ["ab", "ba", "abc", "xyz"], 2, way="greedy")  # the one that is unlike the others
    True
    """
    if way not in WAYS:
        raise InputError(f"way must be one of {', '.join(WAYS)}, got {way!r}")
    if count < 1 or not len(objects):
        raise InputError(f"anchors are at least one of at least one object, got count={count} of {len(objects)}")
    if way == "random":
        return _distinct(kernel, objects, count, generator)
    pool = _distinct(kernel, objects, max(_POOL, 3 * count), generator).sort().values
    K = _covariance(kernel, [objects[i] for i in pool])
    if way == "medoids":
        return pool[_medoids(K, count, generator)]
    _, chosen = pivoted_rows(K.diagonal(), lambda i: K[i], count, _NOTHING_NEW)
    return pool[chosen] if chosen else pool[:1]


def _covariance(kernel: Kernel, objects: list[Any]) -> Float[Tensor, "n n"]:
    """Of all pairs, on average over the functions of a kernel that has several."""
    with torch.no_grad():
        K = kernel(objects)
    return K if K.dim() == 2 else K.mean(0)


def _distinct(
    kernel: Kernel, objects: Sequence[Any], count: int, generator: torch.Generator | None
) -> Int[Tensor, " m"]:
    """At most ``count`` objects at random that differ."""
    order = torch.randperm(len(objects), generator=generator)
    kept: list[int] = []
    for block in order.split(max(1, count)):
        new = block.tolist()
        K = _covariance(kernel, [objects[i] for i in (*kept, *new)])
        own, places = K.diagonal(), list(range(len(kept)))
        most = (own.clamp_min(0)[:, None] * own.clamp_min(0)).sqrt()
        if bool((K.abs() > most * (1 + 1e-6) + 1e-300).any()):
            raise InputError(
                f"the similarity {kernel} is not positive semi-definite: a kernel needs s(a, b)² ≤ s(a, a) s(b, b)"
            )
        alike = _ALIKE * most <= K
        for place, i in enumerate(new, len(kept)):
            if len(kept) < count and own[place] > 0 and not alike[place, places].any():
                kept.append(i)
                places.append(place)
        if len(kept) == count:
            break
    return torch.tensor(kept) if kept else order[:1]


def _medoids(K: Float[Tensor, "n n"], count: int, generator: torch.Generator | None) -> Int[Tensor, " m"]:
    """Medoids in the space of the kernel, from starts drawn with probabilities as the squared distance to the others.

    (As k-means++ does, Arthur and Vassilvitskii 2007.)
    """
    own = K.diagonal()
    distance = (own[:, None] - 2 * K + own).clamp_min(0)
    chosen = [int(torch.randint(len(K), (1,), generator=generator))]
    while len(chosen) < min(count, len(K)):
        nearest = distance[chosen].amin(0)
        nearest[chosen] = 0
        if not float(nearest.sum()) > 0:
            break
        chosen.append(int(torch.multinomial(nearest, 1, generator=generator)))
    medoids = torch.tensor(chosen)
    for _ in range(_ROUNDS):
        cluster = distance[medoids].argmin(0)
        members = [(cluster == c).nonzero()[:, 0] for c in range(len(medoids))]
        new = torch.stack([rows[distance[rows][:, rows].sum(1).argmin()] for rows in members])
        if torch.equal(new, medoids):
            break
        medoids = new
    return medoids
