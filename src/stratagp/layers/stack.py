"""Layers one after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.layers.base import Belief, Layer
from stratagp.layers.features import Features
from stratagp.layers.random_features import RandomFeatures
from stratagp.layers.side_by_side import SideBySide
from stratagp.linalg.quasi_random import quasi_normal
from stratagp.types import Gaussian, Mixture

PROPAGATIONS = ("samples", "moments")

Noise = Callable[[Tensor], Tensor]
Ask = Callable[[Layer, Any], Belief]


def _plainly(layer: Layer, x: Any) -> Belief:
    return layer(x)


class Stack(Layer):
    """``f = f_L ∘ … ∘ f₁``: the last layer's belief, given the outputs of those before.

    If a layer is uncertain about its outputs, the next one sees samples of them (doubly stochastic, for any kernel), or
    their mean and variance, over which it integrates in closed form. For two layers and a Gaussian likelihood both
    estimate the same bound, the second without noise. With more layers, or other likelihoods, the second approximates
    the distribution between layers by a Gaussian, and the result need not be a bound.

    Arguments:
        layers: in order, the first one first.
        propagate: "samples" or "moments".
        n_samples: samples of each row in training.
        generator: the source of samples.
        n_nodes: fixed samples of each row that a prediction averages over.
        feed_from: the number of layers before the values that each later layer sees again, as columns after those of
            its own input: 0 for the points themselves; None to feed nothing forward.

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
        feed_from: int | None = None,
        n_nodes: int = 64,
    ) -> None:
        super().__init__()
        if not layers:
            raise InputError("a Stack needs at least one layer")
        if propagate not in PROPAGATIONS:
            raise InputError(f"propagate must be one of {', '.join(PROPAGATIONS)}, got {propagate!r}")
        for name, count in {"n_samples": n_samples, "n_nodes": n_nodes}.items():
            if count < 1:
                raise InputError(f"{name} must be at least 1, got {count}")
        if feed_from is not None and not (0 <= feed_from < len(layers) and propagate == "samples"):
            raise InputError(
                f"feed_from must be at least 0 and below {len(layers)}, the number of layers, with "
                f"propagate='samples', got feed_from={feed_from} and propagate={propagate!r}"
            )
        self.layers, self.feed_from = nn.ModuleList(layers), feed_from
        self.propagate, self.n_samples, self.generator, self.n_nodes = propagate, n_samples, generator, n_nodes

    def forward(self, x: Any) -> Belief:
        """The belief of the last layer: ``n q``, or ``s n q`` if hidden layers are sampled."""
        return self.sequence[-1](self.hidden(x))

    def hidden(self, x: Any) -> Belief:
        """What the last layer sees: the outputs of the layer before it, as moments or as samples."""
        return self._hidden(x, self.propagate, self._random)

    def predictive(self, x: Any) -> Gaussian | Mixture | Tensor:
        """The belief with uncertain hidden layers integrated out: a mixture over fixed quasi-random nodes.

        The same in each call, and more than the moments that :meth:`forward` may return.
        """
        belief = self._at_nodes(self.sequence[-1], self._hidden(x, "samples", _Nodes(self.n_nodes), self._at_nodes))
        if isinstance(belief, Tensor):
            return belief
        parts, log_weights = (belief.parts, belief.log_weights) if isinstance(belief, Mixture) else (belief, None)
        if parts.mean.dim() == (3 if log_weights is None else 4):
            even = -math.log(self.n_nodes) + parts.mean.new_zeros(self.n_nodes)
            if log_weights is None:
                return Mixture(even, parts)
            return Mixture((log_weights[:, None] + even).flatten(), Gaussian(*(part.flatten(0, 1) for part in parts)))
        return belief

    def kl(self) -> Float[Tensor, ""]:
        """The sum over the layers."""
        return reduce(torch.add, [layer.kl() for layer in self.sequence])

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One function of each layer, one after another."""
        functions = [layer.draw(generator) for layer in self.sequence]
        return lambda x: functions[-1](self.through(functions[:-1], x))

    def _at_nodes(self, layer: Layer, x: Any) -> Belief:
        """The belief of a layer, without fresh randomness."""
        return layer.at_nodes(x, self.n_nodes) if isinstance(layer, (RandomFeatures, SideBySide)) else layer(x)

    def _hidden(self, x: Any, propagate: str, noise: Noise, ask: Ask = _plainly) -> Any:
        def seen(layer: Layer, x: Any) -> Any:
            found = ask(layer, x)
            if isinstance(found, Mixture):
                raise InputError(f"{type(layer).__name__} is not the last layer, but gives a mixture: use one Gaussian")
            if isinstance(found, Gaussian) and propagate == "samples":
                return found.sample(noise(found.mean))
            return found

        return self.through([partial(seen, layer) for layer in self.sequence[:-1]], x)

    def through(self, steps: Sequence[Callable[[Any], Any]], x: Any) -> Any:
        """The output of all steps, with values fed forward."""
        fed = x if self.feed_from == 0 else None
        for number, step in enumerate(steps, 1):
            x = step(x)
            if fed is not None:
                x = torch.cat([x, fed.to(x).expand(*x.shape[:-1], -1)], -1)
            elif number == self.feed_from:
                fed = x
        return x

    def _random(self, like: Tensor) -> Tensor:
        """Independent normal numbers for each row; the first uncertain layer is sampled ``n_samples`` times."""
        shape = like.shape if like.dim() == 3 else (self.n_samples, *like.shape)
        return torch.randn(shape, generator=self.generator, dtype=like.dtype).to(like.device)

    @property
    def is_uncertain(self) -> bool:
        """Whether the last layer sees distributions rather than values."""
        parts = [part for part in self.modules() if isinstance(part, RandomFeatures)]
        resampled = any(part.frequencies == "var-resampled" for part in parts)
        return resampled or not all(isinstance(layer, Features) for layer in self.sequence[:-1])

    @property
    def sequence(self) -> list[Layer]:
        """The layers in order, the first one first."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]


class _Nodes:
    """Quasi-random normal numbers, the same for all rows; each layer has its own columns of one sequence.

    Sequences that differ only in their scrambling would be correlated.
    """

    def __init__(self, count: int) -> None:
        self.count, self.used = count, 0

    def __call__(self, like: Tensor) -> Tensor:
        start, self.used = self.used, self.used + like.shape[-1]
        return quasi_normal(self.count, self.used)[:, start:].to(like)[:, None]
