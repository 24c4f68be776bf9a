"""Which rows are held out together, and from which others they are predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.models.observations import Data

FOLDS = 5
MANY_ROWS = 2000  # above which one fold of later rows says enough, for a fifth of the time
_PARTS = 5  # of the rows in their order: each but the first two is predicted from those before it
_KNOWN = 2  # parts that no fold holds
_MOST_LATER = 3000  # rows in the one fold of many rows


@dataclass(frozen=True)
class Folds:
    """The number of each row's fold; −1 of rows that are never held out.

    Arguments:
        number: of each row's fold, from 0 on.
        ahead: whether a fold is predicted from the rows of folds before it alone: those after it are its future.

    >>> folds = Folds(np.array([-1, -1, 0, 1]), ahead=True)
    >>> folds.seen(1).tolist(), folds.seen(2).tolist()  # 2 is the fold of rows that are not known yet
    ([True, True, True, False], [True, True, True, True])
    """

    number: Int[np.ndarray, " n"]
    ahead: bool = False

    @property
    def numbers(self) -> range:
        """The numbers of the folds."""
        return range(int(self.number.max(initial=-1)) + 1)

    @property
    def told(self) -> Bool[np.ndarray, " n"]:
        """Which rows are held out once."""
        return self.number >= 0

    def held(self, fold: int) -> Bool[np.ndarray, " n"]:
        """The rows of a fold."""
        return self.number == fold

    def seen(self, fold: int) -> Bool[np.ndarray, " n"]:
        """The rows that a fold is predicted from."""
        return self.number < fold if self.ahead else self.number != fold

    def last(self, most: int) -> Folds:
        """The last fold alone, all others never held out; of random folds, at most so many rows of it."""
        number = np.where(self.held(self.numbers[-1]), 0, -1)
        number[np.flatnonzero(number == 0)[most:]] = -1
        return Folds(number, self.ahead)


def folds_of(data: Data, n_classes: int, seed: int) -> Folds:
    """Folds that new rows are like: later rows where rows have an order, whole groups where they have groups.

    Else rows are drawn at random, with a share of each class in each fold.
    """
    if data.order is not None:
        folds = later_folds(data.order)
    elif data.groups is not None:
        folds = whole_groups(data.groups, seed)
    else:
        return even_folds(data.codes.cpu().numpy(), seed) if n_classes else random_folds(len(data), seed)
    return _with_all_classes(folds, data.codes.cpu().numpy()) if n_classes else folds


def random_folds(n: int, seed: int) -> Folds:
    """A fold for each row at random, all of one size; refuses fewer than four rows.

    >>> np.bincount(random_folds(20, seed=0).number).tolist()
    [4, 4, 4, 4, 4]
    """
    if n < 4:
        raise InputError(f"trees need at least 4 rows, got {n}: add rows, or use a process")
    return Folds(np.random.default_rng(seed).permutation(np.arange(n) % min(FOLDS, n // 2)))


def even_folds(codes: Int[np.ndarray, " n"], seed: int) -> Folds:
    """A fold for each row, so that classes are spread evenly; −1 of a class's only row, which no fold may miss.

    >>> even_folds(np.array([0, 0, 1, 1, 2]), seed=0).number.tolist()[-1]
    -1
    """
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    order = order[np.bincount(codes)[codes[order]] > 1]
    fold = np.full(len(codes), -1, dtype=np.int64)
    fold[order] = np.arange(len(order)) % max(2, min(FOLDS, len(order) // 2))
    return Folds(fold)


def later_folds(order: Float[Tensor, " n"]) -> Folds:
    """Folds of later and later rows; rows of one place in the order stay together, and NaN counts as early.

    >>> import torch
    >>> later_folds(torch.arange(10.0)).number.tolist()
    [-1, -1, -1, -1, 0, 0, 1, 1, 2, 2]
    """
    places = np.nan_to_num(order.cpu().numpy(), nan=-np.inf)
    n = len(places)
    before = np.searchsorted(np.sort(places), places)  # rows that are earlier
    if not before.any():
        raise InputError("order has one value for all rows, so that no row is later than another: leave it out")
    one = np.array([n - min(n // _PARTS, _MOST_LATER)])
    cuts = one if n > MANY_ROWS else np.arange(_KNOWN, _PARTS) * n // _PARTS
    cuts = np.minimum(cuts, before.max())  # the last rows may all be of one place
    number = np.searchsorted(cuts, before, side="right") - 1
    return Folds(_without_gaps(number), ahead=True)


def whole_groups(groups: Int[Tensor, " n"], seed: int) -> Folds:
    """Folds of whole groups, drawn at random, the largest first, each for the fold with fewest rows.

    >>> import torch
    >>> whole_groups(torch.tensor([0, 0, 1, 1, 2, 2]), seed=0).number.tolist()
    [1, 1, 2, 2, 0, 0]
    """
    names, codes, counts = np.unique(groups.cpu().numpy(), return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError("groups has one value for all rows, so that no group can be held out: leave it out")
    sizes = np.zeros(min(FOLDS, len(names)))
    fold = np.zeros(len(names), dtype=np.int64)
    drawn = np.random.default_rng(seed).permutation(len(names))
    for group in drawn[np.argsort(-counts[drawn], kind="stable")]:
        fold[group] = sizes.argmin()
        sizes[fold[group]] += counts[group]
    return Folds(fold[codes])


def _with_all_classes(folds: Folds, codes: Int[np.ndarray, " n"]) -> Folds:
    """The first row of each class that a fold would not see is never held out."""
    number = folds.number.copy()
    for fold in folds.numbers:
        unseen = np.setdiff1d(codes, codes[replace(folds, number=number).seen(fold)])
        number[[np.flatnonzero(codes == code)[0] for code in unseen]] = -1
    if (number < 0).all():
        raise InputError("no class has enough rows to hold some of them out: leave order and groups out")
    return replace(folds, number=_without_gaps(number))


def _without_gaps(number: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Numbers of folds that all have rows."""
    return np.where(number < 0, -1, np.searchsorted(np.unique(number[number >= 0]), number))
