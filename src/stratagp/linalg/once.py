"""Backward passes with first derivatives only, which raise an error if more are requested."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from stratagp.errors import UnsupportedError


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass whose result must not be differentiated again.

    torch's ``once_differentiable`` raises only if the incoming gradient itself needs one; in the usual case it accepts
    ``create_graph=True`` and silently returns a wrong second derivative.
    """

    @wraps(backward)
    def guarded(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise UnsupportedError(
                "this function has first derivatives only: for second ones take differences of its exact gradient, "
                "or call it without create_graph=True"
            )
        return backward(ctx, *grads)

    return guarded
