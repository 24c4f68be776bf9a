"""Checks what every kernel must satisfy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck

from stratagp.errors import UnsupportedError
from stratagp.kernels import Kernel


def check_kernel(kernel: Kernel, x: Any, z: Any = None, *, gradients: bool = True, functions: bool = True) -> None:
    """Assert that a kernel is a covariance function and works in every model.

    Checks symmetry, positive semi-definiteness, ``diag``, the formula ``plain`` if there is one, gradients of
    parameters and inputs by finite differences, float32 against float64, the function axis, a round trip through
    ``state_dict``, and printing. The kernel is not changed.

    Arguments:
        kernel: the kernel to check, ready to evaluate (bound to its columns).
        x, z: points ``n d`` and ``m d`` of the kind it acts on (or lists of objects); ``z`` is a part of ``x`` if None.
        gradients: whether gradients with respect to the points make sense (not for codes or row numbers).
        functions: whether the kernel can carry a function axis.

    >>> from stratagp import kernels as k
    >>> check_kernel(k.RBF() + k.Linear(), torch.randn(6, 2, dtype=torch.float64))
    """
    kernel = copy.deepcopy(kernel)
    x, z = (torch.as_tensor(points) if hasattr(points, "__array__") else points for points in (x, z))
    z = x[: max(1, len(x) // 2)] if z is None else z
    _check_matrix(kernel, x, z)
    _check_plain(kernel, x, z)
    _check_parameter_gradients(kernel, x, z)
    if kernel.takes_tensors:
        if gradients:
            _check_definite_nearby(kernel, x)
            _check_smoothness(kernel, x)
            _check_input_gradients(kernel, x, z)
        _check_single_precision(kernel, x, z)
    if functions and any(True for _ in kernel.named_values()):
        _check_function_axis(kernel, x, z)
    _check_state(kernel, x)


def _check_matrix(kernel: Kernel, x: Any, z: Any) -> None:
    with torch.no_grad():
        full, cross, diagonal = kernel(x), kernel(x, z), kernel.diag(x)
        shape = (*full.shape[:-2], len(x), len(z))
        assert tuple(cross.shape) == shape, f"k(x, z) must have shape {shape}, got {tuple(cross.shape)}"
        scale = float(full.abs().max()) + 1e-300
        _close(cross, kernel(z, x).mT, scale, "k(x, z) is not k(z, x) transposed")
        _close(full, kernel(x, copy.deepcopy(x)), scale, "k(x) and k(x, a copy of x) differ")
        few = x[: max(1, len(x) // 2)]
        _close(kernel(x, few), full[..., : len(few)], scale, "k(x, some rows of x) is not a part of k(x)")
        _close(diagonal, full.diagonal(dim1=-2, dim2=-1), scale, "diag(x) is not the diagonal of k(x, x)")
    _check_definite(kernel, full)


def _check_plain(kernel: Kernel, x: Any, z: Any) -> None:
    """Check the formula for exported graphs, if the kernel has one."""
    with torch.no_grad():
        try:
            plain = kernel.plain(x.double(), z.double()) if isinstance(x, Tensor) else None
        except UnsupportedError:
            return
        if plain is not None:
            cross = kernel(x, z)
            _close(plain, cross, float(cross.abs().max()) + 1e-300, "plain(x, z) is not k(x, z)", 1e-6)


def _check_definite(kernel: Kernel, matrix: Tensor) -> None:
    lowest = float(torch.linalg.eigvalsh((matrix + matrix.mT) / 2).min())
    size = (float(matrix.abs().max()) + 1e-300) * matrix.shape[-1]
    assert lowest > -1e-10 * size, f"{kernel} is not positive semi-definite: eigenvalue {lowest:.3g}"


def _check_definite_nearby(kernel: Kernel, x: Tensor) -> None:
    """Check points between the given ones, near and far: a few rows seldom show that a kernel is indefinite."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(len(x), (2, 80), generator=generator)
    share = torch.rand(80, 1, generator=generator, dtype=torch.float64) ** 3
    x = x.double()
    with torch.no_grad():
        _check_definite(kernel, kernel(x[pairs[0]] + share * (x[pairs[1]] - x[pairs[0]])))


def _check_smoothness(kernel: Kernel, x: Tensor) -> None:
    """Check that ``E|f(x+h) − f(x)|²`` falls like ``h²`` for a differentiable process, not like ``h``."""
    if kernel.differentiable < 1:
        return
    with torch.no_grad():
        step = 1e-3 * (x.double() - x.double().mean(0)).abs().mean()
        moved = [_increments(kernel, x.double(), step * size) for size in (1.0, 0.25)]
        level = kernel.diag(x).max()
    visible = moved[0] > 1e-9 * level
    falls = bool((moved[0] > 8 * moved[1])[visible].all())
    assert falls, f"{kernel} claims {kernel.differentiable} mean-square derivatives, but its functions are rough"


def _increments(kernel: Kernel, x: Tensor, step: Tensor) -> Tensor:
    return torch.stack([_increment(kernel, row[None], step) for row in x])


def _increment(kernel: Kernel, row: Tensor, step: Tensor) -> Tensor:
    both = kernel(torch.cat([row, row + step]))
    return both[..., 0, 0] + both[..., 1, 1] - 2 * both[..., 0, 1]


