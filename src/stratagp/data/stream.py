"""Rows of a source as shuffled batches, in bounded memory and in an order that a seed decides.

An epoch puts the parts in random order, which makes one long circle of rows, and cuts it into *lanes* of equal length.
One process reads each lane from beginning to end, one window of rows at a time, and shuffles each window. A batch takes
the next rows of every lane. So each process reads its own files, holds no more than the windows of its lanes, and the
batches of an epoch are the same however many processes share the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stratagp.data.rules import Rules
from stratagp.data.source import MEMORY, Block, Source
from stratagp.data.survey import Survey
from stratagp.errors import InputError
from stratagp.training.world import World

LANES = 8
_SEEDS = 2**62
Encode = Callable[[Block], list[Tensor]]


class Stretch(NamedTuple):
    """The rows ``first`` to ``stop`` (exclusive) among those of a part that training sees."""

    part: int
    first: int
    stop: int


class Stream:
    """Reads the rows of a source that training sees in batches.

    Arguments:
        source: where the rows are.
        rules: which of them training sees.
        seen: the result of a survey.
        encode: turns the rows of a block into tensors: points and targets.
        memory: bytes for the windows of a process; loading the next windows takes as much again.
        lanes: their number; there are more if there are more processes.

    >>> from stratagp.data.source import Arrays
    >>> from stratagp.data.survey import survey
    >>> source, rules = Arrays(np.arange(10.0)[:, None], np.arange(10.0)), Rules()
    >>> tensors = lambda block: [torch.from_numpy(block.X), torch.from_numpy(block.y)]
    >>> stream = Stream(source, rules, survey(source, rules, of_classes=False), tensors)
    >>> batches = stream.batches(5, torch.Generator(), torch.float32, World())
    >>> sorted(int(y) for _, targets in batches.epoch(at_most=2) for y in targets)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        source: Source,
        rules: Rules,
        seen: Survey,
        encode: Encode,
        memory: int = MEMORY,
        lanes: int = LANES,
    ) -> None:
        self.source, self.rules, self.encode = source, rules, encode
        self.kept = [seen.kept[part] for part in range(len(source.parts))]
        self.rows, self.lanes = seen.rows, lanes
        row = seen.sample.settle()
        assert row is not None
        self.row_numbers = sum(values.numel() for values in encode(row.take(np.arange(1))))
        self.memory = memory

    def batches(self, batch_size: int, generator: torch.Generator, dtype: torch.dtype, world: World) -> StreamedBatches:
        """The rows in shuffled batches."""
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        return StreamedBatches(self, min(batch_size, self.rows), generator, dtype, world)

    def read(self, stretch: Stretch) -> Iterator[list[Tensor]]:
        """The tensors of a stretch, one block at a time."""
        whole_part = self.kept[stretch.part] == self.source.parts[stretch.part].rows
        row = stretch.first if whole_part else 0  # counts the rows that training sees
        for block in self.source.blocks(stretch.part, row):
            seen = self.rules.seen(block)
            first, stop = max(stretch.first - row, 0), min(stretch.stop - row, len(seen))
            row += len(seen)
            if first < stop:
                whole = first == 0 and stop == len(seen)
                yield self.encode(seen if whole else seen.take(np.arange(first, stop)))
            if row >= stretch.stop:
                return
        raise InputError(
            f"{self.source.parts[stretch.part].where} has fewer rows than before: do not change files during training"
        )


