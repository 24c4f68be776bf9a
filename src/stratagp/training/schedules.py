"""How the step changes during training: factors on the rate, as plain functions of progress in [0, 1].

Any function of one number will do. Use ``functools.partial`` to set further arguments::

    train(…, schedule=partial(warm_up, share=0.1))
"""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[float], float]


def constant(progress: float) -> float:
    """The constant factor 1.

    >>> constant(0.0), constant(1.0)
    (1.0, 1.0)
    """
    return 1.0


def cosine(progress: float, last: float = 0.02) -> float:
    """A factor on the step that falls from 1 to ``last`` along half a cosine, as ``progress`` goes from 0 to 1.

    >>> cosine(0.0), round(cosine(0.5), 2), round(cosine(1.0), 2)
    (1.0, 0.51, 0.02)
    """
    return last + (1 - last) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def warm_up(progress: float, share: float = 0.05, first: float = 0.05, then: Schedule = cosine) -> float:
    """A linear rise from ``first`` to 1 in a ``share`` of training, then the schedule ``then`` over the rest.

    >>> warm_up(0.0), warm_up(0.05), round(warm_up(1.0), 2)
    (0.05, 1.0, 0.02)
    """
    if progress < share:
        return first + (1 - first) * progress / share
    return then((progress - share) / (1 - share)) if share < 1 else 1.0


def exponential(progress: float, last: float = 0.02) -> float:
    """``last ^ progress``: from 1 to ``last``, by the same ratio in every step.

    >>> exponential(0.0), round(exponential(0.5, last=0.01), 6), exponential(1.0)
    (1.0, 0.1, 0.02)
    """
    return float(last ** min(1.0, progress))


def staircase(progress: float, drops: int = 2, factor: float = 0.1) -> float:
    """``factor ^ ⌊progress · (drops + 1)⌋``: constant over equal parts of training, with ``drops`` drops between them.

    >>> [round(staircase(done), 6) for done in (0.0, 0.3, 0.4, 0.7, 1.0)]
    [1.0, 1.0, 0.1, 0.01, 0.01]
    """
    return float(factor ** min(drops, math.floor(progress * (drops + 1))))
