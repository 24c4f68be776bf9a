"""What every kernel must satisfy, as one function to call on it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck

from stratagp.kernels import Kernel


def check_kernel(kernel: Kernel, x: Any, z: Any = None, *, gradients: bool = True, functions: bool = True) -> None:
    """Assert that a kernel is a covariance function and works in every model.

    Checks symmetry, positive semi-definiteness, ``diag``, gradients of parameters and inputs by finite differences,
    float32 against float64, the function axis, a round trip through ``state_dict``, and printing. The kernel is not
    changed.

    Arguments:
        kernel: the kernel to check, ready to evaluate (bound to its columns).
        x, z: points ``n d`` and ``m d`` of the kind it acts on (or lists of objects); ``z`` is a part of ``x`` if None.
        gradients: whether gradients with respect to the points make sense (not for codes or row numbers).
        functions: whether the kernel can carry a function axis.

    >>> from stratagp import kernels as k
    >>> check_kernel(k.RBF() + k.Linear(), torch.randn(6, 2, dtype=torch.float64))
    """
    kernel = copy.deepcopy(kernel)
    z = x[: max(1, len(x) // 2)] if z is None else z
    _check_matrix(kernel, x, z)
    _check_parameter_gradients(kernel, x, z)
    if kernel.takes_tensors:
        if gradients:
            _check_input_gradients(kernel, x, z)
        _check_single_precision(kernel, x, z)
    if functions:
        _check_function_axis(kernel, x, z)
    _check_state(kernel, x)


def _check_matrix(kernel: Kernel, x: Any, z: Any) -> None:
    with torch.no_grad():
        full, cross, diagonal = kernel(x), kernel(x, z), kernel.diag(x)
        scale = float(full.abs().max()) + 1e-300
        _close(cross, kernel(z, x).mT, scale, "k(x, z) is not k(z, x) transposed")
        _close(full, kernel(x, copy.deepcopy(x)), scale, "k(x) and k(x, a copy of x) differ")
        _close(diagonal, full.diagonal(dim1=-2, dim2=-1), scale, "diag(x) is not the diagonal of k(x, x)")
        lowest = float(torch.linalg.eigvalsh((full + full.mT) / 2).min())
    assert lowest > -1e-10 * scale * len(x), f"{kernel} is not positive semi-definite: eigenvalue {lowest:.3g}"


def _check_parameter_gradients(kernel: Kernel, x: Any, z: Any) -> None:
    free = [p for p in kernel.parameters() if p.requires_grad]
    if free:
        _gradcheck(lambda: kernel(x, z), free, f"parameter gradients of {kernel}")
        _gradcheck(lambda: kernel.diag(x), free, f"parameter gradients of diag of {kernel}")


def _check_input_gradients(kernel: Kernel, x: Tensor, z: Tensor) -> None:
    x, z = x.double().clone().requires_grad_(), (z.double() + 1e-2).clone().requires_grad_()
    _gradcheck(lambda: kernel(x, z), [x, z], f"input gradients of {kernel}")
    kernel(x).sum().backward()
    assert x.grad is not None, f"{kernel} gives no gradient to its points"
    assert x.grad.isfinite().all(), f"{kernel} has gradients that are not finite where points coincide"


def _check_single_precision(kernel: Kernel, x: Tensor, z: Tensor) -> None:
    single = copy.deepcopy(kernel).float()
    with torch.no_grad():
        low, high = single(x.float(), z.float()), kernel(x, z)
    assert low.dtype == torch.float32, f"{kernel}.float() returned {low.dtype}"
    _close(low.double(), high, float(high.abs().max()) + 1e-300, "float32 and float64 differ", 2e-4)


def _check_function_axis(kernel: Kernel, x: Any, z: Any) -> None:
    with torch.no_grad():
        many = copy.deepcopy(kernel).replicate(2)
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
            _close(many(x, points), expected, scale, "points with a function axis are not used function by function")


def _check_state(kernel: Kernel, x: Any) -> None:
    fresh = copy.deepcopy(kernel)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.add_(0.5)
        fresh.load_state_dict(kernel.state_dict())
        assert torch.equal(fresh(x), kernel(x)), f"{kernel} differs after a round trip through state_dict"
    assert type(kernel).__name__ in repr(kernel) or kernel.parts, "a kernel's repr must show what it is"


def _gradcheck(function: Callable[[], Tensor], leaves: Sequence[Tensor], what: str) -> None:
    """Finite differences of a closure, on the scale of its values: gradcheck moves the leaves themselves, in place."""
    scale = float(function().detach().abs().max()) + 1e-300
    ok = gradcheck(lambda *_: function() / scale, leaves, atol=1e-5, rtol=1e-4, raise_exception=False)
    assert ok, f"{what} disagree with finite differences"


def _close(actual: Tensor, expected: Tensor, scale: float, message: str, tolerance: float = 1e-10) -> None:
    assert actual.shape == expected.shape, f"{message}: shapes {tuple(actual.shape)} and {tuple(expected.shape)}"
    error = float((actual - expected).abs().max()) / scale
    assert error <= tolerance, f"{message}: relative error {error:.2g}"
