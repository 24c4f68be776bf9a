"""Sizes that a fit does not end for in a reasonable time, refused before any work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import stratagp
from stratagp.errors import InputError

CLASSES = 50  # of models that are no stack: each has a process of its own
MOST_CLASSES = 1000
COLUMNS = 1000  # as a kernel sees them: a category has one for each of its values
_SHOWN = 3


def refuse_sizes(
    columns: Sequence[stratagp.data.Field], classes: np.ndarray | None, target: str, stacked: bool
) -> None:
    """Refuse more classes or more columns than models learn in a reasonable time.

    Arguments:
        classes: of all rows; None where the target is a number.
        stacked: whether the model is a stack, where trees alone compete for many classes.
    """
    most = MOST_CLASSES if stacked else CLASSES
    if classes is not None:
        found, counts = np.unique(classes, return_counts=True)
        if len(found) > most:
            rare = int((counts < 10).sum())
            number = ", or --task regression takes them as numbers" if classes.dtype.kind in "iuf" else ""
            raise InputError(
                f"the target {target!r} has {len(found):,} classes, {rare:,} of them with fewer than 10 rows, and this "
                f"model learns at most {most:,}: join rare classes, or leave rows "
                f"out{number}" + ("" if stacked else "; --model best learns more")
            )
    widths = {each.name: each.distinct if each.kind == "category" else 1 for each in columns if each.used}
    if (width := sum(widths.values())) <= COLUMNS:
        return
    widest = sorted(widths, key=lambda name: -widths[name])[:_SHOWN]
    if widths[widest[0]] > 1:
        shown = ", ".join(f"{name!r} with {widths[name]:,} values" for name in widest if widths[name] > 1)
        raise InputError(
            f"the columns have {width:,} values of categories and numbers beside one another, and at most {COLUMNS:,} "
            f"are learnt: leave out or join categories, of {shown}: --as {widest[0]}=ignore"
        )
    raise InputError(
        f"the table has {width:,} columns to learn from, and at most {COLUMNS:,} are learnt, since each has a "
        "lengthscale of its own: keep those that matter, or their first principal components"
    )
