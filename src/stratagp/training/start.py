"""Where training starts: values from the data for parameters of a kernel that the user left unset.

A lengthscale starts at the spread of its columns times √D (in D dimensions typical points lie √D further apart), and
times √F in a product of F kernels with lengthscales, whose distances add up. A period starts at the strongest one in
the targets, and the summands share the variance of standardised targets. Values that the user gave are left alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Anchored, Cached, Kernel, Linear, Periodic, Polynomial, Product, Sum, White
from stratagp.parameters import Parameter

_ROWS = 1000  # examined; more would not change a start value
_OBJECTS = 20  # the same for objects, whose kernels are slow
_PERIODS = 2000  # candidate frequencies for the strongest period


def start_from_data(kernel: Kernel, x: Any, y: Float[Tensor, " n"], variance: float = 1.0) -> Kernel:
    """A copy of ``kernel`` whose unset parameters suit points ``x`` and targets ``y`` of this variance.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 300, 40, dtype=torch.float64)[:, None]
    >>> start_from_data(k.RBF() + k.RBF(lengthscale=2.0), x, x[:, 0].sin())
    RBF(lengthscale=88.8, variance=0.5) + RBF(lengthscale=2, variance=0.5)
    """
    kernel = copy.deepcopy(kernel)
    step = max(1, len(x) // (_ROWS if kernel.takes_tensors else _OBJECTS))
    rows = x[::step]
    with torch.no_grad():
        seen = _points_of_parts(kernel, rows)
        crowd = _factors(kernel)
        for part, points in seen.items():
            _start_lengthscale(part, points, crowd.get(part, 1))
        if any(item.parameter.unset and item.name.endswith("period") for item in kernel.named_values()):
            block = slice(0, _ROWS)  # consecutive rows: a thinned sample would show aliases
            for part, points in _points_of_parts(kernel, x[block]).items():
                _start_period(part, points, y[block])
        reading: dict[Kernel, Kernel] = {
            part.base: part for part in kernel.modules() if isinstance(part, (Anchored, Cached))
        }
        for part, share in variance_carriers(kernel, variance):
            reader = reading.get(part, part)  # its objects are rows now
            _start_variance(part, reader, seen.get(reader, rows), share)
    return kernel


def _points_of_parts(kernel: Kernel, x: Any) -> dict[Kernel, Tensor]:
    """The points that each part of a composed kernel sees: its columns, warped and scaled."""
    seen: dict[Kernel, Tensor] = {}

    def note(part: Any, arguments: tuple[Any, ...]) -> None:
        points = arguments[0]  # nodes of an integral and points with a function axis are not data
        if isinstance(points, Tensor) and points.dim() == 2 and len(points) == len(x):
            seen[part] = points

    kernels = [module for module in kernel.modules() if isinstance(module, Kernel)]
    hooks = [module.register_forward_pre_hook(note) for module in kernels]
    try:
        kernel(x)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _factors(kernel: Kernel, others: int = 0) -> dict[Kernel, int]:
    """For each kernel with a lengthscale, the number of such kernels in its product, including itself.

    >>> from stratagp import kernels as k
    >>> list(_factors(k.RBF().on(0) * k.RBF().on(1) * k.Linear() + k.Matern(1.5)).values())
    [2, 2, 1]
    """
    found = {kernel: others + 1} if _has_lengthscale(kernel) else {}
    for part in kernel.parts:
        beside = _width(kernel) - _width(part) if isinstance(kernel, Product) else 0
        found |= _factors(part, others + beside)
    return found


def _width(kernel: Kernel) -> int:
    """The number of kernels with a lengthscale in a product; for a sum, in its widest part."""
    inner = [_width(part) for part in kernel.parts]
    return int(_has_lengthscale(kernel)) + (sum(inner) if isinstance(kernel, Product) else max(inner, default=0))


def _has_lengthscale(kernel: Kernel) -> bool:
    """Whether its lengthscale is a distance; that of periodic kernels is relative to the period."""
    return isinstance(kernel._modules.get("lengthscale"), Parameter) and not isinstance(kernel, Periodic)


def _start_lengthscale(part: Kernel, x: Float[Tensor, "n d"], factors: int) -> None:
    lengthscale = _open(part, "lengthscale")
    if lengthscale is not None and _has_lengthscale(part):
        spread = spreads(x) * (x.shape[1] * factors) ** 0.5
        _assign(lengthscale, spread if lengthscale.per_column else spread.square().mean().sqrt())


def _start_period(part: Kernel, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> None:
    period = _open(part, "period")
    if period is not None and x.shape[1] == 1:
        _assign(period, strongest_period(x[:, 0], y))


def spreads(x: Float[Tensor, "n d"]) -> Float[Tensor, " d"]:
    """The standard deviation of each column, or 1 if it is constant."""
    spread = x.std(0, correction=0)
    constant = spread <= 1e-12 * x.abs().amax(0)
    return torch.where(constant | (spread == 0), torch.ones_like(spread), spread)


def strongest_period(x: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> float:
    """The period of the sine wave that explains most of ``y`` at points ``x``, even if they are unevenly spaced.

    Least squares of a sine, a cosine and a straight line, for periods from the range of ``x`` down to two typical gaps.

    >>> x = torch.linspace(0, 10, 100, dtype=torch.float64)
    >>> round(strongest_period(x, torch.sin(2 * torch.pi * x / 0.7)), 2)
    0.7
    """
    place = x.double().unique()
    if len(place) < 4:
        return 1.0
    width = float(place[-1] - place[0])
    gap = float(place.diff().median())
    frequency = torch.linspace(1 / width, 0.5 / max(gap, width / _PERIODS), _PERIODS, dtype=torch.float64)
    trend = torch.stack([torch.ones_like(x), x], 1).double()
    residual = _without(trend, y.double()[:, None])
    power = torch.empty_like(frequency)
    for i, f in enumerate(frequency):
        angle = 2 * torch.pi * f * x.double()
        wave = torch.stack([angle.cos(), angle.sin()], 1)
        power[i] = residual.square().sum() - _without(wave, residual).square().sum()
    return float(1 / frequency[power.argmax()])


def _without(basis: Float[Tensor, "n p"], values: Float[Tensor, "n q"]) -> Float[Tensor, "n q"]:
    """The residuals of ``values`` after least squares on ``basis``."""
    q, _ = torch.linalg.qr(basis)
    return values - q @ (q.mT @ values)


def variance_carriers(kernel: Kernel, share: float = 1.0) -> Iterator[tuple[Kernel, float]]:
    """The kernels whose variance has the units of the target squared, and each one's initial share of the total.

    Every summand has its share; in a product one factor carries it, the first that is learnt, and the others have no
    units.
    """
    if isinstance(kernel, Sum):
        for part in kernel.parts:
            yield from variance_carriers(part, share / len(kernel.parts))
    elif isinstance(kernel, Product):
        able = [part for part in kernel.parts if any(variance_carriers(part))]
        learnt = [part for part in able if any(_variance(carrier).trainable for carrier, _ in variance_carriers(part))]
        yield from variance_carriers((learnt or able)[0], share) if able else ()
    elif isinstance(kernel._modules.get("variance"), Parameter):
        yield kernel, share
    else:
        for part in kernel.parts:
            yield from variance_carriers(part, share)


def _variance(kernel: Kernel) -> Any:
    return kernel._modules["variance"]


def _start_variance(part: Kernel, reader: Kernel, x: Any, share: float) -> None:
    variance = _open(part, "variance")
    if variance is None:
        return
    if isinstance(part, (Linear, Polynomial)):
        level = x.square().mean(0) * x.shape[1]
        _assign(variance, share / torch.where(level > 0, level, 1.0) if variance.per_column else share / level.mean())
    elif isinstance(part, White):
        _assign(variance, share)
    else:
        level = reader.diag(x).mean() / variance.natural.mean()
        _assign(variance, (share / level).expand(variance.natural.shape))


def _open(part: Kernel, name: str) -> Parameter | None:
    found = part._modules.get(name)
    return found if isinstance(found, Parameter) and found.unset and found.trainable else None


def _assign(parameter: Parameter, value: Any) -> None:
    value = np.asarray(value, dtype=float)
    if np.isfinite(value).all() and (value > 0).all():
        parameter.assign(value)
        parameter.unset = True  # still not the user's choice
