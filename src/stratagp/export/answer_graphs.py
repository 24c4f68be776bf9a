"""What a fitted model says about points, as graphs: moments of targets, or probabilities of classes.

Likelihoods are traced as they are; those that look at numbers on their way have a plain form here.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.errors import UnsupportedError
from stratagp.export.layer_graphs import layer_graph
from stratagp.export.process_graphs import (
    frozen_kernel,
    process_of_classes,
    process_of_posterior,
    with_intercept,
)
from stratagp.likelihoods import GaussianNoise, Likelihood, Mixed, Ordinal
from stratagp.likelihoods.bernoulli import averaged_sigmoid
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.models import BinaryPosterior, Chain, MulticlassPosterior
from stratagp.models.chain import predict
from stratagp.models.target_posterior import TargetPosterior
from stratagp.types import Gaussian, Mixture

_JITTER = 1e-10  # of the covariance of classes, as in MulticlassPosterior


class TargetsGraph(nn.Module):
    """Mean and variance of standardised targets by processes in closed form, averaged over draws of hyperparameters."""

    noise: Tensor

    def __init__(self, draws: Sequence[Sequence[Any]]) -> None:
        super().__init__()
        parts = [[_posterior_and_noise(belief) for belief in row] for row in draws]
        self.processes = nn.ModuleList(process_of_posterior(posterior) for row in parts for posterior, _ in row)
        noise = torch.stack([torch.stack([level for _, level in row]) for row in parts])
        self.register_buffer("noise", noise.detach().double().clone())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance at points ``n d``, each ``n p``."""
        beliefs = [process(x) for process in self.processes]
        shape = (*self.noise.shape, x.shape[0])
        mean, var = (torch.cat([each[i] for each in beliefs], -1).mT.reshape(shape).mT for i in range(2))
        var = var + self.noise[:, None]
        if len(mean) == 1:
            return mean[0], var[0]
        even = torch.full((len(mean),), 1 / len(mean)).to(mean).log()
        return Mixture(even, Gaussian(mean, var)).moments()


class ChainGraph(nn.Module):
    """Mean and variance of what a chain observes, or the probabilities of its classes."""

    def __init__(self, chain: Chain, of_classes: bool) -> None:
        super().__init__()
        observed = copy.deepcopy(chain.observed).double().requires_grad_(False)
        self.ordinal = isinstance(_given(observed), Ordinal)
        self.layer = layer_graph(chain.layer, not isinstance(observed, GaussianNoise) and not self.ordinal)
        self.of_classes = of_classes
        self._observed = [observed]  # in a list: its parameters are constants of the graph

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Mean and variance at points, each ``n p``, or probabilities, ``n c``."""
        belief, observed = self.layer(x), self._observed[0]
        if self.ordinal:
            return (_ordinal(observed, belief if isinstance(belief, Gaussian) else belief.moments()),)
        mean, var = _observations(observed, belief)
        return (with_both(mean),) if self.of_classes else (mean, var)


class ClassesGraph(nn.Module):
    """Probabilities of the classes of a classifier in closed form, averaged over draws of hyperparameters."""

    def __init__(self, beliefs: Sequence[Any]) -> None:
        super().__init__()
        self.draws = nn.ModuleList(_classes(belief) for belief in beliefs)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """Probabilities at points, ``n c``."""
        return (sum(draw(x) for draw in self.draws) / len(self.draws),)


class _Binary(nn.Module):
    """Two classes, or several that were each asked about against the rest."""

    def __init__(self, posteriors: Sequence[BinaryPosterior]) -> None:
        super().__init__()
        self.processes = nn.ModuleList(process_of_classes(posterior) for posterior in posteriors)
        self.link = posteriors[0].prior.link

    def forward(self, x: Tensor) -> Tensor:
        return with_both(torch.stack([self._probability(process(x)) for process in self.processes], 1))

    def _probability(self, belief: Gaussian) -> Tensor:
        if self.link == "probit":
            return torch.special.ndtr(belief.mean / (1 + belief.var).sqrt()).squeeze(-1)
        return averaged_sigmoid(belief)


class _Softmax(nn.Module):
    """Several classes by Laplace's method: the softmax at nodes of correlated latent values."""

    x: Tensor
    weights: Tensor
    blocks: Tensor
    halves: Tensor

    def __init__(self, posterior: MulticlassPosterior) -> None:
        super().__init__()
        self._kernel = [frozen_kernel(with_intercept(posterior.prior), posterior.x)]
        curvature = posterior.curvature
        halves = torch.linalg.solve_triangular(curvature.factor, curvature.blocks, upper=False)
        constants = {"x": posterior.x, "weights": posterior.weights, "blocks": curvature.blocks, "halves": halves}
        for name, value in constants.items():
            self.register_buffer(name, value.detach().double().contiguous().clone())

    def forward(self, x: Tensor) -> Tensor:
        kernel = self._kernel[0]
        cross = kernel.plain(x, self.x)  # n m, or c n m
        own = kernel.diag(x) - ((cross @ self.blocks) * cross).sum(-1)  # c n
        half = (cross @ self.halves.mT).movedim(0, 1)
        c = len(self.weights)
        covariance = half @ half.mT + torch.diag_embed(own.clamp_min(0).mT) + _JITTER * torch.eye(c).to(x)
        mean = (cross @ self.weights[..., None]).squeeze(-1).mT
        points, log_weights = normal_nodes(c, mean)
        f = mean + (cholesky_graph(covariance) @ points.mT).movedim(-1, 0)
        return (f.softmax(-1) * log_weights.exp()[:, None, None]).sum(0)


