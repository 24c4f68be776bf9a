"""Rows of many files as a fitted model takes them, some thousand at a time; messages name files and count from 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from stratagp.cli.console import Console
from stratagp.cli.folder import Table
from stratagp.cli.reading import pandas
from stratagp.data import Source, open_source
from stratagp.data.files import ParquetFiles
from stratagp.data.source import Block
from stratagp.errors import InputError


def open_tables(file: str) -> tuple[ParquetFiles, Any]:
    """The rows of a folder, a pattern or an address, and the first of them as a data frame."""
    source = open_source(file)
    if not isinstance(source, ParquetFiles):
        raise InputError(f"{file} holds arrays, whose columns have no names: give CSV or Parquet files")
    return source, next(source.blocks(0)).X


class Batches(Source):
    """Tables of files with the columns of a model.

    Arguments:
        table: what the model was fitted on.
        file: a folder, a pattern or an address.
        with_target: whether the target has to be there too.
    """

    def __init__(self, table: Table, file: str, console: Console, with_target: bool) -> None:
        self.source, first = open_tables(file)
        self.parts, self.targets = self.source.parts, []
        self.files = self.source.files  # which no answers may be written over
        self.names = [each.name for each in table.columns if each.used] + [table.target] * with_target
        above = [name for name in self.names if name in self.source.above and name not in first]
        if above:  # folders above what is predicted, as in zone=1 of a model that has learnt from all zones
            self.source.columns += above
            first = next(self.source.blocks(0)).X
        table.inputs(first, file, console)  # which says what columns are not there, or too many
        if with_target:
            table.targets(first, file)

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in their order; their index counts from 1."""
        for block in self.source.blocks(part, first):
            rows = pandas().RangeIndex(block.first + 1, block.first + len(block) + 1)
            yield replace(block, X=block.X[self.names].set_axis(rows))


class Answerable(Batches):
    """Inputs of a model; rows that it has no answer for are refused."""

    def __init__(self, estimator: Any, table: Table, file: str, console: Console) -> None:
        super().__init__(table, file, console, with_target=False)
        self.estimator, self.table, self.console = estimator, table, console

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in their order, as the model takes them."""
        for block in super().blocks(part, first):
            X = self.table.inputs(block.X, block.where, self.console)
            found = self.table.refused(X, self.estimator)
            if found.why:
                raise InputError(f"{block.where} has {found.why}: mend it, or predict this file alone with --skip")
            yield replace(block, X=self.table.as_learnt(X, self.estimator))
