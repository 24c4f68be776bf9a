"""Layers one after another."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.layers.base import Belief, Layer
from stratagp.types import Gaussian, Mixture

PROPAGATIONS = ("samples", "moments")
_NODES = 64  # of uncertain points that a prediction is averaged over


class Stack(Layer):
    """``f = f_L ∘ … ∘ f₁``: what the last layer believes about the outputs of those before.

    Where a layer is uncertain of its outputs, the next one sees samples of them (doubly stochastic, for any kernel), or
    their mean and variance, which it integrates over in closed form. For two layers and a Gaussian likelihood both
    estimate the same bound, the second without noise. Beyond two layers the second takes the distribution between
    layers as Gaussian, and so do other likelihoods; what results need not be a bound.

    Arguments:
        layers: the first one first.
        propagate: "samples" or "moments".
        n_samples: of each row, in training.
        generator: where samples come from.

    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Features, Inducing
    >>> stack = Stack(Features(nn.Linear(3, 2), outputs=2), Inducing(k.RBF(), torch.zeros(4, 2)))
    >>> stack(torch.rand(5, 3)).mean.shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        *layers: Layer,
        propagate: str = "samples",
        n_samples: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not layers:
            raise InputError("a Stack needs at least one layer")
        if propagate not in PROPAGATIONS:
            raise InputError(f"propagate must be one of {', '.join(PROPAGATIONS)}, got {propagate!r}")
        if n_samples < 1:
            raise InputError(f"n_samples must be at least 1, got {n_samples}")
        self.layers = nn.ModuleList(layers)
        self.propagate, self.n_samples, self.generator = propagate, n_samples, generator

    def forward(self, x: Any) -> Belief:
        """The belief of the last layer: ``n q``, or ``s n q`` where hidden layers were sampled."""
        return self._each[-1](self.hidden(x))

    def hidden(self, x: Any) -> Belief:
        """What the last layer sees: the outputs of the layer before it, by their moments or as samples."""
        return self._hidden(x, self.propagate, self._random)

    def predictive(self, x: Any) -> Gaussian | Mixture | Tensor:
        """The belief with uncertain hidden layers integrated out: a mixture over fixed quasi-random nodes.

        The same for each call, and more than the moments that :meth:`forward` may give.
        """
        belief = self._each[-1](self._hidden(x, "samples", _fixed_nodes))
        if isinstance(belief, Gaussian) and belief.mean.dim() == 3:
            count = len(belief.mean)
            return Mixture(belief.mean.new_full((count,), 1 / count).log(), belief)
        return belief

    def kl(self) -> Float[Tensor, ""]:
        """The sum over the layers."""
        return reduce(torch.add, [layer.kl() for layer in self._each])

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One function of each layer, one after another."""
        functions = [layer.draw(generator) for layer in self._each]
        return lambda x: reduce(lambda value, function: function(value), functions, x)

    def _hidden(self, x: Any, propagate: str, noise: Callable[[Tensor, int], Tensor]) -> Any:
        for index, layer in enumerate(self._each[:-1]):
            x = layer(x)
            if isinstance(x, Mixture):
                raise InputError(f"{type(layer).__name__} is not the last layer, but gives a mixture: use one Gaussian")
            if isinstance(x, Gaussian) and propagate == "samples":
                x = x.sample(noise(x.mean, index))
        return x

    def _random(self, like: Tensor, index: int) -> Tensor:
        """Independent normal numbers for each row; the first uncertain layer is sampled ``n_samples`` times."""
        shape = like.shape if like.dim() == 3 else (self.n_samples, *like.shape)
        return torch.randn(shape, generator=self.generator, dtype=like.dtype).to(like.device)

    @property
    def _each(self) -> list[Layer]:
        return [layer for layer in self.layers if isinstance(layer, Layer)]


def _fixed_nodes(like: Tensor, index: int) -> Tensor:
    """Quasi-random normal numbers, the same for all rows; each layer has its own."""
    engine = torch.quasirandom.SobolEngine(like.shape[-1], scramble=True, seed=index)
    uniform = engine.draw(_NODES, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    return torch.special.ndtri(uniform).to(like)[:, None]