def _posterior_and_noise(target: TargetPosterior) -> tuple[Any, Tensor]:
    """The posterior of one target and the variance of its noise, which must not vary."""
    if target.noise is None:
        raise UnsupportedError("export is for noise that does not vary: save the model instead")
    return target.process, target.noise


def _classes(posterior: Any) -> nn.Module:
    """The graph of one posterior of classes."""
    if isinstance(posterior, MulticlassPosterior):
        return _Softmax(posterior)
    return _Binary(posterior if isinstance(posterior, list) else [posterior])


def with_both(p: Tensor) -> Tensor:
    """Probabilities that sum to one, from those of all classes or of the second of two."""
    p = torch.cat([1 - p, p], -1) if p.shape[-1] == 1 else p
    return p / p.sum(-1, keepdim=True)


def _given(observed: Likelihood) -> Likelihood:
    return observed.given if isinstance(observed, Mixed) else observed


def _ordinal(observed: Any, belief: Gaussian) -> Tensor:
    if isinstance(observed, Mixed):
        observed, belief = observed.given, observed.belief(belief)
    found: Tensor = observed.probabilities(belief)
    return found


def _observations(observed: Likelihood, belief: Gaussian | Mixture) -> Gaussian:
    """Mean and variance of observations, as ``Chain.predict`` has them."""
    if not isinstance(observed, Mixed) or observed.by_marginals() or len(observed.offset) >= observed.functions(1):
        return predict(observed, belief)
    if not isinstance(belief, Gaussian):
        raise UnsupportedError("export does not know mixed scores of a mixture: save the model instead")
    root = cholesky_graph(observed.regular_covariance(belief))
    points, log_weights = normal_nodes(root.shape[-1], root)
    scores = observed.scores(belief.mean) + (root @ points.mT).movedim(-1, 0)
    weights, given = log_weights.exp(), observed.given.moments(scores)
    mean = torch.tensordot(weights, given.mean, 1)
    return Gaussian(mean, torch.tensordot(weights, given.var + (given.mean - mean).square(), 1))


def cholesky_graph(matrix: Tensor) -> Tensor:
    """The lower factor of small matrices ``… c c``, a column at a time: graphs know no factorisation.

    >>> cholesky_graph(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    c = matrix.shape[-1]
    below = torch.tril(torch.ones(c, c)).to(matrix)
    columns: list[Tensor] = []
    for j in range(c):
        left = matrix[..., j]
        if columns:
            before = torch.stack(columns, -1)
            left = left - (before @ before[..., j, :, None]).squeeze(-1)
        pivot = left[..., j : j + 1].clamp_min(torch.finfo(matrix.dtype).tiny).sqrt()
        columns.append(left * below[:, j] / pivot)
    return torch.stack(columns, -1)
