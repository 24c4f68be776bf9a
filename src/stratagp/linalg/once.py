"""Backward passes that give first derivatives only, and say so when asked for more."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from stratagp.errors import UnsupportedError


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass whose result must not be differentiated again.

    torch's ``once_differentiable`` complains only where the incoming gradient itself needs one; in the usual case it
    lets ``create_graph=True`` pass, and the second derivative comes out wrong without a word.
    """

    @wraps(backward)
    def guarded(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise UnsupportedError(
                "this function has first derivatives only; for second ones take differences of its exact gradient, "
                "or call it without create_graph=True"
            )
        return backward(ctx, *grads)

    return guarded
