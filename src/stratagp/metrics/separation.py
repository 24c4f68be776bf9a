"""How far apart beliefs are."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from stratagp.errors import InputError
from stratagp.metrics.checks import columns, not_negative, numbers

_LEAST = 1e-12  # the least variance


def bhattacharyya(mean: Any, var: Any, other_mean: Any, other_var: Any) -> Float[np.ndarray, " n"]:
    """``−ln ∫ √(p q)`` of two Gaussians in each row: how far apart they are, 0 if they are the same.

    ``½ ln((v₁ + v₂)/2) − ¼ ln(v₁ v₂) + ¼ (m₁ − m₂)²/(v₁ + v₂)`` for variances ``v``, at least 1e-12.

    >>> bhattacharyya([0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, 1.0])
    array([0. , 0.5])
    """
    m1, v1, m2, v2 = columns(mean=mean, var=var, other_mean=other_mean, other_var=other_var)
    for variance, name in ((v1, "var"), (v2, "other_var")):
        not_negative(variance, name)
    v1, v2 = np.maximum(v1, _LEAST), np.maximum(v2, _LEAST)
    apart = 0.25 * (m1 - m2) ** 2 / (v1 + v2)
    return 0.5 * np.log((v1 + v2) / 2) - 0.25 * (np.log(v1) + np.log(v2)) + apart


def bhattacharyya_margin(probability: Any, mean: Any, var: Any) -> Float[np.ndarray, " n"]:
    """The distance between the Gaussians of the two most probable classes of each row; 0 if they are indistinguishable.

    Arguments:
        probability: ``n c``, which chooses the two.
        mean, var: ``n c``, of the belief about each class: its score or its probability.

    >>> bhattacharyya_margin([[0.1, 0.6, 0.3]], [[5.0, 2.0, 0.0]], [[1.0, 1.0, 1.0]])
    array([0.5])
    """
    parts = [numbers(value, name) for value, name in ((probability, "probability"), (mean, "mean"), (var, "var"))]
    shapes = [part.shape for part in parts]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2 or shapes[0][1] < 2:
        found = ", ".join(f"{name} {shape}" for name, shape in zip(("probability", "mean", "var"), shapes, strict=True))
        raise InputError(f"each argument must have shape (n, classes) with at least two classes, got {found}")
    probable = np.argsort(parts[0], axis=1)[:, :-3:-1]
    means, variances = (np.take_along_axis(part, probable, 1).T for part in parts[1:])
    return bhattacharyya(means[0], variances[0], means[1], variances[1])
