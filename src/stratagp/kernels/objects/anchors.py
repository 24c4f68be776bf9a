"""Object kernels on rows of numbers: what a sparse process needs to know of an object.

A process with inducing objects ``a₁ … a_m`` asks for ``k(x, aⱼ)`` and ``k(x, x)`` alone. So each object becomes a row

    [j, s(x, x), s̃(x, a₁), …, s̃(x, a_m)]

of similarities that no hyperparameter changes, with ``j`` the number of the anchor that it is, −1 for all others. Rows
are computed once, and hyperparameters train at the speed of dense matrices.

Anchors are chosen at random, in the middle of clusters, or far from one another. Nothing moves them afterwards: their
rows have no gradient. No two anchors may be alike, since their covariance would be singular.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.objects.base import KernelCache, ObjectKernel
from stratagp.linalg.pivoted import pivoted_rows
from stratagp.linalg.shapes import broadcast_shapes


class Anchored(Kernel):
    """An object kernel on rows ``[j, s(x, x), s̃(x, a₁), …]``; one of two sets of rows must be anchors.

    >>> from stratagp import kernels as k
    >>> shared = k.PairFunction(lambda a, b: len(set(a) & set(b)))
    >>> words = Anchors(shared, ["gaussian", "process"])
    >>> words.kernel(words.encode(["gauss"]), words.rows())
    tensor([[0.8165, 0.2041]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(self, base: ObjectKernel) -> None:
        super().__init__()
        self.base = base

    @property
    def takes_tensors(self) -> bool:
        """Its points are rows of similarities, not the objects."""
        return True

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel, from the similarities of the one to the other."""
        x, z = x.detach(), z.detach()
        if bool((z[..., 0] >= 0).all()):
            return self._to_anchors(x, z)
        if bool((x[..., 0] >= 0).all()):
            return self._to_anchors(z, x).mT
        raise InputError("the similarity of two objects is known only where one of them is an anchor")

    def _to_anchors(self, x: Tensor, anchors: Tensor) -> Tensor:
        number = anchors[..., 0].round().long()
        shape = broadcast_shapes(x.shape[:-2], anchors.shape[:-2])
        known = x[..., 2:].expand(*shape, -1, -1)
        cross = known.gather(-1, number.unsqueeze(-2).expand(*shape, x.shape[-2], -1))
        return self.base.from_cache(KernelCache(cross, x[..., 1], anchors[..., 1]))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The base kernel of each object with itself."""
        own = self._points(x, "x")[..., 1].detach()
        own = torch.ones_like(own) if self.base.normalise else own
        return (self.base.variance * own[..., None]).squeeze(-1)

    def describe(self) -> str:
        """As the base: how it comes by similarities is nothing to read about."""
        return self.base.describe()


class Anchors:
    """Objects that others are compared with, and the kernel on the rows that result.

    Arguments:
        kernel: over objects; sums, products and powers of such kernels are too.
        objects: the anchors.

    >>> from stratagp import kernels as k
    >>> words = Anchors(k.Spectrum(1), ["ab", "ba", "bc"])
    >>> words.encode(["abc"]).shape  # a number, the similarity to itself, and to each anchor
    torch.Size([1, 5])
    """

    def __init__(self, kernel: Kernel, objects: Sequence[Any]) -> None:
        self.objects = list(objects)
        self.kernel = copy.deepcopy(kernel)
        self._bases: list[ObjectKernel] = []
        if isinstance(self.kernel, ObjectKernel):
            self._bases.append(self.kernel)
            self.kernel = Anchored(self.kernel)  # its rows are all that there is
        else:
            self._replace(self.kernel)

    @property
    def columns(self) -> int:
        """Of an encoded object."""
        return 1 + len(self._bases) * (1 + len(self.objects))

    def encode(self, objects: Sequence[Any]) -> Float[Tensor, "n columns"]:
        """Objects as rows, none of them an anchor."""
        blocks = [torch.full((len(objects), 1), -1.0, dtype=torch.float64)]
        for base in self._bases:
            cache = base.cache(objects, self.objects)
            blocks += [cache.left.double()[:, None], cache.cross.double()]
        return torch.cat(blocks, 1)

    def rows(self) -> Float[Tensor, "m columns"]:
        """The anchors themselves as rows."""
        rows = self.encode(self.objects)
        rows[:, 0] = torch.arange(len(rows))
        return rows

    def _anchor(self, base: ObjectKernel) -> Kernel:
        start = self.columns
        self._bases.append(base)
        return Anchored(base).on([0, *range(start, self.columns)])

    def _replace(self, kernel: Kernel) -> None:
        for name, child in list(kernel._modules.items()):
            if isinstance(child, ObjectKernel):
                kernel._modules[name] = self._anchor(child)
            elif isinstance(child, Kernel):
                self._replace(child)


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
