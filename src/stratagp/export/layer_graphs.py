"""Layers as plain torch modules that can be exported: what they share between rows is computed once and is a constant.

Hidden values are averaged over the same quasi-random nodes as in predictions of the library.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.errors import UnsupportedError
from stratagp.export.process_graphs import process_of_layer
from stratagp.layers import Features, Grid, Inducing, RandomFeatures, SideBySide, Stack
from stratagp.layers.inducing_moments import Weights, moments_at
from stratagp.linalg.cells import cells_of, polynomials_at, value_table, variance_table
from stratagp.linalg.interpolation import interpolate, product_weights
from stratagp.linalg.quasi_random import quasi_normal
from stratagp.linalg.triangular import LEAST_VARIANCE
from stratagp.types import Gaussian, Mixture


class LayerGraph(nn.Module):
    """What a layer believes at points ``*s n d``, each part ``*s n q``; ``outputs`` is ``q``."""

    outputs: int

    def keep(self, **values: Any) -> None:
        """Constants of the graph, in double precision."""
        for name, value in values.items():
            self.register_buffer(name, value.detach().double().contiguous().clone())


class _InducingGraph(LayerGraph):
    """A process of inducing points; at uncertain points by the expectations of its kernel."""

    def __init__(self, layer: Inducing, at_beliefs: bool) -> None:
        super().__init__()
        self.outputs = layer.functions
        self.process = None if at_beliefs else process_of_layer(layer)
        self._own: list[Any] = []  # in a list: its parameters are constants of the graph
        if at_beliefs:
            frozen = copy.deepcopy(layer).double().requires_grad_(False)
            self._own = [frozen.kernel, frozen.z, frozen.mean, Weights(*(part.clone() for part in frozen.weights()))]

    def forward(self, x: Any) -> Gaussian | Mixture:
        if isinstance(x, Gaussian):
            kernel, z, mean, weights = self._own
            return moments_at(kernel, z, mean, weights.a, weights.pairs, x.mean, x.var)
        assert self.process is not None
        found: Gaussian | Mixture = self.process(x)
        return found


class _SideBySideGraph(LayerGraph):
    """Processes or random features that see the same rows."""

    def __init__(self, layer: SideBySide) -> None:
        super().__init__()
        self.outputs = layer.functions
        self.parts = nn.ModuleList(layer_graph(part) for part in layer.sequence)

    def forward(self, x: Tensor) -> Gaussian:
        beliefs = [part(x) for part in self.parts]
        return Gaussian(*(torch.cat(part, -1) for part in zip(*beliefs, strict=True)))


class _FeaturesGraph(LayerGraph):
    """A network in evaluation mode."""

    def __init__(self, layer: Features) -> None:
        super().__init__()
        self.outputs = layer.outputs
        self._network = [copy.deepcopy(layer).eval().requires_grad_(False)]
        self.dtype = next((p.dtype for p in layer.parameters()), torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self._network[0](x.to(self.dtype))
        return found.double()


class _GridGraph(LayerGraph):
    """Processes on grids: a table of polynomials for each cell."""

    values: Tensor

    def __init__(self, layer: Grid) -> None:
        super().__init__()
        if layer.conditional:
            raise UnsupportedError(
                "export does not know conditional=True of grids: refit without it, or save the model"
            )
        self.outputs, self.grids = layer.functions, layer.grids
        with torch.no_grad():
            factors = layer.factors()
            values = layer.values(factors, layer.posterior.mean.double())
            scales = [factor @ scale for factor, scale in zip(factors, layer._scales(), strict=True)]
            self.keep(values=value_table(values) if len(self.grids) == 1 else values)
            for axis, scale in enumerate(scales):
                self.keep(**{f"table{axis}": variance_table(scale @ scale.mT)})

    def forward(self, x: Tensor) -> Gaussian:
        columns = x.unflatten(-1, (self.outputs, len(self.grids)))
        var = torch.ones_like(columns[..., 0])
        for axis, grid in enumerate(self.grids):
            row = cells_of(columns[..., axis], grid)
            var = var * polynomials_at(self.get_buffer(f"table{axis}"), *row)
        if len(self.grids) == 1:
            mean = polynomials_at(self.values, *row)
        else:
            mean = interpolate(self.values, *product_weights(columns.transpose(0, 1), self.grids, clamp=True)).mT
        return Gaussian(mean, var.clamp_min(LEAST_VARIANCE))


class _RandomFeaturesGraph(LayerGraph):
    """``Σ w φ(x)`` with the frequencies that predictions have, which were drawn once."""

    omega: Tensor
    weight: Tensor
    spread: Tensor

    def __init__(self, layer: RandomFeatures, count: int) -> None:
        super().__init__()
        self.outputs, self.bias = layer.posterior.shape[0], layer.normal.shape[1] - layer.dim
        self.degree = layer.kernel.degree if layer.is_rectified else None
        with torch.no_grad():
            amplitude = layer.amplitude()
            self.keep(omega=layer.omega_at_nodes(count))
            self.keep(weight=amplitude * layer.posterior.mean, spread=(amplitude * layer.posterior.scale).square())

    def forward(self, x: Tensor) -> Gaussian:
        x = torch.cat([x, torch.ones_like(x[..., : self.bias])], -1) if self.bias else x
        phase = x @ self.omega.mT
        if self.degree is None:
            phi = torch.cat([phase.cos(), phase.sin()], -1)
        else:
            phi = phase.relu() ** self.degree if self.degree else (phase > 0).to(phase)
        return Gaussian(phi @ self.weight.mT, (phi.square() @ self.spread.mT).clamp_min(LEAST_VARIANCE))


class _StackGraph(LayerGraph):
    """Layers one after another; between them the nodes of hidden values, or their moments."""

    def __init__(self, layer: Stack, whole: bool) -> None:
        super().__init__()
        self.moments = layer.propagate == "moments" and not whole
        graphs: list[LayerGraph] = []
        for place, part in enumerate(layer.sequence):
            at_beliefs = self.moments and place > 0 and not isinstance(layer.sequence[place - 1], Features)
            graphs.append(_part_graph(part, at_beliefs, layer.n_nodes))
        self.layers, self.outputs, self.feed_from = nn.ModuleList(graphs), graphs[-1].outputs, layer.feed_from
        widths = [0 if isinstance(part, _FeaturesGraph) else part.outputs for part in graphs[:-1]]
        self.ends = [sum(widths[: i + 1]) for i in range(len(widths))]
        n = layer.n_nodes
        drawn = [quasi_normal(n, end)[:, end - own :] for end, own in zip(self.ends, widths, strict=True) if own]
        self.keep(even=torch.full((n,), 1 / n).double().log())
        if drawn and not self.moments:
            self.keep(nodes=torch.cat(drawn, 1))

    def forward(self, x: Tensor) -> Gaussian | Mixture:
        fed = x if self.feed_from == 0 else None
        h: Any = x
        for place, layer in enumerate(self.layers[:-1]):
            h = self._seen(layer(h), place)
            if fed is not None:
                h = torch.cat([h, fed.expand(*h.shape[:-1], -1)], -1)
            elif place + 1 == self.feed_from:
                fed = h
        return self._averaged(self.layers[-1](h))

    def _seen(self, found: Any, place: int) -> Any:
        """What the next layer sees: values, moments, or values at the nodes of this layer."""
        if self.moments or not isinstance(found, Gaussian):
            return found
        start = self.ends[place - 1] if place else 0
        return found.sample(self.get_buffer("nodes")[:, None, start : self.ends[place]])

    def _averaged(self, found: Gaussian | Mixture) -> Gaussian | Mixture:
        if isinstance(found, Mixture) or found.mean.dim() == 2:
            return found
        return Mixture(self.get_buffer("even"), found)


def _part_graph(layer: Any, at_beliefs: bool, n_nodes: int) -> LayerGraph:
    """The graph of a layer of a stack, which says how many draws a prediction averages over."""
    if isinstance(layer, Inducing):
        return _InducingGraph(layer, at_beliefs)
    return _RandomFeaturesGraph(layer, n_nodes) if isinstance(layer, RandomFeatures) else layer_graph(layer)


def layer_graph(layer: Any, whole: bool = True) -> LayerGraph:
    """The graph of a layer; ``whole`` asks for the distribution and not only its moments, as in ``Chain.predict``."""
    if isinstance(layer, Inducing):
        return _InducingGraph(layer, False)
    if isinstance(layer, Stack):
        return _StackGraph(layer, whole)
    if isinstance(layer, RandomFeatures):
        return _RandomFeaturesGraph(layer, layer.n_samples)
    for kind, graph in _GRAPHS.items():
        if isinstance(layer, kind):
            return graph(layer)
    raise UnsupportedError(f"export does not know layers of type {type(layer).__name__}: save the model instead")


_GRAPHS: dict[type, Any] = {
    Features: _FeaturesGraph,
    Grid: _GridGraph,
    SideBySide: _SideBySideGraph,
}
