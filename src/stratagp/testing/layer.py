"""Checks what every layer must satisfy."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.layers import Layer
from stratagp.types import Gaussian


def check_layer(layer: Layer, x: Float[Tensor, "n d"], n_draws: int = 4000, tolerance: float = 5.0) -> None:
    """Assert that a layer's belief, cost and draws are consistent.

    Whole functions drawn from the layer have the mean and variance of its belief at every row (within ``tolerance``
    standard errors); a drawn function gives the same values in each call and for single rows; sample axes pass
    through; the cost is finite and not negative, and gradients are finite.

    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Inducing
    >>> points = torch.linspace(0, 1, 3)[:, None]
    >>> check_layer(Inducing(k.RBF(variance=1.0), points), points, n_draws=500)
    """
    belief = layer(x)
    cost = layer.kl()
    assert cost.dim() == 0, f"kl() must be one number, got shape {tuple(cost.shape)}"
    assert 0 <= float(cost.detach()) + 1e-9 < float("inf"), f"kl() must be finite and not negative, got {cost}"
    function = layer.draw(torch.Generator().manual_seed(0))
    assert torch.equal(function(x), function(x)), "a drawn function must not change between calls"
    torch.testing.assert_close(function(x)[:1], function(x[:1]), msg="a drawn function must not depend on other rows")
    values = belief.mean if isinstance(belief, Gaussian) else belief
    assert isinstance(values, Tensor)
    if isinstance(belief, Gaussian):
        _check_draws(layer, x, belief, n_draws, tolerance)
    twice = layer(torch.stack([x, x]))
    twice = twice.mean if isinstance(twice, Gaussian) else twice
    assert isinstance(twice, Tensor)
    torch.testing.assert_close(twice[1], values, msg="sample axes must pass through a layer")
    spread = belief.var.sum() if isinstance(belief, Gaussian) else 0.0
    (values.sum() + spread + cost).backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in layer.parameters()), "a gradient is not finite"


def _check_draws(layer: Layer, x: Tensor, belief: Gaussian, n_draws: int, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        draws = torch.stack([layer.draw(generator)(x) for _ in range(n_draws)])
        scale = belief.var.sqrt()
        mean_error = ((draws.mean(0) - belief.mean).abs() / (scale / n_draws**0.5 + 1e-12)).max()
        var_error = ((draws.var(0) - belief.var).abs() / (belief.var * (2 / n_draws) ** 0.5 + 1e-12)).max()
    assert mean_error <= tolerance, f"draws miss the mean by {float(mean_error):.1f} standard errors"
    assert var_error <= tolerance, f"draws miss the variance by {float(var_error):.1f} standard errors"