def _check_parameter_gradients(kernel: Kernel, x: Any, z: Any) -> None:
    free = [p for p in kernel.parameters() if p.requires_grad]
    if free:
        _gradcheck(lambda: kernel(x, z), free, f"parameter gradients of {kernel}")
        _gradcheck(lambda: kernel.diag(x), free, f"parameter gradients of diag of {kernel}")
        matrix = kernel(x, z)
        named = {item.name: item.parameter.raw for item in kernel.named_values() if item.parameter.trainable}
        idle = list(named)
        if named and matrix.requires_grad:
            found = torch.autograd.grad(matrix.sum(), list(named.values()), allow_unused=True)
            idle = [name for name, gradient in zip(named, found, strict=True) if gradient is None]
        assert not idle, f"{kernel} does not use its parameters {', '.join(idle)}"


def _check_input_gradients(kernel: Kernel, x: Tensor, z: Tensor) -> None:
    x, z = x.double().clone().requires_grad_(), (z.double() + 1e-2).clone().requires_grad_()
    _gradcheck(lambda: kernel(x, z), [x, z], f"input gradients of {kernel}")
    kernel(x).sum().backward()
    assert x.grad is not None, f"{kernel} gives no gradient to its points"
    assert x.grad.isfinite().all(), f"{kernel} has non-finite gradients where points coincide"


def _check_single_precision(kernel: Kernel, x: Tensor, z: Tensor) -> None:
    single = copy.deepcopy(kernel).float()
    with torch.no_grad():
        low, high = single(x.float(), z.float()), kernel(x, z)
    assert low.dtype == torch.float32, f"{kernel}.float() returned {low.dtype}"
    _close(low.double(), high, float(high.abs().max()) + 1e-300, "float32 and float64 differ", 2e-4)
    for weights in (torch.ones_like(low), torch.linspace(-1, 1, low.numel()).reshape(low.shape)):
        rough, fine = (_parameter_gradient(one, x, z, weights) for one in (single, copy.deepcopy(kernel)))
        scale = float(fine.abs().max()) + float(high.abs().sum())
        _close(rough, fine, scale, "float32 and float64 gradients differ", 1e-3)


def _parameter_gradient(kernel: Kernel, x: Tensor, z: Tensor, weights: Tensor) -> Tensor:
    free = [p for p in kernel.parameters() if p.requires_grad]
    if not free:
        return torch.zeros(1, dtype=torch.float64)
    matrix = kernel(x, z)
    found = torch.autograd.grad((weights.to(matrix) * matrix).sum(), free, allow_unused=True)
    return torch.cat([g.double().flatten() for g in found if g is not None])


def _check_function_axis(kernel: Kernel, x: Any, z: Any) -> None:
    with torch.no_grad():
        many = copy.deepcopy(kernel).replicate(2)
        try:
            many(x, z)
        except RuntimeError as error:
            raise AssertionError(
                f"the function axis: {kernel} does not broadcast parameters of shape (q, 1, 1) or (q, 1, d): write its "
                f"formula so that they do, or check it with functions=False ({error})"
            ) from error
        own = [item.parameter for item in many.named_values()]
        for parameter in own:
            parameter.raw.data[1] += 0.1
        one, other = copy.deepcopy(kernel), copy.deepcopy(kernel)
        for item, parameter in zip(other.named_values(), own, strict=True):
            item.parameter.raw.data = parameter.raw.data[1].clone()
        scale = float(many(x).abs().max()) + 1e-300
        _close(many(x, z), torch.stack([one(x, z), other(x, z)]), scale, "the function axis changes the matrix")
        _close(many.diag(x), torch.stack([one.diag(x), other.diag(x)]), scale, "the function axis changes the diagonal")
        if isinstance(x, Tensor):
            points = torch.stack([x[: len(z)], z])
            expected = torch.stack([one(x, points[0]), other(x, points[1])])
            _close(many(x, points), expected, scale, "points with a function axis are not matched to their functions")


def _check_state(kernel: Kernel, x: Any) -> None:
    fresh = copy.deepcopy(kernel)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.add_(0.5)
        fresh.load_state_dict(kernel.state_dict())
        assert torch.equal(fresh(x), kernel(x)), f"{kernel} differs after a round trip through state_dict"
    assert type(kernel).__name__ in repr(kernel) or kernel.parts, "a kernel's repr must show its name"


def _gradcheck(function: Callable[[], Tensor], leaves: Sequence[Tensor], what: str) -> None:
    """Check a closure by finite differences, on the scale of its values; gradcheck moves the leaves in place."""
    scale = float(function().detach().abs().max()) + 1e-300
    ok = gradcheck(lambda *_: function() / scale, leaves, atol=1e-5, rtol=1e-4, raise_exception=False)
    assert ok, f"{what} disagree with finite differences"


def _close(actual: Tensor, expected: Tensor, scale: float, message: str, tolerance: float = 1e-10) -> None:
    assert actual.shape == expected.shape, f"{message}: shapes {tuple(actual.shape)} and {tuple(expected.shape)}"
    error = float((actual - expected).abs().max()) / scale
    assert error <= tolerance, f"{message}: relative error {error:.2g}"
