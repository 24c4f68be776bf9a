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
    """``h(x)`` by any torch module, standardised over the data and bounded, so that they fit on a grid.

    The features pass through a batch normalisation without free parameters and ``b tanh(h / b)``, which is nearly the
    identity for most of them and never leaves ``±b``. Training mode uses the batch's own moments, evaluation mode
    running averages. Dropout before a batch normalisation biases these: :meth:`settle` takes them again without it.

    Arguments:
        network: a module that maps rows to ``outputs`` features.
        outputs: the number of features.
        bound: ``b``, in standard deviations; None leaves the features as they are.

    >>> layer = Features(nn.Linear(3, 2), outputs=2).eval()
    >>> layer(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, network: nn.Module, outputs: int, bound: float | None = 3.0) -> None:
        super().__init__()
        self._stays = False
        if bound is not None and not bound > 0:
            raise InputError(f"bound must be positive, or None for unbounded features, got {bound}")
        self.network, self.outputs, self.bound = network, outputs, bound
        self.moments = nn.Identity() if bound is None else nn.BatchNorm1d(outputs, eps=_EPS, affine=False)

    def forward(self, x: Any) -> Float[Tensor, "n q"]:
        """The features of rows ``n …``: points, images, or anything that the network takes."""
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
        """Recompute the stored moments of all batch normalisations from rows ``n …``, without dropout.

        Moments from training are those of units thinned by dropout and of weights that have changed since; evaluation
        mode would apply them to whole units. Here each becomes the plain average over chunks of at most (or nearly)
        ``chunk`` rows, in the network's normalisations and in the layer's own. A chunk takes every ``c``-th row, so
        rows may be sorted. Modes, parameters and gradients do not change.
        """
        if chunk < 2 or len(x) < 2:
            raise InputError(f"settle needs at least two rows in x and chunk ≥ 2, got {len(x)} rows and chunk={chunk}")
        chunks = min(-(-len(x) // chunk), len(x) // 2)
        with _gathering(self):
            for first in range(chunks):
                self(x[first::chunks])

    def train(self, mode: bool = True) -> Features:
        """Training mode, unless the features are to stay as they are (:meth:`as_they_are`)."""
        return super().train(mode and not self._stays)

    @contextmanager
    def as_they_are(self) -> Iterator[None]:
        """Within this context training leaves the features alone: no gradients, no dropout, no moments of a batch."""
        free = [p for p in self.parameters() if p.requires_grad]
        self._stays = True
        self.eval().requires_grad_(False)
        try:
            yield
        finally:
            self._stays = False
            for parameter in free:
                parameter.requires_grad_(True)

    def kl(self) -> Float[Tensor, ""]:
        """Zero: the network is a point estimate."""
        return torch.zeros(())

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """A copy of the layer in evaluation mode."""
        frozen: Callable[[Tensor], Tensor] = copy.deepcopy(self).eval().requires_grad_(False)
        return frozen


@contextmanager
def _gathering(layer: nn.Module) -> Iterator[None]:
    """Reset the stored moments of all batch normalisations and let only these train meanwhile, with a plain average.

    If evaluating the rows fails, the earlier moments are restored.
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
