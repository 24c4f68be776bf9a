"""Which rows training sees: complete ones that are not held out.

A row is held out if the hash of its *values* and a seed lies below a threshold: equal rows end up on the same side, and
no list of them is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from stratagp.data.columns import is_missing
from stratagp.data.sampling import mixed, row_hashes
from stratagp.data.source import Block, Source
from stratagp.data.tables import is_frame
from stratagp.errors import RowError

DROPPING = "skip such rows with open_source(…, missing='drop')"


class Rules(NamedTuple):
    """Which rows training sees.

    Arguments:
        share: the fraction of rows held out for validation.
        missing: "raise" refuses rows with missing values, "drop" skips them.
        seed: decides which rows are held out, and the sample.

    >>> from stratagp.data.source import Block
    >>> Rules(missing="drop").complete(Block(np.array([[1.0], [np.nan]]), None, "rows", 0)).tolist()
    [True, False]
    """

    share: float = 0.0
    missing: str = "raise"
    seed: int = 0

    def complete(self, block: Block) -> Bool[np.ndarray, " n"]:
        """Which rows have no missing value; refuses incomplete rows unless they may be dropped."""
        gaps = _gaps(block.X)
        gaps = gaps if block.y is None else gaps | _gaps(block.y)
        if self.missing == "raise" and gaps.any():
            place = int(gaps.argmax())
            found = f" has missing or infinite values{_gap_column(block, place)}: fill them, or {DROPPING}"
            raise RowError(f"{block.where}: row ", block.row(place), found)
        return ~gaps

    def held(self, block: Block) -> Bool[np.ndarray, " n"]:
        """Which rows are held out, by their values."""
        if not self.share:
            return np.zeros(len(block), dtype=bool)
        return mixed(row_hashes(block.X) + np.uint64(self.seed)) < np.uint64(int(self.share * 2**64))

    def seen(self, block: Block) -> Block:
        """The rows that training sees."""
        chosen = self.complete(block)
        chosen = chosen & ~self.held(block) if self.share else chosen
        return block if chosen.all() else block.take(np.flatnonzero(chosen))


class Divided(Source):
    """The rows of a source that are held out by their values, or all the others; equal rows lie on the same side.

    Arguments:
        source: all rows.
        share: roughly the fraction held out.
        seed: decides which rows these are.
        held: whether this source has the held-out rows or the others.

    >>> from stratagp.data.source import Arrays
    >>> whole = Arrays(np.arange(1000.0)[:, None], np.arange(1000.0))
    >>> parts = [Divided(whole, 0.2, 0, held) for held in (True, False)]
    >>> [sum(len(block) for block in part.blocks(0)) for part in parts]
    [219, 781]
    """

    def __init__(self, source: Source, share: float, seed: int, held: bool) -> None:
        self.source, self.held, self._rules = source, held, Rules(share, "drop", seed)
        self.parts, self.targets = source.parts, source.targets
        self.settings(source.missing, source.memory)

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of its side in order; a block may be empty. ``first`` counts the rows of both sides."""
        for block in self.source.blocks(part, first):
            yield block.take(np.flatnonzero(self._rules.held(block) == self.held))


def _gap_column(block: Block, place: int) -> str:
    """Which input is missing in a row, if inputs have names."""
    if not is_frame(block.X):
        return ""
    names = [name for name in block.X.columns if _gaps(block.X[[name]].iloc[[place]]).any()]
    return f" in column {names[0]!r}" if names else " in the target"


def _gaps(values: Any) -> Bool[np.ndarray, " n"]:
    """Which rows have a missing or infinite value."""
    if is_frame(values):
        numbers = values.select_dtypes("number").to_numpy(dtype=np.float64, na_value=np.nan)
        gaps: np.ndarray = values.isna().to_numpy().any(1) | np.isinf(numbers).any(1)
        return gaps
    flat = values.reshape(len(values), -1)
    if flat.dtype.kind in "fc":
        return ~np.isfinite(flat).all(1)
    if flat.dtype.kind == "O":
        with suppress(TypeError):  # values without a hash
            if not any(map(is_missing, set(flat.ravel().tolist()))):
                return np.zeros(len(flat), dtype=bool)
        return np.array([any(map(is_missing, row)) for row in flat.tolist()])
    return np.zeros(len(flat), dtype=bool)
