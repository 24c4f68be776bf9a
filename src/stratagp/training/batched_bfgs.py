"""BFGS for many small problems of one kind at once: row ``i`` minimises its own ``f(xᵢ, i)`` of a few numbers.

Each row has its own inverse curvature ``H``, direction ``d = −H∇f`` and step ``t``. A sweep evaluates
``f(x + t d)`` of all rows that are not done yet, in batches. A row whose step is good moves, and with
``s = t d``, ``y`` the change of the gradient and ``ρ = 1/sᵀy``

    H ← (I − ρ s yᵀ) H (I − ρ y sᵀ) + ρ s sᵀ        where sᵀy > 0;

a row whose step is bad tries a shorter one in the next sweep. So no row waits for another or, except by rounding,
depends on it. A step is good if ``f`` falls by a fraction of what its slope promises (Armijo). Close to a minimum,
where rounding hides the decrease, it is good if the slope at its end is less steep (Hager and Zhang 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Rowwise = Callable[[Tensor, Tensor], Tensor]  # maps points k p and their row numbers k to values k

_SHARE = 1e-4  # of the promised decrease
_ROUNDING = 1e-8  # relative rises of f that may be rounding
_LEFT = 0.8  # largest slope at the end of a step, relative to that at its start
_SHORTEST = 1e-12  # steps, relative to x, below which a row is done
_FLAT = 1e-2  # gradient below which a row stopped by rounding counts as a minimum, for curvatures of about one


class RowMinima(NamedTuple):
    """Where each row ended."""

    x: Float[Tensor, "n p"]
    value: Float[Tensor, " n"]
    converged: Bool[Tensor, " n"]


class _Problems(NamedTuple):
    """The state of some rows; ``H`` is the identity before the first step, while ``fresh``."""

    x: Float[Tensor, "n p"]
    value: Float[Tensor, " n"]
    gradient: Float[Tensor, "n p"]
    H: Float[Tensor, "n p p"]
    fresh: Bool[Tensor, " n"]
    direction: Float[Tensor, "n p"]
    step: Float[Tensor, " n"]


def minimise_rows(
    f: Rowwise, start: Float[Tensor, "n p"], max_sweeps: int = 200, tolerance: float = 1e-8, size: int = 4096
) -> RowMinima:
    """The minimum of each row from its start, in at most ``max_sweeps`` evaluations.

    Arguments:
        f: a differentiable function of points ``k p`` and their row numbers ``k``, with values ``k``.
        start: finite starting points; best in coordinates with curvatures of the order of one.
        max_sweeps: evaluations of a row after the first.
        tolerance: a row is done when no entry of its gradient exceeds it, or no step improves it.
        size: the number of rows evaluated at once.

    >>> centre = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> minimise_rows(lambda x, i: (x - centre[i]).square().sum(1), torch.zeros(2, 2)).x
    tensor([[1., 2.], [3., 4.]])
    """
    x = start.detach().clone()
    value, gradient = _evaluate(f, x, torch.arange(len(x), device=x.device), size)
    eye = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    step = 1 / torch.linalg.vector_norm(gradient, dim=1).clamp_min(1)
    fresh = torch.ones_like(value, dtype=torch.bool)
    state = _Problems(x, value, gradient, eye.repeat(len(x), 1, 1), fresh, -gradient, step)
    going = (gradient.abs().amax(1) > tolerance) & value.isfinite()
    for _ in range(max_sweeps):
        rows = going.nonzero().squeeze(1)
        if not len(rows):
            break
        new = _sweep(f, _Problems(*(part[rows] for part in state)), rows, size)
        for part, changed in zip(state, new, strict=True):
            part[rows] = changed
        reach = new.step * new.direction.abs().amax(1)
        moves = reach > _SHORTEST * new.x.abs().amax(1).clamp_min(1)
        going[rows] = moves & (new.gradient.abs().amax(1) > tolerance)
    flat = state.gradient.abs().amax(1) <= max(_FLAT, tolerance)
    return RowMinima(state.x, state.value, flat & state.value.isfinite())


def _evaluate(
    f: Rowwise, x: Float[Tensor, "n p"], rows: Int[Tensor, " n"], size: int
) -> tuple[Float[Tensor, " n"], Float[Tensor, "n p"]]:
    """Values and gradients, a bounded number of rows at a time: the gradient of a sum contains that of each term."""
    values, gradients = [], []
    for points, numbers in zip(x.split(size), rows.split(size), strict=True):
        free = points.detach().requires_grad_()
        with torch.enable_grad():
            value = f(free, numbers)
            gradients += torch.autograd.grad(value.sum(), free)
        values.append(value.detach())
    return torch.cat(values), torch.cat(gradients)


def _sweep(f: Rowwise, old: _Problems, rows: Int[Tensor, " n"], size: int) -> _Problems:
    """One evaluation of each row: those with a good step move on, the others shorten it."""
    moved = old.step[:, None] * old.direction
    x = old.x + moved
    value, gradient = _evaluate(f, x, rows, size)
    slope = (old.gradient * old.direction).sum(1)
    good = _is_good(old, value, gradient, slope)
    H, fresh = _updated(old, moved, gradient - old.gradient)
    direction = -(H @ gradient[..., None]).squeeze(-1)
    lost = (direction * gradient).sum(1) >= 0  # a direction spoilt by rounding
    direction = torch.where(lost[:, None], -gradient, direction)
    H = torch.where(lost[:, None, None], torch.eye(H.shape[-1]).to(H), H)
    step = torch.where(fresh | lost, 1 / torch.linalg.vector_norm(gradient, dim=1).clamp_min(1), 1.0)
    new = _Problems(x, value, gradient, H, fresh | lost, direction, step)
    kept = old._replace(step=_shorter(old, value, slope))
    return _Problems(*(_choose(good, a, b) for a, b in zip(new, kept, strict=True)))


def _is_good(old: _Problems, value: Tensor, gradient: Tensor, slope: Tensor) -> Bool[Tensor, " n"]:
    falls = value <= old.value + _SHARE * old.step * slope
    level = value <= old.value + _ROUNDING * old.value.abs().clamp_min(1)
    end = (gradient * old.direction).sum(1)
    return (falls | (level & (end.abs() <= -_LEFT * slope))) & gradient.isfinite().all(1)


def _shorter(old: _Problems, value: Tensor, slope: Tensor) -> Float[Tensor, " n"]:
    """The minimum of the fitted parabola, between a tenth and a half of the failed step."""
    rise = value - old.value - old.step * slope
    parabola = torch.nan_to_num(-slope * old.step / (2 * rise), nan=0.1)  # not finite: the point was invalid
    return old.step * parabola.clamp(0.1, 0.5)


def _updated(
    old: _Problems, s: Float[Tensor, "n p"], y: Float[Tensor, "n p"]
) -> tuple[Float[Tensor, "n p p"], Bool[Tensor, " n"]]:
    """``H`` after a step, and whether it is still the identity; the first update starts from ``(sᵀy/yᵀy) I``."""
    curvature, square = (s * y).sum(1), y.square().sum(1)
    usable = curvature > 1e-10 * (s.square().sum(1) * square).sqrt()
    safe = torch.where(usable, curvature, 1.0)
    scale = torch.where(old.fresh, safe / torch.where(usable, square, 1.0), 1.0)
    eye = torch.eye(s.shape[1], dtype=s.dtype, device=s.device)
    left = eye - s[:, :, None] * y[:, None, :] / safe[:, None, None]
    H = left @ (scale[:, None, None] * old.H) @ left.mT + s[:, :, None] * s[:, None, :] / safe[:, None, None]
    return _choose(usable, H, old.H), old.fresh & ~usable


def _choose(mask: Bool[Tensor, " n"], yes: Tensor, no: Tensor) -> Tensor:
    return torch.where(mask.reshape(-1, *[1] * (yes.dim() - 1)), yes, no)
