"""The nearest of many points: exact, by boxes of equally many points, of which most are too far away to look at.

Points are cut in halves at the median of their widest column, again and again. With ``r`` the distance of the ``m``-th
nearest point in the first few boxes, a box matters only if

    Σ_d max(low_d − z_d, z_d − high_d, 0)² ≤ r²,

and of the points in such boxes only those within ``r`` are sorted. With 1,000,000 points in eight columns that is a
tenth of the boxes, and half of them in twelve; a column that hardly varies counts little.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_SIZE = 1024  # points in a box, at most twice as many
_CHUNK = 2**22  # distances that are held at once while the first boxes are searched
_PAIRS = 2**22  # pairs of points that are held before the best are chosen
_SLACK = 1e-5  # of squares of coordinates: more than single precision loses


class Boxes:
    """Points ``n d`` in boxes, to be searched for the nearest.

    >>> x = torch.tensor([[0.0], [1.0], [3.0]])
    >>> Boxes(x).nearest(torch.tensor([[2.1]]), 2)
    tensor([[2, 1]])
    """

    def __init__(self, x: Float[Tensor, "n d"]) -> None:
        depth = max(0, (len(x) // _SIZE).bit_length() - 1)
        padding = torch.full((-len(x) % 2**depth,), -1, device=x.device)
        order = torch.cat([torch.arange(len(x), device=x.device), padding])[None]
        for _ in range(depth):
            points = x[order.clamp_min(0)]
            widest = (points.amax(1) - points.amin(1)).argmax(1)
            along = points.gather(2, widest[:, None, None].expand(-1, order.shape[1], 1))[..., 0]
            order = order.gather(1, along.argsort(1)).reshape(2 * len(order), -1)
        self.order, self.points = order, x[order.clamp_min(0)]
        self.low, self.high = self.points.amin(1), self.points.amax(1)
        self.squares = self.points.square().sum(-1).masked_fill(order < 0, torch.inf)

    def nearest(
        self,
        z: Float[Tensor, "b d"],
        m: int,
        before: Int[Tensor, " b"] | None = None,
        but: Int[Tensor, " b"] | None = None,
    ) -> Int[Tensor, "b m"]:
        """The ``m`` nearest points, nearest first; −1 where there are fewer.

        Arguments:
            before: of each row of ``z``, the number of points it may see: those before this one.
            but: of each row of ``z``, a point that it may not see.
        """
        own, gaps = z.square().sum(1), self._gaps(z)
        reach = self._reach(z, gaps, m, before, but)
        slack = _SLACK * (own + (reach + own).clamp_min(0))
        limit, gaps = reach + slack, gaps.mT.contiguous()
        best = _Best(len(z), m, z)
        for box in range(len(self.order)):
            rows = (gaps[box] <= limit + own).nonzero()[:, 0]
            if not len(rows):
                continue
            far = torch.addmm(self.squares[box], z[rows], self.points[box].mT, alpha=-2)
            seen = _allowed(self.order[box].expand_as(far), *(None if v is None else v[rows] for v in (before, but)))
            at, inside = ((far <= limit[rows, None]) & seen).nonzero(as_tuple=True)
            limit = best.add(rows[at], self.order[box][inside], far[at, inside], limit)
        return best.places()

    def share(self, z: Float[Tensor, "b d"], m: int) -> float:
        """The share of the boxes that must be looked at for the ``m`` nearest points, on average."""
        gaps = self._gaps(z)
        return float((gaps <= (self._reach(z, gaps, m, None, None) + z.square().sum(1))[:, None]).double().mean())

    def _gaps(self, z: Tensor) -> Float[Tensor, "b boxes"]:
        """Squared distances to the boxes."""
        gaps = z.new_zeros(len(z), len(self.low))
        for low, high, at in zip(self.low.mT, self.high.mT, z.mT[..., None], strict=True):
            gaps += torch.maximum(low - at, at - high).clamp_min_(0).square_()
        return gaps

    def _reach(self, z: Tensor, gaps: Tensor, m: int, before: Tensor | None, but: Tensor | None) -> Float[Tensor, " b"]:
        """``r² − |z|²`` of the m-th nearest point in the nearest boxes; infinite where these hold fewer."""
        size = self.order.shape[1]
        count = min(len(self.order), 2 * m // size + 1)
        boxes, parts = gaps.topk(count, largest=False).indices, [z.new_empty(0)]
        for rows in torch.arange(len(z), device=z.device).split(max(1, _CHUNK // (count * size * z.shape[1]))):
            places = self.order[boxes[rows]].flatten(1)
            products = torch.bmm(self.points[boxes[rows]].flatten(1, 2), z[rows, :, None])[..., 0]
            far = self.squares[boxes[rows]].flatten(1) - 2 * products
            far.masked_fill_(~_allowed(places, *(None if v is None else v[rows] for v in (before, but))), torch.inf)
            parts.append(far.kthvalue(m, 1).values if m <= far.shape[1] else far.new_full((len(far),), torch.inf))
        return torch.cat(parts)


def _allowed(places: Int[Tensor, "b k"], before: Tensor | None, but: Tensor | None) -> Bool[Tensor, "b k"]:
    allowed = places >= 0
    if before is not None:
        allowed &= places < before[:, None]
    return allowed if but is None else allowed & (places != but[:, None])


class _Best:
    """The ``m`` nearest places of each row, from pairs of a row and a place that come in any order."""

    def __init__(self, count: int, m: int, like: Tensor) -> None:
        self.count, self.m = count, m
        none = torch.empty(0, dtype=torch.long, device=like.device)
        self.found, self.held = [(none, none, like.new_empty(0))], 0

    def add(self, rows: Tensor, places: Tensor, far: Tensor, limit: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
        """Take more pairs; returns the limit of distances that matter, which falls when many pairs are held."""
        self.found.append((rows, places, far))
        self.held += len(rows)
        if self.held <= max(_PAIRS, 2 * self.count * self.m):
            return limit
        rows, places, far, rank = self._sorted()
        self.found, self.held = [(rows, places, far)], len(rows)
        last = rank == self.m - 1
        return limit.index_put((rows[last],), torch.minimum(limit[rows[last]], far[last]))

    def places(self) -> Int[Tensor, "b m"]:
        """The nearest of each row, nearest first; −1 where there are fewer."""
        rows, places, _, rank = self._sorted()
        return places.new_full((self.count, self.m), -1).index_put((rows, rank), places)

    def _sorted(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows, places, far = (torch.cat(each) for each in zip(*self.found, strict=True))
        order = far.argsort()
        order = order[rows[order].argsort(stable=True)]
        rows, places, far = rows[order], places[order], far[order]
        counts = rows.bincount(minlength=self.count)
        rank = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
        kept = rank < self.m
        return rows[kept], places[kept], far[kept], rank[kept]
