"""Rows of files that are held out for the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from stratagp.cli.console import Console
from stratagp.data import Source
from stratagp.data.files import ParquetFiles
from stratagp.data.rules import Divided

SALT = 1 << 32  # of the seed, so that validation of a fit holds out others
Opener = Callable[[str], ParquetFiles]


def hold_out(
    whole: ParquetFiles, opened: Opener, options: dict[str, Any], console: Console
) -> tuple[Source, Source | None]:
    """Rows for training and for the test: whole files of several, else rows by a hash."""
    every = opened(options["file"])
    if not options["test"]:
        return every, None
    held = set(_files_held_out(whole, options))
    if not held:
        share, seed = options["test"], options["seed"] + SALT
        console.note(f"{share:.3g} of the rows are held out for the test, by a hash of their values")
        return Divided(every, share, seed, held=False), Divided(every, share, seed, held=True)
    console.note(f"held out for the test: {len(held)} of {len(whole.files)} files")
    return every.only(set(whole.files) - held), every.only(held)


def _files_held_out(whole: ParquetFiles, options: dict[str, Any]) -> list[str]:
    """Files for the test, none of which has a class that no file left has; none where there are no such."""
    files = whole.files
    if len(files) < 2 or "://" in options["file"]:
        return []
    order = [files[i] for i in np.random.default_rng(options["seed"]).permutation(len(files))]
    most = min(len(files) - 1, max(1, round(options["test"] * len(files))))
    if options["task"] == "regression":
        return order[:most]
    classes, held = _classes(whole, options["target"]), list[str]()
    left = Counter(label for own in classes.values() for label in own)
    for file in order:
        if len(held) < most and classes[file] and all(left[label] > 1 for label in classes[file]):
            held.append(file)
            left.subtract(classes[file])
    return held


def _classes(whole: ParquetFiles, target: str) -> dict[str, set[Any]]:
    """The classes in each file, of which the target alone is read."""
    targets, found = copy(whole), {file: set[Any]() for file in whole.files}
    targets.columns = [target]
    for number, part in enumerate(whole.parts):
        for block in targets.blocks(number):
            found[part.where] |= set(block.X[target].dropna().unique())
    return found
