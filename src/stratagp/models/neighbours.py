"""The rows nearest to a point under a kernel: those whose values say most about the value there."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.kernels.stationary.scaled_distance import Stationary
from stratagp.linalg.boxes import Boxes
from stratagp.objectives.vecchia import Conditionals

_CHUNK = 2**24  # distances that are held at once
_BLOCK = 2**16  # rows whose distances are looked at together
_GROUP = 32  # distances of which the shortest is looked at first
_BOX_ROWS, _BOX_POINTS = 20_000, 1000  # rows and points above which boxes find neighbours sooner than products do
_PROBES, _FEW_BOXES = 64, 0.5  # points that tell which share of the boxes is looked at, and the most it may be
_POINTS = 4096  # whose boxes are looked at together
_SHARE = 4  # of the rows in boxes a point may see one in so many at least


class NeighbourSearch:
    """Finds the nearest of the rows ``x``, under the values that the kernel has now.

    Near means a high correlation. For a stationary kernel that is a short scaled distance, found by blocks of matrix
    products, or among many rows by :class:`~stratagp.linalg.boxes.Boxes`. Other kernels are evaluated for all pairs.

    >>> from stratagp import kernels as k
    >>> search = NeighbourSearch(k.RBF(), torch.tensor([[0.0], [1.0], [3.0]]))
    >>> search.nearest(torch.tensor([[2.1]]), 2)
    tensor([[2, 1]])
    """

    def __init__(self, kernel: Kernel, x: Float[Tensor, "n d"]) -> None:
        self.kernel, self.x = kernel, x
        self.stationary = isinstance(kernel, Stationary)
        self._made: dict[int, Boxes] = {}
        self._share: float | None = None
        if isinstance(kernel, Stationary):
            self.scale = kernel.lengthscale.detach()
            self.centre = x.median(0).values  # single values far off must not cost the others their digits
            self.scaled = self._scaled(x)
            self.squares = self.scaled.square().sum(1)
        else:
            with torch.no_grad():
                self.deviation = kernel.diag(x).sqrt().clamp_min(1e-300)

    def nearest(
        self,
        z: Float[Tensor, "b d"],
        m: int,
        before: Int[Tensor, " b"] | None = None,
        but: Int[Tensor, " b"] | None = None,
    ) -> Int[Tensor, "b m"]:
        """The ``m`` nearest rows to each point, nearest first; −1 where there are fewer.

        Arguments:
            before: of each point, the number of rows it may see: those before this one.
            but: of each point, a row that it may not see: itself.
        """
        m = min(m, len(self.x))
        if self._boxes_help(z, m):
            return self._from_boxes(z, m, before, but)
        step = max(1, _CHUNK // min(len(self.x), _BLOCK))
        parts = [torch.empty(0, m, dtype=torch.long, device=z.device)]
        for start in range(0, len(z), step):
            rows = slice(start, start + step)
            parts.append(self._among(z[rows], m, *(None if each is None else each[rows] for each in (before, but))))
        return torch.cat(parts)

    def _among(self, z: Tensor, m: int, before: Tensor | None, but: Tensor | None) -> Int[Tensor, "b m"]:
        """The nearest rows by their distances, a block of rows after the other."""
        found = []
        for start in range(0, len(self.x) if before is None else max(1, int(before.max())), _BLOCK):
            far = self._distances(z, slice(start, start + _BLOCK))
            places = torch.arange(start, start + far.shape[1], device=far.device)
            if before is not None:
                far.masked_fill_(places >= before[:, None], torch.inf)
            if but is not None:
                far.masked_fill_(places == but[:, None], torch.inf)
            values, near = _smallest(far, m)
            found.append((values, near + start))
        values, near = (torch.cat(each, 1) for each in zip(*found, strict=True))
        values, order = values.topk(min(m, values.shape[1]), largest=False)
        near = near.gather(1, order).masked_fill(values == torch.inf, -1)
        return torch.nn.functional.pad(near, (0, m - near.shape[1]), value=-1)

    def _from_boxes(self, z: Tensor, m: int, before: Tensor | None, but: Tensor | None) -> Int[Tensor, "b m"]:
        """The nearest rows by boxes; points that may see few rows are compared with boxes of few rows."""
        found = torch.full((len(z), m), -1, device=z.device)
        left, upto = torch.ones(len(z), dtype=torch.bool, device=z.device), len(self.x)
        while bool(left.any()):
            fewer = upto // _SHARE if before is not None and upto > _BOX_ROWS else 0
            now = (left & (before > fewer) if before is not None else left).nonzero()[:, 0]
            for rows in now.split(_POINTS):
                some = (None if each is None else each[rows] for each in (before, but))
                found[rows] = self._boxes(upto).nearest(self._scaled(z[rows]), m, *some)
            left[now], upto = False, fewer
            left &= before > 0 if before is not None else left
        return found

    def _boxes_help(self, z: Tensor, m: int) -> bool:
        """Whether there are rows and points enough, and columns few enough, for most boxes to be left out."""
        if not self.stationary or len(self.x) <= _BOX_ROWS or not (self._made or len(z) > _BOX_POINTS):
            return False
        if self._share is None:
            some = z[:: max(1, len(z) // _PROBES)]
            self._share = self._boxes(len(self.x)).share(self._scaled(some), m)
        return self._share < _FEW_BOXES

    def _boxes(self, upto: int) -> Boxes:
        """The first rows in boxes, made when first asked for."""
        if upto not in self._made:
            self._made[upto] = Boxes(self.scaled[:upto])
        return self._made[upto]

    def _scaled(self, x: Tensor) -> Float[Tensor, "n d"]:
        return ((x.detach() - self.centre) / self.scale).float()

    def _distances(self, z: Tensor, rows: slice) -> Float[Tensor, "b n"]:
        """What orders some of the rows by their distance from each point."""
        if self.stationary:
            return torch.addmm(self.squares[rows], self._scaled(z), self.scaled[rows].mT, alpha=-2)
        with torch.no_grad():
            return -(self.kernel(z, self.x[rows]) / self.deviation[rows]).abs()


def nearest_before(
    kernel: Kernel,
    x: Float[Tensor, "n d"],
    m: int,
    seed: int = 0,
    n_rows: int | None = None,
    others: bool = False,
    late: bool = False,
) -> Conditionals:
    """The ``m`` nearest rows before each row, in a random order, under the values that the kernel has now.

    Arguments:
        n_rows: of how many rows, chosen at random; of all where it is left out.
        others: whether to take the nearest of all other rows, for the leave-one-out density.
        late: whether to choose among the later half of the order alone, whose rows come after as many others.

    >>> from stratagp import kernels as k
    >>> nearest_before(k.RBF(), torch.tensor([[0.0], [1.0], [3.0]]), 1).rows.sort().values
    tensor([0, 1, 2])
    """
    n, generator = len(x), torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator).to(x.device)
    first = n // 2 if late else 0
    count = min(n - first, n_rows or n)
    spot = torch.rand(1, generator=generator, dtype=torch.float64)  # where the first of equal steps begins
    steps = (torch.arange(count, dtype=torch.float64) + spot) * ((n - first) / count)
    places = (first + steps.long()).clamp_max(n - 1).to(x.device)
    search, points = NeighbourSearch(kernel, x[order]), x[order[places]]
    m = min(m, n - 1)
    found = search.nearest(points, m, but=places) if others else search.nearest(points, m, before=places)
    return Conditionals(order[places], order[found.clamp_min(0)].masked_fill(found < 0, -1), n)


def _smallest(far: Float[Tensor, "b n"], m: int) -> tuple[Float[Tensor, "b m2"], Int[Tensor, "b m2"]]:
    """The ``m`` smallest numbers of each row, or all where there are fewer, and their places.

    Of many numbers only those in the ``m`` groups with the smallest minima are sorted: the others hold none of them.
    """
    n, places = far.shape[1], None
    if n > 4 * m * _GROUP:
        whole = n - n % _GROUP
        lows = far[:, :whole].unflatten(1, (-1, _GROUP)).amin(-1)
        groups = lows.topk(m, largest=False, sorted=False).indices
        inside = (groups[..., None] * _GROUP + torch.arange(_GROUP, device=far.device)).flatten(1)
        rest = torch.arange(whole, n, device=far.device).expand(len(far), -1)
        places = torch.cat([inside, rest], 1)
        far = far.gather(1, places)
    values, found = far.topk(min(m, far.shape[1]), largest=False)
    return values, found if places is None else places.gather(1, found)
