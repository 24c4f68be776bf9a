"""Features from a neural network, as a layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from stratagp.errors import InputError
from stratagp.layers.base import Layer

_EPS = 1e-8  # added to variances; features of a network with bounded norms may be as small as 1e-3


class Features(Layer):
    """``h(x)`` by any torch module, standardised over the data and bounded, so that a grid can carry them.

    The features pass a batch normalisation without free parameters and ``b tanh(h / b)``, which is the identity for
    most of them and never leaves ``±b``. In training mode the batch's own moments are used, in evaluation mode
    running averages, which dropout before a batch normalisation sets off: :meth:`settle` takes them anew without it.

    Arguments:
        network: a module from rows to ``outputs`` features.
        outputs: how many features.
        bound: ``b``, in standard deviations; None leaves the features as they are.

    >>> layer = Features(nn.Linear(3, 2), outputs=2).eval()
    >>> layer(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, network: nn.Module, outputs: int, bound: float | None = 3.0) -> None:
        super().__init__()
        if bound is not None and not bound > 0:
            raise InputError(f"bound must be positive, or None for features as they are, got {bound}")
        self.network, self.outputs, self.bound = network, outputs, bound
        self.moments = nn.Identity() if bound is None else nn.BatchNorm1d(outputs, eps=_EPS, affine=False)

    def forward(self, x: Any) -> Float[Tensor, "n q"]:
        """The features of rows ``n …``: points, images, or whatever the network takes."""
        features = self.network(x)
        if features.dim() != 2 or features.shape[1] != self.outputs:
            raise InputError(
                f"the network must give {self.outputs} features for each row, (n, {self.outputs}), got "
                f"{tuple(features.shape)}"
            )
        if self.bound is None:
            return features
        scaled: Tensor = self.bound * torch.tanh(self.moments(features) / self.bound)
        return scaled

    @torch.no_grad()
    def settle(self, x: Float[Tensor, "n ..."], chunk: int = 4096) -> None:
        """Take the stored moments of all batch normalisations anew, from rows ``n …`` and with dropout at rest.

        Moments gathered in training are those of units that dropout has thinned out, and of weights that have changed
        since; evaluation mode would use them for whole units. Here each becomes the plain average over chunks of
        the rows, of ``chunk`` rows at most or nearly, in the network's normalisations and in the layer's own. A chunk
        holds every ``c``-th row, so that rows may be sorted. Modes, parameters and gradients stay as they are.
        """
        if chunk < 2 or len(x) < 2:
            raise InputError(f"settle needs x and chunk of two rows or more, got {len(x)} rows and chunk={chunk}")
        chunks = min(-(-len(x) // chunk), len(x) // 2)
        with _gathering(self):
            for first in range(chunks):
                self(x[first::chunks])

    def kl(self) -> Float[Tensor, ""]:
        """Zero: the network is a point."""
        return torch.zeros(())

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """A copy of the layer in evaluation mode."""
        frozen: Callable[[Tensor], Tensor] = copy.deepcopy(self).eval().requires_grad_(False)
        return frozen


@contextmanager
def _gathering(layer: nn.Module) -> Iterator[None]:
    """Empty the stored moments of all batch normalisations, which alone train meanwhile, with a plain average.

    Where the rows fail, the moments are those of before.
    """
    norms = [part for part in layer.modules() if isinstance(part, _BatchNorm) and part.running_mean is not None]
    modes = [(part, part.training) for part in layer.modules()]
    kept = [(norm, norm.momentum, copy.deepcopy(norm.state_dict())) for norm in norms]
    try:
        layer.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum, norm.training = None, True
        yield
    except BaseException:
        for norm, _, state in kept:
            norm.load_state_dict(state)
        raise
    finally:
        for part, mode in modes:
            part.training = mode
        for norm, momentum, _ in kept:
            norm.momentum = momentum