class StreamedBatches:
    """Batches of a stream; see :class:`~stratagp.training.batches.BatchStream`."""

    def __init__(self, stream: Stream, size: int, generator: torch.Generator, dtype: torch.dtype, world: World) -> None:
        self.stream, self.size, self.generator, self.dtype, self.world = stream, size, generator, dtype, world
        self.rows, self.per_epoch = stream.rows, stream.rows // size
        count = max(stream.lanes, world.size)
        self.sizes = [size // count + (lane < size % count) for lane in range(count)]  # rows of a batch from each lane
        bytes_each = stream.row_numbers * torch.empty(0, dtype=dtype).element_size()
        self.window = max(4 * max(self.sizes), stream.memory // (bytes_each * count))  # rows in a lane's window
        self.seed, self.taken = 0, 0  # of this epoch, and its batches so far
        self._broken_off = False

    def epoch(self, at_most: int) -> Iterator[list[Tensor]]:
        """This process's share of at most ``at_most`` batches of one pass over the data."""
        if not self._broken_off:
            own = int(torch.randint(_SEEDS, (), generator=self.generator))
            self.seed, self.taken = self.world.from_first(own), 0
        self._broken_off = False
        first, last = self.taken, min(self.per_epoch, self.taken + at_most)
        mine = [lane for lane in range(self.world.rank, len(self.sizes), self.world.size) if self.sizes[lane]]
        reader = ThreadPoolExecutor(1)
        try:
            lanes = [_Lane(self, lane, first, reader) for lane in mine] if first < last else []
            for _ in range(first, last):
                self.taken += 1
                parts = [lane.next() for lane in lanes]
                yield _joined(parts) if parts else self._nothing()
        finally:
            reader.shutdown(wait=False, cancel_futures=True)

    def _nothing(self) -> list[Tensor]:
        """No rows, for a process without a lane: there are fewer rows in a batch than processes."""
        part = next(part for part, rows in enumerate(self.stream.kept) if rows)
        return [values[:0].to(self.dtype) for values in next(self.stream.read(Stretch(part, 0, 1)))]

    def stretches(self, lane: int) -> list[Stretch]:
        """The rows of a lane in this epoch.

        The lanes start at a random row of the circle, so each epoch leaves out different rows.
        """
        random = np.random.default_rng(self.seed)
        order = random.permutation(len(self.stream.kept))
        first = int(random.integers(self.rows)) + self.per_epoch * sum(self.sizes[:lane])
        stop = first + self.per_epoch * self.sizes[lane]
        once = self._between(order, first, min(stop, self.rows))
        return once + self._between(order, max(0, first - self.rows), stop - self.rows)  # wraps past the end

    def _between(self, order: np.ndarray, first: int, stop: int) -> list[Stretch]:
        """The rows ``first`` to ``stop`` (exclusive) of the parts in the given order."""
        kept, found = self.stream.kept, list[Stretch]()
        ends = np.cumsum([kept[part] for part in order])
        for place in range(int(np.searchsorted(ends, first, side="right")), len(order)):
            start = int(ends[place]) - kept[order[place]]
            if start >= stop:
                break
            own = Stretch(int(order[place]), max(0, first - start), min(kept[order[place]], stop - start))
            found += [own] if own.first < own.stop else []
        return found

    def state(self) -> dict[str, Any]:
        """The position in the current epoch."""
        return {"seed": self.seed, "taken": self.taken}

    def restore(self, state: dict[str, Any]) -> None:
        """Make the next epoch the rest of the interrupted one."""
        self.seed, self.taken, self._broken_off = state["seed"], state["taken"], True


class _Lane:
    """The rows of a lane, window by window; reads the next window while this one is in use."""

    def __init__(self, batches: StreamedBatches, number: int, first: int, reader: ThreadPoolExecutor) -> None:
        self.size, self.reader = batches.sizes[number], reader
        done, window = first * self.size, batches.window
        self.windows = _windows(batches, number, window, done // window)
        self.present: list[Tensor] = []
        self.used = done % window
        self.coming = reader.submit(next, self.windows)

    def next(self) -> list[Tensor]:
        """The rows of the next batch."""
        found, need = list[list[Tensor]](), self.size
        while need:
            if not self.present or self.used >= len(self.present[0]):
                self.used = self.used if not self.present else 0
                self.present = self.coming.result()
                self.coming = self.reader.submit(next, self.windows, [])
            found.append([values[self.used : self.used + need] for values in self.present])
            need -= len(found[-1][0])
            self.used += len(found[-1][0])
        return _joined(found)


def _windows(batches: StreamedBatches, lane: int, size: int, first: int) -> Iterator[list[Tensor]]:
    """The shuffled windows of a lane from number ``first`` on, of ``size`` rows each (the last has fewer)."""
    waiting, rows, number = list[list[Tensor]](), 0, first
    for stretch in _after(batches.stretches(lane), first * size):
        for block in batches.stream.read(stretch):
            waiting.append([values.to(batches.dtype) for values in block])
            rows += len(block[0])
            while rows >= size:
                whole = _joined(waiting)
                waiting = [[values[size:].clone() for values in whole]]
                window = _shuffled([values[:size] for values in whole], batches, lane, number)
                del whole
                yield window
                del window
                rows, number = rows - size, number + 1
    if rows:
        yield _shuffled(_joined(waiting), batches, lane, number)


def _shuffled(window: list[Tensor], batches: StreamedBatches, lane: int, number: int) -> list[Tensor]:
    random = np.random.default_rng([batches.seed, lane, number])
    order = torch.from_numpy(random.permutation(len(window[0])))
    return [values[order] for values in window]


def _after(stretches: list[Stretch], rows: int) -> Iterator[Stretch]:
    """What is left of stretches after ``rows`` rows."""
    for stretch in stretches:
        length = stretch.stop - stretch.first
        if rows < length:
            yield stretch._replace(first=stretch.first + rows)
        rows = max(0, rows - length)


def _joined(parts: list[list[Tensor]]) -> list[Tensor]:
    return parts[0] if len(parts) == 1 else [torch.cat(columns) for columns in zip(*parts, strict=True)]
